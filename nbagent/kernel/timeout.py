"""The timeout of a cell: decides it, then sends the code, follows its messages, and stops what takes longer.

A request that takes too long, or that somebody wants stopped, is interrupted. If it doesn't end within the grace period
after that, its kernel is killed, and `recovery.py` replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits
from nbagent.core.policy import MIB
from nbagent.kernel.channels.kernel_connection import LOOK_SECONDS
from nbagent.kernel.execution import CellJob, ExecuteRequest
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.router import Router

HALF_DONE_SECONDS = 5.0
"""Seconds to wait for the reply after idle, or for idle after the reply, before the cell counts as ended."""
UNANSWERED_SECONDS = 0.3
"""Seconds to wait for the reply to an interrupted cell after idle: ipykernel sends none if the interrupt came before
the code began."""
LAST_MESSAGES_SECONDS = 1.0
"""Seconds for reading what a kernel sent before it died, or while it ran no cell."""
UNSTOPPED_NOTE = "was killed, since it did not stop when interrupted"
EARLY_SECONDS = 0.1
"""Seconds from the start of the code in which an interrupt may be lost: ipykernel heeds none before that."""
AGAIN_SECONDS = 0.3
"""Seconds after which code that was interrupted so early is interrupted again."""
PATIENCE_SECONDS = 0.5
"""Seconds that a cell waits for another client's cell before anybody is told."""
ASK_AGAIN_SECONDS = 1.0
"""Seconds after which a kernel that others use, too, is asked again whether it is free: a kernel drops the requests
that wait behind a cell that fails."""
MAX_ASKS = 600
"""How often the kernel is asked; after that, the cell waits for the answer to any of these requests."""


def timeout_of(asked: float | None, limits: Limits) -> float:
    """The seconds that a cell may run: those that its caller asks for, else those of the sandbox."""
    timeout = limits.timeout if asked is None else asked
    if not timeout > 0:
        raise UsageError(f"A cell's timeout must be above 0, not {timeout}.")
    return timeout


class TimedRequests:
    """Sends cells' code, and follows each request until it ends: by itself, at its timeout, or because its kernel died.

    The seconds in which code `waited` for a person's answer don't count.
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

    def send(self, job: CellJob) -> ExecuteRequest:
        """Send the code; messages that came until now belong to the time before the cell."""
        for channel, message in self._process.connection.read():
            self._router.take(channel, message)
        outputs = job.shown or self._router.begin(job.cell)
        msg_id = self._process.execute_cell(job.code, job.metadata, counted=job.counted)
        self._router.remember(msg_id, job.cell, outputs)
        return ExecuteRequest(msg_id, outputs, job.cell, time.monotonic())

    async def wait_for_others(self, job: CellJob, waits: Callable[[], object]) -> bool:
        """Wait until a kernel that others use, too, runs none of their cells; False if the cell is stopped before.

        If that takes long, `waits` is called once.
        """
        connection, started, asked, told = self._process.connection, time.monotonic(), set[str](), False
        while not job.stop and not connection.lost and not await self._process.has_ended():
            now = time.monotonic()
            if now - started >= len(asked) * ASK_AGAIN_SECONDS and len(asked) < MAX_ASKS:
                asked.add(connection.kernel_info())
            for channel, message in await connection.receive(LOOK_SECONDS):
                if channel == "shell" and message["parent_header"].get("msg_id") in asked:
                    if message["content"].get("status") == "ok":
                        return True
                else:
                    self._router.take(channel, message)
            if not told and now - started > PATIENCE_SECONDS:
                told = True
                waits()
        return not job.stop

    def unsent(self, job: CellJob) -> ExecuteRequest:
        """The request of a cell that was stopped before its code could be sent."""
        outputs, stopped = self._router.begin(job.cell), job.stop or "interrupted"
        why = "before it began" + ("" if self._process.is_owned else ", while the kernel ran another client's cell")
        return ExecuteRequest("", outputs, job.cell, time.monotonic(), stopped=stopped, left=why)

    async def wait(self, request: ExecuteRequest, job: CellJob) -> None:
        """Take messages until the request has ended, or its kernel has."""
        connection = self._process.connection
        while not request.done:
            for channel, message in await connection.receive(LOOK_SECONDS):
                self._router.take(channel, message, request)
            self._router.flush(only_due=True)
            if not request.done:
                await self._watch(request, job)

    async def abandon(self, request: ExecuteRequest, job: CellJob) -> None:
        """Interrupt a request whose caller was cancelled; if it doesn't end within the grace period, note a death."""
        request.stopped = job.stop = "interrupted"
        if self._may_interrupt(request):
            await self.wait(request, job)
        elif not request.done:
            self._give_up(request)

    async def _watch(self, request: ExecuteRequest, job: CellJob) -> None:
        """Look at the clock and the process: interrupt or give up a request that takes too long, notice a death."""
        now = time.monotonic()
        if await self._process.has_ended():
            await self._take_last_messages(request)
            self._note_exit(request)
        elif lost := self._process.connection_loss:
            request.died = lost
        elif request.kill_at is not None and now >= request.kill_at + self._more_grace(request):
            self._give_up(request)
        elif not self._may_interrupt(request):
            # It waits for another client's cell, which an interrupt would hit.
            request.started = now
        elif request.kill_at is None and (job.stop or self._took(request, now) >= job.timeout):
            request.stopped = job.stop or "timeout"
            request.kill_at = now + self._process.limits.grace
            self._interrupt(request, now)
        elif self._came_too_early(request, now):
            self._interrupt(request, now)
        else:
            self._end_half_done(request, now)

    def _end_half_done(self, request: ExecuteRequest, now: float) -> None:
        """End a request of which reply or `idle` has not come long after the other."""
        if request.done or (request.reply is None and not request.idle):
            return
        request.half_done_at = request.half_done_at or now
        waited = now - request.half_done_at
        if request.interrupts and request.idle and waited > UNANSWERED_SECONDS:
            request.reply = {"status": "error", "ename": "KeyboardInterrupt"}
        elif waited > HALF_DONE_SECONDS:
            request.notes.append("The kernel did not report the cell's end; its outputs may be incomplete.")
            request.reply, request.idle = request.reply or {"status": "ok"}, True

    @staticmethod
    def _more_grace(request: ExecuteRequest) -> float:
        """Seconds before the kill for code that has ended as far as one can see: where much runs, its reply is late.

        A reply alone is no such sign: hostile code may have cut the messages off in the middle of one.
        """
        return HALF_DONE_SECONDS if request.gave_in or request.idle else 0.0

    def _may_interrupt(self, request: ExecuteRequest) -> bool:
        """Whether an interrupt stops this request, and not another client's cell."""
        return self._process.is_owned or request.begun

    def _interrupt(self, request: ExecuteRequest, now: float) -> None:
        request.interrupts.append(now)
        self._process.interrupt()

    def _came_too_early(self, request: ExecuteRequest, now: float) -> bool:
        """Whether code still runs that was interrupted before it could heed it.

        Where the machine is busy, the second interrupt may come too early as well; a third one, halfway to the kill, is
        the last. Code in its cleanup would be killed then, too.
        """
        if not request.interrupts or request.begun_at is None or request.reply is not None or request.idle:
            return False
        first, sent_again = request.interrupts[0], len(request.interrupts) - 1
        waits = (AGAIN_SECONDS, max(2 * AGAIN_SECONDS, self._process.limits.grace / 2))
        early = first < request.begun_at + EARLY_SECONDS
        return early and sent_again < len(waits) and now > max(first, request.begun_at) + waits[sent_again]

    def _give_up(self, request: ExecuteRequest) -> None:
        """Note the death of a kernel that is killed now; one that others use, too, is left alone with the code."""
        if self._process.is_owned:
            request.died = UNSTOPPED_NOTE
        elif request.begun:
            grace = self._process.limits.grace
            request.left = f"but did not stop within {grace:g} s of the interrupt, and goes on in the kernel"
        else:
            request.left = "and still waits in the kernel for another client's cell to end"

    def _took(self, request: ExecuteRequest, now: float) -> float:
        """Seconds that count against the time limit."""
        return now - request.started - self._waited(request.started)

    async def _take_last_messages(self, request: ExecuteRequest) -> None:
        """Take what a dead kernel had sent; these messages end the cell's output."""
        connection = self._process.connection
        end = time.monotonic() + LAST_MESSAGES_SECONDS
        while time.monotonic() < end and await connection.wait(LOOK_SECONDS):
            for channel, message in connection.read():
                self._router.take(channel, message, request)

    def _note_exit(self, request: ExecuteRequest) -> None:
        """Note how the kernel's process ended, as far as the engine knows."""
        ended = self._process.last_exit
        if ended is None:
            request.died = "is gone"
            return
        request.died, request.exit_code, request.memory_peak = str(ended), ended.code, ended.memory_peak
        if ended.out_of_memory:
            peak = f", {ended.memory_peak // MIB:,} MB at its peak" if ended.memory_peak else ""
            limit = self._process.limits.memory_mb
            # Read in a terminal, in Python and in JupyterLab.
            request.died += f" (limit {limit:,} MB{peak}; more is a setting of nbagent's: memory_mb, or --memory)"
