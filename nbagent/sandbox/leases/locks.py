"""Locks of folders, held by a process and not by its forks; Linux releases them however the process ends."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import IO

_LOCKED: set[IO[bytes]] = set()
"""The files of the locks that this process holds."""
_NO_FORK = threading.RLock()
"""Held while a lock is taken, so that no fork comes before the lock stands in `_LOCKED`."""


def lock(folder: Path, *, patience: float = 0.0) -> IO[bytes]:
    """Lock a folder until `unlock`, by the file `lock` in it.

    Raises:
        BlockingIOError: It is locked, by this process or another one, and was for `patience` seconds.
        OSError: It isn't there.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return _lock(folder)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.001)


def _lock(folder: Path) -> IO[bytes]:
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
    """Release a lock; nothing happens if it was released."""
    with _NO_FORK:
        _LOCKED.discard(file)
        file.close()


def _unlock_in_child() -> None:
    # A fork shares the locks of its parent, and would keep them after the parent's death.
    _NO_FORK.release()
    for file in list(_LOCKED):
        unlock(file)


os.register_at_fork(before=_NO_FORK.acquire, after_in_parent=_NO_FORK.release, after_in_child=_unlock_in_child)
