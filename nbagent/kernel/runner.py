"""Runs a cell from its beginning to its end, whatever its code does: the steps, and their order.

Make sure that there is a kernel; send the code and follow it; install a module that it misses, and have it go on;
replace a kernel that died; emit `CellFinished`. A caller that is cancelled stops the cell, whose end is emitted too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from nbagent.core.events import Cell, CellFinished, CellWaits, Output, OutputsCleared
from nbagent.core.policy import MIB, Network
from nbagent.core.quota import Quota
from nbagent.kernel.execution import CellJob, ExecuteRequest
from nbagent.kernel.installs import KernelInstaller
from nbagent.kernel.outputs.limits import within
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.recovery import Recovery
from nbagent.kernel.router import Notify, Router
from nbagent.kernel.timeout import TimedRequests
from nbagent.sandbox.inside.magics_inside import DONE

MAX_INSTALLS = 10
"""Modules that one cell may have installed."""
MAX_DROPPED = 5
"""Times that a cell's request may be dropped because another client's cell failed."""
MOST_LOOKED_AT = 20
"""Outputs at a cell's end in which it is looked for a host that was not reached."""
MOST_READ = 10_000
"""Characters of the end of each that are read."""
_UNREACHED: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|No route to host|dns error|"
    r"Could not resolve host|unable to resolve host",
    re.IGNORECASE,
)
"""What code, libraries and programs say where there is no network."""
NO_NETWORK: Final = (
    "The sandbox has no network. A new session reaches the hosts that allow_hosts lists: --allow-host HOST on a "
    "command line, or Hosts in JupyterLab's settings of nbagent."
)
"""The note of a cell whose code wanted to reach a host."""


class Runner:
    """Runs cells; the caller sees to it that it is one at a time."""

    def __init__(
        self,
        process: KernelProcess,
        router: Router,
        *,
        requests: TimedRequests,
        installs: KernelInstaller,
        recovery: Recovery,
        notify: Notify,
        quota: Quota | None = None,
    ) -> None:
        self._process = process
        self._router = router
        self._requests = requests
        self._installs = installs
        self._recovery = recovery
        self._notify = notify
        self._quota = quota
        self._job: CellJob | None = None

    @property
    def is_running(self) -> bool:
        """Whether a cell runs."""
        return self._job is not None

    def interrupt(self) -> bool:
        """Stop the cell that runs: interrupt, grace, kill. Returns whether one was running."""
        if self._job is not None:
            self._job.stop = "interrupted"
        return self._job is not None

    async def run(self, job: CellJob) -> Cell:
        """Run a cell to its end."""
        self._job = job
        try:
            await self._recovery.ensure_alive(job.cell)
            job.state_lost = self._recovery.take_untold()
            request = await self._run_code(job)
            return await self._recover(request, job)
        finally:
            self._job = None

    # -- its code -----------------------------------------------------------------------------------------------

    async def _run_code(self, job: CellJob) -> ExecuteRequest:
        """Run the code; while it misses a module that can be installed, install it, and go on or run it again."""
        for _ in range(MAX_INSTALLS):
            request = await self._execute(job)
            module = request.missing_module(job.code)
            if module is None or not await self._install(job, request, module):
                return request
            self._notify(OutputsCleared(cell=job.cell))
            if job.shown:
                self._router.show(job.cell, job.shown.without_error(), during=job.cell)
        return await self._execute(job)

    async def _execute(self, job: CellJob) -> ExecuteRequest:
        await self._requests.catch_up()
        if job.stop:
            return self._requests.unsent(job)
        if not self._process.is_owned:
            return await self._execute_among_others(job)
        return await self._send(job)

    async def _execute_among_others(self, job: CellJob) -> ExecuteRequest:
        """Run the code in a kernel that others use, too, once it is free; again, if a cell of theirs took it along."""
        for _ in range(MAX_DROPPED):
            try:
                is_free = await self._requests.wait_for_others(job, lambda: self._notify(CellWaits(cell=job.cell)))
            except BaseException:
                # The caller was cancelled, or `notify` raised: the cell has begun for everybody who follows.
                await self._recover(self._requests.unsent(job), job)
                raise
            if not is_free:
                return self._requests.unsent(job)
            request = await self._send(job)
            if not request.was_dropped:
                break
        return request

    async def _send(self, job: CellJob) -> ExecuteRequest:
        request = self._requests.send(job)
        try:
            await self._requests.wait(request, job)
        except BaseException:
            # The caller was cancelled, or `notify` raised: either way the code must not go on running.
            await self._give_up(request, job)
            raise
        return request

    async def _install(self, job: CellJob, request: ExecuteRequest, module: str) -> bool:
        """Install the module that the code missed; returns whether to run the code again."""
        try:
            added, done, refusal = await self._installs.install_missing(job.cell, module)
        except BaseException:
            request.stopped = "interrupted"
            self._finish(job, request)
            raise
        if refusal:
            job.notes.append(refusal)
        job.installed += added
        job.metadata[DONE], job.shown = done, request.outputs if done else None
        if added and job.stop:
            # Who interrupts during the install wants to stop the cell, so its code isn't run again.
            request.stopped = job.stop
        return bool(added) and not job.stop

    async def _give_up(self, request: ExecuteRequest, job: CellJob) -> None:
        """Stop a cell that nobody waits for any longer, and emit its end; the next one finds a kernel."""
        try:
            await self._requests.abandon(request, job)
            await self._recovery.after(request)
        except BaseException:
            # The kernel may still run that code, so the next cell gets a new one.
            self._process.disconnect()
            request.died = request.died or "was given up, since it did not stop when interrupted"
            raise
        finally:
            request.stopped = "interrupted"
            self._finish(job, request)

    # -- its end ------------------------------------------------------------------------------------------------

    async def _recover(self, request: ExecuteRequest, job: CellJob) -> Cell:
        """Replace the kernel if it was lost; even if that fails, the cell's end is emitted."""
        try:
            await self._recovery.after(request)
        finally:
            cell = self._finish(job, request)
        return cell

    def _finish(self, job: CellJob, request: ExecuteRequest) -> Cell:
        """Emit the finished cell, and return it."""
        self._router.show(job.cell, list(request.outputs.withheld()), during=job.cell)
        self._router.flush()
        if request.status == "ok":
            self._recovery.succeeded(job.cell, job.code)
        job.report = request.report
        restored = self._recovery.take_restored()
        outputs, over = request.outputs.outputs(), ""
        if self._quota is not None:
            outputs, over = within(outputs, self._quota), self._quota.news()
        late = self._router.take_late()
        offline = NO_NETWORK if self._process.spec.trust.network is Network.NONE and is_unreached(outputs) else ""
        notes = [job.state_lost, *job.notes, *request.notes, offline, request.outputs.truncated, *late, restored, over]
        names = request.outputs.display_ids()
        finished = CellFinished(
            cell=job.cell,
            turn=job.turn,
            code=job.code,
            status=request.status,
            outputs=outputs,
            execution_count=request.execution_count,
            duration=time.monotonic() - job.started,
            note=" ".join(filter(None, notes)),
            installed=job.installed,
            state_lost=request.state_lost or job.state_lost,
            restored=restored,
            display_ids=names if any(names) else [],
            memory_peak=request.memory_peak if request.memory_peak is not None else self._process.memory_peak(),
            memory_limit=self._process.limits.memory_mb * MIB,
            exit_code=request.exit_code,
        )
        self._notify(finished)
        return finished


def is_unreached(outputs: Sequence[Output]) -> bool:
    """Whether a cell's last outputs say that a host was not reached."""
    said = (str(each.get("evalue") or each.get("text") or "")[-MOST_READ:] for each in outputs[-MOST_LOOKED_AT:])
    return any(map(_UNREACHED.search, said))
