"""Whether what a cell prints has one order, since at most one thread prints at a time, as far as code shows. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from nbagent.notebook.compare.names import bound_by, called_in, mentioned_in
from nbagent.notebook.lock import unparsed

MANY = 2
"""Threads of which nobody knows which is first."""
_REPEATS = (
    *(ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.AsyncWith, ast.If, ast.Try, ast.Match),
)
"""What has code in it that runs more than once, or at another time."""
_ENDS = re.compile(r"with (?:\w+\.){0,3}ThreadPoolExecutor\(|(?:\w+ = )?await (?:\w+\.)?gather\(")
"""The begin of a statement that starts several and waits for all."""
_SILENT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)


class Workers:
    """The threads that a notebook's cells have started.

    Args:
        concurrent: What code has that starts any.

    Attributes:
        names: Names that hold threads.
    """

    def __init__(self, concurrent: re.Pattern[str]) -> None:
        self.names: set[str] = set()
        self._concurrent = concurrent
        self._alive = 0

    def take(self, body: Sequence[ast.stmt]) -> bool:
        """Take in the next cell; returns whether its lines have one order."""
        ordered, started = True, self._alive > 0
        for statement in body:
            text = "" if isinstance(statement, ast.Import | ast.ImportFrom) else unparsed(statement)
            calls = _calls_of_threads(statement, self.names)
            if calls:
                started |= "start" in calls
                if "join" in calls and self._alive < MANY:
                    self._alive, started = 0, False
            elif _makes_one(statement, text, self._concurrent):
                ordered &= not started
                self._alive = min(MANY, self._alive + 1)
                self.names |= set(bound_by(statement))
                started |= "start" in called_in(statement)
            elif self._concurrent.search(text):
                ordered = False
                self._alive = self._alive if _ENDS.match(text) else MANY
            else:
                ordered &= not started or isinstance(statement, _SILENT)
        return ordered and self._alive < MANY


def _makes_one(statement: ast.stmt, text: str, concurrent: re.Pattern[str]) -> bool:
    """Whether a statement makes one thread, and nothing else that runs beside it."""
    return (
        isinstance(statement, ast.Assign | ast.Expr)
        and not any(isinstance(each, _REPEATS) for each in ast.walk(statement))
        and [each for each in called_in(statement) if each not in ("start", "")] == ["Thread"]
        and len(concurrent.findall(text)) == 1
    )


def _calls_of_threads(statement: ast.stmt, names: set[str]) -> set[str]:
    """Which of `start` and `join` a statement calls of threads, or of each of a list, if it does nothing else."""
    body: Sequence[ast.stmt] = [statement]
    if isinstance(statement, ast.For) and mentioned_in(statement.iter) <= names:
        names, body = {*bound_by(statement.target)}, statement.body
    found: set[str] = set()
    for each in body:
        match each:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="start" | "join" as called), args=[], keywords=[]
                )
            ) if name in names:
                found.add(called)
            case _:
                return set()
    return found
