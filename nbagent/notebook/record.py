"""Folds a session's events into what its notebook shows. Pure: records in, plain data out."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nbagent.core import events
from nbagent.safety.sanitize.widgets import MODEL
from nbagent.sandbox.paths import DATA


@dataclass
class Late:
    """Output that a cell got after its end, and the cell that ran then: 0 for none, None if the log doesn't say."""

    output: events.Output
    during: int | None


@dataclass(frozen=True)
class Origin:
    """Who had a cell run: the tool, who approved of it, and when, in seconds since the epoch."""

    tool: str
    approver: str
    at: float


@dataclass
class Recording:
    """What a session's notebook has to show, of the events so far.

    Attributes:
        started: How it was started, with the kernel that it has since it was resumed; None for an empty log.
        items: Questions, what the model said before it ran a cell, uploads and cells, in the order in which they came;
            an answer stands after the last item of its question. A cell that runs has what it showed so far.
        origins: Who had each cell run, by its number.
        models: Who answered each question, by its number.
        at: The time of the last event, in seconds since the epoch; 0 for an empty log.
        title: What a person called it; empty if nobody did.
        began: The time at which the sandbox was started.
        answers: By the numbers of their questions.
        undone: By the numbers of questions that were undone, the cells that had made the kernel's state before.
        late: What came for a cell after its end, by its number.
        updated: By the number of a cell and the place of an output in it, the cell that ran when that was last changed
            after the end.
        packages: All that was installed, by name.
        data: What the sandbox sees read-only.
        hashes: The SHA-256 that it had at the start, by path, as far as it was hashed.
        schemas: The columns of its tables, by path.
        left_out: What of it code is not shown, in sentences.
        files: What reached the host, by path.
        heard: What tools of other programs told the model.
        widgets: The state of the widgets, empty if there are none.
        widgets_changed: By the name of a widget's model, the last cell that changed it, or one that it holds, after an
            earlier one had ended.
    """

    started: events.SessionStarted | None = None
    items: list[events.Asked | events.ModelReplied | events.FileUploaded | events.Cell] = field(default_factory=list)
    origins: dict[int, Origin] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)
    at: float = 0.0
    title: str = ""
    began: float = 0.0
    answers: dict[int, events.Answer] = field(default_factory=dict)
    undone: dict[int, list[int]] = field(default_factory=dict)
    late: dict[int, list[Late]] = field(default_factory=dict)
    updated: dict[tuple[int, int], int | None] = field(default_factory=dict)
    packages: dict[str, events.Package] = field(default_factory=dict)
    data: list[events.DataSeen] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    schemas: dict[str, list[events.ColumnType]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    files: dict[str, events.FileSaved] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    widgets: dict[str, Any] = field(default_factory=dict)
    widgets_changed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places: dict[int, int] = {}
        self._shown: dict[str, list[tuple[int, int]]] = {}

    @property
    def cells(self) -> list[events.Cell]:
        """All cells, in order."""
        return [item for item in self.items if isinstance(item, events.Cell)]

    @property
    def questions(self) -> list[events.Asked]:
        """All questions, in order."""
        return [item for item in self.items if isinstance(item, events.Asked)]

    @property
    def uploads(self) -> list[events.FileUploaded]:
        """All uploads, in order."""
        return [item for item in self.items if isinstance(item, events.FileUploaded)]

    @property
    def needed(self) -> list[events.DataSeen]:
        """What a re-run needs of the host, and where it looks for it: the data, and uploads that came from a file."""
        given = {f"{DATA}/{each.name}": each for each in self.uploads if each.source}
        uploads = {path: events.DataSeen(path, each.source, each.size) for path, each in given.items()}
        return [*(uploads | {each.path: each for each in self.data}).values()]

    def cell(self, number: int) -> events.Cell | None:
        """The cell of that number, as far as it is known."""
        item = self.items[self._places[number]] if number in self._places else None
        return item if isinstance(item, events.Cell) else None

    def outputs(self, cell: events.Cell) -> list[events.Output]:
        """What a cell shows, what came late included."""
        return [*cell.outputs, *(each.output for each in self.late.get(cell.cell, ()))]

    def snapshot(self) -> Recording:
        """A copy for another thread, while this one takes in further records; what was undone is left out of it."""
        taken = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(taken, name, value.copy())
        taken.items = [
            msgspec.structs.replace(item, outputs=[*item.outputs], installed=[*item.installed])
            if isinstance(item, events.Cell)
            else item
            for item in self.items
            if getattr(item, "turn", 0) not in self.undone
        ]
        taken._places = {item.cell: place for place, item in enumerate(taken.items) if isinstance(item, events.Cell)}
        taken.answers = {turn: answer for turn, answer in self.answers.items() if turn not in self.undone}
        taken.late = {cell: [*late] for cell, late in self.late.items()}
        return taken

    def on_event(self, record: events.Record) -> None:
        """Take in the next record."""
        self.at = record.at
        match record.event:
            case events.SessionStarted() as started:
                self.started = started
                self.data = list(started.data)
                self.began = record.at - started.seconds
            case events.SessionResumed(packages=packages) as resumed if self.started and packages:
                self.started = msgspec.structs.replace(
                    self.started,
                    engine=resumed.engine,
                    environment=resumed.environment,
                    python=resumed.python,
                    packages=packages,
                )
            case events.Renamed(title=title):
                self.title = title
            case events.DataHashed(hashes=hashes):
                self.hashes.update(hashes)
                for number, item in enumerate(self.items):
                    if isinstance(item, events.FileUploaded) and not item.sha256 and item.path in hashes:
                        self.items[number] = msgspec.structs.replace(item, sha256=hashes[item.path])
            case events.FileDownloaded(path=path, sha256=sha256, to=to) if to and sha256:
                for number, item in enumerate(self.items):
                    if isinstance(item, events.FileUploaded) and (item.path, item.sha256, item.source) == (
                        path,
                        sha256,
                        "",
                    ):
                        self.items[number] = msgspec.structs.replace(item, source=to)
            case events.DataDescribed(schemas=schemas):
                self.schemas.update(schemas)
            case events.DataLeftOut(text=text):
                self.left_out.append(text)
            case events.Asked() | events.FileUploaded() as item:
                self.items.append(item)
                if isinstance(item, events.Asked):
                    self.models[item.turn] = item.model
            case events.ModelReplied(text=text, tools=tools) as reply if tools and text.strip():
                self.items.append(reply)
            case events.Answered(turn=turn) as answer:
                self.answers[turn] = answer
            case events.TurnUndone(turn=turn, undone=True) as taken:
                self.undone[turn] = taken.cells
            case events.TurnUndone(turn=turn):
                self.undone.pop(turn, None)
            case events.CellStarted(cell=number, turn=turn, code=code) as begun:
                tool = begun.tool or ("python" if turn else "person")
                self.origins[number] = Origin(tool, begun.approver, record.at)
                self._places[number] = len(self.items)
                self.items.append(events.Cell(cell=number, turn=turn, code=code, status="running"))
            case events.PackagesInstalled(cell=number, packages=packages):
                self.packages.update({each.name: each for each in packages})
                if cell := self.cell(number):
                    cell.installed.extend(packages)
            case events.FileSaved(path=path) as saved:
                self.files[path] = saved
            case events.McpToolCalled(text=text):
                self.heard.append(text)
            case events.WidgetsChanged(state=state):
                self._take_widgets(state)
            case event:
                self._add_output(event)

    def _add_output(self, event: Any) -> None:
        cell = self.cell(getattr(event, "cell", 0))
        match event:
            case events.OutputAdded(output=output) if cell and cell.status == "running":
                _append(cell.outputs, output)
            case events.OutputsCleared() if cell and cell.status == "running":
                cell.outputs.clear()
            case events.LateOutputAdded(output=output, during=during) if cell and (
                cell.status == "running" or during == cell.cell
            ):
                _append(cell.outputs, output)
            case events.FilesLeft() as left if cell:
                _append(cell.outputs, events.left_output(left))
            case events.LateOutputAdded(output=output, during=during) if cell:
                self._add_late(cell.cell, output, during)
            case events.OutputUpdated() as update:
                self._update(update)
            case events.CellFinished() as finished if cell:
                self._finish(cell, finished)

    def _update(self, event: events.OutputUpdated) -> None:
        for number, place in self._shown.get(event.display_id, []):
            if event.during not in (None, number) and number not in event.changed:
                continue  # it let go of that name: for the model and the audit it was not changed either
            if cell := self.cell(number):
                cell.outputs[place] = {**cell.outputs[place], "data": event.data, "metadata": event.metadata}
                if event.during != number:
                    self.updated[number, place] = event.during

    def _finish(self, cell: events.Cell, finished: events.CellFinished) -> None:
        """Take a cell's end; in an old log that doesn't say what ran, and what was installed for it."""
        self.items[self._places[cell.cell]] = msgspec.structs.replace(
            finished,
            turn=cell.turn,
            code=cell.code,
            installed=cell.installed,
            # The kernel goes on changing its own dicts when displays are updated; the record follows by events.
            outputs=[copy.copy(output) for output in finished.outputs],
        )
        for place, (name, _) in enumerate(zip(finished.display_ids, finished.outputs, strict=False)):
            if name:
                self._shown.setdefault(name, []).append((cell.cell, place))

    def _add_late(self, cell: int, output: events.Output, during: int | None) -> None:
        late = self.late.setdefault(cell, [])
        if late and late[-1].during == during:
            last = [late.pop().output]
            _append(last, output)
            late += [Late(each, during) for each in last]
        else:
            late.append(Late(dict(output), during))

    def _take_widgets(self, state: dict[str, Any]) -> None:
        """Take the state that the widgets had at the end of the last cell."""
        former, models = self.widgets.get("state", {}), state.get("state", {})
        found = {name for name, model in models.items() if name in former and former[name] != model}
        if found:
            holders: dict[str, list[str]] = {}
            for name, model in models.items():
                for held in _held(model):
                    holders.setdefault(held, []).append(name)
            rest = list(found)
            while rest:
                others = set(holders.get(rest.pop(), ())) - found
                found |= others
                rest += others
        self.widgets_changed |= dict.fromkeys(found, max(self._places, default=0))
        self.widgets = state


def _held(model: Any) -> Iterator[str]:
    """The names of the models that a widget's model holds."""
    rest = [model]
    while rest:
        each = rest.pop()
        if isinstance(each, dict | list):
            rest += each.values() if isinstance(each, dict) else each
        elif isinstance(each, str) and (named := MODEL.fullmatch(each)):
            yield named[1]


def _append(outputs: list[events.Output], output: events.Output) -> None:
    last = outputs[-1] if outputs else None
    if last and output["output_type"] == "stream" == last["output_type"] and output["name"] == last["name"]:
        outputs[-1] = {**last, "text": last["text"] + output["text"]}
    else:
        outputs.append(dict(output))


def record(records: Iterable[events.Record]) -> Recording:
    """A recording of a whole log."""
    recording = Recording()
    for each in records:
        recording.on_event(each)
    return recording
