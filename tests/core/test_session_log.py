"""The log of a session, which survives a killed process."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine import no_room

from nbagent.core.errors import StoreError
from nbagent.core.events import CellStarted, OutputAdded, QuotaReached, Record, SessionEnded
from nbagent.core.session_log import LOCK_SECONDS, SENT_PREFIX, SessionLog, read_log


def cell(number: int, code: str = "1") -> CellStarted:
    """An event."""
    return CellStarted(cell=number, turn=0, code=code)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SessionLog]:
    """A new session's."""
    made = SessionLog(tmp_path, "s")
    yield made
    made.close()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    """What lies in it says what a resumed session's sandbox sees, and where its log is."""
    folder = tmp_path / "sessions" / "s"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="others can write to it"):
        SessionLog(tmp_path, "s")
    folder.chmod(0o755)
    SessionLog(tmp_path, "s").close()


@pytest.mark.needs("root")
def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    """Also by root, who could read and write it."""
    folder = tmp_path / "sessions" / "s"
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(StoreError, match="somebody else's"):
        SessionLog(tmp_path, "s")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["spilled/cell-1.stdout.txt", "spilled", "output", "audit.jsonl"])
@pytest.mark.parametrize("plant", [lambda at: at.symlink_to("/nowhere"), os.mkfifo])
def test_a_folder_with_links_or_pipes_is_refused(name: str, plant: Callable[[Path], None], tmp_path: Path) -> None:
    """What is written by such a name lands elsewhere, in a file that a shell runs, say; or whoever opens it waits."""
    folder = tmp_path / "sessions" / "s"
    folder.mkdir(parents=True, mode=0o700)
    (folder / name).parent.mkdir(exist_ok=True)
    plant(folder / name)
    with pytest.raises(StoreError, match="is no plain file"):
        SessionLog(tmp_path, "s")


@pytest.mark.parametrize("name", ["lock", "log.jsonl"])
def test_nothing_is_written_through_a_link_in_the_folder(name: str, tmp_path: Path) -> None:
    """A file elsewhere, to which a planted link leads, stays as it is."""
    precious, folder = tmp_path / "precious", tmp_path / "sessions" / "s"
    precious.write_text("a line that was cut")
    folder.mkdir(parents=True, mode=0o700)
    (folder / name).symlink_to(precious)
    with pytest.raises(StoreError, match="s can't be written"):
        SessionLog(tmp_path, "s")
    assert precious.read_text() == "a line that was cut"


def test_the_log_has_each_event_in_order_without_gaps(log: SessionLog) -> None:
    """Records are numbered from 1, and read back as they were returned."""
    written = [log.emit(cell(number)) for number in range(1, 6)]
    assert [record.seq for record in written] == [1, 2, 3, 4, 5]
    assert list(log.since()) == written
    assert list(log.since(3)) == written[3:]
    assert list(log.since(5)) == []


def test_a_record_is_in_the_log_before_anyone_sees_it(log: SessionLog) -> None:
    """A reader that is shown an event finds it in the file already."""
    seen: list[tuple[Record, Record]] = []
    log.follow(lambda record: seen.append((record, list(log.since())[-1])))
    log.emit(cell(1))
    assert [shown == last for shown, last in seen] == [True]


def test_a_reader_gets_what_comes_until_it_leaves(log: SessionLog) -> None:
    """A reader sees nothing from before it came or after it left; leaving within a call is allowed."""
    seen: list[int] = []
    log.emit(cell(1))

    def once(record: Record) -> None:
        seen.append(record.seq)
        leave()

    leave = log.follow(once)
    others: list[int] = []
    log.follow(lambda record: others.append(record.seq))
    log.emit(cell(2))
    log.emit(cell(3))
    assert (seen, others) == ([2], [2, 3])


def test_a_reader_that_fails_costs_nobody_else_an_event(log: SessionLog, contained: list[str]) -> None:
    """Its failure is told in a line of its own, whatever its words are; the others, and the log, have the event."""

    def fails(_: Record) -> None:
        raise ValueError("9" * 1_000_000 + "\x1b]0;title\x07\n")

    seen: list[int] = []
    log.follow(fails)
    log.follow(lambda record: seen.append(record.seq))
    log.emit(cell(1))
    assert seen == [1]
    assert len(list(log.since())) == 1
    (told,) = contained
    assert told.startswith("A reader of the session's events missed")
    assert told.isprintable()
    assert len(told) < 400


def test_a_strict_reader_and_an_error_for_people_pass(log: SessionLog) -> None:
    """Nothing happens that the audit log has not taken; a full disk and a closed output end what they end."""

    def raising(error: Exception) -> Callable[[Record], None]:
        def read(_: Record) -> None:
            raise error

        return read

    for error, strict in ((KeyError("x"), True), (StoreError("full"), False), (BrokenPipeError(), False)):
        leave = log.follow(raising(error), strict=strict)
        with pytest.raises(type(error)):
            log.emit(cell(1))
        leave()


def test_half_a_surrogate_pair_costs_no_event(log: SessionLog) -> None:
    """What no UTF-8 can hold is replaced, in the log and for the readers alike."""
    seen: list[Record] = []
    log.follow(seen.append)
    log.emit(cell(1, "a\ud800b"))
    assert seen == list(log.since())
    assert "a?b" in str(seen)


def test_a_last_line_that_was_cut_is_not_read(log: SessionLog) -> None:
    """What a killed process left half written is no record and no error."""
    first = log.emit(cell(1))
    with (log.folder / "log.jsonl").open("ab") as file:
        file.write(b'{"seq": 2, "at": 1.0, "event": {"type": "Cell')
    assert list(read_log(log.folder)) == [first]


@pytest.mark.parametrize(
    ("line", "newer"),
    [
        (b'{"seq":2,"at":1.0,"event":{"type":"CellPainted"}}\n', True),
        (b'{"seq":2,"at":1.0,"event":{"type":"CellStarted","cell":"two"}}\n', False),
        (b'{"seq":2,"at":1.0,"event":{"type":5}}\n', False),
        (b'{"seq":2,"at":1.0,"event":{}}\n', False),
        (b"{}\n", False),
        (b"{\n", False),
    ],
)
def test_only_an_event_of_an_unknown_type_is_taken_for_a_newer_versions(
    log: SessionLog, line: bytes, newer: bool
) -> None:
    """A log that was damaged sends nobody to look for another version of nbagent."""
    log.emit(cell(1))
    with (log.folder / "log.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(StoreError, match=r"log\.jsonl can't be read") as raised:
        list(read_log(log.folder))
    assert ("newer" in str(raised.value)) is newer


def test_whoever_comes_next_goes_on_behind_the_last_whole_record(tmp_path: Path) -> None:
    """A session that was killed in the middle of a line is continued without a gap and without the piece."""
    with contextlib.closing(SessionLog(tmp_path, "s")) as first:
        first.emit(cell(1))
        first.emit(cell(2))
    with (tmp_path / "sessions/s/log.jsonl").open("ab") as file:
        file.write(b'{"seq": 3')
    with contextlib.closing(SessionLog(tmp_path, "s")) as second:
        assert second.emit(cell(3)).seq == 3
        assert [record.seq for record in second.since()] == [1, 2, 3]


@given(cut=st.integers(0, 400))
def test_a_log_cut_anywhere_is_read_up_to_there(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Wherever the writing ended, the whole records before it are there, and the next one fits behind them."""
    root = tmp_path_factory.mktemp("cut")
    with contextlib.closing(SessionLog(root, "s")) as log:
        for number in range(1, 5):
            log.emit(cell(number, "é" * number))
    log = root / "sessions/s/log.jsonl"
    data = log.read_bytes()[:cut]
    log.write_bytes(data)
    whole = data.count(b"\n")
    assert [record.seq for record in read_log(log.parent)] == list(range(1, whole + 1))
    with contextlib.closing(SessionLog(root, "s")) as log:
        assert log.emit(SessionEnded()).seq == whole + 1
        assert len(list(log.since())) == whole + 1


def test_a_broken_line_in_the_middle_is_told(log: SessionLog) -> None:
    """A log that something else damaged is not taken for a shorter one."""
    log.emit(cell(1))
    with (log.folder / "log.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(StoreError, match=r"log\.jsonl can't be read"):
        list(log.since())


def test_a_session_has_one_owner(log: SessionLog, tmp_path: Path) -> None:
    """Nobody else can open a session that is in use, in this process or another; after it was closed they can."""
    with pytest.raises(StoreError, match="session s is in use by another process"):
        SessionLog(tmp_path, "s")
    code = f"import nbagent.core.session_log as m, pathlib; m.SessionLog(pathlib.Path({str(tmp_path)!r}), 's')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreError: The session s is in use by another process" in ran.stderr
    log.emit(cell(1))
    log.close()
    with contextlib.closing(SessionLog(tmp_path, "s")) as next_one:
        assert next_one.last == 1


def test_who_waited_for_a_session_that_was_deleted_does_not_own_its_successor(tmp_path: Path) -> None:
    """Both wrote the log, each with numbers of its own: a lock is of a file, and the log was opened by name."""
    first, failed = SessionLog(tmp_path, "s"), list[StoreError]()

    def wait() -> None:
        try:
            SessionLog(tmp_path, "s").close()
        except StoreError as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(LOCK_SECONDS / 4)
    shutil.rmtree(first.folder)
    with contextlib.closing(SessionLog(tmp_path, "s")):
        first.close()
        waiting.join()
    assert [each.message for each in failed] == [f"{first.folder} can't be written: it was removed meanwhile."]


def test_who_only_looks_keeps_nobody_from_starting(tmp_path: Path, look: Callable[[Path], None]) -> None:
    """A session that somebody lists in the same moment isn't said to be in use."""
    SessionLog(tmp_path, "s").close()
    look(tmp_path / "sessions" / "s" / "lock")
    with contextlib.closing(SessionLog(tmp_path, "s")) as log:
        assert log.emit(cell(1)).seq == 1


def test_files_that_a_killed_process_was_sending_go_with_the_next_owner(tmp_path: Path) -> None:
    before = SessionLog(tmp_path, "s")
    lent = before.folder / f"{SENT_PREFIX}x"
    lent.mkdir()
    (lent / "file").write_bytes(bytes(100_000))
    before.close()
    after = SessionLog(tmp_path, "s")
    assert not lent.exists()
    assert after.quota.used < 100_000
    after.close()


def test_the_folder_is_private(log: SessionLog) -> None:
    """Nobody else on the machine can look into a session."""
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file in the way of the state folder is a sentence that names the setting."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as caught:
        SessionLog(tmp_path / "file", "s")
    assert "NBAGENT_STATE_DIR" in caught.value.mend


def test_a_record_that_finds_no_room_leaves_the_log_whole(log: SessionLog) -> None:
    """On a full disk the event is an error, nobody saw it, no half line stays, and later ones are written again."""
    log.emit(cell(1))
    seen: list[Record] = []
    log.follow(seen.append)
    size = (log.folder / "log.jsonl").stat().st_size
    with no_room(size + 20), pytest.raises(StoreError, match="can't be written"):
        log.emit(cell(2, "x" * 100))
    assert seen == []
    assert (log.folder / "log.jsonl").stat().st_size == size
    assert log.emit(cell(2)).seq == 2
    assert [record.seq for record in log.since()] == [1, 2]


def test_a_reader_that_tells_of_the_quota_leaves_no_gap(tmp_path: Path) -> None:
    """Its event stands between the word on the quota and what was still kept, each with a number of its own."""
    with contextlib.closing(SessionLog(tmp_path, "small", limit=100_000)) as log:

        def tells(record: Record) -> None:
            if isinstance(record.event, QuotaReached):
                log.emit(cell(2))

        log.follow(tells)
        for size in [30_000] * 3 + [1_500] * 6:
            log.emit(OutputAdded(cell=1, output={"output_type": "stream", "name": "stdout", "text": "x" * size}))
        kept = [record.seq for record in log.since()]
        assert kept == list(range(1, len(kept) + 1))


def test_text_that_is_too_much_is_spilled_up_to_a_bound(log: SessionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the notebook leaves out is appended to a file of its cell and stream, never beyond the bound."""
    monkeypatch.setattr("nbagent.core.session_log.MAX_SPILLED_CHARACTERS", 10)
    spill = log.spill(3)
    for text in ("abcd", "efgh", "ijkl", "mnop"):
        spill("stdout", text)
    spill("stderr", "\ud800")
    assert (log.folder / "spilled/cell-3.stdout.txt").read_text() == "abcdefghij"
    assert (log.folder / "spilled/cell-3.stderr.txt").read_text() == "?"
