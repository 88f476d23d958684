"""Control groups: the bounds on memory, CPU and processes for engines that don't bring their own.

Works where this process may make groups: as root, or below a group that was delegated to it, with version 1 (one tree a
controller) and version 2 (one tree). Where it may not, `find` says so, and the engine decides what that means.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from nbagent.policy import MIB, Limits

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "cpu", "pids")
PROBE = "probe-"
"""How the names of groups begin that are made to see whether that works."""
PERIOD = 100_000
"""Microseconds over which the CPU quota is counted, the kernel's own default."""
TCP = "memory.kmem.tcp.limit_in_bytes"
TCP_SHARE = 8
"""Where TCP's buffers are counted apart, they may take this part of the memory limit, besides it."""
WEIGHTS = {1: ("cpu.shares", (1024, 64)), 2: ("cpu.weight", (100, 6))}
"""By version: the file of a group's weight among its siblings, what Linux gives it, and what one has that gives way."""


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made here: a folder for each controller, all the same one in version 2."""

    version: int
    folders: dict[str, Path]

    def groups(self) -> dict[str, float]:
        """The names of the groups here, each with when it was made, in seconds since the epoch."""
        found: dict[str, float] = {}
        for folder in set(self.folders.values()):
            with contextlib.suppress(OSError):
                found |= {each.name: each.stat().st_mtime for each in folder.iterdir() if each.is_dir()}
        return found


def find() -> Hierarchy | None:
    """The place where this process can bound all of memory, CPU and processes, or None."""
    unified = (ROOT / "cgroup.controllers").exists()
    version = 2 if unified else 1
    own = _groups_of("self")
    folders = {}
    for controller in CONTROLLERS:
        base = ROOT if unified else ROOT / controller
        path = own.get("" if unified else controller, "/")
        # In a container the own group may lie outside of what is mounted here; then the mount's root is it.
        parent = base / path.lstrip("/")
        parent = parent if parent.is_dir() else base
        if unified and controller not in _words(parent / "cgroup.subtree_control"):
            parent = base
        folders[controller] = parent / "nbagent"
    with contextlib.suppress(OSError):
        for controller, folder in folders.items():
            folder.mkdir(exist_ok=True)
            if unified and controller not in _words(folder / "cgroup.subtree_control"):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            # Threads look at the same time when a client starts its kernels in threads.
            probe = folder / f"{PROBE}{os.getpid()}-{threading.get_ident()}"
            probe.mkdir(exist_ok=True)
            usable = (probe / _limit_file(version, controller)).exists()
            probe.rmdir()
            if not usable:
                return None
        return Hierarchy(version, folders)
    return None


def can_bound_connections() -> bool:
    """Whether `Usage.bound_connections` works here for groups that others make, or isn't needed."""
    memory = ROOT / "memory"
    return not memory.is_dir() or os.access(memory / TCP, os.W_OK)


def _groups_of(process: str) -> dict[str, str]:
    """The path of a process's group by controller; by an empty name in version 2."""
    own = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                own[controller] = path
    return own


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _limit_file(version: int, controller: str) -> str:
    if version == 2:
        return {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"}[controller]
    return {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "pids": "pids.max"}[controller]


class Usage:
    """What a sandbox has used, and its weight among others, by the groups that bound it.

    Args:
        version: Of control groups, 1 or 2.
        folder: The group's, for memory.
        cpu: The group's, for CPU, where it is known.
    """

    def __init__(self, version: int, folder: Path, *, cpu: Path | None = None) -> None:
        self._version = version
        self._folder = folder
        self._cpu = cpu

    @classmethod
    def of(cls, pid: int) -> Usage | None:
        """Of the group that a process is in, or None where it can't be seen from here."""
        groups = _groups_of(str(pid))
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
        name = "memory.peak" if self._version == 2 else "memory.max_usage_in_bytes"
        try:
            return int((self._folder / name).read_text())
        except (OSError, ValueError):
            return None

    def oom_kills(self) -> int:
        """How many processes of the group were killed because it was out of memory."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        with contextlib.suppress(OSError, ValueError):
            for line in (self._folder / name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
        return 0


class Group:
    """One sandbox's group. Processes join by writing 0 to each of `join_files`; their children are in it too."""

    def __init__(self, hierarchy: Hierarchy, name: str, limits: Limits | None) -> None:
        """Make the group with these limits, or, without any, take the one that is there."""
        self._version = hierarchy.version
        self._folders = {controller: folder / name for controller, folder in hierarchy.folders.items()}
        self.usage = Usage(hierarchy.version, self._folders["memory"], cpu=self._folders["cpu"])
        if limits is not None:
            try:
                self._set(limits)
            except OSError:
                self.remove()
                raise

    def _set(self, limits: Limits) -> None:
        for folder in set(self._folders.values()):
            folder.mkdir(exist_ok=True)
        memory = self._folders["memory"]
        size = str(limits.memory_mb * MIB)
        cpus = limits.cpus or float(os.cpu_count() or 1)
        if self._version == 2:
            (memory / "memory.max").write_text(size)
            self._try(memory / "memory.swap.max", "0")
            # A sandbox dies as a whole or not at all only if one asks for it; a child alone may be killed.
            (self._folders["cpu"] / "cpu.max").write_text(f"{int(cpus * PERIOD)} {PERIOD}")
        else:
            (memory / "memory.limit_in_bytes").write_text(size)
            self._try(memory / "memory.memsw.limit_in_bytes", size)
            self.usage.bound_connections(memory=limits.memory_mb * MIB)
            (self._folders["cpu"] / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self._folders["cpu"] / "cpu.cfs_quota_us").write_text(str(int(cpus * PERIOD)))
        (self._folders["pids"] / "pids.max").write_text(str(limits.pids))

    @staticmethod
    def _try(path: Path, value: str) -> None:
        with contextlib.suppress(OSError):
            path.write_text(value)

    @property
    def join_files(self) -> list[str]:
        """The files to which a process writes 0 to be bound by this group."""
        return sorted({str(folder / "cgroup.procs") for folder in self._folders.values()})

    def is_empty(self) -> bool:
        """Whether no process is in it."""
        return not any(_words(Path(file)) for file in self.join_files)

    def kill(self) -> None:
        """Kill all processes that are in it."""
        for file in self.join_files:
            with contextlib.suppress(OSError):
                for pid in Path(file).read_text().split():
                    os.kill(int(pid), 9)

    def remove(self) -> bool:
        """Kill what is left in the group and delete it; returns whether it is gone."""
        for _ in range(50):
            self.kill()
            if all(self._rmdir(folder) for folder in set(self._folders.values())):
                return True
            time.sleep(0.02)
        return False

    @staticmethod
    def _rmdir(folder: Path) -> bool:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True
