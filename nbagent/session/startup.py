"""Starts the kernel of a new session, or resumes a session whose process is gone, by its log and its kernel."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbagent import __version__
from nbagent.core.errors import SandboxError
from nbagent.core.events import (
    Answered,
    CellFinished,
    CellStarted,
    DataSeen,
    Record,
    SessionResumed,
    SessionStarted,
    StateLost,
)
from nbagent.core.journal import Journal
from nbagent.kernel.cell_replay import SucceededCells
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.sandbox.data.tree import facts
from nbagent.sandbox.spec import SandboxSpec, size_of
from nbagent.session import saved
from nbagent.session.index import SessionInfo

if TYPE_CHECKING:
    from nbagent.kernel.pool.pool import KernelPool

GONE = "The process that ran nbagent ended while this cell was running; what it printed after that is not known."
"""The note of a cell whose end nobody saw."""


async def side_by_side(start: Awaitable[object], opening: asyncio.Task[object] | None) -> None:
    """Start the kernel while `opening` opens the model; if both fail, the model's error is raised."""
    starting = asyncio.ensure_future(start)
    try:
        if opening is not None:
            await opening
        await starting
    except BaseException:
        starting.cancel()
        with contextlib.suppress(BaseException):
            await starting
        raise


def import_the_rest() -> None:
    """Import what a session needs once its kernel answers: called while that starts."""
    from nbagent.session import cells, conversation, files  # noqa: F401


async def start(
    kernel: Kernel, *, spec: SandboxSpec, journal: Journal, recording: Recording, pool: KernelPool | None
) -> list[Record]:
    """Start the kernel of a new session, or take a warm one.

    Returns:
        Which data is not shown to the code, as events that nobody could follow yet.

    Raises:
        SandboxError: It can't be started.
        StoreError: The session's folder can't be written.
    """
    journal.follow(recording.on_event)
    saved.write_spec(journal.folder, spec)
    started = time.monotonic()
    await (pool.start(kernel) if pool else kernel.start(import_the_rest))
    journal.emit(_started(kernel, spec, seconds=time.monotonic() - started))
    return [journal.emit(event) for event in facts(kernel.about.left_out)]


def _started(kernel: Kernel, spec: SandboxSpec, *, seconds: float) -> SessionStarted:
    about = kernel.about
    return SessionStarted(
        session=spec.owner,
        engine=kernel.engine.name,
        trust=spec.trust.level.value,
        environment=about.environment,
        python=kernel.python,
        nbagent=__version__,
        data=[DataSeen(about.data_path(each), str(each.source), size_of(each.source)) for each in spec.data],
        sandbox=about.name,
        limits=asdict(spec.trust.limits),
        machine=kernel.machine,
        security=spec.trust.options(),
        accepted=sorted(spec.accept),
        packages=kernel.packages,
        seconds=seconds,
    )


async def resume(
    kernel: Kernel, found: SessionInfo, *, journal: Journal, recording: Recording
) -> tuple[list[Record], str]:
    """Read the log, take over the kernel or start a new one, and end in the log what the dead process left open.

    Returns:
        What this found out, as events that nobody could follow yet; and what has become of the kernel, as a sentence.

    Raises:
        SandboxError: No sandbox can be started in place of its own.
    """
    running_since, succeeded = 0.0, SucceededCells()
    news: list[Record] = []  # a loss of variables after which no cell ran
    for record in journal.since():
        recording.on_event(record)
        succeeded.on_event(record)
        running_since = record.at if isinstance(record.event, CellStarted) else running_since
        if isinstance(record.event, StateLost):
            news = [record]
        elif isinstance(record.event, CellStarted | CellFinished | SessionResumed):
            news = []
    journal.follow(recording.on_event)
    kernel.cells = max((each.cell for each in recording.cells), default=0)
    left = kernel.spec.trust.limits.timeout - (time.time() - running_since)

    def lose(reason: str) -> None:
        _end_what_is_open(journal, recording)
        news[:] = [journal.emit(StateLost(cell=0, reason=reason))]

    lost, note = await _take_over_or_start(kernel, found, patience=max(0.0, left) if running_since else 0.0, lose=lose)
    if not lost:
        for record in news:
            # The process that started this kernel was killed before it could log `SessionResumed`.
            lost, note = getattr(record.event, "reason", ""), "A new kernel was started before."
        kernel.seed_replay(succeeded.cells)
    _end_what_is_open(journal, recording)
    about = kernel.about
    resumed = SessionResumed(
        kept=not lost,
        note=note,
        engine=kernel.engine.name,
        environment=about.environment,
        python=kernel.python if lost else "",
        packages=kernel.packages if lost else [],
        sandbox=about.name,
    )
    return [journal.emit(resumed), *news], lost or note


def _end_what_is_open(journal: Journal, recording: Recording) -> None:
    for event in open_ends(recording):
        journal.emit(event)


def open_ends(recording: Recording) -> list[CellFinished | Answered]:
    """The events that end the cells and turns which a process left open when it died."""
    ends: list[CellFinished | Answered] = []
    for cell in recording.cells:
        if cell.status == "running":
            ends.append(
                CellFinished(
                    cell=cell.cell,
                    turn=cell.turn,
                    code=cell.code,
                    status="interrupted",
                    outputs=list(cell.outputs),
                    installed=cell.installed,
                    note=GONE,
                )
            )
    for asked in recording.questions:
        if asked.turn not in recording.answers:
            failed = sum(each.status != "ok" for each in recording.cells if each.turn == asked.turn)
            text = "nbagent's own process ended before the answer."
            ends.append(Answered(turn=asked.turn, text=text, success=False, attempts=1 + failed))
    return ends


async def _take_over_or_start(
    kernel: Kernel, found: SessionInfo, *, patience: float, lose: Callable[[str], None]
) -> tuple[str, str]:
    """Take over the kernel with its variables, or start a new one.

    Args:
        kernel: Not started yet.
        found: The session that is resumed.
        patience: Seconds that a cell which still runs has until it is interrupted.
        lose: Called with the reason before a new kernel starts.

    Returns:
        Why the variables are lost, or nothing; and a sentence for the log.
    """
    try:
        if found.sandbox is None:
            raise SandboxError("The sandbox has ended.")
        interrupted = await kernel.take_over(found.sandbox, patience=patience)
    except SandboxError as error:
        lost = f"{error.message} Variables, imports and files of the sandbox are lost."
        # Logged before there is another kernel: if this process is killed then, the next one takes over a new kernel.
        lose(lost)
        await kernel.start()
        return lost, "A new kernel was started."
    note = "Its kernel was taken over, with its variables."
    return "", f"{note} A cell that still ran was interrupted." if interrupted else note
