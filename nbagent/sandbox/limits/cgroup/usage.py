"""What Linux counts for a control group, whoever made it, and where groups are."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
TCP = "memory.kmem.tcp.limit_in_bytes"
TCP_SHARE = 8
"""Where TCP's buffers are counted apart, they may take this part of the memory limit, besides it."""
WEIGHTS = {1: ("cpu.shares", (1024, 64)), 2: ("cpu.weight", (100, 6))}
"""By version: the file of a group's weight among its siblings, what Linux gives it, and what one has that gives way."""
COUNTS = {1: ("memory.oom_control", "memory.max_usage_in_bytes"), 2: ("memory.events", "memory.peak")}
"""By version: the files of how many processes were killed for their memory, and of the most that was in use."""


def is_unified() -> bool:
    """Whether all of this machine's control groups are of version 2, one tree."""
    return (ROOT / "cgroup.controllers").exists()


def can_bound_connections() -> bool:
    """Whether `Usage.bound_connections` works here for groups that others make, or isn't needed."""
    memory = ROOT / "memory"
    return not memory.is_dir() or os.access(memory / TCP, os.W_OK)


def groups_of(process: str) -> dict[str, str]:
    """The path of a process's group by controller; by an empty name in version 2."""
    own = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path
    return own


def words(path: Path) -> list[str]:
    """What a file of Linux's lists; nothing if it can't be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


class Usage:
    """What a sandbox has used, and its weight among others, by the groups that bound it.

    Args:
        version: Of control groups, 1 or 2.
        folder: The group's, for memory.
        cpu: The group's, for CPU, where it is known.
        left: Where what was counted is written down before the group goes, under the files' own names.
    """

    def __init__(self, version: int, folder: Path, *, cpu: Path | None = None, left: Path | None = None) -> None:
        self._version = version
        self._folder = folder
        self._cpu = cpu
        self._left = left
        self._last: dict[str, str] = {}

    @classmethod
    def of(cls, pid: int) -> Usage | None:
        """Of the group that a process is in, or None where it can't be seen from here."""
        groups = groups_of(str(pid))
        for version, controller in ((1, "memory"), (2, "")):
            base = ROOT / controller
            path = groups.get(controller)
            if path and path != "/" and (base / path.lstrip("/")).is_dir():
                name = "cpu" if version == 1 else ""
                own = groups.get(name, "/").lstrip("/")
                return cls(version, base / path.lstrip("/"), cpu=ROOT / name / own if own else None)
        return None

    def give_way(self, yes: bool) -> None:
        """Let other sandboxes come before this one when cores are short, or no longer; where that can't be, nothing."""
        if self._cpu is not None:
            name, weights = WEIGHTS[self._version]
            with contextlib.suppress(OSError):
                (self._cpu / name).write_text(str(weights[yes]))

    def bound_connections(self, *, memory: int) -> None:
        """Bound what waits in TCP connections, where Linux counts that apart from all other memory: version 1.

        Args:
            memory: The limit on that, in bytes.
        """
        if self._version == 1:
            with contextlib.suppress(OSError):
                (self._folder / TCP).write_text(str(memory // TCP_SHARE))

    def memory_peak(self) -> int | None:
        """The most memory that was in use at once, in bytes, or None where Linux doesn't tell."""
        try:
            return int(self._read(COUNTS[self._version][1]))
        except ValueError:
            return None

    def oom_kills(self) -> int:
        """How many processes of the group were killed because it was out of memory."""
        with contextlib.suppress(ValueError):
            for line in self._read(COUNTS[self._version][0]).splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
        return 0

    def remember(self) -> None:
        """Look once more, before the group is taken down."""
        if self._left is not None:
            for name in COUNTS[self._version]:
                self._read(name)

    def _read(self, name: str) -> str:
        """Read a file of the control group; once the group is gone, its last known content, or an empty text."""
        with contextlib.suppress(OSError):
            self._last[name] = (self._folder / name).read_text()
            return self._last[name]
        if self._left is None:
            return ""
        with contextlib.suppress(OSError):
            return (self._left / name).read_text()
        return self._last.get(name, "")
