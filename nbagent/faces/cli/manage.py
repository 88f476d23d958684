"""The commands about what sessions leave: `shell`, `clean`."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path

from nbagent.core import folders, settings
from nbagent.core.errors import UsageError
from nbagent.sandbox.machine import reaper
from nbagent.session import index, saved
from nbagent.session.manager import SessionManager

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _root() -> Path:
    return folders.state_root(settings.load().state_dir)


def shell(session: str) -> int:
    """Open a shell in a session's sandbox; returns the shell's exit code.

    Raises:
        UsageError: There is no such session, its sandbox has ended, or its trust level permits no shell.
    """
    from nbagent.faces.terminal import shell as terminal

    found = index.look_up(_root(), session)
    if found.sandbox is None or found.state == "ended":
        raise UsageError(f"The sandbox of {found.id} has ended.", mend=f"Start it anew with: nbagent resume {found.id}")
    if not saved.read_spec(found).trust.allow_shell:
        raise UsageError(f"The trust level {found.trust} permits no shell in {found.id}.")
    return terminal.attach(found.sandbox)


async def clean(*, max_age: str | None, unused: str | None = None, as_json: bool) -> int:
    """Remove what dead controllers left, also sandboxes that wait to be taken over; returns the exit code.

    Args:
        max_age: Only what is older.
        unused: Sessions too, that have ended and were not used for so long.
        as_json: Whether it is printed as a list of objects.
    """
    long = seconds(unused) if unused else None  # a complaint comes before anything goes
    removed = await asyncio.to_thread(reaper.sweep, waiting=True, max_age=seconds(max_age) if max_age else 0.0)
    if long is not None:
        for session in await SessionManager().delete_ended(unused=long):
            removed.append(reaper.Removed(kind="session", name=session.id, age=time.time() - session.started))
    if as_json:
        print(json.dumps([asdict(each) for each in removed]))
        return 0
    for each in removed:
        whose = f" of session {each.session}" if each.session else ""
        print(f"removed {each.kind} {each.name}{whose}, {saved.age(time.time() - each.age)}")
    if not removed:
        print("Nothing was left behind.")
    return 0


def seconds(text: str) -> float:
    """A time such as `90`, `30m`, `12h` or `2d`, in seconds.

    Raises:
        UsageError: It is none.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:].lower() in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit.lower()]
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e12:
        raise UsageError(f"{text!r} is no time.", mend="Write 90, 30m, 12h or 2d.")
    return value
