"""Sorts the messages of a kernel: to the cell that runs, to an earlier cell, to the widgets, or to nobody.

A message claims by its parent which cell it belongs to, and code can forge that. So a claim never changes a cell that
has ended: output for it becomes a `LateOutputAdded`, and the note of the cell that runs says so.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from nbagent.core.events import Event, LateOutputAdded, OutputAdded, OutputsCleared, OutputUpdated
from nbagent.kernel.execution import ExecuteRequest
from nbagent.kernel.outputs.displays import DisplayIndex, Updated
from nbagent.kernel.outputs.outputs import Added, CellOutputs, Change
from nbagent.kernel.outputs.widgets import WidgetTracker

MAX_RECENT_REQUESTS = 120
"""Requests that are remembered, so that late output is attributed to their cells."""
MAX_SILENT_REQUESTS = 100
"""How many of these may be silent ones: printed text comes up to 0.2 s late, and a file takes hundreds of requests."""

DISPLAY_PAUSE_SECONDS = 0.1
"""Seconds between two events on the same display; further updates in between replace one another, and the last one is
always emitted."""
CHARACTERS_PER_SECOND = 1024 * 1024
"""The pause is a second longer for each so many characters of a display."""
MAX_DISPLAYS = 10_000
"""Displays for which the time of the last event is remembered."""
MAX_SENTENCES = 10
"""Sentences on late output in one cell's note."""

Notify = Callable[[Event], object]
"""Gets each event as it happens. It raises only to end the cell, as a log does that can't be written."""


def late_sentence(cell: int, during: int, how: str) -> str:
    """A note's sentence on output that was added or changed after its cell's end."""
    when = f"while cell {during} ran" if during else "while no cell ran"
    what = f"Output was added to cell {cell}" if how == "added" else f"What cell {cell} showed was changed"
    return f"{what} {when}, after that cell had ended."


class Router:
    """Sorts the messages of a kernel, and emits what they change in the outputs.

    Attributes:
        widgets: The widget models that are open in the present kernel.
    """

    def __init__(self, notify: Notify, spill: Callable[[int], Callable[[str, str], None]] | None = None) -> None:
        self._notify = notify
        self._spill = spill
        self._displays = DisplayIndex()
        self.widgets = WidgetTracker(displays=self._displays)
        self._widgets_changed = False
        self._held: dict[str, tuple[int, Updated, int]] = {}
        self._due: dict[str, float] = {}
        self._recent: OrderedDict[str, tuple[int, CellOutputs]] = OrderedDict()
        self._silent: deque[str] = deque()
        self._late: dict[tuple[int, int, str], None] = {}

    def begin(self, cell: int) -> CellOutputs:
        """An empty collection for the outputs of a cell that begins."""
        spill = self._spill(cell) if self._spill else None
        return CellOutputs(displays=self._displays, cell=cell, spill=spill)

    def forget(self) -> None:
        """Forget displays, widgets and requests, since another kernel took the place of theirs."""
        self.flush()
        self._recent.clear()
        self._silent.clear()
        self._displays = DisplayIndex()
        self.widgets = WidgetTracker(displays=self._displays)

    # -- requests -----------------------------------------------------------------------------------------------

    def remember(self, msg_id: str, cell: int, outputs: CellOutputs) -> None:
        """Remember the request of a cell, to attribute its late output."""
        self._recent[msg_id] = (cell, outputs)
        if len(self._recent) > MAX_RECENT_REQUESTS:
            self._recent.popitem(last=False)

    def remember_silent(self, msg_id: str) -> None:
        """Remember a silent request as the last cell's: ipykernel names it as the parent of what a thread of it prints.

        Only the latest silent requests are remembered, so that a large file's don't push out the cells.
        """
        if not self._recent:
            return
        self.remember(msg_id, *next(reversed(self._recent.values())))
        self._silent.append(msg_id)
        if len(self._silent) > MAX_SILENT_REQUESTS:
            self._recent.pop(self._silent.popleft(), None)

    # -- messages -----------------------------------------------------------------------------------------------

    def take(self, channel: str, message: dict[str, Any], request: ExecuteRequest | None = None) -> None:
        """Sort one message of `shell` or `iopub`; `request` is that of the cell that runs, None between two cells."""
        kind = message["header"].get("msg_type")
        parent = message["parent_header"].get("msg_id")
        if channel == "shell":
            if request is not None and parent == request.msg_id and kind == "execute_reply" and request.reply is None:
                request.reply = message["content"]
        elif self.widgets.add(message):
            self._widgets_changed = True
        elif request is not None and parent == request.msg_id:
            self._take_present(message, request)
        elif parent in self._recent and kind != "status":
            self._take_late(message, *self._recent[parent], during=request.cell if request is not None else 0)

    def take_unseen(self, channel: str, message: dict[str, Any]) -> None:
        """Take a message of a cell that is run again: only its widgets are opened again."""
        if channel == "iopub":
            self.widgets.add(message)

    def _take_present(self, message: dict[str, Any], request: ExecuteRequest) -> None:
        # The request goes on as long as output comes, even after its reply.
        request.half_done_at = None
        if message["header"].get("msg_type") == "status":
            request.idle |= message["content"].get("execution_state") == "idle"
        elif message["header"].get("msg_type") == "execute_input":
            request.begun_at = time.monotonic()
        else:
            request.gave_in |= bool(request.interrupts) and message["header"].get("msg_type") == "error"
            self.show(request.cell, request.outputs.add(message), during=request.cell)

    def _take_late(self, message: dict[str, Any], cell: int, outputs: CellOutputs, *, during: int) -> None:
        for change in outputs.add(message):
            if isinstance(change, Added):
                if cell != during:
                    self._late[(cell, during, "added")] = None
                self._notify(LateOutputAdded(cell=cell, output=change.output, during=during))
            else:
                self.show(cell, [change], during=during)
        self.flush()

    def show(self, cell: int, changes: list[Change], *, during: int) -> None:
        """Emit changes of a cell's outputs while the cell `during` runs.

        Those of one display are emitted at most every `DISPLAY_PAUSE_SECONDS`.
        """
        for change in changes:
            if isinstance(change, Updated):
                self._held[change.display_id] = cell, change, during
                if (now := time.monotonic()) >= self._due.get(change.display_id, 0.0):
                    self._emit_held(change.display_id, now)
                continue
            if self._held and not (isinstance(change, Added) and not change.display_id):
                # The change may add or remove an output of a display whose update is held, so that goes first.
                self.flush()
            if isinstance(change, Added):
                self._notify(OutputAdded(cell=cell, output=change.output))
            else:
                self._notify(OutputsCleared(cell=cell))

    def flush(self, *, only_due: bool = False) -> None:
        """Emit the updates that are held; with `only_due`, those that have waited long enough."""
        now = time.monotonic() if self._held else 0.0
        for name in [each for each in self._held if not only_due or now >= self._due.get(each, 0.0)]:
            self._emit_held(name, now)

    def _emit_held(self, name: str, now: float) -> None:
        cell, change, during = self._held.pop(name)
        if len(self._due) >= MAX_DISPLAYS:
            self._due.clear()
        self._due[name] = now + DISPLAY_PAUSE_SECONDS + sum(map(_length, change.data.values())) / CHARACTERS_PER_SECOND
        changed = [each for each in change.cells if each != during]
        for each in changed:
            self._late[(each, during, "changed")] = None
        data, metadata = change.data, change.metadata
        self._notify(
            OutputUpdated(cell=cell, display_id=name, data=data, metadata=metadata, during=during, changed=changed)
        )

    def take_late(self) -> list[str]:
        """Sentences on the late output since the last call."""
        sentences = [late_sentence(cell, during, how) for cell, during, how in self._late]
        self._late.clear()
        return sentences[:MAX_SENTENCES] + (
            [f"So it went {len(sentences) - MAX_SENTENCES:,} more times."] if len(sentences) > MAX_SENTENCES else []
        )

    def take_widget_state(self) -> dict[str, Any] | None:
        """The state of all widgets, as a notebook's metadata has it, if it changed since the last call."""
        if not self._widgets_changed:
            return None
        self._widgets_changed = False
        return self.widgets.state()


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0
