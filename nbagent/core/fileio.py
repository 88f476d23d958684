"""Files that are written whole or not at all: beside their place first, and moved there when they are complete."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

PREFIX: Final = ".nbagent-"
"""How names of unfinished files begin, which no listing shows."""
PRIVATE: Final = 0o600
"""The mode of a file that is its owner's alone."""
_PAUSE: Final = 0.02


@contextlib.contextmanager
def staged(folder: Path, *, mode: int = PRIVATE) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file in a folder; whoever has written it moves it to its place, and otherwise it goes.

    Args:
        folder: Where it is to be in the end.
        mode: Who may read and write it; less what the process's umask takes away.

    Raises:
        OSError: It can't be made.
    """
    path = folder / f"{PREFIX}{os.urandom(8).hex()}"

    def create(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, mode)

    try:
        with open(path, "xb", opener=create) as file:
            yield file, path
    finally:
        path.unlink(missing_ok=True)


def write(path: Path, data: bytes, *, mode: int | None = None, sync: bool = False) -> None:
    """Write a file whole or not at all: the old one stays until the new one is complete.

    Args:
        path: In a folder that is there.
        data: What it is to hold.
        mode: Of the file; by default that of the one that is there, or what the umask leaves of 0666.
        sync: Whether it must outlast a loss of power.

    Raises:
        OSError: It can't be written; the old file is intact.
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


def lock(file: IO[bytes] | IO[str], *, patience: float = 0.0) -> None:
    """Lock an open file for this process alone, until it is closed.

    Args:
        file: It.
        patience: Seconds to wait for whoever has it locked.

    Raises:
        BlockingIOError: Somebody else still has it locked then.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
