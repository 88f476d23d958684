"""Whether a file of Arrow's is no larger than it looks: hostile code must not fill the memory of who reads it. Pure.

Arrow's readers check offsets, and believe sizes. So what is compressed is refused, and all columns together may have no
more values than the bytes can hold. The layout is that of Arrow's columnar format, in FlatBuffers.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final

MAGIC: Final = b"ARROW1"
MAX_METADATA: Final = 16 * 1024 * 1024
"""Bytes of one description: of some ten thousand columns, or a million batches."""
FREE: Final = 10_000_000
"""Values that take no bytes, such as those of a column of nulls."""
DICTIONARY, BATCH = 2, 3


def check_file(path: Path) -> None:
    """Read the descriptions of a file's tables, without their values.

    Raises:
        ValueError: It is no such file, or claims more than it has.
    """
    size, values, read = path.stat().st_size, 0, 0
    try:
        with path.open("rb") as file:
            footer = _footer(file, size)
            table = _follow(footer, 0)
            for number in (2, 3):
                for at, described in _blocks(footer, _field(footer, table, number)):
                    counted, length = _described(file, at, described)
                    values, read = values + counted, read + length + described
                    if read > size or values > 8 * size + FREE:
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


def _blocks(footer: bytes, field: int) -> list[tuple[int, int]]:
    """Where the descriptions of dictionaries or batches are in the file, and how long each is."""
    if not field:
        return []
    start = _follow(footer, field)
    (count,) = struct.unpack_from("<I", footer, start)
    if count > len(footer) // 24:
        raise IndexError
    return [struct.unpack_from("<qi", footer, start + 4 + 24 * each) for each in range(count)]


def _described(file: BinaryIO, at: int, described: int) -> tuple[int, int]:
    """The values that a batch claims, and the bytes that it has for them."""
    if not 8 < described <= MAX_METADATA:
        raise IndexError
    file.seek(at)
    data = file.read(described)
    # Old files lack the mark before the length.
    return _message(data[8:] if data[:4] == b"\xff\xff\xff\xff" else data[4:])


def _message(data: bytes) -> tuple[int, int]:
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
    return _values(data, _field(data, batch, 1)), length


def _values(data: bytes, nodes: int) -> int:
    """The values of all columns of a batch, those within lists and structs included."""
    if not nodes:
        return 0
    start = _follow(data, nodes)
    (count,) = struct.unpack_from("<I", data, start)
    if count > len(data) // 16:
        raise ValueError("a message of it can't be read")
    lengths = [struct.unpack_from("<q", data, start + 4 + 16 * each)[0] for each in range(count)]
    if any(length < 0 for length in lengths):
        raise ValueError("a column of it has a negative length")
    return sum(lengths)


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
