"""Where a path was written down: on which machine, since which start of it, and in which mount namespace.

The path means the same only there. Machines may share a home folder, and containers a Docker daemon: what looks
abandoned from here may belong to a process that runs elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PathOrigin:
    """Where a path was written down.

    Attributes:
        machine: The machine's id, or its name where it has none.
        boot: The id of the machine's start.
        mounts: The mount namespace.
    """

    machine: str = ""
    boot: str = ""
    mounts: str = ""

    @classmethod
    def here(cls) -> PathOrigin:
        """The origin of what this process writes down."""
        return cls(_machine(), _boot(), _read_link(Path("/proc/self/ns/mnt")))

    @classmethod
    def parse(cls, text: str) -> PathOrigin:
        """The origin that `str` turned into this text; for any other text, one that matches no process."""
        words = text.split()
        return cls(*words) if len(words) == 3 else cls()

    def __str__(self) -> str:
        """In one line, for `parse`."""
        return f"{self.machine} {self.boot} {self.mounts}"

    @property
    def is_over(self) -> bool:
        """Whether this machine was started again since, so that nothing that ran then runs now."""
        return self.machine == _machine() and self.boot != _boot()

    def lacks(self, path: Path) -> bool:
        """Whether a path that was written down there is certainly gone; False if that can't be known from here."""
        return self.is_over or (self == PathOrigin.here() and not path.exists())


def note(path: Path, *, at: Path) -> None:
    """Write a path and its origin to a file."""
    at.write_text(f"{PathOrigin.here()}\n{path}")


def read_note(at: Path) -> Path | None:
    """The path that `note` wrote to a file; None without such a file."""
    try:
        path = at.read_text().partition("\n")[2]
    except OSError:
        return None
    return Path(path) if path else None


def is_gone(at: Path) -> bool | None:
    """Whether the path that `note` wrote to a file is certainly gone; None if the file isn't there."""
    try:
        where, _, path = at.read_text().partition("\n")
    except OSError:
        return None
    return bool(path) and PathOrigin.parse(where).lacks(Path(path))


@functools.cache
def _machine() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            if text := Path(path).read_text().strip():
                return text
    return os.uname().nodename or "unknown"


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return "unknown"
