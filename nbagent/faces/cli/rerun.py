"""`nbagent rerun`: a notebook's analysis on other data or with other parameters, and a summary of what changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nbagent.core import fileio, folders
from nbagent.core.concurrency import in_thread
from nbagent.core.errors import UsageError
from nbagent.core.events import DataSeen
from nbagent.core.text import one_line, safe
from nbagent.faces.cli import json_output
from nbagent.faces.cli.verify import engine_for, load, read
from nbagent.notebook import place, rerun
from nbagent.notebook.compare.pictures import Pictures
from nbagent.notebook.compare.texts import Strictness
from nbagent.notebook.compare_runs import all_reads, compared
from nbagent.notebook.document import Document
from nbagent.notebook.fresh import Ran
from nbagent.sandbox import registry
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

MOST = 10
"""Changes of a cell that are told."""
MOST_CHARACTERS = 2_000
"""Characters of one of them."""


async def run(
    path: Path,
    *,
    data: Sequence[str],
    parameters: Mapping[str, str],
    out: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run a notebook again; returns 0, or 1 if a cell failed that had not failed before."""
    chosen = load(**options)
    root = folders.state_root(chosen.state_dir)
    notebook = read(path)
    notebook.check_python()
    if not data and not parameters:
        raise UsageError("Nothing is to change.", mend="Name new data with --data, or a parameter with -p.")
    given = rerun.with_data(notebook, path, data, root=root)
    out = place.check(out or path.with_stem(f"{path.stem}-rerun"), data=[m.source for m in given.mounts], force=force)
    again = rerun.with_parameters(notebook, parameters)
    spec = SandboxSpec.of(chosen, data=given.mounts)
    engine = await registry.choose(engine_for(notebook, chosen), image=spec.image, specs=[spec])
    ran = await rerun.run(again, engine=engine, spec=spec)
    found = await changes(again, ran, engine)
    running = [each for each in again.cells if not (each.is_block and again.lock)]
    failed = [each.id for each in running if not each.may_fail and _failed(each.number, ran)]
    made = rerun.written(again, ran, given.mounts, parameters=parameters)
    fileio.save(out, (json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    if notebook.is_ours:
        seen = [DataSeen(each.target, str(each.source), 0) for each in given.mounts]
        folders.remember_export(root, out, seen)
    if as_json:
        json_output.show({"notebook": str(out), "changes": found, "failed": failed, "problems": given.problems})
    else:
        _show(found, failed, given.problems, cells=len(ran.cells))
        print(safe(str(out)))
    return 1 if failed else 0


def _failed(number: int, ran: Ran) -> bool:
    return number not in ran.cells or ran.cells[number].status != "ok"


async def changes(notebook: Document, ran: Ran, engine: Engine) -> dict[str, list[str]]:
    """What each cell shows now instead of what it showed, by its name."""
    work = partial(compared, notebook, ran, reads=all_reads(notebook), strictness=Strictness())
    found = await in_thread(work)
    by_cell: dict[str, list[str]] = {}
    async with Pictures(engine) as pictures:
        for cell in notebook.cells:
            if (comparison := found.get(cell.number)) is None:
                continue
            told = [str(each) for each in comparison.differences]
            for pair in comparison.pictures:
                likeness = await pictures.compare(pair.stored, pair.fresh, exact=True)
                told += [] if likeness.same else [f"{pair.what}: another figure ({likeness.told})"]
            if told:
                by_cell[cell.id] = told
    return by_cell


def _show(changes: Mapping[str, list[str]], failed: Sequence[str], problems: Sequence[str], *, cells: int) -> None:
    for name, told in changes.items():
        rest = [f"and {len(told) - MOST} more"] if len(told) > MOST else []
        for line in (*told[:MOST], *rest):
            print(one_line(f"{name}: {line}", MOST_CHARACTERS))
    for line in (*problems, *(f"{name} failed, and did not before." for name in failed)):
        print(one_line(line, MOST_CHARACTERS), file=sys.stderr)
    print(f"{len(changes)} of {cells} cells show something else.")
