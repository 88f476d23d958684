"""`nbagent verify`: whether notebooks still give what they show, as a table, as JSON and as JUnit's XML."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import fileio, folders, settings
from nbagent.core.errors import NbagentError, StoreError, UsageError, contained
from nbagent.core.options import Options
from nbagent.core.policy import TrustLevel
from nbagent.core.text import one_line, safe
from nbagent.faces.cli import json_output
from nbagent.notebook import document as documents
from nbagent.notebook import report
from nbagent.notebook.compare.masks import read_masks
from nbagent.notebook.compare.texts import Strictness
from nbagent.notebook.document import Document
from nbagent.notebook.inputs import inputs
from nbagent.notebook.place import MAX_SIZE
from nbagent.notebook.proof import CellProof, Proof
from nbagent.notebook.verify import Verification
from nbagent.sandbox import registry
from nbagent.sandbox.inside.message_sizes_inside import weight
from nbagent.sandbox.results.folder import safe_name
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.checks import known_engine

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person says of a verification, by the flags of `nbagent verify`."""

    data: Sequence[Path] = ()
    sanitize: Path | None = None
    tolerance: float
    sweep: bool = False
    jobs: int | None = None
    write: bool = True
    junit: Path | None = None
    pictures: Path | None = None
    as_json: bool = False
    quiet: bool = False


async def verify(files: Sequence[Path], wanted: Wanted, **options: Any) -> int:
    """Verify notebooks, several at a time; returns 0 if all show the same, 1 if one differs, 2 if one did not run."""
    strictness = Strictness(masks=read_masks(wanted.sanitize) if wanted.sanitize else (), tolerance=wanted.tolerance)
    chosen = load(**options)
    gate = asyncio.Semaphore(wanted.jobs or os.cpu_count() or 1)

    with _progress(hidden=wanted.as_json or wanted.quiet) as progress:

        async def one(path: Path) -> Proof:
            async with gate:
                task = progress.add_task(safe(path.name), total=None)
                tell = lambda done, total: progress.update(task, completed=done, total=total)  # noqa: E731
                try:
                    return await _one(path, wanted, strictness, chosen, tell)
                finally:
                    progress.remove_task(task)

        proofs = await asyncio.gather(*map(one, files))
    if wanted.junit:
        fileio.save(wanted.junit, report.junit(proofs))
    if wanted.as_json:
        json_output.show({"notebooks": [report.plain(each, tolerance=wanted.tolerance) for each in proofs]})
    else:
        _show(proofs, wanted)
    return max((each.exit_code for each in proofs), default=0)


async def _one(
    path: Path, wanted: Wanted, strictness: Strictness, chosen: Any, tell: Callable[[int, int], object]
) -> Proof:
    """Verify one notebook; what keeps it from running is in the proof, and takes no other notebook along."""
    proof = Proof(name=str(path), result="not run", error="nbagent itself failed at what is in it.")
    try:
        with contained("A notebook could not be verified"):
            proof = await _verified(path, wanted, strictness, chosen, tell)
    except (NbagentError, OSError) as error:
        proof.error = str(error)
    return proof


async def _verified(
    path: Path, wanted: Wanted, strictness: Strictness, chosen: Any, tell: Callable[[int, int], object]
) -> Proof:
    document = read(path)
    document.check_python()
    if not document.has_run:
        raise UsageError(f"{path} has no outputs to compare.", mend="Run it first, and save it.")
    root = folders.state_root(chosen.state_dir)
    found = inputs(path, given=wanted.data, root=root, foreign=not document.is_ours)
    spec = SandboxSpec.of(chosen, data=found.mounts)
    engine = await registry.choose(engine_for(document, chosen), image=spec.image, specs=[spec])
    verification = Verification(
        document, engine=engine, spec=spec, strictness=strictness, problems=found.problems, tell=tell
    )
    proof = await verification.run(sweeps=wanted.sweep)
    if wanted.write and document.is_ours:
        try:
            report.write_into(document, path, proof)
        except StoreError as error:
            proof.notes.append(str(error))
    if wanted.pictures:
        _save(proof, wanted.pictures / safe_name(path.stem))
    return proof


def load(**options: Any) -> Options:
    """The person's settings for a notebook that may be a stranger's, which may see the folder that it lies in.

    It is trusted, and reaches hosts, only where an option says so.
    """
    chosen = settings.load(**options)
    if TrustLevel.parse(chosen.trust) is TrustLevel.TRUSTED:
        if options.get("trust"):
            return chosen
        options |= {"trust": TrustLevel.ISOLATED.value}
    if not options.get("allow_hosts"):
        options |= {"security": {**(options.get("security") or {}), "allowed_hosts": []}}
    options["ask_hosts"] = bool(options.get("ask_hosts"))
    return settings.load(**options)


def read(path: Path) -> Document:
    """A notebook that a person names."""
    try:
        # A repository may have a link to /dev/zero, or a pipe that nobody writes to.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no plain file.", mend="Name a notebook.")
            data = file.read(MAX_SIZE + 1)
        if len(data) > MAX_SIZE or weight(data) > MAX_SIZE:
            raise UsageError(f"{path} is too large for a notebook.")
        if data.startswith(b"PK\3\4"):
            raise UsageError(
                f"{path} is a zip.", mend="Unpack it, and name the notebook in it, with --data and its folder."
            )
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    return documents.parse(text, name=str(path))


def engine_for(document: Document, chosen: Options) -> str | None:
    """The engine for a notebook: that of the person's settings, else the one that it was made with, if it works here.

    None has the best one chosen. A person who chose a runtime for Docker, such as gVisor, or names an image now, is not
    led to another engine.
    """
    if chosen.image != settings.load().image:
        return known_engine(chosen.engine, image=chosen.image)
    if chosen.engine or chosen.docker_runtime:
        return chosen.engine
    name = document.lock.engine if document.lock else ""
    engine = registry.engines().get(name)
    return name if engine is not None and engine.isolates and engine.check().available else None


def _save(proof: Proof, folder: Path) -> None:
    for cell in proof.cells:
        for number, picture in enumerate(cell.pictures, 1):
            fileio.save(folder / f"{cell.number}-{number}.png", picture)


def _progress(*, hidden: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)


def _show(proofs: Sequence[Proof], wanted: Wanted) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, emoji=False, markup=False)
    for proof in proofs:
        if proof.result == "same" and wanted.quiet:
            continue
        # A notebook names its cells and much else, and nothing in it makes a line of ours.
        console.print(_told(_line(proof)), soft_wrap=True)
        for line in (*proof.problems, *([] if wanted.quiet else proof.notes)):
            console.print(f"  {_told(line)}", soft_wrap=True)
        if rows := _rows(proof, quiet=wanted.quiet):
            table = Table("cell", "result", "what differs", show_edge=False, pad_edge=False)
            for row in rows:
                table.add_row(*row)
            console.print(table)
    if len(proofs) != 1 or not wanted.quiet:
        counts = {name: sum(each.result == name for each in proofs) for name in ("same", "differs", "not run")}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        console.print(f"{told}. Numbers are the same within a relative difference of {wanted.tolerance:g}.")


def _rows(proof: Proof, *, quiet: bool) -> list[tuple[str, str, str]]:
    """A row for each cell of which there is something to say, and one for all the others that come in turn."""
    rows: list[tuple[str, str, str]] = []
    for told, cells in itertools.groupby(proof.cells, key=lambda each: bool(report.told(each) or each.excused)):
        found = [*cells]
        if told:
            rows += [(_told(each.name), each.result, _what(each)) for each in found if report.told(each) or not quiet]
        elif not quiet:
            first, last = found[0], found[-1]
            name = first.name if first is last else f"{first.name} … {last.name}"
            rows.append((_told(name), first.result, "" if first is last else f"{len(found)} cells"))
    return rows


def _what(cell: CellProof) -> str:
    excused = f"same but for {', '.join(cell.excused)}" if cell.result == "same" else ""
    return "\n".join(map(_told, report.told(cell))) or _told(excused)


def _told(text: str) -> str:
    return one_line(text, 2_000)


def _line(proof: Proof) -> str:
    if proof.error:
        return f"{proof.name}: {proof.result}: {proof.error}"
    runs = f", run {proof.runs} times" if proof.runs > 1 else ""
    return f"{proof.name}: {proof.result} ({proof.engine}, {proof.seconds:.1f} s{runs})"
