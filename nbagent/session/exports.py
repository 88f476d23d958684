"""Writes a session's notebook, notes where it is, and has a place for it when its own can't be had any more."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nbagent.core import folders, settings
from nbagent.core.errors import NbagentError
from nbagent.core.events import DataSeen, FileSaved

if TYPE_CHECKING:
    from nbagent.sandbox.spec import SandboxSpec
    from nbagent.session.parts import Parts
    from nbagent.session.protocol import AnySession

NOTEBOOK_FILE = "notebook.ipynb"
"""The name of a notebook that nobody named, in the session's folder."""


async def export(
    parts: Parts,
    place: Path,
    *,
    spec: SandboxSpec,
    is_running: Callable[[], bool],
    force: bool,
    environment: bool,
    keep_attempts: bool | None,
) -> Path:
    """Write the notebook of a session to a place, as `AnySession.export` says; the session may end meanwhile."""
    from nbagent.notebook.export import export, write

    await parts.data_hashed()
    if parts.files is not None and is_running():
        await parts.files.keep_given(parts.log.folder / "variables")
    if keep_attempts is None:
        made = partial(write, parts.recording.snapshot(), place, force=force, environment=environment)
        written = await asyncio.to_thread(made)
    else:
        cells = parts.cells if is_running() and parts.kernel.is_alive else None
        done = await export(
            parts.recording,
            place,
            spec=lambda: spec,
            keep_attempts=keep_attempts,
            force=force,
            environment=environment,
            learn=cells.learn_schemas if cells else None,
        )
        written = done.path
    saved = await asyncio.to_thread(_remember, written, parts.recording.needed)
    if is_running():
        parts.log.emit(saved)
    return written


def _remember(written: Path, needed: list[DataSeen]) -> FileSaved:
    """Note where an exported notebook is, and what it needs; returns the event of it."""
    # Where any client's kernel looks for it, which knows the settings but not this session's arguments.
    folders.remember_export(settings.state_root(), written, needed)
    with written.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileSaved(path=str(written), size=written.stat().st_size, sha256=digest)


async def export_last(
    session: AnySession, out: Path | None, *, force: bool = False
) -> tuple[Path, NbagentError | None]:
    """Write the notebook when all is done; into the session's folder if its place can't be had any more.

    Returns:
        Where it is, and why it isn't where it was wanted.

    Raises:
        StoreError: It can't be written into the session's folder either.
    """
    from nbagent.notebook import place

    refused: NbagentError | None = None
    if out is not None:
        try:
            return await session.export(out, force=force, keep_attempts=True), None
        except NbagentError as error:
            refused = error
    place_kept = await asyncio.to_thread(place.free, session.folder / NOTEBOOK_FILE)
    kept = await session.export(place_kept, keep_attempts=True)
    return kept, refused and type(refused)(refused.message, mend=f"The notebook is {kept}.")
