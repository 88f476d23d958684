"""`nbagent export`: the notebook of a session, as a person would have written it, and what is made of it."""

from __future__ import annotations

import sys
from pathlib import Path

from nbagent.core import folders, settings
from nbagent.core.errors import UsageError
from nbagent.core.session_log import read_log
from nbagent.core.text import safe
from nbagent.notebook import export as exporter
from nbagent.notebook.record import record
from nbagent.session.catalog import saved_spec, session_list


async def export(session: str | None, out: Path, *, keep_attempts: bool, environment: bool, force: bool) -> int:
    """Write a session's notebook; returns the exit code."""
    root = settings.state_root()
    found = session_list.info_of(root, session)
    if session is None:
        print(f"session: {found.id}", file=sys.stderr)
    recording = record(read_log(found.folder))
    if not recording.items:
        raise UsageError(f"The session {found.id} has neither questions nor cells.")
    done = await exporter.export(
        recording,
        out,
        spec=lambda: saved_spec.read_spec(found),
        keep_attempts=keep_attempts,
        environment=environment,
        force=force,
    )
    if done.left_out:
        told = f"{done.left_out} failed or superseded attempts are left out"
        print(f"{told}; a run of the rest shows the same.", file=sys.stderr)
    if done.why_not:
        print(safe(f"The attempts stay. {done.why_not}"), file=sys.stderr)
    for each in done.changed:
        print(safe(f"{each} The notebook has the hash of what its cells read first."), file=sys.stderr)
    folders.remember_export(root, done.path, recording.needed)
    print(safe(str(done.path)))
    return 0
