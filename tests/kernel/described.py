"""Files of every kind, whole and broken, that are described in a sandbox."""

from __future__ import annotations

import io
import json
import os
import socket
import sqlite3
import zipfile
from contextlib import chdir, closing
from datetime import date
from pathlib import Path

import openpyxl
import polars as pl

TABLE = pl.DataFrame(
    {
        "name": ["Adelie", "Gentoo", None, "x" * 500],
        "mass": [3700, 5200, None, 1],
        "bill": [38.1, float("nan"), float("inf"), None],
        "seen": [date(2026, 1, 2)] * 4,
    }
)
ODD_NAMES = [
    "with blank.csv",
    "quo'te\".csv",
    "new\nline.csv",
    "penguin 🐧.csv",
    "{'a': %s}.csv",
    "UPPER.CSV",
    "-x.csv",
]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000002000000030802000000368849d60000000f49444154789c63fc0f040c381900d7ff0"
    "5fb9f0e8b0c0000000049454e44ae426082"
)


def tables(folder: Path) -> None:
    """Tables as they should be."""
    TABLE.write_csv(folder / "plain.csv")
    TABLE.write_csv(folder / "semicolon.csv", separator=";")
    TABLE.write_csv(folder / "tabs.tsv", separator="\t")
    (folder / "bom.csv").write_text("\ufeffa,b\n1,2\n")
    (folder / "latin1.csv").write_bytes("größe,ort\n1,Köln\n2,Münster\n".encode("latin1"))
    (folder / "dirty.csv").write_text(
        "kind;day;price;count;weight;sight\n"
        + "a;2026-01-02;1.081,18;1,234;0,905;\nb;18.11.2026;n/a;2,345;12,5;\n" * 60
        + "c;;5,00;1;;\n"
    )
    (folder / "late.csv").write_bytes(b"name,x\n" + b"a,1\n" * 30_000 + "Köln,null\n".encode("latin1"))
    rows = "a,1,2\nb,2,3\nc,NA,4\n" + "d,3,4\n" * 50
    (folder / "odd [1]*.csv").write_text(f"Report of 2020\n\nname,value,value\n,(kg),(kg)\n{rows}")
    (folder / "bare.csv").write_text("a,1,2.5\n" * 40)
    (folder / "years.csv").write_text("country,2001,2002,2003\n" + "Peru,1,2,3\n" * 5)
    (folder / "header.csv").write_text("a,b,c\n")
    (folder / "wide.csv").write_text(",".join(f"column {i}" for i in range(1000)) + "\n" + ",".join("1" * 1000) + "\n")
    days = [f"{day:02d}/05/2021" for day in range(1, 29)]
    readings = ["ERR" if at in (0, 15) else f"{at}.5" for at in range(28)]
    rows = "".join(f"{day},{reading},G\n" for day, reading in zip(days, readings, strict=True))
    (folder / "first-odd.csv").write_text(f"# meter 7\n\nDay,Volume,Quality\n{rows}")
    weights = ["874", "612", *(f"{at}.{at * 37 % 1000:03d}" for at in range(1, 30))]
    lines = "".join(f"{at};{each}\n" for at, each in enumerate(weights))
    (folder / "points.csv").write_text(f"number;weight\n{lines}Total;470.115\n")
    gauge = "".join(f"2023-01-{day:02d} 06:00  {'9999' if day == 9 else f'{day / 7:.2f}'}\n" for day in range(1, 29))
    (folder / "gauge.dat").write_text(f"# level in m\ndate       time  level\n{gauge}")
    (folder / "towns.csv").write_text("town,n\n" + "Bonn,1\nKöln,2\n" * 30 + "".join(f"Ort {n},3\n" for n in range(40)))
    TABLE.write_parquet(folder / "table.parquet")
    texts = pl.DataFrame({"when": ["2013-01-01T00:00:00Z", "2013-01-02T00:00:00Z"], "code": ["1", "2"], "n": [1, 2]})
    texts.write_parquet(folder / "texts.parquet")
    (folder / "texts.json").write_text(json.dumps(texts.to_dicts()))
    TABLE.with_columns(nested=pl.struct(pl.col("mass"), pl.lit([1, 2]).alias("list"))).write_parquet(
        folder / "nested.parquet"
    )
    TABLE.write_ndjson(folder / "lines.ndjson")
    TABLE.write_ipc(folder / "table.arrow")
    for name in ODD_NAMES:
        (folder / name).write_text("a,b\n1,2\n")


def documents(folder: Path) -> None:
    """Workbooks, databases, JSON, text and pictures."""
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.title = "First 'sheet'"
    book.active.append(["name", "mass"])
    book.active.append(["Adelie", 3700])
    book.create_sheet("Second")
    late = book.create_sheet("Late")
    for row in (["Report", None], [None, None], ["city", "count"], ["Köln", 3], ["Bonn", 4], ["Ulm", None]):
        late.append(row)
    tariff = book.create_sheet("Tariff")
    heads = ["month", "power", None, "gas"], [None, "energy", "standing", None], [None, "ct/kWh", "€/month", "€"]
    for row in (*heads, *([f"{n}/22", 20.5 + n, 95, 7] for n in range(1, 9)), ["net of VAT", None, None, None]):
        tariff.append(row)
    two = book.create_sheet("Two")
    for row in (["region", "n"], ["A", 1], ["B", 2], [], ["North"], ["C", 3], [], ["Costs"], ["product", "cost"]):
        two.append(row)
    for row in ([each, 1.5] for each in "uvwxyz"):
        two.append(row)
    about = book.create_sheet("Readme")
    for row in (["Tariff", "by month"], ["Late", "towns by size"]):
        about.append(row)
    book.save(folder / "book.xlsx")
    with closing(sqlite3.connect(folder / "odd # %20?.db")) as connection:
        connection.execute('create table "we""ird; name\n" ("a b" integer, "q""q" text)')
        connection.execute("create table plain (x real)")
        connection.execute("create view seen as select x from plain")
        connection.execute("create table late (speed real)")
        connection.executemany("insert into late values (?)", [(None,)] * 150 + [(0.5,)])
        connection.execute("create table child (id integer primary key, parent real references plain (x))")
        connection.commit()
    (folder / "records.json").write_text(json.dumps([{"a": 1, "b": "x", "c": []}, {"a": 2, "c": [1, 7]}]))
    days = "".join(f"{day:02d}.01.2020;{value}\n" for day, value in enumerate(("0,3", "T", "1,5", "0,25", "-999"), 1))
    heads = {"comment": "# a,b,c,d\n# e,f\n", "title": "Rain, daily\n", "marked": "# made today\n#"}
    for name, head in heads.items():
        (folder / f"{name}.csv").write_text(f"{head}day,place,n\n1,x,0.5\n2,y,0.25\n3,z,0\n")
    (folder / "rain.txt").write_text(f"# daily\n# in inches\ndate;rain\n{days}")
    (folder / "mixed.json").write_text(json.dumps([{"a": 1}, {"a": {"b": [None, "x"]}}]))
    (folder / "object.json").write_text(json.dumps({"config": {"deep": [1, {"er": None}]}, "list": []}))
    (folder / "nested.json").write_text(json.dumps({"data": {"rows": [{"a": 1}, {"a": 2}]}, "n": 2}))
    point = {"type": "Point", "coordinates": [1, 2]}
    feature = {"type": "Feature", "geometry": point, "properties": {"name": "x"}}
    (folder / "places.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature] * 3}))
    (folder / "page.html").write_text(
        "<title>Three tables</title><table><tr><th>city<th>people<tr><td>Köln<td>1</table>"
        "<table><tr><th>a</tr><tr><td>1</tr><tr><td>2</table>"
        "<table><tr><th colspan=5>Visits</th></tr><tr><th rowspan=2>house<th colspan=2>2022<th colspan=2>2023</tr>"
        "<tr><th>men<th>women<th>men<th>women</tr><tr><td>a<td>1<td>2<td>3<td>4</tr></table>"
    )
    (folder / "degree-days.html").write_text(
        "<table><tr><th>month<th>Kd<th>price</tr><tr><td>May<td>610,7<td>1.150,00<tr><td>June<td>12,5<td>980,50</table>"
        "<table><tr><th>place<th>people</tr><tr><td>A<td>1,250,000<tr><td>B<td>980,500</table>"
    )
    (folder / "wages.html").write_text(
        "<title>R: Wages</title><style>p {}</style><table><tr><td>wages<td>Documentation</table><h2>Wages</h2>"
        f"<p>Wages of players{' in the year 2010' * 12}.</p><dl><dt>salary</dt><dd><p>Salary (in $1000s)</p></dd></dl>"
    )
    ship = {"imo": "IMO 9", "length": {"value": 3.5, "unit": "m"}, "built": 1990, "flag": None, "ports": ["A", "B"]}
    (folder / "ship.json").write_text(
        json.dumps({**ship, "detained": [], "draught": 7.5, "size": {"sides": [1, 2]}, "height": "419"})
    )
    with zipfile.ZipFile(folder / "packed.zip", "w") as packed:
        packed.writestr("in/a.csv", "a,b\n1,2\n3,4\n")
        packed.writestr("in/c.csv", "a;b\n1;2,5\n3;4,5\n")
        packed.writestr("b.bin", b"\0\1")
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as more:
            more.writestr("d.json", '[{"k": 1}, {"k": 2}]')
        packed.writestr("more.zip", inner.getvalue())
        packed.writestr("s.dat", "Station: Bad Ulm\n\nday  wind\n" + "".join(f"{day}  {day / 4}\n" for day in range(9)))
    (folder / "number.json").write_text("42")
    (folder / "huge-number.json").write_text('[{"a": 1' + "0" * 3000 + "}]")
    (folder / "notes.txt").write_text("Penguins live in the south. " * 100)
    (folder / "no-ending").write_text("Just words.")
    (folder / "picture.png").write_bytes(PNG)


def broken(folder: Path) -> None:
    """Files that aren't what their name says, or not whole."""
    (folder / "empty.csv").touch()
    (folder / "empty.parquet").touch()
    (folder / "nul.csv").write_bytes(b"a,b\n1,\x00\n2,3\n")
    (folder / "late-nul.csv").write_bytes(b"a,b\n" + b"1,2\n" * 2000 + b"3,\x00\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 100)
    (folder / "ragged.csv").write_text("a,b\n1,2\n1,2,3,4\n1\n\n5,6\n")
    (folder / "quotes.csv").write_text('a,b\n"never ended,2\n3,4\n')
    (folder / "same.csv").write_text("a,a,a\n1,2,3\n")
    (folder / "long-header.csv").write_text("x" * 1_000_000 + ",b\n1,2\n")
    cut = (folder / "table.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(cut[: len(cut) // 2])
    (folder / "cut.xlsx").write_bytes((folder / "book.xlsx").read_bytes()[:1000])
    (folder / "cut.json").write_text('[{"a": 1}, {"a"')
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "keys.json").write_text(json.dumps({"k" * 100_000: 1}))
    (folder / "cut.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (folder / "fake.png").write_text("no picture")
    (folder / "cut.ndjson").write_text('{"a": 1}\n{"a"')


def special(folder: Path) -> None:
    """What is no plain file."""
    os.mkfifo(folder / "pipe.csv")
    (folder / "dangling.csv").symlink_to("nowhere.csv")
    # By a short name: a socket's is bounded.
    with socket.socket(socket.AF_UNIX) as server, chdir(folder):
        server.bind("socket.csv")
    (folder / os.fsdecode(b"caf\xe9.csv")).write_text("a\n1\n")
    (folder / ".hidden.csv").write_text("a\n1\n")
