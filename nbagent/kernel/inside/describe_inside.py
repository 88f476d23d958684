"""Describes data files, inside the sandbox: `describe.py` sends this source there. Never imported on the host."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from typing import Any

MAX_FILES = 60
MAX_COLUMNS = 500
COUNT_BELOW_BYTES = 300 * 1024 * 1024
"""Bytes of a text table up to which its rows are counted."""
SAMPLE_ROWS = 1000
OPEN_BELOW_BYTES = 60 * 1024 * 1024
"""Bytes up to which a format is read whole that can't be read in part."""
MIN_FILE_SECONDS = 3.0
"""Seconds that a file gets at least, while there are any: the first table waits for its library to be imported."""
SEND_SECONDS = 1.0
"""For what is published to be under way; it takes less than a thousandth of that."""
MAX_LATE = 3
"""Files that may take too long, each of which still occupies the kernel."""
LATE_NOTE = "took too long to read"
NO_TIME_NOTE = "not described: there was no time left"
TEXT_ENDINGS = frozenset(".txt .md .log .py .ini .cfg .toml .yaml .yml .xml .html .rst .sql".split())
DECIMAL_COMMA = r"^[-+]?(?:\d{1,3}(?:\.?\d{3})*,(?:\d{1,2}|\d{4,})|0,\d+)$"
IMAGE_ENDINGS = frozenset(".png .jpg .jpeg .gif .bmp .webp .tif .tiff".split())


def main(paths: list[str], seconds: float) -> int:
    """Describe each file, and each file in each folder, each within its share of the time that is left.

    Each is published when it is begun and when it is there, so that what is there is known even if this never comes to
    its end; returns how many they are.
    """
    end = time.monotonic() + seconds
    files = [file for path in paths for file in walk(path)]
    chosen = files[:MAX_FILES]
    late = 0
    for number, path in enumerate(chosen):
        left = end - time.monotonic()
        share = max(left / (len(chosen) - number), min(left, MIN_FILE_SECONDS))
        # What is no UTF-8 can't be sent to a model.
        name = {"path": os.fsencode(path).decode("utf-8", "replace")}
        publish({**name, "note": LATE_NOTE})
        described = within(path, share) if left > 0 and late < MAX_LATE else {"note": NO_TIME_NOTE}
        late += described.get("note") == LATE_NOTE
        if number == MAX_FILES - 1 and len(files) > MAX_FILES:
            described["note"] = f"{described.get('note', '')}; {len(files) - MAX_FILES} more files are not described"
        publish({**name, **described})
    return len(chosen)


def within(path: str, seconds: float) -> dict[str, Any]:
    """One description; a library that takes too long is left behind, since nothing can stop it."""
    box: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: box.append(one(path)), daemon=True)
    reader.start()
    reader.join(seconds)
    return box[0] if box else {"note": LATE_NOTE}


def publish(described: dict[str, Any]) -> None:
    """Send a description ahead of the result, and go on when it is under way."""
    from IPython import get_ipython

    kernel = get_ipython().kernel
    content = json.dumps(described).encode()
    kernel.session.send(kernel.iopub_socket, "nbagent_chunk", {}, parent=kernel.get_parent(), buffers=[content])
    # It is another thread that sends. A library that keeps all of Python from running must not come before it.
    sent = threading.Event()
    kernel.iopub_socket.io_thread.schedule(sent.set)
    sent.wait(SEND_SECONDS)


def one(path: str) -> dict[str, Any]:
    """What there is to know of one file, or why that can't be known."""
    described: dict[str, Any] = {}
    try:
        status = os.stat(path)
        described["note"] = size_of(status.st_size)
        if stat.S_ISDIR(status.st_mode):
            described["note"] = "an empty folder" if not os.listdir(path) else "a folder without plain files"
        elif not stat.S_ISREG(status.st_mode):
            # Reading a pipe would wait for whoever writes to it.
            described["note"] = "not a plain file"
        else:
            described.update(describe(path, status.st_size))
    except BaseException as error:  # a panic of a library in Rust is no Exception
        lines = str(error).splitlines() or [""]
        described["note"] = f"can't be read: {type(error).__name__}: {brief(lines[0])}"
    return described


def walk(path: str) -> list[str]:
    """A file itself, or the files below a folder, three levels deep, without hidden ones; at least the folder."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        depth = folder[len(path) :].count(os.sep)
        folders[:] = [] if depth >= 3 else sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(names) if not name.startswith(".")]
        if len(found) > 1000:
            break
    return found or [path]


def describe(path: str, size: int) -> dict[str, Any]:
    """What there is to know of one file, by its ending; then by its first bytes."""
    ending = os.path.splitext(path)[1].lower()
    with open(path, "rb") as file:
        start = file.read(4096)
    if not start:
        return {"kind": "empty file", "note": "0 bytes"}
    if start.startswith(b"SQLite format 3\0"):
        return database(path)
    if start.startswith(b"PAR1"):
        return table("Parquet", path, size)
    if ending in (".csv", ".tsv", ".tab") and b"\0" not in start:
        return table("CSV", path, size, start)
    if ending in (".ndjson", ".jsonl") and b"\0" not in start:
        return table("JSON Lines", path, size)
    if ending in (".arrow", ".feather", ".ipc"):
        return table("Arrow", path, size)
    if ending in (".xlsx", ".xls", ".xlsb", ".ods") and size < OPEN_BELOW_BYTES:
        return workbook(path)
    if ending == ".json" and b"\0" not in start:
        return json_file(path, size)
    if ending in IMAGE_ENDINGS:
        return image_size(path)
    if b"\0" in start:
        return {"kind": "binary file", "note": f"{size_of(size)}, begins with {start[:8]!r}"}
    text = start.decode("utf-8", "replace")
    return {"kind": "text", "note": f"{size_of(size)}, begins with: {text[:200]}"}


def table(kind: str, path: str, size: int, start: bytes = b"") -> dict[str, Any]:
    """A table that Polars can scan."""
    import polars as pl

    note = size_of(size)
    if kind == "CSV":
        options: dict[str, Any] = {"separator": separator_of(start), "try_parse_dates": True}
        try:
            start.decode("utf-8")
        except UnicodeDecodeError as error:
            # A character may be cut at the end of what was read.
            if error.start < len(start) - 4:
                options["encoding"] = "utf8-lossy"
                note += ", not UTF-8: read it with encoding='latin1' or another"
        if options["separator"] != ",":
            note += f", separated by {options['separator']!r}"
        frame = pl.scan_csv(path, infer_schema_length=1000, ignore_errors=True, truncate_ragged_lines=True, **options)
    else:
        scan: Any = {"Parquet": pl.scan_parquet, "JSON Lines": pl.scan_ndjson, "Arrow": pl.scan_ipc}[kind]
        frame = scan(path)
    schema = frame.collect_schema()
    sample = frame.head(SAMPLE_ROWS).collect()
    if kind == "CSV":
        sample, schema = as_text_where_lost(sample, schema, path, options)
    described = columns_of(sample, schema)
    if len(schema) > MAX_COLUMNS:
        note += f", {len(schema):,} columns"
    if kind == "Parquet" or size < COUNT_BELOW_BYTES:
        described["rows"] = int(frame.select(pl.len()).collect().item())
    return {"kind": kind, "note": note, **described}


def as_text_where_lost(sample: Any, schema: Any, path: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """A CSV's columns, as text where the type that was found for them loses values: dates in more than one form."""
    import polars as pl

    text = pl.scan_csv(path, infer_schema=False, truncate_ragged_lines=True, **{**options, "try_parse_dates": False})
    try:
        whole = text.head(SAMPLE_ROWS).collect()
        lost = [name for name in schema if sample[name].null_count() > whole[name].null_count()]
        as_it_is = sample.with_columns(whole.select(lost))
    except pl.exceptions.PolarsError:
        return sample, schema
    return as_it_is, {**schema, **{name: f"String (not all can be read as {schema[name]})" for name in lost}}


def separator_of(start: bytes) -> str:
    """The character that separates the fields of the first line."""
    line = start.split(b"\n", 1)[0]
    return max(",;\t|", key=lambda each: line.count(each.encode()))


def columns_of(sample: Any, schema: Any) -> dict[str, Any]:
    """Names, types and different values of a frame's columns, by its first rows; and what is odd about them."""
    columns = []
    for name, dtype in list(schema.items())[:MAX_COLUMNS]:
        values = sample.get_column(name).drop_nulls()
        different = list(dict.fromkeys(plain(value) for value in values.head(50).to_list()))[:3]
        if len(different) < 3:
            # A table is often sorted by its categories.
            different = list(dict.fromkeys(plain(value) for value in values.to_list()))[:3]
        odd = oddity(values) if len(values) or not sample.height else f" (no value in the first {sample.height:,} rows)"
        columns.append({"name": brief(name), "dtype": brief(str(dtype)) + odd, "sample": different})
    return {"columns": columns}


def oddity(values: Any) -> str:
    """For text that is nearly always a number: what else it is, which is how missing values are often written."""
    import polars as pl

    if values.dtype != pl.String or not len(values):
        return ""
    stripped = values.str.strip_chars()
    is_number, what = stripped.cast(pl.Float64, strict=False).is_not_null(), "numbers"
    if is_number.sum() < len(values) / 2:
        # 1.234,56 as most of Europe writes it.
        is_number, what = is_number | stripped.str.contains(DECIMAL_COMMA), "numbers with decimal commas"
    others = values.filter(~is_number)
    if len(others) > len(values) / 2 or (not len(others) and what == "numbers"):
        return ""
    seen = ", ".join(repr(value[:20]) for value in others.unique(maintain_order=True).head(3).to_list())
    return f" ({what}{f', and {seen}' if seen else ''})"


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return str(value)[:100]


def brief(text: str) -> str:
    """A name or a reason that is short enough to be read."""
    return text if len(text) <= 200 else f"{text[:200]}…"


def listed(names: list[str], bound: int) -> str:
    """Names, separated by commas."""
    return ", ".join(brief(name) for name in names[:bound]) + (", …" if len(names) > bound else "")


def workbook(path: str) -> dict[str, Any]:
    """The first sheet of a workbook, and the names of the others."""
    import fastexcel
    import polars as pl

    names = fastexcel.read_excel(path).sheet_names
    frame = pl.read_excel(path, sheet_name=names[0])
    note = f"sheet {names[0]!r}" + (f"; other sheets: {listed(names[1:], 20)}" if names[1:] else "")
    return {"kind": "Excel", "rows": frame.height, "note": note, **columns_of(frame.head(SAMPLE_ROWS), frame.schema)}


def database(path: str) -> dict[str, Any]:
    """The tables of an SQLite database."""
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type in ('table', 'view')")]
        columns = []
        for name in names[:50]:
            quoted = '"' + name.replace('"', '""') + '"'
            for row in connection.execute(f"pragma table_info({quoted})").fetchall():
                columns.append({"name": brief(f"{name}.{row[1]}"), "dtype": brief(row[2])})
    return {"kind": "SQLite database", "note": f"tables: {listed(names, 20)}", "columns": columns[:MAX_COLUMNS]}


def json_file(path: str, size: int) -> dict[str, Any]:
    """The shape of a JSON document, and its columns if it is a list of records."""
    if size >= OPEN_BELOW_BYTES:
        return {"kind": "JSON", "note": size_of(size)}
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        value = json.load(file)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value[:100]):
        import polars as pl

        try:
            frame = pl.DataFrame(value[:1000], infer_schema_length=None)
            return {
                "kind": "JSON",
                "rows": len(value),
                "note": "a list of records",
                **columns_of(frame, frame.schema),
            }
        except Exception:
            keys = listed(list(value[0]), 20)
            return {"kind": "JSON", "rows": len(value), "note": f"a list of records with the keys {keys}"}
    if isinstance(value, dict):
        return {"kind": "JSON", "note": f"an object with the keys {listed(list(value), 20)}"}
    return {"kind": "JSON", "note": f"a {type(value).__name__}"}


def image_size(path: str) -> dict[str, Any]:
    """The size of an image in pixels."""
    from PIL import Image

    with Image.open(path) as image:
        return {"kind": f"{image.format} image", "note": f"{image.width}×{image.height} pixels"}


def size_of(size: int) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} {unit}"
        size = size / 1000  # type: ignore[assignment]
    return f"{size:.3g} GB"
