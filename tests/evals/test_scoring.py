"""Scoring: the benchmark's own rule, to the letter, and what spelling alone spoils."""

from __future__ import annotations

import pytest

from evals.scoring import alike, equal, fields, score


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("@mean_fare[34.65]", {"mean_fare": "34.65"}),
        ("So **@a[1]**, @b[x y]\n@c[]", {"a": "1", "b": "x y", "c": ""}),
        ("@a[1] no: @a[2]", {"a": "2"}),
        ("@list[[1, 2]]", {"list": "[1, 2"}),
        ("@outliers[[]]", {"outliers": "["}),
        ("@a[1\n2] @b [1] a@c(1) @d-e[1]", {}),
        ("me@home[1] @größe[2]", {"home": "1", "größe": "2"}),
        ("", {}),
    ],
)
def test_fields_of_an_answer(answer: str, found: dict[str, str]) -> None:
    """Up to the first closing bracket of the line, as the benchmark's labels were written; the last one counts."""
    assert fields(answer) == found


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        ("34.65", "34.65", True),
        ("34.650", "34.65", True),
        ("47.5", "47.50", True),
        ("3.4e1", "34", True),
        ("34.6500009", "34.65", True),
        ("34.650002", "34.65", False),
        (" 5", "5", True),
        ("no", "No", False),
        ("nan", "nan", True),
        ("inf", "inf", True),
        ("1,000", "1000", False),
        ("", "", True),
        ("", "0", False),
    ],
)
def test_values_are_text_or_numbers(given: str, expected: str, same: bool) -> None:
    """The same text, or numbers less than a millionth apart."""
    assert equal(given, expected) is same


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        ("No", "no", True),
        ("Not Normal", "not_normal", True),
        ("non-normal", "Non-Normal", True),
        ('"Yes"', "yes", True),
        ("1,234.50", "1234.5", True),
        ("12 %", "12", True),
        ("1, 2", "1,2", True),
        ("-0.5", "0.5", False),
        ("-0.5", "-0.50", True),
        ("normal", "not normal", False),
        ("", "no", False),
    ],
)
def test_values_that_are_right_but_for_their_spelling(given: str, expected: str, same: bool) -> None:
    """Reported beside the score, since a model that means the right thing may write it another way."""
    assert alike(given, expected) is same


def test_every_field_is_scored() -> None:
    """Those that are missing are wrong, those that nobody asked for don't count."""
    expected = {"a": "1", "b": "2", "empty": ""}
    assert score("@a[1.0] @c[3]", expected) == {"a": True, "b": False, "empty": False}
    assert score("@empty[]", {"empty": ""}) == {"empty": True}
