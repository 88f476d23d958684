"""What Linux counts for a control group, whoever made the group, and where groups are."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
TCP = "memory.kmem.tcp.limit_in_bytes"
TCP_SHARE = 8
"""If Linux counts TCP's buffers apart, they may take one part in so many of the memory limit, beside it."""
WEIGHTS = {1: ("cpu.shares", (1024, 64)), 2: ("cpu.weight", (100, 6))}
"""By version: the file of a group's weight among its siblings, the usual weight, and that of a group that gives way."""
COUNTS = {1: ("memory.oom_control", "memory.max_usage_in_bytes"), 2: ("memory.events", "memory.peak")}
"""By version: the files of how many processes were killed for their memory, and of the peak of memory."""


def is_unified() -> bool:
    """Whether all control groups of this machine are of version 2."""
    return (ROOT / "cgroup.controllers").exists()


def can_bound_connections() -> bool:
    """Whether `GroupUsage.bound_connections` works for groups that others make, or is not needed here."""
    memory = ROOT / "memory"
    return not memory.is_dir() or os.access(memory / TCP, os.W_OK)


def groups_of(process: str) -> dict[str, str]:
    """The path of a process's group for each controller; in version 2 the name of the controller is empty."""
    own = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path
    return own


def words(path: Path) -> list[str]:
    """The words in a file of Linux's; none if it can't be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


class GroupUsage:
    """What a sandbox has used, and its weight among others, by its control groups.

    Args:
        version: The version of control groups, 1 or 2.
        folder: The folder of the group that counts memory.
        cpu: The folder of the group that counts CPU, if known.
        left: A folder to which the counts are written before the group disappears, in files of the same names.
    """

    def __init__(self, version: int, folder: Path, *, cpu: Path | None = None, left: Path | None = None) -> None:
        self._version = version
        self._folder = folder
        self._cpu = cpu
        self._left = left
        self._last: dict[str, str] = {}

    @classmethod
    def of(cls, pid: int) -> GroupUsage | None:
        """The usage of the group that a process is in; None if the group can't be seen from here."""
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
        """Let other sandboxes go first when cores are short, or no longer; nothing happens where that is impossible."""
        if self._cpu is not None:
            name, weights = WEIGHTS[self._version]
            with contextlib.suppress(OSError):
                (self._cpu / name).write_text(str(weights[yes]))

    def bound_connections(self, *, memory: int) -> None:
        """Limit what waits in TCP connections, which version 1 counts apart from all other memory."""
        if self._version == 1:
            with contextlib.suppress(OSError):
                (self._folder / TCP).write_text(str(memory // TCP_SHARE))

    def memory_peak(self) -> int | None:
        """The peak of memory, in bytes; None if Linux doesn't tell."""
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
        """Read the counts once more, before the group is removed."""
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
