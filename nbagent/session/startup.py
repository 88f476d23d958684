"""Starts the kernel of a new session, or resumes a session whose process is gone, by its log and its kernel."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from nbagent import __version__
from nbagent.core import events
from nbagent.core.errors import SandboxError, StoreError
from nbagent.core.session_log import SessionLog
from nbagent.kernel.cell_replay import SucceededCells
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.sandbox.data import needs
from nbagent.sandbox.data.tree import facts
from nbagent.sandbox.spec import SandboxSpec, size_of
from nbagent.session.catalog import saved_spec
from nbagent.session.catalog.session_list import SessionInfo

if TYPE_CHECKING:
    from nbagent.kernel.pool.pool import KernelPool

OWNER_GONE_NOTE = (
    "The process that ran nbagent ended while this cell was running; what it printed after that is not known."
)
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
    from nbagent.session import conversation, session_kernel  # noqa: F401  (it imports what is about files)


async def start(kernel: Kernel, *, spec: SandboxSpec, log: SessionLog, pool: KernelPool | None) -> list[events.Record]:
    """Start the kernel of a new session, or take a warm one.

    Returns:
        Events that nobody could follow yet, and a person must see: the start in a kernel that somebody else started,
        and which data is not shown to the code.

    Raises:
        SandboxError: It can't be started.
        StoreError: The session's folder can't be written.
    """
    saved_spec.write_spec(log.folder, spec)
    started = time.monotonic()
    # As it is before the kernel sees it, so that each later change shows.
    looking = asyncio.create_task(asyncio.to_thread(_looked_at, spec))
    try:
        await (pool.start(kernel) if pool else kernel.start(import_the_rest))
    finally:
        looked = await looking
    begun = log.emit(_started(kernel, spec, looked, seconds=time.monotonic() - started))
    news = [begun] if kernel.about.isolation else []
    return news + [log.emit(event) for event in facts(kernel.about.left_out)]


def _looked_at(spec: SandboxSpec) -> list[tuple[int, str]]:
    """The size and state of each file and folder of the data."""
    return [(size_of(each.source), needs.state(each.source)) for each in spec.data]


async def hash_data(data: Sequence[events.DataSeen], log: SessionLog, *, ended: threading.Event) -> None:
    """Hash a new session's data in a thread, and log the hashes of what is as it was at the start."""

    def hashes() -> dict[str, str]:
        found = {}
        for each in data:
            digest = needs.digest(Path(each.source), ended=ended.is_set)
            if digest and each.state == needs.state(Path(each.source)):
                found[each.path] = digest
        return found

    if (found := await asyncio.to_thread(hashes)) and not ended.is_set():
        with contextlib.suppress(StoreError):  # nobody awaits this; the next cell's events say so
            log.emit(events.DataHashed(hashes=found))


def _started(
    kernel: Kernel, spec: SandboxSpec, looked: Sequence[tuple[int, str]], *, seconds: float
) -> events.SessionStarted:
    about = kernel.about
    return events.SessionStarted(
        session=spec.owner,
        engine=kernel.engine.name,
        trust=spec.trust.level.value,
        environment=about.environment,
        python=kernel.python,
        nbagent=__version__,
        data=[
            events.DataSeen(about.data_path(each), str(each.source), size, state)
            for each, (size, state) in zip(spec.data, looked, strict=True)
        ],
        plain_names=spec.plain_names,
        sandbox=about.name,
        limits=asdict(spec.trust.limits),
        machine=kernel.machine,
        security=spec.trust.options(),
        accepted=sorted(spec.accept),
        packages=kernel.packages,
        seconds=seconds,
        isolation=about.isolation,
        kernelspec=about.kernel_name or kernel.engine.kernel_name,
    )


class Past:
    """How the earlier processes of a session have left it, by its log.

    Attributes:
        decisions: The events by which approvals and redaction go on.
        lost: A loss of variables after which no cell ran; None if there is none.
        last_cell_at: When the last cell began, in seconds since the epoch; 0 if none did.
    """

    def __init__(self) -> None:
        self.decisions: list[events.Event] = []
        self.lost: events.Record | None = None
        self.last_cell_at = 0.0

    def on_event(self, record: events.Record) -> None:
        """Take the next record."""
        match record.event:
            case events.ApprovalAsked() | events.ApprovalGiven() | events.ApprovalsSet() | events.RedactionSet():
                self.decisions.append(record.event)
            case events.StateLost():
                self.lost = record
            case events.CellStarted():
                self.last_cell_at, self.lost = record.at, None
            case events.CellFinished() | events.SessionResumed():
                self.lost = None


async def resume(
    kernel: Kernel, found: SessionInfo, *, log: SessionLog, recording: Recording, succeeded: SucceededCells, past: Past
) -> tuple[list[events.Record], str]:
    """Take over the kernel or start a new one, and end in the log what the dead process left open.

    Returns:
        What this found out, as events that nobody could follow yet; and what has become of the kernel, as a sentence.

    Raises:
        SandboxError: No sandbox can be started in place of its own.
    """
    kernel.last_cell = max((each.cell for each in recording.cells), default=0)
    left = kernel.spec.trust.limits.timeout - (time.time() - past.last_cell_at) if past.last_cell_at else 0.0

    def lose(reason: str) -> None:
        _end_what_is_open(log, recording)
        past.lost = log.emit(events.StateLost(cell=0, reason=reason))

    lost, note = await _take_over_or_start(kernel, found, patience=max(0.0, left), lose=lose)
    if not lost:
        if past.lost is not None:
            # The process that started this kernel was killed before it could log `SessionResumed`.
            lost, note = getattr(past.lost.event, "reason", ""), "A new kernel was started before."
        kernel.seed_replay(succeeded.cells)
    _end_what_is_open(log, recording)
    about = kernel.about
    resumed = events.SessionResumed(
        kept=not lost,
        note=note,
        engine=kernel.engine.name,
        environment=about.environment,
        python=kernel.python if lost else "",
        packages=kernel.packages if lost else [],
        sandbox=about.name,
    )
    return [log.emit(resumed), *([past.lost] if past.lost else [])], lost or note


def _end_what_is_open(log: SessionLog, recording: Recording) -> None:
    for event in open_ends(recording):
        log.emit(event)


def open_ends(recording: Recording) -> list[events.CellFinished | events.Answered]:
    """The events that end the cells and turns which a process left open when it died."""
    ends: list[events.CellFinished | events.Answered] = []
    for cell in recording.cells:
        if cell.status == "running":
            ends.append(
                events.CellFinished(
                    cell=cell.cell,
                    turn=cell.turn,
                    code=cell.code,
                    status="interrupted",
                    outputs=list(cell.outputs),
                    installed=cell.installed,
                    note=OWNER_GONE_NOTE,
                )
            )
    for asked in recording.questions:
        if asked.turn not in recording.answers:
            failed = sum(each.status != "ok" for each in recording.cells if each.turn == asked.turn)
            text = "nbagent's own process ended before the answer."
            ends.append(events.Answered(turn=asked.turn, text=text, success=False, attempts=1 + failed))
    return ends


async def _take_over_or_start(
    kernel: Kernel, found: SessionInfo, *, patience: float, lose: Callable[[str], None]
) -> tuple[str, str]:
    """Take over the kernel, or start a new one; returns why variables are lost, if they are, and a note for the log."""
    if not kernel.is_owned:
        await kernel.start()
        return "", "Its kernel was connected to again; unless it was restarted meanwhile, it has its variables."
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
