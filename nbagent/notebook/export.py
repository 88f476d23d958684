"""Exports a session: as a notebook, or as what is made of one.

    .ipynb  a notebook
    .html   a page that any browser shows
    .md     Markdown
    .py     a script in the percent format
    .zip    the notebook, the script, the data, the lock and the environment

What the model tried in vain is left out if a run of the rest shows the same without it. The columns of the data are
looked up in a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import NbagentError, UsageError
from nbagent.kernel.describe import describe, schemas
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import formats, nodes, place
from nbagent.notebook.build import build, title
from nbagent.notebook.bundle import bundle
from nbagent.notebook.data_changes import read_by
from nbagent.notebook.document import SKIPPED
from nbagent.notebook.fold import fold, tag_superseded
from nbagent.notebook.lock import Lock
from nbagent.notebook.page import page
from nbagent.notebook.pins import environment, requirements
from nbagent.notebook.proof import Proof
from nbagent.notebook.record import Recording
from nbagent.sandbox import registry
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data.locate import is_still_there
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from nbagent.notebook.document import Document

FORMS: dict[str, Callable[[Any], str]] = {
    place.ENDING: lambda notebook: _json(notebook),
    ".html": lambda notebook: page(notebook, title=title(notebook)),
    ".md": formats.markdown,
    ".py": formats.percent,
}
"""What a notebook can be written as, by the ending of the file's name; the zip has several of these."""
WRITTEN = "# Written by nbagent"
"""How a file of an environment begins that may be replaced."""


class ExportResult(NamedTuple):
    """What was written.

    Attributes:
        path: Where.
        left_out: How many failed or superseded attempts were left out.
        why_not: Why they were not, in a sentence.
        changed: What of the data was changed since it was given, and which cells ran before and after, in sentences.
    """

    path: Path
    left_out: int = 0
    why_not: str = ""
    changed: Sequence[str] = ()


def write(recording: Recording, path: Path, *, force: bool = False, environment: bool = False) -> Path:
    """Write what a session is so far, with all that the model tried, at once; arguments and errors as for `export`."""
    return _write(build(recording), recording, _places(recording, path, force=force, environment=environment))


async def export(
    recording: Recording,
    path: Path,
    *,
    spec: Callable[[], SandboxSpec],
    keep_attempts: bool = False,
    force: bool = False,
    environment: bool = False,
    learn: Callable[[], Awaitable[object]] | None = None,
) -> ExportResult:
    """Write what a session is so far, as a person would have written it.

    Args:
        recording: The session.
        path: Where; its ending says in which form. An earlier notebook of nbagent's is replaced atomically.
        spec: Returns what the session's sandbox was to be: what runs again runs with the same permissions.
        keep_attempts: Whether failed and superseded attempts stay in any case, tagged.
        force: Whether any file is replaced that isn't data.
        environment: Whether a requirements file and one for conda are written beside it.
        learn: Has the columns of the data told to the recording by the session's own kernel; None if that is gone.

    Raises:
        UsageError: Nothing may be written there, see `place.check`.
        DataError: The data for a zip is no longer there.
        StoreError: It can't be written.
    """
    places = await asyncio.to_thread(_places, recording, path, force=force, environment=environment)
    if recording.data and not recording.schemas:
        # A lock without the columns is better than no notebook.
        with contextlib.suppress(NbagentError):
            await (learn() if learn else _learn(recording, spec))
    recording = recording.snapshot()
    notebook, left_out, why_not = await asyncio.to_thread(build, recording), 0, ""
    if keep_attempts:
        tag_superseded(notebook)
    else:
        notebook, left_out, why_not = await _fold(notebook, recording, spec)
    changed = await asyncio.to_thread(lambda: [read_by(recording, each).told for each in recording.data])
    written = await asyncio.to_thread(_write, notebook, recording, places)
    return ExportResult(written, left_out, why_not, [each for each in changed if each])


async def _fold(notebook: Any, recording: Recording, spec: Callable[[], SandboxSpec]) -> tuple[Any, int, str]:
    # What this imports is needed by those only who leave something out.
    from nbagent.notebook.verify import Verification

    async def verify(rest: Document) -> Proof:
        try:
            engine, sandbox = await _sandbox(recording, spec)
        except NbagentError as error:
            return Proof(name=rest.name, result="not run", error=str(error))
        return await Verification(rest, engine=engine, spec=sandbox).run()

    return await fold(notebook, verify)


async def _learn(recording: Recording, spec: Callable[[], SandboxSpec]) -> None:
    """Look up the columns of the data in a sandbox of its own, in which none of the session's code ran."""
    engine, sandbox = await _sandbox(recording, spec)
    async with Kernel(engine, sandbox) as kernel:
        recording.schemas.update(schemas(await describe(kernel, [each.target for each in sandbox.data])))


async def _sandbox(recording: Recording, spec: Callable[[], SandboxSpec]) -> tuple[Engine, SandboxSpec]:
    """An engine and a sandbox like the session's, with its data, as far as that is still there."""
    needed = ((Path(each.source), each.path) for each in recording.needed)
    mounts = tuple(Mount(source, path) for source, path in needed if is_still_there(source))
    # A kernel that others started has their variables, which nothing that is tried may change.
    wanted = replace(spec(), data=mounts, owner="", keep=0.0, late_data=False, kernel="")
    engine = registry.engines().get(recording.started.engine) if recording.started else None
    name = engine.name if engine is not None and engine.isolates else None
    return await registry.choose(name, image=wanted.image, specs=[wanted]), wanted


# -- files --------------------------------------------------------------------------------------------------------


class _Places(NamedTuple):
    path: Path
    beside: dict[str, Path]


def _places(recording: Recording, path: Path, *, force: bool, environment: bool) -> _Places:
    """Where all goes, which may be written there."""
    data = [Path(each.source) for each in recording.needed]
    place_of_all = place.check(path, data=data, force=force)
    names = ("requirements.txt", "environment.yml") if environment and path.suffix != ".zip" else ()
    beside = {name: place_of_all.with_name(f"{path.stem}.{name}") for name in names}
    for each in beside.values():
        fileio.check_file(each)
        fileio.check_not_data(each, data)
        place.check_no_link(each)
        if each.exists() and not force and not each.read_bytes().startswith(WRITTEN.encode()):
            raise UsageError(f"{each} is there already.", mend="Choose another name, or replace it with --force.")
    return _Places(place_of_all, beside)


def _write(notebook: Any, recording: Recording, places: _Places) -> Path:
    nodes.validate(notebook)
    place.mark(notebook)
    path = places.path
    lock = msgspec.convert(notebook["metadata"]["nbagent"]["lock"], Lock)
    files = {
        "requirements.txt": f"{WRITTEN} for {path.stem}.\n{requirements(lock)}",
        "environment.yml": f"{WRITTEN} for {path.stem}.\n{environment(lock, name=path.stem)}",
    }
    if path.suffix == ".zip":
        texts = {f"{path.stem}{ending}": FORMS[ending](notebook) for ending in (place.ENDING, ".py")}
        _write_zip(path, texts | files | {"lock.json": _json(msgspec.to_builtins(lock))}, recording)
    else:
        fileio.save(path, FORMS[path.suffix](notebook).encode())
    for name, beside in places.beside.items():
        fileio.save(beside, files[name].encode())
    return path


def add_skipped(path: Path, skipped: Sequence[tuple[int, str]]) -> None:
    """Put code that a tag kept from running into a notebook that was written, each behind the cell of its number.

    Raises:
        StoreError: It can't be written.
    """
    if path.suffix != place.ENDING or not skipped:
        return
    notebook = msgspec.json.decode(path.read_bytes())
    facts = [cell["metadata"]["nbagent"] for cell in notebook["cells"]]
    first = next((at for at, each in enumerate(facts) if each.get("role") in ("cell", "stopped")), len(facts))
    places = {each["cell"]: at + 1 for at, each in enumerate(facts) if each.get("role") in ("cell", "stopped")}
    for count, (number, code) in reversed([*enumerate(skipped, 1)]):
        metadata = {"nbagent": {"role": "skipped"}, "tags": [SKIPPED]}
        cell = nodes.new_code_cell(code, id=f"skipped-{count}", metadata=metadata)
        notebook["cells"].insert(places.get(number, first), cell)
    place.mark(notebook)
    fileio.save(path, FORMS[place.ENDING](notebook).encode())


def _write_zip(path: Path, texts: dict[str, str], recording: Recording) -> None:
    try:
        with fileio.staged(path.parent, mode=0o666) as (file, staged):
            bundle(file, name=path.stem, texts=texts, data=recording.needed)
            file.flush()
            staged.replace(path)
    except OSError as error:
        raise fileio.cannot_write(path, error, mend="Choose another place.") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"
