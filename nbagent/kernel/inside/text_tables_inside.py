"""Tables in text files, whatever their encoding, separator and header: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import gzip
import io
import os
from typing import Any

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.columns_inside import Tally, described, tallied
from nbagent.kernel.inside.footers_inside import first_rows, footer, with_last
from nbagent.kernel.inside.read_calls_inside import by_pandas, read_call, tried
from nbagent.kernel.inside.table_layout_inside import COMMENTS, labelled
from nbagent.kernel.inside.text_forms_inside import MAX_COLUMNS, SNIFFED, TextTable, parsed

RAW_LINES, RAW_COMMENTS, RAW_WIDTH = 6, 24, 400
RULES = "#/%-=*! \t"
"""What a line of a header consists of that says nothing."""


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
        tallies = tallied(with_last(table.frames(file, clock, read), last))
        tail = _tail(table, file, size, clock, tallies) if read["cut"] and opened is None else 0
        below, words = footer(last)
        if below and not read["cut"] and not table.layout.is_block and size <= clock.whole:
            table.rows = read["rows"] - below
            file.seek(0)
            table.odd_lines = 0
            tallies = tallied(first_rows(table.frames(file, clock, read), table.rows))
            read["rows"] = table.rows
    columns = described(tallies[:MAX_COLUMNS], table.separator)
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
    if table.odd_lines:
        notes.append(f"in two encodings: {table.odd_lines:,} of its lines in cp1252 (Latin-1), the others in UTF-8")
    if table.layout.is_odd or _is_renamed(tallies):
        header = table.lines[: table.skipped_lines + table.layout.more + 2 + table.layout.has_header]
        header = head_of(header)
        if sum(not each.name.strip() for each in tallies) > 1:  # perhaps there are several tables, or none
            header = [line for line in table.lines[:30] if line.strip(f"{table.separator} ")][: 2 * RAW_LINES]
        found["raw"] = [line[:RAW_WIDTH] for line in header]
    found["call"] = read_call(table, columns)
    if opened is None:
        found["call"], problem = tried(table, found, is_whole=size <= clock.whole)
        if not found["call"] and size <= clock.whole and (other := by_pandas(table, found)):
            found |= other
            problem = ""
        notes += [problem] if problem else []
    if words:
        notes.append(f"below the table: {words}")
    if notes:
        found["note"] = "; ".join(notes)
    return found


def head_of(lines: list[str]) -> list[str]:
    """Of the lines up to a table's rows, those that say most: what it is comes first, what its columns are last."""
    if not "".join(lines[:1]).startswith(COMMENTS):
        if len(lines) > RAW_LINES:
            lines = [line for line in lines if line.strip(RULES)]
        return lines if len(lines) <= RAW_LINES else [*lines[:2], *lines[2 - RAW_LINES :]]
    return [line for line in lines if line.strip(RULES)][:RAW_COMMENTS]


def _is_renamed(tallies: list[Tally]) -> bool:
    return any("_duplicated_" in each.name or not each.name.strip() for each in tallies)


def _tail(table: TextTable, file: Any, size: int, clock: Clock, tallies: list[Tally]) -> int:
    """Add the last rows of a file that was not read to its end; returns their bytes."""
    length = min(clock.step, size // 4)
    file.seek(-length, os.SEEK_END)
    piece = table.lined(file.read(length))
    piece = table.as_utf8(piece[piece.find(b"\n") + 1 :])
    schema = {each.name: pl.String for each in tallies}
    lenient = {"missing_columns": "insert", "extra_columns": "ignore"}
    frame = parsed(piece, table, {"has_header": False, "schema": schema, **lenient})
    for tally, column in zip(tallies, frame.get_columns(), strict=False):
        tally.add(column)
    return length
