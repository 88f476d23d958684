"""Events survive the way into the log and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from nbagent.core import events
from nbagent.core.events import (
    Answer,
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalsSet,
    Asked,
    Cell,
    CellFinished,
    CellStarted,
    CellWaits,
    Claim,
    CodeGenerated,
    ColumnType,
    CommandRun,
    DataDescribed,
    DataHashed,
    DataLeftOut,
    DataSeen,
    Event,
    FileDownloaded,
    FileLeft,
    FileSaved,
    FilesChanged,
    FileSeen,
    FilesLeft,
    FileUploaded,
    HostAsked,
    HostDecided,
    IndexAsked,
    InstallFailed,
    LateOutputAdded,
    McpRequestDeclined,
    McpServerChanged,
    McpToolCalled,
    McpToolsChanged,
    McpToolsSelected,
    ModelFailed,
    ModelReplied,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    Package,
    PackagesInstalled,
    PhaseEntered,
    Piece,
    QuotaReached,
    Record,
    RedactionSet,
    Reflected,
    Renamed,
    SentToModel,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    StateLost,
    StateRestored,
    ToolRefused,
    ToolStageEntered,
    TurnUndone,
    Usage,
    WidgetsChanged,
    from_json,
    to_json,
)

TEXT = "naïve \0 \x1b[31m 🐧 \u2028 \ufffd\n"
OUTPUT = {"output_type": "display_data", "data": {"text/plain": TEXT, "application/json": {"a": [1, None]}}}
EVENTS: list[Any] = [
    SessionStarted(
        session="s",
        engine="docker",
        trust="isolated",
        environment="sha256:0",
        python="3.11.7",
        nbagent="0.1",
        data=[DataSeen("/tmp/data/a", "/a", 3)],
    ),
    Asked(turn=1, question=TEXT, model="replay:x", replay=True),
    ModelReplied(turn=1, text=TEXT, tools=["python"], usage=Usage(1, 2, 3)),
    ApprovalsSet(mode="ask"),
    RedactionSet(what="pii"),
    CodeGenerated(turn=1, code=TEXT, dependencies=["a>=1"], reasoning=TEXT, confidence=0.25),
    CellStarted(cell=1, turn=1, code=TEXT, tool="python", approver="policy:never-ask"),
    CellWaits(cell=1),
    CommandRun(cell=1, argv=["/bin/sh", TEXT], pid=7),
    OutputAdded(cell=1, output=OUTPUT),
    OutputUpdated(cell=1, display_id="d", data={"text/plain": TEXT}, metadata={"a": 1}, during=2, changed=[1]),
    OutputsCleared(cell=1),
    IndexAsked(cell=1, names=["humanize", TEXT], unknown=[TEXT]),
    PackagesInstalled(cell=1, packages=[Package("humanize", "4.17.0", "0" * 64, False)], reason="why"),
    InstallFailed(cell=1, requirements=["leftpad"], reason=TEXT, refused=True),
    HostAsked(id="h1", host="example.org", port=443),
    ApprovalAsked(
        id="a1", turn=1, kind="install", tool="install", what=TEXT, code=TEXT, packages=["polars==1.2"], note=TEXT
    ),
    ApprovalGiven(id="a1", turn=1, decision="edit", by="person", code=TEXT, reason=TEXT),
    PhaseEntered(turn=1, phase="evaluation", text=TEXT),
    SentToModel(turn=1, model="openai:m", host="h:1", size=3, pieces=[Piece(TEXT, 3, "0" * 64, ["aws key"])], resent=2),
    Reflected(turn=1, attempt=2, state="critique", error=TEXT, critique=TEXT, usage=Usage(calls=1)),
    ModelFailed(turn=1, model="openai:m", reason=TEXT, usage=Usage(input_tokens=1, output_tokens=2, calls=1), wait=0.5),
    HostDecided(host="example.org", port=443, allowed=False, by="person", reason=TEXT, address="93.184.216.34"),
    ApprovalAsked(id="a1", turn=1, kind="shell", tool="python", what=TEXT, code=TEXT, rules=["shell:ls"]),
    ApprovalGiven(id="a1", turn=1, decision="edit", by="person", code=TEXT, reason=TEXT),
    CellFinished(cell=1, status="died", outputs=[OUTPUT], execution_count=None, duration=0.5, note=TEXT),
    LateOutputAdded(cell=1, output=OUTPUT, during=2),
    StateLost(cell=1, reason=TEXT),
    TurnUndone(turn=2, cells=[3], undone=False),
    StateRestored(cell=3, cells=[1], failed=2, skipped=[], reason=TEXT, seconds=0.5, text=TEXT),
    WidgetsChanged(state={"version_major": 2, "state": {}}),
    FileSaved(path="/x", size=1, sha256="0" * 64, cell=1),
    FilesLeft(cell=1, files=[FileLeft("/tmp/output/link", "it is a link")]),
    QuotaReached(cell=1, limit=1024),
    FilesChanged(cell=1, files=[FileSeen("/workspace/a", 3)], more=2),
    DataLeftOut(reason="links", paths=["figures"], total=1, text="Not shown in /tmp/data: links (figures)."),
    DataDescribed(schemas={"/tmp/data/a.csv": [ColumnType("a", "Int64"), ColumnType(TEXT, "String")]}),
    DataHashed(hashes={"/tmp/data/a.csv": "0" * 64}),
    FileUploaded(path="/workspace/a", name="a", size=1, sha256="0" * 64, source="/a", unpacked=3),
    FileDownloaded(path="/workspace/a", size=1, sha256="0" * 64, to="/a"),
    McpServerChanged(server="time", state="failed", reason=TEXT, version="t 1", protocol="2025-11-25", seconds=0.5),
    McpToolsChanged(server="time", changed=["now"], added=["a"], removed=["b"], unusable={"c": TEXT}),
    McpToolsSelected(tools=["time__now"], confidence=0.5, missing=["web:search"], reasons=[TEXT]),
    McpRequestDeclined(server="time", method="sampling/createMessage"),
    McpToolCalled(server="time", tool="now", arguments={"a": [TEXT]}, status="ok", text=TEXT, seconds=0.5),
    ToolStageEntered(tool="t1", version=2, stage="creating", seconds=0.5, code=TEXT, tests=TEXT, dependencies=["x"]),
    ToolRefused(tool="t1", reason=TEXT),
    Answered(turn=1, text=TEXT, success=True, attempts=2, usage=Usage(1), seconds=1.5),
    SessionResumed(kept=True, note="Its kernel was taken over.", engine="docker", environment="sha256:0", sandbox="b"),
    Renamed(title="Sales"),
    SessionEnded(reason="done"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    """What is read from the log equals what was written, whatever the text."""
    record = Record(7, 1.25, event)
    line = msgspec.json.encode(record)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=Record) == record
    assert msgspec.json.decode(line)["event"]["type"] == type(event).__name__


def test_every_kind_of_event_is_one_of_the_log() -> None:
    """No kind of fact is defined that a log could not be read with, and each is tried above."""
    facts = {each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Fact)}
    assert facts - {events.Fact} == set(get_args(Event)) == {type(event) for event in EVENTS}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_cannot_be_changed(event: Any) -> None:
    """A reader can't alter what the next one is shown."""
    with pytest.raises(AttributeError):
        setattr(event, event.__struct_fields__[0], None)


def test_a_log_of_a_later_version_can_be_read() -> None:
    """A field that this version doesn't know is passed over."""
    line = b'{"seq": 1, "at": 0.0, "new": 1, "event": {"type": "SessionEnded", "reason": "", "more": [1]}}'
    assert msgspec.json.decode(line, type=Record).event == SessionEnded()


def test_a_log_of_an_earlier_version_can_be_read() -> None:
    """What a cell's end and an answer did not have then is what it is for a cell and an answer that have none."""
    ended = (
        b'{"seq":9,"at":1.5,"event":{"type":"CellFinished","cell":2,"status":"error","outputs":[],"execution_count":2,'
        b'"duration":0.25,"note":"","display_ids":[],"memory_peak":null,"memory_limit":null,"exit_code":null}}'
    )
    answered = (
        b'{"seq":10,"at":2.0,"event":{"type":"Answered","turn":1,"text":"48.9","success":true,"attempts":2,'
        b'"usage":{"input_tokens":1,"output_tokens":2,"calls":3},"seconds":1.5,"claims":[{"text":"48.9","cell":2}]}}'
    )
    cell = msgspec.json.decode(ended, type=Record).event
    answer = msgspec.json.decode(answered, type=Record).event
    assert cell == CellFinished(cell=2, status="error", outputs=[], execution_count=2, duration=0.25)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.usage, answer.claims, answer.cells) == ("48.9", Usage(1, 2, 3), [Claim("48.9", 2)], [])


def test_the_end_of_a_cell_and_of_a_question_are_what_came_of_it() -> None:
    """The event is the cell, or the answer; the log doesn't repeat what other events have told of an answer."""
    cell = CellFinished(cell=1, turn=1, code="1", status="ok", outputs=[OUTPUT])
    assert isinstance(cell, Cell)
    assert cell.success
    answered = Answered(turn=1, text="1", success=True, attempts=1)
    assert isinstance(answered, Answer)
    assert msgspec.json.decode(to_json(answered)) == {
        "type": "Answered", "turn": 1, "text": "1", "success": True, "attempts": 1,
    }  # fmt: skip


def test_an_answer_comes_back_from_json() -> None:
    """With its cells and the paths of its files; half a surrogate pair becomes a question mark."""
    cell = Cell(cell=1, turn=1, code="1", status="ok", outputs=[OUTPUT], installed=[Package("a", "1", "0" * 64)])
    answer = Answer(turn=1, text=TEXT, success=True, attempts=1, cells=[cell], files=[Path("/a b")])
    assert from_json(to_json(answer), Answer) == answer
    broken = Cell(cell=1, status="ok", outputs=[{"output_type": "stream", "name": "stdout", "text": "a\ud800b"}])
    assert from_json(to_json(broken), Cell).outputs[0]["text"] == "a?b"


def test_an_answer_names_other_readings_of_its_question() -> None:
    """Each is a line that begins with the word that the model is told to use."""
    text = "It is 3.\n\nAlternative: by count, 4.\n- **Alternative:** by volume, 5.\nAn alternative: none."
    text += "\nAlternative:\nNone."
    answer = Answer(turn=1, text=text, success=True, attempts=1)
    assert answer.alternatives == ["by count, 4.", "by volume, 5."]


def test_usage_adds_up() -> None:
    """Tokens and calls of several replies are summed field by field."""
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)
