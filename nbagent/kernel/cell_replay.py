"""Restores the state of a lost kernel by running the cells again that succeeded in it: `restore="replay"`.

The results may differ: a cell may read a clock, a random generator or a file that has changed. So people and models are
told which cells were run again. Cells that failed or were stopped the first time are not.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nbagent.core.events import CellFinished, CellStarted, Record, StateLost, StateRestored
from nbagent.sandbox.paths import VARIABLES

Execute = Callable[[str, float], Awaitable[dict[str, Any] | None]]
"""Runs code silently for at most so many seconds; returns the reply's content, or None if the kernel died."""
OUT_OF_TIME = {"status": "error", "ename": "no time was left"}
"""Stands for the reply of a cell that took too long."""


class CellReplay:
    """The cells that made the state of the present kernel.

    Attributes:
        cells: The code of each by its number, in order.
    """

    def __init__(self) -> None:
        self.cells: dict[int, str] = {}

    def add(self, cell: int, code: str) -> None:
        """Add a cell that succeeded."""
        self.cells[cell] = code

    def seed(self, cells: Mapping[int, str]) -> None:
        """Begin with cells that succeeded in the present kernel before it was taken over, by number, in order."""
        self.cells = dict(cells)

    def forget(self) -> None:
        """Forget all cells, since the kernel was replaced on purpose."""
        self.cells.clear()

    async def run(self, execute: Execute, *, cell: int, seconds: float) -> StateRestored | None:
        """Run the cells again in order, up to the first that fails; that one and those after it are forgotten.

        All together may take `seconds`; `cell` is the one that the kernel was lost with.

        Returns:
            What was done; None if there are no cells.
        """
        started = time.monotonic()
        waiting = list(self.cells.items())
        if not waiting:
            return None
        done: list[int] = []
        failed, reason = 0, ""
        for number, code in waiting:
            left = seconds - (time.monotonic() - started)
            reply = await execute(code, left) if left > 0 else OUT_OF_TIME
            if reply is None or reply.get("status") != "ok":
                failed, reason = number, _why(reply, code)
                break
            done.append(number)
        self.cells = {number: code for number, code in waiting if number in done}
        skipped = [number for number, _ in waiting if number not in done and number != failed]
        took = time.monotonic() - started
        told = _summary(done, failed, reason, skipped, took)
        return StateRestored(
            cell=cell, cells=done, failed=failed, skipped=skipped, reason=reason, seconds=took, text=told
        )


class SucceededCells:
    """Follows a session's log for the cells that made the state of its present kernel. Pure.

    Attributes:
        cells: The code of each by its number, in order.
        known: That of all that ever succeeded.
    """

    def __init__(self) -> None:
        self.cells: dict[int, str] = {}
        self.known: dict[int, str] = {}
        self._code: dict[int, str] = {}

    def on_event(self, record: Record) -> None:
        """Take in the next record."""
        match record.event:
            case CellStarted(cell=number, code=code):
                # One cell runs at a time, so that the code of earlier ones isn't needed any longer.
                self._code = {number: code}
            case CellFinished(cell=number, status="ok") if number in self._code:
                self.cells[number] = self.known[number] = self._code[number]
            case StateLost():
                self.cells = {}
            case StateRestored(cells=numbers):
                self.cells |= {number: self.known[number] for number in numbers if number in self.known}


def _why(reply: dict[str, Any] | None, code: str) -> str:
    if reply is None:
        return "the kernel died of it"
    if f"{VARIABLES}/" in code and reply.get("ename") == "FileNotFoundError":
        return "it read a variable of a notebook's, which went with the kernel: give it again"
    return ": ".join(str(each)[:200] for each in (reply.get("ename"), reply.get("evalue")) if each) or "it failed"


def _summary(done: Sequence[int], failed: int, reason: str, skipped: Sequence[int], seconds: float) -> str:
    parts = []
    if done:
        parts.append(
            f"{_names(done)} succeeded before and {'was' if len(done) == 1 else 'were'} run again in the new kernel "
            f"({seconds:.1f} s): what {'it defines' if len(done) == 1 else 'they define'} is there again."
        )
    if failed:
        parts.append(f"Cell {failed} succeeded before, but not when it was run again ({reason}).")
    if skipped:
        parts.append(f"{_names(skipped)} {'was' if len(skipped) == 1 else 'were'} not run again.")
    if failed:
        parts.append("What only these define is gone.")
    return " ".join(parts)


def _names(cells: Sequence[int]) -> str:
    if len(cells) == 1:
        return f"Cell {cells[0]}"
    return f"Cells {', '.join(map(str, cells[:-1]))} and {cells[-1]}"
