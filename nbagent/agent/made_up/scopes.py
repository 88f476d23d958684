"""What the names in code mean where it is read without its data. Pure: nothing of the code is run."""

from __future__ import annotations

import ast
import itertools
import re
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from nbagent.agent.made_up.computing import FAILS
from nbagent.agent.made_up.steps import Steps
from nbagent.agent.made_up.values import (
    CODE,
    CUT,
    DATA,
    NOWHERE,
    TOLD,
    VAGUE,
    Value,
    queried,
    told_apart,
)

NOTHING = Value((), frozenset((DATA,)))
"""Data of which nothing is known."""
CODED = re.compile(r"=|\bdef ")
_DEFINES = re.compile(r"(?m)^[^\S\n]*+def \w+\(")
AGAIN = 1_000_000
"""How often a number may be shown that has a name, or stands in a loop or in a function."""
_UNROLLED, _DEEP = 1_000, 3
"""Steps within loops that are read turn by turn, and loops in loops that are read twice."""
COMMON = "?"
"""Ends the name of a variable whose number anybody may reckon with."""
GLOBAL = "global "
"""Under this name, a function's scope has the names that are global in it."""


@dataclass(frozen=True)
class Function:
    """A function or a class of the code, perhaps with the object whose method it is."""

    node: Any
    scope: ChainMap[str, Value]
    defaults: tuple[Value, ...] = ()
    self: Value | None = None


class Scopes(Steps, ABC):
    """What names mean, and what was done with values.

    Args:
        source_of: Says from where a constant comes.

    Attributes:
        shown: The constants that a cell has shown, each as a value, with how often.
        stated: Those that its code has, and what was made of them alone, but for what is only compared with.
        used: The variables that are used with data: they are parameters.
        parameters: Their values.
        bounds: The constants with which data is compared.
        tables: The texts by which tables were read: names of files, sheets and columns.
        saved: What may be read again from somewhere.
    """

    def __init__(self, source_of: Callable[[Any], frozenset[str]]) -> None:
        self._source_of = source_of
        self._scope: ChainMap[str, Value] = ChainMap()
        self.used: set[str] = set()
        self.parameters: dict[Any, Value] = {}
        self.bounds: list[Any] = []
        self.tables: set[str] = set()
        self.saved: dict[Any, Value] = {}
        self._again = 0, Value()
        self._names = itertools.count()
        self._given: dict[str, Value] = {}
        self.begin(0)

    @abstractmethod
    def eval(self, node: ast.AST | None) -> Value:
        """What an expression is."""

    def begin(self, steps: int) -> None:
        """Begin a cell, for which there are so many steps."""
        self.begin_steps(steps)
        self._unrolled = _UNROLLED
        self._scope = ChainMap(self._scope.maps[-1])
        self._under: list[Value] = []
        self._loops = self._calls = self._unstated = self._told = 0
        self._returned: list[list[Value]] = []
        self._raised: list[Value] = []
        self._begun = ""
        self._constants: dict[Any, frozenset[str]] = {}
        self.shown: dict[Any, tuple[Value, int]] = {}
        self.stated: dict[Any, tuple[Value, int]] = {}
        self._waiting: dict[int, Value] = {}

    @contextmanager
    def _beside(self, condition: Value) -> Iterator[None]:
        """What is read now may not run, or more than once, as a condition has it."""
        whole = self.joined(condition)
        self._under.append(whole if DATA not in whole.sources else Value((), whole.sources))
        try:
            yield
        finally:
            self._under.pop()

    def _beneath(self, value: Value) -> Value:
        """A value that comes from the conditions too under which it is read."""
        if not self._under and not self._told:
            return value
        self.pay(sum(len(each.sources) for each in (value, *self._under)) // 8)
        sources = NOWHERE.union(*(each.sources for each in self._under), {TOLD} if self._told else ())
        if value.parts is not None or value.code:
            return Value(value.constants, value.sources | (sources & {DATA}), value.parts, value.code)
        return Value(value.constants, value.sources | sources)

    def _turns(self, target: ast.expr, over: Value, turn: Callable[[], object]) -> None:
        """Take the turns of a loop or a comprehension."""
        items = self.known_items(over)
        self._loops += 1
        is_told = TOLD in over.sources
        self._told += is_told
        for item in items or ():
            if self._unrolled <= 0:
                items = None
                break
            before = self._read
            self._store(target, item)
            turn()
            self._unrolled -= before - self._read + 1
        self._loops -= 1
        self._told -= is_told
        if items is None:
            element = self.element(over)

            def one() -> None:
                self._store(target, element)
                turn()

            self._repeat(over, one)

    def _repeat(self, over: Value, turn: Callable[[], object]) -> None:
        """Take turns of which it isn't known how many there are."""
        self._loops += 1
        with self._beside(over):
            for _ in range(2 if self._loops <= _DEEP else 1):
                turn()
        self._loops -= 1

    def known_items(self, over: Value) -> list[Value] | None:
        """The items of a value, if they are known and not too many."""
        if over.parts is not None:
            self.pay(len(over.parts) * (1 + len(over.sources) // 8))
        if isinstance(over.parts, dict) and not over.code and DATA not in over.sources:
            self._spend(len(over.parts))
            return [over.item(Value((key,), self._source(key))) for key in over.parts]
        if isinstance(over.parts, list) and DATA not in over.sources:
            self._spend(len(over.parts))
            return [over.item(each) for each in over.parts]
        with suppress(*FAILS):
            whole = self.plain(over)
            if isinstance(whole, str | bytes | range) and len(whole) < _UNROLLED:
                self.pay(len(whole))
                return [Value((each,), over.sources) for each in whole]
        return None

    def element(self, over: Value) -> Value:
        """Any item of a value."""
        if over.parts is not None and not over.code:
            items = over.parts.values() if isinstance(over.parts, dict) else over.parts
            keys = [Value((each,), over.sources) for each in over.parts] if isinstance(over.parts, dict) else []
            return self.joined(*map(over.item, itertools.islice(items, 30)), *keys, Value((), over.sources))
        whole = over.constants[0] if over.constants and isinstance(over.constants[0], range) else None
        if whole is not None:
            return Value((whole.start, whole.stop, whole.stop - 1), over.sources | {VAGUE})
        return Value(over.constants, over.sources | (NOWHERE if DATA in over.sources else {VAGUE}))

    def _store(self, target: ast.expr, value: Value) -> None:
        """Give a target a value."""
        match target:
            case ast.Name(id=name):
                self._bind(name, value)
            case ast.Starred(value=inner):
                self._store(inner, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                items = self.known_items(value) or []
                stars = [at for at, each in enumerate(targets) if isinstance(each, ast.Starred)]
                if items and stars:
                    end = len(items) - (len(targets) - stars[0] - 1)
                    items = [*items[: stars[0]], Value(parts=items[stars[0] : end]), *items[end:]]
                for at, each in enumerate(targets):
                    self._store(each, items[at] if len(items) == len(targets) else self.element(value))
            case ast.Attribute(value=base, attr=attr):
                self._put(base, self.eval(base), Value((attr,)), value)
            case ast.Subscript(value=base, slice=index):
                self._put(base, self.eval(base), self.eval(index), value)

    def _put(self, base: ast.expr, whole: Value, key: Value, value: Value) -> None:
        """Put a value into another one, which stands in the code as `base`."""
        value, parts = self._beneath(value), whole.parts
        with suppress(*FAILS):
            at = self.key_of(key)
            if isinstance(parts, dict) or (isinstance(parts, list) and isinstance(at, int)):
                is_there = self._under and (at in parts if isinstance(parts, dict) else True)
                parts[at] = self.joined(parts[at], value) if is_there else value
                return
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        if isinstance(parts, list):
            parts.append(self.joined(value, Value((), key.sources & {DATA})))
        elif isinstance(parts, dict):
            parts["?",] = self.joined(parts.get(("?",), value), value, Value((), key.sources & {DATA}))
        elif isinstance(base, ast.Name) and (old := self._scope.get(base.id)):
            whole = self.joined(value, Value(old.constants, old.sources | {DATA}))
            self._scope[base.id] = Value(whole.constants, whole.sources, old.parts, old.code)
        if not isinstance(base, ast.Name) or whole.code:
            self._save([value])

    def _bind(self, name: str, value: Value) -> None:
        """Give a name a value; numbers of the code are the name's from now on."""
        value = self._beneath(value)
        self.pay(3 + len(value.sources) // 8)
        scope = self._scope
        if name in getattr(scope.maps[0].get(GLOBAL), "constants", ()):
            scope = ChainMap(scope.maps[-1])
        if self._under and name in scope.maps[0] and scope.maps[0][name] is not value:
            old = scope.maps[0][name]
            if old.parts is None and value.parts is None and not old.code and not value.code:
                bounds = [each for each in self._under if DATA not in each.sources]
                value = self.joined(old, value, *bounds)
        if value.parts is not None and not value.code:
            value = Value(value.constants, value.sources | {f"@{next(self._names)}"}, value.parts, value.code)
        elif CODE in value.sources:
            key = f"@{next(self._names)}"
            value = self._given[key] = Value(value.constants, value.sources - {CODE} | {key}, None, value.code)
        elif not value.sources and value.parts is None and value.constants and type(value.constants[0]) in (int, float):
            key = f"@{next(self._names)}{COMMON}"
            value = self._given[key] = Value(value.constants, frozenset((key,)))
        scope.maps[0][name] = value

    def _use(self, values: Iterable[Value], *, named: bool = False) -> None:
        """Note that values are used with data: those of variables are parameters."""
        for leaf in self.leaves(values):
            names = leaf.sources - {DATA, CODE, VAGUE, TOLD, CUT}
            if DATA not in leaf.sources and (names or named):
                self.used |= names
                for each in (leaf, *(self._given[each] for each in names if each in self._given)):
                    self.parameters.update(each.singly() if self.leaves([each], read=True) else ())

    def _save(self, values: Iterable[Value]) -> None:
        """Note what is written somewhere."""
        for key, value in (each for leaf in self.leaves(values, read=True) for each in leaf.singly()):
            if key not in self.saved and value.constants:
                self.saved[key] = Value((queried(value.constants[0]),), value.sources)

    def _readable(self) -> Value:
        """What the latest of what was saved may come to, but for code that is imported."""
        if self._again[0] != len(self.saved):
            latest = [*itertools.islice(reversed(self.saved.values()), 100)][::-1]
            texts = [each for each in latest if not _DEFINES.search(str(each.constants[0]))]
            self._again = len(self.saved), self.vague(*texts)
        return self._again[1]

    def _source(self, constant: Any) -> frozenset[str]:
        """From where a constant comes; its numbers are looked for once in a cell."""
        key = type(constant), told_apart(constant)
        if key not in self._constants:
            self._look(constant)
            self._constants[key] = self._source_of(constant)
        return self._constants[key]
