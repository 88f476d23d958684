"""What becomes of a kernel that was stopped or lost, and of its state; who must be told, and when.

A loss is told once: with the cell that caused it, or with the next one if it happened between two cells. A kernel that
was lost is replaced at once, but only so often in a row; after that, when somebody runs a cell again.
"""

from __future__ import annotations

import signal

from nbagent.core.errors import KernelDied, NbagentError
from nbagent.core.events import StateLost
from nbagent.kernel.cell_replay import CellReplay
from nbagent.kernel.execution import Execution, Why
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import Queries
from nbagent.kernel.router import Notify, Router

MAX_RESTARTS = 3
"""Kernels that may die in a row without one cell having ended well in between."""

_WHY: dict[Why | None, str] = {"timeout": "It ran longer than its limit", "interrupted": "It was stopped", None: ""}
LOST = "Variables, imports and files of the sandbox are lost."


class Recovery:
    """Gets the kernel back, and what it knew if that is wanted.

    Args:
        process: The kernel's.
        queries: Its own requests to it.
        router: Shows a death in the cell that it happened to.
        notify: Gets the events.
        replay: The cells that are run again after a loss, if any are.
    """

    def __init__(
        self, process: KernelProcess, queries: Queries, router: Router, notify: Notify, *, replay: CellReplay | None
    ) -> None:
        self._process = process
        self._queries = queries
        self._router = router
        self._notify = notify
        self._replay = replay
        self._deaths = 0
        self._untold = ""
        self._restored = ""

    # -- before a cell ------------------------------------------------------------------------------------------

    async def ensure_alive(self, cell: int) -> None:
        """Replace a kernel that ended while no cell ran; no cell is to be blamed for it.

        Args:
            cell: Which one is about to run, 0 if it is none.

        Raises:
            SandboxError: There is none to be had.
        """
        if not self._process.is_connected:
            await self._revive(cell)
        elif lost := await self._process.loss():
            self._untold = f"The kernel {lost} between two cells; its variables are lost."
            await self._replace(self._untold, cell=cell)

    async def _revive(self, cell: int) -> None:
        """Bring back a kernel that died too often to be restarted by itself: once, because a person asked again.

        Raises:
            KernelDied: It did not come up.
        """
        reason = f"{self._process.gone or 'The kernel had died.'} {LOST}"
        try:
            await self._replace(reason, cell=cell)
        except NbagentError as error:
            raise KernelDied(
                f"The kernel died {self._deaths} times in a row and could not be restarted: {error}"
            ) from error
        self._untold = reason

    def take_untold(self) -> str:
        """Why the state of earlier cells is lost, if it is and no cell was told so far."""
        lost, self._untold = self._untold, ""
        return lost

    # -- after a cell -------------------------------------------------------------------------------------------

    async def after(self, run: Execution) -> None:
        """Note how a cell was stopped; replace a kernel that it cost, and say so in its outputs and notes.

        Raises:
            SandboxError: The kernel could not be replaced.
        """
        if not run.died:
            await self._after_life(run)
            return
        if run.exit_code is None:
            # It is this side that kills it. What it used can be asked for only as long as its sandbox is there.
            run.exit_code, run.memory_peak = -signal.SIGKILL, self._process.memory_peak()
        # Before anything else can fail: no other cell may find it.
        self._process.disconnect()
        reason = self._reason(run)
        content = {"ename": "KernelDied", "evalue": reason, "traceback": [f"KernelDied: {reason}"]}
        self._router.show(
            run.cell, run.outputs.add({"header": {"msg_type": "error"}, "content": content}), during=run.cell
        )
        self._deaths += 1
        run.state_lost = f"{reason} {LOST}"
        run.notes.append(run.state_lost)
        if self._deaths <= MAX_RESTARTS:
            await self._replace(run.state_lost, cell=run.cell)
        else:
            await self._process.end()

    async def _after_life(self, run: Execution) -> None:
        """The kernel lives: whether the cell had to be stopped for that is noted."""
        if run.status == "ok":
            self._deaths = 0
        if run.stopped and (run.reply or {}).get("status") != "ok":
            run.notes.append(f"{_WHY[run.stopped]} and was interrupted; variables are kept.")
            await self._queries.settle()
        elif run.stopped:
            run.notes.append(f"{_WHY[run.stopped]} and was interrupted, and went on to its end.")

    def _reason(self, run: Execution) -> str:
        if run.stopped:
            grace = self._process.limits.grace
            return f"{_WHY[run.stopped]}, did not stop within {grace:g} s of the interrupt, and the kernel was killed."
        return f"The kernel {run.died}."

    def succeeded(self, cell: int, code: str) -> None:
        """A cell succeeded: it is part of what the kernel's state is made of."""
        if self._replay is not None:
            self._replay.add(cell, code)

    def take_restored(self) -> str:
        """What was brought back since the last call, in sentences."""
        restored, self._restored = self._restored, ""
        return restored

    # -- another kernel -----------------------------------------------------------------------------------------

    async def restart(self, reason: str, *, cell: int) -> None:
        """Replace the kernel on purpose: its state is not wanted any more.

        Raises:
            SandboxError: The new one did not start.
        """
        if self._replay is not None:
            self._replay.forget()
        await self._replace(reason, cell=cell)

    async def _replace(self, reason: str, *, cell: int) -> None:
        """Replace a kernel that was lost, and restore what can be."""
        # Before there is another kernel: if this process is killed, whoever takes that over has none of the state.
        self._notify(StateLost(cell=cell, reason=reason))
        await self._process.replace()
        self._router.forget()
        await self._restore(cell)

    async def _restore(self, cell: int) -> None:
        """Run again what the lost kernel had run, if that is wanted; it is told with the cell that ends next."""
        if self._replay is None:
            return
        seconds = self._process.limits.timeout
        restored = await self._replay.run(self._queries.rerun, cell=cell, seconds=seconds)
        if restored is None:
            return
        self._notify(restored)
        if not self._process.is_connected:
            # It did not survive that. Once more, and this time without.
            await self.restart("The kernel died when cells were run again.", cell=cell)
        self._restored = restored.told
