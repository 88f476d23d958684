"""The objects that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nbagent.core.errors import NbagentError
from nbagent.core.events import NO_USAGE, Answer, to_json
from nbagent.faces.cli.work import Ending
from nbagent.notebook.run import Run

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession


def show(value: Any) -> None:
    """Print an object on one line."""
    print(to_json(value).decode())


def refused(command: str, error: NbagentError) -> None:
    """Print the object of a command that failed before it began: its options are wrong, or nbagent itself failed."""
    ended = Ending(error=error)
    if command in ("run", "demo"):
        show(answered(None, ended))
    elif command == "exec":
        show(executed(Run(()), ended, seconds=0.0))
    else:
        show(_ending(ended))


def answered(answer: Answer | None, ended: Ending) -> dict[str, Any]:
    """What `run` and `demo` print."""
    session: AnySession | None = ended.session
    # A turn that failed has no answer, but what it did is not lost.
    found = answer or (session.unfinished if session else None)
    stopped = NbagentError("It was stopped.") if ended.stopped else None
    cells = found.cells if found else []
    return {
        "success": bool(answer and answer.success),
        **({"unsupported": answer.unsupported} if answer and answer.unsupported else {}),
        **({"derived": answer.derived} if answer and answer.derived else {}),
        "answer": answer.text if answer else "",
        **({"alternatives": answer.alternatives} if answer and answer.alternatives else {}),
        "claims": answer.claims if answer else [],
        **({"check": answer.check} if answer and answer.check else {}),
        "notebook": str(ended.notebook) if ended.notebook else None,
        "cells": [{**msgspec.structs.asdict(each), "execution_time": round(each.duration, 4)} for each in cells],
        "installed": found.installed if found else [],
        "files": found.files if found else [],
        "attempts": found.attempts if found else 0,
        "usage": found.usage if found else NO_USAGE,
        "engine": (session.engine or None) if session else None,
        "trust": session.trust if session else None,
        **({"isolation": session.isolation} if session and session.isolation else {}),
        "replay": session.is_replay if session else False,
        **_ending(ended, stopped),
    }


def executed(run: Run, ended: Ending, *, seconds: float) -> dict[str, Any]:
    """What `exec` prints; `seconds` stands for the time where no cell ran."""
    notes = " ".join(cell.note for cell in run.cells if cell.note)
    return {
        "status": "failed" if ended.error else "interrupted" if ended.stopped else run.status,
        "outputs": [output for cell in run.cells for output in cell.outputs],
        "execution_time": round(sum(cell.duration for cell in run.cells) or seconds, 4),
        "state": "lost" if any(cell.state_lost for cell in run.cells) else "kept",
        **({"skipped": run.skipped} if run.skipped else {}),
        **({"note": notes} if notes else {}),
        **_ending(ended),
    }


def _ending(ended: Ending, instead: NbagentError | None = None) -> dict[str, Any]:
    """What went wrong, if anything did."""
    error = ended.error or instead
    failure = {"error": str(error)} if error else {}
    return failure | ({"not_delivered": ended.left} if ended.left else {})
