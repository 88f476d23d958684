"""Sends a kernel requests that are no cells: calls of nbagent's own code, and cells that are run again after a loss.

Each is bounded in time: one that takes too long is interrupted, and a kernel that ignores the interrupt is given up.
Messages that arrive meanwhile and answer no request go to the router. The caller holds the kernel's lock, so that there
is one request at a time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nbagent.core.errors import SandboxError
from nbagent.kernel import inside_calls
from nbagent.kernel.cell_replay import OUT_OF_TIME
from nbagent.kernel.channels.kernel_connection import LOOK_SECONDS
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.router import Router

MIN_ANSWER_SECONDS = 2.0
"""Seconds in which an idle kernel certainly answers."""

Chunks = Callable[[bytes], None]
"""Gets the buffers of the `nbagent_chunk` messages that code in the kernel publishes."""
Evaluate = Callable[..., Awaitable[Any]]
"""Calls a module of nbagent's own in a kernel; its arguments are those of `QueryClient.call`."""
TakeMessage = Callable[[str, dict[str, Any]], None]
"""Gets a channel's name and one of its messages."""


class QueryClient:
    """Requests to a kernel's process whose outputs nobody sees."""

    def __init__(self, process: KernelProcess, router: Router) -> None:
        self._process = process
        self._router = router

    # -- nbagent's own code -------------------------------------------------------------------------------------

    async def answers(self, seconds: float) -> bool:
        """Whether the process lives and answers an empty request within so many seconds."""
        if not self._process.is_connected or await self._process.has_ended():
            return False
        reply = await self.ask({}, seconds=seconds)
        return reply is not None and reply.get("status") == "ok"

    async def call(
        self,
        source: str,
        arguments: list[Any],
        *,
        seconds: float,
        chunks: Chunks | None = None,
        buffers: Sequence[bytes] = (),
    ) -> Any:
        """Call a module of nbagent's own in the kernel; see `Kernel.evaluate`."""
        connection, key = self._process.connection, inside_calls.key_of(source)
        is_kept = key in connection.kept
        while True:
            expressions = {"value": inside_calls.call(source, arguments, kept=is_kept)}
            reply = await self.ask(expressions, seconds=seconds, chunks=chunks, buffers=buffers)
            if not (is_kept and inside_calls.is_missing(reply)):
                break
            is_kept = False
        if reply is not None:
            connection.kept.add(key)
        return inside_calls.result(reply)

    async def ask(
        self,
        expressions: dict[str, str],
        *,
        seconds: float,
        chunks: Chunks | None = None,
        buffers: Sequence[bytes] = (),
    ) -> dict[str, Any] | None:
        """Evaluate expressions, by names that the caller chooses, silently; they are interrupted after so many seconds.

        Returns:
            The reply's content; None if none came in time, after which the kernel may be given up.
        """
        if not self._process.is_owned and not await self._is_free(seconds):
            return None
        msg_id = self._send(expressions, buffers=buffers)
        self._router.remember_silent(msg_id)
        reply = await self._reply(msg_id, seconds=seconds, take=self._router.take, chunks=chunks)
        if reply is None and self._process.is_owned and not await self._process.has_ended():
            stopped = await self._interrupt(msg_id, take=self._router.take)
            if not stopped and not await self._process.has_ended():
                await self._give_up()
        return reply

    async def _is_free(self, seconds: float) -> bool:
        """Whether a kernel that others use, too, comes to a request within so many seconds; it is not interrupted."""
        msg_id = self._process.connection.kernel_info()
        return await self._reply(msg_id, seconds=seconds, take=self._router.take) is not None

    async def _give_up(self) -> None:
        """End a kernel that neither answers nor heeds an interrupt; the next cell gets a new one, and a note."""
        lost = self._process.connection.lost
        why = "did not answer between two cells, ignored the interrupt, and was killed"
        await self._process.end(f"The kernel {lost} between two cells." if lost else f"The kernel {why}.")

    # -- waiting ------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """After an interrupt, ipykernel refuses the next request or two: send empty ones until one is accepted."""
        end = time.monotonic() + self._process.limits.grace
        while time.monotonic() < end:
            reply = await self._reply(self._send({}), seconds=1.0, take=self._router.take)
            if reply is not None and reply.get("status") == "ok":
                return

    async def wait_until_free(self, patience: float) -> bool:
        """Wait until a kernel that may be busy answers; returns whether its code was interrupted, after some patience.

        Raises:
            SandboxError: It did not answer after the interrupt either.
        """
        grace = self._process.limits.grace
        interrupted = False
        for seconds in (max(patience, MIN_ANSWER_SECONDS), grace):
            msg_id = self._send({})
            # With `chunks`, it waits for IOPub, too: no message is missed from then on.
            if await self._reply(msg_id, seconds=seconds, take=self._router.take, chunks=lambda _: None) is not None:
                await self.settle()
                return interrupted
            # The request that waited is interrupted together with what it waited for.
            interrupted = True
            self._process.interrupt()
        raise SandboxError(f"The kernel did not answer within {grace:g} s of an interrupt.")

    # -- code that is run again ---------------------------------------------------------------------------------

    async def rerun(self, code: str, seconds: float) -> dict[str, Any] | None:
        """Run a cell's code again, without outputs.

        Returns:
            The reply's content; None if the kernel died or could not be stopped, in which case it is disconnected.
        """
        msg_id = self._process.connection.execute(code)
        take = self._router.take_unseen
        reply = await self._reply(msg_id, seconds=seconds, take=take, chunks=lambda _: None)
        if reply is not None:
            return reply
        if not await self._process.has_ended() and await self._interrupt(msg_id, take=take):
            return OUT_OF_TIME
        self._process.disconnect()
        return None

    # -- shared parts -------------------------------------------------------------------------------------------

    def _send(self, expressions: dict[str, str], *, buffers: Sequence[bytes] = ()) -> str:
        """Send a silent request; returns its message id."""
        return self._process.connection.execute(
            "", silent=True, store_history=False, expressions=expressions, buffers=buffers
        )

    async def _interrupt(self, msg_id: str, *, take: TakeMessage) -> bool:
        """Interrupt a request that takes too long; returns whether it ended and the kernel accepts the next."""
        self._process.interrupt()
        if await self._reply(msg_id, seconds=self._process.limits.grace, take=take) is None:
            return False
        await self.settle()
        return True

    async def _reply(
        self, msg_id: str, *, seconds: float, take: TakeMessage, chunks: Chunks | None = None
    ) -> dict[str, Any] | None:
        """Wait for the reply to a request and, with `chunks`, for its `idle`; all other messages go to `take`."""
        connection = self._process.connection
        end = time.monotonic() + seconds
        reply: dict[str, Any] | None = None
        idle = chunks is None
        while (reply is None or not idle) and time.monotonic() < end:
            for channel, message in await connection.receive(LOOK_SECONDS):
                kind = message["header"].get("msg_type")
                if message["parent_header"].get("msg_id") != msg_id:
                    take(channel, message)
                elif channel == "shell":
                    reply = message["content"]
                elif chunks is not None and kind == "nbagent_chunk":
                    for buffer in message.get("buffers") or []:
                        chunks(bytes(buffer))
                elif kind == "status":
                    idle |= message["content"].get("execution_state") == "idle"
                else:
                    take(channel, message)
            if connection.lost or await self._process.has_ended():
                return None
        return reply
