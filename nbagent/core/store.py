"""A session's private folder, with the append-only log of its events.

    SESSIONS/ID/log.jsonl     one `events.Record` a line, in order, without gaps
    SESSIONS/ID/lock          locked by the process that owns the session
    SESSIONS/ID/output/       files that its cells left in /tmp/output
    SESSIONS/ID/spilled/      stream text that was too much for the notebook
    SESSIONS/ID/audit.jsonl   the audit log (`audit/`)
    SESSIONS/ID/sandbox.json  what its sandbox is to be when it is resumed (`session/saved.py`)
    SESSIONS/ID/summary.json  its title, state and cost, for lists (`session/summary.py`)
    SESSIONS/ID/host.log      what its host process printed, if it has one (`session/host.py`)

A record is in the log before any reader gets it, so a killed process loses no event that anybody saw. Readers of a log
ignore a last line that was cut off.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import platformdirs

from nbagent.core import fileio
from nbagent.core.errors import StoreError, UsageError, contained
from nbagent.core.events import (
    CellFinished,
    CommandRun,
    DataSeen,
    Event,
    LateOutput,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    QuotaReached,
    Record,
    WidgetState,
    from_json,
    to_json,
)
from nbagent.core.quota import Quota

Reader = Callable[[Record], None]
LIMIT = 4096 * 1024 * 1024
"""Bytes that a session may keep by default."""
LOOKED = 0.5
"""Seconds for somebody who only looks at a session, or writes its summary, to let go of its lock."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def state_root(override: str | Path | None = None) -> Path:
    """The folder of all of this person's state: sessions, tools, audit heads."""
    return Path(override).expanduser() if override else platformdirs.user_state_path("nbagent")


def new_session_id() -> str:
    """A unique id that sorts by time: `20261121-064512-3fa9`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def check_session_id(session: str) -> None:
    """Complain of an id that can't be a folder's name.

    Raises:
        UsageError: It can't.
    """
    if not _NAME.fullmatch(session):
        raise UsageError(
            f"A session can't be called {session[:80]!r}.",
            mend="Use up to 64 letters, digits, dots, dashes and underscores.",
        )


class Journal:
    """One session's folder and log, locked by one process at a time.

    Args:
        root: The folder of all state, see `state_root`.
        session: The session's id; letters, digits, dots, dashes and underscores, at most 64.
        limit: Bytes that the session may keep on the host's disk.

    Attributes:
        folder: The session's folder.
        quota: Counts the bytes, those of the session's earlier processes included.
        last: The number of the last record, 0 before the first.

    Raises:
        UsageError: The id can't be a folder's name.
        StoreError: The folder can't be made or written, or another process holds it.
    """

    def __init__(self, root: Path, session: str, *, limit: int = LIMIT) -> None:
        check_session_id(session)
        self.session = session
        self.folder = root / "sessions" / session
        self.last = 0
        self._readers: list[Reader] = []
        self._strict: list[Reader] = []
        self._encoder = msgspec.json.Encoder()
        self._lock: IO[str] | None = None
        self._quota_told = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.folder.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "it is a link")
            self._lock = (self.folder / "lock").open("w")
            fileio.lock(self._lock, patience=LOOKED)
            self._truncate_cut_line()
            self._log = (self.folder / "log.jsonl").open("ab", buffering=0)
            self.quota = Quota(limit, used=_size_of(self.folder))
        except BlockingIOError:
            self.close()
            raise StoreError(
                f"The session {session} is in use by another process.", mend="Wait until that ends."
            ) from None
        except OSError as error:
            self.close()
            raise cannot_write(self.folder, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error

    def _truncate_cut_line(self) -> None:
        """Remove a last line that a killed process left cut, and read the number of the last whole record."""
        log = self.folder / "log.jsonl"
        if not log.exists():
            return
        whole = 0
        with log.open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                self.last += 1
            file.truncate(whole)

    def emit(self, event: Event) -> Record:
        """Write an event to the log, then give it to every reader.

        Once the quota is used up, events that code can produce without a bound (`BULK`) are left out, which is an event
        of its own. A reader's failure is contained, unless it follows strictly.

        Raises:
            StoreError: The event can't be written; no reader got it.
        """
        record = Record(self.last + 1, time.time(), event)
        record, line = self._encoded(record)
        if not isinstance(event, BULK):
            self.quota.add(len(line))
        elif not self.quota.take(len(line)):
            record = self._leave_out(record)
            if not self.quota.spare(len(line)):
                return record
            record, line = self._encoded(record)
        if isinstance(event, CellFinished):
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

    def _encoded(self, record: Record) -> tuple[Record, bytes | bytearray]:
        """A record as a line of the log, with its line end; lone surrogates are replaced."""
        try:
            return record, self._encoder.encode_lines([record])
        except UnicodeEncodeError:
            record = _without_halves(record)
            return record, self._encoder.encode_lines([record])

    def _leave_out(self, record: Record) -> Record:
        """Emit, once, that the quota is used up; returns the record with the number that it has then."""
        if self._quota_told:
            return record
        self._quota_told = True
        self.emit(QuotaReached(cell=getattr(record.event, "cell", 0), limit=self.quota.limit))
        # A reader of that event may have emitted more.
        return Record(self.last + 1, record.at, record.event)

    def _write(self, line: bytes | bytearray) -> None:
        try:
            end = os.fstat(self._log.fileno()).st_size
            if self._log.write(line) != len(line):
                # A partial line would make all later ones unreadable.
                self._log.truncate(end)
                raise OSError("the disk is full")
        except (OSError, ValueError) as error:
            raise cannot_write(self.folder, error, mend="Make room, or set NBAGENT_STATE_DIR.") from error

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

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records after number `seq`, from the log."""
        yield from read_log(self.folder, since=seq)

    def spill(self, cell: int) -> Callable[[str, str], None]:
        """A function that appends a cell's stream text that is too long for the notebook to files beside the log."""

        def take(stream: str, text: str) -> None:
            folder = self.folder / "spilled"
            folder.mkdir(exist_ok=True)
            path = folder / f"cell-{cell}.{stream}.txt"
            try:
                size = path.stat().st_size if path.exists() else 0
                data = text[: max(0, SPILL_LIMIT - size)].encode("utf-8", "replace")
                if data and self.quota.take(len(data)):
                    with path.open("ab") as file:
                        file.write(data)
            except OSError as error:
                raise cannot_write(path, error) from error

        return take

    def close(self) -> None:
        """Close the log and release the lock."""
        for name in ("_log", "_lock"):
            file = getattr(self, name, None)
            if file is not None:
                file.close()


BULK = (OutputAdded, OutputUpdated, OutputsCleared, LateOutput, WidgetState, CommandRun)
"""Events that code can produce in any number and size."""


def _without_halves(record: Record) -> Record:
    """A record with `?` in place of lone surrogates, which UTF-8 can't encode."""
    return from_json(to_json(record), Record)


SPILL_LIMIT = 256 * 1024 * 1024
"""Characters of each stream that a cell may spill; more are counted in the notebook, and dropped."""


def _size_of(folder: Path) -> int:
    """Bytes of all files below a folder, without following links."""
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(above, name)).st_size  # noqa: PTH118 - of thousands, this is faster
    return total


class Tail:
    """Reads a log that another process writes, from where the last read ended.

    Args:
        folder: The session's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log.jsonl"
        self._decoder = msgspec.json.Decoder(Record)
        self._at = 0

    def new(self) -> Iterator[Record]:
        """The whole records that were written since the last call.

        Raises:
            StoreError: The log can't be read.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._at += len(line)
                    yield self._decoder.decode(line)
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"The log {self._path} can't be read: {error}") from error


def read_log(folder: Path, *, since: int = 0) -> Iterator[Record]:
    """The records of a session's log after number `since`.

    Raises:
        StoreError: A line is malformed that isn't the last one.
    """
    decoder = msgspec.json.Decoder(Record)
    path = folder / "log.jsonl"
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                if number > since:
                    yield decoder.decode(line)
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"The log {path} can't be read: {error}") from error


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file whole or not at all, as `fileio.write` does, so that it outlasts a loss of power.

    Raises:
        StoreError: It can't be written; the old file is intact.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fileio.write(path, data, mode=mode, sync=True)
    except OSError as error:
        raise cannot_write(path, error, mend="Choose another place.") from error


def check_file(path: Path) -> None:
    """Check that a path can be a file.

    Raises:
        StoreError: It is a folder, or the file system refuses its name.
    """
    try:
        os.fsencode(path).decode()
        if stat.S_ISDIR(path.stat().st_mode):
            raise StoreError(f"{path} is a folder.", mend="Name a file, for example answer.ipynb.")
    except FileNotFoundError:
        pass
    except UnicodeError:
        raise StoreError(f"The name {str(path)!r} is not UTF-8 text.", mend="Choose another name.") from None
    except OSError as error:
        raise cannot_write(path, error, mend="Choose another place.") from error


def check_not_data(path: Path, data: Iterable[Path]) -> None:
    """Check that a file is not one of the data and not in a folder of data, also under another name or link.

    Raises:
        UsageError: It is.
    """
    try:
        status, parents = path.stat(), [each.stat() for each in path.resolve().parents]
    except OSError:
        return  # There is no such file, so none can be lost.
    for source in data:
        with contextlib.suppress(OSError):
            given = source.stat()
            inside = stat.S_ISDIR(given.st_mode) and (
                any(os.path.samestat(given, each) for each in parents)
                or (status.st_nlink > 1 and _is_linked(status, source))
            )
            if inside or os.path.samestat(given, status):
                raise UsageError(f"{path} is data, and is not written over.", mend="Choose another name.")


def _is_linked(wanted: os.stat_result, folder: Path) -> bool:
    """Whether a file has a name in a folder, or below it, among the first 100,000."""
    names = itertools.islice(folder.rglob("*"), 100_000)
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(name.lstat(), wanted):
                return True
    return False


def cannot_write(path: Path, error: Exception, *, mend: str = "") -> StoreError:
    """The error for a file or folder that can't be written."""
    reason = getattr(error, "strerror", None) or error
    return StoreError(f"{path} can't be written: {reason}.", mend=mend)


def remember_export(root: Path, notebook: Path, data: list[DataSeen]) -> None:
    """Remember which data the notebooks in a folder need, so that kernels that any client starts there see it."""
    path = _exports(root, notebook.parent)
    known = recall_exports(root, notebook.parent)
    known.update({each.path: each.source for each in data})
    write_atomically(path, json.dumps(known, indent=1).encode())


def recall_exports(root: Path, folder: Path) -> dict[str, str]:
    """The data of the notebooks that were exported to a folder, as path in the sandbox → path on the host."""
    try:
        known: Any = json.loads(_exports(root, folder).read_text())
    except (OSError, ValueError):
        return {}
    return {str(path): str(source) for path, source in known.items()} if isinstance(known, dict) else {}


def _exports(root: Path, folder: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return root / "exports" / f"{digest}.json"
