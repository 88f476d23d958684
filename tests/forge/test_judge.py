"""A run of tests is judged by more than its exit code."""

from __future__ import annotations

from typing import Any

import pytest

from nbagent.forge.judge import PytestReport, report_of, why_not

GOOD = {"nonce": "t", "code": 0, "outcomes": {"test_a": "passed", "test_b": "passed"}, "calls": 2}


def test_all_passed() -> None:
    """Then there is nothing to say."""
    report = report_of(GOOD, nonce="t")
    assert report == PytestReport(code=0, outcomes={"test_a": "passed", "test_b": "passed"}, calls=2)
    assert why_not(report, expected={"test_a", "test_b"}) == ""
    assert report.passed == ("test_a", "test_b")


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        "1 passed",
        {**GOOD, "nonce": "another"},
        {**GOOD, "code": "0"},
        {**GOOD, "code": True},
        {**GOOD, "calls": None},
        {**GOOD, "outcomes": []},
        {**GOOD, "outcomes": dict.fromkeys(map(str, range(10_001)), "passed")},
    ],
)
def test_what_is_no_report(found: Any) -> None:
    """Of another run, or of another form: as if there were none."""
    report = report_of(found, nonce="t")
    assert report is None
    assert why_not(report, expected={"test_a"}).startswith("The tests ended without a report")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"outcomes": {"test_a": "failed", "test_b": "passed"}}, "1 of 2 tests failed: test_a."),
        ({"outcomes": {f"test_{each}": "failed" for each in "abcde"}}, "5 of 5 tests failed: test_a, test_b, test_c"),
        ({"code": 2, "outcomes": {}}, "pytest ended with exit code 2."),
        ({"code": 5, "outcomes": {}}, "pytest ended with exit code 5."),
        ({"outcomes": {"test_a": "passed"}}, "test_b did not pass"),
        ({"outcomes": {"test_a": "skipped", "test_b": "passed"}}, "test_a did not pass"),
        ({"outcomes": {}}, "test_a, test_b did not pass"),
        ({"calls": 0}, "The tests passed without calling the tool"),
    ],
)
def test_why_a_tool_has_not_passed(changes: dict[str, Any], told: str) -> None:
    """Failures, tests that did not run or were skipped, and tests that never call the tool."""
    assert told in why_not(report_of({**GOOD, **changes}, nonce="t"), expected={"test_a", "test_b"})


def test_smoke() -> None:
    """Tests of an adapter may only look whether its function is there."""
    assert why_not(report_of({**GOOD, "calls": 0}, nonce="t"), expected={"test_a"}, smoke=True) == ""
