"""What of the texts is told that explain tables."""

from __future__ import annotations

import re

import machine
import pytest
from agent.dataset.profiled import SALES, section, table

from nbagent.agent.dataset.notes import labels, sentences
from nbagent.agent.dataset.section import DataView
from nbagent.agent.dataset.text_forms import clipped
from nbagent.kernel.describe import Profiles
from nbagent.kernel.profile import Column, FileProfile, Table


def test_a_note_belongs_to_the_table_of_its_name() -> None:
    """The question's words in it find the table, and it is told before notes of other tables; also within names."""
    files = [
        table(f"/tmp/data/{name}.csv", *(f"{name}{at}" for at in range(9))) for name in ("MASchools", "hmda", "mlb")
    ]
    texts = {"mlb": "Salary data. \n\n- salary: in $1000s", "hmda": "Loans. " * 60, "MASchools": "Tests. " * 60}
    files += [FileProfile(f"/tmp/data/{n}.html", kind="HTML", text=t, is_note=True) for n, t in texts.items()]
    told = section(files, "What was the median salary?")
    assert told.index("mlb.html") < told.index("hmda.html")
    assert told.index('- "/tmp/data/mlb.csv"') < told.index('- "/tmp/data/MASchools.csv"')
    told = section(files, "How many schools?")
    assert told.index('- "/tmp/data/MASchools.csv"') < told.index('- "/tmp/data/hmda.csv"')


def test_notes_come_first_and_nearly_whole() -> None:
    """A README is told before the tables."""
    note = FileProfile(
        "/tmp/data/README.md", kind="text", size=900, text="Violation means above 104. " * 30, is_note=True
    )
    told = section([SALES, note])
    assert told.count("above 104") == 30
    assert told.index("README") < told.index("sales.csv")


def test_what_explains_a_folder_is_told_whole() -> None:
    """Whatever it is called, and beside other texts that the question touches more."""
    rules = "".join(f"\n\nRule {at}\n{'It holds for all of them. ' * 4}" for at in range(18))
    for name in ("README.txt", "LISEZMOI.txt", "Liesmich.md"):
        note = FileProfile(f"/tmp/data/{name}", kind="text", size=2500, text=f"Data.{rules}", is_note=True)
        other = FileProfile("/tmp/data/sales.txt", kind="text", text="Sales. " * 300, is_note=True)
        files = [note, other, *(table(f"/tmp/data/{n}.csv", f"c{n}", "d") for n in range(9))]
        assert section(files, "Which sales are there?").count("Rule ") == 18


def test_of_a_long_note_the_question_chooses() -> None:
    """Its beginning, its headings and what the question touches; what is left out is marked."""
    parts = [
        "# Manual",
        "About.",
        *(f"## Part {n}\n\n{'Nothing. ' * 30}" for n in range(20)),
        "Fraud is by volume.",
        "End.",
    ]
    note = FileProfile("/tmp/data/manual.md", kind="text", size=9000, text="\n\n".join(parts), is_note=True)
    told = section([SALES, note], "Which share is fraudulent?")
    assert "# Manual" in told
    assert "…\\nFraud is by volume." in told
    assert "## Part 9" in told


def test_a_note_is_told_by_its_lines_that_the_question_touches() -> None:
    """Also where it is one table of hundreds of lines; a licence says nothing of the data."""
    lines = ["Byte-by-byte", *(f"{at} F4.1 label{at} something else of no matter" for at in range(200))]
    lines[150] = "80-86 F7.4 ms LOD length of day"
    text = "Permission is hereby granted, free of charge, to all.\n\n" + "\n".join(lines)
    note = FileProfile("/tmp/data/ReadMe.finals", kind="text", text=text, is_note=True, size=9)
    told = section([note, *(table(f"/tmp/data/{n}.csv", f"c{n}") for n in range(9))], "Which day had the least length?")
    assert "LOD length of day" in told
    assert "Permission" not in told


def test_a_readme_explains_no_table_by_its_ending() -> None:
    """Another note's ending may be a table's name."""
    notes = [("README.md", "On salmon and its weight."), ("ReadMe.salt", "On trout and its weight.")]
    files = [FileProfile(f"/tmp/data/{name}", kind="text", is_note=True, text=text) for name, text in notes]
    files += [table(f"/tmp/data/{name}.csv", f"{name} a", f"{name} b") for name in ("aa", "md", "salt")]
    for asked, first in (("Which salmon?", "aa.csv"), ("Which trout?", "salt.csv")):
        tables = re.findall(r'- "/tmp/data/(\w+\.csv)"', section(files, asked))
        assert tables[0] == first


def test_a_note_is_linked_to_the_table_of_its_name() -> None:
    """It comes first if the question names that, also where the names of notes differ in numbers only."""
    files = [table(f"/tmp/data/{name}.csv", f"in {name}") for name in ("crime1", "crime2", "crime3", *"abcdefgh")]
    files += [
        FileProfile(f"/tmp/data/about/{name}.txt", kind="text", text=f"{name} has rates {name}", is_note=True, size=9)
        for name in ("crime1", "crime2", "crime3", "README_a", *"bcdefgh")
    ]
    told = section(files, "What rates has crime3?")
    assert told.index("crime3 has rates") < told.index('- "/tmp/data/crime3.csv"')
    assert "crime1 has rates" not in told
    where = told[told.index('- "/tmp/data/crime3.csv"') :].splitlines()[1]
    assert where == '    explained in: "crime3.txt"'
    assert '    explained in: "README_a.txt"' in section(files, "a.csv")
    database = FileProfile("/tmp/data/all.db", kind="SQLite database", tables=[Table("crime2"), Table("b")])
    for each in database.tables:
        each.columns, each.rows = [Column("x", dtype="TEXT"), Column(each.name)], 3
    view = DataView(Profiles([database, *files[11:]]))
    assert [each.notes for each in view.groups] == [["/tmp/data/about/crime2.txt"], ["/tmp/data/about/b.txt"]]


def test_labels_of_a_dictionary_stand_beside_its_columns() -> None:
    """Those of a note on another table don't."""
    text = (
        "name of data: crime\n+---+\n| variable | label |\n+---+\n| crmrte | crimes per person |\n| west | =1 if west |"
    )
    files = [
        table("/tmp/data/crime.csv", "crmrte", "west"),
        table("/tmp/data/other.csv", "crmrte", "west", "x"),
        FileProfile("/tmp/data/crime.txt", kind="text", text=text, is_note=True),
    ]
    first, second = DataView(Profiles(files)).groups
    assert [each.label for each in first.columns] == ["crimes per person", "=1 if west"]
    assert not any(each.label for each in second.columns)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("* ``icao``: four letters", "four letters"),
        ("- `icao` (text): four letters", "four letters"),
        ("icao: four letters", "four letters"),
        ("icao\tfour letters", "four letters"),
        ("| icao | four letters | text |", "four letters"),
    ],
)
def test_notes_tell_of_columns_in_several_forms(line: str, label: str) -> None:
    assert labels(line) == {"icao": label}


@pytest.mark.parametrize("line", ["|a|{}", "- a{}", "a\t{}", "`a`{}", "| a{}", "**a**({}", "a:{}"])
def test_a_long_line_of_a_note_takes_no_time(line: str) -> None:
    """Whatever stands in it that may part a name from what is said of it."""
    for sign in (" ", "\t", "-", "\u00a0", " \t"):
        machine.within(2, lambda sign=sign: labels(line.format(sign * 2_000) + 301 * "x"))


def test_a_text_that_the_question_names_in_other_words_is_told() -> None:
    """So is the README of the folder in which the data are."""
    others = [
        FileProfile(
            f"/tmp/data/README_{n}.txt", kind="text", text="An element and its atomic mass. " * 60, is_note=True
        )
        for n in range(8)
    ]
    files = [
        *others,
        *(table(f"/tmp/data/{n}.csv", "element", "mass") for n in range(8)),
        table("/tmp/data/xsf/ac.nff", "E", "f1", "f2"),
        FileProfile("/tmp/data/isotope_abundance.txt", kind="text", text="# By IUPAC\n1\tH\n", is_note=True),
        FileProfile("/tmp/data/xsf/read.me", kind="text", text="Scattering factors: 2 r f2.", is_note=True),
    ]
    assert 'isotope_abundance.txt" says' in section(files, "Which element has isotopic abundances by mass?")
    assert 'read.me" says' in section(files, "By the notes of the scattering-factor files, which element?")


def test_definitions_come_first_in_a_long_note_and_rules_are_left_out() -> None:
    """Whatever else the question has words of; also in German, and where the heading stands alone."""
    rest = "\n\n".join(f"Station {at} was founded in the year 19{at}. " * 4 for at in range(10, 40))
    for head in ("Begriffe\n  LOD    length of day\n  Mean   of whole years", "# Definitions\n\nLOD: length of day"):
        text = f"Stations\n========\n\n{rest}\n\n--------\n{head}\n\n{rest}"
        note = FileProfile("/tmp/data/README.txt", kind="text", text=text, is_note=True)
        told = section([note, table("/tmp/data/a.csv", "station")], "Which station was founded in the year 1912?")
        said = next(line for line in told.splitlines() if "README.txt" in line)
        assert "length of day" in said
        assert "founded in the year 1912" in said
        assert not re.search("={4}|-{4}", said)


def test_a_note_is_cut_where_a_sentence_ends() -> None:
    """Its lines may be broken where they are full; a table's lines stay what they are."""
    prose = (
        "The first sentence of a note that is broken in the middle,\nwhere its lines are full. "
        "Masses of an isotope are those\nof a neutral atom. And so on it goes."
    )
    assert sentences(prose)[1] == "Masses of an isotope are those of a neutral atom."
    assert sentences(
        "mass   of an isotope, in unified units of atomic mass\ncharge of an ion   in those of an electron's"
    ) == [
        "mass   of an isotope, in unified units of atomic mass",
        "charge of an ion   in those of an electron's",
    ]
    assert clipped("One sentence. Another one. A third one is too long", 40) == "One sentence. Another one.…"
    assert clipped("word " * 20, 42) == "word " * 7 + "word…"


def test_a_note_that_is_quoted_has_no_line_of_its_own() -> None:
    """Unless there is more to be said of it."""
    note = FileProfile("/tmp/data/README.md", kind="text", size=900, text="Violation means above 104.", is_note=True)
    assert section([SALES, note]).count("README") == 1
    note.note = "in two encodings"
    assert section([SALES, note]).count("README") == 2
