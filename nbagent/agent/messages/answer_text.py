"""The model's answer as a person sees it. Pure."""

from __future__ import annotations

import re

# Bounded repetitions: an answer of a hundred thousand brackets must not take minutes.
_IMAGE = re.compile(r"!\[[^\]\n]{0,500}\](?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,2000}\)|\[[^\]\n]{0,200}\])")
_IMG = re.compile(r"<img\b[^<>]{0,5000}>", re.IGNORECASE)
_LINK = re.compile(r"\[([^\]\n]{0,500})\]\(<?((?:sandbox:|file:|attachment:|/tmp/|/workspace/)[^)\n>]{0,1000})>?\)")
_CODE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)[^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def clean_answer(text: str) -> str:
    """The answer without images, and with file names in place of links into the sandbox.

    Neither would lead a person anywhere: they see figures in the notebook's cells, and get the files. Code stays.
    """
    parts = _CODE.split(text)
    for index in range(0, len(parts), 2):  # the odd ones are code
        part = _IMG.sub("", _IMAGE.sub("", parts[index]))
        part = _LINK.sub(lambda link: f"`{link[2].split('?')[0].rstrip('/').rpartition('/')[2] or link[1]}`", part)
        part = re.sub(r"\bsandbox:(?=/)", "", part)
        parts[index] = re.sub(r"\n{3,}", "\n\n", re.sub(r"(?<![ \t])[ \t]+(?=\n)", "", part))
    cleaned = "".join(parts).strip()
    return cleaned or ("The answer is in the outputs of the cells." if text.strip() else "")
