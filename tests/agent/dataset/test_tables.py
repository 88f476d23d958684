"""What is told of a table, its columns and the calls that read it."""

from __future__ import annotations

import base64
from array import array
from pathlib import Path

import msgspec
import polars as pl
import pytest
from agent.dataset.profiled import SALES, section, table

from nbagent.agent.dataset.section import DataView
from nbagent.agent.dataset.tables import BRIEF, FULL, table_lines
from nbagent.core.policy import MIB
from nbagent.kernel.describe import Profiles
from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.profile_inside import one
from nbagent.kernel.profile import LEADING_ZEROS, Column, FileProfile, Sketch, Table

KINDS = ("x.csv", "read_csv"), ("x.parquet", "read_parquet"), ("x.json", "read_json")


def test_tables_that_stand_in_one_file_are_told_together() -> None:
    """The one that the question fits best with its call, the others by their places; each has its own in `describe`."""
    file = FileProfile("/tmp/data/x.csv", kind="CSV", size=99, note="beside them: 212,158 in all")
    for at, name in enumerate(("Totals", "Ranks")):
        columns = [Column(each, dtype="String", distinct=3, sample=["a"]) for each in (name, "n", "m", "k")]
        call = f"pl.read_csv('/tmp/data/x.csv', skip_lines={at * 5 + 2}, n_rows=3)"
        file.tables.append(Table(name, rows=3, width=4, columns=columns, call=call))
    lines = section([file, *(table(f"/tmp/data/{each}.csv", each) for each in "abcdefghijklmn")], "Which ranks?")
    told = lines[lines.index('- "/tmp/data/x.csv" (CSV, "Ranks", 3 rows, 4 columns)') :].splitlines()[:9]
    assert "    read: pl.read_csv(path, skip_lines=7, n_rows=3)" in told
    assert '    also in the file: "Totals" (skip_lines=2, n_rows=3): "Totals", "n", "m", …' in told
    assert '    note: "beside them: 212,158 in all"' in told
    assert '"Totals", 3 rows' not in lines


def test_words_that_are_told_as_no_number_are_not_told_twice() -> None:
    """A footer among years is among the others, and no value."""
    years = Column("y", dtype="String", form="numbers", values={"2023": 2, "Source: us": 1}, others={"Source: us": 1})
    file = FileProfile("/tmp/data/x.csv", kind="CSV", size=9, tables=[Table(rows=3, width=1, columns=[years])])
    assert '"y": String (numbers), "2023" ×2, also "Source: us"' in section([file])


def test_one_table() -> None:
    """A file is told with the call that reads it, and each column with what is odd about its values."""
    assert section([SALES]).splitlines()[2:] == [
        "<data>",
        '- "/tmp/data/sales.csv" (CSV, 1,200 rows, 3 columns)',
        "    read: pl.read_csv(path, separator=';', null_values=['n/a'])",
        '    "region": String, "North" ×700, "Süd" ×499, "süd", 2 empty',
        '    "amount [kEUR]": Float64, unit "kEUR", -1.5 to 22, missing "n/a" ×3',
        '    "day": String (%d.%m.%Y), e.g. "01.02.2026", 365 different, also "?!" ×2',
        "</data>",
    ]


def test_a_small_table_is_told_row_by_row() -> None:
    """So that nobody has to guess which values of its columns belong together."""
    kinds = Column("kind", dtype="String", values={"E. coli": 1, "Enterococci": 1}, rows=["E. coli", "Enterococci"])
    limits = Column("limit", dtype="Int64", values={"104": 1, "406": 1}, rows=["406", None])
    small = Table(rows=2, width=2, columns=[kinds, limits])
    told = section([FileProfile("limits.csv", kind="CSV", tables=[small])]).splitlines()
    assert told[4:-1] == [
        '    "kind": String',
        '    "limit": Int64',
        '    row: "E. coli", "406"',
        '    row: "Enterococci", null',
    ]
    limits.rows = ["406"]
    assert "row:" not in section([FileProfile("limits.csv", kind="CSV", tables=[small])])


def test_files_in_another_unit_are_told() -> None:
    """Where the values of some are many times as great as those of the others, but not where they only grow."""
    files = [table(f"/tmp/data/gauge_{year}.csv", "level") for year in (2021, 2022, 2023)]
    for each, high in zip(files, (523, 498, 5.17), strict=True):
        each.tables[0].columns[0] = Column("level", dtype="Float64", low=high / 5, high=high)
        each.tables[0].columns.append(Column("n", dtype="Int64", low=0, high=int(high) + 500))
    told = section(files)
    assert (
        '"level" may be in two units: "gauge_2023.csv": 1.034 to 5.17; "gauge_2022.csv" and 1 more: 99.6 to 523' in told
    )
    assert '"n" may' not in told


def test_codes_and_tables_of_one_file_have_no_units() -> None:
    """Codes grow from file to file, and tables of one file are of other things."""
    files = [table(f"/tmp/data/part_{at}.csv", "dep") for at in range(2)]
    for each, high in zip(files, (95, 9760), strict=True):
        each.tables[0].columns[0] = Column("dep", dtype="String", form=LEADING_ZEROS, low=high - 9, high=high)
    assert "two units" not in section(files)
    limits = FileProfile("/tmp/data/limits.json", kind="JSON", size=900)
    for name, high in (("Iron", 45.0), ("Calcium", 2500.0)):
        call = f"pl.DataFrame(json.load(open('/tmp/data/limits.json'))['{name}']['most'])"
        columns = [Column(each, dtype="Float64", low=high / 9, high=high) for each in ("age", "amount", "of")]
        limits.tables.append(Table(name=f"{name}.most", rows=9, width=3, columns=columns, call=call))
    told = section([limits])
    assert "two units" not in told
    assert '×2 (JSON, "Iron.most and Calcium.most", 18 rows, 3 columns)' in told
    assert """read of "Iron.most" and 1 more: pl.DataFrame(json.load(open(path))['Iron']['most'])""" in told


@pytest.mark.parametrize(
    ("ends", "is_told"), [(((0, 52), (0, 4)), False), (((0, 9e3), (0, 9)), True), (((2, 9e3), (1, 9)), False)]
)
def test_few_of_what_is_counted_is_no_other_unit(ends: tuple[tuple[float, float], ...], is_told: bool) -> None:
    """Of weeks, some files have only four; where values begin at zero, a unit shows only by very much."""
    files = [table(f"/tmp/data/w_{at}.csv", "weeks", "n") for at in range(2)]
    for each, (low, high) in zip(files, ends, strict=True):
        each.tables[0].columns[0] = Column("weeks", dtype="Int64", low=low, high=high)
    assert ("two units" in section(files)) is is_told


def test_files_that_need_nulls_in_other_columns_are_read_in_one_way() -> None:
    """As text where a word is null in one file and a value in another; lines of sums are told once."""
    files = [table(f"/tmp/data/{at}.csv", "a", "b", "c") for at in (1, 2, 3)]
    for each, more in zip(files, ("", ", null_values={'a': '-'}", ", null_values={'a': '-', 'b': '-'}"), strict=True):
        each.tables[0].call = f"pl.read_csv({each.path!r}, separator=';'{more})"
        each.tables[0].columns[0].others = each.tables[0].columns[0].sums = {"Sum": 1}
    told = section(files)
    assert "    read: pl.read_csv(path, separator=';')" in told
    assert told.count('"Sum"') == 1


def test_each_kind_of_file_has_its_own_call() -> None:
    """Where files of several kinds have the same columns, none is read by the call of another one."""
    files = [table(f"/tmp/data/{name}", "a", "b", call=f"pl.{call}('/tmp/data/{name}')") for name, call in KINDS]
    files[0].kind, files[1].kind, files[2].kind = "CSV", "Parquet", "JSON"
    files[2].tables[0].call = ""
    told = section(files)
    assert 'read of "x.csv": pl.read_csv(path)' in told
    assert 'read of "x.parquet": pl.read_parquet(path)' in told
    assert 'read of "x.json"' not in told


def test_columns_of_one_name_but_for_a_number_are_told_as_one() -> None:
    """A table with a column for each year takes a line; that all of them may be in two units, one more."""
    files = []
    for name, high in (("people", 9e6), ("births", 90.0)):
        years = [Column(str(year), dtype="Float64", low=high / 90, high=high + year) for year in range(1960, 2010)]
        tables = [Table(rows=99, width=51, columns=[Column("country", dtype="String"), *years])]
        files.append(FileProfile(f"/tmp/data/{name}.csv", kind="CSV", tables=tables))
    told = section(files)
    assert '    "{1960…2009} (50 columns)": Float64, 1.0 to 9002009.0\n' in told
    assert told.count("may be in two units") == 1
    assert "and 49 more columns in these files, too" in told
    assert len(told) < 1_200


def test_columns_of_unlike_values_are_told_one_by_one() -> None:
    """A file without a header has only numbers for names."""
    types = ("String", "Int64") * 4
    columns = [Column(f"column_{at}", dtype=dtype, low=at) for at, dtype in enumerate(types, 1)]
    told = section([FileProfile("/tmp/data/a.csv", kind="CSV", tables=[Table(rows=9, width=8, columns=columns)])])
    assert "column_{" not in told
    assert all(f'"column_{at}": {dtype}' in told for at, dtype in enumerate(types, 1))


def test_two_estimates_are_not_told_as_a_difference() -> None:
    """Of thousands of values only a part is looked at, so 3,322 of them are no 3,290 without case and spaces."""
    for fewer, is_told in ((1645, False), (850, True)):
        file = table("/tmp/data/a.csv", "tail")
        column = file.tables[0].columns[0]
        column.distinct, column.sample = 3322, ["N1AA"]
        column.sketch, column.folded = (
            Sketch(level=1, hashes=base64.b64encode(array("I", range(0, 2 * count, 2))).decode())
            for count in (1661, fewer)
        )
        assert ("without case" in section([file])) is is_told


def test_columns_without_a_profile_are_counted() -> None:
    """Also where a table is told briefly."""
    file = table("/tmp/data/wide.csv", *(f"{chr(97 + at)} column" for at in range(26)))
    file.tables[0].width = 10_000
    (group,) = DataView(Profiles([file])).groups
    assert table_lines(group, BRIEF)[-1].endswith(f" and {10_000 - 26:,} more")


def test_few_values_and_empty_columns_are_told_also_where_there_is_little_room() -> None:
    """By these a model filters; a column of many values is only named, and one without any is said to have none."""
    columns = [
        Column("Scope", dtype="String", values={"I": 7, "M": 2}),
        Column("Name", dtype="String", distinct=99, sample=["a"]),
        Column("Note", dtype="String", empty=9),
    ]
    file = FileProfile("/tmp/data/x.csv", kind="CSV", tables=[Table(rows=9, width=3, columns=columns)])
    group = DataView(Profiles([file])).groups[0]
    assert table_lines(group, BRIEF)[-1] == '    columns: "Scope" "I"|"M", "Name", "Note" all empty'
    assert '    "Note": all empty' in table_lines(group, FULL)


def test_empty_columns_in_a_row_of_years_are_told() -> None:
    """So that nobody has to print them."""
    years = [Column(str(year), dtype="Float64", low=1.0, high=2.0) for year in range(2000, 2010)]
    empty = [Column(str(year), dtype="String", empty=9) for year in range(2010, 2016)]
    file = FileProfile("/tmp/data/x.csv", kind="CSV", tables=[Table(rows=9, width=16, columns=[*years, *empty])])
    [line] = table_lines(DataView(Profiles([file])).groups[0], FULL)[1:]
    assert line.startswith('    "{2000…2015} (16 columns, all empty: {2010…2015})": Float64')


def test_a_table_without_names_is_told_by_its_first_lines() -> None:
    """Also where it is told briefly, unless something above it says what its columns are."""
    file = table("/tmp/data/x.dat", "column_0", "column_1")
    (told,) = file.tables
    told.raw = ["of us", "in h", "1,2", "3,4"]
    (group,) = DataView(Profiles([file])).groups
    shown = '    first lines: "in h" "1,2" "3,4"'
    assert table_lines(group, BRIEF)[-2:] == ['    columns: "column_0", "column_1"', shown]
    told.columns[0].label = "half time"
    assert table_lines(group, BRIEF)[-1] == '    columns: "column_0" ("half time"), "column_1"'


@pytest.mark.parametrize(
    ("days", "about", "told"),
    [
        ([range(3000), range(3000, 6000)], False, "all different"),
        ([range(3000), range(1500, 4500)], False, "about 4,5"),
    ],
)
def test_values_of_which_none_is_twice_are_told_so(days: list[range], about: bool, told: str) -> None:
    """An estimate would look as if some were doubled; files of years one after the other have none in common."""
    files = []
    for at, several in enumerate(days):
        hashes = sorted(value * 2654435761 % 2**32 for value in several)
        packed = array("I", [each for each in hashes if each % 2 == 0]).tobytes()
        column = Column("day", dtype="Int64", distinct=len(several), low=several[0], high=several[-1], about=about)
        column.sketch = Sketch(level=1, hashes=base64.b64encode(packed).decode())
        file = table(f"/tmp/data/w{at}.csv", "day", "n")
        file.tables[0].columns[0], file.tables[0].rows = column, 3000
        files.append(file)
    for file in files:
        file.tables[0].columns[0].dtype = "String"
    line = next(each for each in section(files).splitlines() if each.startswith('    "day": '))
    assert f", {'nearly ' * (told == 'all different')}{told}" in line
    for file in files:
        file.tables[0].columns[0].dtype = "Date"
    [group] = DataView(Profiles(files)).groups
    assert group.columns[0].about is (told != "all different")


def test_a_column_that_has_the_words_of_the_question_shows_its_values() -> None:
    """Also where a table is told briefly, and where values are so many that only some are."""
    few = Column("line", dtype="String", values={"long distance": 9, "feeder": 8, "S-Bahnhof / Vorstädtisch": 2})
    many = Column("kind", dtype="String", distinct=40, names=[*(f"kind {n}" for n in range(39)), "Vorstädtische Bahn"])
    many.sample = ["kind 1"]
    others = [Column(f"column {letter}", dtype="String", distinct=3, sample=["a"]) for letter in "abcdef"]
    file = FileProfile("/tmp/data/a.csv", kind="CSV", tables=[Table(rows=40, width=8, columns=[*others, few, many])])
    [group] = DataView(Profiles([file])).groups
    told = table_lines(group, BRIEF, asked={"vorstädtisch", "vorstädtische", "bahnhof"})
    assert '    "line": String, "S-Bahnhof / Vorstädtisch" ×2, "long distance" ×9, "feeder" ×8' in told
    assert '    "kind": String, e.g. "kind 1", all different, among them "Vorstädtische Bahn"' not in told
    told = table_lines(group, BRIEF, asked={"vorstädtisch", "vorstädtische", "bahn"})
    assert '    "kind": String, e.g. "kind 1", all different, among them "Vorstädtische Bahn"' in told


def test_files_of_a_family_are_read_in_one_way() -> None:
    """Where one has many points of thousands, the few of another one are such; but not where it has a fraction."""
    files = []
    reads = "pl.read_csv({!r}, separator=';', null_values=['–']{})"
    takes = ").with_columns(pl.col('n').str.replace_all('.', '', literal=True).cast(pl.Int64)"
    for at, column in enumerate((
        Column("n", dtype="Int64", form="written with thousands points", distinct=40, low=3, high=22_008),
        Column("n", dtype="Float64", distinct=40, low=4.756, high=947.0, pointed=[12, 4_756]),
        Column("n", dtype="Int64", distinct=40, low=0, high=22),
        Column("n", dtype="String", values={"–": 33, "2": 8}),
    )):  # fmt: skip
        path = f"/tmp/data/p_{at}.csv"
        converts = ", schema_overrides={'n': pl.String}" + takes if at == 0 else ""
        files.append(table(path, "state", "n", call=reads.format(path, converts)))
        files[-1].tables[0].columns[1] = column
    fraction = Column("n", dtype="Float64", low=0.5, high=7.25)
    for more, is_one in (([], True), ([fraction], False)):
        for at, column in enumerate(more, 9):
            files.append(table(f"/tmp/data/p_{at}.csv", "state", "n", call=reads.format(f"/tmp/data/p_{at}.csv", "")))
            files[-1].tables[0].columns[1] = column
        told = section(files)
        assert (told.count("    read") == 1) is is_one
        assert "null_values=['–'], schema_overrides={'n': pl.String}).with_columns(" in told
        assert ('"n": Int64 (written with thousands points), 0 to 22008' in told) is is_one


def test_words_for_missing_values_are_counted_in_all_files() -> None:
    """Also where most values are missing, so that the word is one of the column's values."""
    files = []
    for at, column in enumerate((
        Column("weeks", dtype="Int64", values={"52": 48, "–": 3}, others={"–": 3}),
        Column("weeks", dtype="String", values={"–": 33, "2": 8}),
        Column("weeks", dtype="Int64", values={"52": 51}),
    )):  # fmt: skip
        files.append(table(f"/tmp/data/p_{at}.csv", "state", "weeks"))
        files[-1].tables[0].columns[1] = column
    assert '"–" ×36' in section(files)


def test_the_few_long_values_of_a_column_are_whole() -> None:
    """Titles of series say at their end what they are; of many values each is cut."""
    title = "All items in U.S. city average, all urban consumers, not seasonally adjusted"
    for count in (1, 9):
        column = Column("title", dtype="String", values={f"{at} {title}": 1 for at in range(count)})
        file = FileProfile("/tmp/data/a.csv", kind="CSV", tables=[Table(rows=count, width=1, columns=[column])])
        assert ("seasonally adjusted" in section([file])) is (count == 1)


def test_the_names_in_a_long_first_line_are_told_to_the_last() -> None:
    names = ", ".join(f"column {at}-{at + 9}" for at in range(10, 200, 10))
    file = table("/tmp/data/a.txt", "0", "1")
    file.tables[0].raw = ["* a panel", f"* cols: {names}", "1   2"]
    assert "column 190-199" in section([file])
    text = FileProfile("/tmp/data/b.txt", kind="text", text="a      b\n1      2\n")
    assert "a      b" in section([text])


def test_rows_of_sums_are_told_also_where_there_is_little_room() -> None:
    file = table("/tmp/data/a.csv", "country")
    file.tables[0].columns[0].sums = {"Total": 1}
    (group,) = DataView(Profiles([file])).groups
    for level in (BRIEF, FULL):
        assert any('rows of sums? "Total"' in line for line in table_lines(group, level))


def test_notes_that_differ_in_numbers_are_told_once() -> None:
    files = [table(f"/tmp/data/{at}.csv", "a", "b") for at in range(9)]
    for at, each in enumerate(files):
        each.tables[0].note = f"below the table: {at} records"
    assert '    note: "below the table: 0 records", with other numbers in 8 more' in section(files).splitlines()


def test_what_stands_above_the_files_of_a_family_is_told_of_each() -> None:
    """Unless they are called so, or only numbers differ; its rows differ anyway."""
    towns = "Bremen", "Hamburg", "Rostock"
    for names, is_told in ((("s1", "s2", "s3"), True), (("1_bremen", "2_hamburg", "3_rostock"), False)):
        files = [table(f"/tmp/data/{name}.dat", "day", "wind") for name in names]
        for at, each in enumerate(files):
            head = [f"Region {at}", f"Station: {towns[at]}   Number: {at}", "day  wind", f"{towns[at]} {at}", f"{at} 5"]
            each.tables[0].raw = head
        told = '    line 2 of each behind "Station:": "Bremen", "Hamburg", "Rostock"' in section(files).splitlines()
        assert told is is_told
        assert "of each" not in section(files[:1])


def test_columns_of_several_types_in_the_files_of_a_family_are_read_as_text() -> None:
    """By one call, which gives the same types for each; many of them with all others."""
    for count, more in ((1, ", schema_overrides={'c0': pl.String})"), (13, ", infer_schema=False), which gives texts")):
        files = []
        for at in range(3):
            nulls = [", null_values={'c0': '–'}", "", ", null_values={'c0': '–', 'k': 'x'}"][at]
            path = f"/tmp/data/p_{at}.csv"
            files.append(table(path, "k", *(f"c{n}" for n in range(count)), call=f"pl.read_csv({path!r}{nulls})"))
            for column in files[-1].tables[0].columns[1:]:
                column.dtype = "String" if at else "Int64"
        told = [line for line in section(files).splitlines() if line.startswith("    read")]
        assert told == [f"    read: pl.read_csv(path{more}"]


def test_the_files_of_a_family_have_one_schema(tmp_path: Path) -> None:
    """By one call: codes have zeros before them in some only, and a column is empty or a whole number in some."""
    rows = {
        "North": "01001;Ay;1;;1 002;01400\n01002;Bu;2;;5;01001 01002\n" + "01003;Cy;4;;7;01005\n" * 200,
        "South": "23001;Ay;1.5;;7;23150\n23002;Bu;2;;8;23160\n",
        "West": "2B001;Ay;1;;9;20100\n2B002;Bu;2;7;10;20200\n",
        "l'Est": "57001;Ay;1;;9;57100\n57002;Bu;2;7;10;57100 57200\n",
    }
    for name, text in rows.items():
        (tmp_path / f"{name}.csv").write_text(f"code;name;rate;n;l'an;post\n{text}")
    paths = sorted(tmp_path.iterdir())
    files = [msgspec.convert(one(str(path), Clock(9e9, MIB)) | {"path": str(path)}, FileProfile) for path in paths]
    told = section(files)
    (call,) = [line.partition(": ")[2] for line in told.splitlines() if line.startswith("    read")]
    frames = [eval(call, {"pl": pl, "path": str(path)}) for path in paths]  # noqa: S307 - told of files that the test wrote
    schema = pl.concat(frames).schema
    assert [str(each) for each in schema.values()] == ["String", "String", "Float64", "Int64", "Int64", "String"]
    assert '"code": String (digits with leading zeros or numbers)' in told


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1 003", "2.5"], "Float64"),
        (["1 003", "2,5"], "Float64"),
        (["1 003", "word"], "String"),
        (["1 003", "1 003,5"], "String"),
        (["1 003", ""], "Int64"),
    ],
)
def test_what_one_file_makes_numbers_of_has_one_type_in_all(tmp_path: Path, values: list[str], kind: str) -> None:
    """With fractions if others have them; as text if others have words, or write numbers in another way."""
    for at, value in enumerate(values):
        (tmp_path / f"{at}.csv").write_text("name;n\n" + f"a;{value}\nb;7\n" * 9)
    files = [
        msgspec.convert(one(str(path), Clock(9e9, MIB)) | {"path": str(path)}, FileProfile)
        for path in tmp_path.iterdir()
    ]
    (group,) = DataView(Profiles(files)).groups
    frames = [eval(table.call, {"pl": pl}) for _, table in group.tables]  # noqa: S307 - told of files that the test wrote
    assert str(pl.concat(frames)["n"].dtype) == kind == group.columns[1].dtype


def test_signs_for_a_missing_value_make_no_other_columns() -> None:
    """Where weeks without a case are most, a column is a text of signs and numbers, among others of numbers."""
    columns = [Column(f"KW {at}", dtype="Int64", low=1, high=9) for at in range(1, 9)]
    columns[2:4] = [Column(f"KW {at}", dtype="String", values={"–": 30, "1": 2}) for at in (3, 4)]
    file = FileProfile("/tmp/data/x.csv", kind="CSV", tables=[Table(rows=32, width=8, columns=columns)])
    assert '    "KW {1…8} (8 columns)": Int64 or String, 1 to 9' in section([file])


def test_words_among_numbers_that_are_text_are_told_with_a_cast() -> None:
    """Of a database or a sheet no call reads them as null; the word is told also where there is little room."""
    column = Column("rating", dtype="TEXT", form="numbers", low=1192, high=2882, distinct=99, missing={"?": 2_146})
    others = [Column(f"column {letter}", dtype="TEXT", distinct=3, sample=["a"]) for letter in "abcdefg"]
    table = Table("r", rows=9_999, width=8, columns=[*others, column])
    (group,) = DataView(Profiles([FileProfile("/tmp/data/a.db", kind="SQLite database", tables=[table])])).groups
    full = "\n".join(table_lines(group, FULL))
    assert '"rating": TEXT (numbers: .cast(pl.Int64, strict=False)), 1192 to 2882' in full
    assert 'missing "?" ×2,146' in full
    assert '"rating" numbers as text, missing "?"' in "\n".join(table_lines(group, BRIEF))
    column.form, column.low = "thousands blanks, 1 234", 2.5
    told = "(thousands blanks, 1 234: .str.replace_all(r'\\s', '').cast(pl.Float64, strict=False)), 2.5 to 2882"
    assert told in "\n".join(table_lines(group, FULL))


def test_values_that_are_as_many_are_counted_once() -> None:
    column = Column("year", dtype="String", values={"2001": 9, "2002": 9, "2003": 9})
    file = FileProfile("/tmp/data/x.csv", kind="CSV", tables=[Table(rows=27, width=1, columns=[column])])
    assert '"year": String, "2001", "2002", "2003", each ×9\n' in section([file])


def test_rows_among_the_first_lines_are_cut() -> None:
    """Of a table, its columns tell more; what stands above them is told."""
    names = [f"column {at} of a wide table" for at in "abcdefgh"]
    file = table("/tmp/data/x.csv", *names)
    file.tables[0].raw = ["A title " * 20, ",".join(names), "1," * 99]
    (line,) = (each for each in section([file]).splitlines() if each.startswith("    first lines:"))
    assert "A title " * 19 in line
    assert "wide table,column f of" not in line
    assert "1," * 60 not in line


def test_one_call_reads_files_of_which_some_need_more() -> None:
    """Longer looks for types, columns as text, and conversions of what is a plain number in others."""
    takes = ").with_columns(pl.col('n').str.replace_all('[ ]', '').cast(pl.Int64)"
    files = []
    for at, more in enumerate(
        (takes, f", infer_schema_length=None{takes}", f", schema_overrides={{'k': pl.String}}{takes}")
    ):
        path = f"/tmp/data/p_{at}.csv"
        files.append(table(path, "k", "n", call=f"pl.read_csv({path!r}, separator=';'{more})"))
    for column in (each.tables[0].columns[1] for each in files):
        column.dtype, column.form = "Int64", "written with thousands blanks"
    (told,) = (line for line in section(files).splitlines() if line.startswith("    read"))
    types = "{'k': pl.String, 'n': pl.String}"
    assert (
        told == f"    read: pl.read_csv(path, separator=';', schema_overrides={types}, infer_schema_length=None{takes})"
    )


def test_codes_of_places_are_in_no_two_units() -> None:
    """Of a department, each file has one, and some have far greater numbers."""
    files = []
    for at, (low, high) in enumerate(((1, 1), (95, 95), (971, 976), (4, 9))):
        files.append(table(f"/tmp/data/p_{at}.csv", "dep", "CODE_ARR"))
        files[-1].tables[0].columns = [
            Column("dep", dtype="Int64", low=low, high=low, distinct=1),
            Column("CODE_ARR", dtype="Int64", low=low * 10, high=high * 10 + 1, distinct=3),
        ]
    assert "two units" not in section(files)


def test_a_column_that_a_question_names_whole_comes_before_those_with_a_word_of_it() -> None:
    """Where a table is told briefly, there are lines for a few columns only."""
    names = [f"confirmed_{each}_code_of_the_county" for each in "abcdefgh"]
    files = [
        table("/tmp/data/cases.csv", *names, "Serotype", "confirmed cases"),
        *(table(f"/tmp/data/{n}.csv", f"c{n}", "d", size=9) for n in range(20)),
    ]
    for each in files:
        for column in each.tables[0].columns:
            column.label = "of no matter " * 9
    told = section(files, "Which serotype do most confirmed cases have?")
    assert '\n    "Serotype": ' in told
    assert '\n    "confirmed cases": ' in told
