"""The append-only log of a session's events, in the session's private folder.

    SESSIONS/ID/log.jsonl     one `events.Record` a line, in order, without gaps
    SESSIONS/ID/lock          locked by the process that owns the session
    SESSIONS/ID/output/       files that its cells left in /tmp/output
    SESSIONS/ID/spilled/      stream text that was too much for the notebook
    SESSIONS/ID/audit.jsonl   the audit log (`audit/`)
    SESSIONS/ID/sandbox.json  the sandbox that it gets when it is resumed (`session/catalog/saved_spec.py`)
    SESSIONS/ID/summary.json  its title, state and cost, for lists (`session/catalog/summary.py`)
    SESSIONS/ID/host.log      what its host process printed, if it has one (`session/host_process.py`)

A record is in the log before any reader gets it, so a killed process loses no event that anybody saw. Whoever reads a
log ignores a last line that was cut off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from nbagent.core import events, fileio
from nbagent.core.errors import NewerLog, StoreError, contained
from nbagent.core.folders import LOG_FILE, check_session_id
from nbagent.core.quota import Quota

Reader = Callable[[events.Record], None]
DEFAULT_QUOTA_BYTES = 4096 * 1024 * 1024
"""Bytes that a session may keep by default."""
SENT_PREFIX = ".sent-"
"""What the names of folders in the session's folder begin with, in which processes that are attached put files for its
owner, each as long as a call takes. They are the person's own files, and don't count against the quota."""
LOCK_SECONDS = 0.5
"""Seconds to wait for a process that has a session's lock only to look at it, or to write its summary."""
MAX_SPILLED_CHARACTERS = 256 * 1024 * 1024
"""Characters of each stream that a cell may spill; further ones are counted in the notebook, and dropped."""
BULK_EVENTS = (
    events.OutputAdded,
    events.OutputUpdated,
    events.OutputsCleared,
    events.LateOutputAdded,
    events.WidgetsChanged,
    events.CommandRun,
)
"""Events that code can produce in any number and size."""
SPILLED = "spilled"
KINDS = stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK
"""The kinds of files that a session's folder has."""
_UNKNOWN_TYPE = re.compile(r"Invalid value .* - at `\$\.event\.type`", re.DOTALL)
"""What msgspec says of an event whose type is a name that it doesn't know."""


class SessionLog:
    """One session's folder and log, locked by one process at a time.

    Args:
        root: The folder of all state, see `folders.state_root`.
        session: The session's id; letters, digits, dots, dashes and underscores, at most 64.
        limit: Bytes that the session may keep on the host's disk.

    Attributes:
        quota: Counts the bytes that the session keeps, those of its earlier processes included.
        last: The number of the last record, 0 before the first.

    Raises:
        UsageError: The id can't be a folder's name.
        StoreError: The folder can't be made or written, or another process holds it.
    """

    def __init__(self, root: Path, session: str, *, limit: int = DEFAULT_QUOTA_BYTES) -> None:
        check_session_id(session)
        self.session = session
        self.folder = root / "sessions" / session
        self.last = 0
        self._readers: list[Reader] = []
        self._strict: list[Reader] = []
        self._encoder = msgspec.json.Encoder()
        self._lock: IO[bytes] | None = None
        self._quota_told = False
        try:
            fileio.make_folder(self.folder)
            _check_own(self.folder)
            self._lock = fileio.opened(self.folder / "lock", os.O_WRONLY | os.O_CREAT)
            fileio.lock(self._lock, self.folder / "lock", patience=LOCK_SECONDS)
            self._truncate_cut_line()
            for left in self.folder.glob(f"{SENT_PREFIX}*"):  # by a process that was killed while it sent a file
                shutil.rmtree(left, ignore_errors=True)
            self._log = fileio.opened(self.folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, buffering=0)
            self.quota = Quota(limit, used=_size_of(self.folder))
        except BlockingIOError:
            self.close()
            raise StoreError(
                f"The session {session} is in use by another process.", mend="Wait until that ends."
            ) from None
        except OSError as error:
            self.close()
            raise fileio.cannot_write(self.folder, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error

    def _truncate_cut_line(self) -> None:
        """Remove a last line that a killed process left cut, and read the number of the last whole record."""
        log = self.folder / LOG_FILE
        if not log.exists():
            return
        whole = 0
        with fileio.opened(log, os.O_RDWR) as file:
            for line in fileio.lines(file):
                whole += len(line)
                self.last += 1
            file.truncate(whole)

    def emit(self, event: events.Event) -> events.Record:
        """Write an event to the log, then give it to every reader.

        Once the quota is used up, the events of `BULK_EVENTS` are left out, and one `QuotaReached` says so. A reader's
        failure is contained, unless the reader follows strictly.

        Raises:
            StoreError: The event can't be written; no reader got it.
        """
        record = events.Record(self.last + 1, time.time(), event)
        record, line = self._encode(record)
        if not isinstance(event, BULK_EVENTS):
            self.quota.add(len(line))
        elif not self.quota.take(len(line)):
            record = self._leave_out(record)
            if not self.quota.spare(len(line)):
                return record
            record, line = self._encode(record)
        if isinstance(event, events.CellFinished):
            self.quota.add(len(line))  # counted twice, since the notebook will have it too
        self._write(line)
        self.last = record.seq
        for reader in list(self._readers):
            if reader in self._strict:
                reader(record)
                continue
            with contained(f"A reader of the session's events missed {type(event).__name__} {record.seq}"):
                reader(record)
        return record

    def _encode(self, record: events.Record) -> tuple[events.Record, bytes | bytearray]:
        """A record as a line of the log, with its line end; lone surrogates are replaced."""
        try:
            return record, self._encoder.encode_lines([record])
        except UnicodeEncodeError:
            record = events.from_json(events.to_json(record), events.Record)
            return record, self._encoder.encode_lines([record])

    def _leave_out(self, record: events.Record) -> events.Record:
        """Emit `QuotaReached`, once; returns the record that is left out, with the number that is its own then."""
        if self._quota_told:
            return record
        self._quota_told = True
        self.emit(events.QuotaReached(cell=getattr(record.event, "cell", 0), limit=self.quota.limit))
        # A reader of that event may have emitted more.
        return events.Record(self.last + 1, record.at, record.event)

    def _write(self, line: bytes | bytearray) -> None:
        try:
            end = os.fstat(self._log.fileno()).st_size
            if self._log.write(line) != len(line):
                # A partial line would make all later ones unreadable.
                self._log.truncate(end)
                raise OSError("the disk is full")
        except (OSError, ValueError) as error:
            raise fileio.cannot_write(self.folder, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error

    def follow(self, reader: Reader, *, strict: bool = False) -> Callable[[], None]:
        """Call `reader` with each record from now on; returns a function that ends it.

        Args:
            reader: Called with the records.
            strict: Whether `emit` raises what the reader raises.
        """
        self._readers.append(reader)
        if strict:
            self._strict.append(reader)
        return lambda: self._readers.remove(reader)

    def since(self, seq: int = 0) -> Iterator[events.Record]:
        """The records after number `seq`, from the log."""
        return read_log(self.folder, since=seq)

    def spill(self, cell: int) -> Callable[[str, str], None]:
        """A function that appends a cell's stream text that is too long for the notebook to files beside the log."""

        def take(stream: str, text: str) -> None:
            folder = self.folder / SPILLED
            folder.mkdir(exist_ok=True)
            path = folder / f"cell-{cell}.{stream}.txt"
            try:
                size = path.stat().st_size if path.exists() else 0
                data = text[: max(0, MAX_SPILLED_CHARACTERS - size)].encode("utf-8", "replace")
                if data and self.quota.take(len(data)):
                    with fileio.opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
                        file.write(data)
            except OSError as error:
                raise fileio.cannot_write(path, error) from error

        return take

    def close(self) -> None:
        """Close the log and release the lock."""
        for name in ("_log", "_lock"):
            file = getattr(self, name, None)
            if file is not None:
                file.close()


def _check_own(folder: Path) -> None:
    """Check that nobody else could have put anything into a session's folder: it says what a resumed sandbox sees."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is a link")
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is somebody else's")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "others can write to it")
    for above in (folder, folder / SPILLED):
        with contextlib.suppress(FileNotFoundError), os.scandir(above) as found:
            for each in found:
                # What is written by the name of a link lands elsewhere, and whoever opens a pipe waits for ever.
                if stat.S_IFMT(each.stat(follow_symlinks=False).st_mode) not in KINDS:
                    raise OSError(errno.EINVAL, f"{each.name} in it is no plain file, folder or socket")


def _size_of(folder: Path) -> int:
    """Bytes of all files below a folder, without following links."""
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(above, name)).st_size  # noqa: PTH118 - of thousands, this is faster
    return total


class Tail:
    """Reads a log that another process writes, each time from where the last read ended."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_FILE
        self._decoder = msgspec.json.Decoder(events.Record)
        self._at = 0

    def new(self, *, since: int = 0) -> Iterator[events.Record]:
        """The whole records that were written since the last call.

        Args:
            since: How many lines are passed over unread.

        Raises:
            NewerLog: A line has an event of an unknown type.
            StoreError: The log can't be read, or a line of it is malformed.
        """
        try:
            for line in self.lines(since=since):
                yield self._decoder.decode(line)
        except msgspec.DecodeError as error:
            message = f"The log {self._path} can't be read: {error}"
            if not _UNKNOWN_TYPE.fullmatch(str(error)):
                raise StoreError(message) from error
            raise NewerLog(message, mend="A newer nbagent may have written it: read it with that one.") from error

    def lines(self, *, since: int = 0) -> Iterator[bytes]:
        """The same as `new`, as the lines of the log without their ends: each is a record in JSON.

        Raises:
            StoreError: The log can't be read.
        """
        try:
            with fileio.opened(self._path) as file:
                file.seek(self._at)
                for number, line in enumerate(fileio.lines(file), start=1):
                    self._at += len(line)
                    if number > since:
                        yield line[:-1]
        except OSError as error:
            raise StoreError(f"The log {self._path} can't be read: {error}") from error


def read_log(folder: Path, *, since: int = 0) -> Iterator[events.Record]:
    """The records of a session's log after number `since`.

    Raises:
        NewerLog: A line has an event of an unknown type.
        StoreError: The log can't be read, or a line of it is malformed.
    """
    return Tail(folder).new(since=since)
