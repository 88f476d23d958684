"""Brings back what a lost kernel knew, by running the cells that succeeded again: `restore="replay"`.

It is a second run, not a memory: what a cell takes from a clock, a random generator or a file that has changed comes
out anew. So it is told which cells were run again; what failed or was stopped the first time never is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nbagent.core.events import CellFinished, CellStarted, Record, StateLost, StateRestored

Execute = Callable[[str, float], Awaitable[dict[str, Any] | None]]
"""Runs code silently, at most so many seconds: the reply's content, or None if the kernel did not live to give one."""


OUT_OF_TIME = {"status": "error", "ename": "no time was left"}
"""What is said of a cell that took too long."""


class CellReplay:
    """The cells that the present kernel's state is made of."""

    def __init__(self) -> None:
        self._cells: dict[int, str] = {}

    def add(self, cell: int, code: str) -> None:
        """Note a cell that succeeded."""
        self._cells[cell] = code

    def seed(self, cells: Mapping[int, str]) -> None:
        """Begin with cells that another process ran in the present kernel, by their numbers, in order."""
        self._cells = dict(cells)

    def forget(self) -> None:
        """Begin anew: the kernel was replaced on purpose, or what its state was made of is not there any more."""
        self._cells.clear()

    async def run(self, execute: Execute, *, cell: int, seconds: float) -> StateRestored | None:
        """Run the cells again in their order, up to the first that fails; what comes after it is forgotten.

        Args:
            execute: Runs one of them.
            cell: During which cell this happens.
            seconds: How long all of them may take.

        Returns:
            What was done; None if there was nothing to do.
        """
        started = time.monotonic()
        waiting = list(self._cells.items())
        if not waiting:
            return None
        done: list[int] = []
        failed, reason = 0, ""
        for number, code in waiting:
            left = seconds - (time.monotonic() - started)
            reply = await execute(code, left) if left > 0 else OUT_OF_TIME
            if reply is None or reply.get("status") != "ok":
                failed, reason = number, _why(reply)
                break
            done.append(number)
        self._cells = {number: code for number, code in waiting if number in done}
        skipped = [number for number, _ in waiting if number not in done and number != failed]
        took = time.monotonic() - started
        told = _told(done, failed, reason, skipped, took)
        return StateRestored(
            cell=cell, cells=done, failed=failed, skipped=skipped, reason=reason, seconds=took, told=told
        )


class Succeeded:
    """Folds a log into the cells that the present kernel's state is made of. Pure: records in, `cells` out.

    Attributes:
        cells: The code of each by its number, in order.
    """

    def __init__(self) -> None:
        self.cells: dict[int, str] = {}
        self._lost: dict[int, str] = {}
        self._code: dict[int, str] = {}

    def on_event(self, record: Record) -> None:
        """Take in the next record."""
        match record.event:
            case CellStarted(cell=number, code=code):
                # One cell runs at a time, so there is no other whose code is of use any more.
                self._code = {number: code}
            case CellFinished(cell=number, status="ok") if number in self._code:
                self.cells[number] = self._code[number]
            case StateLost():
                self._lost, self.cells = self.cells, {}
            case StateRestored(cells=numbers):
                self.cells |= {number: self._lost[number] for number in numbers if number in self._lost}


def _why(reply: dict[str, Any] | None) -> str:
    if reply is None:
        return "the kernel died of it"
    return ": ".join(str(each)[:200] for each in (reply.get("ename"), reply.get("evalue")) if each) or "it failed"


def _told(done: Sequence[int], failed: int, reason: str, skipped: Sequence[int], seconds: float) -> str:
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
