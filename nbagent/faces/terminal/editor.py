"""The person's own editor, for a text that they may change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbagent.core.errors import UsageError

EDITORS = ("editor", "sensible-editor", "nano", "micro", "vim", "vi")
"""Programs that are tried where the person has chosen none: first the system's own choice, then what is easiest."""


def command() -> list[str]:
    """The editor that the person has chosen by `VISUAL` or `EDITOR`, with its words, else one that is installed."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(name, ""))
        except ValueError as error:
            raise UsageError(f"The variable {name} is no command: {error}.") from error
        if words:
            return words
    return [found] if (found := next(filter(None, map(shutil.which, EDITORS)), None)) else []


async def edit(text: str, *, editor: list[str], suffix: str, over: asyncio.Future[None]) -> str:
    """Have a text edited, in a folder that nobody else sees and that is gone afterwards; returns what was saved.

    By the suffix, editors know a language; the editor is ended when `over` is done. An end of line that it has put
    behind the last one is not part of the text.
    """
    with tempfile.TemporaryDirectory(prefix="nbagent-edit-") as folder, _kept_terminal():
        path = Path(folder) / f"code{suffix}"
        path.write_bytes(text.encode("utf-8", "replace"))
        await _run([*editor, str(path)], over=over)
        try:
            edited = path.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise UsageError("What the editor has saved can't be read.") from error
    return edited if text.endswith("\n") else edited.removesuffix("\n")


async def _run(words: list[str], *, over: asyncio.Future[None]) -> None:
    try:
        # Its output is for the terminal, also where nbagent's own goes to a file.
        process = await asyncio.create_subprocess_exec(*words, stdout=sys.stderr)
    except OSError as error:
        raise UsageError(f"The editor {words[0]!r} can't be started: {error.strerror}.") from error
    ending = asyncio.ensure_future(process.wait())
    try:
        either: list[asyncio.Future[Any]] = [ending, over]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not ending.done():
            process.terminate()
            await ending
    if process.returncode:
        raise UsageError(f"The editor {words[0]!r} failed.")


@contextlib.contextmanager
def _kept_terminal() -> Iterator[None]:
    """Restore the terminal's modes afterwards, also after an editor that was killed."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
