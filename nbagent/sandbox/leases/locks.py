"""Locks of folders, for a process and not for what it forks: Linux lets go of them however the process ends."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import IO

_LOCKED: set[IO[bytes]] = set()
"""What this process has locked, or is looking at."""
_NO_FORK = threading.RLock()
"""No fork comes between the taking of a lock and its being known here."""


def lock(folder: Path) -> IO[bytes]:
    """Lock a folder for this process, until `unlock`, by the file `lock` in it.

    Raises:
        BlockingIOError: Another holds it, this very process included.
        OSError: It isn't there.
    """
    with _NO_FORK:
        file = (folder / "lock").open("rb+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            file.close()
            raise
        _LOCKED.add(file)
    return file


def unlock(file: IO[bytes]) -> None:
    """Let go of a lock; nothing happens if that was done."""
    with _NO_FORK:
        _LOCKED.discard(file)
        file.close()


def _unlock_in_child() -> None:
    # A fork shares the locks of its parent, and would keep them after the parent's death.
    _NO_FORK.release()
    for file in list(_LOCKED):
        unlock(file)


os.register_at_fork(before=_NO_FORK.acquire, after_in_parent=_NO_FORK.release, after_in_child=_unlock_in_child)
