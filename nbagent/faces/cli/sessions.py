"""The command `sessions`: which there are, what was said in them, their titles, and their end."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from nbagent.core.text import one_line
from nbagent.session.index import Known
from nbagent.session.manager import SessionManager
from nbagent.session.saved import age

SHOWN = 50
"""Characters of a title in the table."""


async def show(*, as_json: bool) -> int:
    """Print the sessions that there are; returns the exit code."""
    found = await SessionManager().list()
    if as_json:
        print(json.dumps([_session_json(each) for each in found]))
        return 0
    if not found:
        print("There are no sessions yet.")
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("session", "started", "engine", "trust", "questions", "cells", "cost", "state", "title"):
        right = title in ("questions", "cells", "cost")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for each in found:
        counts = (str(each.questions), str(each.cells), _cost(each))
        title = one_line(each.title, SHOWN)
        table.add_row(each.id, age(each.started), each.engine, each.trust, *counts, each.state, title)
    # A file or pipe has no width at which to crop.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False, emoji=False, markup=False).print(table)
    if any(each.state == "waiting" for each in found):
        print("Go on with one that is waiting, its variables kept: nbagent resume SESSION")
    if any(each.state == "running" for each in found):
        print("See and steer one that is running: nbagent attach SESSION")
    return 0


async def search(text: str, *, as_json: bool) -> int:
    """Print where a text was found in titles, questions and answers; returns the exit code."""
    found = await SessionManager().search(text)
    if as_json:
        hits = [msgspec.to_builtins(each, enc_hook=str) | {"session": each.session.id} for each in found.hits]
        print(json.dumps({"hits": hits, "is_whole": found.is_whole}))
        return 0
    for each in found.hits:
        print(f"{each.session.id}  {each.where}: {one_line(each.text, 200)}")
    if not found.is_whole:
        print("There may be more in older sessions.", file=sys.stderr)
    elif not found.hits:
        print("It was found nowhere.")
    return 0


async def rename(session: str, title: str) -> int:
    """Give a session another title; returns the exit code."""
    await SessionManager().rename(session, title)
    return 0


async def delete(session: str, *, force: bool) -> int:
    """Remove a session; returns the exit code."""
    await SessionManager().delete(session, force=force)
    return 0


def _cost(session: Known) -> str:
    return f"${session.cost:.2f}" if session.cost else ""


def _session_json(session: Known) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(session, enc_hook=str)
    return {"folder" if name == "path" else name: value for name, value in found.items()}
