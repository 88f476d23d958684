"""Plain data on its way between a notebook and its sandbox: numbers, text, times, and lists, dicts and sets of such.

It goes as Python code, and comes back as JSON that code under suspicion has written.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from nbagent.core.errors import DataError
from nbagent.core.text import cut, size_of, visible
from nbagent.kernel.inside.variables_inside import scalar
from nbagent.sandbox.untrusted import MAX_DIGITS, UnreadableError, parse

MAX_TEXT: Final = 64 * 1024 * 1024
"""Bytes of text or plain data that comes back."""
MAX_DEPTH: Final = 60
"""Lists within lists that plain data may have."""
MAX_SAME_HASH: Final = 1_000
"""Keys of a dict, or items of a set, that may have the same hash."""
MAX_EXPONENT: Final = 10_000
"""Digits before or behind the point of a `Decimal`: one that has a million in nine letters is slow to print."""
_BRACKETS: Final[dict[type, str]] = {list: "[{}]", tuple: "({},)", set: "{{{}}}"}


def is_literal(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether `repr` of a value is what `ast.literal_eval` reads: of most plain data."""
    if value is None or type(value) in (bool, int, str, bytes):
        return type(value) is not int or value.bit_length() < 10_000
    if type(value) is float:
        return math.isfinite(value)
    if depth == 0:
        return False
    if type(value) in (list, tuple, set):
        return all(is_literal(each, depth - 1) for each in value)
    if type(value) is dict:
        return all(is_literal(key, depth - 1) and is_literal(each, depth - 1) for key, each in value.items())
    return False


def expression(value: Any, depth: int = MAX_DEPTH) -> str:
    """The Python expression that makes plain data which is no literal.

    Raises:
        TypeError: It isn't plain data; the message is the name of the type that isn't.
    """
    value = scalar(value)
    if is_literal(value, 0):
        return repr(value)
    match value:
        case float():
            return f"float({str(value)!r})"
        case Decimal():
            return f"decimal.{value!r}"
        case datetime() | time() if not isinstance(value.tzinfo, None | timezone | ZoneInfo):
            if (away := value.utcoffset()) is not None:
                return repr(value.replace(tzinfo=timezone(away)))
        case date() | time() | timedelta():
            return repr(value)
        case dict() if depth and type(value) is dict:
            pairs = (f"{expression(key, depth - 1)}: {expression(each, depth - 1)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple() | set() if depth and value and type(value) in _BRACKETS:
            return _BRACKETS[type(value)].format(", ".join(expression(each, depth - 1) for each in value))
        case list() | tuple() | set() if type(value) in _BRACKETS and not value:
            return repr(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__}")


def told(value: Any) -> str:
    """What plain data is, in words."""
    name = type(value).__name__
    if isinstance(value, str | bytes):
        return f"{name} of {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}"
    if isinstance(value, list | tuple | set | dict):
        return f"{name} of {len(value):,} item{'' if len(value) == 1 else 's'}"
    return name


def read(path: Path, *, is_text: bool) -> Any:
    """Read text or plain data that the sandbox wrote."""
    with path.open("rb") as file:
        data = file.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise DataError(f"The value has more than {size_of(MAX_TEXT)}.", mend="Have it made a table or an array.")
    if is_text:
        return data.decode("utf-8", "replace")
    try:
        return _rebuilt(parse(data, limit=MAX_TEXT, digits=MAX_DIGITS), MAX_DEPTH)
    except (UnreadableError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise DataError(f"What came back is no plain data: {cut(visible(str(error)), 200)}.") from error


def _rebuilt(said: Any, depth: int) -> Any:
    """A value of what `variables_inside.plain` made of it: a list is `["l", …]`, and so on."""
    if not isinstance(said, list):
        return said
    if depth < 0 or not said:
        raise ValueError("it is nested too deeply, or empty where nothing may be")
    tag, *rest = said
    if tag == "d":
        pairs = [(_rebuilt(key, depth - 1), _rebuilt(value, depth - 1)) for key, value in rest]
        _check_hashes([key for key, _ in pairs])
        return dict(pairs)
    if tag in _WORDS:
        return _WORDS[tag](*rest)
    found = [_rebuilt(each, depth - 1) for each in rest]
    if tag == "s":
        _check_hashes(found)
    return {"l": list, "t": tuple, "s": set}[tag](found)


def _decimal(text: str) -> Decimal:
    found = Decimal(text)
    if len(text) > MAX_EXPONENT or (found.is_finite() and abs(found.adjusted()) > MAX_EXPONENT):
        raise ValueError("a number of it is too long")
    return found


_WORDS: Final[dict[str, Callable[..., Any]]] = {
    "b": bytes.fromhex,
    "float": float,
    "Decimal": _decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": timedelta,
}
"""What reads a value that JSON has no form for, by its tag."""


def _check_hashes(keys: list[Any]) -> None:
    """Raise if many keys have the same hash: a dict or a set of them would take time by the square of their number."""
    counts = Counter(map(hash, keys))
    if counts and max(counts.values()) > MAX_SAME_HASH:
        raise ValueError("its keys are made to be slow")
