"""Runs a cell from its beginning to its end, whatever its code does: the order of things.

See that there is a kernel; send the code and follow it; install a module that it misses, and send it again; get back a
kernel that it cost; tell how it ended. Whoever gives up on a cell meanwhile stops it, and its end is told all the same.
"""

from __future__ import annotations

import time

from nbagent.core.events import Cell, CellFinished, OutputsCleared
from nbagent.core.policy import MIB
from nbagent.core.quota import Quota
from nbagent.kernel.execution import Execution, Job
from nbagent.kernel.follow import Follower
from nbagent.kernel.installs import Installs
from nbagent.kernel.outputs.outputs import within
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.recovery import Recovery
from nbagent.kernel.router import Notify, Router

MAX_INSTALLS = 10
"""Modules that one cell may have installed."""


class Runner:
    """Runs one cell at a time; the caller sees to that.

    Args:
        process: What runs it.
        router: Shows its outputs.
        follower: Runs its code once.
        installs: Get what it misses.
        recovery: Gets the kernel back.
        notify: Gets the events.
        quota: What of its outputs may be kept; None for all.
    """

    def __init__(
        self,
        process: KernelProcess,
        router: Router,
        *,
        follower: Follower,
        installs: Installs,
        recovery: Recovery,
        notify: Notify,
        quota: Quota | None = None,
    ) -> None:
        self._process = process
        self._router = router
        self._follower = follower
        self._installs = installs
        self._recovery = recovery
        self._notify = notify
        self._quota = quota
        self._job: Job | None = None

    @property
    def is_running(self) -> bool:
        """Whether a cell runs."""
        return self._job is not None

    def interrupt(self) -> bool:
        """Stop the cell that runs: interrupt, grace, kill. Returns whether one was running."""
        if self._job is not None:
            self._job.stop = "interrupted"
        return self._job is not None

    async def run(self, job: Job) -> Cell:
        """Run a cell to its end.

        Raises:
            SandboxError: There is no kernel to run it, or the one that it cost could not be replaced.
        """
        await self._recovery.ensure_alive(job.cell)
        job.state_lost = self._recovery.take_untold()
        self._job = job
        try:
            run = await self._attempt(job)
            return await self._recover(run, job)
        finally:
            self._job = None

    # -- its attempts -------------------------------------------------------------------------------------------

    async def _attempt(self, job: Job) -> Execution:
        """Run the code, and as long as a module is missing that can be had, install it and run it again."""
        for _ in range(MAX_INSTALLS):
            run = await self._execute(job)
            module = run.missing_module(job.code)
            if module is None or not await self._install(job, run, module):
                return run
            self._notify(OutputsCleared(cell=job.cell))
        return await self._execute(job)

    async def _execute(self, job: Job) -> Execution:
        await self._follower.catch_up()
        run = self._follower.send(job)
        try:
            await self._follower.follow(run, job)
        except BaseException:
            # The caller gave up, or a reader of the events failed: either way the code must not go on running.
            await self._give_up(run, job)
            raise
        return run

    async def _install(self, job: Job, run: Execution, module: str) -> bool:
        """Install what the code missed; returns whether it is to run again."""
        try:
            added, refusal = await self._installs.install_module(job.cell, module)
        except BaseException:
            run.stopped = "interrupted"
            self._finish(job, run)
            raise
        if refusal:
            job.notes.append(refusal)
        job.installed += added
        if added and job.stop:
            # Stopped while it was installed: what was wanted to stop is the cell, not its first attempt.
            run.stopped = job.stop
        return bool(added) and not job.stop

    async def _give_up(self, run: Execution, job: Job) -> None:
        """Stop a cell that nobody waits for any more, and tell how it ended; the next one finds a kernel."""
        try:
            await self._follower.abandon(run)
            await self._recovery.after(run)
        except BaseException:
            # It may still run that code: the next cell gets a new kernel.
            self._process.disconnect()
            run.died = run.died or "was given up, since it did not stop when interrupted"
            raise
        finally:
            run.stopped = "interrupted"
            self._finish(job, run)

    # -- its end ------------------------------------------------------------------------------------------------

    async def _recover(self, run: Execution, job: Job) -> Cell:
        """Get the kernel back if it was lost; even if that fails the cell has ended, and it is told how."""
        try:
            await self._recovery.after(run)
        finally:
            cell = self._finish(job, run)
        return cell

    def _finish(self, job: Job, run: Execution) -> Cell:
        """The finished cell, told and returned."""
        self._router.show(job.cell, list(run.outputs.withheld()), during=job.cell)
        self._router.flush()
        if run.status == "ok":
            self._recovery.succeeded(job.cell, job.code)
        job.report = run.report
        restored = self._recovery.take_restored()
        outputs, over = run.outputs.outputs(), ""
        if self._quota is not None:
            outputs, over = within(outputs, self._quota), self._quota.news()
        late = self._router.take_late()
        notes = [job.state_lost, *job.notes, *run.notes, run.outputs.truncated, *late, restored, over]
        names = run.outputs.display_ids()
        finished = CellFinished(
            cell=job.cell,
            turn=job.turn,
            code=job.code,
            status=run.status,
            outputs=outputs,
            execution_count=run.execution_count,
            duration=time.monotonic() - job.started,
            note=" ".join(filter(None, notes)),
            installed=job.installed,
            state_lost=run.state_lost or job.state_lost,
            restored=restored,
            display_ids=names if any(names) else [],
            memory_peak=run.memory_peak if run.memory_peak is not None else self._process.memory_peak(),
            memory_limit=self._process.limits.memory_mb * MIB,
            exit_code=run.exit_code,
        )
        self._notify(finished)
        return finished
