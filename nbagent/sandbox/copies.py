"""Copies data into the folder that a sandbox sees at /tmp/data, for one that was started before its data was known.

Nothing can be mounted into a sandbox that runs. So what is small and plain is copied, and the code inside sees what it
would see of a mount, as it was when the session began. Everything else is for a sandbox that starts with its mounts:
much data, links, pipes, other file systems below the folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbagent.errors import DataError
from nbagent.policy import MIB
from nbagent.sandbox.mounts import DATA, Mount

MAX_BYTES = 256 * MIB
"""Of all data: some tenths of a second to copy where the file system can't share the blocks."""
TOO_MUCH = f"it has more than {MAX_BYTES // MIB} MB"
MAX_FILES = 1000
MAX_DEPTH = 50
CHUNK = 8 * MIB
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Somebody else may put a link or a pipe in a file's place at any time: neither is followed or waited for."""


@dataclass(frozen=True)
class _Entry:
    """A file or folder of the data, to be opened by its name in an open folder."""

    name: str
    folder: int | None
    status: os.stat_result
    target: PurePosixPath
    mode: int


def obstacle(mounts: Sequence[Mount]) -> str:
    """Why data has to be mounted: a clause such as `it has 300 MB`; empty if it can be copied."""
    try:
        files = size = 0
        for mount in mounts:
            for entry in _entries(mount, opened=False):
                files += 1
                size += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
                if files > MAX_FILES:
                    return f"it has more than {MAX_FILES:,} files"
                if size > MAX_BYTES:
                    return TOO_MUCH
    except DataError as error:
        return error.message
    except OSError as error:
        return f"it can't be read: {error.strerror}"
    return ""


def copy(mounts: Sequence[Mount], folder: Path, *, uid: int) -> None:
    """Copy data; blocking.

    As with mounts, what the sandbox's user could not read is opened to it where a person named it, or a folder that is
    closed as a whole; what is private inside of an open folder stays so.

    Args:
        mounts: What the sandbox is to see, directly below `/tmp/data`.
        folder: The one on the host that it sees there; nobody else's.
        uid: The user it runs as, on the host.

    Raises:
        DataError: There is an obstacle after all; its message is a clause.
        OSError: Something can't be read, or written.
    """
    left = MAX_BYTES
    for mount in mounts:
        for entry in _entries(mount, opened=uid != os.getuid()):
            to = folder / entry.target
            if stat.S_ISDIR(entry.status.st_mode):
                to.mkdir()
                to.chmod(entry.mode)
            else:
                left -= _copy_file(entry, to, left)


def _entries(mount: Mount, *, opened: bool) -> Iterator[_Entry]:
    """A mount's file, or its folder and all below it, each folder before what is in it.

    Args:
        mount: Of a file or folder.
        opened: Whether what is closed at the top is to be opened.

    Raises:
        DataError: Something in it is neither a file nor a folder, or lies on another file system or too deep.
    """
    target = PurePosixPath(mount.target)
    if target.parent != PurePosixPath(DATA):
        raise DataError(f"it is to be seen at {mount.target}")
    top = mount.source.lstat()
    target = PurePosixPath(target.name)
    if not stat.S_ISDIR(top.st_mode):
        _check(str(mount.source), top, top.st_dev)
        yield _Entry(str(mount.source), None, top, target, _mode(top, opened))
        return
    closed = {"": opened and not _is_open(top)}
    yield _Entry(str(mount.source), None, top, target, _mode(top, closed[""]))
    for path, folders, names, descriptor in os.fwalk(mount.source, onerror=_raise):
        here = os.path.relpath(path, mount.source)
        here = "" if here == os.curdir else here
        if here.count(os.sep) > MAX_DEPTH:
            raise DataError(f"its folders are more than {MAX_DEPTH} deep")
        for name in (*folders, *names):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            below = f"{here}/{name}" if here else name
            _check(below, status, top.st_dev)
            closed[below] = closed[here] and not _is_open(status)
            mode = _mode(status, closed[here] if stat.S_ISREG(status.st_mode) else closed[below])
            yield _Entry(name, descriptor, status, target / below, mode)


def _check(name: str, status: os.stat_result, device: int) -> None:
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise DataError(f"{name!r} is neither a file nor a folder")
    if status.st_dev != device:
        raise DataError(f"{name!r} is on another file system")


def _is_open(status: os.stat_result) -> bool:
    """Whether anybody may list a folder and reach what is in it."""
    return bool(status.st_mode & stat.S_IROTH and status.st_mode & stat.S_IXOTH)


def _mode(status: os.stat_result, opened: bool) -> int:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        # The owner, who is not the one inside, has to fill it, and to remove it.
        return mode | (0o755 if opened else 0o700)
    return mode | ((0o755 if mode & 0o100 else 0o644) if opened else 0)


def _raise(error: OSError) -> None:
    raise error


def _copy_file(entry: _Entry, to: Path, most: int) -> int:
    """Copy one file; returns its bytes, of which there may be so many."""
    source = os.open(entry.name, READ, dir_fd=entry.folder)
    try:
        status = os.fstat(source)
        _check(entry.name, status, entry.status.st_dev)
        target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copied = _copy_bytes(source, target, most)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fchmod(target, entry.mode)
        finally:
            os.close(target)
    finally:
        os.close(source)
    return copied


def _copy_bytes(source: int, target: int, most: int) -> int:
    """Copy to the end, by sharing blocks where the file system can."""
    total = 0
    with contextlib.suppress(OSError):  # between two file systems, or not on this one
        while total <= most and (done := os.copy_file_range(source, target, CHUNK)):
            total += done
    # The rest, or all of it; some file systems also just say that there is nothing.
    while total <= most and (data := os.read(source, CHUNK)):
        total += len(data)
        while data:
            data = data[os.write(target, data) :]
    if total > most:
        raise DataError(TOO_MUCH)
    return total
