"""The file of the audit log: lines that each hold the hash of the one before, and a head outside of the folder.

A line is canonical JSON (sorted names, no blanks, UTF-8) with these besides the entry's own:

    seq     its number, from 1
    prev    SHA-256 of the whole line before it, its newline included: `sed -n 3p audit.jsonl | sha256sum`
    hash    last of all: SHA-256 of the line without this member, or with a key its HMAC

The first line has the type `audit` and binds the session's id, the format and the key's name, with when, where and by
whom it was begun. The head is one small record that is overwritten in place after each line: how many lines there are,
and the SHA-256 of the last one. It is one write within one page, which a kill can't divide; to replace the file by
renaming another one costs 800 µs on ext4, where this costs 2.

Each line is one unbuffered write, so what was written survives the end of nbagent, however sudden. It is *not* synced
to the disk line by line: that takes as long as a small cell runs, and guards only against a loss of power, which
nothing inside a sandbox can cause. It is synced when the log is opened, when a session starts and when it ends. After
a loss of power lines may be missing at the end, and `verify` says so.

A line that could not be written is an error of the session: a cell that can't be logged does not run.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.audit.entries import Entries, Entry, rfc3339
from nbagent.errors import UsageError
from nbagent.events import Record
from nbagent.store import cannot_write

FILE = "audit.jsonl"
HEADS = "audit-heads"
FORMAT = 1
"""Of the lines and of what `entries.py` makes of an event; to be raised when either changes."""
START, GAP = "audit", "gap"
"""The types of lines that come from no event: the first, and one that says that those before it were changed."""
FIRST = "0" * 64
"""What stands for the hash of the line before the first."""
MIN_KEY = 16
"""Bytes."""
HEAD_SIZE = 400
"""Bytes; a session's name of 64 characters fits in."""


def canonical(value: Entry) -> bytes:
    """The one form in which a value is hashed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def sha256(data: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def seal(body: bytes, key: bytes | None) -> str:
    """The hash of a line without its hash: plain, or with the key."""
    return sha256(body) if key is None else hmac.new(key, body, hashlib.sha256).hexdigest()


def key_name(key: bytes | None) -> str:
    """What tells one key from another without giving any of it away; empty without one."""
    return seal(b"nbagent audit key", key)[:16] if key is not None else ""


def read_key(path: str | Path | None) -> bytes | None:
    """The key in a file, without the line's end behind it; None if there is no file named.

    Raises:
        UsageError: It can't be read, or is too short to be one.
    """
    if path is None:
        return None
    try:
        key = Path(path).expanduser().read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(
            f"The audit key {path} can't be read: {error.strerror}.", mend="Check --key-file, or audit_key_file."
        ) from error
    if len(key) < MIN_KEY:
        raise UsageError(
            f"The audit key in {path} has {len(key)} bytes, which is too short to be one.",
            mend=f"Write at least {MIN_KEY} random bytes, for example with: openssl rand -hex 32",
        )
    return key


@dataclass(frozen=True)
class Head:
    """How far the log has come.

    Attributes:
        seq: The number of its last line.
        last: SHA-256 of that line.
        intact: Whether the head's own HMAC is right; always, without a key.
    """

    seq: int
    last: str
    intact: bool = True

    @classmethod
    def read(cls, path: Path, *, session: str, key: bytes | None) -> Head | None:
        """The head in a file; None if there is none, or nothing that could be one."""
        try:
            value: Any = json.loads(path.read_bytes())
            mac = value.pop("mac", "")
            right = key is None or hmac.compare_digest(mac, seal(canonical(value), key))
            seq, last = int(value["seq"]), str(value["last"])
            return cls(seq, last, intact=right and value["session"] == session and seq > 0)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def record(self, *, session: str, key: bytes | None) -> bytes:
        """What the file holds; always as long, so that nothing of an earlier one is left behind it."""
        value: Entry = {"session": session, "seq": self.seq, "last": self.last}
        if key is not None:
            value["mac"] = seal(canonical(value), key)
        return canonical(value).ljust(HEAD_SIZE - 1) + b"\n"


class Audit:
    """Writes a session's audit log; whoever makes one holds the session's `Journal`.

    A log that a killed process left is continued: its cut line is dropped, and what the event log has beyond it is
    added. One that is not as its head says is continued too, behind a line that says so and that no later one undoes.

    Args:
        folder: The session's.
        root: The folder of all state, where the heads are.
        session: The session's id.
        past: The session's events so far.
        key: Makes the hashes HMACs.
        count: Gets the bytes of each line that is written.

    Raises:
        UsageError: The log was begun with another key, or in another format.
        StoreError: It can't be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        root: Path,
        session: str,
        past: Iterable[Record] = (),
        key: bytes | None = None,
        count: Callable[[int], object] = lambda _size: None,
    ) -> None:
        self.path = folder / FILE
        self._head_path = root / HEADS / session
        self._session = session
        self._key = key
        self._count = count
        self._fold = Entries()
        self._waiting: deque[Entry] = deque()
        self._seq = 0
        self._last = FIRST
        self._size = 0
        self._descriptor = self._head = -1
        try:
            self._head_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
            head = Head.read(self._head_path, session=session, key=key)
            self._head = os.open(self._head_path, flags & ~os.O_APPEND, 0o600)
            self._continue(past, head)
        except OSError as error:
            self.close()
            raise cannot_write(self.path, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error
        except BaseException:
            self.close()
            raise

    def _continue(self, past: Iterable[Record], head: Head | None) -> None:
        """Go on behind the last whole line, with what the event log has beyond it."""
        lines = self._whole_lines()
        if lines:
            self._check_key(lines[0])
            self._seq, self._last = len(lines), sha256(lines[-1])
        if not lines:
            first = {"session": self._session, "format": FORMAT, "key": key_name(self._key), **_whereabouts()}
            self._write({"type": START, **first})
        if why := not_as_headed(lines, head, head):
            expected = head.seq if head else None
            self._write({"type": GAP, "found": len(lines), "expected": expected, "reason": why, **_whereabouts()})
        written = sum(_type(line) not in (START, GAP) for line in lines)
        for record in past:
            for entry in self._fold.add(record):
                if written > 0:
                    written -= 1
                else:
                    self._write(entry)
        self._sync()

    def _whole_lines(self) -> list[bytes]:
        """All lines; the last one goes if it was cut off."""
        with self.path.open("rb") as file:
            lines = file.readlines()
        if lines and not lines[-1].endswith(b"\n"):
            del lines[-1]
        self._size = sum(map(len, lines))
        os.ftruncate(self._descriptor, self._size)
        return lines

    def _check_key(self, line: bytes) -> None:
        try:
            first = json.loads(line)
            wanted, name = first["format"], first["key"]
        except (ValueError, KeyError, TypeError):
            return  # Changed by somebody: what `verify` is for.
        if wanted != FORMAT:
            raise UsageError(f"The audit log {self.path} has format {wanted}, which this version can't continue.")
        if name != key_name(self._key):
            begun = "with another key" if name and self._key else "with a key" if name else "without a key"
            raise UsageError(
                f"The audit log {self.path} was begun {begun}.",
                mend="Set audit_key_file as it was, or start a new session.",
            )

    def add(self, record: Record) -> None:
        """Write what is to be said of an event.

        Raises:
            StoreError: It can't be written.
        """
        # What could not be written waits for the next event, so that no line is left out for a disk that was full.
        self._waiting.extend(self._fold.add(record))
        try:
            while self._waiting:
                self._write(self._waiting[0])
                if self._waiting.popleft()["type"] in ("session_start", "session_ended"):
                    self._sync()
        except (OSError, ValueError) as error:
            raise cannot_write(self.path, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error

    def _write(self, entry: Entry) -> None:
        """One line, then the head; neither stays without the other."""
        body = canonical({**entry, "seq": self._seq + 1, "prev": self._last})
        line = b'%s,"hash":"%s"}\n' % (body[:-1], seal(body, self._key).encode())
        head = Head(self._seq + 1, sha256(line))
        try:
            if os.write(self._descriptor, line) != len(line):
                raise OSError("the disk is full")
            os.pwrite(self._head, head.record(session=self._session, key=self._key), 0)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._seq, self._last = head.seq, head.last
        self._size += len(line)
        self._count(len(line))

    def _sync(self) -> None:
        os.fsync(self._descriptor)
        os.fsync(self._head)

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in (self._descriptor, self._head):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._head = -1


def not_as_headed(lines: list[bytes], head: Head | None, later: Head | None) -> str:
    """Why the lines are not those that the head is of; empty if they are.

    There may be one more: a line is written before its head.

    Args:
        lines: All whole lines.
        head: Read before them, so that all it knows of must be there.
        later: Read after them, so that it must know of all that is there; both are the same if nobody writes.
    """
    if later is None:
        return "there is no head for it, which says where it ends" if len(lines) > 1 else ""
    for each in filter(None, (head, later)):
        if not each.intact:
            return "its head is not the one that was written for it"
        if each.seq <= len(lines) and sha256(lines[each.seq - 1]) != each.last:
            return f"line {each.seq} is not the one that its head is of"
    if head is not None and len(lines) < head.seq:
        return f"it has {len(lines)} lines, and had {head.seq}"
    if len(lines) > later.seq + 1:
        return f"it has {len(lines)} lines, and its head knows of {later.seq}"
    return ""


def _whereabouts() -> Entry:
    """When, where and by whom a log is begun or continued, as far as this process can tell."""
    return {"time": rfc3339(time.time()), "host": platform.node(), "uid": os.getuid(), "pid": os.getpid()}


def _type(line: bytes) -> Any:
    try:
        return json.loads(line)["type"]
    except (ValueError, KeyError, TypeError):
        return None
