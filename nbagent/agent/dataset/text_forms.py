"""Writes names, values and sizes in lines of the prompt.

Names and values are written as JSON strings, so that none can end the section or look like a heading. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

from nbagent.core.text import visible

VALUE, NAME = 40, 100
"""Characters of a value, and of a column's name, which code must have whole."""
_ENDS = re.compile(r"[.!?;](?=\s)|\n")
"""Where a sentence or a line ends."""


def times(count: int) -> str:
    """How many files or tables have a name, behind it; nothing for one."""
    return f" ×{count:,}" if count > 1 else ""


def clipped(text: str, room: int) -> str:
    """A text that is longer than its room up to the last sentence or line that ends in it, or else its last word."""
    if len(text) <= room:
        return text
    ends = [each.end() for each in _ENDS.finditer(text[:room])]
    end = ends[-1] if ends and 2 * ends[-1] > room else max(text.rfind(" ", room // 2, room), 0) or room
    return f"{text[:end].rstrip()}…"


def size_of(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def plain(value: Any) -> str:
    """A value without quotation marks, a number in seven digits."""
    short = float(f"{value:.7g}") if isinstance(value, float) and abs(value) < 1e15 else value
    return quote(short).strip('"')


def quote(value: Any, *, limit: int = VALUE) -> str:
    """A value as JSON on one line: a number or a truth value as it is, anything else as a shortened string."""
    if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**limit):
        return json.dumps(value)
    text = str(value).encode("utf-8", "replace").decode()
    shortened = text if len(text) <= limit else f"{text[:limit]}…"
    # `<` could otherwise close the section.
    return visible(json.dumps(shortened, ensure_ascii=False).replace("<", "\\u003c"))
