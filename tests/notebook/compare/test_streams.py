"""Printed text that stands in several outputs: where it is cut is no difference, what was drawn at all is one."""

from __future__ import annotations

import time
from typing import Any

import machine
import pytest
from notebook.compare.shared import MOMENTS, result, stream

from nbagent.core.events import OutputAdded, OutputsCleared
from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.streams import MOST, WHOLE, Printed, as_kept, cut_alike
from nbagent.notebook.compare.texts import Context

Parts = list[tuple[str, str]]
ONE: Parts = [("stderr", "\r1 of 3\r2 of 3"), ("stdout", "half\n"), ("stderr", "\r3 of 3\n")]
OTHER: Parts = [("stderr", "\r1 of 3"), ("stdout", "half\n"), ("stderr", "\r2 of 3"), ("figure", "")]
OTHER += [("stderr", "\r3 of 3\n")]
LAST: Parts = [("stdout", "half\n"), ("stderr", "\r1 of 3\r2 of 3\r3 of 3\n")]


def outputs(parts: Parts) -> list[dict[str, Any]]:
    """The outputs of a notebook in which a client stored messages."""
    return [stream(text, name) if name != "figure" else result(text_plain="7") for name, text in parts]


def apart(stored: Parts, fresh: Parts) -> list[str]:
    """What differs in printed text between a notebook and a fresh run."""
    printed = Printed()
    for each in outputs(fresh):
        printed.on_event(OutputAdded(cell=1, output=each))
    kept = [as_kept(outputs(each)) for each in (stored, fresh)]
    found = compare(kept[0], cut_alike(kept[0], kept[1], printed.of(1)), Context(moments=MOMENTS))
    return [*dict.fromkeys(each.what for each in found.differences if each.what.startswith("std"))]


@pytest.mark.parametrize("stored", [ONE, OTHER, LAST])
@pytest.mark.parametrize("fresh", [ONE, OTHER, LAST])
def test_between_which_states_of_a_bar_a_line_came_is_no_difference(stored: Parts, fresh: Parts) -> None:
    """It is a matter of time, whoever stored the notebook."""
    assert apart(stored, fresh) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [("half", "all", "stdout"), ("3 of 3", "4 of 3", "stderr"), ("\r1 of 3", "\r7 of 3", "stderr"),
     ("\r1 of 3", "Revenue: 5,000,000", "stderr"),
     ("\r3 of 3\n", "\r3 of 3\nRevenue: 5,000,000\n", "stderr"), ("\r3 of 3\n", "\n", "stderr")],
)  # fmt: skip
@pytest.mark.parametrize("fresh", [ONE, OTHER, LAST])
def test_a_line_that_was_changed_is_one(old: str, new: str, what: str, fresh: Parts) -> None:
    """Also a state that is overwritten in the end, and was shown before a line of the other stream."""
    assert apart([(name, text.replace(old, new)) for name, text in OTHER], fresh) == [what]


def test_a_shorter_state_leaves_the_end_of_a_longer_one() -> None:
    """Unless that one stands in an output before."""
    fresh: Parts = [("stderr", "\rloading\rdone")]
    for cut, last in ((["\rloading"], "\rdone"), ([], "\rloading\rdone")):
        stored: Parts = [*(("stderr", each) for each in cut), ("stdout", "x"), ("stderr", last)]
        assert apart(stored, [*fresh, ("stdout", "x")]) == []
    assert apart([("stderr", "\rdone")], fresh) == ["stderr"]


def test_states_of_a_bar_are_told_apart_where_outputs_end() -> None:
    """One output, edited, is no two states that were drawn one over the other."""
    fresh: Parts = [("stdout", "\r4\r2")]
    assert apart([("stdout", "4"), ("stderr", "x"), ("stdout", "\r2")], [*fresh, ("stderr", "x")]) == []
    assert apart([("stdout", "42"), ("stderr", "x")], [*fresh, ("stderr", "x")]) == ["stdout"]
    assert apart([("stdout", "4"), ("figure", ""), ("stdout", "42")], [*fresh, ("figure", "")]) == ["stdout"]


def test_states_are_looked_for_within_bounds() -> None:
    """Where each is like the others, a line may consist of them in very many ways; and of much text nothing is kept."""
    many = "\ra" * 20_000
    found = machine.within(100, lambda: apart([("stderr", f"{'a' * 300}b")], [("stderr", many)]))
    assert found == ["stderr"]
    printed = Printed()
    for number in range(3):
        printed.on_event(OutputAdded(cell=number % 2, output=stream("x" * (MOST // 2 + 1))))
    printed.on_event(OutputsCleared(cell=1))
    assert (printed.of(0), printed.of(1)) == ({}, {})


def test_many_states_of_a_long_line_take_no_time() -> None:
    """Each is kept and held against the line: megabytes of them took hours."""
    raw = "A" * 200_000 + "".join(f"\r{number:06d}" for number in range(400))
    fresh = [stream(raw.rpartition("\r")[2] + "A" * 199_994)]
    begun = time.process_time()
    assert cut_alike([stream("000007" + "A" * 199_994)], fresh, {"stdout": raw}) == fresh
    assert time.process_time() - begun < 3


def test_text_of_an_export_is_compared_as_a_page_shows_it() -> None:
    r"""Where it has a `\r`, that hides what stands before it; and outputs between which nothing stands are one."""
    parts = {"WARNING\rR2 0.9   ": "R2 0.9   ", "ab\b\bno": "no", "x\r\n": "x\n"}
    for text, seen in parts.items():
        assert as_kept([stream(text)], WHOLE) == [stream(seen)]
    raw = "\r1\r12\r123"
    stored = as_kept([stream("1"), stream("12"), stream("123")], WHOLE)
    fresh = cut_alike(stored, [stream("123")], {"stdout": raw})
    assert compare(stored, fresh, Context(moments=MOMENTS)).differences
    long = [stream("x" * 5_000_000)]
    assert as_kept(long, WHOLE) == long
    assert as_kept(long) != long
