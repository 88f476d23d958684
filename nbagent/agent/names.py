"""Which names of earlier cells, and of files, code uses. Pure; the code is parsed, never run."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from nbagent.core.syntax import UNREADABLE, parse

MAX_CODE = 500_000
"""Characters of the cells whose code is looked into, the latest first."""
LISTS = re.compile(r"\b(?:iterdir|listdir|scandir|walk)\(")
"""Code that reads whichever files there are."""
MAX_NAMES, MAX_PATTERNS = 500, 200
"""Names of files that are looked for in code, and patterns in it that they may fit."""
_PATTERN = re.compile(r"""["']([^"'\n]{0,200})["']""")
_ANY = re.compile(r"[*?]+|\{[^{}]{0,60}\}|%\w|\[[^\[\]]{0,60}\]")
"""What stands for anything in a pattern of files, or in a text that becomes a file's name."""
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


def read_by(names: Collection[str], code: Iterable[str]) -> list[str]:
    """Those of some names of files that code has, or has a pattern for, or all if it lists what there is."""
    text = "\n".join(code)[-MAX_CODE:]
    looked = sorted(names)[:MAX_NAMES]
    if not looked or LISTS.search(text):
        return looked
    texts = (each[1].rpartition("/")[2] for each in _PATTERN.finditer(text) if _ANY.search(each[1]))
    patterns = [_ANY.split(each) for each in itertools.islice(texts, MAX_PATTERNS)]
    return [each for each in looked if each in text or any(_fits(each, parts) for parts in patterns)]


def _fits(name: str, parts: Sequence[str]) -> bool:
    """Whether a name has the parts of a pattern in order, from its begin to its end, and the pattern any letter."""
    at = len(parts[0])
    for part in parts[1:-1]:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    is_told = any(map(str.isalpha, "".join(parts)))
    return is_told and name.startswith(parts[0]) and name.endswith(parts[-1]) and len(name) >= at + len(parts[-1])


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
