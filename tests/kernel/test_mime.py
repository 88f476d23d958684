"""Repairing what JSON, UTF-8 or a notebook can't hold."""

from __future__ import annotations

import json
import math
from typing import Any

import machine
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.shared import junk

from nbagent.kernel.outputs.mime import clean, clean_within


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("nul\x00", "nul\x00"),
        ([1.5, math.nan, -math.inf], [1.5, None, None]),
        ({"x": math.nan, 3: [math.inf, "\udc00"]}, {"x": None, "3": [None, "\ufffd"]}),
        ((1, True, None), [1, True, None]),
        (2**70, 2**70),
        (b"\x00\x01", "AAE="),
        ([1.0, 2.0], [1.0, 2.0]),
        pytest.param(10**5000, "[left out: an integer of 16,610 bits]", id="unprintable"),
        pytest.param([1.5, 10**5000], [1.5, "[left out: an integer of 16,610 bits]"], id="unprintable in numbers"),
        (object(), "[left out: object]"),
    ],
)
def test_clean_repairs_what_json_and_utf_8_cannot_hold(value: object, cleaned: object) -> None:
    """Each kind of value that JSON or UTF-8 can't hold becomes one that it can."""
    assert clean(value) == cleaned


def test_clean_cuts_deep_nesting() -> None:
    """A hundred levels stay; what is deeper becomes a text that says so."""
    value: Any = "deepest"
    for _ in range(100):
        value = [value]
    assert clean(value) == value
    text = json.dumps(clean({"x": [value]}))
    assert "deepest" not in text
    assert "[left out: nesting deeper than 100 levels]" in text
    for _ in range(100_000):
        value = [value]
    json.dumps(clean(value))


def test_clean_of_big_text_is_free() -> None:
    """A large string is neither copied nor walked in Python."""
    text = "x" * 50_000_000
    assert machine.within(1, lambda: clean({"text/html": text}))["text/html"] is text


@given(junk, st.integers(0, 60))
def test_clean_within_finds_out_what_is_too_large(value: object, room: int) -> None:
    """A value is cleaned to the same result, or refused, and its size is within the room."""
    kept = clean_within(value, room)
    if kept is None:
        assert clean_within(value, 1 << 40) != (None, 0)
    else:
        assert json.dumps(kept[0]) == json.dumps(clean(value))
        assert 0 <= kept[1] <= room
