"""`nbagent export`: the notebook of a session, as a person would have written it; also as a script or as Markdown."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbagent import __version__
from nbagent.core import fileio, folders, settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Package
from nbagent.core.journal import read_log
from nbagent.core.text import one_line, safe
from nbagent.notebook import export as exporter
from nbagent.notebook import formats, nodes, place
from nbagent.notebook.document import Document
from nbagent.notebook.fold import entitle, fold, tag_superseded
from nbagent.notebook.proof import Verification
from nbagent.notebook.record import Recording, record
from nbagent.notebook.verdict import Proof
from nbagent.packages.requirements import Target
from nbagent.packages.wheel_list import kernel_packages
from nbagent.sandbox import environment, registry
from nbagent.sandbox.data.mounts import Mount
from nbagent.session import index, saved
from nbagent.session.index import SessionInfo

FORMATS = {".py": formats.percent, ".md": formats.markdown}
LONGEST = 120
"""Characters of a title."""


async def export(session: str, out: Path, *, keep_attempts: bool, force: bool) -> int:
    """Write a session's notebook; returns the exit code.

    Raises:
        UsageError: There is no such session, or no notebook may be written there.
        StoreError: Its log can't be read, or the file can't be written.
    """
    if out.suffix not in (place.ENDING, *FORMATS):
        raise UsageError(f"Nothing can be written as {out.name!r}.", mend="End its name with .ipynb, .py or .md.")
    root = folders.state_root(settings.load().state_dir)
    found = index.look_up(root, session)
    recording = record(read_log(found.folder))
    if not recording.items:
        raise UsageError(f"The session {session} has neither questions nor cells.")
    data = [Path(each.source) for each in recording.needed]
    path = place.check(out, data=data, force=force) if out.suffix == place.ENDING else _free(out, data, force=force)
    notebook = exporter.build(recording, packages=_packages(recording))
    if keep_attempts:
        tag_superseded(notebook)
    else:
        folded = await fold(notebook, lambda rest: _verify(rest, recording, found))
        notebook = folded.notebook
        if folded.left_out:
            more = f" and {folded.superseded} superseded" if folded.superseded else ""
            told = f"{folded.left_out - folded.superseded} failed{more} attempts are left out"
            print(f"{told}; a run of the rest shows the same.", file=sys.stderr)
        if folded.why_not:
            print(safe(f"The failed attempts stay. {folded.why_not}"), file=sys.stderr)
    entitle(notebook, _title(recording))
    nodes.validate(notebook)
    place.mark(notebook)
    fileio.save(path, _written(notebook, out.suffix).encode())
    if out.suffix == place.ENDING:
        folders.remember_export(root, path, recording.needed)
    print(safe(str(path)))
    return 0


def _written(notebook: Any, ending: str) -> str:
    if ending in FORMATS:
        return FORMATS[ending](notebook)
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _free(out: Path, data: list[Path], *, force: bool) -> Path:
    """A place for what is no notebook: a file that is there is replaced only if a person says so."""
    path = out.expanduser().absolute()
    if path.is_symlink():
        raise UsageError(f"{path} is a link, and nothing is written through one.", mend="Choose another name.")
    fileio.check_file(path)
    fileio.check_not_data(path, data)
    if path.exists() and not force:
        raise UsageError(f"{path} is there already.", mend="Choose another name, or replace it with --force.")
    return path


def _title(recording: Recording) -> str:
    questions = recording.questions
    text = questions[0].question if questions else "What ran"
    return one_line(text.strip().splitlines()[0], LONGEST)


def _packages(recording: Recording) -> list[Package]:
    """What the session's kernel had from the start, if this nbagent made it."""
    started = recording.started
    if started is None or started.nbagent != __version__ or "platform" not in started.machine:
        return []
    pins = environment.requirements()
    return kernel_packages(Target(python=started.python, platform=started.machine["platform"], pins=pins))


async def _verify(rest: Document, recording: Recording, found: SessionInfo) -> Proof:
    """Run what is left on the session's data, in a sandbox like its own: the person chose its level for this code."""
    mounts = tuple(Mount(Path(each.source), each.path) for each in recording.needed if Path(each.source).exists())
    try:
        spec = replace(saved.read_spec(found), data=mounts, owner="", keep=0.0, late_data=False)
        name = found.engine if found.engine != "local" else None
        engine = await registry.choose(name, image=spec.image, specs=[spec])
    except NbagentError as error:
        return Proof(name=rest.name, result="not run", error=str(error))
    return await Verification(rest, engine=engine, spec=spec).run()
