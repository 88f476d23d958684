"""The contract of an engine and of the sandboxes that it makes; nothing here or above knows which engine it is.

    registry ── asks ──▶ Engine ── makes ──▶ Sandbox ── tells ──▶ Endpoint ── opens ──▶ KernelChannel
    machine/reaper                       ▲              (channels/endpoint.py)        ▲
                        kernel/process.py, provisioner.py               kernel/channels/kernel_connection.py

An engine is found by its name among the entry points `nbagent.engines`. One whose sandboxes run on this machine brings
an `Instance` and makes a `MachineSandbox` of it (both in `machine/`), which has all the rest. An engine whose kernels
run elsewhere writes a `Sandbox` of its own.
"""

from __future__ import annotations

import abc
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.core.errors import EngineUnavailable, SandboxError, UsageError
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.paths import OUTPUT, WORKSPACE

if TYPE_CHECKING:
    from nbagent.core.events import DataLeftOut
    from nbagent.egress.gate import AskPerson
    from nbagent.egress.listener import Egress
    from nbagent.egress.proxy import Observe
    from nbagent.packages.requirements import Target
    from nbagent.sandbox.channels.byte_stream import ByteStream
    from nbagent.sandbox.channels.endpoint import Endpoint
    from nbagent.sandbox.data.mounts import Mount
    from nbagent.sandbox.data.tree import LeftOut
    from nbagent.sandbox.exit import Exit
    from nbagent.sandbox.leases.lease import Lease, LeaseTerms
    from nbagent.sandbox.results.receiver import Receiver
    from nbagent.sandbox.spec import SandboxSpec

LOGINS = Path("/run/user")
"""Where systemd makes runtime folders, and removes them at the end of a person's last login."""
CommandHook = Callable[[int, list[str]], object]
"""Gets the process number and the words of a program that is executed inside; called on a thread of its own."""
InstallHook = Callable[[list[str]], list[dict[str, Any]]]
"""Takes requirements, returns what was installed or raises InstallError; called on a thread, which waits."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """A restriction, and whether an engine enforces it on this machine."""

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
        kernel: Which operating system kernel serves the code's system calls, in words.
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
        created: Seconds since the epoch.
        remove: Removes it; returns whether this call did, and not somebody else at the same time.
    """

    kind: str
    name: str
    created: float
    remove: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Callbacks for what a sandbox asks for and reports; all are called on threads of its own.

    Attributes:
        install: Serves `%pip install`; None to have the sandbox install by the policy of its spec.
        command: Gets each program that is executed inside, if the trust level logs them.
        left_out: Gets what of the data is not shown any more, when that changes.
        ask: Answers whether a host that isn't listed may be reached; None denies it.
        egress: Gets each decision of the egress proxy, and the end of each connection.
        is_client: Whether another client runs the cells, so that they do and say themselves what a session does and
            says for its own: the first one prints what of the data is not shown, a missing module is installed.
        connection_file: The name of the kernel's connection file, for `%agent` in a notebook of Jupyter's to say where
            to ask; empty for a session's own kernel.
        results: Takes what cells save, which the kernel then sends after each; None where a session fetches it.
        is_told: Whether a person has been told how a client's kernel ended, so that no cell of the next one says it.
    """

    install: InstallHook | None = None
    command: CommandHook | None = None
    left_out: Callable[[DataLeftOut], object] | None = None
    ask: AskPerson | None = None
    egress: Observe | None = None
    is_client: bool = False
    connection_file: str = ""
    results: Receiver | None = None
    is_told: Callable[[Exit], bool] = lambda _: False


@dataclass(frozen=True, kw_only=True)
class About:
    """A running sandbox: its name, the image or environment of its kernel, and its folders.

    Attributes:
        name: Its name, in labels, control groups and folders.
        environment: Digest of the image or environment of its kernel.
        output_folder: Where code leaves its results, as it sees it.
        workspace_folder: Where code works, as it sees it.
        mirrors: Whether code sees data at a mount's target; otherwise at its place on the host.
        left_out: The data that is not shown, by the reason.
        user: The user and the group that code runs as, on the host; None if it runs elsewhere.
        folder: Its private folder on the host, if it has one.
        isolation: Of a kernel that somebody else started, what keeps its code from this machine; empty of others.
        kernel_name: The kernelspec that starts such a kernel; empty for the engine's own.
    """

    name: str
    environment: str = ""
    output_folder: str = OUTPUT
    workspace_folder: str = WORKSPACE
    mirrors: bool = True
    left_out: LeftOut = field(default_factory=dict)
    user: tuple[int, int] | None = None
    folder: Path | None = None
    isolation: str = ""
    kernel_name: str = ""

    def data_path(self, mount: Mount) -> str:
        """The path at which code sees a mount."""
        return mount.target if self.mirrors else str(mount.source)


class Sandbox(abc.ABC):
    """One kernel in a sandbox, from `start` over restarts until `close`; made by `Engine.sandbox`.

    `KernelProcess` calls all of it, `Provisioner` what Jupyter's clients can ask for, each on one event loop. An engine
    may leave out what is below "capabilities".

    Attributes:
        last_exit: How its kernel ended, as far as `poll` has seen; None while it runs.
    """

    last_exit: Exit | None = None

    @abc.abstractmethod
    async def start(self, spec: SandboxSpec) -> None:
        """Start it. Called again after `wait`, start another kernel, which keeps installed packages and nothing else.

        When this returns the `endpoint` can be connected to; the kernel answers when it is up.

        Raises:
            SandboxError: It could not be started; only what a restart keeps is left, for the next attempt.
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
        """Name the sandbox, its environment and its folders; called after `start` or `take_over`."""

    @abc.abstractmethod
    def target(self) -> Target:
        """The Python and the packages that further packages must fit.

        Raises:
            EnvironmentMissing: Its image doesn't say that.
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

    def interrupt(self) -> bool:
        """Interrupt the code, though the kernel reads no message meanwhile; False if only a message can do that."""
        return False

    def learn(self, said: object) -> None:  # noqa: B027 - for engines that don't know it already
        """Take in what a kernel that somebody else started says of itself; called once, at the session's start.

        Args:
            said: What `kernel/inside/introduction_inside.py` returned; untrusted.

        Raises:
            SandboxError: That makes no sense.
        """

    async def tail(self) -> str:
        """The end of what it printed to its original stdout and stderr, for the error of a start that failed."""
        return ""

    def usage(self) -> cgroup.GroupUsage | None:
        """What it uses of memory and cores; None if unknown. Cheap, like `poll`."""
        return None

    @property
    def site(self) -> Path | None:
        """The folder that packages are installed into, on this machine; None where none can be."""
        return None

    @property
    def egress(self) -> Egress | None:
        """Its egress proxy, if it may reach a list of hosts."""
        return None

    def byte_stream(self) -> ByteStream | None:
        """A socket for one stream of bytes to or from code inside; None where there can be none, and messages do.

        Raises:
            OSError: It can't be made now.
        """
        return None

    async def take_over(self, lease: Lease) -> None:
        """Take over a sandbox that another process started, in place of `start`.

        Raises:
            SandboxError: It has ended, or the engine can't do that.
        """
        raise SandboxError(f"A sandbox of the {lease.terms.engine} engine can't be taken over.")

    async def detach(self) -> None:
        """Leave it running for another process to take over; engines that can't do that end it."""
        await self.close()

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:  # noqa: ARG002 - for engines that can
        """Assign a sandbox that was started ahead to a person: it shows their data and calls their hooks from now on.

        Args:
            spec: Its new spec, which enforces the same as the one it was started with.
            hooks: Its new hooks.

        Raises:
            DataError: The data can't be shown without further mounts.
            SandboxError: The sandbox has ended, or the engine can't do that.
        """
        raise SandboxError("A sandbox of this engine can't be handed over.")


class Engine(abc.ABC):
    """An engine: says what it can do on this machine, makes sandboxes, and clears away what dead ones left.

    Attributes:
        name: The name by which people choose it.
        title: The name of its kernels in a Jupyter client's menu.
        isolates: Whether its kernels are certainly isolated: False for `local` and `existing`.
        owns: Whether nbagent starts its kernels, and may end and restart them. Otherwise others have cells in the same
            kernel, and it only interrupts its own.
        rank: The lowest rank is chosen first if nobody names an engine; None for an engine that must be named.
        takes_images: Whether its kernels are started from an image, which a person may name.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    isolates: ClassVar[bool] = True
    owns: ClassVar[bool] = True
    rank: ClassVar[int | None] = None
    takes_images: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, *, image: str | None = None) -> EngineReport:
        """Find out what the engine can do on this machine; called in a thread, before each start.

        It takes well under a second. An engine may remember answers for as long as they certainly hold.
        """

    @abc.abstractmethod
    def sandbox(self, hooks: Hooks) -> Sandbox:
        """Make a sandbox, which is not started yet."""

    def adapted(self, spec: SandboxSpec, *, strict: bool) -> SandboxSpec:  # noqa: ARG002 - for engines that find it out
        """A session's spec, adapted to what this engine can fulfil.

        Args:
            spec: What the session's options say.
            strict: Whether a person named the trust level, which must not become less strict then.

        Raises:
            UsageError: It can't be fulfilled.
        """
        return spec if self.isolates else replace(spec, keep=0.0)

    @property
    def is_demanded(self) -> bool:
        """Whether the person's settings ask for something that only this engine has, so that no other is chosen."""
        return False

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Probes of the self-check that succeed against it on this machine, each with the reason."""
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
        """Before a start, build what the sandbox needs, if that takes no person's consent.

        Raises:
            EnvironmentMissing: It can't be made.
        """
        return None

    async def build(
        self, *, say: Callable[[str], object], base: str | None = None, tag: str | None = None, force: bool = False
    ) -> None:
        """Build the image or environment of this engine's kernels, if it isn't there; a person asks for it.

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

    def end(self, folder: Path, terms: LeaseTerms | None) -> None:  # noqa: B027 - for engines that have something to end
        """End the processes of a sandbox whose controller is dead, for the reaper; nothing happens if there are none.

        Args:
            folder: Its lease's folder, whose lock the caller holds.
            terms: The lease's terms; None if they can't be read, and the sandbox may be another engine's.
        """

    def strays(self) -> list[Stray]:
        """What is left of sandboxes whose lease is gone, such as after a restart of the machine."""
        return []


class UnloadableEngine(Engine):
    """An engine whose module can't be imported."""

    title = "Python (not available)"
    MEND = "Install the package that brings it again, or remove it."

    def __init__(self, name: str, reason: str) -> None:
        self.name = name  # type: ignore[misc]  # each of these stands for another engine
        self._reason = reason

    def check(self, *, image: str | None = None) -> EngineReport:
        """Report that the engine can't be used, and why."""
        del image
        return EngineReport(available=False, reason=self._reason, mend=UnloadableEngine.MEND)

    def sandbox(self, hooks: Hooks) -> Sandbox:
        """Refuse.

        Raises:
            EngineUnavailable: Always.
        """
        del hooks
        raise EngineUnavailable(self._reason, mend=UnloadableEngine.MEND)
