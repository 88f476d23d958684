"""Follows one request from its sending to its end, or to the kernel's: takes messages, and watches clock and process.

A request that takes too long, or that somebody wants stopped, is interrupted, given grace, and its kernel killed. What
becomes of the kernel after that is `recovery`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nbagent.core.policy import MIB
from nbagent.kernel.channels.kernel_connection import TICK
from nbagent.kernel.execution import ExecuteRequest, Job
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.router import Router

HALF_DONE = 5.0
"""Seconds to wait for the reply after idle, or for idle after the reply, before the cell counts as ended."""
LAST_WORDS = 1.0
"""Seconds for reading what a kernel that died, or that ran no cell, has sent before."""
UNSTOPPED = "was killed, since it did not stop when interrupted"


class Follower:
    """Runs a cell's code once.

    Args:
        process: What runs it.
        router: Takes its messages.
        waited: Tells, for a moment of the monotonic clock, the seconds since then in which code waited for a person,
            which are not its fault.
    """

    def __init__(self, process: KernelProcess, router: Router, *, waited: Callable[[float], float]) -> None:
        self._process = process
        self._router = router
        self._waited = waited

    async def catch_up(self) -> None:
        """Take what came while no cell ran, of which one turn may not have time for all."""
        connection = self._process.connection
        end = time.monotonic() + LAST_WORDS
        while True:
            for channel, message in connection.read():
                self._router.take(channel, message)
            if not connection.is_behind or time.monotonic() > end:
                return
            await connection.wait(TICK)

    def send(self, job: Job) -> ExecuteRequest:
        """Send the code, once; messages that are there already count as output of the time before the cell."""
        for channel, message in self._process.connection.read():
            self._router.take(channel, message)
        outputs = self._router.begin(job.cell)
        run = ExecuteRequest(self._process.execute_cell(job.code, job.metadata), outputs, job.cell, time.monotonic())
        self._router.remember(run.msg_id, job.cell, outputs)
        return run

    async def follow(self, run: ExecuteRequest, job: Job) -> None:
        """Take what comes until the request has ended, well or not."""
        connection = self._process.connection
        while not run.done:
            for channel, message in await connection.receive(TICK):
                self._router.take(channel, message, run)
            self._router.flush(only_due=True)
            if not run.done:
                await self._watch(run, job)

    async def abandon(self, run: ExecuteRequest) -> None:
        """Interrupt a request that nobody waits for any more, and give it grace; if it goes on, its kernel is lost."""
        connection = self._process.connection
        connection.interrupt()
        end = time.monotonic() + self._process.limits.grace
        while not run.done and time.monotonic() < end:
            for channel, message in await connection.receive(TICK):
                self._router.take(channel, message, run)
            if await self._process.has_ended():
                break
        run.stopped = "interrupted"
        if not run.done:
            run.died = UNSTOPPED

    async def _watch(self, run: ExecuteRequest, job: Job) -> None:
        """Look at the clock and at the process: stop what takes too long, notice what died."""
        now = time.monotonic()
        if await self._process.has_ended():
            await self._hear_last_words(run)
            self._bury(run)
        elif lost := self._process.connection.lost:
            run.died = lost
        elif run.kill_at is not None and now >= run.kill_at:
            run.died = UNSTOPPED
        elif run.kill_at is None and (job.stop or now - run.started - self._waited(run.started) >= job.limit):
            run.stopped = job.stop or "timeout"
            run.kill_at = now + self._process.limits.grace
            self._process.interrupt()
        elif run.reply is not None or run.idle:
            run.half_done_at = run.half_done_at or now
            if now - run.half_done_at > HALF_DONE:
                run.notes.append("The kernel did not report the cell's end; its outputs may be incomplete.")
                run.reply, run.idle = run.reply or {"status": "ok"}, True

    async def _hear_last_words(self, run: ExecuteRequest) -> None:
        """Take what a dead kernel sent and what has not been read yet: it is the end of the cell's output."""
        connection = self._process.connection
        end = time.monotonic() + LAST_WORDS
        while time.monotonic() < end and await connection.wait(TICK):
            for channel, message in connection.read():
                self._router.take(channel, message, run)

    def _bury(self, run: ExecuteRequest) -> None:
        """The kernel's process ended: say how, with what the engine knows of it."""
        ended = self._process.last_exit
        if ended is None:
            run.died = "is gone"
            return
        run.died, run.exit_code, run.memory_peak = str(ended), ended.code, ended.memory_peak
        if ended.out_of_memory:
            peak = f", {ended.memory_peak // MIB:,} MB at its peak" if ended.memory_peak else ""
            limit = self._process.limits.memory_mb
            run.died += f" (limit {limit:,} MB{peak}); raise it with --memory or Limits(memory_mb=…)"
