"""IOPub messages in, nbformat 4 outputs out. Pure: no I/O, no clock, nothing but its arguments.

A kernel's messages may come from hostile code, so every one is repaired or ignored, never trusted and never an
exception, and everything that is kept is bounded. Sizes are characters; of JSON, what `mime` counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nbagent.core.events import Output
from nbagent.core.text import ends
from nbagent.kernel.outputs.displays import DisplayIndex, Updated
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.mime import Bundle, clean_within, repair
from nbagent.kernel.outputs.streams import CellStreams, Spill, Stream, clean_text
from nbagent.sandbox.inside.message_sizes_inside import left_out, marker

Message = Mapping[str, Any]
"""A message as `jupyter_client.session.Session.deserialize` returns it."""

_MAX_RESULTS: Final = 16
"""Results and errors that are kept of a cell. An honest one has one of each; displays must not crowd them out."""
_MAX_ERROR_END_CHARACTERS: Final = 128 * 1024
"""Characters that are kept of the start, and of the end, of each text of an error."""
_MAX_TRACEBACK_LINES: Final = 1_000
"""Entries of a traceback, each a frame, that are kept."""
_MAX_NOTES: Final = 5
"""Representations left out that `truncated` names one by one."""
_ENVELOPE_CHARACTERS: Final = 128
"""Characters that a live change costs besides its data."""


@dataclass(frozen=True, slots=True)
class Added:
    """An output to show after those before it. Of a stream it is only the new text, as it came.

    Attributes:
        output: One nbformat output; nobody changes it later.
        display_id: The name by which updates will come for it, or empty.
    """

    output: Output
    display_id: str = ""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What the cell showed so far is gone."""


Change = Added | Updated | Cleared


class CellOutputs:
    """The outputs of one cell, from its first message to its last.

    Args:
        displays: The session's; updates of a display_id reach earlier cells through it.
        cell: The cell's number; 0 for what is no cell.
        limits: What is kept.
        spill: Gets the stream text that is left out between a kept head and tail. What it raises passes through.
    """

    def __init__(
        self, *, displays: DisplayIndex, cell: int = 0, limits: OutputLimits | None = None, spill: Spill | None = None
    ) -> None:
        self._cell = cell
        self._displays = displays
        self._limits = limits = limits or OutputLimits()
        self._streams = CellStreams(limits, spill)
        self._kept = _Kept(limits.display_total)
        self._clear_next = False
        self._live = limits.live
        self._withheld: dict[str, Updated] = {}

    def add(self, message: Message) -> list[Change]:
        """Take a message in; return what to change in a live display, in order.

        Never raises for a message, however broken.
        """
        kind, content = parts(message)
        if kind == "stream":
            return self._add_stream(content)
        if kind in {"display_data", "execute_result"}:
            return self._add_bundle(kind, content)
        if kind == "update_display_data":
            return self._add_update(content)
        if kind == "error":
            return self._add_error(content)
        if kind == "clear_output":
            self._clear_next = bool(content.get("wait"))
            return [] if self._clear_next else self._clear()
        return []

    def outputs(self) -> list[Output]:
        r"""The outputs, whole within the limits, valid in nbformat 4. Ask when the cell has ended.

        All but streams are the very dicts that later updates of their display_id will change. The open lines of
        streams become final: `\r` and backspace in text that comes after all do not reach into them.
        """
        self._streams.close()
        return [item.output() if isinstance(item, Stream) else item for item in self._kept.items]

    def display_ids(self) -> list[str]:
        """For each of `outputs()` its display_id, or an empty string."""
        return [self._kept.display_ids.get(id(item), "") for item in self._kept.items]

    def withheld(self) -> list[Updated]:
        """The last update of each display_id that `add` did not return because live display was used up.

        Tell them when the cell has ended: outputs of earlier cells changed.
        """
        return list(self._withheld.values())

    def without_error(self) -> list[Change]:
        """Take back the error that ended the cell's code, which goes on; returns what there is to show again."""
        kept, changes = self._kept, list[Change]()
        self._streams.close()
        if kept.items and isinstance(last := kept.items[-1], dict) and last["output_type"] == "error":
            del kept.items[-1]
            kept.counts["last words"] -= 1
        for item in kept.items:
            output = item.output() if isinstance(item, Stream) else dict(item)
            self._tell(changes, Added(output, kept.display_ids.get(id(item), "")), size=0)
        return changes

    @property
    def truncated(self) -> str:
        """What the outputs lack, a sentence each; empty if they are whole."""
        kept = self._kept
        notes = [f"{name}: {count:,} characters left out." for name, count in sorted(self._streams.left_out.items())]
        if self._streams.apart:
            notes.append("The order of stdout and stderr was given up: they alternated too often, or were too long.")
        if kept.surplus:
            notes.append(f"{kept.surplus:,} outputs left out, there were too many.")
        if kept.notes:
            more = f" and {kept.more_notes:,} more" if kept.more_notes else ""
            notes.append(f"Left out: {', '.join(kept.notes)}{more}.")
        return " ".join(notes)

    def _add_stream(self, content: dict[str, Any]) -> list[Change]:
        text = content.get("text")
        if isinstance(text, list) and all(isinstance(line, str) for line in text):
            text = "".join(text)
        if not isinstance(text, str) or not text:
            return []
        changes = self._settle()
        name = "stderr" if content.get("name") == "stderr" else "stdout"
        stream, new = self._streams.pick(name, self._kept.items[-1] if self._kept.items else None)
        if new:
            self._kept.items.append(stream)
        live = stream.add(text)
        if live:
            self._tell(changes, Added({"output_type": "stream", "name": name, "text": live}), size=len(live))
        return changes

    def _add_bundle(self, kind: str, content: dict[str, Any]) -> list[Change]:
        if not isinstance(content.get("data"), dict):
            return []
        changes = self._settle()
        display_id = _display_id(content)
        kept = self._has_room(kind)
        if not kept and not display_id:
            return changes
        bundle = repair(content, limit=self._limits.mime, total=self._kept.room)
        if display_id:
            # A display that is shown again changes where it was shown before, as in JupyterLab and nbclient.
            self._update(changes, display_id, bundle)
        if not kept:
            return changes
        output: Output = {"output_type": kind, "data": bundle.data, "metadata": bundle.metadata}
        if kind == "execute_result":
            output["execution_count"] = _execution_count(content.get("execution_count"))
        self._keep(changes, output, size=bundle.size, display_id=display_id)
        self._kept.note(bundle.left_out)
        return changes

    def _add_update(self, content: dict[str, Any]) -> list[Change]:
        changes: list[Change] = []
        display_id = _display_id(content)
        if not isinstance(content.get("data"), dict) or display_id not in self._displays:
            return changes
        bundle = repair(content, limit=self._limits.mime, total=self._limits.display_total)
        self._update(changes, display_id, bundle)
        self._kept.note(bundle.left_out)
        return changes

    def _add_error(self, content: dict[str, Any]) -> list[Change]:
        changes = self._settle()
        if not self._has_room("error"):
            return changes
        output: Output = {
            "output_type": "error",
            "ename": self._text(content.get("ename")),
            "evalue": self._text(content.get("evalue")),
            "traceback": self._traceback(content.get("traceback")),
        }
        size = sum(map(len, output["traceback"])) + len(output["ename"]) + len(output["evalue"])
        self._keep(changes, output, size=size)
        return changes

    def _traceback(self, value: object) -> list[str]:
        given = value if isinstance(value, list) else [value]
        lines = [
            self._text(line)
            for line in (given if len(given) <= _MAX_TRACEBACK_LINES else given[: _MAX_TRACEBACK_LINES // 2])
        ]
        if len(given) > _MAX_TRACEBACK_LINES:
            lines += [
                marker(f"{len(given) - _MAX_TRACEBACK_LINES:,} frames"),
                *map(self._text, given[-_MAX_TRACEBACK_LINES // 2 :]),
            ]
            self._kept.note((f"{len(given) - _MAX_TRACEBACK_LINES:,} frames of an error",))
        text = "\n".join(lines)
        short = self._text(text)
        return lines if len(short) == len(text) else short.split("\n")

    def _text(self, value: object) -> str:
        """A field of an error as text, cut as a stream is, and shorter."""
        head, tail = (
            min(_MAX_ERROR_END_CHARACTERS, each) for each in (self._limits.stream_head, self._limits.stream_tail)
        )
        if not isinstance(value, str):
            kept = clean_within(value, head + tail)
            value = "" if value is None else json.dumps(kept[0]) if kept else marker("an error's text that is none")
        short = clean_text(ends(value, head=head, tail=tail, mark=left_out))
        if len(short) != len(value):
            self._kept.note((f"the middle of an error of {len(value):,} characters",))
        return short

    def _has_room(self, kind: str) -> bool:
        limit = self._limits.displays if kind == "display_data" else _MAX_RESULTS
        group = "display_data" if kind == "display_data" else "last words"
        count = self._kept.counts.get(group, 0)
        if count >= limit:
            self._kept.surplus += 1
            return False
        self._kept.counts[group] = count + 1
        return True

    def _keep(self, changes: list[Change], output: Output, *, size: int, display_id: str = "") -> None:
        self._kept.items.append(output)
        self._kept.room = max(0, self._kept.room - size)
        if display_id:
            self._kept.display_ids[id(output)] = display_id
            self._displays.show(display_id, output, size=size, cell=self._cell)
        # A copy, because updates put other data into the dict that is kept.
        self._tell(changes, Added(dict(output), display_id), size=size)

    def _update(self, changes: list[Change], display_id: str, bundle: Bundle) -> None:
        updated = self._displays.update(display_id, bundle)
        if updated is not None:
            self._tell(changes, updated, size=bundle.size)

    def _settle(self) -> list[Change]:
        """Carry out a clear that waited for the next output."""
        if not self._clear_next:
            return []
        self._clear_next = False
        return self._clear()

    def _clear(self) -> list[Change]:
        if not self._kept.items:
            return []
        for item in self._kept.items:
            display_id = self._kept.display_ids.get(id(item))
            if display_id and isinstance(item, dict):
                self._displays.forget(display_id, item)
        self._streams.clear()
        self._kept = _Kept(self._limits.display_total)
        changes: list[Change] = []
        self._tell(changes, Cleared(), size=0)
        return changes

    def _tell(self, changes: list[Change], change: Change, *, size: int) -> None:
        if size + _ENVELOPE_CHARACTERS <= self._live:
            self._live -= size + _ENVELOPE_CHARACTERS
            changes.append(change)
            return
        self._live = 0
        if isinstance(change, Updated):
            self._withheld[change.display_id] = change


@dataclass(slots=True)
class _Kept:
    """What a cell shows now; a clear begins a new one."""

    room: int
    items: list[Stream | Output] = field(default_factory=list)
    display_ids: dict[int, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    surplus: int = 0
    notes: list[str] = field(default_factory=list)
    more_notes: int = 0

    def note(self, left_out: tuple[str, ...]) -> None:
        names = left_out[: _MAX_NOTES - len(self.notes)]
        self.notes += names
        self.more_notes += len(left_out) - len(names)


def _execution_count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return value
    return None


def _display_id(content: dict[str, Any]) -> str:
    """The display_id in a message's content, or an empty string."""
    transient = content.get("transient")
    display_id = transient.get("display_id") if isinstance(transient, dict) else None
    return clean_text(display_id) if isinstance(display_id, str) and len(display_id) <= 1_000 else ""


def parts(message: object) -> tuple[str, dict[str, Any]]:
    """The type and the content of a message; an empty type if the value isn't a message."""
    if isinstance(message, dict):
        header, content = message.get("header"), message.get("content")
        if isinstance(header, dict) and isinstance(content, dict):
            kind = header.get("msg_type")
            if isinstance(kind, str):
                return kind, content
    return "", {}
