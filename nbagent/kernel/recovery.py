"""Replaces a kernel that was lost, restores its state if that is wanted, and says in a cell's note what was lost.

A loss stands in one note: that of the cell that caused it, or of the next cell if it happened between two. A lost
kernel is replaced at once, but after `MAX_RESTARTS` deaths in a row only when somebody runs a cell again.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping

from nbagent.core.errors import KernelDied, NbagentError
from nbagent.core.events import StateLost
from nbagent.core.policy import TrustLevel
from nbagent.kernel.cell_replay import CellReplay
from nbagent.kernel.execution import ExecuteRequest, StopReason
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import Evaluate, QueryClient
from nbagent.kernel.router import Notify, Router

MAX_RESTARTS = 3
"""Kernels that may die in a row, without a cell that succeeds in between."""

_STOPPED: dict[StopReason, str] = {"timeout": "It ran longer than its limit", "interrupted": "It was stopped"}
LOST_NOTE = "Variables, imports and files of the sandbox are lost."
LOST_UNISOLATED_NOTE = "Variables and imports are lost."
KEPT_NOTE = "It was connected to again; variables are kept."


Prepare = Callable[[Mapping[int, str], Evaluate], Awaitable[None]]
"""Puts into a new kernel what cells need that run again in it. It gets the code of each by its number, and the way to
call the kernel, which is busy to everybody else."""


class Recovery:
    """Replaces lost kernels.

    Attributes:
        prepare: Called before cells are replayed.
    """

    def __init__(
        self, process: KernelProcess, queries: QueryClient, router: Router, notify: Notify, *, replay: CellReplay | None
    ) -> None:
        self._process = process
        self._queries = queries
        self._router = router
        self._notify = notify
        self._replay = replay
        self._deaths = 0
        self._untold = ""
        self._restored = ""
        self._is_restoring = False
        self.prepare: Prepare | None = None

    # -- before a cell ------------------------------------------------------------------------------------------

    async def ensure_alive(self, cell: int) -> None:
        """Replace a kernel that ended before this cell; no cell is blamed. Of a request that runs no cell, it is 0."""
        if not self._process.is_connected:
            await self._revive(cell)
        elif lost := await self._process.loss():
            if await self._is_kept():
                await self._process.replace()
                return
            self._untold = f"The kernel {lost} between two cells; its variables are lost."
            await self._replace(self._untold, cell=cell)

    async def _revive(self, cell: int) -> None:
        """Make one more attempt to start a kernel that died too often, since somebody needs it again."""
        reason = f"{self._process.end_reason or 'The kernel had died.'} {self._lost_note}"
        try:
            await self._replace(reason, cell=cell)
        except NbagentError as error:
            if not self._process.is_owned:
                raise
            raise KernelDied(
                f"The kernel died {self._deaths} times in a row and could not be restarted: {error}"
            ) from error
        self._untold = reason

    @property
    def _lost_note(self) -> str:
        """What went with the kernel; files stay of one that runs as the person."""
        process = self._process
        in_sandbox = process.is_owned or process.spec.trust.level != TrustLevel.TRUSTED
        return LOST_NOTE if in_sandbox else LOST_UNISOLATED_NOTE

    def take_untold(self) -> str:
        """Why the state of earlier cells is lost, if no cell's note has said so; empty otherwise."""
        lost, self._untold = self._untold, ""
        return lost

    # -- after a cell -------------------------------------------------------------------------------------------

    async def after(self, request: ExecuteRequest) -> None:
        """Note that a cell was stopped; if its kernel died, say so in its outputs and notes, and replace the kernel."""
        if not request.died:
            await self._after_survival(request)
            return
        if request.exit_code is None:
            # It is killed from here, while its sandbox can still tell how much memory it used.
            killed = -signal.SIGKILL if self._process.is_owned else None
            request.exit_code, request.memory_peak = killed, self._process.memory_peak()
        # First of all, so that no other cell finds it, whatever fails below.
        self._process.disconnect()
        reason = self._reason(request)
        content = {"ename": "KernelDied", "evalue": reason, "traceback": [f"KernelDied: {reason}"]}
        changes = request.outputs.add({"header": {"msg_type": "error"}, "content": content})
        self._router.show(request.cell, changes, during=request.cell)
        if await self._is_kept():
            request.notes.append(f"{reason} {KEPT_NOTE}")
            await self._process.replace()
            return
        self._deaths += 1
        request.state_lost = f"{reason} {self._lost_note}"
        request.notes.append(request.state_lost)
        if self._deaths <= MAX_RESTARTS:
            await self._replace(request.state_lost, cell=request.cell)
        else:
            await self._process.end()

    async def _after_survival(self, request: ExecuteRequest) -> None:
        if self._process.has_killed:
            limit = f"{self._process.limits.memory_mb:,} MB"
            request.notes.append(f"A program of it was killed: the sandbox ran out of memory (limit {limit}).")
        if request.left:
            request.notes.append(f"{_STOPPED[request.stopped or 'interrupted']} {request.left}.")
            return
        if request.status == "ok":
            self._deaths = 0
        if request.stopped and (request.reply or {}).get("status") != "ok":
            request.notes.append(f"{_STOPPED[request.stopped]}; variables are kept.")
            await self._queries.settle()
        elif request.stopped:
            request.notes.append(f"{_STOPPED[request.stopped]}, and went on to its end despite the interrupt.")

    async def _is_kept(self) -> bool:
        """Whether a kernel that can't be used any longer goes on, since it is not nbagent's to end."""
        return not self._process.is_owned and not await self._process.has_ended()

    def _reason(self, request: ExecuteRequest) -> str:
        if request.stopped:
            grace = self._process.limits.grace
            why = _STOPPED[request.stopped]
            return f"{why}, did not stop within {grace:g} s of the interrupt, and the kernel was killed."
        return f"The kernel {request.died}."

    def succeeded(self, cell: int, code: str) -> None:
        """Remember a cell that succeeded, since it made a part of the kernel's state."""
        if self._replay is not None:
            self._replay.add(cell, code)

    def take_restored(self) -> str:
        """Sentences on what was restored since the last call."""
        restored, self._restored = self._restored, ""
        return restored

    # -- another kernel -----------------------------------------------------------------------------------------

    async def restart(self, reason: str, *, cell: int) -> None:
        """Replace the kernel on purpose, and don't restore its state."""
        if self._replay is not None:
            self._replay.forget()
        await self._replace(reason, cell=cell)

    async def rebuild(self, cells: Mapping[int, str], reason: str, *, prepare: Prepare) -> None:
        """Replace the kernel on purpose, and run these cells again in the new one; the next cell's note says so."""
        replay = self._replay or CellReplay()
        replay.seed(cells)
        self._untold = reason
        await self._replace(reason, cell=0, replay=replay, prepare=prepare)

    async def _replace(
        self, reason: str, *, cell: int, replay: CellReplay | None = None, prepare: Prepare | None = None
    ) -> None:
        # The event comes first: if this process is killed, whoever takes over the new kernel knows of the loss.
        self._notify(StateLost(cell=cell, reason=reason))
        await self._process.replace()
        self._router.forget()
        replay, prepare = replay or self._replay, prepare or self.prepare
        if replay is not None and prepare is not None:
            await prepare(replay.cells, self._queries.call)
        await self._restore(cell, replay)

    def interrupt(self) -> bool:
        """Stop the cell that is run again, and run no further one. Returns whether one was."""
        if self._is_restoring and self._process.is_connected:
            self._process.interrupt()
            return True
        return False

    async def _restore(self, cell: int, replay: CellReplay | None) -> None:
        """Run the lost kernel's cells again, if that is wanted; the note of the cell that ends next says so."""
        if replay is None:
            return
        self._is_restoring = True
        try:
            restored = await replay.run(self._queries.rerun, cell=cell, seconds=self._process.limits.timeout)
        finally:
            self._is_restoring = False
        if restored is None:
            return
        self._notify(restored)
        if not self._process.is_connected:
            # It did not survive that. Start one more, and run nothing in it.
            await self.restart("The kernel died when cells were run again.", cell=cell)
        self._restored = restored.text
