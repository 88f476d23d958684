"""`nbagent sessions` and `nbagent files`: which sessions there are, what was said in them, and what they left."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import fileio, settings
from nbagent.core.errors import UsageError
from nbagent.core.text import one_line, printable, size_of
from nbagent.faces.cli.durations import age
from nbagent.sandbox.results.folder import safe_name
from nbagent.session.catalog import lookup
from nbagent.session.catalog.session_list import SessionInfo
from nbagent.session.manager import SessionManager
from nbagent.state import Artifact
from nbagent.state.views import ViewReader

ARTIFACT_KEYS = "id name content_type size sha256 cell created".split()
"""What --json has of each file and figure."""
WIDE = 100
"""Columns of a terminal that has room for more than each session's id, age, state and title."""
TITLE_CHARACTERS = 50
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

    # A file or pipe has no width at which to crop.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, emoji=False, markup=False)
    rows = [
        {
            "session": each.id,
            "started": age(each.started),
            "engine": each.engine,
            "trust": each.trust,
            "questions": str(each.questions),
            "cells": str(each.cells),
            "cost": f"${each.cost:.2f}" if each.cost else "",
            "state": each.state,
            "title": one_line(each.title, TITLE_CHARACTERS),
        }
        for each in found
    ]
    shown = [name for name in rows[0] if console.width >= WIDE or name in ("session", "started", "state", "title")]
    # Only a title may be cut: what is cut of an id can't be typed.
    wide = {name: max(len(name), *(len(row[name]) for row in rows)) for name in shown if name != "title"}
    room = max(8, console.width - sum(wide.values()) - 2 * len(wide))
    table = Table(box=None, pad_edge=False)
    for name in shown:
        table.add_column(name, justify="right" if name in ("questions", "cells", "cost") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] if name != "title" else one_line(row[name], room) for name in shown))
    console.print(table)
    if any(each.state == "waiting" for each in found):
        print("Resume one that is waiting, with its variables: nbagent resume SESSION")
    if any(each.state == "running" for each in found):
        print("Attach to one that is running: nbagent attach SESSION")
    return 0


def files(session: str | None, *, save: Sequence[str], as_json: bool) -> int:
    """Print a session's files and figures, or write some of them into the current folder; returns the exit code."""
    root = settings.state_root()
    views = ViewReader(root)
    folder = lookup.find(root, session)
    if session is None:
        print(f"session: {folder.name}", file=sys.stderr)
    found = views.artifacts(folder.name)
    if save:
        for wanted in save:
            print(_save(views, found, wanted))
        return 0
    if as_json:
        print(json.dumps([{key: getattr(each, key) for key in ARTIFACT_KEYS} for each in found]))
        return 0
    for each in found:
        print(printable(f"cell {each.cell or '-':<4} {size_of(each.size):>10}  {each.content_type:<24}  {each.name}"))
    if not found:
        print("This session has neither files nor figures.")
    return 0


def _save(views: ViewReader, found: Sequence[Artifact], name: str) -> Path:
    """Write the last artifact of a name into the current folder."""
    artifact = next((each for each in reversed(found) if name in (each.name, each.id)), None)
    if artifact is None:
        raise UsageError(f"The session has no file or figure {name!r}.", mend="List them without --save.")
    content, path = views.load(artifact.id)[1], Path(safe_name(artifact.name))
    try:
        with path.open("xb") as file:  # never through a link, nor over a file
            file.write(content)
    except FileExistsError:
        raise UsageError(f"{path} is here already.", mend="Run this in another folder.") from None
    except OSError as error:
        raise fileio.cannot_write(path, error, mend="Run this in another folder.") from error
    return path


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
        print("No session has this text in its title, its questions or its answers.")
    return 0


async def rename(session: str, title: str) -> int:
    """Give a session another title; returns the exit code."""
    await SessionManager().rename(session, title)
    return 0


async def delete(session: str, *, force: bool) -> int:
    """Remove a session; returns the exit code."""
    await SessionManager().delete(session, force=force)
    return 0


def _session_json(session: SessionInfo) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(session, enc_hook=str)
    return {"folder" if name == "path" else name: value for name, value in found.items()}
