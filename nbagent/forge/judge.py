"""Judges the report of a tool's tests that comes from the sandbox. Pure.

The report may be a lie, since the tool shares its process with pytest. So more than an exit code is required, and still
nothing is proved. `ToolForge` says what it means that a tool passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.text import one_line

NAMED = 3
"""Tests that an error names."""


@dataclass(frozen=True, kw_only=True)
class PytestReport:
    """What pytest reported of a tool's tests.

    Attributes:
        code: pytest's exit code.
        outcomes: `passed`, `failed` or `skipped` by test, as `source.tests_in` names it; the worst of its cases.
        calls: How often the tests called the tool.
    """

    code: int
    outcomes: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    @property
    def passed(self) -> tuple[str, ...]:
        """The tests that passed, in order."""
        return tuple(name for name, outcome in sorted(self.outcomes.items()) if outcome == "passed")


def report_of(found: Any, *, nonce: str) -> PytestReport | None:
    """Read a report; None if it is malformed or lacks this run's nonce."""
    if not isinstance(found, dict) or found.get("nonce") != nonce:
        return None
    code, calls, outcomes = found.get("code"), found.get("calls"), found.get("outcomes")
    if type(code) is not int or type(calls) is not int or not isinstance(outcomes, dict) or len(outcomes) > 10_000:
        return None
    named = {one_line(str(name), 200): str(each) for name, each in outcomes.items()}
    return PytestReport(code=code, calls=calls, outcomes=named)


def why_not(report: PytestReport | None, *, expected: Iterable[str], smoke: bool = False) -> str:
    """Why a tool has not passed, as a sentence; empty if it has."""
    if report is None:
        return "The tests ended without a report: something ended pytest, or spoke in its place."
    failed = [name for name, outcome in sorted(report.outcomes.items()) if outcome == "failed"]
    if failed:
        count = f"{len(failed)} of {len(report.outcomes)} tests failed"
        return f"{count}: {_names(failed)}."
    if report.code != 0:
        return f"pytest ended with exit code {report.code}."
    missing = sorted(name for name in expected if report.outcomes.get(name) != "passed")
    if missing:
        return f"A test that doesn't run shows nothing: {_names(missing)} did not pass."
    if not report.calls and not smoke:
        return "The tests passed without calling the tool, so they show nothing of it."
    return ""


def _names(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
