"""The one parser of what sandboxes say: JSON, within a bound that each reader names. Pure.

Hostile code can feed a parser most directly. This one builds nothing but strings, numbers, lists and dicts, or the
struct that the reader names, whose unknown fields are skipped. It takes at most `limit` bytes, refuses a text of too
many objects before it makes the first, descends no deeper than Python does, and refuses integers that are too long to
calculate with, or of more than 4,300 digits where integers are only passed on.

That is why it runs in the controller's process, which holds keys, and not in one of its own. Measured: `literal_eval`
made 1 GB of 2 MB. Here 1,000 hostile messages and replies of 18 kinds, 564 of them within their bounds, grew the
process by 21 MB at its peak, and took 15 ms each (`tests/kernel/test_messages.py`). What a process without keys
returned would have to be parsed here again, by the same parser, and every cell would pay for it. It would shield from a
fault in msgspec's or Python's own C code, and from nothing else: what is *done* with a reply (outputs, claims, the
export) happens here either way. Should such a fault be found, `parse` is the one place to move.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import Any, Final, TypeVar, overload

import msgspec

from nbagent.core.policy import MIB
from nbagent.sandbox.inside.message_sizes_inside import weight

MAX_HEFT: Final = 32 * MIB
"""The most that one reply may weigh, see `weight`."""
MAX_DIGITS: Final = 4_300
"""Digits of an integer that Python reads by default: its time grows with their square."""
MAX_RECKONED: Final = 300
"""Digits of a number that the host calculates with: a float can hold it, so that no division overflows."""
MAX_ODD: Final = MIB
"""Bytes of a text for Python's own parser, which takes four bytes a character if one of them is wide."""
_CHUNK_BYTES: Final = 64 * 1024
_DIGITS: Final = re.compile(rb"[0-9]{%d}" % (MAX_RECKONED + 1))
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?|([0-9]{%d})' % (MAX_RECKONED + 1), re.DOTALL)
T = TypeVar("T")


class UnreadableError(ValueError):
    """The text is no JSON, not of the type that the reader names, or beyond a bound."""


@overload
def parse(said: bytes | str, *, limit: int, heft: int = ..., digits: int = ...) -> Any: ...
@overload
def parse(said: bytes | str, type: type[T], *, limit: int, heft: int = ..., digits: int = ...) -> T: ...
def parse(said: bytes | str, type: Any = Any, *, limit: int, heft: int = MAX_HEFT, digits: int = MAX_RECKONED) -> Any:
    """The value of a JSON text from a sandbox; lone surrogates stay, bytes that aren't UTF-8 become U+FFFD.

    Args:
        said: The text.
        type: The type of the value; fields that a struct lacks are skipped.
        limit: The most bytes of a text, or characters.
        heft: The most that it may weigh, see `weight`.
        digits: The most digits of a number: `MAX_RECKONED`, or `MAX_DIGITS` if it is only passed on.

    Raises:
        UnreadableError: Anything is wrong with it; it may contain neither NaN nor an infinity.
    """
    if len(said) > limit:
        raise UnreadableError(f"more than {limit:,} bytes")
    data = said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said
    if weight(data) > heft:
        raise UnreadableError("too many values")
    if digits <= MAX_RECKONED and _has_long_number(data):
        raise UnreadableError(f"a number of more than {MAX_RECKONED} digits")
    try:
        return _decode(data, type)
    except RecursionError:
        raise UnreadableError("nested too deeply") from None
    except msgspec.MsgspecError as error:
        if len(data) > MAX_ODD:
            raise UnreadableError(str(error)[:200]) from None
        return _decode_odd(data, type)


def _has_long_number(data: bytes) -> bool:
    """Whether more than `MAX_RECKONED` digits stand in a row, outside of strings."""
    return _DIGITS.search(data) is not None and any(token[1] for token in _TOKENS.finditer(data))


def _decode(data: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type)
    except UnicodeError:
        # Piece by piece: Python takes four bytes for each of a text's characters where one of them is wide.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces = (decoder.decode(data[at : at + _CHUNK_BYTES]).encode() for at in range(0, len(data), _CHUNK_BYTES))
        return msgspec.json.decode(b"".join([*pieces, decoder.decode(b"", final=True).encode()]), type=type)


def _decode_odd(data: bytes, type: Any) -> Any:
    """The value of a text that msgspec refuses and honest code may send: names of files with lone surrogates."""
    try:
        text = data.decode("utf-8", "replace")
        value = json.loads(text, parse_constant=_no_number, parse_int=_integer, parse_float=_float)
        return msgspec.convert(value, type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnreadableError(str(error)[:200]) from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits):,} digits")
    return int(digits)


def _float(digits: str) -> float:
    return float(digits) if math.isfinite(float(digits)) else _no_number("Infinity")
