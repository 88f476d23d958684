"""What Python makes of constants, as far as that can't come to much. Pure.

C code holds all threads of the process while it computes. So only what the lists here name is computed, only with
Python's own plain constants, and only if it is known before that it takes time and memory as these are long.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import codecs
import functools
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
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

MOST: Final = 20_000
"""Items and characters of the values with which one call is computed."""
MOST_BITS: Final = 4096
"""Bits of a whole number with which is computed."""
MOST_KEYS: Final = 2_000
"""Items of a set or a dictionary that is computed."""
FAILS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What computing with constants may raise."""
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
_OPERATORS = (
    "Add:add Sub:sub Mult:mul Div:truediv FloorDiv:floordiv Mod:mod Pow:pow BitOr:or_ BitAnd:and_ BitXor:xor USub:neg "
    "LShift:lshift RShift:rshift UAdd:pos Invert:invert Not:not_ Eq:eq NotEq:ne Lt:lt LtE:le Gt:gt GtE:ge Is:is_ "
    "IsNot:is_not"
)
_OPERATIONS: dict[type, Callable[..., Any]] = {
    **{getattr(ast, kind): getattr(operator, name) for kind, name in (x.split(":") for x in _OPERATORS.split())},
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def _refuse() -> NoReturn:
    raise ValueError("it may come to too much")


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
    **{f"operator.{each.__name__}": functools.partial(operation, kind) for kind, each in _OPERATIONS.items()},
}
"""Functions that are computed for constants, by their full names: they take time as what they are given is long."""
FIXED: dict[str, Any] = {
    **{f"math.{name}": each for name, each in vars(math).items() if isinstance(each, float)},
    **{f"string.{name}": each for name, each in vars(string).items() if isinstance(each, str)},
}
