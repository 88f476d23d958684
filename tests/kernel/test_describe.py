"""What data looks like, of every format and of files that are broken, read inside the sandbox."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import machine
import msgspec
import pytest
import pytest_asyncio
from kernel.described import ODD_NAMES, broken, documents, special, tables

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.describe import _Taken, describe, schemas, was_late
from nbagent.kernel.find_text import find
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.profile import Column, FileProfile, columns_of
from nbagent.kernel.profile_cache import ProfileCache
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.spec import SandboxSpec

on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each kind."""
    folder = tmp_path_factory.mktemp("host") / "data"
    folder.mkdir()
    tables(folder)
    documents(folder)
    broken(folder)
    special(folder)
    for each in (*folder.parents[:2], folder):
        each.chmod(0o755)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(data: Path) -> AsyncIterator[Kernel]:
    """A sandbox that sees the folder."""
    others = [data.parent / name for name in ("none", "many", "deep")]
    for each in others:
        each.mkdir()
    for number in range(130):
        (others[1] / f"{number:03}.csv").write_text("a\n1\n")
    path = others[2]
    for number in range(8):
        path = path / f"level{number}"
        path.mkdir()
        (path / "x.csv").write_text("a\n1\n")
    mounts = tuple(Mount(each, f"/tmp/data/{each.name}") for each in (data, *others))
    spec = SandboxSpec(data=mounts, trust=trust_for(TrustLevel.ISOLATED))
    async with Kernel(machine.works("bubblewrap"), spec) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found(kernel: Kernel, data: Path) -> dict[str, FileProfile]:
    """The description of each file of the folder, by name."""
    described: list[FileProfile] = []
    names = sorted(each.name for each in data.iterdir())
    # A few at once, and the last alone: of a thousand columns, its share of the seconds would not do on a busy machine.
    names.sort(key=lambda name: name == "wide.csv")
    for start, end in [*((at, min(at + 9, len(names) - 1)) for at in range(0, len(names) - 1, 9)), (-1, None)]:
        paths = [f"/tmp/data/data/{name}" for name in names[start:end]]
        part = (await describe(kernel, paths)).files
        shown = {os.fsencode(path).decode("utf-8", "replace"): path for path in paths}
        assert sorted(each.path for each in part) == sorted(shown)
        described += sorted(part, key=lambda each: paths.index(shown[each.path]))
    return dict(zip(names, described, strict=True))


def columns(found: FileProfile, table: int = 0) -> list[tuple[str, str]]:
    """Names and types."""
    return [(each.name, each.dtype) for each in found.tables[table].columns]


def column(found: FileProfile, name: str) -> Column:
    """A column by its name."""
    return next(each for table in found.tables for each in table.columns if each.name == name)


@on_one_loop
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plain.csv", "CSV"),
        ("semicolon.csv", "CSV"),
        ("tabs.tsv", "CSV"),
        ("table.parquet", "Parquet"),
        ("lines.ndjson", "JSON Lines"),
        ("table.arrow", "Arrow"),
    ],
)
async def test_a_table_is_described_by_columns_types_and_rows(
    found: dict[str, FileProfile], name: str, kind: str
) -> None:
    """Whatever the format of the table: its kind, its rows, and each column with its type and some values."""
    described = found[name]
    assert (described.kind, described.tables[0].rows) == (kind, 4)
    assert [name for name, _ in columns(described)] == ["name", "mass", "bill", "seen"]
    assert dict(columns(described))["mass"] == "Int64"
    assert described.tables[0].columns[0].sample == ["Adelie", "Gentoo", "x" * 100]
    assert column(described, "mass").empty == 1
    assert (column(described, "mass").low, column(described, "mass").high) == (1, 5200)
    assert described.tables[0].call.startswith("pl.read_")
    assert len(msgspec.json.encode(described)) < 3000


@on_one_loop
async def test_what_is_peculiar_to_a_csv_is_told(found: dict[str, FileProfile]) -> None:
    """The call that reads it names separator and encoding; forms of values and missing words are counted."""
    assert "separator=';'" in found["semicolon.csv"].tables[0].call
    assert "encoding='cp1252'" in found["latin1.csv"].tables[0].call
    assert found["latin1.csv"].tables[0].rows == 2
    assert [each.rows for each in found["latin1.csv"].tables[0].columns] == [["1", "2"], ["Köln", "Münster"]]
    assert not any(each.rows for each in found["dirty.csv"].tables[0].columns)
    assert [name for name, _ in columns(found["bom.csv"])] == ["a", "b"]
    dirty = {each.name: each for each in found["dirty.csv"].tables[0].columns}
    assert dirty["kind"].values == {"a": 60, "b": 60, "c": 1}
    assert (dirty["day"].dtype, dirty["day"].sample) == ("String", ["2026-01-02", "18.11.2026"])
    assert (dirty["price"].form, dirty["price"].missing) == ("written with decimal commas", {"n/a": 60})
    assert (dirty["weight"].form, dirty["weight"].dtype) == ("", "Float64")
    assert (dirty["sight"].dtype, dirty["sight"].empty, dirty["sight"].sample) == ("String", 121, [])
    assert (found["header.csv"].tables[0].rows, len(columns(found["header.csv"]))) == (0, 3)


@on_one_loop
async def test_a_late_value_decides_the_type(found: dict[str, FileProfile]) -> None:
    """A word for missing in the last of 30,000 rows, and a letter of Latin-1 there, are in the call that reads it."""
    late = found["late.csv"]
    assert columns(late) == [("name", "String"), ("x", "Int64")]
    assert (late.tables[0].rows, column(late, "x").missing) == (30_001, {"null": 1})
    assert late.tables[0].call.endswith("late.csv', encoding='cp1252', null_values=['null'])")


@on_one_loop
async def test_an_odd_header_is_found_and_shown(found: dict[str, FileProfile]) -> None:
    """Lines before it and a second row of it are skipped by the call; the first lines are shown as they are."""
    table = found["odd [1]*.csv"].tables[0]
    assert "skip_lines=2, skip_rows_after_header=1" in table.call
    assert "glob=False" in table.call
    assert table.rows == 53
    assert table.raw[:4] == ["Report of 2020", "", "name,value,value", ",(kg),(kg)"]
    assert [each.dtype for each in table.columns] == ["String", "Int64", "Int64"]
    bare = found["bare.csv"].tables[0]
    assert ("has_header=False" in bare.call, bare.rows) == (True, 40)
    years = found["years.csv"].tables[0]
    assert [each.name for each in years.columns] == ["country", "2001", "2002", "2003"]


@on_one_loop
async def test_a_row_like_those_below_is_no_part_of_the_header(found: dict[str, FileProfile]) -> None:
    """A first reading that is missing stays one; words among numbers are null by the call, the line of a sum is not."""
    table = found["first-odd.csv"].tables[0]
    assert table.call.endswith("first-odd.csv', skip_lines=2, null_values=['ERR'])")
    assert (table.rows, columns(found["first-odd.csv"])[1]) == (28, ("Volume", "Float64"))
    assert (column(found["first-odd.csv"], "Volume").low, column(found["first-odd.csv"], "Volume").missing) == (
        1.5,
        {"ERR": 2},
    )
    points = found["points.csv"]
    assert (column(points, "number").dtype, column(points, "number").others) == ("String", {"Total": 1})
    assert (column(points, "weight").form, column(points, "weight").dtype) == ("written with thousands points", "Int64")
    assert column(found["towns.csv"], "town").top == {"Bonn": 30, "Köln": 30}


@on_one_loop
async def test_what_further_rows_of_a_sheet_say_is_told(found: dict[str, FileProfile]) -> None:
    """Those of its header, by column, and the line below the table, which its call leaves out."""
    tariff = found["book.xlsx"].tables[3]
    assert [(each.name, each.label) for each in tariff.columns] == [
        ("month", ""),
        ("power", "energy ct/kWh"),
        ("__UNNAMED__2", "standing €/month"),
        ("gas", "€"),
    ]
    assert (tariff.rows, tariff.note) == (8, "below the table: net of VAT")
    assert tariff.call.endswith(".drop_nulls('month')") or tariff.call.endswith(".drop_nulls('power')")


@on_one_loop
async def test_numbers_of_a_page_are_read_as_they_are_written(found: dict[str, FileProfile]) -> None:
    """With decimal commas where a table has these, which pandas takes for commas of thousands otherwise."""
    first, second = found["degree-days.html"].tables
    assert [each.rows for each in first.columns[1:]] == [[610.7, 12.5], [1150.0, 980.5]]
    assert [each.rows for each in second.columns[1:]] == [[1_250_000, 980_500]]


@on_one_loop
async def test_a_page_that_explains_is_a_note(found: dict[str, FileProfile]) -> None:
    """It is told by its words, a term with its definition; a table that only lays out its title is none."""
    page = found["wages.html"]
    assert (page.is_note, page.tables) == (True, [])
    assert page.text.startswith("# Wages\n\nWages of players in the year")
    assert page.text.endswith(".\n- salary: Salary (in $1000s)")
    assert not found["page.html"].is_note


@on_one_loop
async def test_a_record_in_a_file_of_its_own_is_a_row(found: dict[str, FileProfile]) -> None:
    """By its fields, without a frame; a text of fields parted by spaces is a table as well."""
    ship = found["ship.json"].tables[0]
    assert (ship.rows, columns(found["ship.json"])) == (
        1,
        [
            ("imo", "String"),
            ("length.value", "Float64"),
            ("length.unit", "String"),
            ("built", "Int64"),
            ("flag", "Null"),
            ("ports", "List(String)"),
            ("detained", "List(Null)"),
            ("draught", "Float64"),
            ("size", "Struct"),
            ("height", "String"),
        ],
    )
    by_name = {each.name: each for each in ship.columns}
    assert (by_name["ports"].values, by_name["detained"].missing, by_name["flag"].empty) == (
        {"A": 1, "B": 1},
        {"[]": 1},
        1,
    )
    assert (by_name["size"].form, by_name["height"].form, by_name["height"].low) == (
        "{sides: [int] ×2}",
        "numbers",
        419,
    )
    gauge = found["gauge.dat"]
    assert (gauge.tables[0].rows, [name for name, _ in columns(gauge)]) == (28, ["date", "time", "level"])
    level = column(gauge, "level")
    assert (level.low, level.high, level.sentinels) == (0.14, 4.0, {"9999.0": 1})
    assert gauge.tables[0].raw[0] == "# level in m"


@on_one_loop
async def test_each_call_that_is_told_works(kernel: Kernel, found: dict[str, FileProfile]) -> None:
    """Each is run as a cell: it gives the rows and the types that are told."""
    tables = [table for file in found.values() for table in file.tables if table.call and table.rows is not None]
    assert len(tables) > 15
    for table in tables:
        cell = await kernel.run(
            "import io, json, sqlite3, zipfile, pandas as pd, polars as pl\n"
            f"frame = {table.call}\nprint(frame.height, frame.columns)"
        )
        assert cell.status == "ok", (table.call, cell.text)
        assert cell.text.startswith(f"{table.rows} ["), table.call
        assert "Could not determine dtype" not in str(cell.outputs), table.call


@on_one_loop
@pytest.mark.parametrize("name", ["texts.parquet", "texts.json"])
async def test_a_text_of_digits_or_a_date_is_told_as_the_text_that_it_is(
    found: dict[str, FileProfile], name: str
) -> None:
    """Where a file has types, whoever reads it gets these."""
    assert columns(found[name]) == [("when", "String"), ("code", "String"), ("n", "Int64")]
    assert column(found[name], "code").form == "numbers"


@on_one_loop
async def test_documents_are_described_by_their_shape(found: dict[str, FileProfile]) -> None:
    """Sheets, tables, keys, the size of a picture and the text of a note."""
    book = found["book.xlsx"]
    assert [each.note for each in book.tables if each.name in ("Tariff", "Two")] == [
        "below the table: net of VAT",
        "another table begins below, at 'header_row': 8 (product | cost); the rows are of all",
    ]
    sheets = ["First 'sheet'", "Second", "Late", "Tariff", "Two", "Readme"]
    assert (book.is_note, book.text) == (True, "sheet Readme:\nTariff | by month\nLate | towns by size")
    assert (book.kind, [each.name for each in book.tables]) == ("Excel", sheets)
    assert (book.tables[0].rows, columns(book)) == (1, [("name", "String"), ("mass", "Int64")])
    assert columns(book, 2) == [("city", "String"), ("count", "Int64")]
    assert "'header_row': 2" in book.tables[2].call
    assert [each.rows for each in book.tables[2].columns] == [["Köln", "Bonn", "Ulm"], ["3", "4", None]]
    assert "drop_nulls" not in book.tables[2].call  # a town whose number is not known is a row
    database = found["odd # %20?.db"]
    assert {each.name: [column.name for column in each.columns] for each in database.tables} == {
        'we"ird; name\n': ["a b", 'q"q'],
        "plain": ["x"],
        "seen": ["x"],
        "late": ["speed"],
        "child": ["id", "parent"],
    }
    assert database.tables[3].call.endswith("infer_schema_length=None)")
    assert database.tables[4].note == "key: id; parent → plain.x"
    assert (found["records.json"].tables[0].rows, columns(found["records.json"])[0]) == (2, ("a", "Int64"))
    items = column(found["records.json"], "c")
    assert (items.values, items.missing) == ({"1": 1, "7": 1}, {"[]": 1})
    rain = found["rain.txt"]
    assert rain.tables[0].call.endswith(
        "rain.txt', separator=';', skip_lines=2, decimal_comma=True, null_values=['T'])"
    )
    assert (column(rain, "rain").dtype, column(rain, "rain").others) == ("Float64", {"T": 1})
    assert column(rain, "rain").sentinels == {"-999": 1}
    assert [
        [each.name for each in found[f"{name}.csv"].tables[0].columns] for name in ("comment", "title", "marked")
    ] == [
        ["day", "place", "n"],
        ["day", "place", "n"],
        ["#day", "place", "n"],
    ]
    assert found["mixed.json"].tables[0].rows == 2
    assert found["nested.json"].tables[0].name == "data.rows"
    assert "config: {deep: " in found["object.json"].note
    assert "int" in found["number.json"].note
    page = found["page.html"]
    assert (page.note, [(each.rows, [c.name for c in each.columns]) for each in page.tables]) == (
        "title: Three tables",
        [
            (1, ["city", "people"]),
            (2, ["a"]),
            (1, ["house", "2022 men", "2022 women", "2023 men", "2023 women"]),
        ],
    )
    assert "Köln" in column(page, "city").values
    places = found["places.geojson"]
    assert (places.kind, columns(places)) == ("GeoJSON", [("name", "String")])
    assert "Point" in places.note
    packed = found["packed.zip"]
    members = [("in/a.csv", 2), ("in/c.csv", 2), ("b.bin", None), ("more.zip, d.json", 2), ("s.dat", 9)]
    assert [(each.name, each.rows) for each in packed.tables] == members
    assert "pd.read_csv(io.BytesIO(zipfile.ZipFile(" in packed.tables[4].call
    assert "json.loads(zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(" in packed.tables[3].call
    assert ".read('in/c.csv'), separator=';', decimal_comma=True, infer" in packed.tables[1].call
    assert "2×3" in found["picture.png"].note
    for name in ("notes.txt", "no-ending"):
        assert found[name].kind == "text"
    assert found["notes.txt"].is_note
    assert len(found["notes.txt"].text) == 2800


@on_one_loop
@pytest.mark.parametrize("name", ODD_NAMES)
async def test_an_odd_name_is_no_trouble(found: dict[str, FileProfile], name: str) -> None:
    """Blanks, quotes, newlines, braces and emoji in a file's name don't keep it from being read."""
    assert (found[name].kind, found[name].tables[0].rows) == ("CSV", 1)


@on_one_loop
@pytest.mark.parametrize(
    "name",
    [
        "cut.parquet",
        "cut.xlsx",
        "cut.json",
        "deep.json",
        "cut.db",
        "fake.png",
        "dangling.csv",
    ],
)
async def test_what_cannot_be_read_is_told_as_that(found: dict[str, FileProfile], name: str) -> None:
    """A file that is broken or none is named with the reason, in a few words."""
    assert "can't be read" in found[name].note or "not a plain file" in found[name].note
    assert len(found[name].note) < 400


@on_one_loop
async def test_what_the_sandbox_must_not_speak_to_is_nothing(found: dict[str, FileProfile]) -> None:
    """Pipes and sockets of the host's are not there for the code."""
    assert "FileNotFoundError" in found["pipe.csv"].note
    assert "FileNotFoundError" in found["socket.csv"].note


@on_one_loop
async def test_files_without_sense_are_still_named(found: dict[str, FileProfile]) -> None:
    """Empty files, bytes that are no text, and tables that are half wrong have at least a kind or a reason."""
    assert found["empty.csv"].kind == found["empty.parquet"].kind == "empty file"
    assert found["nul.csv"].kind == found["binary.csv"].kind == "binary file"
    assert found["late-nul.csv"].tables[0].rows == 2001
    assert [name for name, _ in columns(found["ragged.csv"])][:2] == ["a", "b"]
    assert len(columns(found["same.csv"])) == 3
    for name in ("quotes.csv", "cut.ndjson", "huge-number.json"):
        assert found[name].kind or found[name].note


@on_one_loop
async def test_a_description_is_bounded(found: dict[str, FileProfile]) -> None:
    """A thousand columns, a name of a megabyte and nested types don't become a prompt of a megabyte."""
    assert (len(found["wide.csv"].tables[0].columns), found["wide.csv"].tables[0].width) == (500, 1000)
    for name, described in found.items():
        assert len(msgspec.json.encode(described)) < 200_000, name
        assert len(described.note) < 5000, name
    assert len(msgspec.json.encode(found["long-header.csv"])) < 3000
    assert len(msgspec.json.encode(found["keys.json"])) < 3000


@on_one_loop
async def test_a_description_can_be_sent_to_a_model(found: dict[str, FileProfile]) -> None:
    """All of it is UTF-8 text, also where a file's name is not."""
    msgspec.json.encode(list(found.values()))


@on_one_loop
async def test_a_folder_is_described_file_by_file(kernel: Kernel, data: Path) -> None:
    """Plain files below a folder are listed, without what is hidden; the whole takes seconds."""
    started = time.monotonic()
    described = await describe(kernel, ["/tmp/data/data"])
    assert time.monotonic() - started < 20
    paths = [each.path for each in described.files]
    shown = {os.fsencode(f"/tmp/data/data/{each.name}").decode("utf-8", "replace") for each in data.iterdir()}
    hidden = {f"/tmp/data/data/{name}.csv" for name in (".hidden", "pipe", "socket", "dangling")}
    assert set(paths) == shown - hidden


@on_one_loop
async def test_of_many_files_each_is_profiled(kernel: Kernel) -> None:
    """A folder of 130 files is known file by file."""
    described = await describe(kernel, ["/tmp/data/many"])
    assert [len(described.files), described.more] == [130, 0]
    assert all(each.tables[0].rows == 1 for each in described.files)
    assert [len(each) for each in described.copies] == [130]
    paths = [f"/tmp/data/data/{each}" for each in ("book.xlsx", "packed.zip", "picture.png")]
    hits = await find(kernel, paths, "Adelie")
    told = [(each.path.rpartition("/")[2], each.count, each.line) for each in hits.found]
    assert (told, hits.looked) == ([("book.xlsx, First 'sheet'", 1, 2)], 2)


@on_one_loop
async def test_a_deep_folder_is_not_searched_without_end(kernel: Kernel) -> None:
    paths = [each.path for each in (await describe(kernel, ["/tmp/data/deep"])).files]
    assert "/tmp/data/deep/level0/level1/x.csv" in paths
    assert len(paths) < 10


@on_one_loop
async def test_what_is_known_is_not_read_again(kernel: Kernel, tmp_path: Path) -> None:
    """The next session has the profile from the cache, by content; what a cell may have forged is not kept."""
    kept, other = ProfileCache(tmp_path / "kept"), ProfileCache(tmp_path / "other")
    path = "/tmp/data/data/plain.csv"
    await kernel.run("1")
    await describe(kernel, [path], cache=other)
    assert not list((tmp_path / "other").glob("*/*"))
    # The data has plain names in the working folder, but no library is imported from there before the first cell.
    (evil := tmp_path / "polars.py").write_text("raise SystemExit")
    spec = replace(kernel.spec, data=(*kernel.spec.data, Mount(evil, "/tmp/data/polars.py")))
    async with Kernel(machine.works("bubblewrap"), spec) as fresh:
        first = await describe(fresh, [path], cache=kept)
        assert [each.kind for each in first.files] == ["CSV"]
        seen = await fresh.run("import os, sys; print(os.path.exists('polars.py'), repr(sys.path[0]))")
        assert seen.text.strip() == "True ''"
    again = await describe(kernel, [path], cache=kept)
    assert (first.cached, again.cached) == (0, 1)
    assert msgspec.json.encode(first.files) == msgspec.json.encode(again.files)
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "kept").glob("*/*")} == {0o600}
    assert list(schemas(again)) == [path]


@on_one_loop
async def test_what_was_given_is_always_named(kernel: Kernel) -> None:
    """An empty folder and a file that isn't there are told rather than left out."""
    described = await describe(kernel, ["/tmp/data/none", "/tmp/data/nothing.csv"])
    assert [each.path for each in described.files] == ["/tmp/data/none", "/tmp/data/nothing.csv"]
    assert all(each.note for each in described.files)
    assert (await describe(kernel, [])).files == []


@on_one_loop
async def test_describing_leaves_no_trace(kernel: Kernel) -> None:
    """Neither names nor a prompt's number are used up in the person's namespace."""
    before = await kernel.run("sorted(globals())")
    await describe(kernel, ["/tmp/data/data/plain.csv"])
    after = await kernel.run("sorted(globals())")
    assert after.execution_count == (before.execution_count or 0) + 1
    new = set(after.text.split()) - set(before.text.split())
    assert all(re.fullmatch(r"'_i?\d+',", each) for each in new)


@on_one_loop
async def test_a_sandbox_that_lies_is_not_believed(kernel: Kernel) -> None:
    """What comes back of a kernel in hostile hands is checked; the paths at least are named."""
    lie = "import os\nreal = os.path.isdir\ndef lies(path): raise SystemExit\nos.path.isdir = lies"
    await kernel.run(lie)
    described = await describe(kernel, ["/tmp/data/data/plain.csv"])
    await kernel.run("os.path.isdir = real")
    assert [each.path for each in described.files] == ["/tmp/data/data/plain.csv"]


SLOW = """
import builtins, time
real = builtins.open
def slow(path, *more, **other):
    if 'notes' in str(path) and not other: {how}  # not where its hash is made
    return real(path, *more, **other)
builtins.open = slow
"""


@on_one_loop
async def test_a_file_that_takes_too_long_costs_the_others_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its share of the time; what takes longer is named, and the kernel goes on at once."""
    monkeypatch.setattr("nbagent.kernel.describe.ALL_FILES_SECONDS", 8.0)
    await kernel.run(SLOW.format(how="time.sleep(30)"))
    paths = [f"/tmp/data/data/{name}" for name in ("plain.csv", "notes.txt", "bom.csv", "object.json")]
    started = time.monotonic()
    described = await describe(kernel, paths)
    assert time.monotonic() - started < 20
    await kernel.run("builtins.open = real")
    assert [each.path for each in described.files] == paths
    assert described.files[1] == FileProfile("/tmp/data/data/notes.txt", size=2800, note="took too long to read")
    assert [each.kind for each in (described.files[0], *described.files[2:])] == ["CSV", "CSV", "JSON"]


@on_one_loop
async def test_of_a_description_that_never_ends_a_part_is_kept(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the kernel hangs, what was described until then is there, and the others are named."""
    paths = [f"/tmp/data/data/{name}" for name in ("object.json", "notes.txt", "dirty.csv")]
    await describe(kernel, paths)  # the imports that reading needs are not what the time is for
    monkeypatch.setattr("nbagent.kernel.describe.ALL_FILES_SECONDS", 5.0)
    hang = "import ctypes; ctypes.PyDLL(None).usleep(5_400_000)"  # which keeps all of Python from running
    await kernel.run(SLOW.format(how=hang))
    described = await describe(kernel, paths)
    await kernel.run("1")
    await kernel.run("import builtins; builtins.open = globals().get('real', open)")
    assert [each.path for each in described.files] == paths
    assert described.files[0].kind == "JSON"
    # Where others have the processors, the kernel may come back before it is left, and the text is read after all.
    assert [was_late(each) or bool(each.kind) for each in described.files[1:]] == [True, True]


def test_short_profiles_take_no_more_memory_than_long_ones() -> None:
    """Of all files, a bounded number of columns is kept; a later profile of a file takes the place of the earlier."""
    taken = _Taken()
    for number in range(150):
        for _ in range(2):
            taken.take(json.dumps({"path": f"{number}", "tables": [{"columns": [{"name": ""}] * 600}]}).encode())
    assert [columns_of(each) for each in taken.by_path.values()] == [500] * 100 + [0] * 50
