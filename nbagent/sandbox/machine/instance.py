"""What an engine brings to a sandbox that runs on this machine: its processes. `MachineSandbox` has all else."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.sandbox.leases import users
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.paths import OUTPUT, WORKSPACE

if TYPE_CHECKING:
    from nbagent.packages.requirements import Target
    from nbagent.sandbox.contract import Control
    from nbagent.sandbox.data.mounts import Mount
    from nbagent.sandbox.leases.lease import Lease
    from nbagent.sandbox.spec import SandboxSpec

ONE_USER = dict.fromkeys(
    ("shrink_pipes_of_the_neighbour", "block_files_of_the_neighbour"),
    "all sandboxes of one person run as one user, by whom Linux counts these",
)
"""Probes of the self-check that succeed where sandboxes share a user id: everywhere, unless root starts them."""
CORE_SOCKET = {
    "leave_core_files": "since Linux 6.16, a core_pattern of the host's that begins with @ has Linux itself hand each "
    "crash to a socket, which no limit of a sandbox's changes; what crashes leaves its registers there, and no memory "
    "unless its code wants that"
}
"""The probe that succeeds where the host has Linux do so, with the reason."""


def known_on_machine(*, core_pattern: Path = Path("/proc/sys/kernel/core_pattern")) -> dict[str, str]:
    """Probes of the self-check that succeed on every engine of this machine, as it and this user are."""
    try:
        has_socket = core_pattern.read_text().startswith(("@/", "@@/"))
    except OSError:
        has_socket = False
    return ({} if os.getuid() == 0 else ONE_USER) | (CORE_SOCKET if has_socket else {})


@dataclass(frozen=True, kw_only=True)
class InstancePlan:
    """What an instance is started from.

    Attributes:
        spec: What the sandbox is to be.
        lease: Its lease. The instance writes to the lease's parts what others must know to end it if this process dies.
        shared: The folder that it sees read-only at /run/nbagent.
        mounts: The data that it sees, all read-only.
        uid: The user that code runs as, on the host.
    """

    spec: SandboxSpec
    lease: Lease
    shared: Path
    scratch: Path
    mounts: tuple[Mount, ...]
    uid: int
    gid: int

    @property
    def site(self) -> Path:
        """The folder of installed packages, seen at /opt/site."""
        return self.scratch / "site"


@dataclass(frozen=True)
class ProcessEnd:
    """How an instance ended, as far as its engine knows.

    Attributes:
        status: As a shell has it, 128 and more for a signal; negative for a signal to the process that reports it.
        killed: Whether Linux killed a process of it for its memory.
    """

    status: int
    killed: bool = False


class Instance(abc.ABC):
    """The processes of one sandbox over its restarts; `MachineSandbox` calls all of it.

    Attributes:
        mirrors: Whether code sees a mirror of the data at /tmp/data; otherwise the data at its place on the host.
    """

    mirrors: ClassVar[bool] = True

    @abc.abstractmethod
    def controls(self, spec: SandboxSpec) -> Sequence[Control]:
        """Which restrictions are enforced here on such a sandbox; may block.

        Raises:
            EngineUnavailable: No sandbox can be started at all.
            UsageError: The engine doesn't run sandboxes with this spec.
        """

    @abc.abstractmethod
    async def start(self, plan: InstancePlan) -> None:
        """Start process 1 of the sandbox: `inside.py`, which lies in `plan.shared`.

        Raises:
            SandboxError: It could not be started.
        """

    @abc.abstractmethod
    async def take_over(self, plan: InstancePlan) -> None:
        """Take over a sandbox that another process started, by the parts of its lease.

        Raises:
            SandboxError: It has ended.
        """

    @abc.abstractmethod
    def poll(self) -> ProcessEnd | None:
        """None while process 1 runs, else how it ended. Cheap: called many times a second."""

    @abc.abstractmethod
    async def signal(self, signum: int) -> None:
        """Send a signal to the sandbox; after SIGKILL nothing of it runs."""

    @abc.abstractmethod
    async def clean(self) -> None:
        """Kill all that runs, and remove what the engine keeps for it. May be called again."""

    @property
    @abc.abstractmethod
    def environment(self) -> str:
        """The digest of the kernel's image or environment."""

    @abc.abstractmethod
    def target(self) -> Target:
        """What packages must fit to be importable inside; see `Sandbox.target`."""

    def inside(self, plan: InstancePlan) -> dict[str, Any]:  # noqa: ARG002 - for engines that need it
        """Changes to the configuration of `inside.py` (`userland.config_inside`); called before `start`."""
        return {}

    def users(self) -> range | None:
        """The range of user ids from which root takes one for the sandbox; None if it runs as whoever starts it."""
        return users.mapped()

    def user(self, own: int | None) -> tuple[int, int]:
        """The user and the group that code runs as on the host: those of the user that was reserved, if one was."""
        return own or os.getuid(), own or os.getgid()

    def folders(self, scratch: Path) -> tuple[str, str]:  # noqa: ARG002 - for engines that isolate nothing
        """The folders where code leaves its results, and where it works, as code sees them."""
        return OUTPUT, WORKSPACE

    def usage(self) -> cgroup.GroupUsage | None:
        """What the sandbox uses of memory and cores; None if unknown. Cheap, like `poll`."""
        return None

    async def tail(self) -> str:
        """The end of what it printed, if that doesn't go through the hand-over."""
        return ""

    def forget(self) -> None:
        """Drop the handles of a sandbox that goes on without this process."""
        return None
