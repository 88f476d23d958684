"""Tables in text files, whatever their encoding, separator and header: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import polars as pl

from nbagent.kernel.inside.columns_inside import Tally, brief, tallied
from nbagent.kernel.inside.table_layout_inside import COMMENTS, Layout
from nbagent.kernel.inside.value_forms_inside import DECIMAL_COMMAS, THOUSANDS_COMMAS

SNIFFED = 64 * 1024
"""Bytes of a file's begin by which its form is found."""
SNIFFED_ROWS = 120
LEAST_ROWS = 3
"""If so many lines are no comments, the others are not looked at."""
TRIED_ROWS = 10_000
"""Rows with which the read call of a file is tried that is too large to be read whole."""
MAX_COLUMNS = 500
RAW_LINES, RAW_WIDTH = 6, 160
NULLS = ("na", "nan", "null", "none", "nil")
"""Words that are null also in a column of text."""
LAST_ROWS = 200
"""Rows at the end among which words may stand that are no part of the table."""
FOOTNOTE, FOOTERS = 40, 6
"""Characters of a sentence below a table, and sentences that are told."""
_SOURCE = re.compile(r"(?i)[\W_]*(?:notes?|sources?|footnotes?|remarks?|quellen?|anmerkung(?:en)?|hinweise?)\b")
"""How a line begins that says something of the table above."""


STRETCH = 3
"""How many times as long as it should something may take where other programs have the processors."""
LOOK_SECONDS = 0.05
"""Seconds until it is looked again how long threads have waited."""
FIRST_PIECE = 2 * 1024 * 1024
"""Bytes of the first piece of a file."""


class Watch:
    """Seconds without those in which others had the processors, of which each counts for a part all the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = 0.0
        self._last = self._look()

    @staticmethod
    def _look() -> tuple[float, float, float]:
        """The time, that of the processors which this process had, and that in which its threads waited for one."""
        waited = 0
        with suppress(OSError, ValueError, IndexError):
            for each in os.listdir("/proc/self/task"):
                with open(f"/proc/self/task/{each}/schedstat", encoding="ascii") as file:
                    waited += int(file.read().split()[1])
        return time.monotonic(), time.process_time(), waited / 1e9

    def now(self) -> float:
        """The seconds since it was made."""
        with self._lock:
            if (rest := time.monotonic() - self._last[0]) < LOOK_SECONDS:
                return self._own + rest
            last, self._last = self._last, self._look()
            whole, used, waited = (each - before for each, before in zip(self._last, last, strict=True))
            self._own += min(whole, max(whole - max(waited, 0), used, whole / STRETCH))
            return self._own


class Clock:
    """The time that there is for a file, and the memory for a piece of one.

    Args:
        end: When reading must end, by `now`.
        piece: Bytes of a piece; twice as many of a file are read at once where it can't be read in pieces.
        now: Tells the time.

    Attributes:
        nested: In how many archives the file is that is read.
    """

    def __init__(self, end: float, piece: int, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.end = end
        self.piece = piece
        self.whole = 2 * piece
        self.step = min(FIRST_PIECE, piece)
        self.nested = 0

    def pace(self, seconds: float) -> None:
        """Have the next piece larger or smaller, after one that took so long: the last one must not come too late."""
        if seconds < 0.2:
            self.step = min(2 * self.step, self.piece)
        elif seconds > 0.8:
            self.step = max(self.step // 2, min(FIRST_PIECE, self.piece))

    def is_over(self) -> bool:
        """Whether the time has come to an end."""
        return self.now() > self.end


COMMENT_MARKS = ("#", "!", "%", "//")
"""How comments begin that are told from rows amid a table."""
_SPREADSHEET_ERROR = re.compile(r"#(?:N/?A|REF|DIV|VALUE|NAME|NULL|NUM)\b")
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
        text = start.decode(self.encoding, "replace").removeprefix("\ufeff")
        lines = text.splitlines()
        self.lines = lines[:-1] if len(start) >= SNIFFED and len(lines) > 1 else lines
        named = "\t" if path.lower().endswith((".tsv", ".tab", ".tsv.gz")) else ""
        self.separator = separator or _separator(self.lines, named=named)
        rows, ends = self._rows(self.lines)
        self.layout = Layout(_without_footer(rows))
        self.skipped_lines = ends[self.layout.skipped - 1] if self.layout.skipped else 0
        self.comment = comment_amid(self.lines[self.skipped_lines :], self.lines[: self.skipped_lines], self.separator)
        if self.comment:  # without them, the same lines may be rows of a table of another width
            plain = [at for at, line in enumerate(self.lines) if not line.startswith(self.comment)]
            rows, ends = self._rows([self.lines[at] for at in plain])
            self.layout = Layout(_without_footer(rows))
            self.skipped_lines = plain[ends[self.layout.skipped - 1] - 1] + 1 if self.layout.skipped else plain[0]
        self.rows = self.fields = 0  # of one among several: its rows and, if it has fewer than others, its columns

    def _rows(self, lines: list[str]) -> tuple[list[list[str]], list[int]]:
        """The fields of the first rows, and the number of the line with which each ends."""
        reader, rows, ends = csv.reader(lines, delimiter=self.separator), list[list[str]](), list[int]()
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
            piece = self._lined(file.read(step))
            if not piece:
                break
            whole, rest = _whole_rows(rest + piece, at_end=len(piece) < step)
            if whole:
                yield self._as_utf8(whole)
            clock.pace(time.monotonic() - started)
        if rest:
            yield self._as_utf8(rest)

    def _lined(self, piece: bytes) -> bytes:
        """Bytes of the file whose lines end as others' do."""
        return piece.replace(b"\r", b"\n") if self.has_returns else piece

    def _as_utf8(self, piece: bytes) -> bytes:
        if self.encoding == "utf-8":
            try:
                piece.decode()
            except UnicodeDecodeError:
                # What came before was plain ASCII, or the file is in two encodings.
                self.encoding = "cp1252"
            else:
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
                rows = csv.reader(self.lines[self.skipped_lines :], delimiter=self.separator)
                names = [f"column_{at}" for at in range(max(map(len, rows)))]
            if names is not None:
                options["schema"] = dict.fromkeys(names, pl.String)
                options |= {"missing_columns": "insert", "extra_columns": "ignore"}  # the first row may be any
            frame = parsed(piece, self.separator, options)
            names = frame.columns
            read["bytes"] += len(piece)
            read["rows"] += frame.height
            yield frame
            if clock.is_over() and next(pieces, None):
                read["cut"] = 1
                return

    def _with_decimal_commas(self, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The columns that a call can read as numbers with decimal commas, if no other one needs points."""
        forms = [each.get("form") for each in columns]
        if self.separator == "," or THOUSANDS_COMMAS in forms or any(each["dtype"] == "Float64" for each in columns):
            return []
        return [
            each
            for each in columns
            if each.get("form") == DECIMAL_COMMAS and each.get("others", {}).keys() == _words(each).keys()
        ]

    def call(self, columns: list[dict[str, Any]]) -> str:
        """The call that should read the file with these types."""
        options = []
        if self.separator != ",":
            options.append(f"separator={self.separator!r}")
        if self.encoding != "utf-8":
            options.append(f"encoding={self.encoding!r}")
        if self.has_returns:
            options.append("eol_char='\\r'")
        if self.skipped_lines:
            options.append(f"skip_lines={self.skipped_lines}")
        options += [f"comment_prefix={self.comment!r}"] if self.comment else []
        options += [f"n_rows={self.rows}"] if self.rows else []
        options += [f"columns=range({self.fields})"] if self.fields else []
        if not self.layout.has_header:
            options.append("has_header=False")
        elif self.layout.more:
            options.append(f"skip_rows_after_header={self.layout.more}")
        commas = self._with_decimal_commas(columns)
        if commas:
            options.append("decimal_comma=True")
        typed = [each for each in columns if each["dtype"] not in ("String", "Boolean")] + commas
        options += _nulls(typed, [each for each in columns if each not in typed])
        if self.layout.is_block:
            types = (f"{each['name']!r}: pl.{each['dtype'] if each in typed else 'String'}" for each in columns)
            options.append(f"schema={{{', '.join(types)}}}")
        elif any(each["dtype"] in ("Date", "Datetime") for each in columns):
            options.append("try_parse_dates=True")
        padded = [each["name"] for each in columns if each.get("form") == "digits with leading zeros"]
        if padded and not self.layout.is_block:
            options.append(f"schema_overrides={{{', '.join(f'{each!r}: pl.String' for each in padded[:20])}}}")
        if re.search(r"[\[\]*?]", self.path):
            options.append("glob=False")
        return f"pl.read_csv({', '.join([repr(self.path), *options])})"


def labelled(columns: list[dict[str, Any]], layout: Layout) -> None:
    """Give columns what the further rows of their header say."""
    for column, label in zip(columns, layout.labels, strict=False):
        if label:
            column["label"] = brief(label)


def _nulls(typed: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[str]:
    """The option of a call by which words among numbers are null.

    One that is a value in a column of text, such as Unknown, is null in its own column only; or it stays there, too.
    """
    by_column = {each["name"]: sorted({*each.get("missing", ()), *_words(each)}) for each in typed}
    words = {word for several in by_column.values() for word in several}
    texts = {text for each in others for part in ("values", "top", "missing", "codes") for text in each.get(part, ())}
    told = (
        {*each.get("values", ()), *each.get("top", ()), *each.get("codes", ())} - {*each.get("missing", ())}
        for each in others
    )
    values = set[str]().union(*told)
    if kept := {each for each in words & texts if each in values or (each.isalpha() and each.lower() not in NULLS)}:
        single = {name: several[0] for name, several in by_column.items() if several}
        if all(len(several) < 2 for several in by_column.values()):
            return [f"null_values={single!r}"]
        words -= kept
    return [f"null_values={sorted(words)!r}"] if words else []


def _words(column: dict[str, Any]) -> dict[str, int]:
    """The words among a column's numbers that a call reads as null."""
    words: dict[str, int] = column["others"] if column.get("words") else {}
    return words


def parsed(piece: bytes, separator: str, options: dict[str, Any]) -> Any:
    """Rows as a frame of text; with quotes as plain characters where they don't match."""
    for quote in ('"', None):
        try:
            given = {"infer_schema": False, "truncate_ragged_lines": True, "quote_char": quote, **options}
            return pl.read_csv(io.BytesIO(piece), separator=separator, **given)
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
    for each in ",;\t|:":
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
    rows = [row for row in csv.reader(lines[:SNIFFED_ROWS], delimiter=table.separator) if row]
    fitting = max((count for width, count in Counter(map(len, rows)).items() if width > 1), default=0)
    if table.layout.is_block:
        fitting = sum(len(row) > 1 for row in rows)
    is_one = table.layout.width > 1 and len(rows) > 3 and fitting > least * len(rows)
    return table.separator if is_one else ""


def _whole_rows(data: bytes, *, at_end: bool) -> tuple[bytes, bytes]:
    """Bytes up to the last end of a row, and the rest; a line's end between quotes doesn't end a row."""
    if at_end:
        return data, b""
    quotes, at = data.count(b'"'), len(data)
    for _ in range(1000):
        before = data.rfind(b"\n", 0, at)
        if before < 0:
            break
        quotes -= data.count(b'"', before, at)
        at = before
        if quotes % 2 == 0:
            return data[: at + 1], data[at + 1 :]
    last = data.rfind(b"\n")
    return data[: last + 1], data[last + 1 :]


def text_table(path: str, size: int, clock: Clock, opened: Any = None, *, separator: str = "") -> dict[str, Any]:
    """The profile of a table in a text file.

    Args:
        path: Where it is.
        size: Its bytes.
        clock: The time that there is.
        opened: Its content, where the file is packed.
        separator: What separates fields, where that is known.
    """
    file = opened or (gzip.open(path) if path.endswith(".gz") else open(path, "rb"))  # noqa: SIM115 - closed below
    with file:
        start = file.read(SNIFFED)
        table = TextTable(path, start, separator=separator)
        if table.encoding == "utf-16":
            file = io.BytesIO(start + file.read(clock.whole))
        else:
            file.seek(0)
        read = {"bytes": 0, "rows": 0, "cut": 0}
        last: list[Any] = []
        tallies = tallied(_with_last(table.frames(file, clock, read), last))
        tail = _tail(table, file, size, clock, tallies) if read["cut"] and opened is None else 0
        below, words = _footer(last)
        if below and not read["cut"] and not table.layout.is_block and size <= clock.whole:
            table.rows = read["rows"] - below
            file.seek(0)
            tallies = tallied(_first(table.frames(file, clock, read), table.rows))
            read["rows"] = table.rows
    columns = [each.found() for each in tallies[:MAX_COLUMNS]]
    labelled(columns, table.layout)
    found: dict[str, Any] = {"rows": read["rows"], "columns": columns, "width": len(tallies)}
    notes = []
    if read["cut"]:
        estimated = round(read["rows"] / max(1, read["bytes"]) * size)
        found |= {"rows": estimated, "sampled": True}
        read_mb, tail_mb = read["bytes"] / 1e6, tail / 1e6
        notes.append(
            f"too large to be read whole in the time: the first {read_mb:,.0f} MB and the last {tail_mb:,.0f} MB of "
            f"{size / 1e6:,.0f} MB were read; rows are estimated, types and values are of what was read"
        )
    if table.layout.is_odd or _is_renamed(tallies):
        header = table.lines[: table.skipped_lines + table.layout.more + 2 + table.layout.has_header]
        # Before a table stands what it is; right above its rows, what their columns are.
        header = header if len(header) <= RAW_LINES else [*header[:2], *header[2 - RAW_LINES :]]
        if not all(each.name.strip() for each in tallies):  # perhaps there are several tables, or none
            header = [line for line in table.lines[:30] if line.strip(f"{table.separator} ")][: 2 * RAW_LINES]
        found["raw"] = [brief(line[:RAW_WIDTH]) for line in header]
    found["call"] = table.call(columns)
    if opened is None:
        found["call"], problem = tried(table, found, is_whole=size <= clock.whole)
        if not found["call"] and size <= clock.whole and (other := _by_pandas(table, found)):
            found |= other
            problem = ""
        notes += [problem] if problem else []
    if words:
        notes.append(f"below the table: {words}")
    if notes:
        found["note"] = "; ".join(notes)
    return found


def _by_pandas(table: TextTable, found: dict[str, Any]) -> dict[str, Any]:
    """The profile of a table that Polars can't read, as pandas reads it; nothing if rows are lost."""
    import pandas as pd  # type: ignore[import-untyped]

    options = [f"sep={table.separator!r}"] if table.separator != "," else []
    options += [f"skiprows={table.skipped_lines}"] if table.skipped_lines else []
    options += [f"comment={table.comment!r}"] if table.comment else []
    options += [f"encoding={table.encoding!r}"] if table.encoding != "utf-8" else []
    if not table.layout.has_header:
        options.append(f"header=None, names=[f'column_{{n}}' for n in range({found['width']})]")
    call = f"pl.from_pandas(pd.read_csv({', '.join([repr(table.path), *options])}, skipinitialspace=True))"
    try:
        frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
    except Exception:
        return {}
    if frame.height != found["rows"] or frame.width != found["width"]:
        return {}
    columns = [each.found() for each in tallied([frame])[:MAX_COLUMNS]]
    labelled(columns, table.layout)
    return {"columns": columns, "call": call}


def _with_last(frames: Iterator[Any], last: list[Any]) -> Iterator[Any]:
    """The same frames; the last rows of the last one come to be in `last`."""
    for frame in frames:
        last[:] = frame.tail(LAST_ROWS).rows()
        yield frame


def _without_footer(rows: list[list[str]]) -> list[list[str]]:
    """The first rows without what stands below a table that is no longer than these."""
    return rows[: len(rows) - _footer(rows)[0]] if 1 < len(rows) < SNIFFED_ROWS else rows


def _first(frames: Iterator[Any], rows: int) -> Iterator[Any]:
    """As many rows as that."""
    for frame in frames:
        yield frame.head(rows)
        if (rows := rows - frame.height) <= 0:
            return


def _footer(rows: list[Any]) -> tuple[int, str]:
    """How many of the last rows are no part of a table, and what these say: they have a first field, or a source.

    What a row before them that is empty doesn't part from the table, nor a sentence, may be a row of it without values.
    """
    count, said, is_parted = 0, list[str](), False
    width = max(map(len, rows), default=0)
    for row in reversed(rows):
        there = [each.strip() for each in row if each and each.strip()]
        is_cut_sentence = len(there) < width and (_SOURCE.match(there[0]) or there[-1].endswith(".")) if there else True
        if width < 2 or (len(there) > 1 and not is_cut_sentence):
            break
        is_parted |= not there and bool(said)
        count += 1
        said += [", ".join(there)] if there else []
    told = [each for each in said if " " in each][::-1]
    is_said = any(len(each) > FOOTNOTE or _SOURCE.match(each) for each in told)
    is_footer = (is_said or (is_parted and bool(told))) and count < len(rows)
    return count if is_footer else 0, " / ".join(map(brief, told[:FOOTERS]))


def _is_renamed(tallies: list[Tally]) -> bool:
    return any("_duplicated_" in each.name or not each.name.strip() for each in tallies)


def _tail(table: TextTable, file: Any, size: int, clock: Clock, tallies: list[Tally]) -> int:
    """Add the last rows of a file that was not read to its end; returns their bytes."""
    length = min(clock.step, size // 4)
    file.seek(-length, os.SEEK_END)
    piece = table._lined(file.read(length))
    piece = table._as_utf8(piece[piece.find(b"\n") + 1 :])
    schema = {each.name: pl.String for each in tallies}
    lenient = {"missing_columns": "insert", "extra_columns": "ignore"}
    frame = parsed(piece, table.separator, {"has_header": False, "schema": schema, **lenient})
    for tally, column in zip(tallies, frame.get_columns(), strict=False):
        tally.add(column)
    return length


def tried(table: TextTable, found: dict[str, Any], *, is_whole: bool) -> tuple[str, str]:
    """The call that reads a file as it was profiled, and what is wrong with it; it was tried.

    The types that it gives are those of the profile from then on.
    """
    base = table.call(found["columns"])
    bounded = "" if is_whole else f", n_rows={TRIED_ROWS}"
    commas = [each["name"] for each in table._with_decimal_commas(found["columns"])]
    problem, wanted = "", {each["name"]: each["dtype"] for each in found["columns"]} | dict.fromkeys(commas, "Float64")
    attempts = ["", ", infer_schema_length=None", ", infer_schema=False"]
    for more in (each + lenient for lenient in ("", ", truncate_ragged_lines=True") for each in attempts):
        call = f"{base[:-1]}{more})"
        try:
            frame = eval(f"{call[:-1]}{bounded})", {"pl": pl})  # noqa: S307 - made of reprs, in the sandbox
        except Exception as error:
            problem = f"{type(error).__name__}: {brief(str(error).splitlines()[0])}"
            continue
        types = {name: str(dtype) for name, dtype in frame.schema.items()}
        same = all(types.get(name, "").startswith(dtype) or dtype == "Boolean" for name, dtype in wanted.items())
        if not same and "infer_schema" not in more and not bounded:
            if not table.rows:
                continue
            # Polars takes types from what stands below the table, too.
            wrong = {name: dtype for name, dtype in wanted.items() if not types.get(name, "").startswith(dtype)}
            casts = ", ".join(f"{name!r}: pl.{dtype}" for name, dtype in wrong.items() if dtype in ("Int64", "Float64"))
            with suppress(pl.exceptions.PolarsError):
                cast = f"{call}.cast({{{casts}}})" if casts else call
                frame = eval(cast, {"pl": pl})  # noqa: S307 - as above
                call = cast
                types = {name: str(dtype) for name, dtype in frame.schema.items()}
        rows = (
            ""
            if bounded or frame.height == found["rows"] or found.get("sampled")
            else f"it gives {frame.height:,} rows"
        )
        for each in found["columns"] if not bounded else ():
            each["dtype"] = types.get(each["name"], each["dtype"])
            if each["name"] in commas and each["dtype"] == "Float64":
                del each["form"]
        return call, rows
    return "", f"no simple call reads it: {problem}"
