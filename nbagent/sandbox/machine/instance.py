"""What an engine adds to a sandbox that runs on this machine: its processes. All else is `MachineSandbox`'s."""

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
    from nbagent.packages.installer import Target
    from nbagent.sandbox.contract import Control
    from nbagent.sandbox.data.mounts import Mount
    from nbagent.sandbox.leases.lease import Lease
    from nbagent.sandbox.spec import SandboxSpec

ONE_USER = dict.fromkeys(
    ("shrink_pipes_of_the_neighbour", "block_files_of_the_neighbour"),
    "all sandboxes of one person run as one user, by whom Linux counts these",
)
"""Probes of the self-check that succeed where sandboxes share a user, as they do unless root starts them."""


@dataclass(frozen=True, kw_only=True)
class InstancePlan:
    """What an instance is started from.

    Attributes:
        spec: What the sandbox is to be.
        lease: Its lease; what must be known to end it, should this process die, goes into the lease's parts.
        shared: The folder that it sees read-only at /run/nbagent.
        scratch: Its folder on disk.
        mounts: The data that it sees, all read-only.
        uid: The user that code runs as, on the host.
        gid: The group.
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
    """How an instance ended, as far as its engine knows; process 1 may have said more.

    Attributes:
        status: As a shell tells it, 128 and more for a signal; negative for a signal to the process that tells it.
        killed: Whether Linux has killed something of it for its memory.
    """

    status: int
    killed: bool = False


class Instance(abc.ABC):
    """The processes of one sandbox, and of those that replace it over restarts. `MachineSandbox` calls all of it.

    Attributes:
        mirrors: Whether code sees data at `/tmp/data`, as a mirror of it, and not where it lies.
    """

    mirrors: ClassVar[bool] = True

    @abc.abstractmethod
    def controls(self, spec: SandboxSpec) -> Sequence[Control]:
        """What is enforced here of what such a sandbox needs; may block.

        Raises:
            EngineUnavailable: No sandbox can be started at all.
            UsageError: The engine is not for such a one.
        """

    @abc.abstractmethod
    async def start(self, plan: InstancePlan) -> None:
        """Start process 1 of the sandbox, `inside.py`, which finds its way from `plan.shared`.

        Raises:
            SandboxError: It could not be started.
        """

    @abc.abstractmethod
    async def take_over(self, plan: InstancePlan) -> None:
        """Go on with a sandbox that another process started, by the parts of its lease.

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
        """End what runs, and remove what the engine has of it. May be called again."""

    @property
    @abc.abstractmethod
    def environment(self) -> str:
        """What the kernel is made of: the digest of its image or environment."""

    @abc.abstractmethod
    def target(self) -> Target:
        """What packages must fit to be importable inside; see `Sandbox.target`."""

    def inside(self, plan: InstancePlan) -> dict[str, Any]:  # noqa: ARG002 - for engines that need it
        """What `inside.py` is told in place of what it is told by default; called before `start`."""
        return {}

    def users(self) -> range | None:
        """The users of whom one may be the sandbox's own if root starts it; None if it runs as whoever starts it."""
        return users.mapped()

    def user(self, own: int | None) -> tuple[int, int]:
        """The user and the group that code runs as, on the host.

        Args:
            own: The user that is the sandbox's own, if it has one; the group has the same number then.
        """
        return own or os.getuid(), own or os.getgid()

    def folders(self, scratch: Path) -> tuple[str, str]:  # noqa: ARG002 - for engines that isolate nothing
        """Where code leaves its results and where it works, as it sees it."""
        return OUTPUT, WORKSPACE

    def usage(self) -> cgroup.Usage | None:
        """What the sandbox uses, or None where this engine can't tell. Cheap, like `poll`."""
        return None

    async def tail(self) -> str:
        """The end of what it printed, where that doesn't come by the hand-over."""
        return ""

    def forget(self) -> None:
        """Drop what this process has of a sandbox that goes on without it."""
        return None
