"""Files that are written whole or not at all, locks on files, and checks of paths and of files that others send.

A file is written beside its place and moved there when it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import os
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import IO, Final

from nbagent.core.errors import StoreError, UsageError

STAGED_PREFIX: Final = ".nbagent-"
"""The beginning of names of unfinished files, which no listing shows."""
PRIVATE_MODE: Final = 0o600
"""The mode of a file that only its owner reads and writes."""
MAX_LINE: Final = 384 * 1024 * 1024
"""Bytes of one line that is read: more than the most that a cell may show takes in a log."""
_PIECE: Final = 1024 * 1024
_RETRY_SECONDS: Final = 0.02
_PASS_RIGHTS: Final = 83
"""The number of Linux's option SO_PASSRIGHTS, which Python doesn't name."""


@contextlib.contextmanager
def staged(folder: Path, *, mode: int = PRIVATE_MODE) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file in a folder, which the caller writes and moves to its place; otherwise it is removed.

    Args:
        folder: The folder in which the file will stay.
        mode: The file's mode, less the process's umask.

    Raises:
        OSError: The file can't be made.
    """
    path = folder / f"{STAGED_PREFIX}{os.urandom(8).hex()}"

    def create(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, mode)

    try:
        with open(path, "xb", opener=create) as file:
            yield file, path
    finally:
        path.unlink(missing_ok=True)


def write(path: Path, data: bytes, *, mode: int | None = None, sync: bool = False) -> None:
    """Write a file whole or not at all, into a folder that exists.

    Args:
        path: The file's path.
        data: The whole content.
        mode: The file's mode; by default that of the file it replaces, else 0666 less the umask.
        sync: Whether the file must outlast a loss of power.

    Raises:
        OSError: The file can't be written; the old one is intact.
    """
    if mode is None and path.exists():
        mode = path.stat().st_mode & 0o777
    with staged(path.parent, mode=0o666 if mode is None else mode) as (file, beside):
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
        beside.replace(path)


def save(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file as `write` does, with its missing folders, so that it outlasts a loss of power.

    Raises:
        StoreError: The file can't be written; the old one is intact.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, data, mode=mode, sync=True)
    except OSError as error:
        raise cannot_write(path, error, mend="Choose another place.") from error


def make_folder(folder: Path, *, mode: int = 0o700) -> None:
    """Make a folder, and the missing ones above it, all with one mode: `mkdir` gives those what the umask leaves.

    Raises:
        OSError: One can't be made.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            each.mkdir(mode=mode, exist_ok=True)


def cannot_write(path: Path, error: Exception, *, mend: str = "") -> StoreError:
    """The error for a file or folder that can't be written."""
    reason = getattr(error, "strerror", None) or error
    return StoreError(f"{path} can't be written: {reason}.", mend=mend)


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
    every = ((parent, name) for parent, _, names in walk(folder) for name in names)
    for parent, name in itertools.islice(every, 100_000):
        with contextlib.suppress(OSError):
            if os.path.samestat(Path(parent, name).lstat(), wanted):
                return True
    return False


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, however deep the folders are: that of older Pythons fails at a thousand, which anybody may make."""
    waiting = [os.fspath(folder)]
    while waiting:
        here = waiting.pop()
        below: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(here) as found:
                for each in found:
                    (below if _is_folder(each) else names).append(each.name)
        except OSError:
            continue
        yield here, below, names
        paths = [f"{here.rstrip('/')}/{name}" for name in reversed(below)]
        waiting += [path for path in paths if not os.path.islink(path)]  # noqa: PTH114 - there may be a million


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def remove(folder: Path) -> None:
    """Remove a folder of nbagent's own, and all in it, however deep; what can't be removed stays.

    It is for folders that nobody else can write, which hold what others have made.
    """
    if folder.is_symlink():
        return
    folders = []
    for parent, below, names in walk(folder):
        folders.append(Path(parent))
        for name in (*names, *(name for name in below if (folders[-1] / name).is_symlink())):
            with contextlib.suppress(OSError):
                (folders[-1] / name).unlink()
    for each in reversed(folders):
        with contextlib.suppress(OSError):
            each.rmdir()


def opened(path: Path, flags: int = os.O_RDONLY, *, buffering: int = -1) -> IO[bytes]:
    """Open a file of nbagent's own, which is a plain one: no link is followed, and no pipe waited for.

    Raises:
        OSError: It isn't there, is something else, or can't be opened.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file")
    mode = {os.O_RDONLY: "rb", os.O_RDWR: "rb+"}.get(flags & os.O_ACCMODE, "ab" if flags & os.O_APPEND else "wb")
    return os.fdopen(descriptor, mode, buffering)


def lines(file: IO[bytes], *, most: int = MAX_LINE) -> Iterator[bytes]:
    """The whole lines of a text that others may have written; one that was cut off at the end is left out.

    Of a long line that is no text nothing is kept: a file with a hole of terabytes takes no room on a disk.

    Raises:
        OSError: A line has more bytes than `most`, or is long and no text.
    """
    parts: list[bytes] = []
    size, is_text = 0, True
    while piece := file.readline(_PIECE):
        size += len(piece)
        if size > most:
            raise OSError(errno.EFBIG, f"a line of it has more than {most:,} bytes")
        if not piece.endswith(b"\n") or parts or not is_text:
            is_text = is_text and b"\0" not in piece
        if not is_text:
            parts.clear()
        else:
            parts.append(piece)
        if piece.endswith(b"\n"):
            if not is_text:
                raise OSError(errno.EILSEQ, "a long line of it is no text")
            yield piece if len(parts) == 1 else b"".join(parts)
            parts, size = [], 0


def lock(file: IO[bytes] | IO[str], path: Path, *, patience: float = 0.0) -> None:
    """Lock an open file for this process alone, until the file is closed.

    Args:
        file: The file.
        path: Its path.
        patience: Seconds to wait for another process that has it locked.

    Raises:
        BlockingIOError: Another process still has it locked after that time.
        FileNotFoundError: It isn't there any more: another file of that name may be somebody else's.
    """
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile")
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(_RETRY_SECONDS)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file alone; False if there is no such file."""
    try:
        with opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@contextlib.asynccontextmanager
async def locked(path: Path, *, shared: bool = False) -> AsyncIterator[None]:
    """Hold the lock of a file, which is made if it is missing, against other processes and other tasks.

    It is tried again and again: a wait in a thread could not be cancelled.

    Args:
        path: The file.
        shared: Whether others may hold it at the same time, if they hold it shared too.

    Raises:
        OSError: The file can't be opened.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_RETRY_SECONDS / 2)
        yield
    finally:
        os.close(descriptor)


def refuse_files(connection: socket.socket) -> None:
    """Have Linux refuse the open files that the other end of a Unix socket sends along; it can since 6.16.

    Otherwise whoever reads the message closes these files, which can take as long as its sender wants: a connection may
    linger, and a file may be one through which a million others are watched.

    Args:
        connection: A socket from which a sandbox is heard. One that listens passes this on to its connections.
    """
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, _PASS_RIGHTS, 0)
