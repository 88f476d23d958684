"""What the model sees of a cell. Pure: no kernel, no LangChain.

What there is no room for is left out, and counted where it is missing. The notebook keeps the outputs as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.agent.readable import LOOKED_AT, image_size, text_of_bundle
from nbagent.core.errors import contained
from nbagent.core.text import joined, one_line, plain, share, undirected

if TYPE_CHECKING:
    from nbagent.core.events import Cell, Output, Package

STREAM_BYTES = 10 * 1024
"""The most bytes of UTF-8 that the model gets of one stream, result or traceback."""
TOTAL_BYTES = 40 * 1024
"""The most bytes of text that the model gets of one cell."""
IMAGE_BYTES = 2 * 1024 * 1024
"""The most bytes of one image as base64: providers refuse more than 5 MB, and large images cost many tokens."""
IMAGES = 4
"""The most image blocks that the model gets of one cell."""
NAMED_FILES = 5
"""The most result files of one cell that the model is told by name."""
FRAME_RUN = 6
"""Frames of the person's own code shown in a row; recursion makes thousands."""

Block = dict[str, Any]
"""A LangChain standard content block."""

MAX_BLOCKS, MIN_BLOCK = 40, 200
"""Blocks of a stream that are cut one by one, and bytes of each that are kept at least."""

SPARED = 10
"""The part of a limit by which a text may be longer before it is cut: a tenth."""

_BLOCK = re.compile(r"\n(?=[^\S\n]*\n|shape: \()")
_WARNING = re.compile(r"(?m)^(?P<head>[^\n:]{1,300}:\d+: (\w*Warning: [^\n]*))\n(?P<code>  [^\n]*(?:\n|\Z))?")
"""A warning as Python writes it: where it comes from, what it says, and the line of code, indented."""
_FRAME = re.compile(r"^(?= {0,2}(?:Cell In ?\[|Input In ?\[|File ))", re.MULTILINE)
_OWN_FILE = re.compile(r"^ {0,2}File (?:/workspace|/tmp|~)/(?!\S*(?:site-packages|lib/python))")


@dataclass(kw_only=True)
class _Seen:
    """A cell so far: its text by section, in order, and its images."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    images: list[Block] = field(default_factory=list)
    figures: int = 0

    def add(self, heading: str, text: str) -> None:
        self.sections.setdefault(heading, []).append(text)


def render(cell: Cell, *, images: bool = False) -> str | list[Block]:
    """A finished cell as the content of a tool's message.

    Args:
        cell: What `KernelPort.run_cell` returned.
        images: Whether the model takes images; otherwise a sentence stands for each.

    Returns:
        Text; or, if there are images for the model, a text block and the image blocks.
    """
    shown: str | list[Block] = "[The outputs of this cell can't be shown here; print what you need of them.]"
    with contained("The outputs of a cell were not shown to the model"):
        shown = _render(cell, images=images)
    return shown


def _render(cell: Cell, *, images: bool) -> str | list[Block]:
    seen = _Seen()
    for output in cell.outputs:
        _take(seen, output, images=images)
    parts = [_section(heading, texts) for heading, texts in seen.sections.items()]
    if not parts:
        parts = [_nothing(cell)]
    body, _ = cut_middle("\n".join(parts), limit=TOTAL_BYTES)
    # Before the outputs, which are those of the second run.
    again = [f"{installed(cell.installed)} The cell was then run again:"] if cell.installed else []
    text = "\n".join(part for part in (*again, body, *_remarks(cell)) if part)
    return [{"type": "text", "text": text}, *seen.images] if seen.images else text


def cut_middle(text: str, *, limit: int = STREAM_BYTES, gone: bytes = b"") -> tuple[str, bool]:
    """The text, or its head and its tail with an exact count of what is missing between them.

    Args:
        text: Any text; lone surrogates are replaced, since no provider takes them.
        limit: Bytes of UTF-8 that are kept, the marker not counted.
        gone: Bytes that were taken out of its middle before, which count as missing too.

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


def cut_blocks(text: str, *, limit: int = STREAM_BYTES, gone: bytes = b"") -> tuple[str, bool]:
    """The text, or each of its blocks with its head and its tail, so that each printed table keeps its header.

    Args:
        text: Any text. A block ends at an empty line, and where Polars shows a table.
        limit: Bytes that are kept, the markers not counted; a tenth more where that spares a cut.
        gone: Bytes that were taken out of its middle before.

    Returns:
        The text and whether it was cut.
    """
    blocks = _BLOCK.split(text)
    limit = limit if gone else _spared(text, limit)
    if gone or len(text.encode("utf-8", "replace")) <= limit or not 1 < len(blocks) <= MAX_BLOCKS:
        return cut_middle(text, limit=limit, gone=gone)
    most = max(share((len(each.encode("utf-8", "replace")) for each in blocks), limit), MIN_BLOCK)
    return "\n".join(cut_middle(each, limit=_spared(each, most))[0] for each in blocks), True


def _spared(text: str, limit: int) -> int:
    """The limit of a text; more if it is hardly longer: a cut would save little, and may take what is looked for."""
    more = limit + limit // SPARED
    return more if len(text.encode("utf-8", "replace")) <= more else limit


def traceback_of(output: Output) -> str:
    """An error output as the person's frames and the error's last line.

    Of each run of library frames the first (how it was called) and the last (where it failed) stay, a line each: their
    source explains little and costs much.
    """
    text = plain("\n".join(joined(line) for line in output.get("traceback", [])))
    last = plain(f"{joined(output.get('ename', 'Error'))}: {joined(output.get('evalue', ''))}").rstrip(": ")
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
        seen.add(joined(output.get("name", "stdout")), joined(output.get("text", "")))
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
        encoded = "".join(joined(data[mime]).split())
        size = image_size(encoded) if name in ("PNG", "JPEG") else None
        sentence = f"figure {seen.figures}: {name}" + (f", {size[0]}×{size[1]}" if size else "")
        if images and size and len(seen.images) < IMAGES and len(encoded) <= IMAGE_BYTES:
            seen.images.append({"type": "image", "base64": encoded, "mime_type": mime})
            seen.add("figures", f"[{sentence}, attached]")
        else:
            seen.add("figures", f"[{sentence}]")
        return True
    return False


def _fallback(data: dict[str, Any]) -> str:
    """A MIME bundle as text, or the names of its types if none is readable."""
    text = text_of_bundle(data)
    if "text/html" in data and text == "":
        return "[HTML without text]"
    return text if text is not None else f"[{', '.join(sorted(data))}: no text form]" if data else ""


def warned_once(text: str) -> str:
    """A stream in which each warning stands once, at its first place, with how often it came."""
    count = Counter(each[2] for each in _WARNING.finditer(text))
    told: set[str] = set()

    def first(found: re.Match[str]) -> str:
        if found[2] in told:
            return ""
        told.add(found[2])
        return found[0] if count[found[2]] == 1 else f"{found['head']} ×{count[found[2]]:,}\n{found['code'] or ''}"

    return _WARNING.sub(first, text) if len(text) <= 2 * LOOKED_AT and max(count.values(), default=0) > 1 else text


def _section(heading: str, texts: list[str]) -> str:
    text = "".join(texts) if heading in ("stdout", "stderr") else "\n".join(texts)
    text = warned_once(text) if heading == "stderr" else text
    gone = b""
    if len(text) > 2 * LOOKED_AT:
        # No work is spent on what can't be shown anyway.
        gone = text[LOOKED_AT:-LOOKED_AT].encode("utf-8", "replace")
        text = text[:LOOKED_AT] + text[-LOOKED_AT:]
    text, truncated = cut_blocks(undirected(plain(text)).strip("\n"), gone=gone)
    return f"[{heading}{', truncated' if truncated else ''}]\n{text}"


def _nothing(cell: Cell) -> str:
    if cell.status == "ok":
        return "(no output) The cell ran without an error. End it with an expression, or print, to see a value."
    return "(no output)"


def _remarks(cell: Cell) -> list[str]:
    """What the model must know beside the outputs, one sentence a line."""
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
