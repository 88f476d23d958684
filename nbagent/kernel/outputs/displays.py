"""Which outputs show which display_id, across the cells of a session. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nbagent.core.events import Output
from nbagent.kernel.outputs.mime import MIB, Bundle


@dataclass(frozen=True, slots=True)
class Updated:
    """Every output that shows this display_id, in any cell, now has this data."""

    display_id: str
    data: dict[str, Any]
    metadata: dict[str, Any]
    cells: tuple[int, ...] = ()
    """The cells in which it is shown, each once, in order."""


class DisplayIndex:
    """Which outputs show which display_id, across the cells of a session, so that an update reaches them all.

    The outputs are changed in place: their data is replaced, never written into. Beyond the bounds, those that were
    shown or updated longest ago are let go: they stay as they are.

    Args:
        limit: Characters of all outputs together.
        count: Outputs.
    """

    def __init__(self, *, limit: int = 256 * MIB, count: int = 10_000) -> None:
        self._limit = limit
        self._count = count
        self._shown: dict[str, _Shown] = {}
        self._outputs = 0
        self._size = 0

    def __contains__(self, display_id: str) -> bool:
        return display_id in self._shown

    def show(self, display_id: str, output: Output, *, size: int, cell: int = 0) -> None:
        """Remember that `output` of a cell shows `display_id`; its data has `size` characters."""
        shown = self._shown.pop(display_id, None) or _Shown(size)
        self._shown[display_id] = shown
        shown.outputs[id(output)] = output
        shown.cells[id(output)] = cell
        self._outputs += 1
        self._size += shown.size
        while self._outputs > self._count or self._size > self._limit:
            oldest = next(iter(self._shown))
            self.forget(oldest, next(iter(self._shown[oldest].outputs.values())))

    def forget(self, display_id: str, output: Output) -> None:
        """Let an output go; nothing happens if it went already."""
        shown = self._shown.get(display_id)
        if shown is None or shown.outputs.pop(id(output), None) is None:
            return
        del shown.cells[id(output)]
        self._outputs -= 1
        self._size -= shown.size
        if not shown.outputs:
            del self._shown[display_id]

    def update(self, display_id: str, bundle: Bundle) -> Updated | None:
        """Change every output that shows `display_id`; return its new contents, None if no output shows it."""
        shown = self._shown.pop(display_id, None)
        if shown is None:
            return None
        self._shown[display_id] = shown
        count = len(shown.outputs)
        others = self._size - shown.size * count
        if others + bundle.size * count > self._limit:
            note = f"[left out: an update of {bundle.size:,} characters for {count:,} outputs]"
            bundle = Bundle({"text/plain": note}, {}, size=len(note))
        shown.size = bundle.size
        self._size = others + bundle.size * count
        for output in shown.outputs.values():
            output["data"], output["metadata"] = bundle.data, bundle.metadata
        return Updated(display_id, bundle.data, bundle.metadata, tuple(sorted(set(shown.cells.values()) - {0})))


@dataclass(slots=True)
class _Shown:
    """The outputs that show one display_id, by identity; the data that they share has `size` characters."""

    size: int
    outputs: dict[int, Output] = field(default_factory=dict)
    cells: dict[int, int] = field(default_factory=dict)
