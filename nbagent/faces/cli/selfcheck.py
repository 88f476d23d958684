"""`nbagent doctor --self-check`: the findings as a table that can be read without the code, or as JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nbagent.core import settings
from nbagent.core.policy import TrustLevel
from nbagent.core.text import safe
from nbagent.faces.selfcheck.check import Outcome, check
from nbagent.faces.selfcheck.probe import Finding, ProbeVerdict
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.registry import choose, engines
from nbagent.session.checks import known_engine

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    ProbeVerdict.HELD: "bold",
    ProbeVerdict.BROKEN: "bold red",
    ProbeVerdict.KNOWN: "magenta",
    ProbeVerdict.UNCLEAR: "bold magenta",
}
WIDTH = 160
"""Characters of a line where nothing says how many there are."""


async def self_check(*, engine: str | None, trust: str | None, as_json: bool) -> int:
    """Try the probes on an engine, or on each that isolates and works here, and print what became of them.

    Returns 0 if every attack failed, but for known failures, else 3.
    """
    chosen = settings.load()
    level = TrustLevel.parse(chosen.trust if trust is None else trust)
    outcomes = {}
    for each in await _engines(engine):
        started = time.monotonic()
        with _progress(each, level) as notify:
            outcome = await check(
                each, level, notify=notify, timeout=chosen.timeout, start_timeout=chosen.start_timeout
            )
        outcomes[each.name] = as_data(outcome) | {"seconds": round(time.monotonic() - started, 1)}
        if not as_json:
            show(outcome, isolates=each.isolates)
    if as_json:
        print(json.dumps(outcomes, ensure_ascii=False))
    return 0 if all(each["holds"] for each in outcomes.values()) else 3


async def _engines(name: str | None) -> list[Engine]:
    if known_engine(name):
        return [await choose(name)]
    found = [each for _, each in sorted(engines().items()) if each.isolates and each.check().available]
    # Says why not, if there is none.
    return found or [await choose(None)]


def as_data(outcome: Outcome) -> dict[str, Any]:
    """What JSON has of an outcome."""
    return {
        "trust": outcome.trust.value,
        "holds": outcome.holds,
        "counts": _counts(outcome.findings),
        "probes": [
            {
                "name": each.probe.name,
                "threat": each.probe.threat,
                "group": each.probe.group,
                "probe": each.probe.title,
                "expected": each.probe.expected,
                "seen": each.seen,
                "verdict": each.verdict.value,
                "reason": each.reason,
            }
            for each in outcome.findings
        ],
    }


def show(outcome: Outcome, *, isolates: bool) -> None:
    """Print a table of the findings, and below it each that isn't `held`, with its reason."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, markup=False, width=WIDTH)
    table = Table(title=f"The engine {outcome.engine} at the level {outcome.trust.value}", expand=True)
    for name, share in (("what was tried", 5), ("expected", 4), ("seen", 5)):
        table.add_column(name, ratio=share, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    group = ""
    for each in outcome.findings:
        if each.probe.group != group:
            group = each.probe.group
            table.add_section()
            table.add_row(Text(group.capitalize(), style="bold"))
        verdict = Text(each.verdict.value, style=STYLES[each.verdict])
        table.add_row(each.probe.title, each.probe.expected, safe(each.seen), verdict)
    console.print(table)
    _summary(console, outcome, isolates=isolates)


def _summary(console: Console, outcome: Outcome, *, isolates: bool) -> None:
    counts = _counts(outcome.findings)
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    console.print(f"{len(outcome.findings)} attacks on {outcome.engine} at {outcome.trust.value}: {listed}.")
    if not isolates:
        console.print("This engine isolates nothing: that attacks succeed here shows that they can.")
    for each in outcome.findings:
        if each.reason or (isolates and each.verdict is not ProbeVerdict.HELD):
            console.print(f"- {each.verdict.value}: {each.probe.title}. {_sentence(each)}")


def _sentence(finding: Finding) -> str:
    text = finding.reason or f"Seen: {safe(finding.seen)}"
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _counts(findings: list[Finding]) -> dict[str, int]:
    found = Counter(each.verdict for each in findings)
    return {verdict.value: found[verdict] for verdict in ProbeVerdict}


@contextlib.contextmanager
def _progress(engine: Engine, level: TrustLevel) -> Iterator[Callable[[Finding], None]]:
    """Say on a terminal how far it is; elsewhere nothing is said before the end."""
    from rich.console import Console

    tried = 0

    def notify(finding: Finding) -> None:
        nonlocal tried
        tried += 1
        status.update(f"{engine.name} at {level.value}: {tried} attacks, {finding.probe.group}")

    with Console(stderr=True, highlight=False, emoji=False, markup=False).status(f"Starting {engine.name}") as status:
        yield notify
