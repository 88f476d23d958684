"""The form of a table in a text file, by its first lines, and its rows: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.footers_inside import without_footer
from nbagent.kernel.inside.table_layout_inside import COMMENTS, Layout

SNIFFED = 64 * 1024
"""Bytes of a file's begin by which its form is found."""
SNIFFED_ROWS = 120
MAX_COLUMNS = 500
MIXED = "utf-8 and cp1252"
"""The encoding of a file to which somebody added lines in another one."""
SEVERAL_LINES = 10
"""How many times as many lines are in another encoding where those that could be UTF-8 are so by chance."""
_OTHER_BYTES = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(128, 256)}
LEAST_ROWS = 3
"""If so many lines are no comments, the others are not looked at."""
COMMENT_MARKS = ("#", "!", "%", "//")
"""How comments begin that are told from rows amid a table."""
QUOTES, PARTING = "~'|^", ",;\t|^~"
"""What stands around texts in tables that have no quotation marks, and what may part their fields."""
_SPREADSHEET_ERROR = re.compile(r"#(?:N/?A|REF|DIV|VALUE|NAME|NULL|NUM)\b")
_UNSPACED, _WIDE_GAP = re.compile(r",(?! )"), re.compile(r"[^,\s]\s{2,}[^,\s]")
"""A comma that is none of a text, and what parts columns at places."""
_OTHER_COLON = re.compile(r": |\d:\d\d(?!\d)")
"""A colon that doesn't part fields: one of a sentence or a time."""


class TextTable:
    """A table in text: its form by the first lines, its columns by all of them.

    Args:
        path: Where the file is, as code names it.
        start: Its first bytes.
    """

    def __init__(self, path: str, start: bytes, *, separator: str = "") -> None:
        self.path = path
        self.encoding = encoding_of(start)
        self.has_returns = b"\r" in start and b"\n" not in start  # by these alone old programs end lines
        if self.encoding == "cp1252" and is_mixed(start):
            self.encoding = MIXED
        self.has_utf8, self.odd_lines = False, 0
        text = decoded(start, self.encoding).removeprefix("\ufeff")
        lines = text.splitlines()
        self.lines = lines[:-1] if len(start) >= SNIFFED and len(lines) > 1 else lines
        separator, self.quote = quoting(self.lines, separator)
        named = "\t" if path.lower().endswith((".tsv", ".tab", ".tsv.gz")) else ""
        self.separator = separator or _separator(self.lines, named=named)
        rows, ends = self._rows(self.lines)
        self.layout = Layout(without_footer(rows, SNIFFED_ROWS))
        self.skipped_lines = ends[self.layout.skipped - 1] if self.layout.skipped else 0
        self.comment = comment_amid(self.lines[self.skipped_lines :], self.lines[: self.skipped_lines], self.separator)
        if self.comment:  # without them, the same lines may be rows of a table of another width
            plain = [at for at, line in enumerate(self.lines) if not line.startswith(self.comment)]
            rows, ends = self._rows([self.lines[at] for at in plain])
            self.layout = Layout(without_footer(rows, SNIFFED_ROWS))
            self.skipped_lines = plain[ends[self.layout.skipped - 1] - 1] + 1 if self.layout.skipped else plain[0]
        self.rows = self.fields = 0  # of one among several: its rows and, if it has fewer than others, its columns

    def parted(self, lines: list[str]) -> Any:
        """A reader of lines that gives the fields of each row."""
        return csv.reader(lines, delimiter=self.separator, quotechar=self.quote)

    def _rows(self, lines: list[str]) -> tuple[list[list[str]], list[int]]:
        """The fields of the first rows, and the number of the line with which each ends."""
        reader, rows, ends = self.parted(lines), list[list[str]](), list[int]()
        with suppress(csv.Error):
            for row in itertools.islice(reader, SNIFFED_ROWS):
                rows.append(row)
                ends.append(reader.line_num)
        return rows, ends

    def pieces(self, file: Any, clock: Clock) -> Iterator[bytes]:
        """The file in pieces of whole rows, each as UTF-8."""
        rest = b""
        while True:
            step, started = clock.step, time.monotonic()
            piece = self.lined(file.read(step))
            if not piece:
                break
            whole, rest = _whole_rows(rest + piece, self.quote.encode(), at_end=len(piece) < step)
            if whole:
                yield self.as_utf8(whole)
            clock.pace(time.monotonic() - started)
        if rest:
            yield self.as_utf8(rest)

    def lined(self, piece: bytes) -> bytes:
        """Bytes of the file whose lines end as others' do."""
        return piece.replace(b"\r", b"\n") if self.has_returns else piece

    def as_utf8(self, piece: bytes) -> bytes:
        """Bytes of the file in UTF-8; the encoding is another one from the first that isn't in it."""
        if self.encoding in ("utf-8", "cp1252") and not piece.isascii():
            is_utf8 = _is_utf8(piece)
            if self.encoding == "cp1252":
                self.encoding = MIXED if is_utf8 or is_mixed(piece) else self.encoding
            elif not is_utf8:
                # What came before was plain ASCII, or the file is in two encodings.
                self.encoding = MIXED if self.has_utf8 or is_mixed(piece) else "cp1252"
            self.has_utf8 |= is_utf8
        if self.encoding in ("utf-8", MIXED):
            if self.encoding == MIXED:
                self.odd_lines += sum(not _is_utf8(line) for line in piece.splitlines())
                piece = decoded(piece, MIXED).encode()
            return piece.removeprefix(b"\xef\xbb\xbf")
        try:
            return piece.decode(self.encoding).encode()
        except UnicodeDecodeError:
            self.encoding = "latin1" if self.encoding == "cp1252" else self.encoding
            return piece.decode(self.encoding, "replace").encode()

    def frames(self, file: Any, clock: Clock, read: dict[str, int]) -> Iterator[Any]:
        """The table's pieces, all columns as text; what was read is counted in `read`."""
        names: list[str] | None = None
        pieces = self.pieces(file, clock)
        for piece in pieces:
            is_first = names is None
            options: dict[str, Any] = {"has_header": is_first and self.layout.has_header}
            if is_first and self.skipped_lines:
                options["skip_lines"] = self.skipped_lines
            if self.comment:
                options["comment_prefix"] = self.comment
            if is_first and self.layout.more and self.layout.has_header:
                options["skip_rows_after_header"] = self.layout.more
            if names is None and self.layout.is_block:  # the first rows have fewer fields than others
                rows = self.parted(self.lines[self.skipped_lines :])
                names = [f"column_{at}" for at in range(max(map(len, rows)))]
            if names is not None:
                options["schema"] = dict.fromkeys(names, pl.String)
                options |= {"missing_columns": "insert", "extra_columns": "ignore"}  # the first row may be any
            frame = parsed(piece, self, options)
            names = frame.columns
            read["bytes"] += len(piece)
            read["rows"] += frame.height
            yield frame
            if clock.is_over() and next(pieces, None):
                read["cut"] = 1
                return


def parsed(piece: bytes, table: TextTable, options: dict[str, Any]) -> Any:
    """Rows as a frame of text; with quotes as plain characters where they don't match."""
    for quote in (table.quote, None):
        try:
            given = {"infer_schema": False, "truncate_ragged_lines": True, "quote_char": quote, **options}
            return pl.read_csv(io.BytesIO(piece), separator=table.separator, **given)
        except pl.exceptions.NoDataError:
            return pl.DataFrame()
        except pl.exceptions.PolarsError:
            if quote is None:
                raise
    raise AssertionError


def comment_amid(lines: list[str], above: list[str], separator: str) -> str:
    """With what comments begin that stand among the rows, from the first one on; empty if there are none.

    A line that begins so and has as many fields as most is a row, unless there are comments above the table, too.
    """
    found = Counter(mark for line in lines for mark in COMMENT_MARKS if line.startswith(mark))
    if not found or not lines or lines[0].startswith(tuple(found)):  # the header is written as one
        return ""
    mark = found.most_common(1)[0][0]
    width = Counter(line.count(separator) for line in lines).most_common(1)[0][0]
    odd = [line for line in lines if line.startswith(mark)]
    is_value = any(_SPREADSHEET_ERROR.match(line) for line in odd) or 2 * len(odd) > len(lines)
    is_announced = any(line.startswith(mark) for line in above)
    is_other = not any(line.count(separator) == width > 0 for line in odd)
    return "" if is_value or not (is_announced or is_other) else mark


def encoding_of(start: bytes) -> str:
    """The encoding of a file that begins so, as far as its begin says."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:
            return "cp1252"
    return "utf-8"


def decoded(data: bytes, encoding: str) -> str:
    """The text of bytes; in a file of two encodings, each byte that is not UTF-8 is of the other one."""
    if encoding == MIXED:
        return data.decode("utf-8", "surrogateescape").translate(_OTHER_BYTES)
    return data.decode(encoding, "replace")


def is_mixed(data: bytes) -> bool:
    """Whether of the lines with other letters than ASCII has, some are UTF-8 and some are not, neither by chance."""
    lines = [line for line in data.splitlines() if not line.isascii()]
    count = sum(map(_is_utf8, lines))
    return count < len(lines) <= SEVERAL_LINES * count


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def quoting(lines: list[str], separator: str) -> tuple[str, str]:
    """What parts fields, if it is known or what stands around texts tells of it, and this sign.

    Args:
        lines: The first lines.
        separator: What parts the fields, if it is known.
    """
    sample = [line for line in lines[:SNIFFED_ROWS] if line.strip()]
    for quote in QUOTES:
        if len(sample) < LEAST_ROWS or sum(line.count(quote) > 1 for line in sample) < 0.6 * len(sample):
            continue
        for each in (separator or PARTING).replace(quote, ""):
            sign, part = re.escape(quote), re.escape(each)
            field = rf"(?>{sign}[^{sign}]*{sign}|[^{sign}{part}]*)"
            form = re.compile(rf"{field}(?:{part}{field})+")
            if sum(form.fullmatch(line) is not None for line in sample) >= 0.9 * len(sample):
                return each, quote
    return separator, '"'


def _separator(lines: list[str], *, named: str = "") -> str:
    """The character by which most lines have the same number of fields, from as early on as can be.

    Decimal commas part as many fields as the true separator or more, but not those of the header. Colons stand in times
    too, so they part fields only where nothing else does.

    Args:
        lines: The first lines.
        named: What the file's name says.
    """
    best, scored = ",", (0.0, -SNIFFED_ROWS, 0)
    sample = [line for line in lines[:SNIFFED_ROWS] if line.strip()]
    if named and sum(named in line for line in sample) > 0.8 * len(sample):
        return named
    without = [line for line in sample if not line.startswith(COMMENTS)]
    sample = without if len(without) >= LEAST_ROWS else sample
    for each in ",;\t|^:":
        if each == ":" and (scored[0] >= 0.5 or any(map(_OTHER_COLON.search, sample))):
            break
        try:
            rows = [len(row) for row in csv.reader(sample, delimiter=each)]
        except csv.Error:
            continue
        width, count = max(Counter(rows).items(), key=lambda found: found[1] if found[0] > 1 else 0, default=(1, 0))
        share = round(count / max(1, len(rows)), 1)
        score = min(share, 0.8), -rows.index(width) if width > 1 else 0, width
        if each == ":" and share < 0.8:
            continue
        if width > 1 and score > scored:
            best, scored = each, score
    return best


def table_separator(start: bytes, least: float = 0.9) -> str:
    """What separates the fields of a table, from its header on; empty if fewer rows than this part have as many."""
    table = TextTable("", start)
    lines = table.lines[table.skipped_lines :]
    if table.comment:
        lines = [line for line in lines if not line.startswith(table.comment)]
    rows = [row for row in table.parted(lines[:SNIFFED_ROWS]) if row]
    fitting = max((count for width, count in Counter(map(len, rows)).items() if width > 1), default=0)
    if table.layout.is_block:
        fitting = sum(len(row) > 1 for row in rows)
    is_one = table.layout.width > 1 and len(rows) > 3 and fitting > least * len(rows)
    # In `00001  Li, Wei   2374` it is places that part columns.
    gaps = sum(_WIDE_GAP.search(line) is not None for line in lines[:SNIFFED_ROWS])
    commas = sum(_UNSPACED.search(line) is not None for line in lines[:SNIFFED_ROWS])
    is_one &= not (table.separator == "," and gaps > 0.9 * len(rows) > 9 * commas)
    return table.separator if is_one else ""


def _whole_rows(data: bytes, quote: bytes, *, at_end: bool) -> tuple[bytes, bytes]:
    """Bytes up to the last end of a row, and the rest; a line's end between quotes doesn't end a row."""
    if at_end:
        return data, b""
    quotes, at = data.count(quote), len(data)
    for _ in range(1000):
        before = data.rfind(b"\n", 0, at)
        if before < 0:
            break
        quotes -= data.count(quote, before, at)
        at = before
        if quotes % 2 == 0:
            return data[: at + 1], data[at + 1 :]
    last = data.rfind(b"\n")
    return data[: last + 1], data[last + 1 :]
