"""Which files and tables are told as one."""

from __future__ import annotations

from agent.dataset.profiled import section, table
from hypothesis import given
from hypothesis import strategies as st

from nbagent.agent.dataset.groups import families, merged
from nbagent.agent.dataset.section import DataView
from nbagent.kernel.describe import Profiles
from nbagent.kernel.profile import Column, FileProfile, Table


def test_files_that_differ_in_a_number_are_one_family() -> None:
    """They are told once, with their first and last number and their count; also what is odd in one of them."""
    plain = "pl.read_csv('/tmp/data/{}')"
    years = [f"tests-{year}.csv" for year in range(2002, 2024)]
    files = [table(f"/tmp/data/{name}", "Year", "Result", call=plain.format(name)) for name in years]
    files[3].tables[0].call = "pl.read_csv('/tmp/data/tests-2005.csv', encoding='cp1252')"
    told = section(files)
    assert '- "/tmp/data/tests-{2002…2023}.csv" ×22 (CSV, 220 rows, 2 columns)' in told
    assert 'read of "tests-2002.csv" and 20 more: pl.read_csv(path)' in told
    assert "read of \"tests-2005.csv\": pl.read_csv(path, encoding='cp1252')" in told
    assert told.count('"Result"') == 1
    files[5].tables[0].columns[1].name = "result"
    assert len(families(files)) == 2


def test_folders_that_differ_in_a_number_are_told() -> None:
    """With the first and the last of several numbers, so that no folder is missing and each name can be made."""
    paths = [f"/tmp/data/meters/A-{a:02}/{year}-{m:02}.csv" for a in (1, 2) for year in (2021, 2022) for m in (1, 12)]
    files = [table(each, "date", "kWh", call=f"pl.read_csv({each!r})") for each in paths]
    files[1].tables[0].call = f"pl.read_csv({paths[1]!r}, separator=';', null_values=['ERR'])"
    files[2].tables[0].call = f"pl.read_csv({paths[2]!r}, separator=';', null_values=['n/v', 'it\\'s'])"
    for each in files[3:]:
        each.tables[0].call = f"pl.read_csv({each.path!r}, separator=';')"
    told = section(files)
    assert '- "/tmp/data/meters/A-{01,02}/{2021-01…2022-12}.csv" ×8 (CSV, 80 rows, 2 columns)' in told
    assert "and 6 more: pl.read_csv(path, separator=';', null_values=['ERR', 'it\\'s', 'n/v'])" in told
    for each in files[1:]:
        each.tables[0].call += ".with_columns(pl.col('kWh').cast(pl.Float64))"
    assert "separator=';', null_values=['ERR', 'it\\'s', 'n/v']).with_columns(pl.col('kWh').cast" in section(files)


def test_records_in_files_of_their_own_are_one_table() -> None:
    """Whatever fields each has; what only some have is empty in the others."""
    files = []
    for number, name in enumerate(("aurora", "castor", "delphin")):
        columns = [Column("imo", dtype="Int64", values={str(number): 1}, distinct=1, low=number, high=number)]
        columns += [Column("flag", dtype="String", values={"PA": 1}, distinct=1)] if number else []
        one = Table(rows=1, width=len(columns), columns=columns)
        files.append(FileProfile(f"/tmp/data/ships/{name}.json", kind="JSON", tables=[one]))
    told = section(files)
    assert "×3 (JSON, 3 rows, 2 columns)" in told
    assert '"imo": Int64, "0", "1", "2"' in told
    assert '"flag": String, "PA" ×2, 1 empty' in told


names = st.sampled_from(["a#", "a1", "a2", "a3", "a"])


tables = st.builds(Table, names, rows=st.just(1), columns=st.lists(st.builds(Column, names), max_size=2))


@given(st.lists(st.builds(FileProfile, names, tables=st.lists(tables, max_size=3)), min_size=4, max_size=5))
def test_no_names_end_the_question(files: list[FileProfile]) -> None:
    """Of files, tables and columns, such as a#, a1 and a2, which nearly differ in numbers only."""
    assert section(files, "a1").endswith("</data>")


def test_tables_without_a_header_are_the_same_only_in_one_folder() -> None:
    """Everybody's first column is called alike."""
    files = [table(f"/tmp/data/{name}.lst", "0", "1") for name in ("a/x", "a/y", "b/z")]
    assert [len(each.tables) for each in DataView(Profiles(files)).groups] == [2, 1]


def test_types_of_columns_that_are_one_are_told_once() -> None:
    """Whatever runs of columns and files have been put together before; an empty one has none."""
    first, second = (merged([Column("a", dtype=each), Column("a", dtype="String")]) for each in ("String", "Int64"))
    assert merged([first, second]).dtype == "String or Int64"
    assert merged([Column("a", dtype="String", empty=3), Column("a", dtype="Int64", low=1, high=2)]).dtype == "Int64"


def test_values_are_counted_in_all_tables_or_in_none() -> None:
    """Of most tables, only the most frequent values are known."""
    several = [Column("a", dtype="String", distinct=40, top={"x": 3, "y": 2}, sample=["x"]) for _ in range(2)]
    several[1].top = {"x": 5, "z": 4}
    assert merged(several).top == {"x": 8}
    several[1] = Column("a", dtype="String", distinct=2, values={"x": 1, "z": 9})
    assert merged(several).top == {"x": 4, "y": 2}


def test_files_of_an_archive_are_one_with_those_beside_it() -> None:
    """And are told once, each with its call; so are sheets, however they are called. Tables of few columns aren't."""
    read = "pl.from_pandas(pd.read_csv({}, sep=r'\\s+'))"
    files = [
        table(f"/tmp/data/y{at}.dat", "a", "b", "c", call=read.format(f"'/tmp/data/y{at}.dat'")) for at in range(3)
    ]
    packed = table("/tmp/data/more.zip")
    packed.kind, packed.tables = "zip archive", []
    for at in (3, 4):
        one = table("x", "a", "b", "c").tables[0]
        one.name = f"y{at}.dat"
        one.call = read.format(f"io.BytesIO(zipfile.ZipFile('/tmp/data/more.zip').read('y{at}.dat'))")
        packed.tables.append(one)
    told = section([*files, packed])
    assert '- "/tmp/data/y{0,1,2}.dat", "/tmp/data/more.zip" ("y3.dat and y4.dat") ×5 (CSV, 50 rows, 3 columns)' in told
    assert '"more.zip, y3.dat" and 1 more: the same with io.BytesIO(zipfile.ZipFile(path).read(name)) for path' in told
    assert told.count('"b"') == 1
    for width, count in ((3, 1), (2, 2)):
        book = table("/tmp/data/book.xlsx")
        book.kind, book.tables = "Excel", [table("x", *"abc"[:width]).tables[0] for _ in "ns"]
        book.tables[0].name, book.tables[1].name = "Nord", "Süd"
        assert section([book]).count('"b"') == count
