"""The audit log's file: flushed, continued after a kill, and never silent about what it found changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import stories
from machine import no_room
from stories import Write, write_session

from nbagent.core.errors import StoreError, UsageError
from nbagent.core.events import CellStarted
from nbagent.core.session_log import SessionLog
from nbagent.observability.audit import Audit, read_key, verify

KEY = b"k" * 32


def test_a_line_holds_the_hash_of_the_whole_line_before(write: Write) -> None:
    """Anybody can check the chain with `sed` and `sha256sum`; the first line binds the session."""
    lines = write().lines
    parsed = [json.loads(line) for line in lines]
    assert (parsed[0]["type"], parsed[0]["session"], parsed[0]["prev"]) == ("audit", "s", "0" * 64)
    assert parsed[0]["uid"] == os.getuid()
    assert [each["seq"] for each in parsed] == list(range(1, len(lines) + 1))
    for before, after in zip(lines, parsed[1:], strict=False):
        assert after["prev"] == hashlib.sha256(before).hexdigest()
    for line, each in zip(lines, parsed, strict=True):
        body = line.rstrip(b"\n").removesuffix(b',"hash":"%s"}' % each["hash"].encode()) + b"}"
        assert each["hash"] == hashlib.sha256(body).hexdigest()


def test_nobody_else_can_read_it(write: Write) -> None:
    """It has questions and code whole."""
    written = write()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (written.path, written.head)] == [0o600, 0o600]
    assert stat.S_IMODE(written.head.parent.stat().st_mode) == 0o700


def test_a_line_is_there_when_the_event_has_been_shown(tmp_path: Path) -> None:
    """Nothing waits in a buffer: a process that is killed now has lost nothing."""
    log = SessionLog(tmp_path, "s")
    audit = Audit(log.folder, root=tmp_path, session="s")
    log.follow(audit.on_event)
    log.emit(CellStarted(cell=1, turn=0, code="attack()"))
    assert b'"cell_begun"' in audit.path.read_bytes()
    assert json.loads((tmp_path / "audit-heads" / "s").read_bytes())["seq"] == 2
    audit.close()
    log.close()


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_killed_writers_line_is_dropped_and_the_log_goes_on(write: Write, cut: int) -> None:
    """What was half written when nbagent was killed is no line: cut off, not changed; later it is written again."""
    events = stories.whole()
    written = write(events[:10])
    whole = write(events[10:11]).lines
    # As if the machine had stopped within the last line: neither its end nor its head was written.
    previous = {"session": "s", "seq": len(whole) - 1, "last": hashlib.sha256(whole[-2]).hexdigest()}
    written.head.write_text(json.dumps(previous))
    written.lines = [*whole[:-1], whole[-1][:-cut]]
    verdict = verify(written.path)
    assert (verdict.whole, verdict.lines) == (True, len(whole) - 1)
    assert "cut off" in verdict.notes[-1]
    write(events[11:])
    assert verify(written.path).notes == []
    made_of = [json.loads(line)["log"] for line in written.lines[1:]]
    assert made_of == [1, 2, 4, 5, 6, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19]


def test_a_kill_between_the_line_and_its_head_is_no_difference(write: Write) -> None:
    """The line is written first, so that one more than the head knows of is right."""
    written = write()
    lines = written.lines
    before = {"session": "s", "seq": len(lines) - 1, "last": hashlib.sha256(lines[-2]).hexdigest()}
    written.head.write_text(json.dumps(before))
    assert verify(written.path).whole
    write([stories.started()])
    assert verify(written.path).whole


def test_a_kill_between_the_event_and_its_line_is_made_good(write: Write) -> None:
    """An event that is in the session's log only is noted, and has its line when the session goes on."""
    written = write(stories.whole()[:3])
    with contextlib.closing(SessionLog(written.root, "s")) as log:
        log.emit(CellStarted(cell=1, turn=0, code="1"))
    verdict = verify(written.path)
    assert verdict.whole
    assert "cell_begun 1" in verdict.notes[0]
    write([])
    assert verify(written.path).notes == []
    assert b'"cell_begun"' in written.lines[-1]


def test_a_session_without_an_audit_log_gets_one(write: Write) -> None:
    """A session of an earlier version goes on with entries of all that it did before."""
    written = write()
    entries = [json.loads(line)["type"] for line in written.lines]
    written.path.unlink()
    written.head.unlink()
    write([])
    assert [json.loads(line)["type"] for line in written.lines] == entries


@pytest.mark.parametrize("harm", ["cut", "gone", "head gone", "changed", "longer"])
def test_what_was_changed_before_a_session_went_on_stays_told(write: Write, harm: str) -> None:
    """Going on writes a new head; so the log itself says for good that it was not as its head said."""
    written = write(stories.whole()[:14])
    lines = written.lines
    if harm == "cut":
        written.lines = lines[:-3]
    elif harm == "gone":
        written.path.unlink()
    elif harm == "head gone":
        written.head.unlink()
    elif harm == "changed":
        written.lines = [*lines[:-1], lines[-1].replace(b"died", b"okay")]
    else:
        written.lines = [*lines, lines[-1], lines[-1]]
    write(stories.whole()[14:])
    verdict = verify(written.path)
    assert not verdict.whole
    assert any(b'"type":"gap"' in line for line in written.lines)


def test_another_key_does_not_go_on(write: Write) -> None:
    """A log has one key from its first line to its last, or none."""
    write(stories.whole()[:4], key=KEY)
    for key, words in ((None, "with a key"), (b"another key, long enough", "with another key")):
        with pytest.raises(UsageError, match=f"was begun {words}"):
            write([], key=key)
    write(stories.whole()[4:], key=KEY)


def test_a_log_that_began_without_a_key_goes_on_without(write: Write) -> None:
    """Its earlier lines would else pass for ones that the key vouches for."""
    write(stories.whole()[:4])
    with pytest.raises(UsageError, match="was begun without a key"):
        write([], key=KEY)


def test_a_full_disk_stops_the_session_and_loses_no_line(tmp_path: Path) -> None:
    """A cell that can't be logged doesn't run; what could not be written is written before what comes next."""
    log = SessionLog(tmp_path, "s")
    audit = Audit(log.folder, root=tmp_path, session="s")
    audit.on_event(log.emit(stories.started()))
    record = log.emit(CellStarted(cell=1, turn=0, code="1"))
    size = audit.path.stat().st_size
    with no_room(size + 100), pytest.raises(StoreError, match=r"audit.jsonl can't be written"):
        audit.on_event(record)
    assert audit.path.stat().st_size == size
    log.follow(audit.on_event)
    log.emit(stories.whole()[1])
    audit.close()
    log.close()
    verdict = verify(audit.path)
    assert (verdict.whole, verdict.notes) == (True, [])


@pytest.mark.parametrize("content", [b"short\n", b"", b"\n" * 40])
def test_a_key_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty or short file would make hashes that anybody can guess."""
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="too short"):
        read_key(path)


def test_a_key_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    """What `openssl rand -hex 32 > key` wrote is the same key as what an editor saved."""
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\r\n")
    assert read_key(path) == KEY
    assert read_key(None) is None
    with pytest.raises(UsageError, match="can't be read: No such file"):
        read_key(tmp_path / "nothing")


WRITER = """
import sys, time
from pathlib import Path
from stories import write_session
from nbagent.core.events import CellStarted
def forever():
    print("go", flush=True)
    number = 0
    while True:
        number += 1
        yield CellStarted(cell=number, turn=0, code="x" * (number % 5000))
        time.sleep(0.0005)
write_session(Path(sys.argv[1]), forever())
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes cells into `tmp_path` as fast as it can."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=where) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_log_that_is_being_written_is_whole(tmp_path: Path, writer: subprocess.Popen[bytes]) -> None:
    """Verified again and again while lines are added, it is never accused."""
    for _ in range(15):
        verdict = verify(tmp_path / "sessions/s/audit.jsonl")
        assert verdict.whole, verdict.problem
    assert writer.poll() is None


@pytest.mark.parametrize("attempt", range(5))
def test_sigkill_at_any_moment_is_never_taken_for_a_change(
    tmp_path: Path, writer: subprocess.Popen[bytes], attempt: int
) -> None:
    """A writer that is killed while it writes leaves a log that is whole, and that goes on."""
    log = tmp_path / "sessions/s/audit.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 20:  # on a busy machine it is slow
        time.sleep(0.01)
    time.sleep(attempt * 0.037)
    writer.kill()
    writer.wait()
    first = verify(log)
    assert first.whole, first.problem
    written = write_session(tmp_path, [stories.started()])
    again = verify(written.path)
    assert (again.whole, again.notes) == (True, [])
    assert again.lines > first.lines > 10
