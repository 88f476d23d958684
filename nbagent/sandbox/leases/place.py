"""Where something was written down: on which machine, since which start of it, and in which mount namespace.

A path means something there only. A home folder is shared by machines, a daemon by containers; what looks abandoned
from here may be somebody's who is well and elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where a path is what it was.

    Attributes:
        machine: The machine's id, or its name where it has none.
        boot: The id of its present start.
        mounts: The mount namespace.
    """

    machine: str = ""
    boot: str = ""
    mounts: str = ""

    @classmethod
    def here(cls) -> Place:
        """This process's."""
        return cls(_machine(), _boot(), _read_link(Path("/proc/self/ns/mnt")))

    @classmethod
    def parse(cls, text: str) -> Place:
        """What `str` made of one; a place that is nowhere if it isn't that."""
        words = text.split()
        return cls(*words) if len(words) == 3 else cls()

    def __str__(self) -> str:
        """In one line."""
        return f"{self.machine} {self.boot} {self.mounts}"

    @property
    def is_over(self) -> bool:
        """Whether this machine was started anew since, and nothing that ran then runs now."""
        return self.machine == _machine() and self.boot != _boot()

    def lacks(self, path: Path) -> bool:
        """Whether a path of that place is certainly gone; False if that can't be known from here."""
        return self.is_over or (self == Place.here() and not path.exists())


def note(path: Path, *, at: Path) -> None:
    """Write a path down in a file, together with this place."""
    at.write_text(f"{Place.here()}\n{path}")


def noted(at: Path) -> Path | None:
    """The path that is written down in a file; None if there is none."""
    try:
        path = at.read_text().partition("\n")[2]
    except OSError:
        return None
    return Path(path) if path else None


def is_gone(at: Path) -> bool | None:
    """Whether the path that is written down in a file is certainly gone; None if the file isn't there."""
    try:
        where, _, path = at.read_text().partition("\n")
    except OSError:
        return None
    return bool(path) and Place.parse(where).lacks(Path(path))


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
