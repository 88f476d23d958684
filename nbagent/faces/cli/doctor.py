"""`nbagent doctor`: what each engine enforces here, as a table or as JSON."""

from __future__ import annotations

from typing import Any

from nbagent.core import settings
from nbagent.faces.cli import json_output
from nbagent.sandbox import registry
from nbagent.sandbox.contract import EngineReport
from nbagent.sandbox.registry import Survey
from nbagent.sandbox.spec import SandboxSpec


def doctor(*, trust: str | None = None, as_json: bool) -> int:
    """Print what each engine can and can't enforce here, and which would start at a trust level (the person's).

    Returns 0 if a sandbox would start, else 3.
    """
    chosen = settings.load()
    spec = SandboxSpec.of(settings.override(chosen, trust=trust))
    found = registry.survey(spec, name=chosen.engine)
    if as_json:
        level = {"trust": spec.trust.level.value}
        json_output.show(
            {
                name: _report(each.report)
                | level
                | {"starts": each.starts, "chosen": name == found.chosen, "why_not": each.why_not}
                for name, each in found.candidates.items()
            }
        )
    else:
        _show(found, spec.trust.level.value)
    return 0 if found.chosen else 3


def _show(found: Survey, level: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, emoji=False, markup=False)
    reports = [each.report for each in found.candidates.values()]
    table = Table(title="What each engine enforces here")
    for name in ("", *found.candidates):
        table.add_column(name)
    table.add_row("works here", *("yes" if each.available else "no" for each in reports))
    table.add_row(f"starts at {level}", *("yes" if each.starts else "no" for each in found.candidates.values()))
    table.add_row("runs on", *(each.kernel if each.available else "" for each in reports))
    for control in dict.fromkeys(control.name for each in reports for control in each.controls):
        table.add_row(control, *(_cell(each, control) for each in reports))
    console.print(table)
    for name, each in found.candidates.items():
        if each.why_not:
            console.print(f"{name}: {each.why_not}", markup=False, soft_wrap=True)
    none = f"none would start at the level {level}; nbagent never runs code unisolated by itself"
    console.print(f"Chosen by itself: {found.chosen or none}.", markup=False)
    if found.chosen and not found.candidates[found.chosen].report.environment:
        console.print("Its kernel environment will be made at the first start (or now, with: nbagent env build).")


def _cell(report: EngineReport, control: str) -> str:
    found = [each for each in report.controls if each.name == control]
    if not found:
        return ""
    return f"yes: {found[0].how}" if found[0].enforced else f"NO {found[0].how}".strip()


def _report(report: EngineReport) -> dict[str, Any]:
    return {
        "available": report.available,
        "reason": report.reason,
        "mend": report.mend,
        "environment": report.environment,
        "kernel": report.kernel,
        "controls": {each.name: {"enforced": each.enforced, "how": each.how} for each in report.controls},
    }
