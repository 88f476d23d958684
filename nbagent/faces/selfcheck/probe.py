"""A probe: one attack, as data, and how its result is judged.

The attacks are in the modules `*_inside.py`, by what they attack. Each is a function whose source runs in the sandbox,
with its module's lines `import …`, of the standard library only, and with `unrefused`; it knows nothing else of its
module. It gets facts about the host (`aims.Aims`) and returns what it obtained; it has failed if it obtained nothing or
Linux refused it. An attack that succeeds does no harm: it reads a canary, writes to a folder made for it, exceeds a
limit by little, and ends by itself.
"""

from __future__ import annotations

import enum
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nbagent.core.events import Cell
from nbagent.core.policy import TrustLevel
from nbagent.kernel.recovery import LOST_NOTE
from nbagent.sandbox.untrusted import parse

Host = Mapping[str, Any]
"""Facts about what was prepared on the host, by name, as values that JSON has."""
Attack = Callable[[Any], object]
A = TypeVar("A", bound=Attack)

EVERYWHERE = frozenset(TrustLevel)
BELOW_TRUSTED = EVERYWHERE - {TrustLevel.TRUSTED}
"""`trusted` has the host's network and a writable root."""
NO_PROGRAMS = frozenset({TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED})
WITH_PROGRAMS = EVERYWHERE - NO_PROGRAMS
MAX_SAID = 256 * 1024
"""Bytes of an attack's result."""
MAX_SEEN = 160
"""Characters of a result that are shown."""


class ProbeVerdict(enum.StrEnum):
    """The verdict on an attack."""

    HELD = "held"
    """It failed, as it must."""
    BROKEN = "BROKEN"
    """It succeeded."""
    KNOWN = "known"
    """It succeeded, and the engine declares that, with the reason."""
    UNCLEAR = "UNCLEAR"
    """It ended in a way that proves nothing."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One attack.

    Attributes:
        name: The name by which engines declare known failures.
        threat: Its number in the list of threats; `F` before the number of a fault, `+` if it is in no list.
        group: What is attacked.
        title: What is tried, in words.
        expected: What must come of it, in words.
        levels: The trust levels at which it must fail.
        control: The control of the engine's report that must stop it; empty if there is no single one.
        attack: The function that runs in the sandbox; None if the host checks by itself, after all other probes.
        neighbour: A function that runs before in a second sandbox; the attack gets its result as `left`.
        may_kill: Whether the attack also counts as failed if the kernel was killed at its memory limit, or the sandbox
            was ended since it took too much of the machine.
        held_anyway: Why the attack fails even without isolation; empty if it succeeds there.
    """

    name: str
    threat: str
    group: str
    title: str
    expected: str
    levels: frozenset[TrustLevel] = EVERYWHERE
    control: str = ""
    attack: Attack | None = None
    neighbour: Attack | None = None
    may_kill: bool = False
    held_anyway: str = ""

    def source(self, host: Host) -> str:
        """The code of a cell that runs the attack and prints its result as one JSON line."""
        assert self.attack is not None  # noqa: S101 - those without one are never run
        return source(self.attack, host)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The finding of one probe.

    Attributes:
        seen: The result of the attack, in words.
        reason: For a known failure, the reason.
    """

    probe: Probe
    verdict: ProbeVerdict
    seen: str
    reason: str = ""


class ProbeGroup:
    """Probes that attack one thing, in the order of their functions; `usual` are the attributes that most have."""

    def __init__(self, title: str, **usual: Any) -> None:
        self.probes: list[Probe] = []
        self._usual = {"group": title, **usual}

    def attack(self, threat: str, title: str, **others: Any) -> Callable[[A], A]:
        """Decorate a function as a probe; the arguments are the attributes of `Probe`."""

        def add(function: A) -> A:
            named = {"name": function.__name__, "attack": function, "threat": threat, "title": title}
            self.probes.append(Probe(**{**self._usual, **named, **others}))
            return function

        return add


def unrefused(attempt: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
    """The things for which Linux does not refuse an attempt, or what the attempt returned in their place."""
    found = []
    for each in things:
        try:
            got = attempt(each)
        except OSError:
            continue
        found.append(each if got is None else got)
    return found


def source(attack: Attack, host: Host) -> str:
    """The code of a cell that calls a function of this package with `host`, and prints its result as one JSON line."""
    lines = inspect.getsource(attack).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("def "))
    body = "\n".join([inspect.getsource(unrefused), *lines[start:]])
    module = inspect.getsource(sys.modules[attack.__module__])
    imports = "\n".join(line for line in module.splitlines() if line.startswith("import "))
    return f"""from __future__ import annotations
import json
{imports}
{body}
try:
    print(json.dumps({{"got": {attack.__name__}(json.loads({json.dumps(host)!r}))}}))
except BaseException as error:
    refused = isinstance(error, (OSError, MemoryError))
    text = str(error).partition("] ")[2] or str(error) if refused else ""
    print(json.dumps({{"error": text or f"{{type(error).__name__}}: {{error}}", "refused": refused}}))
"""


def read_result(cell: Cell) -> dict[str, Any]:
    """Read the last line that a cell printed to standard output, which other code in the kernel may have forged.

    Raises:
        ValueError: It is no JSON object, or too large.
        LookupError: The cell printed nothing.
    """
    text = "".join(str(each["text"]) for each in cell.outputs if each.get("name") == "stdout")
    return parse(text.splitlines()[-1], dict[str, Any], limit=MAX_SAID)


def judge(probe: Probe, cell: Cell) -> Finding:
    """Judge a probe by the cell that ran its attack."""
    if cell.status == "died":
        by_limit = probe.may_kill and any(each in cell.note for each in ("out of memory", "took of the machine"))
        seen = cell.note.partition(LOST_NOTE)[0].partition(";")[0]
        return _finding(probe, ProbeVerdict.HELD if by_limit else ProbeVerdict.UNCLEAR, seen)
    try:
        found = read_result(cell)
        if "error" in found:
            return _finding(probe, ProbeVerdict.HELD if found["refused"] else ProbeVerdict.UNCLEAR, str(found["error"]))
        got = found["got"]
    except (ValueError, LookupError, TypeError):
        return _finding(probe, ProbeVerdict.UNCLEAR, cell.note or cell.text)
    return (
        _finding(probe, ProbeVerdict.BROKEN, _words(got)) if got else _finding(probe, ProbeVerdict.HELD, "got nothing")
    )


def excuse(finding: Finding, reasons: Mapping[str, str]) -> Finding:
    """The finding, as a known failure if the attack succeeded and there is a reason for the probe."""
    reason = reasons.get(finding.probe.name, "")
    if finding.verdict is not ProbeVerdict.BROKEN or not reason:
        return finding
    return replace(finding, verdict=ProbeVerdict.KNOWN, reason=reason)


def _finding(probe: Probe, verdict: ProbeVerdict, seen: str) -> Finding:
    text = " ".join(seen.split())
    return Finding(probe=probe, verdict=verdict, seen=text if len(text) <= MAX_SEEN else f"{text[:MAX_SEEN]}…")


def _words(value: object) -> str:
    if value is True:
        return "it succeeded"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(map(str, value))
    return str(value)
