"""A PDF as text that can be compared: what it draws unpacked, and its dates and places as its objects mean them. Pure.

Two runs of one figure differ in the moment that the file names, in its name for itself, and in where objects stand
behind a date that is longer. The text has dates that are judged as those in any text (`texts.py`).
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

PDF = "application/pdf"
MOST = 16 * 1024 * 1024
"""Bytes that are unpacked of a file; what is beyond is compared as it is packed."""
_BEGIN = re.compile(rb"(?<!end)stream\r?\n")
_PACKED = re.compile(rb"/Filter\s{0,9}\[?\s{0,9}/FlateDecode\s{0,9}(?:\]|/|>>)")
_DICTIONARY = 4096
"""Bytes before a stream in which its filter is looked for."""
_DATE = re.compile(rb"\(D:(\d{14})(?:Z(?:00'00'?)?|([+-])(\d\d)'(\d\d)'?)?\)")
_OBJECT = re.compile(rb"\b\d{1,10} \d{1,5} obj\b|\bxref\b")
_PLACE = re.compile(rb"(?m)^\d{10}(?= \d{5} n)|(?<=startxref[\r\n])\d{1,10}\b")
_ADDRESS = re.compile(r"(?<=data:application/pdf;base64,)[A-Za-z0-9+/]+={0,2}")


def unpacked(encoded: str) -> str:
    """The text of a PDF in base64; what is none stays as it is."""
    try:
        data = b64decode("".join(encoded.split()), validate=True)
    except ValueError:
        return encoded
    if not data.startswith(b"%PDF-"):
        return encoded
    places = {found.start(): number for number, found in enumerate(_OBJECT.finditer(data))}
    return b"".join(_parts(data, places)).decode("latin-1")


def unpacked_in(markup: str) -> str:
    """Markup in which PDF files that stand in addresses are text."""
    return _ADDRESS.sub(lambda found: unpacked(found[0]), markup)


def _parts(data: bytes, places: Mapping[int, int]) -> Iterator[bytes]:
    """What stands between streams, and what these hold, in turn."""

    def named(found: re.Match[bytes]) -> bytes:
        # An object by its number in the order of the file, wherever it begins.
        return b"object %d" % places[int(found[0])] if int(found[0]) in places else found[0]

    at, room = 0, MOST
    while begin := _BEGIN.search(data, at):
        end = data.find(b"endstream", begin.end())
        if end < 0:
            break
        before, stream = data[at : begin.end()], data[begin.end() : end]
        if _PACKED.search(before[-_DICTIONARY:]):
            stream = _inflated(stream, room)
            room -= len(stream)
        yield _DATE.sub(_date, _PLACE.sub(named, before))
        yield stream
        at = end
    yield _DATE.sub(_date, _PLACE.sub(named, data[at:]))


def _inflated(stream: bytes, room: int) -> bytes:
    """What a stream holds, and what stands behind that; as it is if it can't be unpacked, or is too much."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(stream, max(1, room))
    except zlib.error:
        return stream
    return found + reader.unused_data if reader.eof else stream


def _date(found: re.Match[bytes]) -> bytes:
    """A date as ISO 8601 has it, in UTC."""
    try:
        moment = datetime.strptime(found[1].decode(), "%Y%m%d%H%M%S")
        ahead = timedelta(hours=int(found[3] or 0), minutes=int(found[4] or 0))
        moment += ahead if found[2] == b"-" else -ahead
    except (ValueError, OverflowError):
        return found[0]
    return f"({moment.isoformat(sep=' ')} UTC)".encode()
