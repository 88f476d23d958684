"""Whatever is changed in an audit log is found, and where; what is as it was written is never accused."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import stories
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stories import Write, Written, write_session

from nbagent.core.errors import StoreError, UsageError
from nbagent.core.events import CellStarted, Event
from nbagent.observability.audit import verify
from nbagent.observability.audit.chain import canonical, key_name, seal
from nbagent.observability.audit.verification import locate

KEY = b"k" * 32
CELL = 6
"""The place of the first cell's end among the lines, from 0."""


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One that no test changes for good."""
    return write_session(tmp_path_factory.mktemp("fixed"), stories.whole())


def test_what_was_written_is_whole(write: Write) -> None:
    """A session's log is whole while it runs, when it has ended, and when it has gone on."""
    half = write(stories.whole()[:8])
    assert verify(half.path).whole
    verdict = verify(write(stories.whole()[8:]).path)
    assert (verdict.whole, verdict.problem, verdict.line, verdict.notes) == (True, "", None, [])
    assert (verdict.session, verdict.lines, verdict.cells, verdict.keyed) == ("s", 16, 3, False)
    assert verify(write([stories.started()]).path).whole


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_byte_that_was_changed_is_found_in_its_line(fixed: Written, data: st.DataObject) -> None:
    """Any byte, to any other, wherever it stands; the line is the one that it stands in."""
    original = fixed.path.read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda each: each != original[at]))
    fixed.path.write_bytes(original[:at] + bytes([byte]) + original[at + 1 :])
    try:
        verdict = verify(fixed.path)
    finally:
        fixed.path.write_bytes(original)
    assert not verdict.whole
    # The last line without its end is no line: then it is its head that misses one.
    assert verdict.line == (original[:at].count(b"\n") + 1 if at < len(original) - 1 else None)


def digit(line: bytes) -> bytes:
    """The line with a number in it changed, as by somebody who knows JSON."""
    return re.sub(rb'"duration":0\.5', b'"duration":0.6', line)


HARMS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int | None, str]] = {
    "code": (lambda x: [*x[:6], x[6].replace(b"humanize", b"humanise"), *x[7:]], 7, "its text is not what its hash"),
    "number": (lambda x: [*x[:6], digit(x[6]), *x[7:]], 7, "its text is not what its hash was made of"),
    "blank": (lambda x: [*x[:6], x[6].replace(b'"cell":1', b'"cell": 1'), *x[7:]], 7, "not a line as nbagent writes"),
    "not JSON": (lambda x: [*x[:6], b"hello\n", *x[7:]], 7, "it is not a line as nbagent writes them"),
    "nesting": (lambda x: [*x[:6], b"[" * 100_000 + b',"hash":"' + b"0" * 64 + b'"}\n', *x[7:]], 7, "not a line"),
    "deleted": (lambda x: [*x[:6], *x[7:]], 7, "the line with number 8 stands where number 7 belongs"),
    "first": (lambda x: x[1:], 1, "the first line, which binds the session, is missing"),
    "swapped": (lambda x: [*x[:6], x[7], x[6], *x[8:]], 7, "the line with number 8 stands where number 7 belongs"),
    "inserted": (lambda x: [*x[:6], x[6], *x[6:]], 8, "the line with number 7 stands where number 8 belongs"),
    "appended": (lambda x: [*x, forged(x[-1])], None, "line 16 is not the one that its head is of"),
    "two more": (lambda x: [*x, forged(x[-1]), forged(forged(x[-1]))], None, "and its head knows of 16"),
    "truncated": (lambda x: x[:-1], None, "it has 15 lines, and had 16"),
    "cut within a line": (lambda x: [*x[:-1], x[-1][:50]], None, "it has 15 lines, and had 16"),
    "emptied": (lambda _: [], 1, "there is no whole line in it"),
    "rewritten": (lambda x: rewritten(x), None, "line 16 is not the one that its head is of"),
}


def forged(last: bytes) -> bytes:
    """A line behind the last one that is right in itself."""
    entry = json.loads(last)
    del entry["hash"]
    return sealed({**entry, "seq": entry["seq"] + 1, "prev": hashlib.sha256(last).hexdigest()}, None)


def sealed(entry: dict[str, object], key: bytes | None) -> bytes:
    """An entry as a line."""
    body = canonical(entry)
    return b'%s,"hash":"%s"}\n' % (body[:-1], seal(body, key).encode())


def rewritten(lines: list[bytes]) -> list[bytes]:
    """All lines anew, the code of the first cell another one, every hash right."""
    made: list[bytes] = []
    for line in lines:
        entry = json.loads(line)
        del entry["hash"]
        entry["prev"] = hashlib.sha256(made[-1]).hexdigest() if made else "0" * 64
        if entry.get("code") == stories.CODE:
            entry["code"] = "harmless()"
        made.append(sealed(entry, None))
    return made


@pytest.mark.parametrize("harm", HARMS)
def test_each_way_to_change_a_log_is_found_and_named(write: Write, harm: str) -> None:
    """The first line that differs and what is wrong with it; for its end and a whole rewrite the head tells."""
    written = write()
    change, line, words = HARMS[harm]
    if harm == "appended":
        # One more line than the head knows of is right only if the last event made it.
        words = "event 19, which it was made of, is missing in the session's log"
        line = 17
    written.lines = change(written.lines)
    verdict = verify(written.path)
    assert words in verdict.problem
    assert verdict.line == line


def harmless(event: Event) -> Event:
    """The event as it should have been."""
    return msgspec.structs.replace(event, code="harmless()") if isinstance(event, CellStarted) else event


def replaced(written: Written, other: Path, *, key: bytes | None = None) -> None:
    """Put another story in all places: the event log, the audit log and the head."""
    events = [
        msgspec.structs.replace(each, code="harmless()") if isinstance(each, CellStarted) else each
        for each in stories.whole()
    ]
    lie = write_session(other, events, key=key)
    for mine, theirs in ((written.path, lie.path), (written.log, lie.log), (written.head, lie.head)):
        mine.write_bytes(theirs.read_bytes())


def test_a_rewrite_of_all_is_shown_by_the_key_only(write: Write, tmp_path: Path) -> None:
    """Whoever can write all places, the head too, is found by the key, and without one not at all, as documented."""
    written = write(key=KEY)
    replaced(written, tmp_path / "plain")
    assert verify(written.path, key=KEY).problem == "it was written without a key"
    assert verify(written.path).whole
    replaced(written, tmp_path / "keyed", key=b"the attacker's own key")
    assert verify(written.path, key=KEY).problem == "it was written with another key"
    # The right key's name, without the key.
    first = {**json.loads(written.lines[0]), "key": key_name(KEY)}
    del first["hash"]
    written.lines = rewritten([sealed(first, None), *written.lines[1:]])
    assert verify(written.path, key=KEY).problem == "its text is not what its hash was made of"


def test_a_rewrite_of_the_folder_alone_is_found(write: Write, tmp_path: Path) -> None:
    """Without any key: the head lies elsewhere."""
    written = write()
    head = written.head.read_bytes()
    replaced(written, tmp_path / "other")
    written.head.write_bytes(head)
    assert "is not the one that its head is of" in verify(written.path).problem


def test_a_keyed_log_needs_its_key(write: Write) -> None:
    """Without the key the chain and the head are checked, and that is said; another key is not taken."""
    written = write(key=KEY)
    assert (verify(written.path, key=KEY).whole, verify(written.path, key=KEY).notes) == (True, [])
    without = verify(written.path)
    assert (without.whole, without.unchecked) == (True, True)
    assert "--key-file" in without.notes[0]
    assert verify(written.path, key=b"another one, long enough").problem == "it was written with another key"
    written.lines = [*written.lines[:6], digit(written.lines[6]), *written.lines[7:]]
    assert verify(written.path).line == 8
    assert verify(written.path, key=KEY).line == 7


def test_a_head_can_not_be_forged_without_the_key(write: Write) -> None:
    """A log that was cut off, with a head to fit, is found by the head's HMAC."""
    written = write(key=KEY)
    lines = written.lines[:-2]
    written.lines = lines
    value = {**json.loads(written.head.read_bytes()), "seq": len(lines), "last": hashlib.sha256(lines[-1]).hexdigest()}
    written.head.write_bytes(canonical(value))
    assert verify(written.path, key=KEY).problem == "its head is not the one that was written for it"


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'{"seq": 16}', b'{"session":"s","seq":"x","last":""}', None])
def test_a_head_that_is_none_is_told(write: Write, content: bytes | None) -> None:
    """Who deletes or garbles the head to hide where the log ended is found."""
    written = write()
    written.head.unlink()
    if content is not None:
        written.head.write_bytes(content)
    assert verify(written.path).problem == "there is no head for it, which says where it ends"


def test_another_sessions_log_is_not_taken_for_this_ones(write: Write, tmp_path: Path) -> None:
    """The first line binds the session."""
    written = write()
    other = tmp_path / "sessions" / "other"
    written.folder.rename(other)
    written.head.rename(written.head.with_name("other"))
    assert "the log of the session 's' lies in the folder of another one" in verify(other / "audit.jsonl").problem


@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        (rb"humanize\nprint", rb"humanise\nprint", "event 4 in the session's log differs in: code_sha256"),
        (b"longest bill", b"biggest bill", "event 2 in the session's log differs in: question"),
        (b'"status":"died"', b'"status":"okay"', "log.jsonl can't be read"),
        (b'"duration":0.5', b'"duration":0.6', "event 8 in the session's log differs in: duration"),
        (rb'\n"}],"exec', rb'"}],"exec', "event 8 in the session's log differs in: outputs_sha256"),
    ],
    ids=["code", "question", "status", "duration", "outputs"],
)
def test_a_change_in_the_event_log_is_found(write: Write, find: bytes, put: bytes, words: str) -> None:
    """Questions, code, how a cell ended and what it showed can't be changed behind the audit log's back."""
    written = write()
    text = written.log.read_bytes()
    changed = text.replace(find, put, 1)
    assert changed != text
    written.log.write_bytes(changed)
    assert words in verify(written.path).problem


def test_a_cell_of_the_event_log_that_has_no_line_is_found(write: Write) -> None:
    """An audit log whose end was taken back together with its head does not cover the cells that followed."""
    early = write(stories.whole()[:3])
    lines, head = early.lines, early.head.read_bytes()
    written = write(stories.whole()[3:])
    written.lines = lines
    written.head.write_bytes(head)
    assert verify(written.path).problem == "event 4 of the session's log (cell_begun 1) has no line"


def test_an_event_log_that_is_gone_or_short_is_found(write: Write) -> None:
    """The audit log remembers events that the session's log no longer has."""
    written = write()
    text = written.log.read_bytes()
    written.log.write_bytes(b"".join(text.splitlines(keepends=True)[:9]))
    verdict = verify(written.path)
    assert (verdict.line, verdict.problem) == (9, "event 11, which it was made of, is missing in the session's log")
    written.log.unlink()
    assert verify(written.path).problem == "the session's event log is not beside it"
    written.log.write_bytes(b"{}\n" + text)
    assert "can't be read" in verify(written.path).problem


def test_a_copy_elsewhere_is_checked_as_far_as_it_can_be(write: Write, tmp_path: Path) -> None:
    """A log that was collected by a security team is checked by its chain, and what was not checked is said."""
    copy = tmp_path / "collected.jsonl"
    copy.write_bytes(write().path.read_bytes())
    verdict = verify(copy)
    assert verdict.whole
    assert len(verdict.notes) == 2
    copy.write_bytes(copy.read_bytes().replace(b"humanize", b"humanise"))
    assert not verify(copy).whole


def test_a_log_is_found_by_id_folder_or_file(write: Write, tmp_path: Path) -> None:
    """What isn't there is wrong use."""
    written = write()
    assert [locate(str(name), tmp_path) for name in ("s", written.folder, written.path)] == [written.path] * 3
    for name in ("", "nothing", ".", "../..", "a\0b", "x" * 5000):
        with pytest.raises(UsageError, match="There is no audit log"):
            locate(name, tmp_path)


def test_a_later_format_is_wrong_use_not_a_change(write: Write) -> None:
    """A log of a later version is not accused of what this version can't know."""
    written = write([])
    entry = {**json.loads(written.lines[0]), "format": 99}
    del entry["hash"]
    written.lines = [sealed(entry, None)]
    with pytest.raises(UsageError, match="format 99"):
        verify(written.path)


def test_an_event_of_a_later_version_is_not_taken_for_a_change(write: Write) -> None:
    """The logs are compared up to it, and it is said that the rest was not."""
    written = write()
    lines = written.log.read_bytes().splitlines(keepends=True)
    newer = re.sub(rb'"type":"[A-Za-z]+"', b'"type":"CellPainted"', lines[9], count=1)
    written.log.write_bytes(b"".join([*lines[:9], newer, *lines[10:]]))
    verdict = verify(written.path)
    assert (verdict.whole, verdict.problem, verdict.unknown_event, verdict.exit_code) == (False, "", 10, 2)
    assert "newer nbagent" in verdict.notes[-1]
    written.log.write_bytes(b"".join([*lines[:9], newer]).replace(b"longest bill", b"biggest bill"))
    verdict = verify(written.path)
    assert (verdict.exit_code, verdict.problem) == (1, "event 2 in the session's log differs in: question")


def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """Not a log that is whole."""
    with pytest.raises(StoreError, match="can't be read"):
        verify(tmp_path)
