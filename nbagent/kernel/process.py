"""The process that a kernel is at the moment: starting it in its sandbox, connecting, replacing and ending it.

What outlives the process is jupyter_client's manager and the sandbox's provisioner behind it, with the folders on the
host and what was installed; the connection is as old as the process.
"""

from __future__ import annotations

import time
from typing import Any, cast

from jupyter_client import AsyncKernelManager

from nbagent import compat
from nbagent.errors import KernelDied, SandboxError, UsageError
from nbagent.kernel.channels.connection import TICK, Connection
from nbagent.kernel.channels.context import shared_context
from nbagent.kernel.precedence import Precedence
from nbagent.policy import Limits
from nbagent.sandbox.base import SandboxProvisioner
from nbagent.sandbox.engine import Engine, kernel_specs
from nbagent.sandbox.exit import Exit, start_failed
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.spec import SandboxSpec


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
        self._manager: AsyncKernelManager | None = None
        self._connection: Connection | None = None
        self._precedence = Precedence()

    @property
    def manager(self) -> AsyncKernelManager:
        """Jupyter's manager of the process.

        Raises:
            UsageError: Nothing was started.
        """
        if self._manager is None or self._manager.provisioner is None:
            raise UsageError("The kernel is not running.", mend="Call start() first.")
        return self._manager

    @property
    def provisioner(self) -> SandboxProvisioner:
        """The engine's side of the sandbox.

        Raises:
            UsageError: Nothing was started.
        """
        return cast("SandboxProvisioner", self.manager.provisioner)

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

    async def launch(self, lease: Lease | None = None) -> None:
        """Start a sandbox, or go on with the one that a lease is for; its kernel need not answer yet.

        Raises:
            SandboxError: It can't be started, or has ended.
        """
        if lease is not None:
            self.spec = lease.terms.spec
        self._manager = AsyncKernelManager(
            kernel_name=self.engine.kernel_name,
            kernel_spec_manager=kernel_specs(self.engine),
            context=shared_context(),
        )
        await self._manager.start_kernel(sandbox=self.spec, lease=lease)

    async def connect(self) -> None:
        """Connect and wait for the first answer: of both channels, so that no output can be missed.

        Raises:
            SandboxError: The kernel ended, or did not answer in time.
        """
        connection = Connection(self.manager)
        try:
            await self._wait_for_answer(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.gone = ""

    def reconnect(self) -> None:
        """Connect to a kernel that was up before, and may be busy."""
        self._connection = Connection(self.manager)

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
        provisioner = self.provisioner
        if await provisioner.poll() is not None and provisioner.last_exit is not None:
            raise start_failed(self.engine.name, provisioner.last_exit, await provisioner.tail())
        if time.monotonic() > deadline:
            said = await provisioner.tail()
            more = f" It said: {said}" if said else ""
            seconds = self.limits.start_timeout
            raise SandboxError(f"The kernel in {self.engine.name} did not answer within {seconds:g} s.{more}")

    # -- while it runs ------------------------------------------------------------------------------------------

    def execute_cell(self, code: str, metadata: dict[str, Any]) -> str:
        """Send a cell's code; its sandbox comes before others for a moment. Returns the message id."""
        connection = self.connection
        self._precedence.begin(self.provisioner.usage())
        return connection.execute(code, metadata=metadata)

    def interrupt(self) -> None:
        """Ask the kernel to interrupt what it runs."""
        self.connection.interrupt()

    async def has_ended(self) -> bool:
        """Whether the process has ended; `last_exit` says how. Cheap: asked many times a second."""
        return await self.provisioner.poll() is not None

    @property
    def last_exit(self) -> Exit | None:
        """How the process ended, as far as the engine knows."""
        return self.provisioner.last_exit

    async def loss(self) -> str:
        """What became of a process that can't be used any more, as what it did; empty for one that can."""
        if await self.has_ended():
            return str(self.last_exit or "ended")
        return self.connection.lost

    def memory_peak(self) -> int | None:
        """Bytes: the most that the sandbox has used at once; None where it can't be told."""
        return self.provisioner.memory_peak() if self._manager is not None else None

    async def hand_over(self, spec: SandboxSpec) -> None:
        """Make a sandbox that was started ahead somebody's; see `SandboxProvisioner.hand_over`."""
        await self.provisioner.hand_over(spec)
        self.spec = spec

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
        await self.provisioner.kill(restart=True)
        await self.provisioner.wait()

    async def replace(self) -> None:
        """Start another process in a new sandbox of the same kind; what was installed stays, nothing else.

        Raises:
            SandboxError: The new one did not start. It can be tried again.
        """
        await self.end(self.gone)
        await self.manager.cleanup_resources(restart=True)
        await self.manager.start_kernel(sandbox=self.spec)
        await self.connect()

    async def detach(self) -> bool:
        """Leave the sandbox running for another controller, as long as its lease says; False if there is none."""
        self.disconnect()
        manager, self._manager = self._manager, None
        if manager is None or manager.provisioner is None:
            return False
        # Not `cleanup_resources`, which removes the sockets that the next client needs.
        await cast("SandboxProvisioner", manager.provisioner).detach()
        compat.CONTROL_SOCKET.of(manager)()
        return True

    async def stop(self) -> None:
        """End the sandbox, at once; nothing of it is left."""
        self.disconnect()
        manager, self._manager = self._manager, None
        if manager is not None and manager.provisioner is not None:
            await manager.provisioner.kill()
            await manager.provisioner.wait()
            await manager.cleanup_resources()
