"""Writes the audit log: lines that each have the hash of the line before, and a head outside of the session's folder.

A line is canonical JSON (sorted names, no blanks, UTF-8) with these members besides the entry's own:

    seq     its number, from 1
    prev    SHA-256 of the whole line before it, its newline included: `sed -n 3p audit.jsonl | sha256sum`
    hash    the last member: SHA-256 of the line without it, or, with a key, its HMAC

The first line has the type `audit`. It has the session's id, the format, the key's name, and when, where and by whom
the log was begun. The head is a small record that is overwritten in place after each line: the number of lines and the
SHA-256 of the last one. That is one write within one page, which a kill can't divide; it takes 2 µs, where renaming a
new file over the old one takes 800 on ext4.

Each line is one unbuffered write, so it survives a kill of nbagent. It is *not* synced to the disk line by line: that
takes as long as a small cell, and guards only against a loss of power, which code in a sandbox can't cause. The log is
synced when it is opened, when a session starts, is resumed or ends. After a loss of power, lines may be missing at the
end, and `verify` says so.

If a line can't be written, the session fails: a cell that can't be logged does not run.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.core import fileio
from nbagent.core.errors import UsageError
from nbagent.core.events import Record
from nbagent.core.fileio import cannot_write
from nbagent.observability.audit.entries import AuditEntry, Entries, rfc3339, sha256

FILE = "audit.jsonl"
HEADS = "audit-heads"
FORMAT = 1
"""The version of the format of lines and entries, raised whenever either changes."""
START, GAP = "audit", "gap"
"""The types of lines that come from no event: the first line, and one that says that earlier lines were changed."""
FIRST = "0" * 64
"""`prev` of the first line."""
MIN_KEY = 16
"""Bytes of the shortest key."""
HEAD_SIZE = 400
"""Bytes of the head, enough for a session's id of 64 characters."""


def canonical(value: AuditEntry) -> bytes:
    """A value as canonical JSON, whose bytes are hashed."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def seal(body: bytes, key: bytes | None) -> str:
    """The `hash` of a line: its SHA-256, or with a key its HMAC."""
    return sha256(body) if key is None else hmac.new(key, body, hashlib.sha256).hexdigest()


def key_name(key: bytes | None) -> str:
    """A name for a key that doesn't reveal it: a hash; empty without a key."""
    return seal(b"nbagent audit key", key)[:16] if key is not None else ""


def read_key(path: str | Path | None) -> bytes | None:
    """Read a key from a file, without the line end behind it; None if no file is named.

    Raises:
        UsageError: The file can't be read, or the key is too short.
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
    """The end of a log.

    Attributes:
        seq: The number of the last line.
        last: SHA-256 of the last line.
        intact: Whether the head's own HMAC is right; True without a key.
    """

    seq: int
    last: str
    intact: bool = True

    @classmethod
    def read(cls, path: Path, *, session: str, key: bytes | None) -> Head | None:
        """Read a head; None if the file is missing or is no head."""
        try:
            value: Any = json.loads(path.read_bytes())
            mac = value.pop("mac", "")
            right = key is None or hmac.compare_digest(mac, seal(canonical(value), key))
            seq, last = int(value["seq"]), str(value["last"])
            return cls(seq, last, intact=right and value["session"] == session and seq > 0)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def record(self, *, session: str, key: bytes | None) -> bytes:
        """The head as bytes, always of the same length, so that it overwrites an earlier one completely."""
        value: AuditEntry = {"session": session, "seq": self.seq, "last": self.last}
        if key is not None:
            value["mac"] = seal(canonical(value), key)
        return canonical(value).ljust(HEAD_SIZE - 1) + b"\n"


class Audit:
    """Writes a session's audit log. Its owner must hold the session's `SessionLog`.

    The log of a killed process is continued: a cut last line is removed. `on_event` gets all events of the session
    again, and adds the entries that are missing. A log that doesn't match its head is continued too, behind a line of
    the type `GAP`, which stays in the log.

    Args:
        root: The folder of all state, which has the heads.
        key: With a key, the hashes are HMACs.
        count: Called with the bytes of each line that is written.

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
        key: bytes | None = None,
        count: Callable[[int], object] = lambda _size: None,
    ) -> None:
        self.path = folder / FILE
        self._head_path = root / HEADS / session
        self._session = session
        self._key = key
        self._count = count
        self._fold = Entries()
        self._waiting: deque[AuditEntry] = deque()
        self._known = 0
        self._seq = 0
        self._last = FIRST
        self._size = 0
        self._descriptor = self._head = -1
        try:
            fileio.make_folder(self._head_path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
            head = Head.read(self._head_path, session=session, key=key)
            self._head = os.open(self._head_path, flags & ~os.O_APPEND, 0o600)
            self._continue(head)
        except OSError as error:
            self.close()
            raise cannot_write(self.path, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error
        except BaseException:
            self.close()
            raise

    def _continue(self, head: Head | None) -> None:
        """Continue behind the last whole line."""
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
        self._known = sum(_type(line) not in (START, GAP) for line in lines)
        self._sync()

    def _whole_lines(self) -> list[bytes]:
        """All lines; a last line that was cut is removed from the file."""
        with fileio.opened(self.path) as file:
            lines = list(fileio.lines(file))
        self._size = sum(map(len, lines))
        os.ftruncate(self._descriptor, self._size)
        return lines

    def _check_key(self, line: bytes) -> None:
        try:
            first = json.loads(line)
            wanted, name = first["format"], first["key"]
        except (ValueError, KeyError, TypeError):
            return  # `verify` says that the first line was changed
        if wanted != FORMAT:
            raise UsageError(f"The audit log {self.path} has format {wanted}, which this version can't continue.")
        if name != key_name(self._key):
            begun = "with another key" if name and self._key else "with a key" if name else "without a key"
            raise UsageError(
                f"The audit log {self.path} was begun {begun}.",
                mend="Set audit_key_file as it was, or start a new session.",
            )

    def on_event(self, record: Record) -> None:
        """Write the entries of an event that the log doesn't have.

        Raises:
            StoreError: They can't be written.
        """
        # Entries that could not be written wait for the next event, so that a full disk loses none.
        for entry in self._fold.on_event(record):
            if self._known:
                self._known -= 1
            else:
                self._waiting.append(entry)
        try:
            while self._waiting:
                self._write(self._waiting[0])
                if self._waiting.popleft()["type"] in ("session_start", "session_resumed", "session_ended"):
                    self._sync()
        except (OSError, ValueError) as error:
            raise cannot_write(self.path, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error

    def _write(self, entry: AuditEntry) -> None:
        """Write one line, then the head; if the head fails, the line is taken back."""
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
        """Close the files."""
        for descriptor in (self._descriptor, self._head):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._head = -1


def not_as_headed(lines: list[bytes], head: Head | None, later: Head | None) -> str:
    """Why lines don't match their head; empty if they do.

    There may be one line more than the head says, since a line is written before its head.

    Args:
        lines: All whole lines.
        head: The head as it was before the lines were read: all lines that it counts must be there.
        later: The head as it was after that: it must count all lines. The same as `head` if nobody writes.
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


def _whereabouts() -> AuditEntry:
    """When, where and by whom a log is begun or continued."""
    return {"time": rfc3339(time.time()), "host": platform.node(), "uid": os.getuid(), "pid": os.getpid()}


def _type(line: bytes) -> Any:
    try:
        return json.loads(line)["type"]
    except (ValueError, KeyError, TypeError):
        return None
