"""The Python in what a model sent as code. Pure."""

from __future__ import annotations

import re

from nbagent.core.text import UNUSABLE

_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[ \t]*+[\w.+-]*+[ \t]*+\Z")
"""The first line of a fence. Nothing in it is read twice: with 100,000 blanks that would take a minute."""


def runnable(code: str) -> tuple[str, str]:
    """The Python in what a model sent as code, and why it can't be run (empty if it can).

    A Markdown fence around the whole is taken off. A character that Python source can't hold is reported rather than
    removed: the cell that runs must be the cell that the model wrote.
    """
    source = _without_fence(code)
    if not source.strip():
        return "", "Not run: the code is empty."
    if unusable := UNUSABLE.search(source):
        line = source.count("\n", 0, unusable.start()) + 1
        name = "a NUL character" if unusable[0] == "\0" else "half of a surrogate pair"
        escape = "\\x00" if unusable[0] == "\0" else f"\\u{ord(unusable[0]):04x}"
        return "", f"Not run: line {line} has {name}, which Python source can't hold. Write {escape} instead."
    return source, ""


def _without_fence(code: str) -> str:
    """The code inside of a Markdown fence, without what stands behind the fence; code without one as it is."""
    lines = code.strip().split("\n")
    fence = _FENCE.match(lines[0])
    if fence is None:
        return code
    ends = [number for number, line in enumerate(lines) if number and line.strip() == fence[1]]
    return "\n".join(lines[1 : ends[-1]] if ends else lines[1:])
