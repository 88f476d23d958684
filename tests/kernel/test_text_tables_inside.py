"""How a table in a text file is parted into fields."""

from __future__ import annotations

import bz2
import lzma
import os
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import machine
import pandas as pd
import polars as pl
import pytest

from nbagent.core.policy import MIB
from nbagent.kernel.inside import find_inside
from nbagent.kernel.inside.clock_inside import Clock, Watch
from nbagent.kernel.inside.documents_inside import tables_ahead
from nbagent.kernel.inside.find_inside import within
from nbagent.kernel.inside.frames_inside import spaced_table
from nbagent.kernel.inside.layouts_inside import layouts
from nbagent.kernel.inside.listing_inside import main as listing
from nbagent.kernel.inside.profile_inside import one
from nbagent.kernel.inside.profile_inside import within as in_time
from nbagent.kernel.inside.table_layout_inside import Layout
from nbagent.kernel.inside.text_forms_inside import TextTable
from nbagent.kernel.inside.text_tables_inside import text_table


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b;c\n1,5;2,5;3,5\n4,5;5,5;6,5\n", ";"),
        ("land;1964;1965\nTogo;6,52;6,55\nMali;6,97;7,01\n", ";"),
        ("Report\n\nland;1964\nTogo;6,52\nMali;6,97\n", ";"),
        ("a,b\n1;5,2;5\n", ","),
        ("a\tb\n1,5\t2,5\n2,5\t3,5\n", "\t"),
        ("# code:city\nAAL:Aalborg\nABZ:Aberdeen, Dyce\nACC:Accra\n", ":"),
        ("# by; and: so on\n# a, b, c\nt;v\n1;2\n2;3\n3;4\n", ";"),
        ("Report: all well\nNext: 12:30\nThen: 13:30\n", ","),
    ],
)
def test_decimal_commas_are_no_separators(text: str, separator: str) -> None:
    """They part as many fields as the separator or more, but not those of the header."""
    assert TextTable("x.csv", text.encode()).separator == separator


@pytest.mark.parametrize(
    ("line", "has_header"),
    [
        ("BRD8\nCBX3\nHDAC1\nTP53BP1", False),
        ("CODE\nCBX3\nHDAC1", True),
        ("DC,11001,4.5", False),
        ("state,2021\nAlabama,-29.5\nAlaska,-14.6", True),
        ("Anna,2021\nBert,1998\nCora,2004", False),
        ("state,2020,2021", True),
        ("name,code,rate", True),
    ],
)
def test_a_file_of_one_line_is_a_row_if_it_has_numbers(line: str, has_header: bool) -> None:
    """But for years, which are names of columns too."""
    assert TextTable("x.csv", f"{line}\n".encode()).layout.has_header is has_header


@pytest.mark.parametrize(("rows", "is_cut"), [(10, False), (1_000_000, True)])
def test_a_file_that_was_read_to_its_end_is_read_whole(tmp_path: Path, rows: int, is_cut: bool) -> None:
    """Also if the time is over by then."""
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "123\n" * rows)
    found = text_table(str(path), path.stat().st_size, Clock(0.0, 2**20))
    assert found.get("sampled", False) is is_cut
    assert is_cut or found["rows"] == rows


def test_a_word_that_is_a_value_elsewhere_is_null_in_its_own_column_only(tmp_path: Path) -> None:
    """And it stays, where a call could not say that."""
    path = tmp_path / "x.csv"
    path.write_text("armed,age\n" + "Unknown,31\nNo,25\n" * 9 + "No,Unknown\n")
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert found["call"].endswith("null_values={'age': 'Unknown'})")
    path.write_text("status,income\n" + "Not stated,31\nNo,25\n" * 9 + "No,Not stated\n")
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert found["call"].endswith("null_values={'income': 'Not stated'})")
    path.write_text("armed,age\n" + "Unknown,31\nNo,25\n" * 9 + "No,Unknown\nNo,-\n")
    assert "Unknown" not in text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))["call"]


def test_a_survey_names_its_answers_below_a_question(tmp_path: Path) -> None:
    """In a second row, which has nothing where the first column has values."""
    path = tmp_path / "x.csv"
    path.write_text("id,Which states?,,,Sex\n,Ohio,Iowa,Utah,Answer\n" + "7,Ohio,,Utah,m\n8,,Iowa,,w\n" * 9)
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert found["call"].endswith("skip_rows_after_header=1)")
    assert [each.get("label") for each in found["columns"]] == [None, "Ohio", "Iowa", "Utah", "Answer"]


def test_the_clock_is_looked_at_between_files_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is read for some megabytes, whatever time is left."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(60):
            archive.writestr(f"{number}.txt", "none\n")
    now, read = [0.0], list[object]()

    def within(lines: object, *_: object) -> None:
        now[0] += 1
        read.append(lines)

    monkeypatch.setattr(find_inside, "within", within)
    monkeypatch.setattr(find_inside.time, "monotonic", lambda: now[0])
    found = find_inside.main([str(tmp_path / "x.zip")], "some", 3.5)
    assert (len(read), found["all"]) == (4, False)


def test_lines_may_end_as_in_old_programs(tmp_path: Path) -> None:
    """By carriage returns alone, of which the call says so."""
    path = tmp_path / "x.csv"
    path.write_bytes(b'name,n\r"Bonn\rWest",1\rUlm,2\rKiel,n/a\r')
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert found["call"].endswith("eol_char='\\r', null_values=['n/a'])")
    assert (found["rows"], [each["dtype"] for each in found["columns"]]) == (3, ["String", "Int64"])


def test_negatives_in_parentheses_are_numbers(tmp_path: Path) -> None:
    """As bookkeepers write them; the range has them."""
    path = tmp_path / "x.csv"
    path.write_text("profit\n" + "12.5\n" * 5 + '"(1,018.25)"\n(3)\n')
    (column,) = text_table(str(path), 99, Clock(float("inf"), 2**20))["columns"]
    assert (column["dtype"], column["form"]) == ("String", "numbers")
    assert (column["low"], column["high"]) == (-1018.25, 12.5)
    assert column["others"] == {"negatives in parentheses, (1.5)": 2}


ROWS = "".join(f"{year},{year / 7:.2f},{year / 9:.3f}\n" for year in range(1765, 1865))
TRACES = "".join(f"{city},{at},{at + 1},{at + 2}\n" for at, city in enumerate(["Ulm", "Bern", "Graz", "Linz"] * 5))


@pytest.mark.parametrize(
    ("text", "skipped", "header", "labels"),
    [
        # Words on the table, however many fields they have, and three rows of header of which the last has the names.
        (
            'RUN,,\n"by A, B",,\nDATA,3,\n,,\nNO:,1,2\nUNITS:,Gt,Mt\nyear,CO2,CH4\n' + ROWS,
            6,
            ["year", "CO2", "CH4"],
            "1 Gt",
        ),
        (
            "Sources:,of the forcing by volcanoes and by the sun as a mean of each year of the past\nyear,a,b\n" + ROWS,
            1,
            ["year", "a", "b"],
            "",
        ),
        ("PLACE,AMSTERDAM,NLD\nDESIGN,1,Handbook,2,3,4,5\nPERIODS\n" + ROWS, 3, [], ""),
        (
            "key,1000,1500,2000\n"
            + TRACES.replace("Ulm", "7-1").replace("Bern", "7-2").replace("Graz", "7-3").replace("Linz", "7-4"),
            0,
            ["key", "1000", "1500", "2000"],
            "",
        ),
        ("t (a),GHI\n1,,\n" + "2,3,\n" * 9, 0, ["t (a)", "GHI"], ""),
        ("AD,+42,Europe\nAE,+25,Asia\nAF,+34,Asia\n", 0, [], ""),
        # More lines are said of the table than it has rows.
        (
            'Areas: Reports,\n,\nArea,Reports\n"Dover, DE",663\n"Bern, CH",525\n,\nAll are counted.,\n,\nSource: us,\n',
            2,
            ["Area", "Reports"],
            "",
        ),
        # The last field of most rows is empty, and what has numbers otherwise has words in the first row.
        (
            "chamber,district,new\nHouse,AL,\n" + "House,1,\nHouse,2,\n" * 9 + "House,3,Ann\n",
            0,
            ["chamber", "district"],
            "",
        ),
        # A number that could be a year is none above others of its kind.
        ("alice,2050\nbob,310\ncarol,45\ndave,777\nerin,12\n", 0, [], ""),
        ("2000\n310\n45\n777\n", 0, [], ""),
        ("state,2021\nAL,1.5\nAK,2.5\nAZ,-0.5\n", 0, ["state", "2021"], ""),
        # Parts of names that stand above each other, none of them above each column; a row of few numbers follows.
        (
            "\tof the\t\t\t\t\n\tatom\t\thalf\tin\t\n"
            + "".join(f"H\t{at}\tH-{at}\t{at}.5\t\t{at % 3} h\n" for at in range(1, 20)),
            2,
            [],
            "of the atom",
        ),
        # What stands where numbers follow is a word of digits, as it comes again below.
        (
            "0-n-1,618 S,1/2,-3(6)\n" + "".join(f"1-H-{at},{at}.5,{at % 3 + 1}/2,{at}(1)\n" for at in range(20)),
            0,
            [],
            "",
        ),
        # The first value is missing.
        ("1.5,NaN\n" + "2.5,3.5\n" * 20, 0, [], ""),
        # Codes in order; a header of as many letters would not come first.
        ("AAA\tAvo Ltd\n" + "".join(f"AA{each}\t{each} Ltd\n" for each in "BCDEFGHIJKL"), 0, [], ""),
        ("FAA\tname\n" + "".join(f"AA{each}\t{each} Ltd\n" for each in "BCDEFGHIJKL"), 0, ["FAA", "name"], ""),
        # The header is a comment, with a last field that most rows lack.
        ("# of us\n#Z\tname\tnote\n" + "1\tH\t\n2\tHe\tg\n3\tLi\t\n" * 9, 1, ["#Z", "name", "note"], ""),
        # Only the column that numbers the rows has no name.
        (",x\n" + "".join(f"{at},{at / 7}\n" for at in range(9)), 0, ["", "x"], ""),
        # Names with digits, of which one is that of a group, too.
        ("id,q1,q2,2019\n" + "".join(f"{at},q{at % 3},{at},{at * 7}\n" for at in range(1, 20)), 0, ["id", "q1"], ""),
    ],
)
def test_a_table_begins_below_the_words_on_it(text: str, skipped: int, header: list[str], labels: str) -> None:
    """Its header is the row that names each column; without one, the first row of numbers is no header."""
    found = TextTable("x.csv", text.encode())
    assert found.skipped_lines == skipped
    assert (found.layout.header[: len(header)] if found.layout.has_header else []) == header
    assert not labels or found.layout.labels[1] == labels


def test_rows_of_any_length_are_all_read(tmp_path: Path) -> None:
    """Names that follow in any number make no row too short, also where a piece begins with a longer or shorter one."""
    path = tmp_path / "names.tsv"
    rows = ["\t".join([str(at), f"{at}-1", *("x, y" for _ in range(at % 7))]) for at in range(400_000)]
    path.write_text("\n".join(rows) + "\n")
    found = text_table(str(path), path.stat().st_size, Clock(float("inf"), 2**21))
    assert "separator='\\t'" in found["call"]
    assert found["rows"] == len(rows)


def test_a_table_parted_by_spaces_begins_below_its_title(tmp_path: Path) -> None:
    """The lines above it have other numbers of fields."""
    path = tmp_path / "station.dat"
    lines = ["Alamosa", "  37.70  105.92 2317 m", *(f" 2016 1 {at} 0.5 -1.8" for at in range(1, 20))]
    path.write_text("\n".join(lines))
    found = spaced_table(str(path), path.read_bytes())
    assert (found["rows"], found["width"]) == (19, 5)


def test_names_stand_above_a_rule_and_what_they_mean_further_up(tmp_path: Path) -> None:
    """Of a table parted by spaces; a head of many lines is shown by its first and last ones."""
    path = tmp_path / "x.dat"
    head = [
        "Station: Kiel",
        "",
        *(f"{name}  {text}" for name, text in zip("abc", ("hour", "heat [C]", "rain"), strict=True)),
    ]
    path.write_text("\n".join([*head, "", "a  b    c", "***", *(f"{at}  {at}.5  0" for at in range(9))]))
    found = spaced_table(str(path), path.read_bytes())
    assert [(each["name"], each.get("label")) for each in found["columns"]] == [
        ("a", "hour"),
        ("b", "heat [C]"),
        ("c", "rain"),
    ]
    assert found["rows"] == 9
    assert found["raw"][0] == "Station: Kiel"


@pytest.mark.parametrize("head", ["", "# mean temperature data\n", "id x1 mean n\n"])
def test_a_sentence_and_a_first_row_are_no_names(tmp_path: Path, head: str) -> None:
    """Only what a line parts from the rows of a table that is parted by spaces names its columns."""
    path = tmp_path / "x.dat"
    path.write_text(head + "".join(f"S{at} x{at} {at}.5 {at}\n" for at in range(9)))
    found = spaced_table(str(path), path.read_bytes())
    assert [each["name"] for each in found["columns"]] == ["0", "1", "2", "3"]


def test_comments_that_explain_a_table_are_shown_whole(tmp_path: Path) -> None:
    """Without lines that say nothing; a call converts all columns of numbers with commas but those it names."""
    path = tmp_path / "x.csv"
    comments = [f"# column {at}: what it means" for at in range(12)]
    names = [f"station {at}" for at in range(8)]
    rows = [",".join([f"{1 + at % 12}/{1 + at % 28}/2001", *['"1,234"'] * 8]) for at in range(40)]
    rows += [",".join([f"2009-01-{10 + at}", *["756"] * 8]) for at in range(20)]
    path.write_text("\n".join([*comments, "#", f"day,{','.join(names)}", *rows]))
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert found["raw"][:13] == [*comments, f"day,{','.join(names)}"]
    assert "skip_lines=13).with_columns(pl.col(pl.String).exclude('day').str.replace_all(" in found["call"]
    assert found["columns"][8]["dtype"] == "Int64"
    assert found["columns"][0]["form"] == "%m/%d/%Y"
    assert found["columns"][0]["others"] == {"%Y-%m-%d": 20}


def test_times_without_seconds_are_told_so(tmp_path: Path) -> None:
    """Their form can be copied."""
    path = tmp_path / "x.csv"
    path.write_text("start,end\n" + "".join(f"{at:02}:30,{at:02}:30:15\n" for at in range(24)))
    found = text_table(str(path), path.stat().st_size, Clock(monotonic() + 9, MIB))
    assert [each["form"] for each in found["columns"]] == ["%H:%M", "%H:%M:%S"]


def test_a_header_cell_of_two_rows_names_its_column() -> None:
    """It stands in the upper row, beside the words that the lower row's names share."""
    years = [str(year) for year in range(2001, 2008)]
    rows = [["Population", *[""] * 8], ["Key", "Place", "at the end of", *[""] * 6], ["", "", *years]]
    layout = Layout([*rows, *([f"0{at}", f"town {at}", *["5000"] * 7] for at in range(9))])
    assert (layout.skipped, layout.header) == (2, ["", "", *years])
    assert layout.labels[:3] == ["Key", "Place", ""]


def test_a_title_is_no_header_of_rows_that_end_early() -> None:
    """Rows of a sheet are as long as what is in them."""
    rows = [["Curves", "", "", "", ""], ["Power in kW", "", "", "", ""], ["v", "A1/5", "B2/7", "C3/9", "D4/8"]]
    rows += [[str(at), *["0"] * (1 + at % 3), *[""] * (3 - at % 3)] for at in range(12)]
    assert Layout(rows).header == ["v", "A1/5", "B2/7", "C3/9", "D4/8"]


@pytest.mark.parametrize("header", ["", "Z symbol radius error count\n"])
def test_rows_of_a_table_parted_by_spaces_may_end_early(tmp_path: Path, header: str) -> None:
    """Those above the last of them are no words on the table."""
    path = tmp_path / "radius.dat"
    short = {2: "2    He    0.28", 10: "10    Ne    0.58"}
    path.write_text(header + "\n".join(short.get(at, f"{at}    X{at}    0.5    5    129") for at in range(1, 50)))
    found = spaced_table(str(path), path.read_bytes())
    assert (found["rows"], found["width"]) == (49, 5)
    path.write_text("\n".join(f"{at} X {' 0.5' * min(at, 4)}" for at in range(1, 6)) + "\n#b: 1\n")
    assert not spaced_table(str(path), path.read_bytes())


def test_files_that_there_is_no_time_to_read_have_their_sizes(tmp_path: Path) -> None:
    """What is not read is not said to be empty."""
    (tmp_path / "a.csv").write_bytes(b"x" * 1234)
    assert [each[1] for each in listing([str(tmp_path)], 0.0)["files"]] == [1234]


def test_a_file_of_a_byte_order_mark_has_no_rows() -> None:
    assert TextTable("x.csv", b"\xef\xbb\xbf").layout.skipped == 0


def test_a_table_of_very_many_columns_is_laid_out_soon() -> None:
    """The time grows with the fields, not with their square."""
    text = "\n".join(",".join(["1"] * 10_000) for _ in range(3)).encode()
    assert machine.within(30, lambda: TextTable("x.csv", text).layout.width) == 10_000


@pytest.mark.parametrize(
    ("lines", "length"),
    [(["a", "äb " * 5, "b"], 0), (["a", *["äb " * 5] * 8, "b"], 15), (["a", *[" " * 9] * 8, "b"], 0)],
)
def test_columns_by_their_places_need_several_lines(tmp_path: Path, lines: list[str], length: int) -> None:
    """And these have a length in characters, not in bytes."""
    path = tmp_path / "x.dat"
    path.write_text("\n".join(lines))
    note = one(str(path), Clock(0.0, 1)).get("note", "")
    assert note == (f"lines of {length} characters each: columns by their places" if length else "")


@pytest.mark.parametrize(("last", "is_table"), [("the sea is", False), ("1 2 3", True)])
def test_the_end_of_a_poem_is_no_table(tmp_path: Path, last: str, is_table: bool) -> None:
    """If only a few of its lines have as many words as each other."""
    path = tmp_path / "poem.dat"
    path.write_text("\n".join([*("so " * at for at in range(2, 14)), *[last] * 6]))
    assert bool(spaced_table(str(path), path.read_bytes())) is is_table


BYTES = """
   Bytes Format Units  Label  Explanations
----------------------------------------
  1-  4   I4    ---    year   Calendar year,
                              as told
      6   A1    ---    code   one letter
  8- 12   F5.2  ms     LOD    Length of day
"""
WORDS = """
WORD  FORMAT  Fill Value      MEANING             UNITS
 1      I4                    Year                1963, 1964
 2      I3    99              Kp index            See table
 3     F6 1  999.9            Field |B|           nT
"""
GHCN = "Variable   Columns   Type\nID  1-4  Character\nNAME 6-10 Character\nVALUE 12-14 Integer\n"


@pytest.mark.parametrize(
    ("note", "row", "names"),
    [
        (BYTES, "20{at} a {at}.25", ["year", "code", "LOD"]),
        (WORDS, "{at}  7  3.5", ["Year", "Kp index", "Field |B|"]),
        (GHCN, "0{at:03} Bern    7", ["ID", "NAME", "VALUE"]),
    ],
)
def test_a_note_beside_a_text_names_its_columns(tmp_path: Path, note: str, row: str, names: list[str]) -> None:
    """By their places as catalogues, Fortran's words or stations' lists tell them; the call was tried."""
    (tmp_path / "readme.text").write_text(note)
    path = tmp_path / "x.dat"
    path.write_text("".join(f"{row.format(at=at)}\n" for at in range(20, 90)))
    [table] = one(str(path), Clock(monotonic() + 9, MIB))["tables"]
    assert [each["name"] for each in table["columns"]] == names
    assert (table["rows"], table["note"]) == (70, "its columns are those that readme.text tells")
    assert eval(table["call"], {"pl": pl, "pd": pd}).columns == names  # noqa: S307 - it is made of reprs


def test_what_fills_empty_places_is_missing(tmp_path: Path) -> None:
    """As the note says; the bounds are those of the other values."""
    (tmp_path / "readme.text").write_text(WORDS)
    (tmp_path / "x.dat").write_text("2024 33 1.5\n2025 99 2.5\n2026 40 999.9\n" * 9)
    [table] = one(str(tmp_path / "x.dat"), Clock(monotonic() + 9, MIB))["tables"]
    assert [each.get("sentinels") for each in table["columns"]] == [None, {"99": 9}, {"999.9": 9}]
    assert [(each["low"], each["high"]) for each in table["columns"]] == [(2024, 2026), (33, 40), (1.5, 2.5)]


@pytest.mark.parametrize("row", ["{at} aa 1.25", "{at} a x.25", "{at} a 1.25 and more"])
def test_a_note_that_does_not_fit_names_nothing(tmp_path: Path, row: str) -> None:
    """Something between its columns, words where it has numbers, or longer lines: it tells of another file."""
    (tmp_path / "readme.text").write_text(BYTES)
    path = tmp_path / "x.dat"
    path.write_text("".join(f"{row.format(at=at + 2000)}\n" for at in range(70)))
    assert "its columns" not in str(one(str(path), Clock(monotonic() + 9, MIB)))


@pytest.mark.parametrize("line", ["byte format " * 3_000, f"1-4 I4{' ' * 30_000}x", f"1-4 I4  {'1' * 30_000}x"])
def test_a_note_is_read_in_one_way(tmp_path: Path, line: str) -> None:
    """A line that could be read in many would keep all of Python from running, and no file would be described."""
    (tmp_path / "note.txt").write_text(line)
    machine.within(20, lambda: layouts(str(tmp_path / "note.txt")))


def test_a_note_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    """The texts beside it can be read all the same."""
    assert layouts(str(tmp_path / "there is none.txt")) == ()


def test_a_member_of_a_zip_that_cannot_be_taken_out_hides_no_other(tmp_path: Path) -> None:
    """Such as one that needs a password, or whose name is none of a file."""
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("..", "x")
        packed.writestr("locked.txt", "x")
        packed.writestr("open.csv", "a,b\n1,2\n3,4\n")
    data = path.read_bytes()
    at = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    path.write_bytes(data[: at + 8] + bytes([data[at + 8] | 1]) + data[at + 9 :])
    up, locked, table = one(str(path), Clock(monotonic() + 9, MIB))["tables"]
    assert "Is a directory" in up["note"]
    assert "password" in locked["note"]
    assert [each["name"] for each in table["columns"]] == ["a", "b"]


def test_words_below_a_table_are_told(tmp_path: Path) -> None:
    """They are no rows of it, and may say what its values are."""
    path = tmp_path / "x.csv"
    path.write_text('name,n\na,1\nb,2\n,\n"Of 9, 86% have an age.",\n,\nSource: them,\n')
    found = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]
    assert found["note"] == "below the table: Of 9, 86% have an age. / Source: them"


@pytest.mark.parametrize(
    ("text", "found"), [("NTP", [1, 1, 3, "the NTP list"]), ("LNTP", [1, 0, 2, "ALNTPX"]), ("none", [])]
)
def test_whole_words_come_first(tmp_path: Path, text: str, found: list[object]) -> None:
    """The line told is the first in which a text is no part of another word, if there is one."""
    path = tmp_path / "x.txt"
    path.write_text("a\nALNTPX\nthe NTP list\n" if text != "NTP" else "a\nALN_TPX\nthe NTP list\n")
    with path.open("rb") as file:
        assert within(file, {text.lower().encode()}, monotonic() + 9) == found


def test_a_text_with_a_comma_is_no_table(tmp_path: Path) -> None:
    """Lines of one field each are not parted by what stands in two others."""
    path = tmp_path / "0309forecast.txt"
    path.write_text(
        "Product: x\n# By the Dept., NOAA, Center\n" + "Observed Ap 08 Mar 021 and more\n" * 3 + "Active\n" * 20
    )
    found = one(str(path), Clock(monotonic() + 9, MIB))
    assert (found["kind"], found.get("tables")) == ("text", None)


@pytest.mark.parametrize(("name", "is_one"), [("noaa_variabledescrip.csv", True), ("manual_input.csv", False)])
def test_a_table_of_variables_is_a_note(tmp_path: Path, name: str, is_one: bool) -> None:
    """It says what the columns of others are; what somebody has put in by hand is data."""
    (tmp_path / name).write_text("variable,meaning\ncause,why it burned\n" * 4)
    assert one(str(tmp_path / name), Clock(monotonic() + 9, MIB)).get("is_note", False) is is_one


def test_the_bounds_of_numbers_with_and_without_commas_are_those_of_all(tmp_path: Path) -> None:
    """As whole numbers, if they are; those with commas may be fewer and larger."""
    path = tmp_path / "x.csv"
    path.write_text('area,reports\nUlm,812\nBern,76\nBonn,95\nGraz,"67,819"\nLinz,"1,025"\nAll are counted.,\n')
    [_, column] = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["columns"]
    assert (column["low"], column["high"], column["dtype"]) == (76, 67819, "Int64")


STACKED = (
    'Reports by Pilots,,,\n,,,\nKind,# of Reports,,\nFraud,"99,443",,\nOther,"75,652",,\n,,,\n'
    '# of Fraud Reports,"99,443",,\nTotal Loss,$584M,,\n,,,\n'
    'Top Categories,,,\nRank,Category,# of Reports,Median\n1,Imposters,"44,587",12\n2,Shops,"11,515",7\n'
    "3,Prizes,900,8\n,,,\n"
    '"Some are in both of the kinds, and none of the ranks that are above has what is below it.",,,\n'
)


def test_tables_of_one_file_that_stand_one_below_the_other_are_told_each(tmp_path: Path) -> None:
    """Each with a call that reads it alone, its title, and nothing of the others."""
    path = tmp_path / "x.csv"
    path.write_text(STACKED)
    found = one(str(path), Clock(float("inf"), 2**20))
    first, bare, ranks = found["tables"]
    assert [each["name"] for each in found["tables"]] == ["Reports by Pilots", "lines 7 to 8", "Top Categories"]
    assert [each["name"] for each in first["columns"]] == ["Kind", "# of Reports"]
    assert [each["rows"] for each in found["tables"]] == [2, 2, 3]
    assert [eval(each["call"], {"pl": pl}).shape for each in found["tables"]] == [(2, 2), (2, 2), (3, 4)]  # noqa: S307
    assert eval(bare["call"], {"pl": pl}).item(1, 1) == "$584M"  # noqa: S307
    assert [each["name"] for each in ranks["columns"]] == ["Rank", "Category", "# of Reports", "Median"]
    assert "Some are in both" in found["note"]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n\n3,4\n5,6\n\n7,8\n9,1\n",  # gaps between rows
        "Source,us\nDay,Monday\n\na,b\n1,2\n3,4\n",  # what the table is
        "name,x\nNorth,\nUlm,1\nBonn,2\n\nSouth,\nBern,3\nBasel,4\n",
        "k,x,y\na,1,2\nb,2,3\n\nc,NA,NA\nd,3,4\ne,4,5\n",
    ],
)
def test_a_table_with_gaps_is_one(tmp_path: Path, text: str) -> None:
    """Unless two of its parts have names above their numbers."""
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert len(one(str(path), Clock(float("inf"), 2**20))["tables"]) == 1


@pytest.mark.parametrize(
    ("text", "rows", "columns", "said"),
    [
        (
            "# us\n- id:\n    code: A1\n  name: 'Ann: B'\n  terms:\n  - type: sen\n  - type: rep\n"
            "- id:\n    code: B2\n  name: |\n    two: lines\n    of it\n  terms: [1, 2]\n",
            2,
            {"id.code": {"A1": 1, "B2": 1}, "name": {"Ann: B": 1}, "terms.type": {"sen": 1, "rep": 1}},
            "a list of 2 records",
        ),
        (
            "".join(f"K{at}:\n- name: N\n  rank: {at % 2}\n" for at in range(20)),
            20,
            {"*.name": {"N": 20}, "*.rank": {"0": 10, "1": 10}},
            "an object of 20 keys (K0, K1, K2, …), * in the names of columns",
        ),
        ("a: 1\nb:\n  c: x\n", 2, {"a": {"1": 1}, "b.c": {"x": 1}}, "an object of 2 keys"),
    ],
)
def test_yaml_is_told_by_its_keys(
    tmp_path: Path, text: str, rows: int, columns: dict[str, dict[str, int]], said: str
) -> None:
    """By their places, with the values, and how many records there are."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    found = one(str(path), Clock(float("inf"), 2**20))
    (table,) = found["tables"]
    assert (table["rows"], {each["name"]: each["values"] for each in table["columns"]}) == (rows, columns)
    assert found["note"].startswith(f"{said}; yaml.safe_load")


@pytest.mark.parametrize(
    "text", ["- a\n- b\n", "just words\n", ":\n::\n- :\n", "\ta: 1\n", "a: " + "[" * 9999, "- " * 9999]
)
def test_yaml_without_keys_is_described_too(tmp_path: Path, text: str) -> None:
    """Whatever it has; in no time."""
    path = tmp_path / "x.yml"
    path.write_text(text)
    assert machine.within(20, lambda: one(str(path), Clock(float("inf"), 2**20)))["kind"] == "YAML"


def test_a_drawn_table_of_variables_is_a_note_and_another_one_a_table(tmp_path: Path) -> None:
    """Of any length: a long one has so many rows that it looks like a table, too."""
    rule = "+----------+-----------------+\n"
    rows = "".join(f"| v{at:<7} | what {at:<10} is |\n" for at in range(60))
    for head in ("| variable | label |", "| v0 | what it is |"):
        path = tmp_path / "x.txt"
        path.write_text(f"name of dataset: x\n\n{rule}{head}\n{rule}{rows}{rule}")
        found = one(str(path), Clock(float("inf"), 2**20))
        assert (found["kind"], found.get("is_note", False)) == (("text", True) if "label" in head else ("CSV", False))


@pytest.mark.parametrize("module", [bz2, lzma])
def test_a_packed_file_is_described_as_if_it_lay_there_unpacked(tmp_path: Path, module: Any) -> None:
    """With a call that unpacks it; what is no table or is cut has none."""
    path = tmp_path / f"x.csv.{module.__name__}"
    path.write_bytes(module.compress(b"a;b\n" + b"1;2,5\n" * 9))
    found = one(str(path), Clock(float("inf"), 2**20))
    (table,) = found["tables"]
    assert (found["kind"], table["rows"], [each["name"] for each in table["columns"]]) == ("CSV", 9, ["a", "b"])
    read = eval(table["call"], {"pl": pl, module.__name__: module})  # noqa: S307 - made by us
    assert read.schema == {"a": pl.Int64, "b": pl.Float64}
    path.write_bytes(module.compress(b"a,b\n" + b"1,2\n" * 9)[:-9])
    assert "tables" not in one(str(path), Clock(float("inf"), 2**20))
    path.write_bytes(module.compress(bytes(2**22)))
    assert one(str(path), Clock(float("inf"), 2**20))["note"] == "too large to be read whole"


def test_a_data_set_of_stata_has_its_labels(tmp_path: Path) -> None:
    """Also where two values of a variable have the same one, so that pandas can't read these."""
    path = tmp_path / "x.dta"
    frame = pd.DataFrame({"state": ["AL", "AK"], "kind": [1, 2]})
    labels = {"kind": "what it is"}
    for values in ({1: "one", 2: "two"}, {1: "one", 2: "one"}):
        frame.to_stata(path, write_index=False, variable_labels=labels, value_labels={"kind": values})
        found = one(str(path), Clock(float("inf"), 2**20))
        (table,) = found["tables"]
        assert (found["kind"], table["rows"]) == ("Stata", 2)
        assert [each.get("label") for each in table["columns"]] == [None, "what it is"]
        assert eval(table["call"], {"pl": pl, "pd": pd}).height == 2  # noqa: S307 - made by us


def test_a_word_of_the_shape_of_all_codes_is_one_of_them(tmp_path: Path) -> None:
    """Na is sodium where each row has another element; of countries in many rows, nobody knows; else it is missing."""
    signs = [f"{a}{b}" for a in "BCD" for b in "aeioulr"]
    path = tmp_path / "x.csv"
    rows = [f"{sign},{sign.upper()},{sign * 3},{at % 9},{at / 7}" for at, sign in enumerate([*signs, "Na"])]
    path.write_text("sign,country,name,grade,n\n" + "\n".join([*rows, ",NA,Na,NA,NA", ",CA,x,3,1.5"]) + "\n")
    (table,) = one(str(path), Clock(float("inf"), 2**20))["tables"]
    told = {each["name"]: (each.get("missing"), each.get("sentinels")) for each in table["columns"]}
    assert told == {
        "sign": (None, None),
        "country": (None, {"NA": 2}),
        "name": ({"Na": 1}, None),
        "grade": ({"NA": 1}, None),
        "n": ({"NA": 1}, None),
    }
    read = eval(table["call"], {"pl": pl})  # noqa: S307 - made by us
    assert read["country"].to_list().count("NA") == 2
    assert read["n"].null_count() == 1


def test_what_others_take_of_the_processors_counts_for_a_part() -> None:
    """A wait for nothing counts whole, and so does what a process does itself."""
    code = (
        "import time; from nbagent.kernel.inside.clock_inside import Watch\n"
        "watch, began = Watch(), time.monotonic()\n"
        "while time.process_time() < 3: pass\n"
        "print(time.monotonic() - began, watch.now())\nhere = watch.now(); time.sleep(0.5); print(watch.now() - here)"
    )
    (allowed,) = sorted(os.sched_getaffinity(0))[:1]
    pinned = ["taskset", "-c", str(allowed), sys.executable, "-c"]
    others = [subprocess.Popen([*pinned, "while True: pass"]) for _ in range(3)]
    try:
        whole, own, asleep = map(float, subprocess.check_output([*pinned, code], text=True).split())
    finally:
        for each in others:
            each.kill()
            each.wait()
    assert whole / 3.5 < own < 0.75 * whole
    assert asleep > 0.4


def test_a_long_listing_is_data_and_comments_may_begin_with_an_exclamation_mark(tmp_path: Path) -> None:
    """A text of a megabyte explains nothing, unless its name says so."""
    block = "28-36-38   (hex)\t\tAnn, Inc.\n\t\t\t\tRoad 1\n\t\t\t\tUS\n\n"
    for name, count, is_note in (("x.txt", 9999, False), ("README.txt", 9999, True), ("x.txt", 9, True)):
        (tmp_path / name).write_text("Range        Organization\n\n" + block * count)
        assert one(str(tmp_path / name), Clock(float("inf"), 2**20))["is_note"] is is_note
    path = tmp_path / "ellips.txt"
    path.write_text("!\n! By mail, of us, to all\n!\n" + '"E009","Airy 1830",6377563.396,6356256.91\n' * 9)
    (table,) = one(str(path), Clock(float("inf"), 2**20))["tables"]
    assert table["rows"] == 9
    assert "skip_lines=3, has_header=False" in table["call"]


def test_sentences_are_no_null_words_and_years_may_stand_among_dates(tmp_path: Path) -> None:
    """Words below a table are those of a note; what is sometimes a year and else a day is told as both."""
    path = tmp_path / "x.csv"
    rows = "".join(f"{at},{1975 + at if at % 3 else f'{1975 + at}-05-01'},x\n" for at in range(1, 12))
    path.write_text(f"n,withdrawn,k\n{rows}All figures are as of then.,1990,x\n")
    (table,) = one(str(path), Clock(float("inf"), 2**20))["tables"]
    number, date, _ = table["columns"]
    assert "null_values" not in table["call"]
    assert number["others"] == {"All figures are as of then.": 1}
    assert (date["form"], date.get("others")) == ("%Y or %Y-%m-%d", None)


def test_comments_amid_rows_cost_no_rows(tmp_path: Path) -> None:
    """Nor do rows before them that have fewer fields than others; the call that is told reads all."""
    short = "".join(f'"D-{n:02}","Place (a, b)","E0"\n' for n in range(12))
    long = "".join(f'"D{n:03}","Place","E0",{n},0,0,"x" ,1\n' for n in range(300))
    path = tmp_path / "datum.txt"
    path.write_text(f'! Of "1" and more\n!\n"A title, of 1984"\n{short}!"D-19","Off (c, d)","E0"\n{long}')
    found = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]
    assert found["rows"] == 312
    frame = eval(found["call"], {"pl": pl, "pd": pd})  # noqa: S307 - made by us
    assert frame.height == 312
    assert frame[:, 0][0] == "D-00"
    assert frame[:, 1][0] == "Place (a, b)"


def test_a_row_of_codes_after_a_sign_is_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("name,n\n" + "".join(f"{'#' * (n % 2)}{n},{n}\n" for n in range(20)))
    assert one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["rows"] == 20


@pytest.mark.parametrize(
    "rows",
    [
        [
            f"{('AD', 'Xy')[n % 2]}{'Q' * (n % 3)}\t{'+-'[n % 2]}{4230 + n}{('15-', '+')[n % 3 > 0]}131\t{place}"
            for n, place in enumerate(["Europe/Andorra", "Etc", "Asia/Ho Chi Minh"] * 7)
        ],
        ["5 10 20\tRome", *(f"{n % 4} {n}{n}\t{('Europe', 'Etc a b', 'Kö-2')[n % 3]}" for n in range(20))],
    ],
)
def test_a_first_row_of_numbers_parted_by_spaces_or_of_coordinates_is_no_header(
    tmp_path: Path, rows: list[str]
) -> None:
    path = tmp_path / "zone.tab"
    path.write_text("\n".join(rows) + "\n")
    assert one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["rows"] == 21


@pytest.mark.parametrize(
    "below", ["Source: World Bank, 2021\nValues, estimated.\n", "\nAll values are those of the last census.\n"]
)
def test_what_stands_below_a_table_is_no_row(tmp_path: Path, below: str) -> None:
    """The call that is told leaves it out, and the columns have the types of the rows."""
    path = tmp_path / "x.csv"
    path.write_text(f"country,2019,2020\nFrance,1,2\nItaly,3,4\nSpain,5,6\n{below}")
    found = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]
    assert found["rows"] == 3
    frame = eval(found["call"], {"pl": pl})  # noqa: S307 - made by us
    assert frame.height == 3
    assert frame.dtypes == [pl.String, pl.Int64, pl.Int64]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("id,review,rating\n" + "1,Good.,1\n" * 20 + "21,It is quite good for what one pays here.,\n" * 5, 25),
        ("name,review,rating\n" + "n,Good.,1\n" * 9 + "n,It is quite good for what one pays here.,\n" * 3, 12),
        ("review,rating\n" + "".join(f"It is rather good for what one pays here.,{n}\n" for n in [*"12345", ""]), 6),
        ("a,b,c\nCash,1,2\nPlants,3,4\nNotes,31,\n", 3),
        ("club;also;note\nHamburg;;\nKoeln;FC Koeln;\nHertha;;\nUerdingen;;until 1995 Bayer\nBonn;;\nUlm;;\n"
         "Wolfsburg;;\nBochum;;\nFreiburg;;\nTurn- und Sportverein von 1860 Muenchen e.V.;;\nEssen;;\n", 11),
        ("a,b,c\nSums of all,1,2\nPlants,3,4\nSources of income,30,\n", 3),
        ("a,b,c\nFrance,1,2\nPeru,3,4\nSpain,,\nSource: World Bank\n", 3),
    ],
)  # fmt: skip
def test_a_last_row_without_all_values_is_one(tmp_path: Path, text: str, rows: int) -> None:
    """Whatever words its first fields begin with, and though a sentence is in them."""
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["rows"] == rows


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (["-9999.", "1.5", "3.25"], "-9999."),
        (["999.9", "55.1", "12.5"], "999.9"),
        (["99.99", "0.1", "1.2"], "99.99"),
        (["-99", "5", "30"], "-99"),
        (["99", "98", "97"], ""),
        (["999", "998.5", "-3"], ""),
    ],
)
def test_numbers_far_from_all_others_may_mean_missing(tmp_path: Path, values: list[str], missing: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{n},{values[n % 3]}\n" for n in range(30)))
    column = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["columns"][1]
    assert column.get("sentinels", {}) == ({missing: 10} if missing else {})
    assert missing or column["high"] == max(map(float, values))


def test_99_in_few_rows_is_a_number_like_others(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"r{n},{n if n <= 30 else 99}\n" for n in range(1, 33)))
    column = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["columns"][1]
    assert (column["high"], column.get("sentinels")) == (99, None)


def test_of_long_comments_the_last_lines_and_the_first_of_the_data_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "f0.dat"
    path.write_text(
        "#F f0\n" + "#UD  Licence and so on\n" * 200 + "#S  1  H\n#N 3\n#L a  b  c\n 0.41 0.29 0.18\n#S 2 He\n 1 2\n"
    )
    text = one(str(path), Clock(monotonic() + 9, MIB))["text"]
    assert text.startswith("#F f0\n…\n")
    assert "#L a  b  c\n 0.41 0.29 0.18" in text
    page = tmp_path / "x.xsd"
    page.write_text("<?xml version='1.0'?>\n<!-- " + "licence " * 400 + "-->\n<schema><a/></schema>\n")
    assert one(str(page), Clock(monotonic() + 9, MIB))["text"].endswith("<schema><a/></schema>\n")


def test_times_are_alike_however_they_are_written(tmp_path: Path) -> None:
    """In text, as a column has them that has a type, and at the begin of a day."""
    sketches = []
    for at, form in enumerate(("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")):
        path = tmp_path / f"{at}.csv"
        times = pl.datetime_range(datetime(2013, 1, 1), datetime(2013, 1, 3), "1h", eager=True).dt.strftime(form)
        path.write_text("\n".join(["when,n", *(f"{each},1" for each in times)]))
        column = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]["columns"][0]
        sketches.append(column.get("folded", column["sketch"]))
    pl.DataFrame(
        {"when": pl.datetime_range(datetime(2013, 1, 1), datetime(2013, 1, 3), "1h", eager=True)}
    ).write_parquet(tmp_path / "x.parquet")
    sketches.append(one(str(tmp_path / "x.parquet"), Clock(monotonic() + 9, MIB))["tables"][0]["columns"][0]["folded"])
    assert all(each == sketches[0] for each in sketches)


def profiled(path: Path, text: str | bytes) -> dict[str, Any]:
    """The profile of a table, and what its read call gives."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table: dict[str, Any] = one(str(path), Clock(monotonic() + 9, MIB))["tables"][0]
    table["frame"] = eval(table["call"], {"pl": pl, "pd": pd, "Path": Path})  # noqa: S307 - made by us
    return table


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        # Other columns have decimal commas, or thousands' points in several groups.
        (
            "st;packs;tax;pop\nal;116,486;32,5;3.973.000\nak;55,740;18;458.000\n",
            [(55.74, 116.486), (458_000, 3_973_000)],
        ),
        ("st\tpacks\ttax\nal\t116,486\t32,5\nak\t55,740\t18,25\n", [(55.74, 116.486)]),
        # A value that only one reading allows.
        ("n|pay\na|517,143\nb|67,5\nc|1100\n", [(67.5, 1100)]),
        ("n|pay\na|517,143\nb|0,123\n", [(0.123, 517.143)]),
        ("n|pay\n" + "".join(f"a|{n},{n}\n" for n in range(100, 999)) * 2 + "z|-0,576\n", [(-0.576, 998.998)]),
        ("n|pay\na|517,143\nb|1.234,5\n", [(517.143, 1234.5)]),
        ("n|pay\na|517,143\nb|1,234,567\n", [(517_143, 1_234_567)]),
        ("n|pay\na|517,143\nb|1,234.5\n", [(1234.5, 517_143)]),
        # A semicolon alone; a comma beside whole numbers; points that are decimal elsewhere.
        ("town;seats;share\nA;61.000;1,5\nB;69.250;2,5\n", [(61_000, 69_250), (1.5, 2.5)]),
        ("town;seats\nA;61,123\nB;69,250\n", [(61.123, 69.25)]),
        ('town,seats\nA,"61,123"\nB,250\n', [(250, 61_123)]),
        ("town;lat;seats\nA;52.52;61,123\nB;48.1;69,250\n", [(48.1, 52.52), (61_123, 69_250)]),
        ("town;lat;depth\nA;52.52;1.123\nB;48.1;2.250\n", [(48.1, 52.52), (1.123, 2.25)]),
    ],
)
def test_commas_and_points_of_a_table_are_read_in_one_way(
    tmp_path: Path, text: str, ends: list[tuple[float, float]]
) -> None:
    """By what its values allow, and what parts them; the ranges that are told are those of what the call gives."""
    table = profiled(tmp_path / "x.psv", text)
    told = [(each["low"], each["high"]) for each in table["columns"] if "low" in each]
    assert [each for each in told if each in ends] == ends
    for each, column in zip(table["frame"].get_columns(), table["columns"], strict=True):
        if "low" in column:
            assert (each.min(), each.max()) == (column["low"], column["high"])
            assert "others" not in column


@pytest.mark.parametrize(("last", "pointed"), [("947", [12, 4756]), ("947.5", None)])
def test_few_points_that_may_be_ones_of_thousands_are_told_of(
    tmp_path: Path, last: str, pointed: list[int] | None
) -> None:
    """By other files of a family they may be known."""
    table = profiled(tmp_path / "x.csv", "town;n\na;12\nb;4.756\nc;1.028\nd;" + last + "\n")
    assert table["columns"][1].get("pointed") == pointed


def test_a_comma_that_nothing_explains_is_told_with_both_readings(tmp_path: Path) -> None:
    table = profiled(tmp_path / "x.tsv", "town\tseats\n" + "".join(f"t{n}\t{n},{n}\n" for n in range(100, 120)))
    column = table["columns"][1]
    assert (column["form"], "low" in column) == ("1,234 may be 1234 or 1.234", False)


FIXED = (
    "WORLD TABLE (EXTRACT), 1960-85\nCOUNTRY         YEAR OPEC      POP     SR\n"
    "-----------------------------------------\n"
    + "".join(f"{name:15} {year} {'N':>4} {pop:8} {rate:6}\n" for name, year, pop, rate in (
        ("ALGERIA", 1960, 10800, 19.9), ("ALGERIA", 1961, 11016, 21.1), ("GERMANY WEST", 1960, 55433, 29.0),
        ("GERMANY WEST", 1961, 56185, 29.5), ("PAPUA N.GUINEA", 1960, 3070, 15.8), ("U.S.A.", 1960, 180671, ""),
        ("TRINIDAD & TOB.", 1960, 828, 31.1), ("TOGO", 1960, 1514, 5.2), ("TOGO", 1961, 1554, 5.5),
        ("CHAD", 1960, 3064, 7.1)))
)  # fmt: skip


@pytest.mark.parametrize("below", ["", "-----------------------------------------\nEND OF FILE\n"])
def test_columns_at_places_without_a_separator_are_found_by_their_gaps(tmp_path: Path, below: str) -> None:
    """With the names above them; a rule and words below them are no rows."""
    table = profiled(tmp_path / "x.txt", FIXED + below)
    assert "read_fwf" in table["call"]
    assert table["frame"].columns == ["COUNTRY", "YEAR", "OPEC", "POP", "SR"]
    assert table["frame"].row(5) == ("U.S.A.", 1960, "N", 180_671, None)
    assert (table["rows"], table["raw"][1]) == (10, "COUNTRY         YEAR OPEC      POP     SR")


@pytest.mark.parametrize(
    "note",
    [
        "   Bytes Format Units  Label  Explanations\n  1-  2 I2 ---   year   add 1900\n  3-  4 I2 ---   month\n"
        "      6 A1 ---   flag   I or P\n  7- 13 F7.4 s   UT1    Bull. A\n",
        "Columns:\n 1-2    year\n 3-4    month\n 6      flag   (I or P)\n 7-13   UT1\n\n7 years\n",
        "col 1-2: year\ncol 3-4: month\ncol 6: flag\ncol 7-13: UT1\n",
    ],
)
def test_columns_at_the_places_that_a_note_tells_have_their_names(tmp_path: Path, note: str) -> None:
    """Also where rows end with spaces, two columns touch each other, and a sign stands before a number."""
    (tmp_path / "ReadMe.finals").write_text(note)
    rows = "".join(f"{at % 97:2}{at % 12 + 1:2} I{(-1) ** at * at / 7:7.4f}    \n" for at in range(1, 40))
    table = profiled(tmp_path / "finals.txt", rows)
    assert "colspecs=[(0, 2), (2, 4), (5, 6), (6, 13)]" in table["call"]
    assert table["frame"].columns == ["year", "month", "flag", "UT1"]
    assert table["frame"].row(1) == (2, 3, "I", 0.2857)


def test_a_note_of_spaces_costs_little(tmp_path: Path) -> None:
    """Each line is read once."""
    note = tmp_path / "README.txt"
    begun = monotonic()
    for line in ("1" + " " * 200_000, "1" + " " * 100_000 + "- 2" + " " * 100_000):
        note.write_text(line)
        layouts.cache_clear()
        assert not layouts(str(note))
    assert monotonic() - begun < 2


def test_a_list_of_ages_lays_out_nothing(tmp_path: Path) -> None:
    """It says of no file where columns stand."""
    (tmp_path / "README.txt").write_text("Groups\n 1-4 toddlers\n 5-9 children\n 10-14 others\n")
    path = tmp_path / "x.txt"
    path.write_text("It was one day.\nWhat a day\nit was, and so on\n" * 9)
    assert not one(str(path), Clock(monotonic() + 9, MIB)).get("tables")


def test_units_between_names_and_a_rule_are_no_row(tmp_path: Path) -> None:
    """They say something of their columns."""
    head, rule, *rows = FIXED.splitlines()[1:]
    text = "\n".join([head, f"{'':16}{'':4} {'':4} {'thous.':>8} {'percent':>6}", rule, *rows])
    table = profiled(tmp_path / "x.txt", text)
    assert (table["frame"].height, table["frame"]["POP"].dtype) == (10, pl.Int64)
    assert table["columns"][3]["label"] == "thous."


def test_prose_has_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("It was 1 of 20 days.\nOn the 3rd, all went.\nWhat a day it was, 40 years ago\nand so on.\n" * 9)
    assert not one(str(path), Clock(monotonic() + 9, MIB)).get("tables")


@pytest.mark.parametrize(
    ("early", "late", "count"), [("utf-8", "cp1252", 30), ("cp1252", "utf-8", 30), ("utf-8", "cp1252", 9_000)]
)
def test_a_table_in_two_encodings_is_read_in_both(tmp_path: Path, early: str, late: str, count: int) -> None:
    head = "n,town\n" + "".join(f"{n},Köln\n" for n in range(count))
    tail = "".join(f"{n},Zürich “Nord”\n" for n in range(20))
    table = profiled(tmp_path / "x.csv", head.encode(early) + tail.encode(late))
    assert sorted(set(table["frame"]["town"])) == ["Köln", "Zürich “Nord”"]
    assert "in two encodings" in table["note"]


def test_99_is_one_of_the_numbers_of_a_column_that_has_nearly_all(tmp_path: Path) -> None:
    several = {name: profiled(tmp_path / f"{name}.csv", text)["columns"][1] for name, text in (
        ("dense", "a,b\n" + "".join(f"r{n},{n % 45 if n % 9 else 99}\n" for n in range(300))),
        ("few", "a,b\n" + "".join(f"r{n},{n % 5 if n % 9 else 99}\n" for n in range(300))),
    )}  # fmt: skip
    assert several["dense"].get("sentinels") is None
    assert several["few"]["sentinels"] == {"99": 34}


@pytest.mark.parametrize("word", ["Total", "Summe 175 Spieler", "Insgesamt", "Gesamt", "Somme", "grand total"])
def test_rows_of_sums_are_told(tmp_path: Path, word: str) -> None:
    rows = "".join(f"Town {n},{n}\n" for n in range(30))
    column = profiled(tmp_path / "x.csv", f"town,people\n{rows}Totalville,3\n{word},438\n")["columns"][0]
    assert column["sums"] == {word: 1}


def test_of_a_database_whose_rows_take_too_long_the_columns_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table towns (name text, people integer)")
    monkeypatch.setattr("nbagent.kernel.inside.profile_inside.one", lambda *_: sleep(2))
    found = in_time(str(path), 0.5, MIB, Watch())
    (table,) = found["tables"]
    assert found["note"] == "took too long to read"
    assert table["columns"] == [{"name": "name", "dtype": "TEXT"}, {"name": "people", "dtype": "INTEGER"}]
    path.write_text("no database")
    assert tables_ahead(str(path)) == tables_ahead(str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ("~{:05}~^~{}~^~Crème, {:.0f} ~^4.27^{:.2f}", "separator='^', quote_char='~', encoding='cp1252'"),
        ("'{:05}','{}','Crème, {:.0f} ',4.27,{:.2f}", "quote_char=\"'\", encoding='cp1252'"),
        ("{:05}^{}^Crème, {:.0f}^4.27^{:.2f}", "separator='^', encoding='cp1252'"),
    ],
)
def test_other_signs_part_fields_or_stand_around_texts(tmp_path: Path, row: str, options: str) -> None:
    path = tmp_path / "foods.txt"
    path.write_bytes("".join(f"{row.format(at, 'ab'[at % 2], at, at / 7)}\n" for at in range(999)).encode("cp1252"))
    found = one(str(path), Clock(9e9, MIB))
    (table,) = found["tables"]
    assert f"{options}, has_header=False, schema_overrides={{'column_0': pl.String}}" in table["call"]
    frame = eval(table["call"], {"pl": pl})  # noqa: S307 - made of reprs
    assert frame.row(8)[:2] == ("00008", "a")
    assert frame.row(8)[2].strip() == "Crème, 8"
    assert table["rows"] == frame.height == 999


def test_names_with_commas_part_no_columns_at_places(tmp_path: Path) -> None:
    """The header above the rule names them, codes keep their zeros, and one call reads lists of any length."""
    calls = set()
    for count in (40, 90):
        named = [f"{at:05}  {['', 'de '][at % 2] + f'Li{at}, Wei':<20}{2000 + at:6}" for at in range(count)]
        rows = [f"{each}{2100 - at if at % 9 else '?':>6}" for at, each in enumerate(named)]
        head = ["Ratings 2001", "", f"   Nr  Name{'Jan':>22}{'Apr':>6}", "-" * 39]
        path = tmp_path / "list.txt"
        path.write_text("\r\n".join([*head, *rows, head[-1], f"Players: {count}", ""]))
        found = one(str(path), Clock(9e9, MIB))
        (table,) = found["tables"]
        calls.add(table["call"])
        frame = eval(table["call"], {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs
        assert frame.columns == ["Nr", "Name", "Jan", "Apr"]
        assert frame.row(8) == ("00008", "Li8, Wei", 2008, "2092")
        assert frame.height == table["rows"] == count
        assert any("Name" in line for line in table["raw"])
    assert len(calls) == 1


@pytest.mark.parametrize("space", [" ", "\xa0", "\u202f"])
def test_thousands_parted_by_spaces_are_numbers(tmp_path: Path, space: str) -> None:
    """With what they are up to, and a call that makes numbers of them; also those with decimal commas."""
    rows = "".join(f"0{at};c{at};{at % 999};{at}{space}003;{at}{space}003,5\n" for at in range(1, 300))
    found = profiled(tmp_path / "x.csv", f"code;name;small;n;share\n{rows}09;d;7;999;2,25\n")
    frame = eval(found["call"], {"pl": pl})  # noqa: S307 - made of reprs
    assert [str(each) for each in frame.dtypes] == ["String", "String", "Int64", "Int64", "Float64"]
    assert frame.row(0)[3:] == (1003, 1003.5)
    n, share = found["columns"][3:]
    assert (n["dtype"], n["low"], n["high"], n["form"]) == ("Int64", 999, 299_003, "written with thousands blanks")
    assert (share["dtype"], share["low"], share["high"]) == ("Float64", 2.25, 299_003.5)
    odd = profiled(tmp_path / "y.csv", f"code;name;small;n;share\n{rows}09;d;7;see below;2,25\n")["columns"][3]
    assert (odd["low"], odd["high"]) == (1003, 299_003)
    codes = profiled(tmp_path / "z.csv", "a;b\n" + "".join(f"702{space}{at};x\n761;y\n" for at in range(101, 140)))
    assert (codes["columns"][0]["dtype"], codes["columns"][0].get("written")) == ("String", None)


def test_fields_between_carets_are_a_table(tmp_path: Path) -> None:
    """Food tables have such, with texts that have commas."""
    file = tmp_path / "foods.txt"
    file.write_text("".join(f"~{at:05}~^~Cheese, no. {at}~^{at}.5\n" for at in range(20)))
    (table,) = one(str(file), Clock(monotonic() + 60, MIB))["tables"]
    assert (table["rows"], table["width"]) == (20, 3)
    assert "separator='^', quote_char='~', has_header=False" in table["call"]


def test_a_list_of_names_with_commas_has_its_columns_by_places(tmp_path: Path) -> None:
    """A comma of a name has a space behind it; what stands below is left out as in a list of another length."""
    names = ["Aagaard, Jacob", "Abasov, Nijat Ali", "Adams, Michael", "Adly, Ahmed", "Bo, Li"]
    calls = set()
    for count in (40, 55):
        file = tmp_path / "list.txt"
        rows = [f"{at:05}  {names[at % 5]:24}{2300 + at:6}{2350 + at:6}" for at in range(count)]
        head = ["Numbers 2003", "", "   Nr  Name                       Jan   Apr", "-" * 43]
        file.write_text("\n".join([*head, *rows, "-" * 43, f"Players: {count}"]) + "\n")
        (table,) = one(str(file), Clock(monotonic() + 60, MIB))["tables"]
        assert (table["rows"], [each["name"] for each in table["columns"]]) == (count, ["Nr", "Name", "Jan", "Apr"])
        assert table["raw"][2] == head[2]
        calls.add(table["call"])
    assert len(calls) == 1


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u202f"])
def test_numbers_with_blanks_are_read_as_numbers(tmp_path: Path, blank: str) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("town;people\n" + "".join(f"t{at};{at}{blank}0{at}0\nu{at};{at}\n" for at in range(1, 9)))
    (table,) = one(str(file), Clock(monotonic() + 60, MIB))["tables"]
    people = table["columns"][1]
    assert (people["dtype"], people["form"], people["low"], people["high"]) == (
        *("Int64", "written with thousands blanks"),
        *(1, 8080),
    )
    frame = eval(table["call"], {"pl": pl})  # noqa: S307 - made of reprs
    assert frame["people"].sum() == sum(at * 1011 for at in range(1, 9))


def test_names_of_places_are_neither_faults_nor_sums(tmp_path: Path) -> None:
    """Err and Somme-Bionne are communes; among numbers, the first is a fault."""
    file = tmp_path / "communes.csv"
    places = ["Err", "Somme-Bionne", "Somme-Vesle", *(f"Ville {at}" for at in range(30))]
    file.write_text("name;n\n" + "".join(f"{each};{at if at else 'Err'}\n" for at, each in enumerate(places)))
    name, number = one(str(file), Clock(monotonic() + 60, MIB))["tables"][0]["columns"]
    assert not {"missing", "sums"} & name.keys()
    assert number["missing"] == {"Err": 1}
