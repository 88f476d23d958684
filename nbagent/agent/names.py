"""Which names of earlier cells code uses. Pure; the code is parsed, never run."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence

from nbagent.core.syntax import UNREADABLE, parse

MAX_CODE = 500_000
"""Characters of the cells whose code is looked into, the latest first."""
MAGICS = re.compile(r"(?m)^[^\S\n]*[%!].*$")


def reused(code: Sequence[str], earlier: Sequence[str]) -> list[str]:
    """The variables and functions of earlier cells on which code depends, in order; beyond `MAX_CODE`, none are known.

    Args:
        code: Cells, in order.
        earlier: Those before, in order.
    """
    made: set[str] = set()
    found: dict[str, None] = {}
    given = {name for statement in _statements(earlier) for name in _bound(statement)[1]}
    for statement in _statements(code):
        inside, bound = _bound(statement)
        used = [
            each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        ]
        used += (
            [statement.target.id]
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
            else []
        )
        found |= dict.fromkeys(name for name in used if name in given and name not in made and name not in inside)
        made |= inside | bound
    return [name for name in found if not name.startswith("_")]


def recent(code: Sequence[str]) -> int:
    """The index of the first of the last cells that have `MAX_CODE` characters together at most."""
    sizes = itertools.accumulate(map(len, reversed(code)))
    return len(code) - sum(size <= MAX_CODE for size in sizes)


def _statements(code: Sequence[str]) -> Iterator[ast.stmt]:
    """The statements of the recent cells, without those of cells that can't be read."""
    for each in code[recent(code) :]:
        with contextlib.suppress(*UNREADABLE):
            yield from parse(MAGICS.sub("", each), awaits=True).body


def _bound(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement gives a value before it uses them, and all but modules that have one after it."""
    stored = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    stored |= {each.name for each in ast.walk(statement) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    first = stored | {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        first -= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return first, stored
