"""The objects that `--json` prints, made of what a session returns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from nbagent.errors import NbagentError
from nbagent.events import NO_USAGE, Package
from nbagent.faces.cli.work import Ended
from nbagent.kernel.cell import Cell
from nbagent.notebook.run import Run
from nbagent.session.answer import Answer

if TYPE_CHECKING:
    from nbagent.session.session import Session


def show(value: Any) -> None:
    """Print an object on one line."""
    # Text from a sandbox or a file's name may hold half a surrogate pair, which UTF-8 can't.
    print(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode())


def refused(command: str, error: NbagentError) -> None:
    """Print the object of a command that never began, because its options are wrong or nbagent itself failed."""
    ended = Ended(error=error)
    if command in ("run", "demo"):
        show(answered(None, ended))
    elif command == "exec":
        show(executed(Run(()), ended, seconds=0.0))
    else:
        show(_ending(ended))


def answered(answer: Answer | None, ended: Ended) -> dict[str, Any]:
    """What `run` and `demo` print."""
    session: Session | None = ended.session
    # A turn that failed has no answer, but what it did is not lost.
    found = answer or (session.unfinished if session else None)
    stopped = NbagentError("It was stopped.") if ended.stopped else None
    return {
        "success": bool(answer and answer.success),
        "answer": answer.text if answer else "",
        "claims": msgspec.to_builtins(answer.claims) if answer else [],
        "notebook": str(ended.notebook) if ended.notebook else None,
        "cells": [_cell(cell) for cell in found.cells] if found else [],
        "installed": [_package(package) for package in found.installed] if found else [],
        "files": [str(path) for path in found.files] if found else [],
        "attempts": found.attempts if found else 0,
        "usage": _usage(found),
        "engine": (session.engine or None) if session else None,
        "trust": session.trust if session else None,
        "replay": session.is_replay if session else False,
        **_ending(ended, stopped),
    }


def executed(run: Run, ended: Ended, *, seconds: float) -> dict[str, Any]:
    """What `exec` prints; `seconds` is what it took where no cell says."""
    notes = " ".join(cell.note for cell in run.cells if cell.note)
    return {
        "status": "failed" if ended.error else "interrupted" if ended.stopped else run.status,
        "outputs": [output for cell in run.cells for output in cell.outputs],
        "execution_time": round(sum(cell.duration for cell in run.cells) or seconds, 4),
        "state": "lost" if any(cell.state_lost for cell in run.cells) else "kept",
        **({"note": notes} if notes else {}),
        **_ending(ended),
    }


def _ending(ended: Ended, instead: NbagentError | None = None) -> dict[str, Any]:
    """What went wrong, if anything did."""
    error = ended.error or instead
    told = {"error": str(error)} if error else {}
    return told | ({"not_delivered": ended.left} if ended.left else {})


def _usage(answer: Answer | None) -> dict[str, Any]:
    usage = answer.usage if answer else NO_USAGE
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "calls": usage.calls,
        "cached_tokens": usage.cached_tokens,
        "cost": None if usage.cost is None else round(usage.cost, 8),
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.cell,
        "code": cell.code,
        "status": cell.status,
        "outputs": cell.outputs,
        "execution_count": cell.execution_count,
        "execution_time": round(cell.duration, 4),
        "note": cell.note,
    }


def _package(package: Package) -> dict[str, Any]:
    return {"name": package.name, "version": package.version, "sha256": package.sha256}
