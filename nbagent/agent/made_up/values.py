"""Values of code that is read without its data, and what Python makes of constants within bounds. Pure.

A value is what it may be without data, and from where it comes. Where syntax or a call combines values, their sources
are joined, and what they are without data is computed, as far as the tables here go.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import codecs
import decimal
import fractions
import html
import itertools
import json
import math
import operator
import re
import statistics
import string
import struct
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

MOST: Final = 20_000
"""Items and characters of the values with which one call is computed."""
ALTERNATIVES: Final = 24
"""What one value may be without data, of which more is not kept."""
DATA, TOLD, CODE, VAGUE = "data", "told", "code", "vague"
"""Sources: data; numbers that are known; numbers that only the code has; and, beside these, that the way isn't known.

Any other source is a variable that was given numbers of `CODE`.
"""
NOWHERE: Final[frozenset[str]] = frozenset()
PURE_MODULES = frozenset(
    "math cmath statistics json datetime decimal fractions itertools functools operator collections re string textwrap "
    "calendar copy ast base64 struct io types typing enum dataclasses binascii codecs zlib html urllib pprint "
    "time locale".split()
)
"""Modules that make nothing but constants of constants."""
LIBRARIES = frozenset(
    "numpy pandas polars matplotlib scipy sklearn statsmodels duckdb seaborn sqlite3 plotly pyarrow os sys random "
    "pathlib importlib subprocess logging warnings csv pickle glob shutil tempfile uuid secrets inspect builtins "
    "IPython".split()
)
"""Other modules that no cell has written."""
MAKES = frozenset(
    "DataFrame LazyFrame Series array asarray Index from_dict from_records from_dicts dumps full zeros ones arange "
    "linspace float64 float32 int64 int32 add sum prod mean median max min dot concat Timestamp Timedelta date_range "
    "to_datetime to_timedelta Markdown HTML Path".split()
)
"""What of other modules makes constants of constants too."""
LISTS = frozenset(
    "DataFrame LazyFrame Series array asarray Index from_dict from_dicts from_records Markdown HTML".split()
)
"""Those that hold what they are given as it is."""
_CODECS: Final = frozenset(("hex", "base64", "rot13", "rot_13", "utf-8", "utf8", "ascii", "latin-1", "latin1"))
_ALIASES: dict[str, Callable[..., Any]] = {
    "numpy.add": operator.add,
    "numpy.sum": sum,
    "numpy.prod": math.prod,
    "numpy.mean": statistics.fmean,
    "numpy.dot": lambda left, right: sum(map(operator.mul, left, right)),
}
REDUCES: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "prod": math.prod,
    "mean": statistics.fmean,
    "median": statistics.median,
    "item": lambda items, *_: items[0],
    "tolist": list,
    "to_list": list,
}
"""Methods of columns and arrays, for lists of constants."""
_BUILTINS = (
    "abs int float round len sum ord chr str repr min max sorted list tuple set frozenset zip enumerate range pow "
    "divmod bool hex oct bin bytes bytearray any all format complex dict"
).split()
PURE: dict[str, Callable[..., Any]] = {
    **{name: getattr(builtins, name) for name in _BUILTINS},
    "reversed": lambda items: list(items)[::-1],
    "iter": list,
    "str.maketrans": str.maketrans,
    "int.from_bytes": int.from_bytes,
    "bytes.fromhex": bytes.fromhex,
    "dict.fromkeys": dict.fromkeys,
    "json.dumps": json.dumps,
    "html.unescape": html.unescape,
    "zlib.decompress": lambda data: zlib.decompressobj().decompress(data, MOST),
    "struct.unpack": struct.unpack,
    "urllib.parse.unquote": urllib.parse.unquote,
    "codecs.decode": lambda data, encoding="utf-8": codecs.decode(data, encoding) if encoding in _CODECS else 1 / 0,
    "binascii.unhexlify": binascii.unhexlify,
    "decimal.Decimal": decimal.Decimal,
    "fractions.Fraction": fractions.Fraction,
    "itertools.accumulate": lambda items: list(itertools.accumulate(items)),
    "itertools.chain": lambda *items: list(itertools.chain(*items)),
    **{f"base64.{name}": getattr(base64, name) for name in dir(base64) if name.endswith("decode")},
    **{f"{module}.{name}": each for module in ("math", "numpy") for name, each in vars(math).items() if callable(each)},
    **_ALIASES,
    **{f"statistics.{name}": getattr(statistics, name) for name in ("mean", "fmean", "median", "mode", "stdev")},
    **{f"operator.{name}": getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "neg")},
}
"""Functions that are computed for constants, by their full names."""
FIXED: dict[str, Any] = {
    **{f"math.{name}": each for name, each in vars(math).items() if isinstance(each, float)},
    **{f"string.{name}": each for name, each in vars(string).items() if isinstance(each, str)},
}
_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.LShift: lambda left, right: left << right if right < 1000 else 1 / 0,
    ast.RShift: operator.rshift,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_DIGITS = re.compile(r"\d{1,30}(?:\.\d{1,30})?")
_WIDE = re.compile(r"[{%][^{}%A-Za-z]*(?:\d{4}|\*)|\{[^{}]*\{")
"""A field of a format that may be very wide."""
_SERIES = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
FAILS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What computing with constants may raise."""


class Value:
    """What an expression is, as far as that is known without data.

    Attributes:
        alone: The constants that it may be without data.
        of: From where it comes.
        parts: The values in it, if it is a container or an object.
        code: What is called when it is: the full name of a function or module of others, or what an interpreter made.
    """

    __slots__ = ("alone", "code", "of", "parts")

    def __init__(
        self,
        alone: Iterable[Any] = (),
        of: frozenset[str] = NOWHERE,
        parts: list[Value] | dict[Any, Value] | None = None,
        code: Any = None,
    ) -> None:
        self.alone = alone[:ALTERNATIVES] if type(alone) is tuple else (*itertools.islice(alone, ALTERNATIVES),)
        self.of, self.parts, self.code = of, parts, code

    def leaves(self, seen: set[int] | None = None, *, keys: bool = True) -> Iterator[Value]:
        """The values in it that have no others in them, each with the variables of what it is in."""
        seen = set() if seen is None else seen
        if self.parts is None:
            yield self
        elif id(self.parts) not in seen:
            seen.add(id(self.parts))
            if DATA in self.of or self.alone:
                yield Value(self.alone, self.of)
            for key, each in (
                [*self.parts.items()] if isinstance(self.parts, dict) else ((None, x) for x in [*self.parts])
            ):
                if keys and _says(key) and not (isinstance(key, str) and self.code):
                    yield Value((key,), self.of | {CODE})
                yield from map(self.item, each.leaves(seen, keys=keys))

    def item(self, part: Value) -> Value:
        """A part of it, which comes from where it comes: a number of the code from the variable that has it."""
        if not self.of or (CODE not in part.of and DATA not in self.of):
            return part
        of = part.of - {CODE} | self.of if CODE in part.of else part.of | (self.of & {DATA})
        return Value(part.alone, of, part.parts, part.code)

    def plain(self, room: list[int] | None = None) -> Any:
        """The one constant that it is.

        Raises:
            ValueError: It is none, or not known, or too large.
        """
        room = [MOST] if room is None else room
        room[0] -= 1
        if self.of & {DATA, VAGUE} or room[0] < 0 or (self.parts is None) is (len(self.alone) != 1) or self.code:
            raise ValueError("it is not known")
        if isinstance(self.parts, dict):
            return {key: each.plain(room) for key, each in self.parts.items()}
        return self.alone[0] if self.parts is None else [each.plain(room) for each in self.parts]


def _says(key: Any) -> bool:
    return isinstance(key, int | float) or (isinstance(key, str) and any(map(str.isdigit, key)))


def made(constant: Any, of: frozenset[str] = NOWHERE) -> Value:
    """A constant as a value, with values in it if it is a container."""
    if isinstance(constant, dict):
        return Value((), NOWHERE, {key: made(each, of) for key, each in constant.items()})
    if isinstance(constant, list | tuple | set | frozenset | zip | enumerate):
        return Value((), NOWHERE, [made(each, of) for each in constant])
    return Value((constant,), of)


def sources(values: Iterable[Value]) -> frozenset[str]:
    """From where any of several values comes."""
    return NOWHERE.union(*(leaf.of for each in values for leaf in each.leaves()))


def joined(*values: Value, of: frozenset[str] = NOWHERE) -> Value:
    """What is one of several values, or made of them in a way that isn't known."""
    if len(values) == 1 and values[0].parts is None and not of:
        return Value(values[0].alone, values[0].of)
    leaves = [leaf for each in values for leaf in each.leaves()]
    alone = dict.fromkeys((type(each), each) for leaf in leaves for each in leaf.alone if _is_plain(each))
    return Value((each for _, each in alone), of.union(*(leaf.of for leaf in leaves)))


def vague(*values: Value) -> Value:
    """What is made of constants in a way that isn't known: any of them, or all of them together."""
    whole = joined(*values, of=frozenset((VAGUE,)))
    numbers: list[Any] = [each for each in whole.alone if isinstance(each, int | float | Decimal)]
    for each in whole.alone:
        numbers += map(Decimal, _DIGITS.findall(each)) if isinstance(each, str) and len(each) < MOST else ()
    numbers = [Decimal(str(each)) for each in numbers if not isinstance(each, bool)]
    texts = "".join(each for each in whole.alone if isinstance(each, str))
    more: list[Any] = [texts, texts[::-1], re.sub(r"\D", "", texts)] if texts else []
    with suppress(*FAILS):
        more += [sum(numbers), sum(numbers) / len(numbers)]
    return Value((*more, *whole.alone), whole.of)


def _is_plain(each: Any) -> bool:
    return isinstance(each, str | bytes | int | float | complex | Decimal | fractions.Fraction | range | None)


def size(value: Any) -> int:
    """The items or characters of a constant, or the words of a whole number; at least 1."""
    if type(value) is int:
        return 1 + value.bit_length() // 64
    if isinstance(value, list | tuple | set | frozenset):
        return 1 + sum(1 if isinstance(each, float) else size(each) for each in value)
    if isinstance(value, dict):
        return 1 + sum(size(key) + size(each) for key, each in value.items())
    if isinstance(value, int):
        return 1 + value.bit_length() // 64
    return max(1, len(value)) if isinstance(value, _SERIES) else 1


def computed(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What a function makes of constants, if that can't come to much.

    Raises:
        ValueError: It comes to nothing, or may come to too much.
    """
    given = [*values, *named.values()]
    sizes = [size(each) for each in given]
    own = getattr(function, "__self__", None)
    is_wide = (
        (function is format and re.search(r"\d{4}", str(given[1:])))
        or ("format" in function.__name__ and isinstance(own, str) and _WIDE.search(own))
        or (function is round and len(given) > 1 and size(given[1]) + abs(given[1]) > 1000)
    )
    is_huge = any(isinstance(each, Decimal) and each.is_finite() and abs(each.adjusted()) > 1000 for each in given)
    is_huge = is_huge or (function is fractions.Fraction and isinstance(given[0], str))
    counts = [each for each in given if isinstance(each, int) and abs(each) > 1000]
    is_arithmetic = function in _ARITHMETIC or all(isinstance(each, int | float) for each in given[1:])
    takes_counts = function in _COUNTING or (isinstance(own, str | bytes | bytearray) and function.__name__ != "format")
    is_many = bool(counts) and (takes_counts or not is_arithmetic)
    if sum(sizes) > MOST or math.prod(sizes) > 50 * MOST or is_wide or is_huge or is_many:
        raise ValueError("it is too large")
    try:
        result = function(*values, **named)
    except Exception as error:
        raise ValueError(f"it comes to nothing: {error}") from error  # each module has errors of its own
    if size(result) > MOST and not isinstance(result, range):
        raise ValueError("it is too large")
    return result


_COUNTING = frozenset((bytes, bytearray, math.factorial, math.comb, math.perm, math.ldexp, pow))
_ARITHMETIC = frozenset((abs, int, float, sum, min, max, str, repr, round, len, divmod, format, list, dict, sorted))


def operation(kind: type, left: Any, right: Any = None) -> Any:
    """Two constants reckoned together or compared, or one of them, if that can't come to much."""
    if right is None and kind in (ast.USub, ast.UAdd, ast.Invert, ast.Not):
        return _OPERATIONS[kind](left)
    most = size(left) + size(right)
    if kind is ast.Pow:
        most = size(left) * 64 * (abs(right) if isinstance(right, int) else 1)
    elif kind is ast.Mult and (isinstance(left, _SERIES) or isinstance(right, _SERIES)):
        most = size(left) * right if isinstance(right, int) else size(right) * left
    elif kind is ast.Mod and isinstance(left, str | bytes):
        most = MOST + 1 if _WIDE.search(str(left)) else most
    if most > MOST:
        raise ValueError("it is too large")
    if isinstance(left, Decimal) != isinstance(right, Decimal) and isinstance(left, float) | isinstance(right, float):
        left, right = float(left), float(right)
    if kind is ast.Mod and isinstance(left, str) and isinstance(right, list):
        right = tuple(right)
    return _OPERATIONS[kind](left, right)


def absorbed(kind: type, left: Value, right: Value, *, same: bool) -> Any:
    """What it comes to whatever data is: 0 times it, it less itself; None if that depends on it."""
    sides = [each.alone[0] if len(each.alone) == 1 and not each.of & {DATA, VAGUE} else None for each in (left, right)]
    zero, one = [type(each) in (int, float, bool) and each == 0 for each in sides], sides[1] == 1
    if (kind is ast.Mult and any(zero)) or (kind is ast.Mod and one) or (same and kind in (ast.Sub, ast.BitXor)):
        return 0
    return 1 if (kind is ast.Pow and zero[1]) or (same and kind in (ast.Div, ast.FloorDiv)) else None


def key_of(value: Value) -> Any:
    """What a value is as a key; raises what `plain` raises, or a TypeError."""
    key = value.plain()
    key = tuple(key) if isinstance(key, list) else key
    hash(key)
    return key
