"""What the sheets of a workbook have in them: a part of `profile_inside.py`. Never imported on the host."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.frames_inside import profiled
from nbagent.kernel.inside.notes_inside import is_note
from nbagent.kernel.inside.pages_inside import NOTE_BYTES
from nbagent.kernel.inside.table_layout_inside import Layout, labelled
from nbagent.kernel.inside.text_tables_inside import RAW_WIDTH

MAX_SHEETS, LAST = 100, 6
FURTHER = 50
"""Empty rows of a sheet below which another table is looked for."""
NOTE_WIDTH, NOTE_ROWS = 4, 200
"""Columns of a sheet up to which it may explain the others, and those of its rows that are told."""
NOT_LOOKED = "not profiled: there was no time for this sheet"


def workbook(path: str, clock: Clock) -> dict[str, Any]:
    """Every sheet of a workbook."""
    import fastexcel

    book = fastexcel.read_excel(path)
    tables: list[dict[str, Any]] = []
    said: list[str] = []
    for name in book.sheet_names[:MAX_SHEETS]:
        if tables and clock.is_over():
            tables.append({"name": name, "note": NOT_LOOKED})
            continue
        try:
            tables.append({"name": name, **_sheet(path, book, name, said)})
        except Exception as error:
            tables.append({"name": name, "note": f"can't be read: {type(error).__name__}: {brief(error)}"})
    left = len(book.sheet_names) - len(tables)
    explained = {"is_note": True, "text": "\n".join(said)[:NOTE_BYTES]} if said else {}
    return {"tables": tables, "note": f"{left} more sheets" if left else "", **explained}


def _sheet(path: str, book: Any, name: str, said: list[str]) -> dict[str, Any]:
    """A sheet; what it says of the others is added to `said`."""
    whole = book.load_sheet(name, header_row=None, dtypes="string").to_polars()
    if not whole.height:
        return {"rows": 0, "columns": [], "note": "an empty sheet"}
    if whole.width <= NOTE_WIDTH and is_note(name):
        texts = (" | ".join(filter(None, row)) for row in _rows_of(whole.head(NOTE_ROWS)))
        said += [f"sheet {name}:", *filter(None, texts)]
    rows = _rows_of(whole.head(60))
    layout = Layout(rows)
    header = layout.header if layout.has_header else [f"column_{at + 1}" for at in range(whole.width)]
    first = layout.skipped + (1 + layout.more if layout.has_header else 0)
    names, seen = [], dict[str, int]()
    for at, each in enumerate([*header, *[""] * (whole.width - len(header))]):
        base = each or f"__UNNAMED__{at}"
        names.append(base if base not in seen else f"{base}_{seen[base]}")
        seen[base] = seen.get(base, 0) + 1
    body = whole.slice(first).filter(~pl.all_horizontal(pl.all().is_null()))  # as the call leaves empty rows out
    body.columns = names
    options = {"header_row": layout.skipped if layout.has_header else None}
    if layout.more:
        options["skip_rows"] = layout.more
    more = f", read_options={options!r}" if layout.skipped or layout.more or not layout.has_header else ""
    call, schema, below = "", dict[str, Any](), _below(body)
    with suppress(Exception):
        frame = pl.read_excel(path, sheet_name=name, read_options=options if more else None)
        call, schema = f"pl.read_excel({path!r}, sheet_name={name!r}{more})", frame.schema
        filled = body.head(body.height - len(below))
        whole_at = [
            at for at, each in enumerate(filled) if not each.null_count() and body[-len(below) :, at].is_null().all()
        ]
        if below and whole_at and frame.width == body.width:
            real = frame.columns[whole_at[0]]
            if frame.drop_nulls(real).height == filled.height:
                body, call = filled, f"{call}.drop_nulls({real!r})"
    found = profiled([body], is_typed=False, **({"call": call} if call else {}))
    labelled(found["columns"], layout)
    for column, (real, dtype) in zip(found["columns"], schema.items(), strict=False):
        column |= {"name": brief(real), "dtype": brief(dtype)} if len(schema) == len(found["columns"]) else {}
    notes = [f"below the table: {' / '.join(map(brief, below))}"] if below else []
    if told := "; ".join([*_further(whole, first), *notes]):
        found["note"] = told
    if layout.is_odd:
        found["raw"] = [
            " | ".join(row)[:RAW_WIDTH].rstrip("| ") for row in rows[: layout.skipped + layout.more + 2][:12]
        ]
    return found


def _below(body: Any) -> list[str]:
    """What the last rows say that have one cell each, which is no value of its column, and so are none of the table."""
    rows = _rows_of(body.tail(LAST)) if body.width > 1 else []
    last = list(itertools.takewhile(lambda row: sum(map(bool, row)) == 1, reversed(rows)))
    above = body.head(body.height - len(last))
    cells = [next((at, each) for at, each in enumerate(row) if each) for row in last if above.height]
    told = itertools.takewhile(lambda cell: not _is_value_of(cell[1], above[:, cell[0]].drop_nulls()), cells)
    return [text for _, text in told][::-1]


def _is_value_of(text: str, values: Any) -> bool:
    """Whether a text may be one of a column's values: it has no more words than they, and digits if all of them do."""
    most = values.str.count_matches(r"\S+").max() or 0
    return len(text.split()) <= most and (any(map(str.isdigit, text)) or not values.str.contains(r"\d").all())


def _further(whole: Any, first: int) -> list[str]:
    """What is to be said of further tables on a sheet: below an empty row stand words, and numbers below these."""
    is_empty = whole.select(pl.all_horizontal(pl.all().fill_null("").str.strip_chars() == "")).to_series()
    begins = [at + 1 for at in (is_empty & ~is_empty.shift(-1, fill_value=True)).arg_true().to_list() if at >= first]
    told = []
    for begin in begins[:FURTHER]:
        rows = _rows_of(whole.slice(begin, 5))
        at = next((at for at, row in enumerate(rows[:2]) if sum(map(bool, row)) > 1), len(rows))
        if len(rows) < at + 3 or any(any(map(str.isdigit, each)) for each in rows[at]):
            continue
        if any(each[:1].isdigit() or each[1:2].isdigit() for row in rows[at + 1 : at + 3] for each in row):
            names = " | ".join(filter(None, rows[at]))
            told.append(
                f"another table begins below, at 'header_row': {begin + at} ({brief(names)}); the rows are of all"
            )
    return told


def _rows_of(frame: Any) -> list[list[str]]:
    return [["" if each is None else str(each) for each in row] for row in frame.rows()]
