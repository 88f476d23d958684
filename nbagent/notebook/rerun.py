"""Runs a notebook's analysis again with other data or other parameters, and says what changed.

The notebook that comes of it has the same cells with new outputs. Parameters stand in a cell tagged `parameters`, and
the new values in one tagged `injected-parameters` behind it, as papermill has them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core.errors import DataError, UsageError
from nbagent.core.events import ColumnType, Output
from nbagent.kernel.describe import describe, schemas
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import document, nodes, place, prose
from nbagent.notebook.build import described, timing
from nbagent.notebook.document import Document
from nbagent.notebook.fresh import FreshRuns, Ran
from nbagent.notebook.inputs import Inputs, inputs
from nbagent.notebook.lock import Data, digest_of, utc
from nbagent.notebook.lock import nodes as syntax
from nbagent.safety.sanitize.widgets import STATE_MIME
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data import needs
from nbagent.sandbox.data.mounts import Mount, named
from nbagent.sandbox.paths import DATA
from nbagent.sandbox.spec import SandboxSpec, size_of

PARAMETERS, INJECTED = "parameters", "injected-parameters"
"""Tags of cells, as in papermill."""
_NUMBERS = ("Int", "UInt", "Float", "Decimal")


def with_parameters(notebook: Document, values: Mapping[str, str]) -> Document:
    """A copy of a notebook that sets parameters to other values, as text that a person gave.

    Raises:
        UsageError: It has no such parameters.
    """
    raw = copy.deepcopy(notebook.raw)
    if not values:
        return document.of(raw, name=notebook.name)
    raw.cells = [each for each in raw.cells if INJECTED not in each.metadata.get("tags", [])]
    at = next((n for n, each in enumerate(raw.cells) if PARAMETERS in each.metadata.get("tags", [])), None)
    if at is None:
        raise UsageError(
            f"{notebook.name} has no parameters.", mend=f"Give the cell that sets them the tag {PARAMETERS!r}."
        )
    names = (each for each in syntax(raw.cells[at].source) if isinstance(each, ast.Name))
    known = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    if odd := [name for name in values if name not in known]:
        told = ", ".join(sorted(known)) or "none"
        raise UsageError(f"{notebook.name} has no parameter {odd[0]!r}.", mend=f"Its parameters: {told}.")
    source = "\n".join(["# Parameters", *(f"{name} = {_value(text)!r}" for name, text in values.items())])
    metadata = {"tags": [INJECTED]} | ({"nbagent": {"role": "parameters"}} if notebook.is_ours else {})
    cell = nodes.new_code_cell(source, id=INJECTED, metadata=metadata)
    raw.cells.insert(at + 1, type(raw)(cell) if "id" in raw.cells[at] else _without_id(type(raw), cell))
    return document.of(raw, name=notebook.name)


def _without_id(kind: Any, cell: dict[str, Any]) -> Any:
    return kind({name: value for name, value in cell.items() if name != "id"})


def _value(text: str) -> Any:
    """What a person's text means: a value of JSON or a name of Python's, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def with_data(notebook: Document, path: Path, given: Sequence[str], *, root: Path) -> Inputs:
    """What the sandbox of a rerun is to see: the files that a person gives, each in the place of one of before.

    Args:
        notebook: The notebook.
        path: Where it lies.
        given: Files, or `NAME=FILE` where the notebook has several and the new one has another name.
        root: The person's state, which remembers what was exported where.

    Raises:
        DataError: A file isn't there, or it isn't clear in whose place it comes.
    """
    old = [each.path.removeprefix(f"{DATA}/") for each in needs.needed(path)] if notebook.is_ours else []
    places = dict(_place(each, old) for each in given)
    if not notebook.is_ours:
        found = inputs(path, given=[], root=root, foreign=True) if not given else Inputs()
        return Inputs([*found.mounts, *(Mount(file, f"{DATA}/{name}") for name, file in places.items())])
    rest = [name for name in old if name not in places]
    found = inputs(path, given=[], root=root, foreign=False, only=rest) if rest else Inputs()
    return Inputs([*found.mounts, *(Mount(file, f"{DATA}/{name}") for name, file in places.items())], found.problems)


def _place(given: str, old: Sequence[str]) -> tuple[str, Path]:
    """The name that a given file has in the sandbox, and where it lies."""
    name, sign, rest = given.partition("=")
    is_pair = bool(sign) and not Path(given).exists()
    try:
        file = named(rest if is_pair else given)
    except OSError as error:
        raise DataError(f"There is no file {(rest if is_pair else given)!r}.", mend="Check its name.") from error
    if is_pair and (not old or name in old):
        return name, file
    if not is_pair and (not old or file.name in old):
        return file.name, file
    if not is_pair and len(old) == 1:
        return old[0], file
    told = ", ".join(old)
    raise DataError(f"It is not clear in whose place {file.name} comes.", mend=f"Say NAME=FILE; there are: {told}.")


async def run(notebook: Document, *, engine: Engine, spec: SandboxSpec) -> Ran:
    """Run a notebook on the data of its sandbox.

    Raises:
        DataError: The data has another schema than what the notebook was made with.
        SandboxError: The sandbox failed.
        InstallError: The packages of the lock can't be had.
    """
    data = [each for each in (notebook.lock.data if notebook.lock else []) if each.schema or each.tables]

    async def check(kernel: Kernel) -> bool:
        found = schemas(await describe(kernel, [each.path for each in data]))
        for path, schema in ((path, schema) for each in data for path, schema in _wanted(each, found)):
            if problems := _apart(schema, _types(found.get(path, []))):
                name = path.removeprefix(f"{DATA}/")
                raise DataError(
                    f"The new {name} has another schema: {'; '.join(problems[:5])}.",
                    mend="Give data with the same columns.",
                )
        return True

    return await FreshRuns(notebook, engine=engine, spec=spec).once(first=check if data else None)


def _wanted(data: Data, found: Mapping[str, Sequence[ColumnType]]) -> Iterator[tuple[str, dict[str, str]]]:
    """The columns that tables must have, by path: of a file; of a folder, those of each table that has a former name.

    Where all former tables of a folder had the same columns, each table that is there now must have them, as code that
    reads all of a folder expects.
    """
    if data.schema:
        yield data.path, _types(data.schema)
    former = {f"{data.path}/{name}": _types(columns) for name, columns in data.tables.items()}
    alike = [*former.values()] if all(each == next(iter(former.values())) for each in former.values()) else []
    for path in found:
        if path in former:
            yield path, former[path]
        elif alike and path.startswith(f"{data.path}/"):
            yield path, alike[0]


def _types(columns: Sequence[ColumnType]) -> dict[str, str]:
    return {each.name: each.dtype for each in columns}


def _apart(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Columns that a table lacks, or that have another type; more columns do no harm.

    Nor does what was text, maybe for a few values such as NA, which the code may know.
    """
    found = [f"it has no column {name!r}" for name in old if name not in new]
    for name, kind in old.items():
        here = new.get(name, kind)
        if kind != "String" and _family(here) != _family(kind):
            found.append(f"{name!r} is {here}, and was {kind}")
    return found


def _family(kind: str) -> str:
    return "number" if kind.startswith(_NUMBERS) else kind


def written(notebook: Document, ran: Ran, mounts: Sequence[Mount], *, parameters: Mapping[str, str]) -> Any:
    """The notebook with what its cells show now; changes the nbformat node that it was read from."""
    raw, count = notebook.raw, 0
    code = [each for each in raw.cells if each.cell_type == "code"]
    for cell in notebook.cells:
        node, ended = code[cell.number - 1], ran.cells.get(cell.number)
        if ended is None:
            continue
        count += 1
        alt = prose.alt(cell.code, "", number=cell.number)
        node.outputs = [_numbered(described(each, alt), count) for each in ran.exported[cell.number]]
        node.execution_count = count
        if cell.facts:
            began = ran.moments[cell.number][0]
            facts = {"status": ended.status, "seconds": round(ended.duration, 3), "time": utc(began)}
            node.metadata["nbagent"] |= facts
            node.metadata["execution"] = timing(began, ended.duration)
    # Widgets of before are of the first data, and whoever wrote the notebook may have made them up.
    raw.metadata.pop("widgets", None)
    if ran.widgets:
        state = {"version_major": 2, "version_minor": 0, "state": ran.widgets}
        raw.metadata["widgets"] = type(raw)({STATE_MIME: state})
    if not notebook.is_ours:
        return raw
    for each in raw.cells:
        facts = each.metadata.get("nbagent", {})
        if facts.get("role") == "answer" and not facts.get("former"):
            facts["former"] = True
            each.source = f"*This answer is of the first data; what cells show now is new.*\n\n{each.source}"
            facts["sha256"] = place.source_digest(each.source)
        if facts.get("role") == "parameters":
            facts["sha256"] = place.source_digest(each.source)
    facts = raw.metadata["nbagent"]
    facts.pop("verified", None)
    if (lock := notebook.lock) is not None:
        former = {each.path: each for each in lock.data}
        intact, lock.data = lock.is_intact, [_described(each, former) for each in mounts if each.target in former]
        lock.sha256 = digest_of(lock) if intact else lock.sha256
        facts["lock"], facts["data"] = msgspec.to_builtins(lock), msgspec.to_builtins(lock.data)
    at = utc(min((each[0] for each in ran.moments.values()), default=0.0))
    facts["rerun"] = {"parameters": dict(parameters), "at": at}
    facts["cells"] = [each.get("id") for each in raw.cells]
    facts["cells_sha256"] = place.digest((each.cell_type, each.source) for each in raw.cells)
    return raw


def _numbered(output: Output, count: int) -> Any:
    from nbformat import from_dict

    return from_dict({**output, "execution_count": count} if output["output_type"] == "execute_result" else output)


def _described(mount: Mount, former: Mapping[str, Data]) -> Data:
    source, name = mount.source, mount.target.rpartition("/")[2]
    return msgspec.structs.replace(
        former[mount.target],
        size=size_of(source),
        sha256=needs.digest(source),
        name="" if source.name == name else source.name,
    )
