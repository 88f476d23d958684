"""By which columns tables can be joined, and how that is told."""

from __future__ import annotations

import base64
import tracemalloc
from array import array

import msgspec
import pytest
from agent.dataset.profiled import section, sketch, table

from nbagent.agent.dataset.keys import Key, alike
from nbagent.agent.dataset.section import DataView
from nbagent.core.policy import MIB
from nbagent.kernel.describe import Profiles
from nbagent.kernel.profile import Column, FileProfile, Sketch, Table


def test_a_table_that_goes_on_in_another_one_is_not_joined_to_it() -> None:
    """Two years with the same columns but one have those in common for another reason; the renamed one is told."""
    files = [table(f"/tmp/data/{at}.csv", "origin", "carrier", name) for at, name in (("a", "tail"), ("b", "tail no"))]
    for file in files:
        for at, column in enumerate(file.tables[0].columns):
            column.sketch, column.distinct = sketch([f"{at} {n}" for n in range(9)]), 9
    told = section(files)
    assert '"a.csv" "tail" ↔ "b.csv" "tail no"' in told
    assert told.count("↔") == 1


def test_columns_with_the_same_values_are_told_together() -> None:
    """Many tables by town take one line, not one for each pair."""
    files = [table(f"/tmp/data/{name}.csv", f"{name} town", f"{name} x") for name in "abcdefgh"]
    for each in files:
        each.tables[0].columns[0].sketch, each.tables[0].columns[0].distinct = sketch([f"t {n}" for n in range(9)]), 9
    lines = [line for line in section(files, "by a town").splitlines() if "↔" in line]
    assert len(lines) == 1
    assert lines[0].endswith("↔ and 2 more: 100% of 9")


def test_a_link_between_two_groups_of_columns_joins_them() -> None:
    """No pair is lost; one within a group says nothing new."""
    pairs = [Key(left, "a", right, "a", 1.0, 1.0, 9) for left, right in ((0, 1), (2, 3), (1, 2), (0, 3))]
    assert alike(pairs) == [pairs[:3]]


def test_columns_with_common_values_are_keys() -> None:
    """They are told with the share of common values, also where only case and spaces differ; yes and no are none."""
    left, right = table("/tmp/data/a.csv", "beach", "flag"), table("/tmp/data/b.csv", "Beach Name", "open")
    plain = [f"beach {n}" for n in range(40)]
    left.tables[0].columns[0].sketch, left.tables[0].columns[0].distinct = sketch(plain), 40
    named = right.tables[0].columns[0]
    named.sketch, named.folded, named.distinct = sketch([x.upper() for x in plain]), sketch(plain[:30] + ["x"] * 9), 40
    for file in (left, right):
        file.tables[0].columns[1].sketch = sketch(["yes", "no"])
        file.tables[0].columns[1].distinct = 2
    told = section([left, right])
    assert '- "a.csv" "beach" ↔ "b.csv" "Beach Name": 0% of 40, 97% without case, spaces and leading zeros' in told
    assert told.count("↔") == 1


def test_numbers_of_rows_are_no_keys() -> None:
    """Nor are those of two tables; a column that refers to another one's numbers is."""
    rows = [str(at) for at in range(1, 41)]

    def numbered(path: str, name: str, *, high: int = 40) -> FileProfile:
        own = Column(name, dtype="Int64", low=1, high=high, distinct=high, sketch=sketch(rows[:high]))
        count = 2 * high if name == "age" else 40 if high > 30 else high
        return FileProfile(path, kind="CSV", tables=[Table(rows=count, width=1, columns=[own])])

    pairs = (("rownames", "rownames", 40), ("id", "case_id", 40)), (("tenant_id", "tenant_id", 39), ("id", "id", 40))
    for (left, right, high), is_key in (
        (pairs[0][0], False),
        (("rownames", "rownames", 39), False),
        (("id", "id", 30), False),
        (("age", "age", 20), False),
        (pairs[0][1], False),
        (pairs[1][0], True),
    ):
        told = section([numbered("/tmp/data/a.csv", left), numbered("/tmp/data/b.csv", right, high=high)])
        assert ("Columns with common values" in told) is is_key, (left, right)


def test_what_a_sandbox_says_of_its_columns_costs_little() -> None:
    """However many values thousands of columns claim to have, the controller looks at a bounded number of them."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"hashes": "A" * 20_000}, Sketch)
    packed = [base64.b64encode(array("I", range(at, at + 2048 * 64, 64))).decode() for at in range(64)]
    files = []
    for name in "abcdefgh":
        columns = [Column(f"{name}{at}", distinct=9, sketch=Sketch(0, each)) for at, each in enumerate(packed)]
        files.append(FileProfile(f"{name}.csv", tables=[Table(columns=columns)]))
    tracemalloc.start()
    try:
        files[0].tables[0].columns[0].sketch = Sketch(0, "ä")
        assert DataView(Profiles(files)).keys
        assert tracemalloc.get_traced_memory()[1] < 80 * MIB
    finally:
        tracemalloc.stop()


def test_amounts_are_no_keys_and_numbers_without_a_header_may_be() -> None:
    """Irradiances of two stations have values in common; the numbers of substances join a list that has no header."""
    values = [str(each) for each in range(200_000, 200_300)]
    files = []
    for path, name, dtype in (
        ("a", "GHI", "Float64 or Int64"),
        ("b", "GHI", "Int64"),
        ("c", "column_0", "Int64"),
        ("d", "CASRN", "Int64"),
    ):
        column = Column(name, dtype=dtype, distinct=300, low=200_000, high=200_299, sketch=sketch(values))
        rows = 300 if path in "cd" else 3000
        files.append(
            FileProfile(f"/tmp/data/{path}.csv", kind="CSV", tables=[Table(rows=rows, width=1, columns=[column])])
        )
    found = {frozenset((key.left_column, key.right_column)) for key in DataView(Profiles(files)).keys}
    assert frozenset(("column_0", "CASRN")) in found
    assert frozenset(("GHI",)) not in found


@pytest.mark.parametrize(
    ("names", "dtype", "form", "rows"),
    [
        (("minutes", "points"), "String or Int64", "", 3000),
        (("% Reports", "Reports"), "String", "a sign of per cent", 60),
        (("# of Reports", "Reports"), "String", "thousands commas, 1,234.5", 60),
    ],
)
def test_numbers_that_meet_by_chance_are_no_keys(names: tuple[str, str], dtype: str, form: str, rows: int) -> None:
    """Neither where some files have none, so that their type is another one, nor where they are written as amounts."""
    values = [str(each) for each in range(60)]
    columns = [Column(each, dtype=dtype, form=form, distinct=60, sketch=sketch(values)) for each in names]
    files = [
        FileProfile(f"/tmp/data/{at}.csv", kind="CSV", tables=[Table(rows=rows, width=1, columns=[each])])
        for at, each in enumerate(columns)
    ]
    assert DataView(Profiles(files)).keys == []


def test_a_fall_of_names_into_one_another_by_chance_is_no_key() -> None:
    """Fires are called as states are, in capitals; of columns of one name, other case is only that."""
    states = [f"state {at}" for at in range(60)]
    kept = []
    for name in ("State", "fire"):
        columns = [Column(each, dtype="String", distinct=60, sample=["x"]) for each in ("State", name)]
        columns[0].sketch = columns[0].folded = sketch(states)
        columns[1].sketch, columns[1].folded = (
            sketch([each.upper() for each in states]),
            sketch([*states[:30], *"abcdefgh"]),
        )
        files = [FileProfile(f"/tmp/data/{at}.csv", kind="CSV", tables=[Table(rows=60, width=1, columns=[each])])
                 for at, each in enumerate(columns)]  # fmt: skip
        kept.append(len(DataView(Profiles(files)).keys))
    assert kept == [1, 0]


def test_codes_of_three_letters_meet_by_chance() -> None:
    """Of another name, they need more in common than names of things do."""
    codes = [f"{a}{b}{c}" for a in "ABC" for b in "DEF" for c in "GHI"]
    for name, same, is_key in (("vendor", 10, False), ("vendor", 20, True), ("alpha_3", 10, True)):
        several = codes[:same] + [f"Z{at:02}" for at in range(27 - same)]
        files = []
        for path, column, values in (("a", "alpha_3", codes), ("b", name, several)):
            file = table(f"/tmp/data/{path}.csv", column, f"of {path}")
            (told,) = file.tables
            told.columns[0].distinct, told.columns[0].sketch, told.columns[0].sample = 27, sketch(values), ["ABC"]
            files.append(file)
        assert bool(DataView(Profiles(files)).keys) is is_key


def test_a_number_of_a_thing_refers_to_its_code() -> None:
    """Times' squares, numbers of small ranges, and a few kinds that many rows of both tables have, join nothing."""
    numbers = [str(n) for n in range(37_001, 38_000, 11)]
    small = [str(n) for n in range(1, 91)]
    kinds = ["EPSG", "ESRI", "IGNF", "NKG", "OGC"]

    def side(path: str, *columns: Column, rows: int) -> FileProfile:
        return FileProfile(path, kind="CSV", tables=[Table(rows=rows, width=len(columns), columns=list(columns))])

    def column(name: str, values: list[str], **more: object) -> Column:
        dtype = "Int64" if values[0].isdigit() else "String"
        return Column(name, dtype=dtype, distinct=len(values), sketch=sketch(values), sample=values[:2], **more)  # type: ignore[arg-type]

    squares = [str(n * n) for n in range(1, 91)]
    files = [
        side(
            "/tmp/data/a.csv", column("county", numbers, low=37_001, high=37_991), column("auth_name", kinds), rows=630
        ),
        side(
            "/tmp/data/b.csv",
            column("countyfips", [*numbers, "1001"], low=1001, high=37_991),
            column("auth_name", kinds),
            rows=999,
        ),
        side("/tmp/data/e.csv", column("district", small, low=1, high=90), rows=630),
        side("/tmp/data/f.csv", column("districtfips", [*small, "97"], low=1, high=97), rows=999),
        side("/tmp/data/c.csv", column("tsq", squares[:70], low=1, high=4900), rows=70),
        side("/tmp/data/d.csv", column("tsq", squares, low=1, high=8100), rows=90),
    ]
    found = {(each.left_column, each.right_column) for each in DataView(Profiles(files)).keys}
    assert found == {("county", "countyfips")}


def test_times_refer_to_those_of_another_table() -> None:
    """Days of other things, which have all days of a year, don't."""
    days = [f"2013-01-{n:02}" for n in range(1, 29)]

    def day(name: str, rows: int) -> FileProfile:
        column = Column(name, dtype="Datetime", distinct=len(days), sketch=sketch(days), sample=days[:2])
        return FileProfile(
            f"/tmp/data/{name}{rows}.csv", kind="CSV", tables=[Table(rows=rows, width=1, columns=[column])]
        )

    files = [day("time_hour", 99), day("time_hour", 999), day("built", 500)]
    found = [(each.left_column, each.right_column) for each in DataView(Profiles(files)).keys]
    assert found == [("time_hour", "time_hour")]


def test_joins_by_columns_that_the_question_names_come_first() -> None:
    """Those of tables came first whose names it has, and there is no room for all."""
    codes = [f"C{n:03}" for n in range(60)]
    column = {
        name: Column(name, dtype="String", distinct=60, sketch=sketch(values), sample=values[:2])
        for name, values in (("depot", codes), ("time_hour", [f"H{each}" for each in codes]))
    }

    def with_both(path: str, *names: str) -> FileProfile:
        tables = [Table(rows=60, width=len(names), columns=[column[each] for each in names])]
        return FileProfile(path, kind="CSV", tables=tables)

    files = [
        with_both("/tmp/data/airports_first.csv", "depot"),
        with_both("/tmp/data/airports_second.csv", "depot"),
        with_both("/tmp/data/flights.csv", "time_hour"),
        with_both("/tmp/data/weather.csv", "time_hour"),
        *(table(f"/tmp/data/{each}.csv", each) for each in "abcdefghijklmn"),
    ]
    told = section(files, "Of all airports, which is best by the hour?")
    joins = told[told.index("Columns with common values:") :].splitlines()
    assert "time_hour" in joins[1]


def test_numbers_are_keys_where_they_meet_by_more_than_chance() -> None:
    """Codes that are sparse do; times at bat, years and numbers of a small range don't, unless each row has its own."""

    def side(path: str, name: str, values: range, rows: int) -> FileProfile:
        texts = [str(each) for each in values]
        column = Column(name, dtype="Int64", distinct=len(values), low=values[0], high=values[-1], sketch=sketch(texts))
        return FileProfile(f"/tmp/data/{path}.csv", kind="CSV", tables=[Table(rows=rows, width=1, columns=[column])])

    for (left, its, rows), (right, others, count), is_key in (
        (("EPSG_PCS_CODE", range(26_700, 29_000, 9), 258), ("code", range(2001, 32_760, 3), 10_254), True),
        (("AB", range(20, 700, 2), 360), ("AB", range(1, 14_000, 9), 1_600), False),
        (("season", range(1871, 1990), 800), ("season", range(1920, 1999), 900), False),
        (("team", range(1, 31), 30), ("team", range(1, 31), 900), True),
        (("price", range(100, 5_000, 50), 98), ("price", range(100, 9_000, 50), 900), False),
    ):
        found = DataView(Profiles([side("a", left, its, rows), side("b", right, others, count)])).keys
        assert bool(found) is is_key, (left, right)
        assert all(each.is_mapping is (right == "code") for each in found)


def test_names_without_a_match_are_told() -> None:
    """Where most have one: they may be written otherwise."""
    states = [f"state {at}" for at in range(40)]
    files = []
    for path, values in (("a", [*states, "TENNESSE"]), ("b", [*states, "Tennessee", "Utah"])):
        file = table(f"/tmp/data/{path}.csv", "state", f"of {path}")
        column = file.tables[0].columns[0]
        column.distinct, column.names = len(values), values
        column.sketch = sketch(values)
        files.append(file)
    assert '    without a match in "a.csv": "TENNESSE"; in "b.csv": "Tennessee", "Utah"' in section(files)


def test_of_columns_that_have_nearly_the_same_the_one_with_other_names_is_told() -> None:
    """Beside the share that all others have; which names differ is told as where there are two columns alone."""
    states = [f"state {at}" for at in range(50)]
    files = []
    for path, values in (("a", states), ("b", states), ("c", [each.upper() for each in states])):
        values = [*values, "D.C." if path == "c" else "District of Columbia"]
        file = table(f"/tmp/data/{path}.csv", "state", f"of {path}")
        column = file.tables[0].columns[0]
        column.distinct, column.names, column.sketch = len(values), values, sketch(values)
        column.folded = sketch([each.lower() for each in values])
        files.append(file)
    files[2].tables[0].columns[0].names.append("TOTAL")
    files[2].tables[0].columns[0].sums = {"TOTAL": 1}
    lines = section(files).splitlines()
    at = lines.index(
        '- "a.csv" "state" ↔ "b.csv" "state" ↔ "c.csv" "state": 100% of 51; '
        '"c.csv" "state": 0%, 98% without case, spaces and leading zeros'
    )
    assert lines[at + 1] == '    without a match in "a.csv": "District of Columbia"; in "c.csv": "D.C."'


def test_names_that_come_again_in_other_rows_are_no_keys() -> None:
    """Storms are called as others were years before, in many rows of both; where one has a row each, it is a key."""
    names = [f"storm {at}" for at in range(50)]
    for rows, is_key in ((500, False), (50, True)):
        files = []
        for path, values, count in (("a", names, rows), ("b", [*names[:30], *"abcdefghijklmnopqrst"], 500)):
            column = Column("storm", dtype="String", distinct=50, sample=["storm 1"], sketch=sketch(values))
            tables = [Table(rows=count, width=2, columns=[column, Column(f"of {path}")])]
            files.append(FileProfile(f"/tmp/data/{path}.csv", kind="CSV", tables=tables))
        assert bool(DataView(Profiles(files)).keys) is is_key
