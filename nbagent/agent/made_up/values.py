"""Values of code that is read without its data. Pure.

A value is what it may be without data, and from where it comes. Where syntax or a call combines values, their sources
are joined, and what they are without data is computed, as far as the tables of `computing` go.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from nbagent.agent.made_up.computing import FAILS, MOST

LARGE: Final = 60
"""Bits of the largest whole number that is its own hash."""
ALTERNATIVES: Final = 24
"""What one value may be without data, of which more is not kept."""
DATA, TOLD, CODE, VAGUE, CUT = "data", "told", "code", "vague", "cut"
"""Sources: data; numbers that are known; numbers that only the code has; and, beside these, that the way isn't known,
and that texts may have been cut.

Any other source is a variable that was given numbers of `CODE`.
"""
NOWHERE: Final[frozenset[str]] = frozenset()
_DATA, _CUT_DATA = frozenset((DATA,)), frozenset((DATA, CUT))
_DIGITS = re.compile(r"\d{1,30}(?:\.\d{1,30})?")

_SQL = re.compile(r"(?is)\s*(?:select|with)\b.*\b(?:where|having)\b")
_CONDITION = re.compile(
    r"""(?ix) (?P<column> [\w"\])] \s* (?: [<>=!]=? | <> | \b(?:like|between|and)\b ) ) \s* (?: '[^']*' | -?[\d.]+ )
    | (?P<list> \bin ) \s* \( [^()]* \) | '[^']*' | "[^"]*" """
)
"""What a condition of a query compares a column with, or a text beside it."""
_QUERY = re.compile(r"(?is)\s*(?:select|with)\b")
_NAME = re.compile(r"""'[^']*'|(?P<name>\b[A-Za-z_]\w*)""")
"""A text in a query, or a name, which the database has, or the query fails."""


class Value:
    """What an expression is, as far as that is known without data.

    Attributes:
        constants: The constants that it may be without data.
        sources: From where it comes.
        parts: The values in it, if it is a container or an object.
        code: What is called when it is: the full name of a function or module of others, or what an interpreter made.
    """

    __slots__ = ("code", "constants", "parts", "sources")

    def __init__(
        self,
        constants: Iterable[Any] = (),
        sources: frozenset[str] = NOWHERE,
        parts: list[Value] | dict[Any, Value] | None = None,
        code: Any = None,
    ) -> None:
        self.constants = (
            constants[:ALTERNATIVES] if type(constants) is tuple else (*itertools.islice(constants, ALTERNATIVES),)
        )
        # Of data, nobody asks which variables are in it: there would be more of them with each step.
        self.sources = sources if DATA not in sources else _CUT_DATA if CUT in sources else _DATA
        self.parts, self.code = parts, code

    def leaves(
        self, seen: set[int] | None = None, *, keys: bool = True, pay: Callable[[int], None] = lambda _: None
    ) -> Iterator[Value]:
        """The values in it that have no others in them, each with the variables of what it is in.

        Args:
            seen: The containers that are not looked into again.
            keys: Whether keys that say a number are values, too.
            pay: Is told how many parts a container has before they are looked at.
        """
        seen = set() if seen is None else seen
        # Each with what all that it is in makes of what comes from the code, and whether any of that is data.
        waiting: list[tuple[Value, Value]] = [(self, Value())]
        while waiting:
            each, within = waiting.pop()
            if each.parts is None:
                yield within.item(each)
            elif id(each.parts) not in seen:
                seen.add(id(each.parts))
                inner = _within(within, each)
                pay(len(each.parts) * (4 + len(inner.sources)) // 8)
                if DATA in each.sources or each.constants:
                    yield within.item(Value(each.constants, each.sources))
                says: list[tuple[Value, Value]] = []
                for key, part in (
                    [*each.parts.items()] if isinstance(each.parts, dict) else ((None, x) for x in each.parts)
                ):
                    if keys and _says(key) and not (isinstance(key, str) and each.code):
                        says.append((Value((key,), each.sources | {CODE}), within))
                    says.append((part, inner))
                waiting += reversed(says)

    def singly(self) -> Iterator[tuple[Any, Value]]:
        """Each of its constants as a value, after what tells that from others: 1 is another one than 1.0 and True."""
        if not self.constants:
            yield self.sources, self
        for each in self.constants:
            yield (type(each), told_apart(each), self.sources), Value((each,), self.sources)

    def item(self, part: Value) -> Value:
        """A part of it, which comes from where it comes: a number of the code from the variable that has it."""
        if not self.sources or (CODE not in part.sources and DATA not in self.sources):
            return part
        if CODE in part.sources:
            rest = part.sources - {CODE}
            sources = rest | self.sources if rest else self.sources
        else:
            sources = part.sources | {DATA} if DATA not in part.sources else part.sources
        return Value(part.constants, sources, part.parts, part.code)

    def plain(self, room: list[int] | None = None) -> Any:
        """The one constant that it is.

        Raises:
            ValueError: It is none, or not known, or too large.
        """
        room = [MOST] if room is None else room
        room[0] -= 1
        if (
            self.sources & {DATA, VAGUE}
            or room[0] < 0
            or (self.parts is None) is (len(self.constants) != 1)
            or self.code
        ):
            raise ValueError("it is not known")
        if isinstance(self.parts, dict):
            return {key: each.plain(room) for key, each in self.parts.items()}
        return self.constants[0] if self.parts is None else [each.plain(room) for each in self.parts]


def _within(outer: Value, inner: Value) -> Value:
    """What stands for two containers, of which one is in the other: `item` makes of a part what both make of it."""
    if not inner.sources:
        return outer
    return outer.item(Value((), inner.sources)) if outer.sources else Value((), inner.sources)


def told_apart(constant: Any) -> Any:
    """A constant as a key, beside its type: a large whole number as text, since code can choose its hash."""
    return hex(constant) if is_large(constant) else constant


def is_large(constant: Any) -> bool:
    """Whether a constant is a whole number that Python's hash of numbers doesn't tell from all others."""
    return isinstance(constant, int) and constant.bit_length() > LARGE


def _says(key: Any) -> bool:
    return isinstance(key, int | float) or (isinstance(key, str) and any(map(str.isdigit, key)))


def made(constant: Any, sources: frozenset[str] = NOWHERE) -> Value:
    """A constant as a value, with values in it if it is a container."""
    if isinstance(constant, dict):
        return Value((), NOWHERE, {key: made(each, sources) for key, each in constant.items()})
    if isinstance(constant, list | tuple | set | frozenset | zip | enumerate):
        return Value((), NOWHERE, [made(each, sources) for each in constant])
    return Value((constant,), sources)


def joined(*values: Value, sources: frozenset[str] = NOWHERE) -> Value:
    """What is one of several values, or made of them in a way that isn't known."""
    if len(values) == 1 and values[0].parts is None and not sources:
        return Value(values[0].constants, values[0].sources)
    constants: dict[Any, Any] = {}
    leaves = [leaf for each in values for leaf in each.leaves()]
    sources = sources.union(*(leaf.sources for leaf in leaves))
    for leaf in leaves:
        for each in leaf.constants if len(constants) < ALTERNATIVES else ():
            if isinstance(each, str | bytes | int | float | complex | range | None):
                constants[type(each), each] = each
    return Value(constants.values(), sources)


def vague(*values: Value) -> Value:
    """What is made of constants in a way that isn't known: any of them, or all of them together.

    What was made so, or of data, isn't put together again: it would grow with each step.
    """
    leaves = [leaf for each in values for leaf in each.leaves()]
    whole = joined(*leaves, sources=frozenset((VAGUE,)))
    known = joined(*(leaf for leaf in leaves if leaf.sources.isdisjoint((DATA, VAGUE)))).constants
    texts = [each for each in known if isinstance(each, str)]
    text = "".join(texts)[:MOST]
    numbers = [each for each in known if isinstance(each, int | float) and not isinstance(each, bool)]
    digits = _DIGITS.findall(" ".join(texts)[:MOST])
    numbers += [float(each) if "." in each else int(each) for each in digits]
    more: list[Any] = [text, text[::-1], re.sub(r"\D", "", text)] if text else []
    with suppress(*FAILS):
        more += [sum(numbers), sum(numbers) / len(numbers)]
    return Value((*more, *whole.constants), whole.sources)


def absorbed(kind: type, left: Value, right: Value, *, same: bool) -> Any:
    """What it comes to whatever data is: 0 times it, it less itself; None if that depends on it."""
    sides = [
        each.constants[0] if len(each.constants) == 1 and not each.sources & {DATA, VAGUE} else None
        for each in (left, right)
    ]
    zero, one = [type(each) in (int, float, bool) and each == 0 for each in sides], sides[1] == 1
    if (kind is ast.Mult and any(zero)) or (kind is ast.Mod and one) or (same and kind in (ast.Sub, ast.BitXor)):
        return 0
    return 1 if (kind is ast.Pow and zero[1]) or (same and kind in (ast.Div, ast.FloorDiv)) else None


def reading(constant: Any) -> int:
    """The steps that it takes besides to look for the numbers in a constant, again and again."""
    if isinstance(constant, str | bytes):
        return 1 + len(constant) // 8
    return 1 + constant.bit_length() // 16 if isinstance(constant, int) else 1


def looked_for(characters: int) -> int:
    """The steps that it takes to look for the numbers in a text."""
    return max(0, characters - 200) // 4


def queried(constant: Any) -> Any:
    """A constant; a query without what its conditions compare columns with, which only data can make it show.

    Nor does it have the digits in its names.
    """
    if not isinstance(constant, str) or not _QUERY.match(constant):
        return constant
    if _SQL.match(constant):
        constant = _CONDITION.sub(lambda found: found["column"] or found["list"] or found[0], constant)
    return _NAME.sub(lambda found: found[0].rstrip("0123456789") if found["name"] else found[0], constant)


def bounds_of(constant: Any) -> list[str]:
    """What the conditions of a query compare columns with."""
    is_query = isinstance(constant, str) and _SQL.match(constant)
    return [found[0] for found in _CONDITION.finditer(constant)] if is_query else []
