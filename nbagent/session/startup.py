"""How a session comes to its kernel: a new one, or that of a session whose process is gone, with what its log says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbagent import __version__
from nbagent.core.errors import SandboxError
from nbagent.core.events import CellFinished, CellStarted, DataSeen, Record, SessionResumed, SessionStarted, StateLost
from nbagent.core.journal import Journal
from nbagent.kernel.cell_replay import Succeeded
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.sandbox.data.tree import facts
from nbagent.sandbox.spec import SandboxSpec, size_of
from nbagent.session import saved
from nbagent.session.index import Known

if TYPE_CHECKING:
    from nbagent.kernel.pool.pool import KernelPool


async def side_by_side(start: Awaitable[object], opening: asyncio.Task[object] | None) -> None:
    """Start the kernel while the model is opened in `opening`; if both fail, the model's error is raised."""
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
    """Import what a session needs as soon as its kernel answers, and not before."""
    from nbagent.session import cells, conversation, files  # noqa: F401


async def start(
    kernel: Kernel, *, spec: SandboxSpec, journal: Journal, recording: Recording, pool: KernelPool | None
) -> list[Record]:
    """Start the kernel of a new session, or take a warm one.

    Returns:
        What of the data is not shown, as events that nobody could follow yet.

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
        security=spec.trust.options(),
        accepted=sorted(spec.accept),
        seconds=seconds,
    )


async def take_up(kernel: Kernel, found: Known, *, journal: Journal, recording: Recording) -> tuple[list[Record], str]:
    """Read the log, get the kernel back, or a new one, and end what was left open in the log.

    Returns:
        What this found out, as events that nobody could follow yet; and what has become of the kernel, in words.

    Raises:
        SandboxError: No sandbox can be started in place of its own.
    """
    running_since, succeeded = 0.0, Succeeded()
    news: list[Record] = []  # a loss that nobody was told of yet
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
        _tie_up(journal, recording)
        news[:] = [journal.emit(StateLost(cell=0, reason=reason))]

    lost, note = await _get_back(kernel, found, patience=max(0.0, left) if running_since else 0.0, lose=lose)
    if not lost:
        for record in news:
            # The process that started this kernel was killed before it could say that it is another one.
            lost, note = getattr(record.event, "reason", ""), "A new kernel was started before."
        kernel.seed_replay(succeeded.cells)
    _tie_up(journal, recording)
    about = kernel.about
    resumed = SessionResumed(
        kept=not lost,
        note=note,
        engine=kernel.engine.name,
        environment=about.environment,
        sandbox=about.name,
    )
    return [journal.emit(resumed), *news], lost or note


def _tie_up(journal: Journal, recording: Recording) -> None:
    for event in saved.loose_ends(recording):
        journal.emit(event)


async def _get_back(kernel: Kernel, found: Known, *, patience: float, lose: Callable[[str], None]) -> tuple[str, str]:
    """The kernel with its variables, or a new one; returns why they are lost, or nothing, and what to tell."""
    try:
        if found.sandbox is None:
            raise SandboxError("The sandbox has ended.")
        interrupted = await kernel.take_over(found.sandbox, patience=patience)
    except SandboxError as error:
        lost = f"{error.message} Variables, imports and files of the sandbox are lost."
        # Before there is another kernel: if this process is killed, whoever takes that over has none of them.
        lose(lost)
        await kernel.start()
        return lost, "A new kernel was started."
    note = "Its kernel was taken over, with its variables."
    return "", f"{note} A cell that still ran was interrupted." if interrupted else note
