"""What the audit log says of each event."""

from __future__ import annotations

import hashlib
from typing import get_args

import pytest
import stories
from core.test_events import EVENTS

from nbagent.core.events import (
    CellFinished,
    CellStarted,
    Event,
    Fact,
    InstallFailed,
    LateOutputAdded,
    OutputUpdated,
    Package,
    PackagesInstalled,
    Record,
    SessionResumed,
    SessionStarted,
)
from nbagent.observability.audit.entries import LEFT_OUT, Entries, entries


@pytest.fixture(scope="module")
def found() -> list[dict[str, object]]:
    """All entries of a session."""
    return list(entries(stories.records(stories.whole())))


def test_a_cell_has_all_that_a_security_team_asks_for(found: list[dict[str, object]]) -> None:
    """Time, question, code, tool, approver, packages, how it ended, how long it took, memory, and what it ran on."""
    cell = next(entry for entry in found if entry["type"] == "cell")
    assert cell == {
        "type": "cell",
        "time": "2027-01-15T08:00:04.000000Z",
        "started": "2027-01-15T08:00:02.000000Z",
        "log": 8,
        "cell": 1,
        "turn": 1,
        "prompt": stories.QUESTION,
        "code": stories.CODE,
        "code_sha256": hashlib.sha256(stories.CODE.encode()).hexdigest(),
        "tool": "python",
        "approver": "policy:never-ask",
        "environment": "sha256:" + "e" * 64,
        "packages": ["humanize==4.17.0"],
        "packages_refused": [],
        "hosts": [],
        "commands": 1,
        "exit": {"status": "ok", "code": None, "signal": None, "error": None},
        "duration": 0.5,
        "memory_peak": 90 * stories.MIB,
        "memory_limit": 2048 * stories.MIB,
        "outputs_sha256": cell["outputs_sha256"],
        "note": "",
    }


def test_a_cell_is_logged_before_it_runs(found: list[dict[str, object]]) -> None:
    """What begins has an entry at once, with who let it and a hash of its code."""
    begun = [entry for entry in found if entry["type"] == "cell_begun"]
    assert [(entry["cell"], entry["tool"], entry["approver"]) for entry in begun] == [
        (1, "python", "policy:never-ask"),
        (2, "python", "policy:never-ask"),
        (3, "person", "person"),
    ]
    ended = [entry["code_sha256"] for entry in found if entry["type"] == "cell"]
    assert [entry["code_sha256"] for entry in begun] == ended


def test_a_kernel_that_died_has_its_signal(found: list[dict[str, object]]) -> None:
    """The exit code and the signal's name stand in the cell's entry; the packages it was refused too."""
    died, late = [entry for entry in found if entry["type"] == "cell"][1:]
    assert died["exit"] == {"status": "died", "code": -9, "signal": "SIGKILL", "error": "KernelDied"}
    assert died["packages_refused"] == ["leftpad"]
    assert died["packages"] == []
    assert (late["exit"], late["prompt"]) == ({"status": "timeout", "code": None, "signal": None, "error": None}, "")


def test_everything_but_output_has_an_entry(found: list[dict[str, object]]) -> None:
    """Start, question, programs, installs, refusals, files, lost state, answer and end each have one, in order."""
    kinds = "session_start question cell_begun install command cell file cell_begun install_failed state_lost cell"
    assert [entry["type"] for entry in found] == [*kinds.split(), "answer", "cell_begun", "cell", "session_ended"]
    start = found[0]
    assert start["limits"] == {"memory_mb": 2048, "cpus": None, "timeout": 60.0}
    assert (start["trust"], start["accepted"], start["sandbox"]) == ("isolated", ["memory"], "box1")
    assert start["data"] == [{"path": "/tmp/data/a.csv", "source": "/home/p/a.csv", "size": 1234}]
    assert next(entry for entry in found if entry["type"] == "command")["argv"] == ["/bin/uname", "-a"]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_told_or_left_out_by_name(event: Event) -> None:
    """No kind of event is lost by oversight."""
    assert bool(list(entries([Record(1, 0.0, event)]))) != isinstance(event, LEFT_OUT)
    assert set(LEFT_OUT) < set(get_args(Event))


def test_an_event_of_a_kind_that_is_new_is_told_whole() -> None:
    """What a later engine asks for is in the log before this module knows it, and its host in the cell's entry."""

    class HostAsked(Fact, frozen=True, kw_only=True):
        host: str
        port: int
        allowed: bool

    fold = Entries()
    told = []
    asked = HostAsked(host="example.org", port=443, allowed=False)
    for event in (CellStarted(cell=1, turn=0, code="1"), asked, asked, finished(1)):
        told += list(fold.on_event(Record(5, 0.0, event)))  # type: ignore[arg-type]
    expected = {"type": "host_asked", "host": "example.org", "port": 443, "allowed": False}
    assert told[1] == {**expected, "time": "1970-01-01T00:00:00.000000Z", "log": 5}
    assert told[-1]["hosts"] == ["example.org:443"]


def finished(cell: int) -> CellFinished:
    """A cell that ended well."""
    return CellFinished(cell=cell, status="ok", outputs=[], execution_count=1, duration=0.1)


def test_a_cell_whose_end_nobody_saw_is_told_when_the_session_goes_on() -> None:
    """After nbagent was killed, the running cell's entry has its whole code and says that its end is unknown."""
    events = [stories.started(), CellStarted(cell=1, turn=0, code="attack()"), stories.started()]
    start, begun, cell, again = entries(stories.records(events))
    assert (start["type"], begun["type"], again["type"]) == ("session_start", "cell_begun", "session_start")
    assert (cell["type"], cell["code"]) == ("cell", "attack()")
    assert cell["exit"]["status"] == "unknown"
    assert "nobody saw its end" in cell["note"]


def test_a_session_that_goes_on_names_what_it_runs_on_now() -> None:
    """A new kernel may be made of something newer; the cells from then on have the digest of that."""
    again = SessionResumed(kept=False, note="A new kernel was started.", engine="docker", environment="sha256:new")
    events = [stories.started(), again, CellStarted(cell=1, turn=0, code="1"), finished(1)]
    told = list(entries(stories.records(events)))
    assert (told[1]["type"], told[1]["kept"], told[-1]["environment"]) == ("session_resumed", False, "sha256:new")


def test_an_old_log_has_entries_too() -> None:
    """Events that were written before tools and approvers were recorded are told without them, not invented."""
    old = SessionStarted(session="s", engine="docker", trust="isolated", environment="", python="3", nbagent="0")
    events = [old, CellStarted(cell=1, turn=2, code="1"), finished(1)]
    cell = list(entries(stories.records(events)))[-1]
    assert (cell["tool"], cell["approver"], cell["memory_peak"]) == ("python", "", None)


def test_what_comes_after_a_cell_is_not_the_cell_s() -> None:
    """An entry stays as it was written: a request between two cells must not make a log look broken."""
    events: list[Event] = [
        CellStarted(cell=1, turn=0, code="1"),
        CellFinished(cell=1, status="ok", outputs=[], execution_count=1, duration=0.1),
        InstallFailed(cell=1, requirements=["evil"], reason="No.", refused=True),
        PackagesInstalled(cell=1, packages=[Package("late", "1", "0" * 64)]),
    ]
    all_at_once = list(entries(stories.records(events)))
    cell = next(entry for entry in all_at_once if entry["type"] == "cell")
    assert (cell["packages"], cell["packages_refused"]) == ([], [])


def test_late_output_is_told_once_for_each_moment() -> None:
    """What is added to a cell after its end, or changed, has an entry with the cell that ran; its own has none."""
    shown = {"text/plain": "x"}
    stream = {"output_type": "stream", "name": "stdout", "text": "x"}
    events = [
        CellStarted(cell=1, turn=0, code=""),
        OutputUpdated(cell=1, display_id="a", data=shown, during=1),
        finished(1),
        LateOutputAdded(cell=1, output=stream, during=0),
        CellStarted(cell=2, turn=0, code=""),
        LateOutputAdded(cell=1, output=stream, during=2),
        LateOutputAdded(cell=1, output=stream, during=2),
        OutputUpdated(cell=1, display_id="a", data=shown, during=2, changed=[1]),
        LateOutputAdded(cell=1, output=stream),
        finished(2),
    ]
    found = [*entries(Record(number, 0.0, event) for number, event in enumerate(events, start=1))]
    late = [(each["cell"], each["during"], each["how"]) for each in found if each["type"] == "late_output"]
    assert late == [(1, 0, "added"), (1, 2, "added"), (1, 2, "changed")]
