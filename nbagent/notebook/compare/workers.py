"""Whether what a cell prints has one order: whether at most one thread prints at a time, as its code shows. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from nbagent.notebook.compare.names import bound_by, called_in, mentioned_in
from nbagent.notebook.lock import unparsed

MANY = 2
_LOOPS = (
    *(ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
)
"""What may run code in them more than once, or at another time."""
_POOL = re.compile(r"(?:\w+\.)*(?:ThreadPool\w*|ProcessPool\w*|Pool)\(")
_GATHER = re.compile(r"(?:\w+\.)*gather\(")
_IMPORTS = (ast.Import, ast.ImportFrom)


class Workers:
    """The threads that a notebook's cells have started, as far as their code shows."""

    def __init__(self, concurrent: re.Pattern[str]) -> None:
        self._concurrent = concurrent
        self._alive = 0
        self._names: set[str] = set()

    def take(self, body: Sequence[ast.stmt]) -> bool:
        """Take in the next cell; returns whether its lines have one order."""
        ordered, is_started = True, self._alive > 0
        for statement in body:
            text = "" if isinstance(statement, _IMPORTS) else unparsed(statement)
            names = mentioned_in(statement) & self._names
            if names and _is_wait(statement):
                if self._alive == 1:
                    self._alive, is_started = 0, False
                continue
            if self._concurrent.search(text) and not _only_makes_a_thread(statement, text):
                ordered = False
                self._alive = self._alive if _ends_by_itself(statement) else MANY
            elif "Thread" in called_in(statement):
                self._alive += 1
                self._names |= set(bound_by(statement))
            elif names and isinstance(statement, ast.For):
                self._names |= set(bound_by(statement.target))
            begins = "start" in called_in(statement)
            ordered &= not is_started or isinstance(statement, ast.FunctionDef | _IMPORTS)
            is_started |= begins and self._alive > 0
        return ordered and self._alive < MANY


