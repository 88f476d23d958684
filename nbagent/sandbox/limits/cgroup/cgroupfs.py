"""Control groups that this process makes: in version 1 a tree for each controller, in version 2 one tree for all.

In version 2, a group that gives controllers to its children may have no process itself. So in a group that was
delegated to this process, its processes first move into a leaf beside the sandboxes:

    GROUP/                  delegated: a service with Delegate=yes, a container's root
          nbagent-own       this process, and what it started
          nbagent/kNAME     a sandbox
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from nbagent.core.errors import SandboxError
from nbagent.core.limits import Limits
from nbagent.core.policy import MIB
from nbagent.sandbox.limits.cgroup import usage as counts
from nbagent.sandbox.limits.cgroup.control_group import (
    CONTROLLERS,
    PERIOD,
    PROBE,
    ControlGroup,
    ControlGroups,
    children,
    cores,
)
from nbagent.sandbox.limits.cgroup.usage import GroupUsage, groups_of, is_unified, words

OURS = "nbagent"
LEAF = "nbagent-own"
DELEGATED = ("user.delegate", "trusted.delegate")
"""The marks of a group that systemd delegates; only root can read the second."""
JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@"'
FILES = {
    1: {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "pids": "pids.max"},
    2: {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"},
}
"""By version: the files of the limits."""


@dataclass(frozen=True)
class OwnGroups(ControlGroups):
    """The folders in which this process can make groups, one for each controller; in version 2 all are the same."""

    version: int
    folders: dict[str, Path]
    bounded: frozenset[str] = frozenset(CONTROLLERS)

    @property
    def how(self) -> str:
        return f"cgroup v{self.version}"

    def make(self, folder: Path, limits: Limits) -> OwnGroup:
        group = self.take(folder)
        try:
            group.bound(limits)
        except OSError as error:
            group.remove()
            raise SandboxError(f"The limits can't be set: {error}.", mend=_mend(error, limits)) from error
        return group

    def take(self, folder: Path) -> OwnGroup:
        return OwnGroup(self.version, {name: each / folder.name for name, each in self.folders.items()})

    def existing(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for folder in set(self.folders.values()):
            found |= children(folder)
        return found


def _mend(error: OSError, limits: Limits) -> str:
    if error.errno == errno.EINVAL and "cpu" in str(error.filename):
        return f"A group around this process may have less than {cores(limits):g} cores; ask for less with cpu_limit."
    return ""


def find() -> OwnGroups | None:
    """The folders in which this process can limit memory, CPU and processes; None if it can't limit all three."""
    if not is_unified():
        return _probe(1, {name: _current_group(name) / OURS for name in CONTROLLERS})
    own = _current_group("")
    if own.name == LEAF:
        own = own.parent
    for parent in dict.fromkeys((own, counts.ROOT)):
        with contextlib.suppress(OSError):
            if _enable_controllers(parent) and (found := _probe(2, dict.fromkeys(CONTROLLERS, parent / OURS))):
                return found
    return None


def _current_group(controller: str) -> Path:
    """The group that this process is in."""
    base = counts.ROOT / controller
    own = base / groups_of("self").get(controller, "/").lstrip("/")
    # In a container the group may lie outside of what is mounted here; then it is the mount's root.
    return own if own.is_dir() else base


def _enable_controllers(parent: Path) -> bool:
    """Have a group of version 2 give its children all controllers, if it is ours; returns whether it does."""
    given = parent / "cgroup.subtree_control"
    wanted = set(CONTROLLERS)
    if wanted <= set(words(given)):
        return True
    if not wanted <= set(words(parent / "cgroup.controllers")):
        return False
    # Only the root group of the whole machine may have both processes and children with controllers.
    if (parent / "cgroup.type").exists() and not _move_out(parent):
        return False
    given.write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    return wanted <= set(words(given))


def _move_out(group: Path) -> bool:
    """Move all processes of a group into a leaf, if it was delegated and all are ours; returns whether it is empty."""
    if not _is_delegated(group):
        return False
    for _ in range(20):
        inside = words(group / "cgroup.procs")
        if not inside:
            return True
        # For a process in an outer namespace, Linux tells 0.
        if not all(_is_ours(int(pid)) for pid in inside):
            return False
        (group / LEAF).mkdir(exist_ok=True)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                (group / LEAF / "cgroup.procs").write_text(pid)
    return False


def _is_delegated(group: Path) -> bool:
    """Whether a group was delegated to this process: systemd marks it, or it is the root group of a container."""
    if group == counts.ROOT:
        return os.access(group / "cgroup.procs", os.W_OK)
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _is_ours(pid: int) -> bool:
    """Whether a process is this one, or a descendant of it."""
    while pid > 0:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def _probe(version: int, folders: dict[str, Path]) -> OwnGroups | None:
    """These folders, if groups with limits can be made in each; else None."""
    with contextlib.suppress(OSError):
        for controller, folder in folders.items():
            folder.mkdir(exist_ok=True)
            if version == 2 and controller not in words(folder / "cgroup.subtree_control"):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            # A client may start kernels in several threads, which look at the same time.
            probe = folder / f"{PROBE}{os.getpid()}-{threading.get_ident()}"
            probe.mkdir(exist_ok=True)
            usable = (probe / FILES[version][controller]).exists()
            probe.rmdir()
            if not usable:
                return None
        return OwnGroups(version, folders)
    return None


class OwnGroup(ControlGroup):
    """A group that this process makes; a shell joins it and then becomes the command."""

    def __init__(self, version: int, folders: dict[str, Path]) -> None:
        self._version = version
        self._folders = folders
        self.usage = GroupUsage(version, folders["memory"], cpu=folders["cpu"])
        self._joins = sorted({str(folder / "cgroup.procs") for folder in folders.values()})
        self.prefix = ["/bin/sh", "-c", JOIN, "sh", *self._joins, "--"]

    def bound(self, limits: Limits) -> None:
        """Make the control group, and set its limits.

        Raises:
            OSError: Linux refuses one.
        """
        for folder in set(self._folders.values()):
            folder.mkdir(exist_ok=True)
        memory = self._folders["memory"]
        size = str(limits.memory_mb * MIB)
        # Linux may kill one child alone: that a group dies as a whole would have to be asked for.
        _write(memory / FILES[self._version]["memory"], size)
        name, most = {1: ("memory.memsw.limit_in_bytes", size), 2: ("memory.swap.max", "0")}[self._version]
        with contextlib.suppress(OSError):  # this Linux may not limit swap
            (memory / name).write_text(most)
        if self._version == 1:
            self.usage.bound_connections(memory=limits.memory_mb * MIB)
        self._bound_cpu(self._folders["cpu"], cores(limits))
        _write(self._folders["pids"] / "pids.max", str(limits.pids))

    def _bound_cpu(self, folder: Path, wanted: float) -> None:
        if self._version == 2:
            _write(folder / "cpu.max", f"{int(wanted * PERIOD)} {PERIOD}")
            return
        # In version 1 a group may not be given more than the groups around it have.
        most = min([wanted, *(share for each in folder.parents if (share := _share(each)) is not None)])
        _write(folder / "cpu.cfs_period_us", str(PERIOD))
        _write(folder / "cpu.cfs_quota_us", str(int(most * PERIOD)))

    def processes(self) -> list[int]:
        return sorted({int(pid) for file in self._joins for pid in words(Path(file))})

    def _delete(self) -> bool:
        return all(self._rmdir(folder) for folder in set(self._folders.values()))

    @staticmethod
    def _rmdir(folder: Path) -> bool:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _write(file: Path, value: str) -> None:
    """Write to a file of Linux's; an error names the file, as that of Linux itself doesn't."""
    try:
        file.write_text(value)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _share(folder: Path) -> float | None:
    """How many cores a group of version 1 may use; None if that is unlimited or unknown."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError):
        return None
