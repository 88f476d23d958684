"""The time limit of a cell: sends its code, takes messages until its end, and watches the clock and the process.

A request that takes too long, or that somebody wants stopped, is interrupted; if it then doesn't end within the grace
period, its kernel is killed. `recovery` replaces the kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nbagent.core.policy import MIB
from nbagent.kernel.channels.kernel_connection import LOOK_SECONDS
from nbagent.kernel.execution import ExecuteRequest, Job
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.router import Router

HALF_DONE_SECONDS = 5.0
"""Seconds to wait for the reply after idle, or for idle after the reply, before the cell counts as ended."""
LAST_MESSAGES_SECONDS = 1.0
"""Seconds for reading what a kernel sent before it died, or while it ran no cell."""
UNSTOPPED_NOTE = "was killed, since it did not stop when interrupted"


class TimedRequests:
    """Sends cells' code, and sees each request to its end: by itself, at its time limit, or with its kernel.

    Args:
        process: The kernel's process.
        router: Sorts its messages.
        waited: Returns, for a moment of the monotonic clock, the seconds since then in which code waited for a person,
            which don't count against its time limit.
    """

    def __init__(self, process: KernelProcess, router: Router, *, waited: Callable[[float], float]) -> None:
        self._process = process
        self._router = router
        self._waited = waited

    async def catch_up(self) -> None:
        """Take the messages that came while no cell ran, which may need more than one reading."""
        connection = self._process.connection
        end = time.monotonic() + LAST_MESSAGES_SECONDS
        while True:
            for channel, message in connection.read():
                self._router.take(channel, message)
            if not connection.is_behind or time.monotonic() > end:
                return
            await connection.wait(LOOK_SECONDS)

    def send(self, job: Job) -> ExecuteRequest:
        """Send the code; messages that came until now belong to the time before the cell."""
        for channel, message in self._process.connection.read():
            self._router.take(channel, message)
        outputs = self._router.begin(job.cell)
        msg_id = self._process.execute_cell(job.code, job.metadata)
        self._router.remember(msg_id, job.cell, outputs)
        return ExecuteRequest(msg_id, outputs, job.cell, time.monotonic())

    async def wait(self, request: ExecuteRequest, job: Job) -> None:
        """Take messages until the request has ended, or its kernel has."""
        connection = self._process.connection
        while not request.done:
            for channel, message in await connection.receive(LOOK_SECONDS):
                self._router.take(channel, message, request)
            self._router.flush(only_due=True)
            if not request.done:
                await self._watch(request, job)

    async def abandon(self, request: ExecuteRequest) -> None:
        """Interrupt a request whose caller was cancelled; if it doesn't end within the grace period, note a death."""
        connection = self._process.connection
        connection.interrupt()
        end = time.monotonic() + self._process.limits.grace
        while not request.done and time.monotonic() < end:
            for channel, message in await connection.receive(LOOK_SECONDS):
                self._router.take(channel, message, request)
            if await self._process.has_ended():
                break
        request.stopped = "interrupted"
        if not request.done:
            request.died = UNSTOPPED_NOTE

    async def _watch(self, request: ExecuteRequest, job: Job) -> None:
        """Look at the clock and the process: interrupt or give up a request that takes too long, notice a death."""
        now = time.monotonic()
        if await self._process.has_ended():
            await self._hear_last_words(request)
            self._bury(request)
        elif lost := self._process.lost:
            request.died = lost
        elif request.kill_at is not None and now >= request.kill_at:
            request.died = UNSTOPPED_NOTE
        elif request.kill_at is None and (job.stop or self._took(request, now) >= job.limit):
            request.stopped = job.stop or "timeout"
            request.kill_at = now + self._process.limits.grace
            self._process.interrupt()
        elif request.reply is not None or request.idle:
            request.half_done_at = request.half_done_at or now
            if now - request.half_done_at > HALF_DONE_SECONDS:
                request.notes.append("The kernel did not report the cell's end; its outputs may be incomplete.")
                request.reply, request.idle = request.reply or {"status": "ok"}, True

    def _took(self, request: ExecuteRequest, now: float) -> float:
        """Seconds that count against the time limit."""
        return now - request.started - self._waited(request.started)

    async def _hear_last_words(self, request: ExecuteRequest) -> None:
        """Take the last messages of a dead kernel, which end the cell's output."""
        connection = self._process.connection
        end = time.monotonic() + LAST_MESSAGES_SECONDS
        while time.monotonic() < end and await connection.wait(LOOK_SECONDS):
            for channel, message in connection.read():
                self._router.take(channel, message, request)

    def _bury(self, request: ExecuteRequest) -> None:
        """Note how the kernel's process ended, as far as the engine knows."""
        ended = self._process.last_exit
        if ended is None:
            request.died = "is gone"
            return
        request.died, request.exit_code, request.memory_peak = str(ended), ended.code, ended.memory_peak
        if ended.out_of_memory:
            peak = f", {ended.memory_peak // MIB:,} MB at its peak" if ended.memory_peak else ""
            limit = self._process.limits.memory_mb
            request.died += f" (limit {limit:,} MB{peak}); raise it with --memory or Limits(memory_mb=…)"
