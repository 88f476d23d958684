"""What of the host's files a sandbox sees, always read-only."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbagent import store
from nbagent.errors import DataError

DATA = "/tmp/data"  # noqa: S108 - a path inside the sandbox
PRIVATE = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/etc", "/boot")))
"""Folders of the system's own, in which no notebook lies."""
MAX_MOUNTS = 2000


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
    if uid == os.getuid():
        return tuple(mounts)
    found = []
    for mount in mounts:
        for each in _readable(mount, scratch):
            found.append(each)
            if len(found) > 2 * MAX_MOUNTS:
                raise DataError(
                    f"The sandbox's own user may not read the folder {mount.source}.",
                    mend=f"Allow it with: chmod -R o+rX {mount.source}",
                )
    return tuple(found)


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
