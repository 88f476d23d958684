"""The lock of a notebook: all that its results may depend on beside its code and its data. Pure.

It stands in `metadata.nbagent.lock`. Its own digest is part of it, so that a later edit shows.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nbagent.core.events import Cell, Package
from nbagent.notebook.record import Recording

SEEDS = frozenset({"seed", "default_rng", "RandomState", "manual_seed", "set_seed", "Random", "set_random_seed"})
"""Functions whose first argument is a seed."""
SEED_NAMES = frozenset({"random_state", "seed", "random_seed"})
"""Keywords of a seed."""
DAY = 86_400
LONGEST_SEED = 80
"""Characters of a seed's expression that are kept."""


class Seed(msgspec.Struct, frozen=True):
    """A seed in a cell's code, as it stands there."""

    cell: int
    code: str


class Lock(msgspec.Struct, omit_defaults=True):
    """What a notebook's results may depend on.

    Attributes:
        python: The version of the kernel's Python.
        environment: Digest of the kernel's image or environment.
        engine: What isolated it.
        limits: Each field of `policy.Limits`.
        machine: Platform, processor, threads, locale, time zone and hash seed, see `sandbox/machine.py`.
        kernel: The packages that every kernel of its environment has.
        packages: The packages that were installed for its session.
        exclude_newer: The end of the day of the session, as uv's option of that name has it.
        seeds: The seeds that its code sets.
        sha256: The digest of all this.
    """

    python: str = ""
    environment: str = ""
    engine: str = ""
    limits: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    kernel: list[Package] = []
    packages: list[Package] = []
    exclude_newer: str = ""
    seeds: list[Seed] = []
    sha256: str = ""

    @property
    def is_intact(self) -> bool:
        """Whether nobody has changed it since it was written."""
        return self.sha256 == digest_of(self)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package, by name."""
        return {each.name: each.version for each in (*self.kernel, *self.packages)}


def lock_of(recording: Recording, kernel: Iterable[Package]) -> Lock:
    """The lock of a session.

    Args:
        recording: The session so far.
        kernel: The packages that its kernel had from the start.
    """
    started = recording.started
    found = Lock(
        kernel=list(kernel),
        packages=sorted(recording.packages.values(), key=lambda each: each.name),
        exclude_newer=utc(DAY * (recording.at // DAY + 1)) if recording.at else "",
        seeds=[each for cell in recording.cells for each in seeds(cell)],
    )
    if started:
        found.python, found.environment, found.engine = started.python, started.environment, started.engine
        found.limits, found.machine = started.limits, started.machine
    found.sha256 = digest_of(found)
    return found


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
        if _name(node.func) in SEEDS and node.args and isinstance(node.args[0], ast.Constant):
            yield unparsed(node)
        for keyword in node.keywords:
            if (
                keyword.arg in SEED_NAMES
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is not None
            ):
                yield f"{keyword.arg}={unparsed(keyword.value)}"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def nodes(code: str) -> Iterator[ast.AST]:
    """The nodes of a cell's syntax tree; none if it isn't plain Python."""
    try:
        yield from ast.walk(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def unparsed(node: ast.AST) -> str:
    """The source of a syntax tree; empty if it is nested too deep, or has a number that is too long to be written."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return ""


def imports(code: str) -> set[str]:
    """The top-level modules that a cell imports; empty if it isn't plain Python."""
    found: set[str] = set()
    for node in nodes(code):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
