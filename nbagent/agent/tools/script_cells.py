"""The cells in which the three sandbox tools run programs, and write and edit files. Pure.

They are plain Python that runs in any notebook, without nbagent: the person reads them, and a re-run does it all again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbagent.core.text import one_line

WIDTH = 100
"""Characters up to which a command stays on one line."""
_PLAIN_PATH = re.compile(r"(?:/tmp|/tmp/output|/workspace)/[\w.+-]+", re.ASCII)
"""A file in a folder that always exists, with a name that IPython's magics take as it is."""
_PROMPT = re.compile(r"^[^\S\n]*(?:>>>|\.\.\.|(?:\[\w+\] )?In ?\[)", re.MULTILINE)
"""Text that IPython may take for a prompt copied with the code, and remove."""
_MAGIC = re.compile(r"^[^\S\n]*[!%?]|\?[^\S\n]*$", re.MULTILINE)
"""Lines that IPython may take for its own commands."""
_PIP = re.compile(r"^[^\S\n]*!.*pip", re.MULTILINE)
"""Lines that nbagent's kernel takes for an install, in whatever cell."""


def run_program(command: Sequence[str], *, why: str = "") -> str:
    """The cell that runs a program; its value is the exit code."""
    words = [repr(word) for word in command]
    line = f"[{', '.join(words)}]"
    if len(line) > WIDTH:
        line = "[\n" + "".join(f"    {word},\n" for word in words) + "]"
    return f"{_comment(why)}import subprocess\n\nsubprocess.run({line}).returncode"


def write_file(path: str, content: str, *, why: str = "") -> str:
    """The cell that makes a file's folder, and writes exactly these bytes to the file."""
    if _PLAIN_PATH.fullmatch(path) and _is_plain(content) and not _PROMPT.search(content) and not _PIP.search(content):
        return f"%%writefile {path}\n{content}"
    file = f"Path({path!r})"
    return (
        f"{_comment(why)}from pathlib import Path\n\n"
        f"{file}.parent.mkdir(parents=True, exist_ok=True)\n"
        f"{file}.write_bytes({literal(content)}.encode())"
    )


def edit_file(path: str, old: str, new: str, *, why: str = "") -> str:
    """The cell that replaces the first occurrence of a text in a file."""
    file = f"Path({path!r})"
    return (
        f"{_comment(why)}from pathlib import Path\n\n"
        f"text = {file}.read_bytes().decode()\n"
        f"text = text.replace(\n    {literal(old)},\n    {literal(new)},\n    1,\n)\n"
        f"{file}.write_bytes(text.encode())"
    )


def _comment(why: str) -> str:
    """The purpose as the cell's first line."""
    text = one_line(why, WIDTH)
    return f"# {text}\n" if text else ""


def _is_plain(text: str) -> bool:
    """Whether a text consists of whole lines of visible characters."""
    return text.endswith("\n") and all(line.replace("\t", "").isprintable() for line in text.split("\n"))


def literal(text: str) -> str:
    """A string literal with a line for each line of the text; none of them means anything to IPython."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if len(lines) < 2:
        return repr(text)
    special = "\\" in text or "'''" in text or text.endswith("'")
    if special or not _is_plain(f"{text}\n") or _MAGIC.search(text) or _PROMPT.search(text):
        return "(\n" + "".join(f"    {line!r}\n" for line in lines) + ")"
    return f"'''\\\n{text}'''"
