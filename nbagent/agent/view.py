"""What the model sees of a cell. Pure: no kernel, no LangChain.

The model's view is budgeted and honest: whatever is left out is counted where it is missing. The notebook keeps the
cell's outputs as they are.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import json
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import contained
from nbagent.core.text import one_line, plain

if TYPE_CHECKING:
    from nbagent.core.events import Cell, Output, Package

STREAM_BYTES = 10 * 1024
"""Of each stream, result and traceback, as UTF-8."""
TOTAL_BYTES = 40 * 1024
"""Of all the text of one cell."""
IMAGE_BYTES = 2 * 1024 * 1024
"""Of one image as base64; providers refuse more than about 5 MB, and a larger one is rarely worth its tokens."""
IMAGE_HEAD = 512 * 1024
"""Of its base64, a multiple of four, in which its size is looked for."""
IMAGES = 4
"""Image blocks of one cell."""
NAMED_FILES = 5
"""Result files of one cell that are named."""
FRAME_RUN = 6
"""Frames of the person's own code shown in a row; recursion makes thousands."""

MARKUP = 256 * 1024
"""Characters of HTML that are looked at for their text, of which 10 KB are shown: many small tags take time."""
LOOKED_AT = 1024 * 1024
"""Characters of the start, and of the end, of a text that are looked at for what of it is shown."""

Block = dict[str, Any]
"""A LangChain standard content block."""

# CSI, OSC (ended by BEL or ST) and the two-character escapes of ECMA-48, then the control characters that mean nothing
# to a reader. A window title or a hidden link must not reach the model any more than a terminal.
# What looks like a tag ends at the next `<`, even in an attribute: else each of a million would be read to the end.
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][\w:-]*+)(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+>|<!--.*?(?:-->|\Z)|<[!?][^<>]*+>""",
    re.DOTALL,
)
_LINES = frozenset({"br", "p", "div", "tr", "li", "table", "h1", "h2", "h3"})
_FRAME = re.compile(r"^(?= {0,2}(?:Cell In ?\[|Input In ?\[|File ))", re.MULTILINE)
_OWN_FILE = re.compile(r"^ {0,2}File (?:/workspace|/tmp|~)/(?!\S*(?:site-packages|lib/python))")


@dataclass(kw_only=True)
class _Seen:
    """What was gathered of a cell so far: its text by section, in order, and its images."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    images: list[Block] = field(default_factory=list)
    figures: int = 0

    def add(self, heading: str, text: str) -> None:
        self.sections.setdefault(heading, []).append(text)


def render(cell: Cell, *, images: bool = False) -> str | list[Block]:
    """A finished cell as the content of a tool's message.

    Args:
        cell: What `Runs.run_cell` returned.
        images: Whether the model takes images; otherwise each is told in a sentence.

    Returns:
        Text; or, if there are images for the model, a text block and the image blocks.
    """
    shown: str | list[Block] = "[The outputs of this cell can't be shown here; print what you need of them.]"
    with contained("The outputs of a cell were not shown to the model"):
        shown = _rendered(cell, images=images)
    return shown


def _rendered(cell: Cell, *, images: bool) -> str | list[Block]:
    seen = _Seen()
    for output in cell.outputs:
        _take(seen, output, images=images)
    parts = [_section(heading, texts) for heading, texts in seen.sections.items()]
    if not parts:
        parts = [_nothing(cell)]
    body, _ = cut("\n".join(parts), limit=TOTAL_BYTES)
    # Before the outputs, which are those of the second run.
    again = [f"{installed(cell.installed)} The cell was then run again:"] if cell.installed else []
    text = "\n".join(part for part in (*again, body, *_remarks(cell)) if part)
    return [{"type": "text", "text": text}, *seen.images] if seen.images else text


def cut(text: str, *, limit: int = STREAM_BYTES, gone: bytes = b"") -> tuple[str, bool]:
    """The text, or its head and its tail with an exact count of what is missing between them.

    Args:
        text: Any text; lone surrogates are replaced, since no provider takes them.
        limit: Bytes of UTF-8 that are kept, the marker not counted.
        gone: What was taken out of its middle before.

    Returns:
        The text and whether it was cut.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not gone:
        return data.decode(), False
    # A cut inside of a character drops the rest of that character; the count below is of what is really kept.
    head = data[: limit // 2].decode("utf-8", "ignore")
    tail = data[-(limit - limit // 2) :].decode("utf-8", "ignore")
    missing = data[len(head.encode()) : len(data) - len(tail.encode())]
    lines, size, whole = missing.count(b"\n") + gone.count(b"\n"), len(missing) + len(gone), len(data) + len(gone)
    return f"{head}\n[… {size:,} of {whole:,} bytes ({lines:,} line ends) left out here …]\n{tail}", True


def traceback_of(output: Output) -> str:
    """An error output as the person's frames and the error's last line.

    Of each run of library frames the first (how it was called) and the last (where it failed) stay, a line each: their
    source explains little and costs much.
    """
    text = plain("\n".join(_text(line) for line in output.get("traceback", [])))
    last = plain(f"{_text(output.get('ename', 'Error'))}: {_text(output.get('evalue', ''))}").rstrip(": ")
    if not text.strip():
        return last
    start, *frames = _FRAME.split(text)
    kept: list[str] = [start.strip("\n")] if start.strip("-\n ") else []
    for own, run in _runs(frames):
        if own:
            kept.extend(_shorten(run, keep=FRAME_RUN, what="frame"))
        else:
            message = _after_frame(run[-1])
            kept.extend(_shorten([frame.partition("\n")[0] for frame in run], keep=2, what="library frame"))
            kept.extend(message)
    return "\n".join(part for part in kept if part)


def _after_frame(frame: str) -> list[str]:
    """The error's own words, which IPython puts behind the last frame, divided from it by an empty line."""
    _, gap, message = frame.partition("\n\n")
    return [message] if gap else []


def _runs(frames: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Frames in runs of the person's own and of libraries'."""
    runs: list[tuple[bool, list[str]]] = []
    for frame in frames:
        own = not frame.lstrip().startswith("File ") or _OWN_FILE.match(frame) is not None
        if not runs or runs[-1][0] != own:
            runs.append((own, []))
        runs[-1][1].append(frame.strip("\n"))
    return runs


def _shorten(run: list[str], *, keep: int, what: str) -> list[str]:
    if len(run) <= keep:
        return run
    head, tail = run[: keep // 2], run[-(keep - keep // 2) :]
    missing = len(run) - keep
    return [*head, f"[… {missing:,} {what}{'' if missing == 1 else 's'} left out here …]", *tail]


def _take(seen: _Seen, output: Output, *, images: bool) -> None:
    """Add one nbformat output to what is seen."""
    kind = output.get("output_type")
    if kind == "stream":
        seen.add(_text(output.get("name", "stdout")), _text(output.get("text", "")))
    elif kind == "error":
        seen.add("error", traceback_of(output))
    elif kind in ("execute_result", "display_data"):
        data = output.get("data", {})
        heading = "result" if kind == "execute_result" else "display"
        if not _take_image(seen, data, images=images) and (text := _fallback(data)):
            seen.add(heading, text)


def _take_image(seen: _Seen, data: dict[str, Any], *, images: bool) -> bool:
    """Add a MIME bundle's image, if it has one."""
    for mime, name in (("image/png", "PNG"), ("image/jpeg", "JPEG"), ("image/gif", "GIF"), ("image/svg+xml", "SVG")):
        if mime not in data:
            continue
        seen.figures += 1
        encoded = "".join(_text(data[mime]).split())
        size = _size(encoded) if name in ("PNG", "JPEG") else None
        sentence = f"figure {seen.figures}: {name}" + (f", {size[0]}×{size[1]}" if size else "")
        if images and size and len(seen.images) < IMAGES and len(encoded) <= IMAGE_BYTES:
            seen.images.append({"type": "image", "base64": encoded, "mime_type": mime})
            seen.add("figures", f"[{sentence}, attached]")
        else:
            seen.add("figures", f"[{sentence}]")
        return True
    return False


def _fallback(data: dict[str, Any]) -> str:
    """A MIME bundle as text, from its most readable form."""
    for mime in ("text/plain", "text/markdown", "text/latex"):
        if mime in data:
            return _text(data[mime])
    if "application/json" in data:
        return start_of_json(data["application/json"])
    if "text/html" in data:
        return text_of_html(_text(data["text/html"])) or "[HTML without text]"
    return f"[{', '.join(sorted(data))}: no text form]" if data else ""


def start_of_json(value: Any) -> str:
    """JSON as text, as much of it as is looked at."""
    found: list[str] = []
    left = LOOKED_AT
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        found.append(piece)
        left -= len(piece)
        if left < 0:
            return "".join([*found, " [… more JSON not shown …]"])
    return "".join(found)


def _section(heading: str, texts: list[str]) -> str:
    text = "".join(texts) if heading in ("stdout", "stderr") else "\n".join(texts)
    gone = b""
    if len(text) > 2 * LOOKED_AT:
        # Before any work is spent on what can't be shown anyhow.
        gone = text[LOOKED_AT:-LOOKED_AT].encode("utf-8", "replace")
        text = text[:LOOKED_AT] + text[-LOOKED_AT:]
    text, truncated = cut(plain(text).strip("\n"), gone=gone)
    return f"[{heading}{', truncated' if truncated else ''}]\n{text}"


def _nothing(cell: Cell) -> str:
    if cell.status == "ok":
        return "(no output) The cell ran without an error. End it with an expression, or print, to see a value."
    return "(no output)"


def _remarks(cell: Cell) -> list[str]:
    """What must be told beside the outputs, one sentence a line."""
    stopped = {
        "timeout": f"The cell was stopped after {cell.duration:.0f} s: it ran longer than a cell may.",
        "interrupted": "The cell was interrupted before it ended.",
        "died": "The kernel died while the cell ran.",
    }
    remarks = [stopped[cell.status]] if cell.status in stopped else []
    if note := cell.note.replace(cell.state_lost, "").replace(cell.restored, "").strip():
        remarks.append(plain(note))
    if cell.files:
        more = f" and {len(cell.files) - NAMED_FILES} more" if len(cell.files) > NAMED_FILES else ""
        names = ", ".join(one_line(name, 100) for name in cell.files[:NAMED_FILES])
        remarks.append(f"Collected for the person: {names}{more}.")
    if cell.state_lost:
        left = plain(cell.restored) or (
            "Variables, imports and files under /workspace and /tmp are gone; run again what you still need."
        )
        remarks.append(f"State lost: {plain(cell.state_lost)} {left}")
    return remarks


def installed(packages: list[Package]) -> str:
    """What was installed, as one sentence."""
    asked = [package for package in packages if package.requested] or packages
    names = ", ".join(f"{package.name} {package.version}" for package in asked)
    others = len(packages) - len(asked)
    need = "it needs" if len(asked) == 1 else "they need"
    return f"Installed {names}{f' (and {others} that {need})' if others else ''}."


def text_of_html(markup: str) -> str:
    """The text that an HTML fragment shows, tables as lines; for a result that has no text form.

    Hostile markup is read in one pass too, which Python's own parser needs hours for.
    """
    parts: list[str] = []
    at = 0
    while (found := _TAG.search(markup, at, MARKUP)) is not None:
        parts.append(_shown(markup[at : found.start()]))
        at = found.end()
        name = (found["name"] or "").lower()
        if name in ("script", "style") and not found["end"]:
            closed = re.compile(rf"</{name}", re.IGNORECASE).search(markup, at, MARKUP)
            at = closed.start() if closed else min(MARKUP, len(markup))
        elif found["end"]:
            parts.append(" | " if name in ("td", "th") else "")
        elif name in _LINES:
            parts.append("\n")
    parts.append(_shown(markup[at:MARKUP]))
    lines = (line.strip().removesuffix("|").strip() for line in "".join(parts).split("\n"))
    text = "\n".join(line for line in lines if line)
    return text + (f"\n[… {len(markup) - MARKUP:,} characters of HTML not read …]" if len(markup) > MARKUP else "")


def _shown(text: str) -> str:
    """Text between two tags as a browser shows it."""
    with contextlib.suppress(ValueError):  # the number of a character with thousands of digits
        text = html.unescape(text)
    return re.sub(r"\s+", " ", text)


def _text(value: Any) -> str:
    """A string of nbformat, which may be split into a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def _size(encoded: str) -> tuple[int, int] | None:
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
