"""What a session leaves for who goes on with it: what its sandbox was, and the ends of what it left open."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from nbagent.core.errors import UsageError
from nbagent.core.events import Answered, CellFinished
from nbagent.core.fileio import save
from nbagent.notebook.record import Recording
from nbagent.sandbox.leases import lease
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.index import Known

SPEC = "sandbox.json"
GONE = "The process that ran nbagent ended while this cell was running; what it printed after that is not known."


def write_spec(folder: Path, spec: SandboxSpec) -> None:
    """Keep what a session's sandbox is, for who goes on with it.

    Raises:
        StoreError: It can't be written.
    """
    save(folder / SPEC, lease.ENCODER.encode(spec))


def read_spec(session: Known) -> SandboxSpec:
    """What a session's sandbox was to be.

    Raises:
        UsageError: That isn't known: the session is of another version of nbagent, or never came to its start.
    """
    try:
        return msgspec.json.decode((session.folder / SPEC).read_bytes(), type=SandboxSpec, dec_hook=lease.decode)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"The session {session.id} can't be gone on with: {error}.",
            mend=f"Its log is intact, in {session.folder}.",
        ) from error


def loose_ends(recording: Recording) -> list[CellFinished | Answered]:
    """The events that end what a process left open when it died: the log tells of each cell and turn how it ended."""
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


def age(seconds: float) -> str:
    """A time ago in words: `3 minutes ago`."""
    passed = max(0.0, time.time() - seconds)
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if passed >= length:
            count = int(passed // length)
            return f"{count} {name}{'s' if count != 1 else ''} ago"
    return "just now"
