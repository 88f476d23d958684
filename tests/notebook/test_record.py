"""Events, folded into what a notebook shows."""

from __future__ import annotations

import copy
from typing import Any

from nbagent.core.events import (
    Answered,
    Asked,
    Cell,
    CellFinished,
    CellStarted,
    DataSeen,
    Event,
    FileSaved,
    FileUploaded,
    LateOutputAdded,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    Package,
    PackagesInstalled,
    Record,
    SessionStarted,
    Usage,
    WidgetsChanged,
)
from nbagent.notebook.record import Late, Recording, record

PACKAGE = Package("humanize", "4.17.0", "0" * 64)


def told(*events: Event) -> Recording:
    """The recording of these events."""
    return record(Record(number, float(number), event) for number, event in enumerate(events, start=1))


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """A stream output."""
    return {"output_type": "stream", "name": name, "text": text}


def display(text: str) -> dict[str, Any]:
    """A display output."""
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def finished(cell: int, *outputs: dict[str, Any], **more: Any) -> CellFinished:
    """A cell's end."""
    facts: dict[str, Any] = {"status": "ok", "execution_count": cell, "duration": 0.5}
    return CellFinished(cell=cell, outputs=list(outputs), **facts | more)


def started(cell: int, turn: int = 0, code: str = "1") -> CellStarted:
    """A cell's beginning."""
    return CellStarted(cell=cell, turn=turn, code=code)


def test_an_empty_log_is_an_empty_recording() -> None:
    """Nothing is made up where nothing was."""
    recording = told()
    assert (recording.started, recording.items, recording.data) == (None, [], [])


def test_turns_and_cells_stand_in_the_order_in_which_they_began() -> None:
    """Cells of a question follow it; a person's own cells stand where they ran."""
    recording = told(
        started(1),
        finished(1),
        Asked(turn=1, question="one?"),
        started(2, 1),
        finished(2),
        Answered(turn=1, text="one.", success=True, attempts=1, usage=Usage(1, 2, 3), seconds=4.0),
        started(3),
        finished(3),
        Asked(turn=2, question="two?"),
    )
    order = [item.turn if isinstance(item, Asked) else -getattr(item, "cell", 0) for item in recording.items]
    assert order == [-1, 1, -2, -3, 2]
    (one,) = recording.answers.values()
    assert [each.question for each in recording.questions] == ["one?", "two?"]
    assert (one.turn, one.text, one.success, one.seconds) == (1, "one.", True, 4.0)
    assert one.usage == Usage(1, 2, 3)


def test_how_a_session_was_started_and_its_data_are_kept() -> None:
    """Engine, trust, digest and data come from the first event."""
    data = [DataSeen("/tmp/data/a", "/a", 3)]
    start = SessionStarted(
        session="s", engine="docker", trust="isolated", environment="sha256:0", python="3.11", nbagent="0", data=data
    )
    recording = told(start)
    assert (recording.started, recording.data) == (start, data)


def test_the_end_of_a_cell_decides_its_outputs() -> None:
    """What `CellFinished` tells replaces what was seen on the way."""
    recording = told(started(1), OutputAdded(cell=1, output=stream("half")), finished(1, stream("whole"), note="cut"))
    (cell,) = recording.cells
    assert (cell.outputs, cell.status, cell.note, cell.duration) == ([stream("whole")], "ok", "cut", 0.5)


def test_a_cell_without_an_end_shows_what_it_had_said() -> None:
    """After a kill, text of one stream that came in pieces is whole again, streams are kept apart, in order."""
    recording = told(
        started(1),
        OutputAdded(cell=1, output=stream("a")),
        OutputAdded(cell=1, output=stream("b")),
        OutputAdded(cell=1, output=stream("!", "stderr")),
        OutputAdded(cell=1, output=display("d")),
        OutputAdded(cell=1, output=stream("c")),
    )
    (cell,) = recording.cells
    assert cell.status == "running"
    assert cell.outputs == [stream("ab"), stream("!", "stderr"), display("d"), stream("c")]


def test_cleared_output_is_gone() -> None:
    """`clear_output()` empties a running cell only."""
    recording = told(
        started(1),
        OutputAdded(cell=1, output=stream("a")),
        OutputsCleared(cell=1),
        OutputAdded(cell=1, output=stream("b")),
        started(2),
        finished(2, stream("kept")),
        OutputsCleared(cell=2),
    )
    assert [cell.outputs for cell in recording.cells] == [[stream("b")], [stream("kept")]]


def test_late_output_goes_to_its_cell() -> None:
    """What a thread prints after its cell ended is that cell's, apart from what it showed, with the cell that ran."""
    late = [
        LateOutputAdded(cell=1, output=stream(text), during=during) for text, during in (("b", 2), ("c", 2), ("d", 0))
    ]
    recording = told(started(1), finished(1, stream("a")), started(2), *late[:2], finished(2), late[2])
    assert [cell.outputs for cell in recording.cells] == [[stream("a")], []]
    assert recording.late == {1: [Late(stream("bc"), 2), Late(stream("d"), 0)]}
    assert recording.outputs(recording.cells[0]) == [stream("a"), stream("bc"), stream("d")]


def test_an_update_reaches_every_display_of_that_name() -> None:
    """`update_display` changes displays of earlier cells, those that share the name, and no others."""
    recording = told(
        started(1),
        finished(1, display("a"), display("b"), display("c"), display_ids=["x", "", "x"]),
        started(2),
        finished(2, display("d"), display_ids=["x"]),
        OutputUpdated(cell=2, display_id="x", data={"text/plain": "new"}, metadata={"m": 1}),
        OutputUpdated(cell=2, display_id="unknown", data={}, metadata={}),
    )
    shown = [[output["data"]["text/plain"] for output in cell.outputs] for cell in recording.cells]
    assert shown == [["new", "b", "new"], ["new"]]
    assert recording.cells[0].outputs[0]["metadata"] == {"m": 1}


def test_an_update_changes_those_cells_that_it_is_told_of() -> None:
    """A display that a cell let go, as forged messages make it, is not changed unseen by the model and the audit."""
    recording = told(
        started(1),
        finished(1, display("a"), display_ids=["x"]),
        started(2),
        OutputUpdated(cell=2, display_id="x", data={"text/plain": "new"}, during=2),
        finished(2, display("new"), display_ids=["x"]),
        OutputUpdated(cell=2, display_id="x", data={"text/plain": "newer"}, during=0, changed=[2]),
    )
    assert [cell.outputs[0]["data"]["text/plain"] for cell in recording.cells] == ["a", "newer"]
    assert recording.updated == {(2, 0): 0}


def test_events_are_left_as_they_are() -> None:
    """Recording an update doesn't change the event that told of the output."""
    end = finished(1, display("a"), display_ids=["x"])
    before = copy.deepcopy(end)
    told(
        started(1),
        end,
        OutputUpdated(cell=1, display_id="x", data={"text/plain": "new"}),
        LateOutputAdded(cell=1, output=stream("b")),
    )
    assert end == before


def test_installs_are_kept_for_the_session_and_for_their_cell() -> None:
    """A package installed in a cell is named there and in the whole; one installed outside only in the whole."""
    other = Package("six", "1", "1" * 64)
    recording = told(
        started(1),
        PackagesInstalled(cell=1, packages=[PACKAGE]),
        finished(1),
        PackagesInstalled(cell=0, packages=[other]),
    )
    assert recording.packages == {"humanize": PACKAGE, "six": other}
    assert recording.cells[0].installed == [PACKAGE]


def test_files_and_widgets_are_the_last_told() -> None:
    """A file that was written again and a widget's later state replace the earlier ones."""
    recording = told(
        FileSaved(path="/x", size=1, sha256="1"),
        FileSaved(path="/x", size=2, sha256="2"),
        WidgetsChanged(state={"state": {"a": 1}}),
        WidgetsChanged(state={"state": {"b": 2}}),
    )
    assert recording.files["/x"].size == 2
    assert recording.widgets == {"state": {"b": 2}}


def test_events_of_nothing_known_are_passed_over() -> None:
    """A log that lost its beginning is recorded as far as it goes."""
    recording = told(
        finished(1, stream("x")),
        OutputAdded(cell=1, output=stream("x")),
        LateOutputAdded(cell=1, output=stream("x")),
        OutputsCleared(cell=1),
        Answered(turn=1, text="", success=True, attempts=0),
        started(2),
    )
    assert recording.items == [Cell(cell=2, code="1", status="running")]


def test_uploads_stand_where_they_came() -> None:
    """Between the cells; those that came from a file are needed again, but for data of the same name."""
    given = DataSeen("/tmp/data/a.csv", "/far/a.csv", 1)
    ups = [
        FileUploaded(path="/workspace/b", name="b", size=2, sha256="0" * 64, source="/far/b"),
        FileUploaded(path="/workspace/a.csv", name="a.csv", size=2, sha256="0" * 64, source="/other/a.csv"),
        FileUploaded(path="/workspace/raw", name="raw", size=2, sha256="0" * 64),
    ]
    start = SessionStarted(
        session="s", engine="docker", trust="isolated", environment="", python="3.11", nbagent="0", data=[given]
    )
    recording = told(start, started(1), finished(1), ups[0], started(2), finished(2), ups[1], ups[2])
    kinds = [type(item).__name__ for item in recording.items]
    assert kinds == ["CellFinished", "FileUploaded", "CellFinished", "FileUploaded", "FileUploaded"]
    assert recording.uploads == ups
    assert recording.needed == [DataSeen("/tmp/data/b", "/far/b", 2), given]
