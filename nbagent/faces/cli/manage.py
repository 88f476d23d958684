"""`nbagent shell` and `nbagent clean`: a terminal in a sandbox, and the removal of what processes left behind."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict

from nbagent.core import settings
from nbagent.core.errors import UsageError
from nbagent.faces.cli.durations import age, seconds
from nbagent.sandbox.machine import reaper
from nbagent.session.catalog import saved_spec, session_list
from nbagent.session.manager import SessionManager


def shell(session: str) -> int:
    """Open a shell in a session's sandbox; returns the shell's exit code."""
    from nbagent.faces.terminal import shell as terminal

    found = session_list.info_of(settings.state_root(), session)
    if found.sandbox is None or found.state == "ended":
        raise UsageError(f"The sandbox of {found.id} has ended.", mend=f"Resume it by: nbagent resume {found.id}")
    if not saved_spec.read_spec(found).trust.allow_shell:
        raise UsageError(f"The trust level {found.trust} permits no shell in {found.id}.")
    return terminal.attach(found.sandbox)


async def clean(*, max_age: str | None, unused: str | None = None, as_json: bool) -> int:
    """Remove what killed processes left, also kernels that wait for `nbagent resume`; returns the exit code.

    Only what is older than `max_age` goes; and sessions that have ended and were not used for as long as `unused`.
    """
    long = seconds(unused) if unused else None  # is checked before anything is removed
    removed = await asyncio.to_thread(reaper.sweep, waiting=True, max_age=seconds(max_age) if max_age else 0.0)
    if long is not None:
        for session in await SessionManager().delete_ended(unused=long):
            removed.append(reaper.Removed(kind="session", name=session.id, age=time.time() - session.started))
    if as_json:
        print(json.dumps([asdict(each) for each in removed]))
        return 0
    for each in removed:
        whose = f" of session {each.session}" if each.session else ""
        print(f"removed {each.kind} {each.name}{whose}, {age(time.time() - each.age)}")
    if not removed:
        print("Nothing was left behind.")
    return 0
