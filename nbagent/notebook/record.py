"""Folds a session's events into what its notebook shows. Pure: records in, plain data out."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nbagent.events import (
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    Claim,
    DataLeftOut,
    DataSeen,
    FileSaved,
    FilesLeft,
    FileUploaded,
    LateOutput,
    ModelReplied,
    Output,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    Package,
    PackagesInstalled,
    Record,
    SessionStarted,
    WidgetState,
    left_output,
)

DATA = "/tmp/data"  # noqa: S108 - a path inside


@dataclass
class Late:
    """Output that a cell got after its end, and the cell that ran then: 0 for none, None if the log doesn't say."""

    output: Output
    during: int | None


@dataclass
class RecordedCell:
    """A cell as it stands in the log; `status` is `running` while nothing tells of its end.

    Attributes:
        outputs: What it showed at its end, and what updates have made of that.
        changed: By the place of an output in them, the cell that ran when it was last changed after the end.
        late: What came for it after its end.
    """

    cell: int
    turn: int
    code: str
    status: str = "running"
    outputs: list[Output] = field(default_factory=list)
    execution_count: int | None = None
    duration: float = 0.0
    note: str = ""
    installed: list[Package] = field(default_factory=list)
    changed: dict[int, int | None] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)

    @property
    def all_outputs(self) -> list[Output]:
        """What it shows, what came late included."""
        return [*self.outputs, *(each.output for each in self.late)]


@dataclass
class RecordedTurn:
    """A question and what became of it."""

    turn: int
    question: str
    model: str
    replay: bool
    answer: str | None = None
    success: bool = False
    usage: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    claims: list[Claim] = field(default_factory=list)


@dataclass
class Remark:
    """What the model said before it ran a cell."""

    turn: int
    text: str


@dataclass
class RecordedUpload:
    """What a person put into the sandbox, at its place between the cells."""

    upload: FileUploaded
    turn: int = 0


@dataclass
class Recording:
    """A session so far.

    Attributes:
        started: How it was started, None for an empty log.
        items: Turns, remarks, uploads and cells in the order in which they came; a turn's answer stands after its last
            item.
        packages: All that was installed, by name.
        data: What the sandbox sees read-only.
        left_out: What of it code is not shown, in sentences.
        files: What reached the host, by path.
        widgets: The state of the widgets, empty if there are none.
        widgets_changed: By the name of a widget's model, the last cell at whose end it was another than at an earlier
            one's.
    """

    started: SessionStarted | None = None
    items: list[RecordedTurn | Remark | RecordedUpload | RecordedCell] = field(default_factory=list)
    packages: dict[str, Package] = field(default_factory=dict)
    data: list[DataSeen] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    files: dict[str, FileSaved] = field(default_factory=dict)
    widgets: dict[str, Any] = field(default_factory=dict)
    widgets_changed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._cells: dict[int, RecordedCell] = {}
        self._turns: dict[int, RecordedTurn] = {}
        self._shown: dict[str, list[tuple[RecordedCell, int]]] = {}

    @property
    def cells(self) -> list[RecordedCell]:
        """All cells, in order."""
        return [item for item in self.items if isinstance(item, RecordedCell)]

    @property
    def turns(self) -> list[RecordedTurn]:
        """All turns, in order."""
        return [item for item in self.items if isinstance(item, RecordedTurn)]

    @property
    def uploads(self) -> list[FileUploaded]:
        """All uploads, in order."""
        return [item.upload for item in self.items if isinstance(item, RecordedUpload)]

    @property
    def needed(self) -> list[DataSeen]:
        """What a re-run needs of the host, and where it looks for it: the data, and uploads that came from a file."""
        given = {f"{DATA}/{each.name}": each for each in self.uploads if each.source}
        uploads = {path: DataSeen(path, each.source, each.size) for path, each in given.items()}
        return [*(uploads | {each.path: each for each in self.data}).values()]

    def add(self, record: Record) -> None:
        """Take in the next record."""
        match record.event:
            case SessionStarted() as started:
                self.started = started
                self.data = list(started.data)
            case DataLeftOut(text=text):
                self.left_out.append(text)
            case Asked(turn=turn) as asked:
                self._turns[turn] = RecordedTurn(turn, asked.question, asked.model, asked.replay)
                self.items.append(self._turns[turn])
            case Answered(turn=turn) as answered if turn in self._turns:
                self._answer(self._turns[turn], answered)
            case ModelReplied(turn=turn, text=text, tools=tools) if tools and text.strip():
                self.items.append(Remark(turn, text.strip()))
            case CellStarted(cell=number) as started_cell:
                self._cells[number] = RecordedCell(number, started_cell.turn, started_cell.code)
                self.items.append(self._cells[number])
            case PackagesInstalled(cell=number, packages=packages):
                self.packages.update({each.name: each for each in packages})
                if number in self._cells:
                    self._cells[number].installed += packages
            case FileSaved(path=path) as saved:
                self.files[path] = saved
            case FileUploaded() as upload:
                self.items.append(RecordedUpload(upload))
            case WidgetState(state=state):
                self._take_widgets(state)
            case event:
                self._add_output(event)

    @staticmethod
    def _answer(turn: RecordedTurn, answered: Answered) -> None:
        turn.answer, turn.success, turn.seconds = answered.text, answered.success, answered.seconds
        turn.claims = answered.claims
        usage = answered.usage
        turn.usage = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "calls": usage.calls,
        }

    def _add_output(self, event: Any) -> None:
        cell = self._cells.get(getattr(event, "cell", 0))
        match event:
            case OutputAdded(output=output) if cell and cell.status == "running":
                _append(cell.outputs, output)
            case OutputsCleared() if cell and cell.status == "running":
                cell.outputs.clear()
            case LateOutput(output=output, during=during) if cell and (cell.status == "running" or during == cell.cell):
                _append(cell.outputs, output)
            case FilesLeft() as left if cell:
                _append(cell.outputs, left_output(left))
            case LateOutput(output=output, during=during) if cell:
                self._add_late(cell, output, during)
            case OutputUpdated(display_id=name, data=data, metadata=metadata, during=during, changed=changed):
                for shown, place in self._shown.get(name, []):
                    if during not in (None, shown.cell) and shown.cell not in changed:
                        continue  # it let go of that name: for the model and the audit it was not changed either
                    shown.outputs[place] = {**shown.outputs[place], "data": data, "metadata": metadata}
                    if during != shown.cell:
                        shown.changed[place] = during
            case CellFinished() as finished if cell:
                self._finish(cell, finished)

    def _finish(self, cell: RecordedCell, finished: CellFinished) -> None:
        cell.status, cell.duration, cell.note = finished.status, finished.duration, finished.note
        cell.execution_count = finished.execution_count
        # The kernel goes on changing its own dicts when displays are updated; the record follows by events.
        cell.outputs = [copy.copy(output) for output in finished.outputs]
        for place, (name, _) in enumerate(zip(finished.display_ids, cell.outputs, strict=False)):
            if name:
                self._shown.setdefault(name, []).append((cell, place))

    @staticmethod
    def _add_late(cell: RecordedCell, output: Output, during: int | None) -> None:
        if cell.late and cell.late[-1].during == during:
            last = [cell.late.pop().output]
            _append(last, output)
            cell.late += [Late(each, during) for each in last]
        else:
            cell.late.append(Late(dict(output), during))

    def _take_widgets(self, state: dict[str, Any]) -> None:
        """Take the state that the widgets had at the end of the last cell."""
        former, last = self.widgets.get("state", {}), max(self._cells, default=0)
        for name, model in state.get("state", {}).items():
            if name in former and former[name] != model:
                self.widgets_changed[name] = last
        self.widgets = state


def _append(outputs: list[Output], output: Output) -> None:
    last = outputs[-1] if outputs else None
    if last and output["output_type"] == "stream" == last["output_type"] and output["name"] == last["name"]:
        outputs[-1] = {**last, "text": last["text"] + output["text"]}
    else:
        outputs.append(dict(output))


def record(records: Iterable[Record]) -> Recording:
    """A recording of a whole log."""
    recording = Recording()
    for each in records:
        recording.add(each)
    return recording
