"""What workbooks, databases, JSON, HTML, archives and notes have in them: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from html import unescape
from typing import Any
from urllib.parse import quote

import polars as pl

from nbagent.kernel.inside.columns_inside import brief, tallied
from nbagent.kernel.inside.table_layout_inside import Layout
from nbagent.kernel.inside.text_tables_inside import (
    MAX_COLUMNS,
    RAW_LINES,
    RAW_WIDTH,
    Clock,
    encoding_of,
    text_table,
)

MAX_TABLES = 30
BATCH = 200_000
"""Rows of a piece of a Parquet file or a database's table."""
SHAPE_DEPTH, SHAPE_KEYS = 3, 12


def profiled(frames: Any, *, is_typed: bool = True, **more: Any) -> dict[str, Any]:
    """The profile of a table that comes in pieces.

    Args:
        frames: The pieces.
        is_typed: Whether they have the types that whoever reads the table gets, so that a text of digits stays one.
        more: What else there is in it.
    """
    rows = 0
    texts: set[str] = set()

    def counted() -> Iterator[Any]:
        nonlocal rows
        for frame in frames:
            rows += frame.height
            texts.update(name for name, dtype in frame.schema.items() if is_typed and dtype == pl.String)
            yield frame

    tallies = tallied(counted())
    columns = [each.found() for each in tallies[:MAX_COLUMNS]]
    for tally, column in zip(tallies, columns, strict=False):
        if tally.name in texts and column["dtype"] != "String":
            form = "dates" if column["dtype"].startswith("Date") else "numbers"
            column |= {"dtype": "String", **({"form": form} if column["dtype"] != "Boolean" else {})}
    return {"rows": rows, "columns": columns, "width": len(tallies), **more}


def works(call: str, **given: Any) -> str:
    """A call, if it works here."""
    try:
        exec(call if "\n" in call else f"_ = {call}", {"pl": pl, **given})  # noqa: S102 - made of reprs, in the sandbox
    except Exception:
        return ""
    return call


def scanned(kind: str, path: str, clock: Clock) -> dict[str, Any]:
    """A table that Polars reads in its own types."""
    scan: Any = {"Parquet": pl.scan_parquet, "JSON Lines": pl.scan_ndjson, "Arrow": pl.scan_ipc}[kind]
    call = {"Parquet": "read_parquet", "JSON Lines": "read_ndjson", "Arrow": "read_ipc"}[kind]
    if kind == "JSON Lines":
        lazy = scan(path, infer_schema_length=None) if clock.piece > 0 else scan(path)
        whole = lazy.collect()
        return {"tables": [profiled([whole], call=f"pl.{call}({path!r}, infer_schema_length=None)")]}
    lazy = scan(path, **({"glob": False} if kind == "Parquet" else {}))
    rows = int(lazy.select(pl.len()).collect().item())
    sampled = []

    def pieces() -> Iterator[Any]:
        for start in range(0, max(rows, 1), BATCH):
            yield lazy.slice(start, BATCH).collect()
            if clock.is_over() and start + BATCH < rows:
                sampled.append(f"the first {start + BATCH:,} rows were read")
                return

    glob = ", glob=False" if kind == "Parquet" and any(each in path for each in "[]*?") else ""
    found = profiled(pieces(), call=f"pl.{call}({path!r}{glob})")
    found["rows"] = rows
    if sampled:
        found |= {"sampled": True, "note": f"too large to be read whole in the time: {sampled[0]}"}
    return {"tables": [found]}


def workbook(path: str, clock: Clock) -> dict[str, Any]:
    """Every sheet of a workbook."""
    import fastexcel

    book = fastexcel.read_excel(path)
    tables = []
    for name in book.sheet_names[:MAX_TABLES]:
        try:
            tables.append({"name": name, **_sheet(path, book, name)})
        except Exception as error:
            tables.append({"name": name, "note": f"can't be read: {type(error).__name__}: {brief(error)}"})
        if clock.is_over():
            break
    left = len(book.sheet_names) - len(tables)
    return {"tables": tables, "note": f"{left} more sheets" if left else ""}


def _sheet(path: str, book: Any, name: str) -> dict[str, Any]:
    whole = book.load_sheet(name, header_row=None, dtypes="string").to_polars()
    if not whole.height:
        return {"rows": 0, "columns": [], "note": "an empty sheet"}
    rows = [["" if each is None else str(each) for each in row] for row in whole.head(60).rows()]
    layout = Layout(rows)
    header = layout.header if layout.has_header else [f"column_{at + 1}" for at in range(whole.width)]
    first = layout.skipped + (1 + layout.more if layout.has_header else 0)
    names, seen = [], dict[str, int]()
    for at, each in enumerate([*header, *[""] * (whole.width - len(header))]):
        base = each or f"__UNNAMED__{at}"
        names.append(base if base not in seen else f"{base}_{seen[base]}")
        seen[base] = seen.get(base, 0) + 1
    body = whole.slice(first)
    body.columns = names
    found = profiled([body], is_typed=False)
    options = {"header_row": layout.skipped if layout.has_header else None}
    if layout.more:
        options["skip_rows"] = layout.more
    more = f", read_options={options!r}" if layout.skipped or layout.more or not layout.has_header else ""
    if call := works(f"pl.read_excel({path!r}, sheet_name={name!r}{more})"):
        found["call"] = call
        schema = pl.read_excel(path, sheet_name=name, read_options=options if more else None).schema
        if len(schema) == len(found["columns"]):
            for column, (real, dtype) in zip(found["columns"], schema.items(), strict=True):
                column |= {"name": brief(real), "dtype": brief(dtype)}
    if layout.is_odd:
        found["raw"] = [brief(" | ".join(row)[:RAW_WIDTH]) for row in rows[: max(RAW_LINES, layout.skipped + 3)][:12]]
    return found


def database(path: str, clock: Clock) -> dict[str, Any]:
    """The tables of an SQLite database or a GeoPackage, with their keys."""
    tables: list[dict[str, Any]] = []
    address = f"file:{quote(path)}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        kinds = "('table', 'view')"
        names = [row[0] for row in connection.execute(f"select name from sqlite_master where type in {kinds}")]  # noqa: S608
        own = [name for name in names if not name.startswith(("sqlite_", "rtree_", "gpkg_"))]
        for name in own[:MAX_TABLES]:
            tables.append({"name": brief(name), **_database_table(connection, name, clock, address)})
        note = f"{len(own) - len(tables)} more tables" if len(own) > len(tables) else ""
        if is_geo := "gpkg_contents" in names:
            layers = connection.execute("select table_name, data_type, srs_id from gpkg_contents").fetchall()
            note = "; ".join([note, *(f"layer {brief(each[0])}: {each[1]}, EPSG {each[2]}" for each in layers)]).strip(
                "; "
            )
    return {"kind": "GeoPackage" if is_geo else "SQLite database", "tables": tables, "note": note}


def _database_table(connection: Any, name: str, clock: Clock, address: str) -> dict[str, Any]:
    quoted = '"' + name.replace('"', '""') + '"'
    declared = connection.execute(f"pragma table_info({quoted})").fetchall()
    keys = [row[1] for row in sorted(declared, key=lambda row: row[5]) if row[5]]
    query = f"select * from {quoted}"  # noqa: S608 - quoted
    refers = [
        f"{row[3]} → {row[2]}.{row[4] or 'its key'}" for row in connection.execute(f"pragma foreign_key_list({quoted})")
    ]
    cursor = connection.execute(query)
    columns = [each[0] for each in cursor.description]
    state = {"cut": False}

    def pieces() -> Iterator[Any]:
        while rows := cursor.fetchmany(BATCH):
            yield pl.DataFrame({c: _column([row[at] for row in rows]) for at, c in enumerate(columns)})
            if clock.is_over():
                state["cut"] = True
                return

    found = profiled(pieces())
    if not found["columns"]:
        found["columns"] = [{"name": brief(row[1]), "dtype": ""} for row in declared]
    types = {brief(row[1]): row[2] for row in declared}
    for each in found["columns"]:
        each["dtype"] = brief(types.get(each["name"]) or each["dtype"])
    if state["cut"]:
        found |= {"sampled": True, "rows": connection.execute(f"select count(*) from {quoted}").fetchone()[0]}  # noqa: S608
    note = "; ".join([*([f"key: {', '.join(map(brief, keys))}"] if keys else []), *map(brief, refers)])
    call = f"pl.read_database({query!r}, sqlite3.connect({address!r}, uri=True))"
    late = f"{call[:-1]}, infer_schema_length=None)"  # by the first 100 rows, a number behind them may fit no type
    call = (works(call, sqlite3=sqlite3) or works(late, sqlite3=sqlite3)) if found["rows"] <= BATCH else ""
    return {**found, "note": note, "call": call}


def _column(values: list[Any]) -> Any:
    """Values as they come, or as text where they are of several types."""
    try:
        return pl.Series(values, strict=True)
    except Exception:
        return pl.Series([each if each is None else str(each) for each in values], dtype=pl.String)


def json_file(path: str, size: int, clock: Clock) -> dict[str, Any]:
    """The shape of a JSON document, and its records as tables."""
    if size > clock.whole:
        return {"kind": "JSON", "note": "too large to be read whole"}
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        value = json.load(file)
    load = f"json.load(open({path!r}, encoding='utf-8-sig'))"
    if isinstance(value, dict) and value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        return _geojson(value, load)
    tables = []
    for keys, records in _records(value):
        place = "".join(f"[{each!r}]" for each in keys)
        frame = _frame(records)
        name = ".".join(map(str, keys))
        if frame is None:
            tables.append({"name": name, "rows": len(records), "columns": [], "note": f"records: {shape(records[0])}"})
            continue
        call = works(f"pl.DataFrame({load}{place}, infer_schema_length=None)", json=json)
        tables.append({"name": name, **profiled([frame], call=call)})
        nested = [each for each, dtype in frame.schema.items() if dtype.is_nested()]
        if nested:
            tables[-1]["note"] = "nested: " + "; ".join(
                f"{each}: {shape(_first(records, each))}" for each in nested[:8]
            )
    note = "a list of records" if isinstance(value, list) and tables else shape(value)
    return {"kind": "JSON", "tables": tables, "note": note}


def _frame(records: list[Any]) -> Any:
    try:
        return pl.DataFrame(records, infer_schema_length=None)
    except Exception:
        return None


def _first(records: list[Any], key: str) -> Any:
    return next((each[key] for each in records if each.get(key)), None)


def _records(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """The lists of records in a document, with where they are."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value[:100]):
        yield keys, [each for each in value if isinstance(each, dict)]
    elif isinstance(value, dict) and len(keys) < SHAPE_DEPTH:
        for key in list(value)[:SHAPE_KEYS]:
            yield from _records(value[key], (*keys, key))


def _geojson(value: dict[str, Any], load: str) -> dict[str, Any]:
    features = [each for each in value["features"] if isinstance(each, dict)]
    kinds = sorted({str((each.get("geometry") or {}).get("type")) for each in features})
    frame = _frame([each.get("properties") or {} for each in features])
    system = (value.get("crs") or {}).get("properties", {}).get("name", "WGS 84")
    note = f"geometries: {', '.join(kinds)}; reference system: {brief(system)}"
    call = f"pl.DataFrame([each['properties'] for each in {load}['features']], infer_schema_length=None)"
    table = profiled([frame], call=works(call, json=json)) if frame is not None else {"rows": len(features)}
    return {"kind": "GeoJSON", "tables": [table], "note": note}


def shape(value: Any, depth: int = 0) -> str:
    """What a value of JSON is made of, in a line."""
    if isinstance(value, dict):
        if depth >= SHAPE_DEPTH:
            return f"an object of {len(value)} keys"
        parts = [f"{brief(key)}: {shape(value[key], depth + 1)}" for key in list(value)[:SHAPE_KEYS]]
        return brief(f"{{{', '.join(parts)}{f', … {len(value):,} keys' if len(value) > SHAPE_KEYS else ''}}}")
    if isinstance(value, list):
        return f"[{shape(value[0], depth + 1)}] ×{len(value):,}" if value else "[]"
    return type(value).__name__


def page(path: str, size: int, clock: Clock) -> dict[str, Any]:
    """The title of a page of HTML, and each of its tables as pandas reads it."""
    if size > clock.whole // 4:
        return {"kind": "HTML", "note": "too large to be read whole"}
    with open(path, "rb") as file:
        start = file.read()
    encoding = encoding_of(start)
    text = start.decode(encoding, "replace")
    title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
    found: dict[str, Any] = {"kind": "HTML", "tables": []}
    if title:
        found["note"] = f"title: {brief(' '.join(unescape(title[1]).split()))}"
    if re.search(r"<table", text, re.IGNORECASE) and not _WIDE_SPAN.search(text):
        import pandas as pd  # type: ignore[import-untyped]

        read = f"pd.read_html({path!r}, encoding={encoding!r}"
        try:
            frames = pd.read_html(io.StringIO(text))
        except (ImportError, ValueError):  # it has only empty ones
            frames = []
        for number, frame in enumerate(frames[:MAX_TABLES]):
            found["tables"].append({"name": f"table {number}", **_page_table(read, number, frame, pd)})
            if clock.is_over():
                break
    return found | ({"text": " ".join(text.split())[:200]} if not found["tables"] else {})


_WIDE_SPAN = re.compile(r"(?:col|row)span\s*=\s*[\"']?\s*\d{4}", re.IGNORECASE)
"""A cell over so many columns or rows that the table would fill the memory."""


def _page_table(read: str, number: int, frame: Any, pd: Any) -> dict[str, Any]:
    """A table of a page; its call has several rows of a header as one, and leaves out a title above it."""
    calls = [f"pl.from_pandas({read})[{number}])"]
    names = [each if isinstance(each, tuple) else (each,) for each in frame.columns]
    if isinstance(names[0][0], int):
        # No cell is marked as one of a header. What is one here may be none in the page's other tables.
        calls = [f"pl.from_pandas({read})[{number}].rename(columns=str))"]
        rows = [["" if pd.isna(each) else str(each) for each in row] for row in frame.head(60).to_numpy()]
        layout = Layout([[row[0]] if len(set(row)) == 1 else row for row in rows])
        if layout.has_header and not layout.more:
            calls.insert(0, f"pl.from_pandas({read}, header={layout.skipped})[{number}])")
    elif len(names[0]) > 1:
        first = next((at for at, level in enumerate(zip(*names, strict=True)) if len(set(level)) > 1), 0)
        joined = f"' '.join(dict.fromkeys(x for x in c[{first or ''}:] if 'Unnamed: ' not in x))"
        calls = [f"pl.from_pandas((t := {read})[{number}]).set_axis([{joined} for c in t.columns], axis=1))"]
    for call in calls:
        if works(call, pd=pd):
            frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
            return profiled([frame], call=call)
    raw = [brief(" | ".join(map(str, row))[:RAW_WIDTH]) for row in [names, *frame.head(RAW_LINES).to_numpy()]]
    return {"rows": len(frame), "columns": [], "raw": raw, "note": "no simple call reads it"}


def archive(path: str, clock: Clock, name_of: Callable[[int], str]) -> dict[str, Any]:
    """The members of a zip file; tables among them as far as there is time."""
    tables = []
    with zipfile.ZipFile(path) as file:
        members = [each for each in file.infolist() if not each.is_dir()]
        for each in members[:MAX_TABLES]:
            table: dict[str, Any] = {"name": brief(each.filename), "note": name_of(each.file_size)}
            if (
                each.filename.lower().endswith((".csv", ".tsv"))
                and each.file_size < clock.whole
                and not clock.is_over()
            ):
                with file.open(each) as member:
                    content = io.BytesIO(member.read(clock.whole))
                found = text_table(each.filename, each.file_size, clock, content)
                call = f"pl.read_csv(zipfile.ZipFile({path!r}).read({each.filename!r}), infer_schema_length=None)"
                table |= {**found, "call": works(call, zipfile=zipfile)}
            tables.append(table)
    left = len(members) - len(tables)
    return {
        "kind": "zip archive",
        "tables": tables,
        "note": f"{len(members):,} files{f', {left:,} not shown' if left else ''}",
    }
