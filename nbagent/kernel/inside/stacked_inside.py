"""Several tables in one text file, one below the other: a part of `profile_inside.py`. Never imported on the host."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from typing import Any

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.columns_inside import brief, described, tallied
from nbagent.kernel.inside.read_calls_inside import tried
from nbagent.kernel.inside.table_layout_inside import SENTENCE, labelled
from nbagent.kernel.inside.text_forms_inside import SNIFFED, TextTable
from nbagent.kernel.inside.value_forms_inside import MISSING

MAX_STACKED = 12
"""Tables from which a file is rather one table with gaps."""
MOST_LOOSE = 0.2
"""The part of the rows that may stand in none of the tables."""

_GAP = re.compile(rb"(?m)^[ \t,;|]*\r?$")
Lines = tuple[int, int, list[list[str]]]
"""Rows between empty ones: the lines above them, those up to their end, and their fields."""


def stacked_tables(path: str, start: bytes, clock: Clock) -> dict[str, Any]:
    """The tables of a small file, parted by empty rows, and what is said beside them; nothing if it has not several.

    Args:
        path: Where the file is.
        start: Its content, which is whole if it is short.
        clock: The time that there is.
    """
    if len(start) >= SNIFFED or not _GAP.search(start.strip()):
        return {}
    whole = TextTable(path, start)
    if whole.encoding == "utf-16" or whole.quote != '"':
        return {}
    tables, said = _told_apart(whole)
    count = sum(len(rows) for _, (_, _, rows) in tables)
    several = sum(_filled(row) > 1 for _, _, rows in _parted(whole) for row in rows)
    headed = [_own_header(rows) for _, (_, _, rows) in tables]
    if not 2 <= sum(headed) <= len(tables) <= MAX_STACKED or several - count > MOST_LOOSE * several:
        return {}
    found = [_stacked(whole, clock, *lines, title) for title, lines in tables]
    note = f"{len(found)} tables, one below the other" + (f"; beside them: {' / '.join(map(brief, said))}" * bool(said))
    return {"tables": found, "note": note}


def _told_apart(whole: TextTable) -> tuple[list[tuple[str, Lines]], list[str]]:
    """What may be tables, each with its title, and what is said beside them."""
    tables: list[tuple[str, Lines]] = []
    said: list[str] = []
    title = ""
    for above, end, rows in _parted(whole):
        heads = list(itertools.takewhile(lambda row: _filled(row) < 2, rows))
        rest = rows[len(heads) :]
        words = " ".join(each.strip() for row in heads for each in row if each.strip())
        if len(rest) > 1:
            tables.append((words or title, (above + len(heads), end, rest)))
            title = ""
            continue
        said += [title] if title else []
        title = words if len(words) <= SENTENCE else ""
        said += [words] if words and not title else []
    return tables, said


def _parted(whole: TextTable) -> Iterator[Lines]:
    """The rows between empty ones."""
    reader, rows, above, end = whole.parted(whole.lines), [], 0, 0
    for row in itertools.chain(reader, [[]]):
        if _filled(row):
            rows.append(row)
            end = reader.line_num
            continue
        if rows:
            yield above, end, rows
        rows, above = [], reader.line_num


def _filled(row: list[str]) -> int:
    return sum(bool(each.strip()) for each in row)


def _own_header(rows: list[list[str]]) -> bool:
    """Whether rows begin with names of all their columns, of which some have numbers."""
    layout = _table_of("", ",", rows).layout
    head = layout.header[: layout.width]
    return layout.has_header and layout.skipped == 0 and layout.has_numbers and not MISSING & {*map(str.lower, head)}


def _table_of(path: str, separator: str, rows: list[list[str]]) -> TextTable:
    """Rows as a table of their own, without the columns that they leave to others."""
    width = max(max((at + 1 for at, each in enumerate(row) if each.strip()), default=0) for row in rows)
    return TextTable(path, _written(separator, [row[:width] for row in rows]), separator=separator)


def _written(separator: str, rows: list[list[str]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def _stacked(whole: TextTable, clock: Clock, above: int, end: int, rows: list[list[str]], title: str) -> dict[str, Any]:
    """One of the tables, with the call that reads it alone."""
    table = _table_of(whole.path, whole.separator, rows)
    if not _own_header(rows):
        table.layout.has_header, table.layout.more, table.skipped_lines = False, 0, 0
    width = max(map(len, table.parted(table.lines)))
    read = {"bytes": 0, "rows": 0, "cut": 0}
    content = _written(table.separator, [row[:width] for row in rows])
    columns = described(tallied(table.frames(io.BytesIO(content), clock, read)), whole.separator)
    labelled(columns, table.layout)
    table.encoding, table.rows = whole.encoding, read["rows"]
    table.skipped_lines += above
    table.fields = width if width < max(map(len, whole.parted(whole.lines))) else 0
    name = brief(title) if title else f"lines {above + 1} to {end}"
    found: dict[str, Any] = {"name": name, "rows": read["rows"], "columns": columns, "width": len(columns)}
    found["call"], problem = tried(table, found, is_whole=True)
    return found | ({"note": problem} if problem else {})
