"""The contract of an engine, and of the sandboxes that it makes. Nothing in here, nor above, knows which engine it is.

    registry ── asks ──▶ Engine ── makes ──▶ Sandbox ── tells ──▶ Endpoint ── opens ──▶ Channel
    machine/reaper                       ▲              (channels/endpoint.py)        ▲
                        kernel/process.py, provisioner.py               kernel/channels/connection.py

An engine is found by its name among the entry points `nbagent.engines`. One whose sandboxes run on this machine brings
an `Instance` and makes `MachineSandbox` of it (both in `machine/`), which has all the rest. One whose
kernels run elsewhere writes a `Sandbox` of its own.
"""

from __future__ import annotations

import abc
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.core.errors import SandboxError, UsageError
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.paths import OUTPUT, WORKSPACE

if TYPE_CHECKING:
    from nbagent.core.events import DataLeftOut
    from nbagent.egress.gate import AskPerson
    from nbagent.egress.listener import Egress
    from nbagent.egress.proxy import Observe
    from nbagent.packages.installer import Target
    from nbagent.sandbox.channels.endpoint import Endpoint
    from nbagent.sandbox.data.mounts import Mount
    from nbagent.sandbox.data.tree import LeftOut
    from nbagent.sandbox.exit import Exit
    from nbagent.sandbox.leases.lease import Lease, Terms
    from nbagent.sandbox.spec import SandboxSpec

LOGINS = Path("/run/user")
"""Where systemd makes runtime folders, and removes them at the end of a person's last login."""
CommandHook = Callable[[int, list[str]], object]
"""Gets the process and the words of a program that is executed inside; called on a thread of the sandbox's."""
InstallHook = Callable[[list[str]], list[dict[str, Any]]]
"""Called on a thread of the sandbox's, which waits: requirements in, what was installed out; raises InstallError."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """One thing that an engine does or doesn't enforce on this machine."""

    name: str
    enforced: bool
    how: str


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """What an engine can do here.

    Attributes:
        available: Whether it could start a sandbox now.
        reason: Why not, one sentence; empty if it can.
        mend: What the person can do about it.
        controls: What it enforces.
        environment: Digest of the image or kernel environment, if there is one.
        kernel: What the code's system calls meet in the end, in words: a wall beside all that is enforced, or none.
    """

    available: bool
    reason: str = ""
    mend: str = ""
    controls: tuple[Control, ...] = ()
    environment: str = ""
    kernel: str = "the host's kernel"


@dataclass(frozen=True)
class Stray:
    """A leftover of a sandbox whose process and folder are gone, such as a container.

    Attributes:
        kind: What it is, in a word or two: `container`.
        name: Its name.
        created: Seconds since the epoch.
        remove: Removes it; returns whether it did, and nobody else.
    """

    kind: str
    name: str
    created: float
    remove: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Who answers what a sandbox asks for, and hears what it tells. They are called on threads of the sandbox's.

    Attributes:
        install: Serves `%pip install`; None for an installer of the sandbox's own, by the policy of its spec.
        command: Gets each program that is executed inside, where that is looked at.
        left_out: Gets what of the data is not shown, when that changes.
        ask: Answers whether a host that isn't listed may be reached; None denies it.
        egress: Gets what the proxy decided, and the ends of connections.
        first_cell: Whether the first cell says what is not shown, since nobody else can.
    """

    install: InstallHook | None = None
    command: CommandHook | None = None
    left_out: Callable[[DataLeftOut], object] | None = None
    ask: AskPerson | None = None
    egress: Observe | None = None
    first_cell: bool = False


@dataclass(frozen=True, kw_only=True)
class About:
    """What a running sandbox is, for whoever describes it or names files in it.

    Attributes:
        name: Its name, in labels, control groups and folders.
        environment: Digest of what its kernel is made of: its image or environment.
        output_folder: Where code leaves its results, as it sees it.
        workspace_folder: Where code works, as it sees it.
        mirrors: Whether code sees data at a mount's target, and not where it lies.
        left_out: What of the data is not shown.
        user: The user and the group that code runs as, on the host; None if it runs elsewhere.
        folder: Its private folder on the host, if it has one.
    """

    name: str
    environment: str = ""
    output_folder: str = OUTPUT
    workspace_folder: str = WORKSPACE
    mirrors: bool = True
    left_out: LeftOut = field(default_factory=dict)
    user: tuple[int, int] | None = None
    folder: Path | None = None

    def data_path(self, mount: Mount) -> str:
        """Where code sees a mount."""
        return mount.target if self.mirrors else str(mount.source)


class Sandbox(abc.ABC):
    """One kernel in a sandbox, from `start` over restarts until `close`; made by `Engine.sandbox`.

    `KernelProcess` calls all of it, `Provisioner` what Jupyter's clients can ask for, each on one event loop. What is
    below "capabilities" an engine may leave out: what it has then costs nothing above but the capability.

    Attributes:
        last_exit: How its kernel ended, as far as `poll` has seen; None while it runs.
    """

    last_exit: Exit | None = None

    @abc.abstractmethod
    async def start(self, spec: SandboxSpec) -> None:
        """Start it; after `wait`, start another one in its place, which keeps installed packages, and nothing else.

        When this returns the `endpoint` can be connected to; the kernel answers when it is up.

        Raises:
            SandboxError: It could not be started; nothing is left but what a restart keeps for the next attempt.
            LimitUnenforceable: A limit of the spec can't be enforced here, and nobody accepted that.
            DataError: The data can't be shown.
        """

    @property
    @abc.abstractmethod
    def endpoint(self) -> Endpoint:
        """Where the kernel is reached; called after `start` or `take_over`."""

    @property
    @abc.abstractmethod
    def about(self) -> About:
        """What it is; called after `start` or `take_over`."""

    @abc.abstractmethod
    def target(self) -> Target:
        """Which Python it has, with which packages.

        Raises:
            EnvironmentMissing: That isn't known of its image.
        """

    @abc.abstractmethod
    async def poll(self) -> Exit | None:
        """None while the kernel runs, else how it ended. Cheap: called many times a second."""

    @abc.abstractmethod
    async def signal(self, signum: int) -> None:
        """Send a signal to the kernel; after SIGKILL nothing of it runs. Nothing happens if it has ended."""

    @abc.abstractmethod
    async def wait(self) -> Exit:
        """Wait until the kernel has ended, and remove what is left of its process."""

    async def end(self) -> None:
        """Kill the kernel, and wait for that; `start` may follow."""
        await self.signal(signal.SIGKILL)
        await self.wait()

    @abc.abstractmethod
    async def close(self) -> None:
        """Remove all that it has, whether it runs or not. May be called again."""

    # -- capabilities -------------------------------------------------------------------------------------------

    async def tail(self) -> str:
        """The end of what it printed where nobody looks, for the error of a start that failed."""
        return ""

    def usage(self) -> cgroup.Usage | None:
        """What it uses, and its weight among others; None where that can't be told. Cheap, like `poll`."""
        return None

    @property
    def site(self) -> Path | None:
        """The folder that packages are installed into, on this machine; None where none can be."""
        return None

    @property
    def egress(self) -> Egress | None:
        """Its way out by a list of hosts, if it has one."""
        return None

    async def take_over(self, lease: Lease) -> None:
        """Go on with a sandbox that another process started, in place of `start`.

        Raises:
            SandboxError: It has ended; or the engine keeps none.
        """
        raise SandboxError(f"A sandbox of the {lease.terms.engine} engine can't be taken over.")

    async def detach(self) -> None:
        """Let go of it without ending it, for another process to take over; the default ends it."""
        await self.close()

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:  # noqa: ARG002 - for engines that can
        """Assign a running sandbox that was started ahead to a person: it gets their data, and runs for them.

        Args:
            spec: What it is from now on, and what a restart makes it; the same as before in all that is enforced.
            hooks: Who answers it from now on.

        Raises:
            DataError: The data can't be shown without further mounts.
            SandboxError: The sandbox has ended; or the engine can't do that.
        """
        raise SandboxError("A sandbox of this engine can't be handed over.")


class Engine(abc.ABC):
    """An engine by name: what it can do here, before anything is started, and what it clears away afterwards.

    Attributes:
        name: As a person names it.
        title: How a menu of kernels names it.
        isolates: False for `local`.
        rank: Its place among the engines that are chosen by themselves, the least first; None for one that never is.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    isolates: ClassVar[bool] = True
    rank: ClassVar[int | None] = None

    @abc.abstractmethod
    def check(self, *, image: str | None = None) -> EngineReport:
        """What the engine can do on this machine, in well under a second; called in a thread, before each start.

        What it found out before may be kept for as long as it is sure to hold.
        """

    @abc.abstractmethod
    def sandbox(self, hooks: Hooks) -> Sandbox:
        """A sandbox that was not started yet."""

    @property
    def is_demanded(self) -> bool:
        """Whether the person's settings ask for something that this engine alone has, so that no other is chosen."""
        return False

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Probes of the self-check that it doesn't withstand on this machine, each with the reason."""
        return {}

    @property
    def kernel_name(self) -> str:
        """The kernelspec by which Jupyter's clients start a kernel in this engine."""
        return f"nbagent-{self.name}"

    @property
    def lasting(self) -> bool:
        """Whether a kept kernel survives the person's logout, when systemd removes their runtime folder."""
        return not leases.runtime_root().is_relative_to(LOGINS) or cgroup.lingers()

    async def prepare(self) -> None:
        """Make what a sandbox needs and that can be made without asking; called before a start.

        Raises:
            EnvironmentMissing: It can't be made.
        """
        return None

    async def build(
        self,
        *,
        say: Callable[[str], object],
        base: str | None = None,
        tag: str | None = None,
        force: bool = False,
    ) -> None:
        """Make what this engine's kernels are made of, such as an image, if it isn't there; a person asks for it.

        Args:
            say: Gets a line at a time about how it goes, and at last where it is.
            base: The image to start from, for engines with images; the engine's own choice by default.
            tag: The name of the image that is made; nbagent's own by default.
            force: Make it even if it is there.

        Raises:
            UsageError: The engine makes nothing, or has no such option.
            EnvironmentMissing: It can't be made.
        """
        del say, base, tag, force
        raise UsageError(f"The {self.name} engine needs nothing built.")

    def end(self, folder: Path, terms: Terms | None) -> None:  # noqa: B027 - for engines that have something to end
        """End what is left of a sandbox whose controller is dead, but for its folders; nothing happens if it is gone.

        Called by the reaper.

        Args:
            folder: Its lease's folder; held by the caller.
            terms: What the lease says of it; None if that can't be read, and the sandbox may be another engine's.
        """

    def strays(self) -> list[Stray]:
        """What this engine has of sandboxes whose lease is gone, such as after a restart of the machine."""
        return []
