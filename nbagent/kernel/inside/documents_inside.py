"""What databases, archives and tables with types have in them: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import os
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.frames_inside import MAX_TABLES, profiled, works
from nbagent.kernel.inside.text_forms_inside import MAX_COLUMNS

NESTED_ARCHIVES = 2
_OWN = "sqlite_", "rtree_", "gpkg_"
"""How tables are called that a database has for itself."""
BATCH = 200_000
"""Rows of a piece of a Parquet file or a database's table."""


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


def stata(path: str) -> dict[str, Any]:
    """A data set of Stata, with the labels of its variables."""
    import pandas as pd  # type: ignore[import-untyped]

    problem: Exception | None = None
    for more in ("", ", convert_categoricals=False"):  # values may have the same label
        call = f"pl.from_pandas(pd.read_stata({path!r}{more}))"
        try:
            frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
        except Exception as error:
            problem = error
            continue
        found = profiled([frame], call=call)
        with pd.read_stata(path, iterator=True) as reader:
            labels = reader.variable_labels()
        for column in found["columns"]:
            column |= {"label": brief(label)} if (label := labels.get(column["name"], "").strip()) else {}
        return {"tables": [found]}
    raise problem or AssertionError


def tables_ahead(path: str) -> dict[str, Any]:
    """The tables of a database with their columns, which is known before a row is read; nothing of another file."""
    found: dict[str, Any] = {}
    with suppress(Exception):
        if not os.path.isfile(path) or not _is_database(path):
            return found
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as connection:
            query = "select name from sqlite_master where type in ('table', 'view')"
            names = [row[0] for row in connection.execute(query) if not row[0].startswith(_OWN)][:MAX_TABLES]
            tables = [
                (name, connection.execute("select * from pragma_table_info(?)", [name]).fetchall()) for name in names
            ]
        found["tables"] = [
            {
                "name": brief(name),
                "columns": [{"name": brief(row[1]), "dtype": brief(row[2])} for row in columns[:MAX_COLUMNS]],
                "width": len(columns),
            }
            for name, columns in tables
        ]
        found["kind"] = "SQLite database"
    return found


def _is_database(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def database(path: str, clock: Clock) -> dict[str, Any]:
    """The tables of an SQLite database or a GeoPackage, with their keys."""
    tables: list[dict[str, Any]] = []
    address = f"file:{quote(path)}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        kinds = "('table', 'view')"
        names = [row[0] for row in connection.execute(f"select name from sqlite_master where type in {kinds}")]  # noqa: S608
        own = [name for name in names if not name.startswith(_OWN)]
        for name in own[:MAX_TABLES]:
            tables.append({"name": brief(name), **_database_table(connection, name, clock, path, address)})
        note = f"{len(own) - len(tables)} more tables" if len(own) > len(tables) else ""
        if is_geo := "gpkg_contents" in names:
            layers = connection.execute("select table_name, data_type, srs_id from gpkg_contents").fetchall()
            note = "; ".join([note, *(f"layer {brief(each[0])}: {each[1]}, EPSG {each[2]}" for each in layers)]).strip(
                "; "
            )
    return {"kind": "GeoPackage" if is_geo else "SQLite database", "tables": tables, "note": note}


def _database_table(connection: Any, name: str, clock: Clock, path: str, address: str) -> dict[str, Any]:
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
    # By the first 100 rows, a number behind them may fit no type; one in WAL mode can't be opened by its path alone.
    calls = [
        f"pl.read_database({query!r}, sqlite3.connect({where}){more})"
        for where in (repr(path), f"{address!r}, uri=True")
        for more in ("", ", infer_schema_length=None")
    ]
    works_so = (works(each, sqlite3=sqlite3) for each in calls) if found["rows"] <= BATCH else ()
    return {**found, "note": note, "call": next(filter(None, works_so), "")}


def _column(values: list[Any]) -> Any:
    """Values as they come, or as text where they are of several types."""
    try:
        return pl.Series(values, strict=True)
    except Exception:
        return pl.Series([each if each is None else str(each) for each in values], dtype=pl.String)


def archive(path: str, clock: Clock, name_of: Callable[[int], str], kind_of: Callable[..., Any]) -> dict[str, Any]:
    """The members of a zip file, as if each lay beside it, as far as there is time."""
    tables: list[dict[str, Any]] = []
    with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as folder:
        members = [each for each in file.infolist() if not each.is_dir()]
        for number, each in enumerate(members[:MAX_TABLES]):
            found: dict[str, Any] = {}
            if 0 < each.file_size < clock.whole and clock.nested < NESTED_ARCHIVES and not clock.is_over():
                beside = os.path.join(folder, str(number), os.path.basename(each.filename))
                found = _taken_out(partial(file.open, each), each.file_size, beside, clock, kind_of)
                content = f"zipfile.ZipFile({path!r}).read({each.filename!r})"
                tables += [_member(each.filename, beside, content, one) for one in found.get("tables", ())]
            if not found.get("tables"):
                about = [name_of(each.file_size), found.get("kind", ""), found.get("text", "")[:100]]
                tables.append({"name": brief(each.filename), "note": ", ".join(filter(None, about))})
    left = len(members) - min(len(members), MAX_TABLES)
    return {
        "kind": "zip archive",
        "tables": tables,
        "note": f"{len(members):,} files{f', {left:,} not shown' if left else ''}",
    }


def compressed(path: str, module: str, clock: Clock, kind_of: Callable[..., Any]) -> dict[str, Any]:
    """A file that is packed alone by `bz2` or `lzma`, as if it lay there unpacked."""
    opened: Callable[[str], Any] = bz2.open if module == "bz2" else lzma.open
    with opened(path) as file:
        size = len(file.read(clock.whole))
    if size == clock.whole or clock.nested >= NESTED_ARCHIVES:
        return {"kind": f"packed by {module}", "note": "too large to be read whole"}
    with tempfile.TemporaryDirectory() as folder:
        beside = os.path.join(folder, "0", Path(path).stem)
        found = _taken_out(partial(opened, path), size, beside, clock, kind_of)
    content = f"{module}.open({path!r}).read()"
    return found | {"tables": [_member("", beside, content, each) for each in found.get("tables", ())]}


def _taken_out(
    opened: Callable[[], Any], size: int, beside: str, clock: Clock, kind_of: Callable[..., Any]
) -> dict[str, Any]:
    """The profile of what is packed, by a copy of it at a path; or why there is none, as its kind."""
    try:
        os.mkdir(os.path.dirname(beside))
        with opened() as content, open(beside, "wb") as copy:
            copy.write(content.read(size))
    except Exception as error:  # it needs a password or is damaged, or no file can be called so: the others can be read
        return {"kind": f"can't be read: {brief(getattr(error, 'strerror', None) or error)}"}
    found: dict[str, Any] = {}
    clock.nested += 1
    with suppress(Exception):
        found = kind_of(beside, size, clock)
    clock.nested -= 1
    os.unlink(beside)
    return found


def _member(name: str, beside: str, content: str, table: dict[str, Any]) -> dict[str, Any]:
    """A table of what is packed, with a call that takes its content in place of a file beside it."""
    call = table.get("call", "")
    for opened, by in (
        (f"json.load(open({beside!r}, encoding='utf-8-sig'))", f"json.loads({content})"),
        (f"zipfile.ZipFile({beside!r})", f"zipfile.ZipFile(io.BytesIO({content}))"),
        (f"Path({beside!r}).read_bytes()", content),
    ):
        call = call.replace(opened, by)
    call = re.sub(rf"(pd\.read_\w+\(){re.escape(repr(beside))}", lambda found: f"{found[1]}io.BytesIO({content})", call)
    call = call.replace(repr(beside), content)
    if call.startswith("pl.read_csv(") and "infer_schema" not in call and ".cast(" not in call:
        call = f"{call[:-1]}, infer_schema_length=None)"
    given = {"zipfile": zipfile, "io": io, "json": json, "bz2": bz2, "lzma": lzma}
    named = ", ".join(filter(None, (name, table.get("name"))))
    return {**table, "name": brief(named), "call": works(call, **given) if call else ""}
