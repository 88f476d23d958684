"""The commands about sessions and what they leave: `sessions`, `shell`, `clean`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbagent import settings, store
from nbagent.errors import UsageError
from nbagent.sandbox.leases import reaper
from nbagent.session import saved

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _root() -> Path:
    return store.state_root(settings.load().state_dir)


def show_sessions(*, as_json: bool) -> int:
    """Print the sessions that there are; returns the exit code."""
    found = saved.known(_root())
    if as_json:
        print(json.dumps([_session_json(each) for each in found]))
        return 0
    if not found:
        print("There are no sessions yet.")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("session", "started", "engine", "trust", "questions", "cells", "state"):
        table.add_column(title, justify="right" if title in ("questions", "cells") else "left", no_wrap=True)
    for each in found:
        counts = (str(each.questions), str(each.cells))
        table.add_row(each.id, saved.age(each.started), each.engine, each.trust, *counts, each.state)
    # A file or pipe has no width at which to crop.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False, emoji=False, markup=False).print(table)
    if any(each.state == "waiting" for each in found):
        print("Go on with one that is waiting, its variables kept: nbagent resume SESSION")
    return 0


def _session_json(session: saved.Known) -> dict[str, Any]:
    found = asdict(session)
    return {**found, "folder": str(session.folder), "sandbox": str(session.sandbox) if session.sandbox else None}


def shell(session: str) -> int:
    """Open a shell in a session's sandbox; returns the shell's exit code.

    Raises:
        UsageError: There is no such session, its sandbox has ended, or its trust level permits no shell.
    """
    from nbagent.faces.terminal import shell as terminal

    found = saved.look_up(_root(), session)
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
        url = settings.load().state_url
        for session in await saved.remove_ended(_root(), unused=long, url=url):
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
