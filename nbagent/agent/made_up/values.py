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
from typing import Any, Final, NoReturn

MOST: Final = 20_000
"""Items and characters of the values with which one call is computed."""
MOST_BITS: Final = 4096
"""Bits of a whole number with which is computed."""
MOST_KEYS: Final = 2_000
"""Items of a set or a dictionary that is computed."""
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
_CODECS: Final = frozenset(("utf-8", "utf8", "ascii", "latin-1", "latin1"))
_WIDE = re.compile(r"\d{4}|\*")
"""What makes a field of a format very wide, or as wide as a number is."""
_DECODED: Final = _CODECS | {"hex", "base64", "rot13", "rot_13"}
_TEXT = frozenset(
    "capitalize casefold center count decode encode endswith find format hex index isalnum isalpha isdecimal isdigit "
    "islower isnumeric isspace isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
    "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper "
    "zfill".split()
)
_NUMBER = frozenset("as_integer_ratio bit_length bit_count conjugate hex is_integer to_bytes".split())
_METHODS: dict[type, frozenset[str]] = {
    **{str: _TEXT, bytes: _TEXT - {"format"}, list: frozenset(("count", "index", "pop", "copy"))},
    **dict.fromkeys((int, bool, float), _NUMBER),
}
"""The methods that are computed."""
_WIDENS = frozenset(("center", "ljust", "rjust", "zfill", "to_bytes"))
"""Methods whose result is as long as a number that they are given."""


def _refuse() -> NoReturn:
    raise ValueError("it may come to too much")


def _bits(given: Iterable[Any]) -> int:
    """The bits of numbers together; a TypeError for anything else."""
    kinds: dict[type, Callable[..., int]] = {
        int: int.bit_length,
        bool: int.bit_length,
        float: lambda _: 64,
        list: _bits,
        tuple: _bits,
    }
    return sum(1 + kinds.get(type(each), operator.neg)(each) for each in given)


def _numeric(function: Callable[..., Any], most: float = math.inf) -> Callable[..., Any]:
    """A function for nothing but numbers, which have at most so many bits together."""
    return lambda *given: function(*given) if _bits(given) <= most else _refuse()


def _keyed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that looks each item up among the others, which takes long if their hashes are made to be the same."""
    return lambda items=(), *more: function(items, *more) if len(items) <= MOST_KEYS else _refuse()


def _ratio(above: Any = 0, below: Any = 1) -> Any:
    return above if isinstance(above, int) and below == 1 else float(above) / below


_NUMERIC: dict[str, Callable[..., Any]] = {
    "sum": _numeric(sum),
    "prod": _numeric(math.prod, MOST_BITS),
    "lcm": _numeric(math.lcm, MOST_BITS),
    "factorial": lambda n: math.factorial(n) if n * n.bit_length() <= MOST_BITS else _refuse(),
    "comb": lambda n, k: math.comb(n, k) if min(k, n - k) * n.bit_length() <= MOST_BITS else _refuse(),
    "perm": lambda n, k: math.perm(n, k) if k * n.bit_length() <= MOST_BITS else _refuse(),
    "mean": lambda items: math.fsum(items) / len(items),
    "fmean": lambda items: math.fsum(items) / len(items),
    "median": _numeric(statistics.median),
    "max": max,
    "min": min,
    "add": lambda left, right: operation(ast.Add, left, right),
    "dot": _numeric(lambda left, right: sum(map(operator.mul, left, right))),
}
PURE: dict[str, Callable[..., Any]] = {
    **{name: getattr(builtins, name) for name in "abs float len ord chr repr min max sorted list tuple range".split()},
    **{name: getattr(builtins, name) for name in "divmod bool hex oct bin any all".split()},
    "str": lambda value="": str(value),
    "int": lambda value=0, base=10: int(value, base) if isinstance(value, str) else int(value),
    "sum": _NUMERIC["sum"],
    "round": lambda value, digits=None: round(value, digits) if abs(digits or 0) < 1000 else _refuse(),
    "pow": lambda left, right: operation(ast.Pow, left, right),
    "format": lambda value, form="": format(value, form) if not _WIDE.search(form) else _refuse(),
    **dict.fromkeys(("bytes", "bytearray"), lambda items: bytes(items) if type(items) is not int else _refuse()),
    **{each.__name__: _keyed(each) for each in (set, frozenset, dict)},
    "dict.fromkeys": _keyed(dict.fromkeys),
    "zip": lambda *several: list(zip(*several, strict=False)),
    "enumerate": lambda items, start=0: list(enumerate(items, start)),
    "reversed": lambda items: list(items)[::-1],
    "iter": list,
    "str.maketrans": str.maketrans,
    "int.from_bytes": int.from_bytes,
    "bytes.fromhex": bytes.fromhex,
    "json.dumps": lambda value: json.dumps(value),
    "html.unescape": html.unescape,
    "codecs.decode": lambda data, name="utf-8": codecs.decode(data, name) if name in _DECODED else _refuse(),
    "binascii.unhexlify": binascii.unhexlify,
    "struct.unpack": struct.unpack,
    "zlib.decompress": lambda data: zlib.decompressobj().decompress(data, MOST),
    "urllib.parse.unquote": lambda text: urllib.parse.unquote(text),
    "decimal.Decimal": _ratio,  # both classes' own numbers may have any size
    "fractions.Fraction": _ratio,
    "itertools.accumulate": _numeric(lambda items: list(itertools.accumulate(items)), MOST_BITS),
    "itertools.chain": lambda *items: list(itertools.chain(*items)),
    **{f"base64.b{base}decode": getattr(base64, f"b{base}decode") for base in (16, 32, 64, 85)},
    "base64.a85decode": base64.a85decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    **{f"{module}.{name}": each for module in ("math", "numpy") for name, each in vars(math).items() if callable(each)},
    **{f"{module}.{name}": each for module in ("math", "numpy", "statistics") for name, each in _NUMERIC.items()},
    "operator.add": _NUMERIC["add"],
    "operator.sub": lambda left, right: operation(ast.Sub, left, right),
    "operator.mul": lambda left, right: operation(ast.Mult, left, right),
    "operator.truediv": lambda left, right: operation(ast.Div, left, right),
    "operator.floordiv": lambda left, right: operation(ast.FloorDiv, left, right),
}
"""Functions that are computed for constants, by their full names: they take time as what they are given is long."""
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
    ast.LShift: operator.lshift,
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
FAILS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
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

    def key(self) -> Any:
        """What tells it from others as a constant; 1 is another one than 1.0 and True."""
        return (*map(type, self.alone),), self.alone, self.of

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


def joined(*values: Value, of: frozenset[str] = NOWHERE) -> Value:
    """What is one of several values, or made of them in a way that isn't known."""
    if len(values) == 1 and values[0].parts is None and not of:
        return Value(values[0].alone, values[0].of)
    alone: dict[Any, Any] = {}
    for leaf in (leaf for each in values for leaf in each.leaves()):
        of |= leaf.of
        for each in leaf.alone if len(alone) < ALTERNATIVES else ():
            if isinstance(each, str | bytes | int | float | complex | range | None):
                alone[type(each), each] = each
    return Value(alone.values(), of)


def vague(*values: Value) -> Value:
    """What is made of constants in a way that isn't known: any of them, or all of them together."""
    whole = joined(*values, of=frozenset((VAGUE,)))
    texts = [each for each in whole.alone if isinstance(each, str)]
    text = "".join(texts)[:MOST]
    numbers = [each for each in whole.alone if isinstance(each, int | float) and not isinstance(each, bool)]
    digits = _DIGITS.findall(" ".join(texts)[:MOST])
    numbers += [float(each) if "." in each else int(each) for each in digits]
    more: list[Any] = [text, text[::-1], re.sub(r"\D", "", text)] if text else []
    with suppress(*FAILS):
        more += [sum(numbers), sum(numbers) / len(numbers)]
    return Value((*more, *whole.alone), whole.of)


def size(value: Any) -> int:
    """The items or characters of a constant, or the words of a whole number; at least 1.

    Raises:
        ValueError: It is no constant with which is computed: Python's own plain ones, and no very large whole number.
    """
    kind = type(value)
    if kind is int and value.bit_length() <= MOST_BITS:
        return 1 + int(value.bit_length()) // 64
    if kind in (str, bytes, range):
        return 1 + len(value)
    if kind in (list, tuple, set, frozenset):
        return 1 + sum(map(size, value))
    if kind is dict:
        return 1 + sum(size(key) + size(each) for key, each in value.items())
    return 1 if kind in (float, bool, type(None)) else _refuse()


def computed(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What a function makes of constants, if these aren't long; it takes time and memory as they are long, not more.

    Raises:
        ValueError: It comes to nothing, or may come to too much.
    """
    if size([*values, *named.values()]) > MOST:
        _refuse()
    try:
        result = function(*values, **named)
    except Exception as error:
        raise ValueError(f"it comes to nothing: {error}") from error  # each module has errors of its own
    return result if type(result) is range or size(result) <= MOST else _refuse()


def method(whole: Any, name: str, *values: Any, **named: Any) -> Any:
    """What a method makes of a constant; raises what `computed` raises."""
    given = [*values, *named.values()]
    is_wide = name in _WIDENS and any(isinstance(each, int) and abs(each) > 1000 for each in given)
    is_coded = name in ("encode", "decode") and not _CODECS.issuperset(given)
    if name not in _METHODS.get(type(whole), ()) or is_wide or is_coded or size(whole) * size(given) > 50 * MOST:
        _refuse()
    for _, field, form, _ in string.Formatter().parse(whole) if name == "format" else ():
        if not re.fullmatch(r"\w*", field or "") or re.search(r"\d{4}|\{", form or ""):
            _refuse()  # it would be very wide, or look into an object
    return computed(getattr(whole, name), *values, **named)


def operation(kind: type, left: Any, right: Any = None) -> Any:
    """Two constants reckoned together or compared, or one of them; raises what `computed` raises, or a TypeError."""
    if right is None and kind in (ast.USub, ast.UAdd, ast.Invert, ast.Not):
        return computed(_OPERATIONS[kind], left)
    sizes, most = (size(left), size(right)), 0
    if kind is ast.Pow and isinstance(left, int) and isinstance(right, int):
        most = left.bit_length() * right * MOST // MOST_BITS
    elif kind is ast.LShift and isinstance(right, int):
        most = right * MOST // MOST_BITS
    elif kind is ast.Mult:
        most = max(
            sizes[at] * number if isinstance(number, int) and not isinstance(whole, int | float) else 0
            for at, (whole, number) in enumerate(((left, right), (right, left)))
        )
    elif kind is ast.Mod and isinstance(left, str | bytes):
        form = left if isinstance(left, str) else left.decode("latin-1")
        most = MOST + 1 if _WIDE.search(form) else sizes[0] * sizes[1] // 50
        right = tuple(right) if isinstance(right, list) else right
    return computed(_OPERATIONS[kind], left, right) if most <= MOST else _refuse()


def absorbed(kind: type, left: Value, right: Value, *, same: bool) -> Any:
    """What it comes to whatever data is: 0 times it, it less itself; None if that depends on it."""
    sides = [each.alone[0] if len(each.alone) == 1 and not each.of & {DATA, VAGUE} else None for each in (left, right)]
    zero, one = [type(each) in (int, float, bool) and each == 0 for each in sides], sides[1] == 1
    if (kind is ast.Mult and any(zero)) or (kind is ast.Mod and one) or (same and kind in (ast.Sub, ast.BitXor)):
        return 0
    return 1 if (kind is ast.Pow and zero[1]) or (same and kind in (ast.Div, ast.FloorDiv)) else None
