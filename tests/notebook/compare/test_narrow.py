"""Long texts are compared where they differ, in a time by their size; what is too much for that is told."""

from __future__ import annotations

import machine
import pytest
from notebook.compare.shared import MOMENTS, TIMED, compared, result

from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.narrow import narrowed
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import BEYOND, Context, Room

FRAME = '<iframe srcdoc="{}"></iframe>' + "<p>5 7 <b>x</b></p>" * 150_000
IDS = "".join(f"<i id='{{0}}{number:x}'>{number}</i>" for number in range(6_000)) + "<img> {1}"


def apart(form: str, *shown: str, mime: str = "text_html") -> Comparison:
    """What comes of one output that shows something else in each run."""
    stored, fresh, *again = ([result(**{mime: form.format(*each.split())})] for each in shown)
    return compare(stored, fresh, Context(moments=MOMENTS, reads=Code().take(TIMED)), again=again)


def test_a_long_page_is_compared_where_it_differs() -> None:
    """In a line of three megabytes, which took 21 seconds."""
    found = machine.within(400, lambda: apart(FRAME, "profit", "loss"))
    assert [(each.stored, each.fresh) for each in found.differences] == [("'profit'", "'loss'")]


def test_names_that_a_library_makes_up_are_so_in_a_long_page_too() -> None:
    """And what stands beside them is compared."""
    found = apart(IDS, "ab1 5", "cd2 5", "ef3 5")
    assert (found.differences, found.excused) == ([], {"id"})
    (found_one,) = apart(IDS, "ab1 5", "cd2 7", "ef3 7").differences
    assert (found_one.stored, found_one.fresh) == ("'5'", "'7'")


def test_what_is_not_looked_at_is_not_the_same() -> None:
    """Where all of a long text differs, and where a cell has many such texts."""
    many = "".join(f"<b>{{0}}{number}</b>\n" for number in range(200_000))
    found = machine.within(400, lambda: apart(many, "profit", "loss")).differences
    assert [(each.where, each.stored, each.cause) for each in found] == [("line 1", "'profit0…'", BEYOND)]
    context = Context(moments=MOMENTS, reads=Code().take(TIMED), room=Room(changes=1_000))
    lines = ["".join(f"took {0.001 * number + run:.4f} s\n" for number in range(1, 2_000)) for run in (0, 0.5, 0.7)]
    one, two, three = ([result(text_plain=each)] for each in lines)
    (last,) = compare(one, two, context, again=[three]).differences
    assert (last.where, last.cause) == ("line 1001", BEYOND)


@pytest.mark.parametrize("more", ["", "more\n"])
def test_the_line_that_differs_is_named(more: str) -> None:
    """Of a long text, as of a short one."""
    lines = [f"{number} of them\n" for number in range(20_000)]
    stored = "".join(lines)
    lines[12_345] = f"12345 of those\n{more}"
    found = compared(stored, "".join(lines)).differences
    assert (found[0].what, found[0].where, "them" in found[0].stored) == ("stdout", "line 12346", True)


def test_lines_that_stood_apart_do_not_meet() -> None:
    """Rows of a profile and bars that follow one another are compared as one: not those with others between them."""
    rest = "x\n" * 40_000
    stored, fresh = (
        f"100%|##| {count}/3 [00:0{n}<00:00]\n{rest}100%|##| 3/3 [00:0{n}<00:00]\n" for n, count in ((1, 9), (2, 3))
    )
    assert compared(stored, fresh).differences
    assert not compared(stored.replace("9/3", "3/3"), fresh).differences
    one, other = narrowed(["a\nb\n" + "c" * 3_000 + " d", "a\nB\n" + "c" * 3_000 + " e"])
    assert (one.numbers, one.text, other.text) == ([2, 3], "b\nd\n", "B\ne\n")


def test_what_was_added_to_a_drawing_that_tells_its_date_has_not_the_dates_cause() -> None:
    """Between the two stands more than is aligned token by token."""
    path = "".join(f"<path d='M {number} 0 L {number} 9'/>\n" for number in range(1_500))
    dates = ("2026-10-14T14:03:22.5", "2026-11-23T14:03:22.5", "2026-11-23T14:03:28.5")
    shown = [f"<dc:date>{date}</dc:date>\n{path}<g/>{{}}</svg>" for date in dates]
    drawings = [each.format("<set to='hidden'/>" if each is shown[0] else "") for each in shown]
    stored, fresh, again = ([result(**{"image_svg+xml": each})] for each in drawings)
    found = compare(stored, fresh, Context(moments=MOMENTS), again=[again])
    assert [(each.where, each.cause) for each in found.differences] == [("line 1502", "")]
    assert found.excused == {"date"}
