"""Where each message of a kernel belongs: to the cell that runs, to an earlier one, to the widgets, or nowhere.

What a message says of its parent is a claim. It decides whose output it becomes, and no more: a cell that has ended
stays as it was returned, and what comes for it later is told as late, with the cell that runs then.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from nbagent.core.events import Event, LateOutputAdded, OutputAdded, OutputsCleared, OutputUpdated
from nbagent.kernel.execution import Execution
from nbagent.kernel.outputs.outputs import Added, CellOutputs, Change, Displays, OutputLimits, Updated
from nbagent.kernel.outputs.widgets import Widgets

RECENT = 120
"""Requests whose late output is still attributed to a cell."""
SILENT = 100
"""How many of them may be silent ones: what is printed comes up to 0.2 s later, and a file takes hundreds."""

PAUSE = 0.1
"""Seconds between two updates of one display that are told, and one more for each of its `PACE` characters: whoever
follows sees the last one in any case, and those between are superseded before anybody could read them."""
PACE = 1024 * 1024
DISPLAYS = 10_000
"""Displays whose last update is remembered."""
TOLD = 10
"""Sentences on late output that one cell's note has."""

Notify = Callable[[Event], object]
"""Gets each event as it happens. It must not raise but to end the cell: a log that can't be written."""


def late_sentence(cell: int, during: int, how: str) -> str:
    """What the model is told of output that was added or changed after its cell's end."""
    when = f"while cell {during} ran" if during else "while no cell ran"
    what = f"Output was added to cell {cell}" if how == "added" else f"What cell {cell} showed was changed"
    return f"{what} {when}, after that cell had ended."


class Router:
    """Sorts the messages of a kernel, and tells what they change in what is shown.

    Args:
        notify: Gets the events.
        limits: What is kept of a cell's outputs.
        spill: Makes, for a cell's number, what takes the stream text that is left out of the notebook.

    Attributes:
        widgets: The models that are open in the present kernel.
    """

    def __init__(
        self,
        notify: Notify,
        *,
        limits: OutputLimits | None = None,
        spill: Callable[[int], Callable[[str, str], None]] | None = None,
    ) -> None:
        self._notify = notify
        self._limits = limits or OutputLimits()
        self._spill = spill
        self._displays = Displays()
        self.widgets = Widgets(displays=self._displays)
        self._widgets_changed = False
        self._held: dict[str, tuple[int, Updated, int]] = {}
        self._due: dict[str, float] = {}
        self._recent: OrderedDict[str, tuple[int, CellOutputs]] = OrderedDict()
        self._silent: deque[str] = deque()
        self._late: dict[tuple[int, int, str], None] = {}

    def begin(self, cell: int) -> CellOutputs:
        """Where the outputs of a cell that begins are collected."""
        spill = self._spill(cell) if self._spill else None
        return CellOutputs(displays=self._displays, cell=cell, limits=self._limits, spill=spill)

    def forget(self) -> None:
        """A new kernel took the old one's place: whatever that one had open is gone."""
        self.flush()
        self._recent.clear()
        self._silent.clear()
        self._displays = Displays()
        self.widgets = Widgets(displays=self._displays)

    # -- requests -----------------------------------------------------------------------------------------------

    def remember(self, msg_id: str, cell: int, outputs: CellOutputs) -> None:
        """A request is a cell's: what comes of it later is that cell's late output."""
        self._recent[msg_id] = (cell, outputs)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def remember_silent(self, msg_id: str) -> None:
        """Remember a silent request as the last cell's: ipykernel names it as the parent of what a thread of it prints.

        Only the latest silent requests are remembered, so that a large file's don't push out the cells.
        """
        if not self._recent:
            return
        self.remember(msg_id, *next(reversed(self._recent.values())))
        self._silent.append(msg_id)
        if len(self._silent) > SILENT:
            self._recent.pop(self._silent.popleft(), None)

    # -- messages -----------------------------------------------------------------------------------------------

    def take(self, channel: str, message: dict[str, Any], run: Execution | None = None) -> None:
        """Sort one message.

        Args:
            channel: `shell` or `iopub`.
            message: As the connection gives it.
            run: What runs now, if it is a cell.
        """
        kind = message["header"].get("msg_type")
        parent = message["parent_header"].get("msg_id")
        if channel == "shell":
            if run is not None and parent == run.msg_id and kind == "execute_reply" and run.reply is None:
                run.reply = message["content"]
        elif self.widgets.add(message):
            self._widgets_changed = True
        elif run is not None and parent == run.msg_id:
            self._take_present(message, run)
        elif parent in self._recent and kind != "status":
            self._take_late(message, *self._recent[parent], during=run.cell if run is not None else 0)

    def take_unseen(self, channel: str, message: dict[str, Any]) -> None:
        """Take a message of code that is run again: nothing of it is shown, only widgets are open again."""
        if channel == "iopub":
            self.widgets.add(message)

    def _take_present(self, message: dict[str, Any], run: Execution) -> None:
        # As long as output comes, its end is only late.
        run.half_done_at = None
        if message["header"].get("msg_type") == "status":
            run.idle |= message["content"].get("execution_state") == "idle"
        else:
            self.show(run.cell, run.outputs.add(message), during=run.cell)

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
        """Tell what changed in what a cell shows, while that one or another one runs.

        An update waits if the one before it has only just been told.
        """
        for change in changes:
            if isinstance(change, Updated):
                self._held[change.display_id] = cell, change, during
                if (now := time.monotonic()) >= self._due.get(change.display_id, 0.0):
                    self._tell_held(change.display_id, now)
                continue
            if self._held and not (isinstance(change, Added) and not change.display_id):
                # What shows the same display from now on, or no longer does, comes after what is held for it.
                self.flush()
            if isinstance(change, Added):
                self._notify(OutputAdded(cell=cell, output=change.output))
            else:
                self._notify(OutputsCleared(cell=cell))

    def flush(self, *, only_due: bool = False) -> None:
        """Tell the updates that are held; `only_due` those that have waited long enough."""
        now = time.monotonic() if self._held else 0.0
        for name in [each for each in self._held if not only_due or now >= self._due.get(each, 0.0)]:
            self._tell_held(name, now)

    def _tell_held(self, name: str, now: float) -> None:
        cell, change, during = self._held.pop(name)
        if len(self._due) >= DISPLAYS:
            self._due.clear()
        self._due[name] = now + PAUSE + sum(map(_length, change.data.values())) / PACE
        changed = [each for each in change.cells if each != during]
        for each in changed:
            self._late[(each, during, "changed")] = None
        data, metadata = change.data, change.metadata
        self._notify(
            OutputUpdated(cell=cell, display_id=name, data=data, metadata=metadata, during=during, changed=changed)
        )

    def take_late(self) -> list[str]:
        """What came late since the last call, a sentence for each cell and moment."""
        told = [late_sentence(cell, during, how) for cell, during, how in self._late]
        self._late.clear()
        return told[:TOLD] + ([f"So it went {len(told) - TOLD:,} more times."] if len(told) > TOLD else [])

    def take_widget_state(self) -> dict[str, Any] | None:
        """The state of all widgets, as a notebook's metadata has it, if it changed since the last call."""
        if not self._widgets_changed:
            return None
        self._widgets_changed = False
        return self.widgets.state()


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0
