"""The process that a kernel is at the moment: starting it in its sandbox, connecting, replacing and ending it.

What outlives the process is the engine's `Sandbox`, with what was installed; the connection is as old as the process.
Nobody else speaks with the `Sandbox`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import KernelDied, SandboxError, UsageError
from nbagent.core.limits import Limits
from nbagent.kernel.channels.connection import TICK, Connection
from nbagent.kernel.precedence import Precedence
from nbagent.packages.installer import Target
from nbagent.sandbox.contract import About, Engine, Hooks, Sandbox
from nbagent.sandbox.exit import Exit, start_failed
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from nbagent.egress.listener import Egress
    from nbagent.sandbox.limits.cgroup import Usage


class KernelProcess:
    """A kernel's process in its sandbox, and after it the one that replaces it.

    Args:
        engine: What isolates it.
        spec: What the sandbox is to be.

    Attributes:
        gone: Why the last process was ended, a sentence, if it was given up and none has taken its place.
    """

    def __init__(self, engine: Engine, spec: SandboxSpec) -> None:
        self.engine = engine
        self.spec = spec
        self.gone = ""
        self._started: Sandbox | None = None
        self._connection: Connection | None = None
        self._precedence = Precedence()

    @property
    def _sandbox(self) -> Sandbox:
        """The engine's side of the process.

        Raises:
            UsageError: Nothing was started.
        """
        if self._started is None:
            raise UsageError("The kernel is not running.", mend="Call start() first.")
        return self._started

    @property
    def connection(self) -> Connection:
        """The connection to the process.

        Raises:
            KernelDied: There is none.
        """
        if self._connection is None:
            raise KernelDied("The kernel is not running.")
        return self._connection

    @property
    def is_connected(self) -> bool:
        """Whether there is a process that takes requests, as far as is known."""
        return self._connection is not None

    @property
    def limits(self) -> Limits:
        """What its sandbox may use, and how long things may take."""
        return self.spec.trust.limits

    # -- its beginning ------------------------------------------------------------------------------------------

    async def launch(self, hooks: Hooks, *, lease: Lease | None = None) -> None:
        """Start a sandbox, or go on with the one that a lease is for; its kernel need not answer yet.

        Args:
            hooks: Who answers what it asks for.
            lease: Of a sandbox that another process started.

        Raises:
            SandboxError: It can't be started, or has ended.
        """
        sandbox = self.engine.sandbox(hooks)
        if lease is None:
            await sandbox.start(self.spec)
        else:
            self.spec = lease.terms.spec
            await sandbox.take_over(lease)
        self._started = sandbox

    async def connect(self) -> None:
        """Connect and wait for the first answer: of both channels, so that no output can be missed.

        Raises:
            SandboxError: The kernel ended, or did not answer in time.
        """
        connection = Connection(self._sandbox.endpoint)
        try:
            await self._wait_for_answer(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.gone = ""

    def reconnect(self) -> None:
        """Connect to a kernel that was up before, and may be busy."""
        self._connection = Connection(self._sandbox.endpoint)

    async def _wait_for_answer(self, connection: Connection) -> None:
        deadline = time.monotonic() + self.limits.start_timeout
        connection.kernel_info()
        replied = welcomed = False
        while not (replied and welcomed):
            for channel, message in await connection.receive(TICK):
                kind = message["header"].get("msg_type")
                replied |= channel == "shell" and kind == "kernel_info_reply"
                welcomed |= channel == "iopub"
            await self._still_starting(deadline)

    async def _still_starting(self, deadline: float) -> None:
        sandbox = self._sandbox
        if (ended := await sandbox.poll()) is not None:
            raise start_failed(self.engine.name, ended, await sandbox.tail())
        if time.monotonic() > deadline:
            said = await sandbox.tail()
            more = f" It said: {said}" if said else ""
            seconds = self.limits.start_timeout
            raise SandboxError(
                f"The kernel in {self.engine.name} did not answer within {seconds:g} s.{more}",
                mend="On a slow or busy machine, give it more: NBAGENT_START_TIMEOUT=SECONDS.",
            )

    # -- while it runs ------------------------------------------------------------------------------------------

    def execute_cell(self, code: str, metadata: dict[str, Any]) -> str:
        """Send a cell's code; its sandbox comes before others for a moment. Returns the message id."""
        connection = self.connection
        self._precedence.begin(self._sandbox.usage())
        return connection.execute(code, metadata=metadata)

    def interrupt(self) -> None:
        """Ask the kernel to interrupt what it runs."""
        self.connection.interrupt()

    async def has_ended(self) -> bool:
        """Whether the process has ended; `last_exit` says how. Cheap: asked many times a second."""
        return await self._sandbox.poll() is not None

    @property
    def last_exit(self) -> Exit | None:
        """How the process ended, as far as the engine knows."""
        return self._sandbox.last_exit

    async def loss(self) -> str:
        """What became of a process that can't be used any more, as what it did; empty for one that can."""
        if await self.has_ended():
            return str(self.last_exit or "ended")
        return self.connection.lost

    def usage(self) -> Usage | None:
        """What the sandbox uses; None where the engine can't tell, or nothing runs."""
        return self._started.usage() if self._started is not None else None

    def memory_peak(self) -> int | None:
        """Bytes: the most that the sandbox has used at once; None where it can't be told."""
        usage = self.usage()
        return usage.memory_peak() if usage is not None else None

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        """Make a sandbox that was started ahead somebody's; see `Sandbox.hand_over`."""
        await self._sandbox.hand_over(spec, hooks)
        self.spec = spec

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def about(self) -> About:
        """What the sandbox is."""
        return self._sandbox.about

    def target(self) -> Target:
        """Which Python it has, with which packages; see `Sandbox.target`."""
        return self._sandbox.target()

    @property
    def site(self) -> Path | None:
        """The folder that packages are installed into; None where none can be."""
        return self._sandbox.site

    @property
    def egress(self) -> Egress | None:
        """Its way out by a list of hosts, if it has one."""
        return self._sandbox.egress

    # -- its end ------------------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Hear nothing more of the process, which is to be ended or left to others."""
        self._precedence.end()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def end(self, why: str = "") -> None:
        """End the process; another one can take its place.

        Args:
            why: A sentence for whoever finds it gone.
        """
        self.disconnect()
        self.gone = why
        await self._sandbox.end()

    async def replace(self) -> None:
        """Start another process in a new sandbox of the same kind; what was installed stays, nothing else.

        Raises:
            SandboxError: The new one did not start. It can be tried again.
        """
        await self.end(self.gone)
        await self._sandbox.start(self.spec)
        await self.connect()

    async def detach(self) -> bool:
        """Leave the sandbox running for another controller, as long as its lease says; False if there is none."""
        self.disconnect()
        sandbox, self._started = self._started, None
        if sandbox is not None:
            await sandbox.detach()
        return sandbox is not None

    async def stop(self) -> None:
        """End the sandbox, at once; nothing of it is left."""
        self.disconnect()
        sandbox, self._started = self._started, None
        if sandbox is not None:
            try:
                await sandbox.end()
            finally:  # also for who is cancelled: nobody else knows the sandbox any more
                await sandbox.close()
