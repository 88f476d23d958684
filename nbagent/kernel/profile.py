"""What is known of a data file: as the sandbox says it, within bounds. Pure.

All of it is untrusted text: names and values are those of files that somebody else may have made.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from nbagent.core.policy import MIB

MAX_COLUMNS, MAX_SAMPLE, MAX_VALUES, MAX_TABLES, MAX_RAW, MAX_ROWS = 500, 3, 15, 100, 12, 6
"""Columns of a table, values of a column, tables of a file, and raw lines and rows of a table that are kept."""
MAX_NAMES = 300
"""Values of a column that are kept where they are names, by which other tables may be joined."""

LEADING_ZEROS = "digits with leading zeros"
"""The form of keys such as 00184, as `columns_inside.py` names it."""
MAX_PROFILE_HEFT = 128 * MIB
"""What one profile may weigh (`sandbox/untrusted.py`); one of 500 columns weighs a third of that."""

MAX_SKETCH = 10_924
"""Characters of a sketch's hashes: 2,048 numbers of four bytes in base64."""

Value = bool | int | float | str | None
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Sketch(msgspec.Struct):
    """Hashes of some of a column's values; of two columns, the same values are in it.

    Attributes:
        level: Of all values, each in 2 ** level is in it.
        hashes: Numbers of four bytes, ascending, in base64.
    """

    level: int = 0
    hashes: Annotated[str, msgspec.Meta(max_length=MAX_SKETCH)] = ""


class Column(msgspec.Struct, omit_defaults=True):
    """A column, by all of its values that were read.

    Attributes:
        name: Its name.
        dtype: The type that every value has, as Polars or the database names it.
        empty: Rows without a value.
        missing: Words that mean a missing value, each with its rows.
        distinct: Different values; approximate if `about`.
        sample: Some values.
        rows: The value of each row, if the table has few.
        values: All values with their rows, if there are few.
        top: The most frequent values with their rows, if there are many.
        low, high: The least and the greatest value.
        form: How values are written: a date's format, numbers with decimal commas.
        names: All values of a column of text, if they are not very many and more than in `values`.
        pointed: The least and the greatest value, if the points in its numbers may be ones of thousands.
        sums: What rows are called in it that have the sums of others, with their rows.
        others: Values that have another form than most, with their rows.
        sentinels: Numbers that often mean a missing value, with their rows.
        unit: The unit in its name.
        label: What the further rows of its header say.
        padded: Rows whose value has spaces around it.
        alike: Different values without case, spaces and leading zeros, if these are fewer; 0 if not.
        sketch, folded: By which it is compared with other columns: values as they are, and without case,
            spaces and leading zeros.
    """

    name: str
    dtype: str = ""
    empty: Count = 0
    missing: dict[str, Count] = {}
    distinct: Count = 0
    about: bool = False
    sample: list[Value] = []
    rows: list[Value] = []
    values: dict[str, Count] = {}
    top: dict[str, Count] = {}
    low: Value = None
    high: Value = None
    form: str = ""
    names: list[str] = []
    pointed: list[Value] = []
    sums: dict[str, Count] = {}
    others: dict[str, Count] = {}
    sentinels: dict[str, Count] = {}
    unit: str = ""
    label: str = ""
    padded: Count = 0
    alike: Count = 0
    sketch: Sketch | None = None
    folded: Sketch | None = None


class Table(msgspec.Struct, omit_defaults=True):
    """A table of a file: the only one, a sheet, a table of a database or page, or a member of an archive.

    Attributes:
        name: Its name; empty if the file has only this one.
        rows: Its rows; None if nobody knows.
        columns: Its first columns.
        width: How many columns it has.
        call: The call that reads it, which was tried; empty if there is none.
        raw: The first lines as they are, where the header is odd.
        note: What else is to be known.
        sampled: Whether only a part of it was read.
    """

    name: str = ""
    rows: Count | None = None
    columns: list[Column] = []
    width: Count = 0
    call: str = ""
    raw: list[str] = []
    note: str = ""
    sampled: bool = False


class FileProfile(msgspec.Struct, omit_defaults=True):
    """A data file.

    Attributes:
        path: Where it is in the sandbox; also of a folder without files.
        kind: Its format.
        size: Its bytes.
        note: What else is to be known, or why nothing is.
        tables: The tables in it.
        text: How it begins, if it is text; nearly all of it, if it is a note.
        is_note: Whether it explains other files.
    """

    path: str
    kind: str = ""
    size: Count = 0
    note: str = ""
    tables: list[Table] = []
    text: str = ""
    is_note: bool = False


def columns_of(found: FileProfile) -> int:
    """How many columns are known of a file."""
    return sum(len(table.columns) for table in found.tables)


def bounded(found: FileProfile, *, columns: int = MAX_COLUMNS) -> FileProfile:
    """The same profile, within the bounds of this module, and without further columns than so many."""
    found.tables = found.tables[:MAX_TABLES]
    left = min(columns, MAX_COLUMNS)
    for table in found.tables:
        table.columns = table.columns[:left]
        left -= len(table.columns)
        table.raw = table.raw[:MAX_RAW]
        for column in table.columns:
            column.sample, column.rows = column.sample[:MAX_SAMPLE], column.rows[:MAX_ROWS]
            column.names, column.pointed = column.names[:MAX_NAMES], column.pointed[:2]
            for name in ("values", "top", "missing", "others", "sentinels", "sums"):
                setattr(column, name, dict(list(getattr(column, name).items())[:MAX_VALUES]))
    return found
