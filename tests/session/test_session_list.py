"""The sessions on this machine, as lists show them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Asked, CellStarted, ModelFailed, ModelReplied, Record, Renamed, SessionEnded, Usage
from nbagent.core.folders import LOG_FILE
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.core.session_log import LOCK_SECONDS, SessionLog, read_log
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.catalog import lookup, saved_spec, session_list, summary
from nbagent.session.catalog.summary import Summary


def write_log(root: Path, name: str, *events: Any) -> None:
    """A session's log with these events."""
    log = SessionLog(root, name)
    for each in events:
        log.emit(each)
    log.close()


def test_sessions_are_listed_latest_first(tmp_path: Path) -> None:
    """Each with what ran in it; what is no session, or says nothing, is left out."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code='{"type":"CellStarted"}'))
    write_log(tmp_path, "two", CellStarted(cell=1, turn=0, code=""), CellStarted(cell=2, turn=0, code=""))
    write_log(tmp_path, "empty")
    (tmp_path / "sessions" / "nothing").mkdir()
    found = session_list.listed(tmp_path)
    assert [(each.id, each.cells, each.state) for each in found] == [("two", 2, "ended"), ("one", 1, "ended")]
    assert session_list.listed(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("name", [LOG_FILE, "summary.json", "lock", "sandbox.json"])
def test_a_pipe_among_a_sessions_files_is_waited_for_by_nobody(tmp_path: Path, name: str) -> None:
    """A folder may have been unpacked, or copied from elsewhere: one of them would hang each listing."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code=""))
    shutil.copytree(tmp_path / "sessions" / "one", folder := tmp_path / "sessions" / "other")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name, 0o600)
    assert "one" in [each.id for each in session_list.listed(tmp_path)]
    assert not lookup.is_running(folder)
    with contextlib.suppress(NbagentError):
        list(read_log(folder))
    with contextlib.suppress(NbagentError):
        saved_spec.read_spec(session_list.info_of(tmp_path, "other"))
    with contextlib.suppress(NbagentError):
        SessionLog(tmp_path, "other").close()


def test_a_summary_that_is_no_summary_costs_little(tmp_path: Path) -> None:
    """Only as much of it is read as one can have; the log says the rest."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code="1 + 1"))
    (tmp_path / "sessions" / "one" / "summary.json").write_text(json.dumps({"named": "x" * summary.MAX_BYTES}))
    assert summary.read(tmp_path / "sessions" / "one") is None
    assert [each.title for each in session_list.listed(tmp_path)] == ["1 + 1"]


def test_a_cache_or_a_saved_sandbox_without_end_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as much of them is read as they can have."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code="1 + 1"))
    settle(tmp_path)
    session_list.listed(tmp_path)
    folder = tmp_path / "sessions" / "one"
    saved_spec.write_spec(folder, SandboxSpec(trust=trust_for(TrustLevel.ISOLATED)))
    for path, module, name in (
        (tmp_path / session_list.CACHE_FILE, session_list, "MAX_CACHE_BYTES"),
        (folder / saved_spec.SPEC_FILE, saved_spec, "MAX_BYTES"),
    ):
        monkeypatch.setattr(module, name, 10_000)
        path.write_bytes(b" " * 10_000 + path.read_bytes())
    assert session_list._cached(tmp_path) == {}
    assert [each.title for each in session_list.listed(tmp_path)] == ["1 + 1"]
    with pytest.raises(UsageError, match="can't be resumed"):
        saved_spec.read_spec(session_list.info_of(tmp_path, "one"))


def test_a_session_that_is_just_starting_has_begun_now(tmp_path: Path) -> None:
    """There is nothing in its log yet, and it is among the latest."""
    write_log(tmp_path, "old", CellStarted(cell=1, turn=0, code=""))
    log = SessionLog(tmp_path, "one")
    summary.SummaryKeeper(log.folder, Summary())
    found = session_list.listed(tmp_path)[0]
    assert (found.id, found.state) == ("one", "running")
    assert abs(found.started - time.time()) < 600
    assert found.changed == found.started
    log.close()


def test_a_name_may_be_cut_short(tmp_path: Path) -> None:
    """As long as it is one session's; the whole name always is."""
    for name in ("20261121-1", "20261121-12", "20261122-1"):
        write_log(tmp_path, name, CellStarted(cell=1, turn=0, code=""))
    assert session_list.info_of(tmp_path, "20261122").id == "20261122-1"
    assert session_list.info_of(tmp_path, "20261121-1").id == "20261121-1"
    for name, complaint in (("20261121", "2 sessions begin"), ("nope", "no session 'nope'"), ("", "no session")):
        with pytest.raises(UsageError, match=complaint):
            session_list.info_of(tmp_path, name)


def test_what_runs_is_told_from_what_waits(tmp_path: Path) -> None:
    """A session is `running` exactly as long as a process has its lock."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code=""))
    log = SessionLog(tmp_path, "one")
    assert session_list.info_of(tmp_path, "one").state == "running"
    log.close()
    assert session_list.info_of(tmp_path, "one").state == "ended"


def test_a_session_that_is_deleted_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between finding its folder and looking into it; the others are listed."""
    for name in ("gone", "stays"):
        write_log(tmp_path, name, CellStarted(cell=1, turn=0, code=""))
    found = session_list.folders

    def folders(root: Path) -> list[os.DirEntry[str]]:
        listed = list(found(root))
        shutil.rmtree(root / "sessions" / "gone")
        return listed

    monkeypatch.setattr(session_list, "folders", folders)
    assert [each.id for each in session_list.listed(tmp_path)] == ["stays"]


def test_who_only_looks_keeps_nobody_from_deleting(tmp_path: Path, look: Callable[[Path], None]) -> None:
    """Whoever is to delete a session waits a moment for its lock."""
    write_log(tmp_path, "one", SessionEnded())
    folder = tmp_path / "sessions" / "one"
    look(folder / "lock")
    with lookup.lock_held(folder) as is_held:
        assert not is_held
    with lookup.lock_held(folder, patience=LOCK_SECONDS) as is_held:
        assert is_held


# -- the cache ------------------------------------------------------------------------------------------------------


def settle(root: Path) -> None:
    """Make all folders old enough to be kept in the cache."""
    for each in (root / "sessions").iterdir():
        os.utime(each, ns=(1, 1))


def test_the_cache_spares_reading_and_never_lies(tmp_path: Path) -> None:
    """What has not changed is not read again; what has is, also behind the back of the cache."""
    write_log(tmp_path, "one", Asked(turn=1, question="First?", model="m"), SessionEnded())
    write_log(tmp_path, "two", Asked(turn=1, question="Second?", model="m"), SessionEnded())
    assert [each.title for each in session_list.listed(tmp_path)] == ["Second?", "First?"]
    settle(tmp_path)
    session_list.listed(tmp_path)
    assert set(json.loads((tmp_path / session_list.CACHE_FILE).read_bytes())) == {"one", "two"}
    one = tmp_path / "sessions" / "one"
    # Written into the file itself, which no owner does: its folder's time says that nothing has changed.
    (one / summary.SUMMARY_FILE).write_bytes(b'{"named": "Other"}')
    assert [each.title for each in session_list.listed(tmp_path)] == ["Second?", "First?"]
    summary.write(one, Summary(named="New", started=1))
    assert [each.title for each in session_list.listed(tmp_path)] == ["Second?", "New"]
    settle(tmp_path)
    (tmp_path / session_list.CACHE_FILE).write_bytes(b"broken")
    assert [each.title for each in session_list.listed(tmp_path)] == ["Second?", "New"]


def test_a_change_in_the_same_moment_is_seen(tmp_path: Path) -> None:
    """File systems count time in steps: a folder that was changed just now says nothing of the next change."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code="1"))
    folder = tmp_path / "sessions" / "one"
    for number in range(20):
        status = folder.stat()
        summary.write(folder, Summary(named=str(number), started=1))
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert [each.title for each in session_list.listed(tmp_path)] == [str(number)]


def test_a_link_is_no_session(tmp_path: Path) -> None:
    """Whatever it leads to."""
    write_log(tmp_path / "other", "one", CellStarted(cell=1, turn=0, code="1"))
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "one").symlink_to(tmp_path / "other" / "sessions" / "one")
    assert session_list.listed(tmp_path) == []
    with pytest.raises(UsageError, match="no session"):
        session_list.info_of(tmp_path, "one")


def test_a_folder_that_could_not_be_a_sessions_is_none(tmp_path: Path) -> None:
    """No name that could steer a terminal is ever listed."""
    for name in ("a\x1b[31m", "a\nb", "\u202eb", "-x", ".hidden", "x" * 65):
        (tmp_path / "sessions" / name).mkdir(parents=True)
        (tmp_path / "sessions" / name / LOG_FILE).touch()
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code="1"))
    assert [each.id for each in session_list.listed(tmp_path)] == ["one"]
    with pytest.raises(UsageError, match="no session"):
        lookup.find(tmp_path, "-x")


@pytest.mark.needs("root")
def test_somebody_elses_folder_is_no_session(tmp_path: Path) -> None:
    """What it says would decide which of this person's files a resumed sandbox sees."""
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code="1"))
    os.chown(tmp_path / "sessions" / "one", 65534, 65534)
    assert session_list.listed(tmp_path) == []
    with pytest.raises(UsageError, match="no session"):
        session_list.info_of(tmp_path, "one")


def test_thousands_are_listed_at_the_cost_of_looking_at_their_folders(tmp_path: Path) -> None:
    """2,000 sessions, of which a tenth was killed, in a small multiple of asking each folder for its time."""
    for number in range(2000):
        folder = tmp_path / "sessions" / f"s{number:04}"
        folder.mkdir(parents=True)
        (folder / LOG_FILE).touch()
        (folder / "lock").touch()
        summary.write(folder, Summary(named=f"Number {number}", started=number + 1, has_ended=number % 10 > 0))
    settle(tmp_path)
    assert len(session_list.listed(tmp_path)) == 2000

    def looked() -> float:
        started = time.process_time()
        for each in os.scandir(tmp_path / "sessions"):
            each.stat(follow_symlinks=False)
        return time.process_time() - started

    def listed() -> float:
        started = time.process_time()
        session_list.listed(tmp_path)
        return time.process_time() - started

    assert min(listed() for _ in range(15)) < 10 * min(looked() for _ in range(15))


# -- the summary ----------------------------------------------------------------------------------------------------


def told(*events: Any) -> Summary:
    """What a log of these events comes to."""
    found = Summary()
    for number, each in enumerate(events, start=1):
        found.on_event(Record(number, float(number), each))
    return found


def test_a_title_is_the_persons_else_the_question_else_the_code() -> None:
    """In one line; an empty one gives the question back."""
    cell, asked = CellStarted(cell=1, turn=0, code="\n  import x\ny"), Asked(turn=1, question="Why?\n", model="m")
    assert told(cell).title == "import x"
    assert told(cell, asked, Asked(turn=2, question="More?", model="m")).title == "Why?"
    assert told(Renamed(title="Mine"), asked).title == "Mine"
    assert told(asked, Renamed(title="Mine"), Renamed(title="")).title == "Why?"
    assert len(summary.line_of("a" * 1000)) == summary.TITLE_CHARACTERS


def test_cost_and_counts_add_up() -> None:
    """Over all calls, those that failed included; a price that isn't known makes the sum unknown."""
    first = ModelReplied(turn=1, text="", usage=Usage(10, 5, 1, 0, 0.5))
    failed = ModelFailed(turn=1, model="m", reason="", usage=Usage(1, 1, 1, 0, 0.25))
    found = told(first, failed, SessionEnded(), Renamed(title="x"))
    assert (found.usage.cost, found.usage.input_tokens, found.has_ended) == (0.75, 11, True)
    assert told(first, ModelReplied(turn=2, text="", usage=Usage(calls=1))).usage.cost is None


def test_an_old_session_gets_its_summary_from_its_log(tmp_path: Path) -> None:
    """Once, when it is listed; not while a process owns it, which writes its own."""
    write_log(tmp_path, "one", Asked(turn=1, question="First?", model="m"))
    log = SessionLog(tmp_path, "one")
    assert [each.title for each in session_list.listed(tmp_path)] == ["First?"]
    assert not (tmp_path / "sessions" / "one" / summary.SUMMARY_FILE).exists()
    log.close()
    assert [each.title for each in session_list.listed(tmp_path)] == ["First?"]
    assert (tmp_path / "sessions" / "one" / summary.SUMMARY_FILE).exists()
