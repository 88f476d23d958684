"""What a run of a tool's tests amounts to. Pure: what the sandbox says in, a sentence or nothing out.

Whatever comes from inside may be a lie: the tool under test shares its process with pytest. So what is asked for is
more than an exit code, and none of it is proof. See `ToolForge` on what a tool that passed is, and is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nbagent.text import one_line

NAMED = 3
"""Tests that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the sandbox says of a run.

    Attributes:
        code: Pytest's exit code.
        outcomes: By test, as `source.tests_in` names them: `passed`, `failed` or `skipped`; the worst of its cases.
        calls: How often the tests called the tool.
    """

    code: int
    outcomes: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    @property
    def passed(self) -> tuple[str, ...]:
        """The tests that passed, in order."""
        return tuple(name for name, outcome in sorted(self.outcomes.items()) if outcome == "passed")


def report_of(found: Any, *, nonce: str) -> Report | None:
    """A report, if what came from the sandbox is one and has this run's nonce."""
    if not isinstance(found, dict) or found.get("nonce") != nonce:
        return None
    code, calls, outcomes = found.get("code"), found.get("calls"), found.get("outcomes")
    if type(code) is not int or type(calls) is not int or not isinstance(outcomes, dict) or len(outcomes) > 10_000:
        return None
    named = {one_line(str(name), 200): str(each) for name, each in outcomes.items()}
    return Report(code=code, calls=calls, outcomes=named)


def why_not(report: Report | None, *, expected: Iterable[str], smoke: bool = False) -> str:
    """Why a tool has not passed, as a sentence; empty if it has.

    Args:
        report: What the sandbox says; None if it said nothing.
        expected: The tests that stand in the source.
        smoke: Whether the tests only look whether the function is there, as those of adapters may.
    """
    if report is None:
        return "The tests ended without a report: something ended pytest, or spoke in its place."
    failed = [name for name, outcome in sorted(report.outcomes.items()) if outcome == "failed"]
    if failed:
        count = f"{len(failed)} of {len(report.outcomes)} tests failed"
        return f"{count}: {_named(failed)}."
    if report.code != 0:
        return f"pytest ended with exit code {report.code}."
    missing = sorted(name for name in expected if report.outcomes.get(name) != "passed")
    if missing:
        return f"A test that doesn't run shows nothing: {_named(missing)} did not pass."
    if not report.calls and not smoke:
        return "The tests passed without calling the tool, so they show nothing of it."
    return ""


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
