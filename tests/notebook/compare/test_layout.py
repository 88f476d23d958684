"""How text is laid out and coloured: what stands below which word, and what the colour of a page hides."""

from __future__ import annotations

import time

import machine
import pytest
from notebook.compare.shared import MOMENTS, TIMED, compared, result, stream

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import Context

TABLE = "name  a  b\nx     1   \ny        2\n"


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        (TABLE, TABLE.replace("1   ", "   1")),
        ("a:\n  b: 1\nc: 2\n", "a:\n  b: 1\n  c: 2\n"),
        ("profit ---5", "profit 5"),
        (f"begin\n{TABLE}", f"begin\n{TABLE}".replace("1   ", "   1")),
        ("name    a     b\n---------------\nx             5\n", "name    a     b\n---------------\nx       5\n"),
        ("       a    b\nkey\nx           1\n", "       a    b\nkey\nx      1\n"),
        ("name   a    b\n\nx           5\n", "name   a    b\n\nx      5\n"),
        ("a          b\n       1\n", "a          b\n   1\n"),
        ("n  a  b\nx\x1b[0m     1\n", "n  a  b\nx  1\n"),
        ("n\ta\tb\nx\t\t1\n", "n\ta\tb\nx\t1\n"),
        ("t  a  b\nx     1\nt  a  b\nx  1\n", "t  a  b\nx  1\nt  a  b\nx     1\n"),
        (
            "n  a  b\nr  1  1\ns  2  2\nu  3  3\nv  4  4\nz     5\n",
            "n  a  b\nr  1  1\ns  2  2\nu  3  3\nv  4  4\nz  5\n",
        ),
    ],
)
def test_a_number_belongs_to_what_it_stands_below(stored: str, fresh: str) -> None:
    """Where no line parts columns, its place says what it is."""
    assert compared(stored, fresh).differences
    assert compared(fresh, fresh).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh", "again"),
    [
        ("m   a    b    took\nx        0.9  1.23 s\n", "m   a    b    took\nx   0.9       1.31 s\n", "1.35"),
        ("m   a    b    took\nx        0.9  12.23 s\n", "m   a    b    took\nx   0.9       1.31 s\n", "1.35"),
        ("took 12.25 s\nm   a   b\nx       5\n", "took 1.31 s\nm   a   b\nx   5\n", "1.35"),
    ],
)
def test_a_time_beside_them_hides_no_other_column(stored: str, fresh: str, again: str) -> None:
    """It may push what stands to its right."""
    runs = fresh, fresh.replace("1.31", again)
    assert [each.where for each in compared(stored, *runs, code=TIMED).differences] == ["place in a line"]
    assert compared(fresh.replace("1.31", "12.31"), *runs, code=TIMED).differences == []


def test_cells_of_a_table_in_markdown_may_be_empty() -> None:
    """Its rules have lines of other signs, too."""
    head = "|a|b|c|d|\n|---|---|---|---|\n"
    runs = [[result(text_markdown=head + row)] for row in ("|||5|", "||||5|")]
    assert compare(*runs, Context(moments=MOMENTS)).differences


@pytest.mark.parametrize(
    ("stored", "fresh", "code"),
    [
        ("a  b\n1  2", "a     b\n1     2", ""),
        ("a   b", "a b", ""),
        ("took 1.25 s to do\nit all at once", "took 12.5 s to do\nit all at once", TIMED),
        ("1 2 3\n4 5 6", "1 2\n3 4\n5 6", ""),
        ("what  took  n\nall   1.25 s  3", "what         took  n\nall   1 min 12.5 s  3", TIMED),
    ],
)
def test_wider_columns_are_no_difference(stored: str, fresh: str, code: str) -> None:
    """Nor where values that may differ push others, or a terminal is as wide as another."""
    assert compared(stored, fresh, fresh.replace("12.5", "9.25"), code=code).differences == []


def test_lines_end_alike_where_the_same_programs_ran() -> None:
    """Else a line more would lead what is compared astray."""
    context = Context(moments=MOMENTS, same_programs=True)
    assert compare([stream("a 1\nb\n2\n")], [stream("a 1\nb 2\n")], context).differences
    assert not compare([stream("a 1\n\nb 2\n")], [stream("a 1\nb 2\n")], context).differences


@pytest.mark.parametrize(
    "begin",
    [
        "38;2;255;255;255",
        "38;5;231",
        "8",
        "97",
        "30",
        "37",
        "31;41",
        "41;31",
        "7;37",
        "1;0;97",
        "48;5;0;30",
        "00000000097",
        "38;39",
    ],
)
def test_text_in_the_colour_of_a_page_is_a_difference(begin: str) -> None:
    """Nobody would see it; also where only a part of a line is so."""
    found = compared(f"\x1b[{begin}mnot \x1b[0msignificant", "not significant").differences
    assert [each.where for each in found] == ["colours"]
    again = f"\x1b[{begin}mnot \x1b[0msignificant"
    assert compared(again, again.replace("[0m", "[m")).differences == []
    assert compared(again, again.replace("[0m", "[2K\x1b[0m")).differences == []
    assert compared(f"not \x1b[{begin}msignificant", again).differences


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("\x1b[32mfailed\x1b[0m", "\x1b[31mfailed\x1b[0m"), ("failed", "\x1b[31mfailed\x1b[0m"),
        ("\x1b[31mA\x1b[0m \x1b[32mB\x1b[0m", "\x1b[32mA\x1b[0m \x1b[31mB\x1b[0m"),
        ("\x1b[9m5\x1b[0m", "5"), ("\x1b[1mnot\x1b[0m ok", "not ok"), ("\x1b[38:5:9mA\x1b[0m", "\x1b[38:5:2mA\x1b[0m"),
        ("\x1b[32mfailed\x1b[0m in 1.25 s", "\x1b[31mfailed\x1b[0m in 11.31 s"),
    ],
)  # fmt: skip
def test_a_colour_says_what_text_means(stored: str, fresh: str) -> None:
    """Where the same programs ran, each run has the same; a bar's doesn't count."""
    context = Context(moments=MOMENTS, same_programs=True, reads=Code().take(TIMED))
    again = [[stream(fresh.replace("11.31", "1.35"))]]
    assert compare([stream(stored)], [stream(fresh)], context, again=again).differences
    assert compare([stream(fresh.replace("11.31", "1.2"))], [stream(fresh)], context, again=again).differences == []
    assert (
        compare([stream(f"{fresh}\x1b[31m━━\x1b[0m")], [stream(f"{fresh}\x1b[32m━━")], context, again=again).differences
        == []
    )


def test_other_colours_are_no_difference() -> None:
    """As another version of a library has; nor those of lines that differ, as far as a run has them."""
    assert compared("\x1b[1;31mred\x1b[0m \x1b[4mx\x1b[24m", "red x").differences == []
    line = "\x1b[38;5;240m{}\x1b[0m took 1"
    assert compared(line.format("2.5 s"), line.format("1.5 s"), line.format("1.7 s"), code=TIMED).differences == []
    assert compared(line.format("2.5 s"), "1.5 s took 1", "1.7 s took 1", code=TIMED).excused == {"timing"}


def test_long_texts_take_no_time() -> None:
    """Which grows with their size and no faster."""
    begun = time.process_time()
    compared("\x1b[38;5;1ma " * 100_000, "\x1b[38;5;2ma " * 100_000)
    compared("a b  c\n" * 100_000, "a  b c\n" * 100_000)
    assert time.process_time() - begun < 20


def test_a_line_that_stands_right_of_where_places_count_is_no_error() -> None:
    """In one run only: a time of another width beside it says up to where."""
    fresh = "x  10.55 s\n      a  1"
    assert compared("x  1.5 s\na  1", fresh, fresh.replace("10.55", "11"), code=TIMED).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("a " * 20_000 + "\na" * 20_000, "a " * 20_000 + "\n a" + "\na" * 19_999),
        ("ACGT" * 50_000, "ACGT" * 50_000 + " "), ("a\x1b[31m" + "b" * 100_000, "a\x1b[31m" + "b" * 100_000 + " "),
    ],
)  # fmt: skip
def test_many_lines_below_a_long_one_and_long_words_take_no_time(stored: str, fresh: str) -> None:
    """Each was looked at from each of its signs, and the long line from each below it: the square of the time."""
    context = Context(moments=MOMENTS, same_programs=True)
    machine.within(20, lambda: compare([stream(stored)], [stream(fresh)], context))
