"""The call that reads a table in a text file, tried: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from nbagent.kernel.inside.columns_inside import brief, described, tallied
from nbagent.kernel.inside.table_layout_inside import labelled
from nbagent.kernel.inside.text_forms_inside import MAX_COLUMNS, MIXED, TextTable
from nbagent.kernel.inside.value_forms_inside import (
    DECIMAL_COMMAS,
    THOUSANDS_BLANKS,
    THOUSANDS_COMMAS,
    THOUSANDS_POINTS,
)

TRIED_ROWS = 10_000
"""Rows with which the read call of a file is tried that is too large to be read whole."""
CONVERTED = 1_000
"""Characters of the part of a call that reads numbers with commas or points of thousands."""
AS_WRITTEN = {
    DECIMAL_COMMAS: "written with decimal commas",
    THOUSANDS_COMMAS: "written with thousands commas",
    THOUSANDS_POINTS: "written with thousands points",
    THOUSANDS_BLANKS: "written with thousands blanks",
}
"""The forms of columns that a call reads as the numbers which they are."""
_DECODED = (
    "Path({!r}).read_bytes().decode('utf-8', 'surrogateescape').translate("
    "{{0xdc00 + b: bytes([b]).decode('cp1252', 'replace') for b in range(128, 256)}}).encode()"
)
"""A file in two encodings, each byte that is not UTF-8 in the other one."""
NULLS = ("na", "nan", "null", "none", "nil")
"""Words that are null also in a column of text."""


def read_call(table: TextTable, columns: list[dict[str, Any]], *, is_inferred: bool = False) -> str:
    """The call that should read the file with these types, naming columns to convert unless they are inferred."""
    options = []
    if table.separator != ",":
        options.append(f"separator={table.separator!r}")
    options += [f"quote_char={table.quote!r}"] if table.quote != '"' else []
    if table.encoding not in ("utf-8", MIXED):
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
    commas, converted = _with_decimal_commas(table, columns), _converted(table, columns)
    if commas:
        options.append("decimal_comma=True")
    typed = [each for each in columns if each["dtype"] not in ("String", "Boolean")] + commas
    known = [*typed, *converted]
    options += _nulls(known, [each for each in columns if each not in known])
    if table.layout.is_block:
        types = (f"{each['name']!r}: pl.{each['dtype'] if each in typed else 'String'}" for each in columns)
        options.append(f"schema={{{', '.join(types)}}}")
    elif any(each["dtype"] in ("Date", "Datetime") for each in columns):
        options.append("try_parse_dates=True")
    padded = [each["name"] for each in columns if each.get("form") == "digits with leading zeros"]
    padded = [*padded[:20], *(each["name"] for each in converted if not is_inferred)]
    if padded and not table.layout.is_block:
        options.append(f"schema_overrides={{{', '.join(f'{each!r}: pl.String' for each in padded)}}}")
    if table.encoding == MIXED:
        return f"pl.read_csv({', '.join([_DECODED.format(table.path), *options])})"
    if re.search(r"[\[\]*?]", table.path):
        options.append("glob=False")
    return f"pl.read_csv({', '.join([repr(table.path), *options])})"


def _with_decimal_commas(table: TextTable, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns that a call can read as numbers with decimal commas, if no other one needs points."""
    if table.separator == "," or any(each["dtype"] == "Float64" for each in columns):
        return []
    several = [each for each in columns if each.get("written") and each["form"] != DECIMAL_COMMAS]
    if any(each["form"] == THOUSANDS_COMMAS for each in several):
        return []
    commas = [each for each in columns if each.get("written") and each not in several]
    return [each for each in commas if not any(each.get(odd) for odd in ("grouped", "padded", "spaced"))]


def _converted(table: TextTable, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns of numbers that a call must read as text and convert."""
    commas = _with_decimal_commas(table, columns)
    several = [each for each in columns if each.get("written") and each not in commas]
    return several if sum(len(repr(each["name"])) for each in several) < CONVERTED else []


def _conversion(columns: list[dict[str, Any]], others: list[str] | None = None) -> str:
    """What follows a call that reads columns as text, of which each has commas or points of thousands.

    Args:
        columns: These columns.
        others: All other columns of text, if they are to be named instead, which may be shorter.
    """
    parts: dict[str, list[str]] = {}
    for each in columns:
        how = ".str.strip_chars()" if each.get("padded") else ""
        how = ".str.replace_all(r'\\s', '')" if each.get("spaced") else how
        if each["form"] in (THOUSANDS_COMMAS, THOUSANDS_POINTS) or each.get("grouped"):
            how += f".str.replace_all({',' if each['form'] == THOUSANDS_COMMAS else '.'!r}, '', literal=True)"
        how += ".str.replace(',', '.', literal=True)" if each["form"] == DECIMAL_COMMAS else ""
        parts.setdefault(f"{how}.cast(pl.{each['written']})", []).append(repr(each["name"]))
    told = ", ".join(f"pl.col({', '.join(names)}){how}" for how, names in parts.items())
    if others is not None and len(parts) == 1:
        told = f"pl.col(pl.String).exclude({', '.join(map(repr, others))}){next(iter(parts))}"
    return f".with_columns({told})" if told else ""


def _others(columns: list[dict[str, Any]], converted: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in columns if each["dtype"] == "String" and each not in converted]


def tried(table: TextTable, found: dict[str, Any], *, is_whole: bool) -> tuple[str, str]:
    """The call that reads a file as it was profiled, and what is wrong with it; it was tried.

    The types that it gives are those of the profile from then on.
    """
    base = read_call(table, found["columns"])
    bounded = "" if is_whole else f", n_rows={TRIED_ROWS}"
    converted = _converted(table, found["columns"])
    written = {each["name"]: each["written"] for each in [*_with_decimal_commas(table, found["columns"]), *converted]}
    problem, wanted = "", {each["name"]: each["dtype"] for each in found["columns"]} | written
    conversion = _conversion(converted)
    several = ["", ", infer_schema_length=None", ", infer_schema=False"]
    leniency = ("", ", truncate_ragged_lines=True")
    attempts = [(base, each + lenient, conversion) for lenient in leniency for each in several]
    if converted and is_whole:  # all of it is read: what was inferred is seen
        short = read_call(table, found["columns"], is_inferred=True)
        shorter = min(_conversion(converted, _others(found["columns"], converted)), conversion, key=len)
        attempts = [(short, each, shorter) for each in several[:2]] + attempts
    for start, more, conversion in attempts:
        call = f"{start[:-1]}{more}){conversion}"
        try:
            frame = eval(f"{start[:-1]}{more}{bounded}){conversion}", {"pl": pl, "Path": Path})  # noqa: S307 - made of reprs, in the sandbox
        except Exception as error:
            problem = f"{type(error).__name__}: {brief(str(error).splitlines()[0])}"
            continue
        types = {name: str(dtype) for name, dtype in frame.schema.items()}
        same = all(types.get(name, "").startswith(dtype) or dtype == "Boolean" for name, dtype in wanted.items())
        if not same and start != base:
            continue
        if not same and "infer_schema" not in more and not bounded:
            if not table.rows:
                continue
            # Polars takes types from what stands below the table, too.
            wrong = {name: dtype for name, dtype in wanted.items() if not types.get(name, "").startswith(dtype)}
            casts = ", ".join(f"{name!r}: pl.{dtype}" for name, dtype in wrong.items() if dtype in ("Int64", "Float64"))
            with suppress(pl.exceptions.PolarsError):
                cast = f"{call}.cast({{{casts}}})" if casts else call
                frame = eval(cast, {"pl": pl, "Path": Path})  # noqa: S307 - as above
                call = cast
                types = {name: str(dtype) for name, dtype in frame.schema.items()}
        rows = (
            ""
            if bounded or frame.height == found["rows"] or found.get("sampled")
            else f"it gives {frame.height:,} rows"
        )
        for each in found["columns"]:
            dtype = types.get(each["name"], each["dtype"])
            is_read = each["name"] in written and dtype == written[each["name"]]
            each["dtype"] = each["dtype"] if bounded and not is_read else dtype
            if is_read and each in converted:
                each["form"] = AS_WRITTEN[each["form"]]
            elif is_read:
                del each["form"]
        return call, rows
    if converted:
        for each in converted:
            del each["written"]
        return tried(table, found, is_whole=is_whole)
    return "", f"no simple call reads it: {problem}"


def by_pandas(table: TextTable, found: dict[str, Any]) -> dict[str, Any]:
    """The profile of a table that Polars can't read, as pandas reads it; nothing if rows are lost."""
    import pandas as pd  # type: ignore[import-untyped]

    options = [f"sep={table.separator!r}"] if table.separator != "," else []
    options += [f"quotechar={table.quote!r}"] if table.quote != '"' else []
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
    columns = described(tallied([frame])[:MAX_COLUMNS], table.separator)
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
