"""The call that reads a table in a text file, tried: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import polars as pl

from nbagent.kernel.inside.columns_inside import brief, tallied
from nbagent.kernel.inside.table_layout_inside import labelled
from nbagent.kernel.inside.text_forms_inside import MAX_COLUMNS, TextTable
from nbagent.kernel.inside.value_forms_inside import DECIMAL_COMMAS, THOUSANDS_COMMAS

TRIED_ROWS = 10_000
"""Rows with which the read call of a file is tried that is too large to be read whole."""
NULLS = ("na", "nan", "null", "none", "nil")
"""Words that are null also in a column of text."""


def read_call(table: TextTable, columns: list[dict[str, Any]]) -> str:
    """The call that should read the file with these types."""
    options = []
    if table.separator != ",":
        options.append(f"separator={table.separator!r}")
    if table.encoding != "utf-8":
        options.append(f"encoding={table.encoding!r}")
    if table.has_returns:
        options.append("eol_char='\\r'")
    if table.skipped_lines:
        options.append(f"skip_lines={table.skipped_lines}")
    options += [f"comment_prefix={table.comment!r}"] if table.comment else []
    options += [f"n_rows={table.rows}"] if table.rows else []
    options += [f"columns=range({table.fields})"] if table.fields else []
    if not table.layout.has_header:
        options.append("has_header=False")
    elif table.layout.more:
        options.append(f"skip_rows_after_header={table.layout.more}")
    commas = _with_decimal_commas(table, columns)
    if commas:
        options.append("decimal_comma=True")
    typed = [each for each in columns if each["dtype"] not in ("String", "Boolean")] + commas
    options += _nulls(typed, [each for each in columns if each not in typed])
    if table.layout.is_block:
        types = (f"{each['name']!r}: pl.{each['dtype'] if each in typed else 'String'}" for each in columns)
        options.append(f"schema={{{', '.join(types)}}}")
    elif any(each["dtype"] in ("Date", "Datetime") for each in columns):
        options.append("try_parse_dates=True")
    padded = [each["name"] for each in columns if each.get("form") == "digits with leading zeros"]
    if padded and not table.layout.is_block:
        options.append(f"schema_overrides={{{', '.join(f'{each!r}: pl.String' for each in padded[:20])}}}")
    if re.search(r"[\[\]*?]", table.path):
        options.append("glob=False")
    return f"pl.read_csv({', '.join([repr(table.path), *options])})"


def _with_decimal_commas(table: TextTable, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns that a call can read as numbers with decimal commas, if no other one needs points."""
    forms = [each.get("form") for each in columns]
    if table.separator == "," or THOUSANDS_COMMAS in forms or any(each["dtype"] == "Float64" for each in columns):
        return []
    return [
        each
        for each in columns
        if each.get("form") == DECIMAL_COMMAS and each.get("others", {}).keys() == _words(each).keys()
    ]


def tried(table: TextTable, found: dict[str, Any], *, is_whole: bool) -> tuple[str, str]:
    """The call that reads a file as it was profiled, and what is wrong with it; it was tried.

    The types that it gives are those of the profile from then on.
    """
    base = read_call(table, found["columns"])
    bounded = "" if is_whole else f", n_rows={TRIED_ROWS}"
    commas = [each["name"] for each in _with_decimal_commas(table, found["columns"])]
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


def by_pandas(table: TextTable, found: dict[str, Any]) -> dict[str, Any]:
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
