"""Requests to a kernel that are no cells: nbagent's own questions, and code that is run again after a loss.

Each is bounded in time: what takes too long is interrupted, and a kernel that ignores that is given up. What arrives
meanwhile and answers nothing that was asked is the router's. One request at a time: the caller holds the kernel's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nbagent.core.errors import SandboxError
from nbagent.kernel import inside_calls
from nbagent.kernel.cell_replay import OUT_OF_TIME
from nbagent.kernel.channels.connection import TICK
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.router import Router

MIN_PATIENCE = 2.0
"""Seconds that a kernel which is free takes at most to say so."""

Chunks = Callable[[bytes], None]
Take = Callable[[str, dict[str, Any]], None]
"""Takes a channel's name and one of its messages."""


class Queries:
    """Asks a kernel's process, and has it run what nobody is to see.

    Args:
        process: Whom to ask.
        router: Gets the messages that belong to no question.
    """

    def __init__(self, process: KernelProcess, router: Router) -> None:
        self._process = process
        self._router = router

    # -- questions ----------------------------------------------------------------------------------------------

    async def answers(self, seconds: float) -> bool:
        """Whether the process lives and a request that changes nothing is answered within so many seconds."""
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
        kept = key in connection.kept
        while True:
            expressions = {"value": inside_calls.call(source, arguments, kept=kept)}
            reply = await self.ask(expressions, seconds=seconds, chunks=chunks, buffers=buffers)
            if not (kept and inside_calls.is_missing(reply)):
                break
            kept = False
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
        """Have expressions evaluated silently.

        Args:
            expressions: Python, by names of the caller's.
            seconds: After which it is interrupted.
            chunks: Gets the buffers of `nbagent_chunk` messages.
            buffers: What goes along with the request.

        Returns:
            The reply's content; None if none came in time. The kernel may be given up then.
        """
        msg_id = self._send(expressions, buffers=buffers)
        self._router.remember_silent(msg_id)
        reply = await self._reply(msg_id, seconds=seconds, take=self._router.take, chunks=chunks)
        if reply is None and not await self._process.has_ended():
            stopped = await self._interrupt(msg_id, take=self._router.take)
            if not stopped and not await self._process.has_ended():
                await self._give_up()
        return reply

    async def _give_up(self) -> None:
        """End a kernel that neither answers nor takes an interrupt; the next cell gets a new one, and is told."""
        lost = self._process.connection.lost
        why = "did not answer between two cells, ignored the interrupt, and was killed"
        await self._process.end(f"The kernel {lost} between two cells." if lost else f"The kernel {why}.")

    # -- waiting ------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """After an interrupt ipykernel refuses the next request or two: ask until one is taken."""
        end = time.monotonic() + self._process.limits.grace
        while time.monotonic() < end:
            reply = await self._reply(self._send({}), seconds=1.0, take=self._router.take)
            if reply is not None and reply.get("status") == "ok":
                return

    async def wait_until_free(self, patience: float) -> bool:
        """Wait until a kernel that may be busy takes requests.

        Args:
            patience: Seconds until what it runs is interrupted.

        Returns:
            Whether that was necessary.

        Raises:
            SandboxError: It did not answer after that either.
        """
        grace = self._process.limits.grace
        interrupted = False
        for seconds in (max(patience, MIN_PATIENCE), grace):
            msg_id = self._send({})
            # With a place for chunks, it also waits for a message of IOPub: what comes from now on is not missed.
            if await self._reply(msg_id, seconds=seconds, take=self._router.take, chunks=lambda _: None) is not None:
                await self.settle()
                return interrupted
            # The request that waited is interrupted together with what it waited for.
            interrupted = True
            self._process.interrupt()
        raise SandboxError(f"The kernel did not answer within {grace:g} s of an interrupt.")

    # -- code that is run again ---------------------------------------------------------------------------------

    async def rerun(self, code: str, seconds: float) -> dict[str, Any] | None:
        """Run code for what it does to the kernel alone.

        Returns:
            The reply's content; None if the kernel did not live to give one, or could not be stopped. It is
            disconnected then.
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

    async def _interrupt(self, msg_id: str, *, take: Take) -> bool:
        """Interrupt a request that takes too long; returns whether that ended it, and the kernel takes the next."""
        self._process.interrupt()
        if await self._reply(msg_id, seconds=self._process.limits.grace, take=take) is None:
            return False
        await self.settle()
        return True

    async def _reply(
        self, msg_id: str, *, seconds: float, take: Take, chunks: Chunks | None = None
    ) -> dict[str, Any] | None:
        """Wait for the reply to a request, and for its end if it sends chunks; all other messages are taken."""
        connection = self._process.connection
        end = time.monotonic() + seconds
        reply: dict[str, Any] | None = None
        idle = chunks is None
        while (reply is None or not idle) and time.monotonic() < end:
            for channel, message in await connection.receive(TICK):
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
