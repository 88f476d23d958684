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

from nbagent.agent.made_up.values import CODE, DATA, FAILS, NOWHERE, TOLD, VAGUE, Value, joined, key_of, vague

NOTHING = Value((), frozenset((DATA,)))
"""Data of which nothing is known."""
_SQL = re.compile(r"(?is)\s*(?:select|with)\b.*\b(?:where|having)\b")
_CONDITION = re.compile(
    r"""(?ix) (?P<column> [\w"\])] \s* (?: [<>=!]=? | <> | \b(?:like|between|and)\b ) ) \s* (?: '[^']*' | -?[\d.]+ )
    | (?P<list> \bin ) \s* \( [^()]* \) | '[^']*' | "[^"]*" """
)
"""What a condition of a query compares a column with, or a text beside it."""
CODED = re.compile(r"=|\bdef ")
_DEFINES = re.compile(r"(?m)^\s*def \w+\(")
_UNROLLED, _DEEP = 1_000, 3
"""Steps within loops that are read turn by turn, and loops in loops that are read twice."""
COMMON = "?"
"""Ends the name of a variable whose number anybody may reckon with."""
GLOBAL = "global "
"""Under this name, a function's scope has the names that are global in it."""


class TooLongError(Exception):
    """Code takes too many steps to be read."""


@dataclass(frozen=True)
class Function:
    """A function or a class of the code, perhaps with the object whose method it is."""

    node: Any
    scope: ChainMap[str, Value]
    defaults: tuple[Value, ...] = ()
    self: Value | None = None


class Scopes(ABC):
    """What names mean, and what was done with values.

    Args:
        source_of: Says from where a constant comes.

    Attributes:
        shown: What a cell has shown, with whether it may be shown again and again.
        stated: The constants that its code has, and what was made of them alone, but for what is only compared with.
        used: The variables that are used with data: they are parameters.
        parameters: Their values.
        saved: What may be read again from somewhere.
    """

    def __init__(self, source_of: Callable[[Any], frozenset[str]]) -> None:
        self._source_of = source_of
        self._scope: ChainMap[str, Value] = ChainMap()
        self.used: set[str] = set()
        self.parameters: list[Value] = []
        self.saved: list[Value] = []
        self._again = 0, Value()
        self._under: list[Value] = []
        self._loops = self._calls = self._quiet = self._told = 0
        self._returned: list[list[Value]] = []
        self._raised: list[Value] = []
        self._names = itertools.count()
        self._given: dict[str, Value] = {}
        self.begin(0)

    @abstractmethod
    def eval(self, node: ast.AST | None) -> Value:
        """What an expression is."""

    def begin(self, steps: int) -> None:
        """Begin a cell, for which there are so many steps."""
        self._left, self._unrolled = steps, _UNROLLED
        self.shown: list[tuple[Value, bool]] = []
        self.stated: list[Value] = []
        self._waiting: dict[int, Value] = {}

    @contextmanager
    def _beside(self, condition: Value) -> Iterator[None]:
        """What is read now may not run, or more than once, as a condition has it."""
        whole = joined(condition)
        self._under.append(whole if DATA not in whole.of else Value((), whole.of))
        try:
            yield
        finally:
            self._under.pop()

    def _beneath(self, value: Value) -> Value:
        """A value that comes from the conditions too under which it is read."""
        if not self._under and not self._told:
            return value
        of = NOWHERE.union(*(each.of for each in self._under), {TOLD} if self._told else ())
        if value.parts is not None or value.code:
            return Value(value.alone, value.of | (of & {DATA}), value.parts, value.code)
        return Value(value.alone, value.of | of)

    def _turns(self, target: ast.expr, over: Value, turn: Callable[[], object]) -> None:
        """Take the turns of a loop or a comprehension."""
        items = self.known_items(over)
        self._loops += 1
        is_told = TOLD in over.of
        self._told += is_told
        for item in items or ():
            if self._unrolled <= 0:
                items = None
                break
            before = self._left
            self._store(target, item)
            turn()
            self._unrolled -= before - self._left + 1
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
        if isinstance(over.parts, dict) and not over.code and DATA not in over.of:
            return [over.item(Value((key,), self._source_of(key))) for key in over.parts]
        if isinstance(over.parts, list) and DATA not in over.of:
            return [over.item(each) for each in over.parts]
        with suppress(*FAILS):
            whole = over.plain()
            if isinstance(whole, str | bytes | range) and len(whole) < _UNROLLED:
                return [Value((each,), over.of) for each in whole]
        return None

    def element(self, over: Value) -> Value:
        """Any item of a value."""
        if over.parts is not None and not over.code:
            items = over.parts.values() if isinstance(over.parts, dict) else over.parts
            keys = [Value((each,), over.of) for each in over.parts] if isinstance(over.parts, dict) else []
            return joined(*map(over.item, itertools.islice(items, 30)), *keys, Value((), over.of))
        whole = over.alone[0] if over.alone and isinstance(over.alone[0], range) else None
        if whole is not None:
            return Value((whole.start, whole.stop, whole.stop - 1), over.of | {VAGUE})
        return Value(over.alone, over.of | (NOWHERE if DATA in over.of else {VAGUE}))

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
            at = key_of(key)
            if isinstance(parts, dict) or (isinstance(parts, list) and isinstance(at, int)):
                is_there = self._under and (at in parts if isinstance(parts, dict) else True)
                parts[at] = joined(parts[at], value) if is_there else value
                return
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        if isinstance(parts, list):
            parts.append(joined(value, Value((), key.of & {DATA})))
        elif isinstance(parts, dict):
            parts[len(parts), "?"] = joined(value, Value((), key.of & {DATA}))
        elif isinstance(base, ast.Name) and (old := self._scope.get(base.id)):
            self._scope[base.id] = Value((*joined(value).alone, *old.alone), old.of | {DATA}, old.parts, old.code)
        if not isinstance(base, ast.Name) or whole.code:
            self._save([value])

    def _bind(self, name: str, value: Value) -> None:
        """Give a name a value; numbers of the code are the name's from now on."""
        value = self._beneath(value)
        scope = self._scope
        if name in getattr(scope.maps[0].get(GLOBAL), "alone", ()):
            scope = ChainMap(scope.maps[-1])
        if self._under and name in scope.maps[0] and scope.maps[0][name] is not value:
            old = scope.maps[0][name]
            if old.parts is None and value.parts is None and not old.code and not value.code:
                bounds = [each for each in self._under if DATA not in each.of]
                value = joined(old, value, *bounds)
        if value.parts is not None and not value.code:
            value = Value(value.alone, value.of | {f"{name}@{next(self._names)}"}, value.parts, value.code)
        elif CODE in value.of:
            key = f"{name}@{next(self._names)}"
            value = self._given[key] = Value(value.alone, value.of - {CODE} | {key}, None, value.code)
        elif not value.of and value.parts is None and value.alone and type(value.alone[0]) in (int, float):
            key = f"{name}@{next(self._names)}{COMMON}"
            value = self._given[key] = Value(value.alone, frozenset((key,)))
        scope.maps[0][name] = value

    def _use(self, values: Iterable[Value], *, named: bool = False) -> None:
        """Note that values are used with data: those of variables are parameters."""
        for leaf in (leaf for each in values for leaf in each.leaves()):
            names = leaf.of - {DATA, CODE, VAGUE, TOLD}
            if DATA not in leaf.of and (names or named):
                self.used |= names
                self.parameters += [leaf, *(self._given[each] for each in names if each in self._given)]

    def _save(self, values: Iterable[Value]) -> None:
        """Note what is written somewhere."""
        for leaf in (leaf for each in values for leaf in each.leaves()):
            self._spend()
            self.saved += [Value(map(queried, leaf.alone), leaf.of)] if leaf.alone else []

    def _readable(self) -> Value:
        """What the latest of what was saved may come to, but for code that is imported."""
        if self._again[0] != len(self.saved):
            texts = [
                each
                for each in self.saved[-100:]
                if not (isinstance(each.alone[0], str) and _DEFINES.search(each.alone[0]))
            ]
            self._again = len(self.saved), vague(*texts)
        return self._again[1]

    def _sources(self, values: Iterable[Value]) -> frozenset[str]:
        """From where any of several values comes."""
        found = [leaf for each in values for leaf in (each.leaves() if each.parts is not None else (each,))]
        long = [len(one) for leaf in found for one in leaf.alone if isinstance(one, str | bytes | range)]
        self._spend(len(found) + min(sum(long), 10**9) // 50)
        return NOWHERE.union(*(leaf.of for leaf in found))

    def _spend(self, steps: int = 1) -> None:
        """Take steps; raises a TooLongError if none are left."""
        self._left -= steps
        if self._left < 0:
            raise TooLongError


def queried(constant: Any) -> Any:
    """A constant; a query without what its conditions compare columns with, which only data can make it show."""
    if isinstance(constant, str) and _SQL.match(constant):
        return _CONDITION.sub(lambda found: found["column"] or found["list"] or found[0], constant)
    return constant
