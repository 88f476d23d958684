"""An output's text: the most readable form of a MIME bundle, the text of HTML, the size of an image. Pure.

Hostile outputs are read in one pass, and as far as their text is ever looked at.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import json
import re
import struct
from collections.abc import Mapping
from typing import Any

from nbagent.core.text import joined

LOOKED_AT = 1024 * 1024
"""Characters at the start and at the end of a text that are read: only a part of these is ever shown."""
MARKUP = 256 * 1024
"""Characters of HTML that are looked at for their text, of which 10 KB are shown: many small tags take time."""
IMAGE_HEAD = 512 * 1024
"""Characters of an image's base64, a multiple of four, in which its size is looked for."""

# What looks like a tag ends at the next `<`, even in an attribute: else each of a million would be read to the end.
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][\w:-]*+)(?>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*)>|<!--.*?(?:-->|\Z)|<[!?][^<>]*+>""",
    re.DOTALL,
)
_LINES = frozenset({"br", "p", "div", "tr", "li", "table", "h1", "h2", "h3"})


def text_of_bundle(data: Mapping[str, Any]) -> str | None:
    """A MIME bundle as text, from its most readable form; None if it has none."""
    for mime in ("text/plain", "text/markdown", "text/latex"):
        if mime in data:
            return joined(data[mime])
    if "application/json" in data:
        return start_of_json(data["application/json"])
    return text_of_html(joined(data["text/html"])) if "text/html" in data else None


def start_of_json(value: Any) -> str:
    """The first `LOOKED_AT` characters of a value as JSON."""
    found: list[str] = []
    left = LOOKED_AT
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        found.append(piece)
        left -= len(piece)
        if left < 0:
            return "".join([*found, " [… more JSON not shown …]"])
    return "".join(found)


def text_of_html(markup: str) -> str:
    """The text that an HTML fragment shows, with each row of a table on a line.

    Python's own parser would need hours for hostile markup.
    """
    parts: list[str] = []
    at = 0
    while (found := _TAG.search(markup, at, MARKUP)) is not None:
        parts.append(_visible(markup[at : found.start()]))
        at = found.end()
        name = (found["name"] or "").lower()
        if name in ("script", "style") and not found["end"]:
            closed = re.compile(rf"</{name}", re.IGNORECASE).search(markup, at, MARKUP)
            at = closed.start() if closed else min(MARKUP, len(markup))
        elif found["end"]:
            parts.append(" | " if name in ("td", "th") else "")
        elif name in _LINES:
            parts.append("\n")
    parts.append(_visible(markup[at:MARKUP]))
    lines = (line.strip().removesuffix("|").strip() for line in "".join(parts).split("\n"))
    text = "\n".join(line for line in lines if line)
    return text + (f"\n[… {len(markup) - MARKUP:,} characters of HTML not read …]" if len(markup) > MARKUP else "")


def _visible(text: str) -> str:
    """Text between two tags as a browser shows it."""
    with contextlib.suppress(ValueError):  # the number of a character with thousands of digits
        text = html.unescape(text)
    return re.sub(r"\s+", " ", text)


def image_size(encoded: str) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG or JPEG in base64; None if it is neither."""
    try:
        # A header is at the start, though in a photograph behind a preview or two.
        data = base64.b64decode(encoded[:IMAGE_HEAD], validate=True)
    except (binascii.Error, ValueError):
        return None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    at = 2
    while data.startswith(b"\xff\xd8") and at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        # SOF0 to SOF15 hold the size; C4, C8 and CC in that range are tables (ITU T.81, table B.1).
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
