"""Groups that this process makes: one tree a controller in version 1, one for all of them in version 2.

Version 2 has a rule that version 1 lacks: a group that gives controllers to its children may have no process of its
own. So where a group was delegated to us, our own processes first move into a leaf of it, beside the sandboxes:

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
from nbagent.sandbox.limits.cgroup.groups import CONTROLLERS, PERIOD, PROBE, Group, Groups, children, cores
from nbagent.sandbox.limits.cgroup.usage import Usage, groups_of, is_unified, words

OURS = "nbagent"
LEAF = "nbagent-own"
DELEGATED = ("user.delegate", "trusted.delegate")
"""What systemd marks a group with that it delegates; the second only root can read."""
JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@"'
FILES = {
    1: {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us", "pids": "pids.max"},
    2: {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"},
}
"""By version: the files of the limits."""


@dataclass(frozen=True)
class OwnGroups(Groups):
    """Where this process can make groups: a folder for each controller, all the same one in version 2."""

    version: int
    folders: dict[str, Path]
    bounded: frozenset[str] = frozenset(CONTROLLERS)

    @property
    def how(self) -> str:
        """The version."""
        return f"cgroup v{self.version}"

    def make(self, folder: Path, limits: Limits) -> OwnGroup:
        """Make the group with these limits."""
        group = self.take(folder)
        try:
            group.bound(limits)
        except OSError as error:
            group.remove()
            raise SandboxError(f"The limits can't be set: {error}.", mend=_mend(error, limits)) from error
        return group

    def take(self, folder: Path) -> OwnGroup:
        """The group of that name."""
        return OwnGroup(self.version, {name: each / folder.name for name, each in self.folders.items()})

    def made(self) -> dict[str, float]:
        """The groups of sandboxes."""
        found: dict[str, float] = {}
        for folder in set(self.folders.values()):
            found |= children(folder)
        return found


def _mend(error: OSError, limits: Limits) -> str:
    if error.errno == errno.EINVAL and "cpu" in str(error.filename):
        return f"A group around this process may have less than {cores(limits):g} cores; ask for less with cpu_limit."
    return ""


def find() -> OwnGroups | None:
    """The place where this process can bound all of memory, CPU and processes, or None."""
    if not is_unified():
        return _usable(1, {name: _own(name) / OURS for name in CONTROLLERS})
    own = _own("")
    if own.name == LEAF:
        own = own.parent
    for parent in dict.fromkeys((own, counts.ROOT)):
        with contextlib.suppress(OSError):
            if _gives(parent) and (found := _usable(2, dict.fromkeys(CONTROLLERS, parent / OURS))):
                return found
    return None


def _own(controller: str) -> Path:
    """The group that this process is in."""
    base = counts.ROOT / controller
    own = base / groups_of("self").get(controller, "/").lstrip("/")
    # In a container the own group may lie outside of what is mounted here; then the mount's root is it.
    return own if own.is_dir() else base


def _gives(parent: Path) -> bool:
    """Whether a group of version 2 gives its children all controllers, now that it was asked to where it is ours.

    Raises:
        OSError: It may not be asked to.
    """
    given = parent / "cgroup.subtree_control"
    wanted = set(CONTROLLERS)
    if wanted <= set(words(given)):
        return True
    if not wanted <= set(words(parent / "cgroup.controllers")):
        return False
    # The root of the whole machine is the one group that may have both processes and children with controllers.
    if (parent / "cgroup.type").exists() and not _empty(parent):
        return False
    given.write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    return wanted <= set(words(given))


def _empty(group: Path) -> bool:
    """Move our own processes into a leaf, if the group was delegated and there are no others; returns whether it was.

    Raises:
        OSError: They can't be moved.
    """
    if not _is_delegated(group):
        return False
    for _ in range(20):
        inside = words(group / "cgroup.procs")
        if not inside:
            return True
        # Of a process in an outer namespace, Linux tells 0.
        if not all(_is_ours(int(pid)) for pid in inside):
            return False
        (group / LEAF).mkdir(exist_ok=True)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                (group / LEAF / "cgroup.procs").write_text(pid)
    return False


def _is_delegated(group: Path) -> bool:
    """Whether whoever made a group leaves what is in it to us: systemd says so, and a container has its own root."""
    if group == counts.ROOT:
        return os.access(group / "cgroup.procs", os.W_OK)
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _is_ours(pid: int) -> bool:
    """Whether a process is this one, or was started by it."""
    while pid > 0:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def _usable(version: int, folders: dict[str, Path]) -> OwnGroups | None:
    """The folders as a tree, if groups with limits can be made in each."""
    with contextlib.suppress(OSError):
        for controller, folder in folders.items():
            folder.mkdir(exist_ok=True)
            if version == 2 and controller not in words(folder / "cgroup.subtree_control"):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            # Threads look at the same time when a client starts its kernels in threads.
            probe = folder / f"{PROBE}{os.getpid()}-{threading.get_ident()}"
            probe.mkdir(exist_ok=True)
            usable = (probe / FILES[version][controller]).exists()
            probe.rmdir()
            if not usable:
                return None
        return OwnGroups(version, folders)
    return None


class OwnGroup(Group):
    """A group that this process makes, which a command joins before it becomes what it is to be."""

    def __init__(self, version: int, folders: dict[str, Path]) -> None:
        self._version = version
        self._folders = folders
        self.usage = Usage(version, folders["memory"], cpu=folders["cpu"])
        self._joins = sorted({str(folder / "cgroup.procs") for folder in folders.values()})
        self.prefix = ["/bin/sh", "-c", JOIN, "sh", *self._joins, "--"]

    def bound(self, limits: Limits) -> None:
        """Make it, and set its limits.

        Raises:
            OSError: Linux refuses one.
        """
        for folder in set(self._folders.values()):
            folder.mkdir(exist_ok=True)
        memory = self._folders["memory"]
        size = str(limits.memory_mb * MIB)
        # A sandbox dies as a whole or not at all only if one asks for it; a child alone may be killed.
        _write(memory / FILES[self._version]["memory"], size)
        self._try(memory / {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}[self._version], {1: size, 2: "0"})
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

    def _try(self, path: Path, by_version: dict[int, str]) -> None:
        with contextlib.suppress(OSError):
            path.write_text(by_version[self._version])

    def processes(self) -> list[int]:
        """The ids of what runs in it, by any of its controllers."""
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
    """Write to a file of Linux's, whose refusal doesn't name it."""
    try:
        file.write_text(value)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _share(folder: Path) -> float | None:
    """The cores that a group of version 1 has at most; None if that has no bound, or can't be seen."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError):
        return None
