"""Whether a file of Arrow's is harmless to read: hostile code may have written it. Pure.

Arrow's readers check offsets, and believe sizes. So what is compressed is refused, and all columns together may have no
more values than the bytes can hold. Types are refused of which one value can stand in many places (views, unions, runs,
dictionaries of lists), since a reader writes them out. So are extension types that aren't Arrow's or pandas's own: old
versions of PyArrow unpickle what such a type says of itself (CVE-2023-47248), and old ones of Polars take it for an
address. What columns, types and pandas say of themselves is bounded: their readers give it to slow patterns, to
`literal_eval`, and to parsers that recurse. The layout is that of Arrow's columnar format, in FlatBuffers, where many
places may refer to the same one: so it is also bounded how much of a description is looked at.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec

from nbagent.sandbox.untrusted import UnreadableError, parse

MAGIC: Final = b"ARROW1"
MAX_METADATA: Final = 16 * 1024 * 1024
"""Bytes of one description: of some ten thousand columns, or a million batches."""
FREE: Final = 10_000_000
"""Values that take no bytes, such as those of a column of nulls."""
FREE_BYTES, LARGER = 32 * 1024 * 1024, 32
"""What Python's objects for all values may weigh: so many bytes, and so many times as much as the file."""
DICTIONARY, BATCH = 2, 3
NULL, BOOLEAN = 1, 6
INDEX: Final = 0
"""Stands for the type of a column whose values are in a dictionary."""
WEIGHTS: Final = {NULL: 8, BOOLEAN: 8, 15: 48, **dict.fromkeys((12, 13, 16, 17, 21), 128)}
"""Bytes of the object that Python has for a value, by the type: a pointer, bytes, a list, a dict."""
FLAT: Final = frozenset((*range(1, 12), 18, 19, 20))
"""Types without others in them, by their numbers in Arrow's `Schema.fbs`: numbers, times, text and bytes."""
TEXT: Final = frozenset((4, 5, 19, 20))
"""Text and bytes of any length."""
NESTED: Final = frozenset((12, 13, 15, 16, 17, 21))
"""Lists, structs, maps, and bytes of a fixed length, which may be a million."""
MAX_FIELD_DEPTH: Final = 60
TABLE_BYTES: Final = 16
"""Bytes that a column, or a text with its key, takes at least in a description."""
EXTENSION, PANDAS = b"ARROW:extension:name", b"pandas"
TYPE_TEXT: Final = b"ARROW:extension:metadata"
MAX_TYPE_TEXT: Final = 1_000
"""Bytes that an extension type says of itself."""
MAX_NAME: Final = 4_096
"""Bytes, or characters, of a column's name: if several levels make it up, PyArrow evaluates it."""
MAX_PANDAS: Final = 8 * 1024 * 1024
"""Bytes of what pandas says of a table, and `MAX_HEFT` what that may weigh: some 20,000 columns."""
MAX_HEFT: Final = 64 * 1024 * 1024
EXTENSIONS: Final = frozenset(
    (b"arrow.bool8", b"arrow.fixed_shape_tensor", b"arrow.json", b"arrow.uuid", b"pandas.interval", b"pandas.period")
)
"""Extension types that are read; none of them runs anything."""

TOLD: Final = "what it says of itself is not like a table's"
_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)] | None


class _Column(msgspec.Struct):
    """What pandas says of a column, or of a level of their names."""

    name: _Name = None
    field_name: _Name = None
    numpy_type: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class _Pandas(msgspec.Struct):
    """What pandas says of a table."""

    columns: list[_Column] = []
    column_indexes: list[_Column] = []
    index_columns: list[Any] = []


def check_file(path: Path, *, writes_out: bool = False) -> None:
    """Read the descriptions of a file's tables, without their values.

    Args:
        path: The file.
        writes_out: Whether its reader, as that of pandas, makes an object of Python's of each value that is missing or
            has others in it, and repeats the texts of a dictionary that is within a list or a struct.

    Raises:
        ValueError: It is no such file, claims more than it has, or has a column of a type that isn't read.
    """
    size, values, read, weighs = path.stat().st_size, 0, 0, 0
    try:
        with path.open("rb") as file:
            footer = _footer(file, size)
            table, said = _follow(footer, 0), _Description(footer)
            schema = _follow(footer, _field(footer, table, 1))
            kinds = list(_check_fields(said, _field(footer, schema, 1), writes_out=writes_out))
            _check_pandas(said, _field(footer, schema, 2))
            for number in (DICTIONARY, BATCH):
                for at, described in _blocks(footer, _field(footer, table, number)):
                    data = _description(file, at, described)
                    counted, weight, length = _claims(data, kinds if number == BATCH else [NULL])
                    values, weighs, read = values + counted, weighs + weight, read + length + described
                    if read > size or values > 8 * size + FREE or (writes_out and weighs > LARGER * size + FREE_BYTES):
                        raise ValueError("it claims more than it has")
    except (struct.error, IndexError, OSError) as error:
        raise ValueError("it is no file of Arrow's") from error


def _footer(file: BinaryIO, size: int) -> bytes:
    if size < 24 or file.read(6) != MAGIC:
        raise ValueError("it is no file of Arrow's")
    file.seek(-10, os.SEEK_END)
    length, mark = struct.unpack("<i6s", file.read(10))
    if mark != MAGIC or not 0 < length <= min(size - 18, MAX_METADATA):
        raise ValueError("it is no file of Arrow's")
    file.seek(-10 - length, os.SEEK_END)
    return file.read(length)


class _Description:
    """The columns of a table, and what they and the table say of themselves."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = 2 * len(data)

    def _look(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise ValueError(f"{TOLD} (it repeats itself)")

    def tables(self, vector: int) -> list[int]:
        """Where the tables of a vector are; none if the vector isn't there."""
        if not vector:
            return []
        start = _follow(self.data, vector)
        (count,) = struct.unpack_from("<I", self.data, start)
        self._look(TABLE_BYTES * count)
        return [_follow(self.data, start + 4 + 4 * each) for each in range(count)]

    def text(self, table: int, number: int) -> bytes:
        """The text or bytes of a field; empty if it isn't there."""
        if not (at := _field(self.data, table, number)):
            return b""
        start = _follow(self.data, at)
        found = self.data[start + 4 : start + 4 + int(struct.unpack_from("<I", self.data, start)[0])]
        self._look(len(found))
        return found


def _check_fields(said: _Description, fields: int, *, writes_out: bool, depth: int = 0) -> Iterator[int]:
    """Check the types of some columns, or of what is within one; yields each type whose values a batch has, in order.

    The values of a dictionary's column are in the dictionary.
    """
    if depth > MAX_FIELD_DEPTH:
        raise ValueError("its columns are nested too deeply")
    data = said.data
    for field in said.tables(fields):
        at = _field(data, field, 2)
        kind = data[at] if at else 0
        if kind not in FLAT | NESTED:
            raise ValueError("a column of it has a type that isn't read")
        if _field(data, field, 4) and (kind in NESTED or (writes_out and depth and kind in TEXT)):
            raise ValueError("a column of it repeats what is long")
        if len(said.text(field, 0)) > MAX_NAME:
            raise ValueError(TOLD)
        for pair in said.tables(_field(data, field, 6)):
            key, value = said.text(pair, 0), said.text(pair, 1)
            if key == EXTENSION and value not in EXTENSIONS:
                raise ValueError("a column of it has an extension type that isn't read")
            if key == TYPE_TEXT and len(value) > MAX_TYPE_TEXT:
                raise ValueError(TOLD)
        yield INDEX if _field(data, field, 4) else kind
        yield from _check_fields(said, _field(data, field, 5), writes_out=writes_out, depth=depth + 1)


def _check_pandas(said: _Description, pairs: int) -> None:
    """Check what pandas says of the table."""
    for pair in said.tables(pairs):
        if said.text(pair, 0) == PANDAS:
            try:
                parse(said.text(pair, 1), _Pandas, limit=MAX_PANDAS, heft=MAX_HEFT)
            except UnreadableError as error:
                raise ValueError(f"{TOLD} ({error})") from error


def _blocks(footer: bytes, field: int) -> list[tuple[int, int]]:
    """Where the descriptions of dictionaries or batches are in the file, and how long each is."""
    if not field:
        return []
    start = _follow(footer, field)
    (count,) = struct.unpack_from("<I", footer, start)
    if count > len(footer) // 24:
        raise IndexError
    return [struct.unpack_from("<qi", footer, start + 4 + 24 * each) for each in range(count)]


def _description(file: BinaryIO, at: int, described: int) -> bytes:
    """The description of a dictionary or a batch, from its place in the file."""
    if not 8 < described <= MAX_METADATA:
        raise IndexError
    file.seek(at)
    data = file.read(described)
    # Old files lack the mark before the length.
    return data[8:] if data[:4] == b"\xff\xff\xff\xff" else data[4:]


def _claims(data: bytes, kinds: Sequence[int]) -> tuple[int, int, int]:
    """The values that a batch claims, what Python's objects for them weigh, and the bytes that it has for them."""
    message = _follow(data, 0)
    (kind,) = struct.unpack_from("<B", data, _field(data, message, 1))
    at = _field(data, message, 3)
    length = struct.unpack_from("<q", data, at)[0] if at else 0
    if length < 0:
        raise ValueError("a message of it has a negative length")
    batch = _follow(data, _field(data, message, 2))
    if kind == DICTIONARY:
        batch = _follow(data, _field(data, batch, 1))
    elif kind != BATCH:
        raise ValueError("it holds something else than a table")
    if _field(data, batch, 3):
        raise ValueError("it is compressed")
    _check_buffers(data, _field(data, batch, 2), length)
    return (*_values(data, _field(data, batch, 1), kinds), length)


def _check_buffers(data: bytes, buffers: int, length: int) -> None:
    """Check that the buffers of a batch share no bytes: a reader that copies each would make many of a few."""
    start = _follow(data, buffers) if buffers else 0
    count = int(struct.unpack_from("<I", data, start)[0]) if buffers else 0
    if start + 4 + 16 * count > len(data):
        raise ValueError("a message of it can't be read")
    found = [struct.unpack_from("<qq", data, start + 4 + 16 * at) for at in range(count)]
    if any(at < 0 or size < 0 or at + size > length for at, size in found) or sum(size for _, size in found) > length:
        raise ValueError("it claims more than it has")


def _values(data: bytes, nodes: int, kinds: Sequence[int]) -> tuple[int, int]:
    """The values of all columns of a batch, those within lists and structs included, and what their objects weigh."""
    start = _follow(data, nodes) if nodes else 0
    count = int(struct.unpack_from("<I", data, start)[0]) if nodes else 0
    if count != len(kinds) or start + 4 + 16 * count > len(data):
        raise ValueError("a message of it can't be read")
    values = weighs = 0
    for at, kind in enumerate(kinds):
        length, missing = struct.unpack_from("<qq", data, start + 4 + 16 * at)
        if length < 0:
            raise ValueError("a column of it has a negative length")
        values += length
        weighs += length * (WEIGHTS.get(kind, 0) if kind != BOOLEAN or missing else 1)
    return values, weighs


def _follow(data: bytes, at: int) -> int:
    """Where the offset at a place of a FlatBuffer leads to."""
    found = at + int(struct.unpack_from("<I", data, at)[0])
    if found >= len(data):
        raise IndexError
    return found


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a FlatBuffer's table is; 0 if it isn't there."""
    names = table - int(struct.unpack_from("<i", data, table)[0])
    if names < 0:
        raise IndexError
    (size,) = struct.unpack_from("<H", data, names)
    at = 4 + 2 * number
    found = int(struct.unpack_from("<H", data, names + at)[0]) if at < size else 0
    return table + found if found else 0
