"""The folder that a sandbox sees at /tmp/data: a private one on the host that mirrors what a person gave, filtered.

Each file is a hard link in it: nothing is copied, whatever its size, and the sandbox sees what is written to the file.
Where a link is impossible (another file system, somebody else's file), a small file is copied and a large one mounted
over an empty file. A file that only root may read is copied for a sandbox that runs as another user. The mirror is
mounted read-only, and the sandbox sees what is added to it later.

Mounting the person's folder itself would show what is added to it later, `.env` and sockets too; mounting its files one
by one would show nothing of what is added, and is slow for many.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from nbagent.core.errors import DataError
from nbagent.core.policy import MIB
from nbagent.sandbox.data import tree
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import DataEntry, DataTree, HiddenReason, LeftOut
from nbagent.sandbox.paths import DATA

MAX_MOUNTS = 2000
MAX_COPIED = 256 * MIB
"""Bytes of all copies that are made while a sandbox runs, which take some tenths of a second."""
TOO_MUCH = f"more than {MAX_COPIED // MIB} MB of it would have to be copied"
COPIED_FIRST = 64 * MIB
"""Bytes of all files that are rather copied than mounted: a copy can be replaced when the file is."""
SMALL = 4 * MIB
"""Bytes of one such file."""
CHUNK_BYTES = 8 * MIB
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Neither follows a link nor waits for a pipe, which somebody may put in place of a file at any time."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Mirror:
    """A mirror of files and folders.

    Its whole state is on disk, so that another process can go on with it.

    Attributes:
        mounts: What the sandbox shall see.
        left_out: What the last `fill` or `update` did not show, by the reason.
        folders: The folders on the host that it read.
    """

    def __init__(self, folder: Path, mounts: Sequence[Mount], *, uid: int) -> None:
        self.mounts = tuple(mounts)
        self.left_out: LeftOut = {}
        self.folders: list[Path] = []
        self._folder = folder
        self._opening = uid != os.getuid()
        self._staged = folder.with_name(f"{folder.name}-new")
        self._empty = folder.with_name(f"{folder.name}-mounted")
        """An empty file; its links are what other files are mounted over."""
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def fill(self, *, mounting: bool = True) -> list[Mount]:
        """Fill the mirror before a sandbox is started or assigned; blocking.

        Args:
            mounting: Whether single files can be mounted over it; not if the sandbox runs already.

        Returns:
            What to mount: the mirror, and the files that can't be in it.

        Raises:
            DataError: Something isn't there any more, or there is no room, or what would have to be mounted can't be.
        """
        with self._lock:
            found = self._read()
            if found.missing:
                raise DataError(f"The data at {found.missing[0]} isn't there any more, or leads through a link now.")
            try:
                self._folder.mkdir(exist_ok=True)
                self._folder.chmod(0o755)
                self._empty.touch(mode=0o444)
                placing = _Placing(self, found, mounting=mounting)
                placing.place_all()
            except OSError as error:
                raise DataError(
                    f"The data can't be shown to the sandbox: {error.strerror}.", mend="Make room."
                ) from error
            if not mounting and HiddenReason.LARGE in found.left_out:
                raise DataError(f"The data can't be shown to a sandbox that runs: {TOO_MUCH}.")
            self.left_out = found.left_out
            return [Mount(self._folder, DATA), *placing.mounted]

    def update(self) -> None:
        """Bring in what has changed on the host since; blocking.

        Raises:
            OSError: There is no room.
        """
        with self._lock:
            found = self._read()
            _Placing(self, found, mounting=False).place_all()
            self.left_out = found.left_out

    def _read(self) -> DataTree:
        found = tree.read(self.mounts, opening=self._opening)
        self.folders = found.folders
        return found


def obstacle(mounts: Sequence[Mount], *, scratch: Path) -> str:
    """Why data can't be shown to a sandbox that runs already, as a clause; empty if it probably can. Blocking.

    The scratch folder is on the file system of the sandbox's mirror.
    """
    found = tree.read(mounts, opening=os.getuid() == 0)
    if found.missing:
        return f"{found.missing[0]} isn't there any more"
    device, size = _link_device(_existing_folder(scratch)), 0
    for entry in found.entries.values():
        if entry.kind == "file" and entry.status is not None:
            linked = entry.status.st_dev == device and not _is_private(entry)
            size += 0 if linked else entry.status.st_size
    return TOO_MUCH if size > MAX_COPIED else ""


def known_failures(scratch: Path) -> dict[str, str]:
    """Probes of the self-check that succeed on every engine that shows the host's files, with the reasons."""
    known = {
        "lock_data": "what is shown is the file itself, so its locks are shared; give a copy of what a program locks"
    }
    if _link_device(_existing_folder(scratch)) != Path(tempfile.gettempdir()).stat().st_dev:
        known["see_paths_in_mounts"] = (
            "large files of another file system than the cache's are mounted, and Linux tells from which folder"
        )
    return known


class _Placing:
    """One pass over the mirror: removes what is not shown any more, and adds what is."""

    def __init__(self, mirror: Mirror, found: DataTree, *, mounting: bool) -> None:
        self.mounted: list[Mount] = []
        self._mirror = mirror
        self._tree = found
        self._mounting = mounting
        self._top = mirror._folder
        self._device = _link_device(mirror._folder)
        self._empty = mirror._empty.stat().st_ino
        self._copied = 0

    def place_all(self) -> None:
        self._remove_others(self._top, "")
        with contextlib.ExitStack() as stack:
            self._folders = stack
            self._source: tuple[Path, int] | None = None
            for path, entry in self._tree.entries.items():
                try:
                    self._place(path, entry)
                except FileNotFoundError:
                    continue  # it changed since it was read; the next pass sees that
                except OSError as error:
                    if error.errno in FULL:
                        raise
                    self._tree.leave_out(HiddenReason.UNREADABLE, path)

    def _remove_others(self, folder: Path, below: str) -> None:
        """Remove what isn't shown any more, or is of another kind now; no link is followed."""
        with os.scandir(folder) as found:
            names = list(found)
        for each in names:
            path = f"{below}/{each.name}" if below else each.name
            entry = self._tree.entries.get(path)
            if each.is_dir(follow_symlinks=False):
                if entry is not None and entry.kind == "folder":
                    self._remove_others(Path(each.path), path)
                else:
                    shutil.rmtree(each.path)
            elif entry is None or (entry.kind == "link") != each.is_symlink() or entry.kind == "folder":
                Path(each.path).unlink()

    def _place(self, path: str, entry: DataEntry) -> None:
        at = self._top / path
        there = _status(at)
        if entry.kind == "folder":
            if there is None:
                at.mkdir()
            if there is None or stat.S_IMODE(there.st_mode) != entry.mode:
                at.chmod(entry.mode)
        elif entry.kind == "link":
            if there is None or str(at.readlink()) != entry.target:
                self._put(at, lambda staged: staged.symlink_to(entry.target))
        else:
            self._place_file(path, at, entry, there)

    def _place_file(self, path: str, at: Path, entry: DataEntry, there: os.stat_result | None) -> None:
        assert entry.status is not None and entry.source is not None  # noqa: S101, PT018 - files are somebody's
        wanted = (entry.status.st_dev, entry.status.st_ino)
        private = _is_private(entry)
        if there is not None and (there.st_dev, there.st_ino) == wanted and not private:
            return
        over = there is not None and there.st_ino == self._empty and not self._mounting
        # A file that was replaced can only be copied; with that, Linux undoes the mount.
        if over and self._mirror._known.setdefault(path, wanted) == wanted:
            return
        if entry.status.st_dev == self._device and not private and self._link(at, entry.source, there):
            return
        if there is not None and _is_copy(there, entry):
            self._copied += there.st_size
            return
        try:
            self._bring(path, at, entry)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            self._tree.leave_out(HiddenReason.LARGE, path)
            at.unlink(missing_ok=True)  # its old content would be taken for the new one

    def _bring(self, path: str, at: Path, entry: DataEntry) -> None:
        """Copy a file that can't be linked, or have it mounted."""
        assert entry.status is not None and entry.source is not None  # noqa: S101, PT018 - files are somebody's
        size, private = entry.status.st_size, _is_private(entry)
        first = size <= SMALL and self._copied + size <= COPIED_FIRST
        if private and self._mounting:
            self._copied += self._copy(at, entry, max(size, SMALL))
        elif self._mounting and not private and not first and len(self.mounted) < MAX_MOUNTS:
            self._put(at, lambda staged: os.link(self._mirror._empty, staged))
            self._mirror._known[path] = (entry.status.st_dev, entry.status.st_ino)
            self.mounted.append(Mount(entry.source, f"{DATA}/{path}"))
        else:
            self._copied += self._copy(at, entry, MAX_COPIED - self._copied)

    def _link(self, at: Path, source: Path, there: os.stat_result | None) -> bool:
        """Make a hard link to a file, without following a symbolic one; returns whether it could be made."""
        folder = self._open(source.parent)

        def link(to: Path) -> None:
            os.link(source.name, to, src_dir_fd=folder, follow_symlinks=False)
            made = to.lstat()
            if not stat.S_ISREG(made.st_mode):
                to.unlink()
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(to))

        try:
            link(at) if there is None else self._put(at, link)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in FULL:
                raise
            return False  # it is somebody else's file, or one that may have no links
        return True

    def _copy(self, at: Path, entry: DataEntry, most: int) -> int:
        """Copy a file of at most `most` bytes; returns its size. If it has more, the target stays as it is."""
        assert entry.source is not None  # noqa: S101 - files are somebody's
        source = os.open(entry.source.name, READ, dir_fd=self._open(entry.source.parent))
        copied = 0

        def copy(to: Path) -> None:
            nonlocal copied
            target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                status = os.fstat(source)
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(to))
                copied = _copy_bytes(source, target, most)
                os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fchmod(target, entry.mode)
            finally:
                os.close(target)

        try:
            self._put(at, copy)
        finally:
            os.close(source)
        return copied

    def _open(self, folder: Path) -> int:
        """Open a folder of the person's; it stays open for further files in it."""
        if self._source is None or self._source[0] != folder:
            self._folders.close()
            self._source = None
            self._source = (folder, self._folders.enter_context(tree.opened_folder(folder)))
        return self._source[1]

    def _put(self, at: Path, make: Callable[[Path], None]) -> None:
        """Make a file or link beside the mirror and move it to its place, so that it is there whole or not at all."""
        staged = self._mirror._staged
        staged.unlink(missing_ok=True)
        try:
            make(staged)
            staged.rename(at)
        finally:
            staged.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _is_private(entry: DataEntry) -> bool:
    """Whether the sandbox's user can read the file only as a copy."""
    return entry.opened and entry.status is not None and not entry.status.st_mode & stat.S_IROTH


def _is_copy(there: os.stat_result, entry: DataEntry) -> bool:
    """Whether a file in the mirror is a copy of the person's file as it is now."""
    assert entry.status is not None  # noqa: S101 - files are somebody's
    known = (there.st_size, there.st_mtime_ns, stat.S_IMODE(there.st_mode))
    return known == (entry.status.st_size, entry.status.st_mtime_ns, entry.mode)


def _existing_folder(folder: Path) -> Path:
    """The folder, or the nearest folder above it that exists."""
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _link_device(folder: Path) -> int:
    """The device whose files can be linked into a folder; -1 if there is none.

    On an overlay, as in a container, Linux would copy the whole file first.
    """
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError, ValueError), Path("/proc/self/mountinfo").open("rb") as mounts:
        for line in mounts:
            words = line.split()
            if words[2].decode() == number and words[words.index(b"-") + 1] == b"overlay":
                return -1
    return device


def _copy_bytes(source: int, target: int, most: int) -> int:
    """Copy to the end, by sharing blocks where the file system can."""
    total = 0
    with contextlib.suppress(OSError):  # between two file systems, or not on this one
        while total <= most and (done := os.copy_file_range(source, target, CHUNK_BYTES)):
            total += done
    # The rest, or all of it; some file systems also just say that there is nothing.
    while total <= most and (data := os.read(source, CHUNK_BYTES)):
        total += len(data)
        while data:
            data = data[os.write(target, data) :]
    if total > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return total
