"""Scoring: the benchmark's own rule, to the letter, and what spelling alone spoils."""

from __future__ import annotations

import pytest

from evals.folder_scoring import dabstep, final, kramabench
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


def test_the_value_stands_behind_the_last_answer() -> None:
    """In Markdown too; without one there is none."""
    assert final("Answer: 1\nor\n**Answer:** `2.5`\nDone.") == "2.5"
    assert final("I can't answer this.") == ""


@pytest.mark.parametrize(
    ("kind", "right", "given", "grade"),
    [
        ("numeric_exact", 45.3, "45.3", 1),
        ("numeric_exact", 45.3, "45.3%", 1),
        ("numeric_exact", 45, "46", 0),
        ("numeric_exact", 0, "0.0000001", 1),
        ("numeric_approximate", 100, "125", 0.8),
        ("numeric_approximate", 0.5, "50%", 1),
        ("numeric_approximate", 100, "many", 0),
        ("numeric_approximate", 100, "nan", 0),
        ("numeric_approximate", 0, "0", 0),
        ("list_approximate", [100], "[NaN, Infinity]", 0),
        ("string_exact", "New York", " new york", 1),
        ("string_approximate", "New York", "NYC", 0),
        ("list_exact", ["a", 2], '["A", 2.0, "c"]', 0.8),
        ("list_exact", ["a", "b"], "a, b", 1),
        ("list_exact", [], "[]", 1),
        ("list_approximate", [100], "[100.9]", 1),
    ],
)
def test_the_rule_of_kramabench(kind: str, right: object, given: str, grade: float) -> None:
    """Numbers, texts and lists, each by its own measure."""
    found = kramabench(f"Answer: {given}", {"type": kind, "accepted": [right]})
    assert found["answer"] == pytest.approx(grade)


@pytest.mark.parametrize(
    ("right", "given", "same"),
    [
        ("NL", "nl", True),
        ("0.123456", "0.12", False),
        ("12.345678", "12.35", True),
        ("1,234.5", "$1234.5", True),
        ("64", "64.00", True),
        ("64%", "64", True),
        ("a, b, c", "[c; a; b]", True),
        ("a, b", "a", False),
        ("Not Applicable", "not applicable.", True),
        ("E. Fraud", "E", True),
        ("some other words", "these are words", False),
        ("0.5", "half", False),
    ],
)
def test_the_rule_of_dabstep(right: str, given: str, same: bool) -> None:
    """As a number up to its rounding, as a list in any order, or as words."""
    assert dabstep(f"Answer: {given}", {"answer": right}) == {"answer": float(same)}
