"""What of the host's files a sandbox sees, always read-only."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from nbagent import needs, store
from nbagent.errors import DataError

DATA = "/tmp/data"  # noqa: S108 - a path inside the sandbox
PRIVATE = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/etc", "/boot")))
"""Folders of the system's own, in which no notebook lies."""
MAX_MOUNTS = 2000
MAX_LOOKED = 100_000
"""Names in a data folder that are looked at for sockets and pipes, or a few more: a third of a second."""

KNOWN_FAILURES = {
    "see_paths_in_mounts": "Linux tells where each mount comes from: names of folders, nothing of what is in them",
    "lock_data": "what is mounted is the file itself, so its locks are shared; give a copy of what a program locks",
    "connect_to_a_later_socket_in_data": (
        "sockets are hidden that are in the data at the start; don't give folders in which programs make sockets"
    ),
}
"""Probes of the self-check that no engine withstands which mounts the host's files."""


@dataclass(frozen=True)
class Mount:
    """Something of the host's that the sandbox sees read-only.

    Attributes:
        source: A file or folder on the host, absolute, links resolved.
        target: Where the sandbox sees it, absolute.
    """

    source: Path
    target: str


def for_client(folder: Path) -> list[Mount]:
    """What a kernel sees that another client starts for a folder.

    That is the folder, without what is hidden at its top (`.env`, `.git`, `.ssh`), and the data that notebooks need
    which nbagent exported to it. Of a folder that is private altogether (the home folder and those above it, hidden
    folders below it, the system's own) it sees only that data.
    """
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent import settings

    known = store.recall_exports(store.state_root(settings.load().state_dir), folder)
    exported = {path: Path(source) for path, source in known.items() if Path(source).exists()}
    exported = needs.packaged_for(folder) | exported
    if _is_private(folder):
        return [Mount(source, path) for path, source in exported.items()]
    elsewhere = {path: source for path, source in exported.items() if source != _place(folder, path)}
    entries = sorted(folder.iterdir())
    shown = [entry for entry in entries if not entry.name.startswith(".") and entry.exists()]
    if len(shown) == len(entries) and not elsewhere:
        return [Mount(folder, DATA)]
    # One by one: nothing can be left out of, or put into, a folder that is mounted as a whole.
    beside = {f"{DATA}/{entry.name}": entry for entry in shown[:MAX_MOUNTS]}
    return [Mount(source, path) for path, source in (beside | elsewhere).items()]


def _place(folder: Path, path: str) -> Path:
    """Where a file lies on the host, if the sandbox sees it as part of the folder."""
    return folder / path.removeprefix(DATA).lstrip("/")


def _is_private(folder: Path) -> bool:
    home = Path.home().resolve()
    if folder in (home, *home.parents):
        return True
    if folder.is_relative_to(home):
        return any(part.startswith(".") for part in folder.relative_to(home).parts)
    return any(folder.is_relative_to(each) for each in PRIVATE)


def readable(mounts: Sequence[Mount], *, uid: int, scratch: Path) -> tuple[Mount, ...]:
    """The mounts, with a private copy in place of each file that the sandbox's user could not read.

    A root controller's sandbox runs as another user: a file of mode 0600 would be there and unreadable, and of a
    folder of mode 0700 nothing at all; its entries are mounted one by one.

    Args:
        mounts: What the sandbox is to see.
        uid: The user it runs as, on the host.
        scratch: A folder of the session's for the copies.

    Raises:
        DataError: Something isn't there any more, or there is too much that this user may not read.
    """
    for mount in mounts:
        if not mount.source.exists():
            raise DataError(f"The data at {mount.source} isn't there any more.")
    found = []
    for mount in mounts:
        for each in _readable(mount, scratch) if uid != os.getuid() else (mount,):
            found.append(each)
            if len(found) > 2 * MAX_MOUNTS:
                raise DataError(
                    f"The sandbox's own user may not read the folder {mount.source}.",
                    mend=f"Allow it with: chmod -R o+rX {mount.source}",
                )
    return (*found, *_hidden(found, scratch))


def _hidden(mounts: Sequence[Mount], scratch: Path) -> Iterator[Mount]:
    """An empty file in place of each socket and named pipe that lies in the data: read-only doesn't hold for them.

    Raises:
        DataError: There are too many of them, or it can't be found out.
    """
    empty = scratch / "hidden"
    hidden = 0
    for mount in mounts:
        for at in _special(mount.source):
            empty.touch(mode=0o444)
            yield Mount(empty, str(PurePosixPath(mount.target) / at.relative_to(mount.source)))
            hidden += 1
            if hidden > MAX_MOUNTS:
                raise DataError(f"There are too many sockets and pipes in {mount.source}.", mend="Give another folder.")


def _special(source: Path) -> Iterator[Path]:
    """What is neither a file nor a folder nor a link, at or below a path, among the first `MAX_LOOKED` names."""
    mode = source.lstat().st_mode
    if not stat.S_ISDIR(mode):
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            yield source
        return
    folders, looked = [str(source)], 0
    while folders and looked < MAX_LOOKED:
        # Whom a folder's mode keeps out here it keeps out inside.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                looked += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    yield Path(entry.path)


def _readable(mount: Mount, scratch: Path) -> Iterator[Mount]:
    mode = mount.source.stat().st_mode
    if mount.source.is_dir():
        if mode & stat.S_IROTH and mode & stat.S_IXOTH:
            yield mount
            return
        for entry in sorted(mount.source.iterdir()):
            if entry.exists() and (entry.is_file() or entry.is_dir()) and not entry.is_symlink():
                yield from _readable(Mount(entry, f"{mount.target}/{entry.name}"), scratch)
    elif mode & stat.S_IROTH:
        yield mount
    else:
        copy = Path(tempfile.mkdtemp(prefix="data-", dir=scratch)) / mount.source.name
        copy.parent.chmod(0o755)
        shutil.copyfile(mount.source, copy)
        copy.chmod(0o644)
        yield replace(mount, source=copy)
