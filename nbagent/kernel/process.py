"""Starts, connects, replaces and ends the process of a kernel, in the sandbox of an engine.

The engine's `Sandbox`, with the packages installed for it, outlives the process; each process has a
`KernelConnection` of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nbagent.core.concurrency import finished
from nbagent.core.errors import KernelDied, KernelStartError, SandboxError, UsageError
from nbagent.core.limits import Limits
from nbagent.kernel.channels.kernel_connection import LOOK_SECONDS, KernelConnection
from nbagent.kernel.cpu_weight import CpuWeight
from nbagent.sandbox.contract import Engine, Hooks, Sandbox
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.registry import refuse_unisolated
from nbagent.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from nbagent.sandbox.limits.cgroup import GroupUsage

OUT_OF_MEMORY_SECONDS = 60.0
"""Seconds in which a kernel that closed its connection should be found dead, in place of `FOUND_DEAD_SECONDS`, if Linux
has killed something in the sandbox for its memory since the last cell began. On a busy machine it takes long until so
much memory is free, and only then is the cause known."""
JOIN_SECONDS = 10.0
"""Seconds in which a kernel that somebody else started must answer; `start_timeout` if that is less."""
PROBE_SECONDS = 0.25
"""Seconds between two requests that have such a kernel publish something, to see that its messages arrive."""
MAX_PROBES = 20
"""How many of these requests are sent."""


class KernelProcess:
    """The process that a kernel has now; a restart replaces it.

    Attributes:
        end_reason: A sentence on why the last process was given up, as long as no other one has taken its place.
    """

    def __init__(self, engine: Engine, spec: SandboxSpec) -> None:
        self.engine = engine
        self.spec = spec
        self.end_reason = ""
        self._started: Sandbox | None = None
        self._connection: KernelConnection | None = None
        self._weight = CpuWeight()
        self._kills = 0
        self._may_be_dying = False

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, to be asked what it is; only this class starts and ends it."""
        if self._started is None:
            raise UsageError("The kernel is not running.", mend="Call start() first.")
        return self._started

    @property
    def connection(self) -> KernelConnection:
        """The connection to the process.

        Raises:
            KernelDied: No process is connected.
        """
        if self._connection is None:
            raise KernelDied("The kernel is not running.")
        return self._connection

    @property
    def is_connected(self) -> bool:
        """Whether there is a process to send requests to; that it has died may not have been noticed."""
        return self._connection is not None

    @property
    def is_owned(self) -> bool:
        """Whether the kernel is nbagent's to end and to restart; see `Engine.owns`."""
        return self.engine.owns

    @property
    def limits(self) -> Limits:
        """What the sandbox may use, and how long cells, starts and interrupts may take."""
        return self.spec.trust.limits

    # -- its beginning ------------------------------------------------------------------------------------------

    async def launch(self, hooks: Hooks, *, lease: Lease | None = None) -> None:
        """Start a sandbox, or take over the one that a lease names; its kernel need not answer yet."""
        if lease is None:
            refuse_unisolated(self.engine, self.spec)
        sandbox = self.engine.sandbox(hooks)
        if lease is None:
            await sandbox.start(self.spec)
        else:
            self.spec = lease.terms.spec
            await sandbox.take_over(lease)
        self._started = sandbox

    async def connect(self) -> None:
        """Connect, and wait for a first message on both channels, so that no output is missed later."""
        connection = KernelConnection(self.sandbox.endpoint)
        try:
            await self._wait_for_answer(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.end_reason = ""

    def reconnect(self) -> None:
        """Connect to a kernel that was running before, without waiting, since it may be busy."""
        self._connection = KernelConnection(self.sandbox.endpoint)

    async def _wait_for_answer(self, connection: KernelConnection) -> None:
        seconds = self.limits.start_timeout if self.is_owned else min(JOIN_SECONDS, self.limits.start_timeout)
        deadline, info, probes = time.monotonic() + seconds, connection.kernel_info(), 0
        replied = heard = False
        while not (replied and heard):
            if not (self.is_owned or heard) and probes < MAX_PROBES:
                # What was published before the kernel knew of this client is lost, so that one may not be enough.
                probes += 1
                connection.probe()
            for channel, message in await connection.receive(LOOK_SECONDS if self.is_owned else PROBE_SECONDS):
                replied |= channel == "shell" and message["parent_header"].get("msg_id") == info
                heard |= channel == "iopub"
            if self.is_owned:
                await self._still_starting(deadline)
            elif await self.has_ended() or connection.lost:
                raise SandboxError("The kernel ended while nbagent connected to it.", mend="Start it again.")
            elif time.monotonic() > deadline:
                raise _unanswered(lives=heard)

    async def _still_starting(self, deadline: float) -> None:
        sandbox = self.sandbox
        if (ended := await sandbox.poll()) is not None:
            said = f" It said: {tail[-1500:]}" if (tail := await sandbox.tail()) else ""
            raise KernelStartError(f"The kernel in {self.engine.name} {ended} while it started.{said}")
        if time.monotonic() > deadline:
            said = f" It said: {tail}" if (tail := await sandbox.tail()) else ""
            seconds = self.limits.start_timeout
            raise SandboxError(
                f"The kernel in {self.engine.name} did not answer within {seconds:g} s.{said}",
                mend="On a slow or busy machine, give it more: NBAGENT_START_TIMEOUT=SECONDS.",
            )

    # -- while it runs ------------------------------------------------------------------------------------------

    def execute_cell(self, code: str, metadata: dict[str, Any], *, counted: bool) -> str:
        """Send a cell's code, and give its sandbox precedence for a moment; returns the message id."""
        connection = self.connection
        self._kills, self._may_be_dying = self._oom_kills(), False
        self._weight.begin(self.sandbox.usage())
        return connection.execute(code, store_history=counted, metadata=metadata, stops_others=self.is_owned)

    def interrupt(self) -> None:
        """Have what the kernel runs interrupted, with its full weight, so that it ends within the grace period."""
        self._weight.begin(self.sandbox.usage(), seconds=self.limits.grace)
        if not self.sandbox.interrupt():
            self.connection.interrupt()

    async def has_ended(self) -> bool:
        """Whether the process has ended; `last_exit` says how. Cheap: called many times a second."""
        return await self.sandbox.poll() is not None

    @property
    def last_exit(self) -> Exit | None:
        """How the process ended, as far as the engine knows."""
        return self.sandbox.last_exit

    async def loss(self) -> str:
        """What a process did that can't be used any longer, as a clause; empty if it can be used."""
        if await self.has_ended():
            return str(self.last_exit or "ended")
        return self.connection_loss

    @property
    def connection_loss(self) -> str:
        """What the kernel did to end the connection, as a clause; empty while that works, or it may be dying."""
        closed = self.connection.closed_for
        if closed:
            # Once it has ended, its control group may be gone before the engine knows.
            self._may_be_dying |= self.has_killed
        if (self._may_be_dying and 0 < closed < OUT_OF_MEMORY_SECONDS) or not (lost := self.connection.lost):
            return ""
        return f"{lost} and was killed" if self.is_owned else lost

    @property
    def has_killed(self) -> bool:
        """Whether Linux has killed something in the sandbox for its memory since the last cell began."""
        return self._oom_kills() > self._kills

    def _oom_kills(self) -> int:
        usage = self.usage()
        return usage.oom_kills() if usage is not None else 0

    def usage(self) -> GroupUsage | None:
        """The resources that the sandbox uses; None where the engine can't tell, or nothing runs."""
        return self._started.usage() if self._started is not None else None

    def memory_peak(self) -> int | None:
        """The most bytes that the sandbox has used at once; None where the engine can't tell."""
        usage = self.usage()
        return usage.memory_peak() if usage is not None else None

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        """Give a sandbox that was started ahead its owner, data and hooks; see `Sandbox.hand_over`."""
        await self.sandbox.hand_over(spec, hooks)
        self.spec = spec

    # -- its end ------------------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Close the connection to the process, which is then ended or left to others."""
        self._weight.end()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def end(self, why: str = "") -> None:
        """End the process; another one can take its place."""
        self.disconnect()
        self.end_reason = why
        await self.sandbox.end()

    async def replace(self) -> None:
        """Start another process in a new sandbox of the same kind; only installed packages stay.

        Raises:
            SandboxError: The new one did not start; another attempt is possible.
        """
        await self.end(self.end_reason)
        await self.sandbox.start(self.spec)
        await self.connect()

    async def detach(self) -> bool:
        """Leave the sandbox running for another controller, as long as its lease says; False if nothing runs."""
        self.disconnect()
        sandbox, self._started = self._started, None
        if sandbox is not None:
            await sandbox.detach()
        return sandbox is not None

    async def stop(self) -> None:
        """End the sandbox at once, and remove all of it; each cancellation is raised after that."""
        self.disconnect()
        sandbox, self._started = self._started, None
        if sandbox is not None:
            # Nobody else knows the sandbox any longer.
            await finished(_remove(sandbox))


def _unanswered(*, lives: bool) -> SandboxError:
    """The error for a kernel that somebody else started, and that did not answer."""
    if lives:
        mend = "Wait for its end, or interrupt it there."
        return SandboxError("The kernel runs another client's cell, and answers when that has ended.", mend=mend)
    # It drops what is signed with another key.
    mend = "Name the file of another kernel, or start this one again where it was started."
    return SandboxError("The kernel did not answer: is it still the file of a kernel that runs?", mend=mend)


async def _remove(sandbox: Sandbox) -> None:
    try:
        await sandbox.end()
    finally:
        await sandbox.close()
