"""Runs a session's cells, one after the other, and collects what each of them left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.events import Cell, Event, Package, WidgetState
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.session.files import SessionFiles


@dataclass
class Work:
    """What was run for one question so far.

    Attributes:
        turn: The question's number.
        cells: The cells, in order; also one that was given up.
        files: What they left in /tmp/output, on the host.
        installed: Packages that were asked for beside the cells.
    """

    turn: int
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    installed: list[Package] = field(default_factory=list)


class Cells:
    """The cells of one session, whoever runs them.

    Args:
        kernel: The session's, started.
        files: Collects what a cell left in /tmp/output.
        recording: The session so far.
        emit: Gets the events.
        alone: Held while a cell runs, and while files move.
    """

    def __init__(
        self,
        kernel: Kernel,
        files: SessionFiles,
        *,
        recording: Recording,
        emit: Callable[[Event], object],
        alone: asyncio.Lock,
    ) -> None:
        self._kernel = kernel
        self._files = files
        self._recording = recording
        self._emit = emit
        self._alone = alone

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's own
        work: Work | None = None,
        **who: str,
    ) -> Cell:
        """Run a cell to its end.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; None for the session's limit.
            work: The question that it runs for, to which it is added.
            who: Which tool ran it, and who approved of that, for the log.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
        # Its files are collected before the next cell runs, and belong to it alone.
        async with self._alone:
            return await self._run(code, timeout=timeout, work=work, who=who)

    async def _run(self, code: str, *, timeout: float | None, work: Work | None, who: dict[str, str]) -> Cell:  # noqa: ASYNC109
        turn = work.turn if work else 0
        saved: list[Path] = []
        try:
            cell = await self._kernel.run(code, timeout=timeout, turn=turn, metadata=self._files.metadata(), **who)
        except BaseException:
            last = self._recording.cells[-1:]
            if work and last and last[0].turn == turn:
                # What it did before it was given up belongs to the turn too.
                work.cells.append(last[0])
            raise
        if self._kernel.is_alive:
            cell, saved = await self._files.collect(cell)
        if (state := self._kernel.take_widget_state()) is not None:
            self._emit(WidgetState(state=state))
        if work:
            work.files += saved
            work.cells.append(cell)
        return cell
