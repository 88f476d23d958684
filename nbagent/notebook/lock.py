"""The lock of a notebook: all that its results may depend on beside its code and its data. Pure.

It stands in `metadata.nbagent.lock`. Its own digest is part of it, so that a later edit shows.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nbagent.core import syntax
from nbagent.core.events import Cell, ColumnType, DataSeen, Package
from nbagent.notebook.data_changes import read_by
from nbagent.notebook.record import Recording

SEEDS = frozenset({"seed", "default_rng", "RandomState", "manual_seed", "set_seed", "Random", "set_random_seed"})
"""Functions whose first argument is a seed."""
SEED_NAMES = frozenset({"random_state", "seed", "random_seed"})
"""Keywords of a seed."""
COMMANDS = re.compile(r"(?m)^[^\S\n]*(?:[\w, ]{1,80}= *)?[%!](.*)$")
"""Lines of a cell that run a magic or a program, and what stands behind the sign."""
_ASSIGNED = re.compile(r"(?m)^([^\S\n]*[\w, ]{1,80}= *)[%!].*$")
_MAGICS = re.compile(r"(?m)^([^\S\n]*)(?:[%!?].*|[\w.]{1,80}\?{1,2}[^\S\n]*)$")
"""Lines of IPython's that are no Python."""
DAY = 86_400
LONGEST_SEED = 80
"""Characters of a seed's expression that are kept, and nodes of its syntax tree that are looked at."""


class Seed(msgspec.Struct, frozen=True):
    """A seed in a cell's code, as it stands there."""

    cell: int
    code: str


class Data(msgspec.Struct, omit_defaults=True):
    """A file or folder that the code reads.

    Attributes:
        path: Where.
        size: Bytes; for a folder, of all its files.
        sha256: As `needs.digest` has it.
        schema: The columns of a table, as a sandbox found them.
        tables: The same for each table of a folder, by its path in it.
        name: What it is called on the host, if its path has another name.
        changed: How it changed between two cells that name it, in a sentence: a re-run shows something else.
    """

    path: str
    size: int
    sha256: str
    schema: list[ColumnType] = []
    tables: dict[str, list[ColumnType]] = {}
    name: str = ""
    changed: str = ""


class Lock(msgspec.Struct, omit_defaults=True):
    """What a notebook's results may depend on.

    Attributes:
        python: The version of the kernel's Python.
        environment: Digest of the kernel's image or environment.
        engine: What isolated it.
        limits: Each field of `policy.Limits`. JupyterLab saves 60.0 as 60, which reads as the same here.
        machine: Platform, processor, threads, locale, time zone and hash seed, see `sandbox/machine/traits.py`.
        kernel: The packages that every kernel of its environment has.
        packages: The packages that were installed for its session.
        exclude_newer: The end of the day of the session, as uv's option of that name has it.
        seeds: The seeds that its code sets.
        data: What its code reads.
        sha256: The digest of all this.
    """

    python: str = ""
    environment: str = ""
    engine: str = ""
    limits: dict[str, float | None] = {}
    machine: dict[str, Any] = {}
    kernel: list[Package] = []
    packages: list[Package] = []
    exclude_newer: str = ""
    seeds: list[Seed] = []
    data: list[Data] = []
    sha256: str = ""

    @property
    def is_intact(self) -> bool:
        """Whether nobody has changed it since it was written."""
        return self.sha256 == digest_of(self)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package, by name."""
        return {each.name: each.version for each in (*self.kernel, *self.packages)}


def lock_of(recording: Recording) -> Lock:
    """The lock of a session so far."""
    started = recording.started
    found = Lock(
        packages=sorted(recording.packages.values(), key=lambda each: each.name),
        exclude_newer=utc(DAY * (recording.at // DAY + 1)) if recording.at else "",
        seeds=[each for cell in recording.cells for each in seeds(cell)],
        data=[_data(each, recording) for each in recording.data],
    )
    if started:
        found.python, found.environment, found.engine = started.python, started.environment, started.engine
        found.machine, found.kernel = started.machine, started.packages
        # As they come back from the log, so that a session's own export is that of the command.
        found.limits = {name: value if value is None else float(value) for name, value in started.limits.items()}
    found.sha256 = digest_of(found)
    return found


def _data(seen: DataSeen, recording: Recording) -> Data:
    below, schemas, read = f"{seen.path}/", recording.schemas, read_by(recording, seen)
    return Data(
        seen.path,
        read.size,
        read.sha256,
        changed=read.told if read.is_mixed else "",
        schema=schemas.get(seen.path, []),
        tables={path.removeprefix(below): found for path, found in schemas.items() if path.startswith(below)},
    )


def digest_of(lock: Lock) -> str:
    """The digest of all that a lock says but the digest itself."""
    plain = msgspec.json.encode(msgspec.structs.replace(lock, sha256=""), order="deterministic")
    return hashlib.sha256(plain).hexdigest()


def utc(seconds: float) -> str:
    """Seconds since the epoch as a time that uv and people read."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seeds(cell: Cell) -> list[Seed]:
    """The seeds that a cell's code sets."""
    found = filter(None, dict.fromkeys(_seeds(cell.code)))
    return [Seed(cell.cell, re.sub(r"\s+", " ", each)[:LONGEST_SEED]) for each in found]


def _seeds(code: str) -> Iterator[str]:
    for node in nodes(code):
        if not isinstance(node, ast.Call):
            continue
        if _name(node.func) in SEEDS and node.args and isinstance(node.args[0], ast.Constant) and _is_short(node):
            yield unparsed(node)
        for keyword in node.keywords:
            if (
                keyword.arg in SEED_NAMES
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is not None
            ):
                yield f"{keyword.arg}={unparsed(keyword.value)}"


def _is_short(node: ast.AST) -> bool:
    """Whether a call has no more in it than one that sets a seed has; others may be nested, and each be written out."""
    return next(itertools.islice(ast.walk(node), LONGEST_SEED, None), None) is None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def statements(code: str) -> list[ast.stmt]:
    """The statements of a cell, with `pass` for magics and programs; none if the rest isn't Python."""
    for each in (code, _MAGICS.sub(r"\1pass", _ASSIGNED.sub(r"\1None", code))):
        with contextlib.suppress(*syntax.UNREADABLE):
            return syntax.parse(each).body
    return []


def nodes(code: str) -> Iterator[ast.AST]:
    """The nodes of a cell's syntax tree; none if it isn't Python."""
    for each in statements(code):
        yield from ast.walk(each)


def unparsed(node: ast.AST) -> str:
    """The source of a syntax tree; empty if it is nested too deep, or has a number that is too long to be written."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return ""


def imports(code: str) -> set[str]:
    """The top-level modules that a cell imports."""
    found: set[str] = set()
    for node in nodes(code):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
