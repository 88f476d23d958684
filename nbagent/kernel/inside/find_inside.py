"""Looks for a text in data files, inside the sandbox: `kernel/find_text.py` sends this source there.

Never imported on the host.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import time
import zipfile
from collections.abc import Iterator
from typing import Any

PIECE = 4 * 1024 * 1024
MAX_WORKBOOK = 32 * 1024 * 1024
"""Bytes of a workbook that is read."""
MAX_FOUND = 30
LINE = 200


def main(paths: list[str], text: str, seconds: float) -> dict[str, object]:
    """Find a text in files that are text, also packed ones, and in workbooks, whatever its case.

    Returns:
        For each file, member of an archive or sheet in which it is: its path, how often, how often as whole words, and
        the number and the text of the first line with it, as whole words if there are such; in how many files it was
        looked for; and whether these are all.
    """
    end = time.monotonic() + seconds
    wanted = {text.lower().encode("utf-8", "replace"), text.lower().encode("cp1252", "replace")}
    found: list[list[object]] = []
    partly: list[list[object]] = []
    read: set[str] = set()
    for path in paths:
        if time.monotonic() > end or len(found) >= MAX_FOUND:
            break
        # What is damaged, or no such workbook as its name says, is passed over.
        with contextlib.suppress(Exception):
            for name, lines in parts(path) if os.path.isfile(path) else ():
                if hit := within(lines, wanted, end):
                    (found if hit[1] else partly).append([f"{path}, {name}" if name else path, *hit])
                read.add(path)
                if time.monotonic() > end:
                    break
    is_all = time.monotonic() <= end and len(found) < MAX_FOUND
    return {"found": [*found, *partly][:MAX_FOUND], "looked": len(read), "all": is_all}


def parts(path: str) -> Iterator[tuple[str, Any]]:
    """The content of a file that is text, packed or not, or of what is in it, by names: files of an archive, sheets."""
    with open(path, "rb") as file:
        start = file.read(4096)
        file.seek(0)
        if path.lower().endswith((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")):
            yield from sheets(path) if os.path.getsize(path) < MAX_WORKBOOK else ()
        elif start.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(path) as archive:
                for each in archive.infolist():
                    with archive.open(each) as member:
                        yield each.filename, member
        elif start.startswith(b"\x1f\x8b"):
            yield "", gzip.GzipFile(fileobj=file)
        elif b"\0" not in start:
            yield "", file


def sheets(path: str) -> Iterator[tuple[str, Any]]:
    """The sheets of a workbook, each as lines of text."""
    import fastexcel

    book = fastexcel.read_excel(path)
    for name in book.sheet_names:
        frame = book.load_sheet(name, header_row=None, dtypes="string").to_polars()
        lines = ("\t".join(filter(None, row)) for row in frame.iter_rows())
        yield name, io.BytesIO("\n".join(lines).encode())


def within(file: Any, wanted: set[bytes], end: float) -> list[object]:
    """How often one of several texts is in a file, how often as whole words, and the first line with it; or nothing."""
    patterns = [re.compile(rb"(?<![a-z0-9])%b(?![a-z0-9])" % re.escape(each)) for each in wanted]
    count, whole_words, lines, rest = 0, 0, 0, b""
    first: list[object] = []
    while (piece := file.read(PIECE)) and time.monotonic() < end:
        data = rest + piece
        cut = data.rfind(b"\n") + 1
        whole, rest = (data[:cut], data[cut:]) if cut and len(piece) == PIECE else (data, b"")
        lower = whole.lower()
        here = max(lower.count(each) for each in wanted)
        words = [[each.start() for each in pattern.finditer(lower)] for pattern in patterns] if here else [[]]
        if here and (not first or (any(words) and not whole_words)):
            places = [each[0] for each in words if each] or [lower.find(each) for each in wanted if each in lower]
            at = min(places)
            start = whole.rfind(b"\n", 0, at) + 1
            text = whole[start : whole.find(b"\n", at) if b"\n" in whole[at:] else None].decode("utf-8", "replace")
            first = [lines + whole.count(b"\n", 0, at) + 1, text.strip()[:LINE]]
        count += here
        whole_words += max(map(len, words))
        lines += whole.count(b"\n")
    return [count, whole_words, *first] if count else []
