"""MIME bundles from hostile hands: repaired until they are valid in nbformat 4 and in JSON, and bounded. Pure.

Sizes are characters; in JSON a number counts as 32, a text as 56 more than its characters, a list or an object in
it as 96: that is what they take of memory.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from nbagent.kernel.outputs.streams import clean_text
from nbagent.sandbox.inside.message_sizes_inside import marker, sized

MIB: Final = 1024 * 1024
_DEPTH: Final = 100
_INT_BITS: Final = 14_000
"""About 4,200 digits; Python refuses to print more than 4,300."""
_NUMBER, _TEXT, _CONTAINER = 32, 56, 96
_MIME_TYPES: Final = 64
"""Representations that are kept of one MIME bundle."""
_JSON_MIME: Final = re.compile(r"application/(.*\+)?json")
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Bundle:
    """A MIME bundle, repaired: its size in characters, and by name and size what was left out."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    size: int
    left_out: tuple[str, ...] = ()


def repair(content: dict[str, Any], *, limit: int, total: int) -> Bundle:
    """The MIME bundle of a message's content, valid in nbformat 4.

    A representation of more than `limit` characters, or more than is left of `total`, is replaced by a line in
    text/plain that names it; the others stay.
    """
    data: dict[str, Any] = {}
    left_out = []
    room = total
    for key, value in islice(content["data"].items(), _MIME_TYPES):
        mime = clean_text(_key(key)[:200])
        allowed = max(0, min(limit, room - len(mime)))
        kept = _representation(mime, value, allowed)
        if kept is None:
            size = f"{len(value):,}" if isinstance(value, str) else f"more than {allowed:,}"
            left_out.append(sized(mime, size))
        else:
            data[mime] = kept[0]
            room -= kept[1] + len(mime)
    if len(content["data"]) > _MIME_TYPES:
        left_out.append(f"{len(content['data']) - _MIME_TYPES:,} more MIME types")
    metadata = content.get("metadata")
    kept = clean_within(metadata, MIB) if isinstance(metadata, dict) else None
    if left_out:
        lines = [data["text/plain"]] if "text/plain" in data else []
        data["text/plain"] = "\n".join(lines + [marker(what) for what in left_out])
    whole = total - room + (kept[1] if kept else 0)
    return Bundle(data, kept[0] if kept else {}, whole, (*_left_out_inside(content), *left_out))


def _left_out_inside(content: dict[str, Any]) -> tuple[str, ...]:
    """What the kernel has left out itself; it has put its markers into text/plain already."""
    transient = content.get("transient")
    gone = transient.get("left_out") if isinstance(transient, dict) else None
    if not isinstance(gone, dict):
        return ()
    named = islice(gone.items(), _MIME_TYPES)
    return tuple(sized(clean_text(_key(mime)[:200]), f"{size:,}") for mime, size in named if type(size) is int)


def _representation(mime: str, value: object, room: int) -> tuple[Any, int] | None:
    kept = clean_within(value, room)
    if kept is None or isinstance(kept[0], str) or _JSON_MIME.fullmatch(mime):
        return kept
    if isinstance(kept[0], list) and all(isinstance(line, str) for line in kept[0]):
        text = "".join(kept[0])
    else:
        text = json.dumps(kept[0], ensure_ascii=False)
    return text, len(text)


def clean(value: object) -> Any:
    """Make a value that any notebook and any JSON can hold, in one pass.

    Lone surrogates become U+FFFD, NaN and infinities null, keys strings, bytes base64; an integer of more than 4,200
    digits, nesting deeper than 100 levels, and what JSON doesn't know, become a text that says so.
    """
    return _Cleaner(1 << 62).clean(value, 0)


def clean_within(value: object, room: int) -> tuple[Any, int] | None:
    """`clean(value)` and its size in characters; None if that would be more than `room`, found out early."""
    cleaner = _Cleaner(room)
    try:
        return cleaner.clean(value, 0), room - cleaner.room
    except _NoRoomError:
        return None


class _NoRoomError(Exception):
    """The room is used up."""


class _Cleaner:
    """Cleans one value, and stops when `room` characters are used up."""

    __slots__ = ("room",)

    def __init__(self, room: int) -> None:
        self.room = room

    def clean(self, value: object, depth: int) -> Any:
        if isinstance(value, str):
            self._spend(len(value) + (_TEXT if depth else 0))
            return clean_text(value)
        if isinstance(value, (dict, list, tuple)):
            if depth >= _DEPTH:
                self._spend(50)
                return f"[left out: nesting deeper than {_DEPTH} levels]"
            return self._object(value, depth + 1) if isinstance(value, dict) else self._array(value, depth + 1)
        if isinstance(value, (bytes, bytearray, memoryview)):
            raw = bytes(value)
            self._spend((len(raw) + 2) // 3 * 4)
            return base64.b64encode(raw).decode("ascii")
        self._spend(_NUMBER)
        return _scalar(value)

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self._spend(_CONTAINER if depth > 1 else 0)
        return {self.clean(_key(key), depth): self.clean(item, depth) for key, item in value.items()}

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        self._spend(_CONTAINER if depth > 1 else 0)
        kinds = set(map(type, value))
        if not kinds <= _NUMBERS:
            self._spend(8 * len(value))
            return [self.clean(item, depth) for item in value]
        # Most of a big JSON value is arrays of numbers (Plotly, Vega): no call for each of them.
        self._spend(_NUMBER * len(value))
        if kinds == {float} and all(map(math.isfinite, value)):
            return list(value)
        return [_scalar(item) for item in value]

    def _spend(self, size: int) -> None:
        if size > self.room:
            raise _NoRoomError
        self.room -= size


def _scalar(value: object) -> int | float | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INT_BITS else f"[left out: an integer of {value.bit_length():,} bits]"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return f"[left out: {type(value).__name__}]"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(_scalar(key))
