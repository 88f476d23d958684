"""Runs all probes against an engine, in a real sandbox, and judges each."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbagent.core.policy import Trust, TrustLevel, trust_for
from nbagent.core.session_log import SessionLog
from nbagent.faces.selfcheck import (
    aims,
    files_inside,
    limits_inside,
    machine_wide_inside,
    neighbours_inside,
    network_inside,
    privileges_inside,
    processes_inside,
    programs_inside,
    spying_inside,
    system_calls_inside,
    uncounted_memory_inside,
)
from nbagent.faces.selfcheck.probe import (
    BELOW_TRUSTED,
    Finding,
    Host,
    Probe,
    ProbeVerdict,
    excuse,
    judge,
    read_result,
    source,
)
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import export
from nbagent.notebook.record import Recording
from nbagent.sandbox.contract import Engine, EngineReport
from nbagent.sandbox.paths import DATA, HOME, WORKSPACE
from nbagent.sandbox.spec import SandboxSpec

LIMITS: dict[str, Any] = {"memory_mb": 256, "tmp_mb": 32, "pids": 64, "cpus": 0.5, "timeout": 60.0, "grace": 1.0}
"""Low limits, so that exceeding them costs little: an engine enforces any value in the same way. The timeout is none of
them: an attack that works takes a few seconds, and many more on a machine that is busy otherwise."""
GROUPS = (
    files_inside.READING,
    spying_inside.GROUP,
    files_inside.WRITING,
    privileges_inside.PRIVILEGES,
    privileges_inside.DEVICES,
    privileges_inside.SETTINGS,
    processes_inside.PROCESSES,
    processes_inside.PROCESS_ONE,
    system_calls_inside.GROUP,
    network_inside.UNIX,
    network_inside.NETWORK,
    programs_inside.GROUP,
    network_inside.PACKAGES,
    limits_inside.MEMORY,
    limits_inside.PROCESSOR,
    limits_inside.DISK,
    machine_wide_inside.GROUP,
    uncounted_memory_inside.GROUP,
    neighbours_inside.GROUP,
)
"""In the order in which the attacks run: without isolation, what is written to data, or used up by a neighbour, is
missing for attacks that come later."""
AFTERWARDS = (
    Probe(
        name="secret_in_what_is_kept",
        threat="1",
        group="what the host sees afterwards",
        title="The secret in any output, event, log or notebook of the run",
        expected="it is nowhere",
    ),
    Probe(
        name="changed_files",
        threat="2",
        group="what the host sees afterwards",
        title="Files of the host's that have changed: the folder to write to, and the data",
        expected="all are as they were",
    ),
    Probe(
        name="heard_from_the_sandbox",
        threat="13",
        group="what the host sees afterwards",
        title="Connections and datagrams that reached the host's servers",
        expected="none",
        levels=BELOW_TRUSTED,
    ),
)
PROBES: tuple[Probe, ...] = (*(probe for group in GROUPS for probe in group.probes), *AFTERWARDS)
"""All probes, in the order in which they run."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The findings on one engine.

    Attributes:
        trust: The trust level of the sandbox.
        findings: One for each probe of that level.
    """

    engine: str
    trust: TrustLevel
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        """Whether every attack failed, except known failures."""
        return all(each.verdict in (ProbeVerdict.HELD, ProbeVerdict.KNOWN) for each in self.findings)


async def check(
    engine: Engine,
    level: TrustLevel,
    *,
    notify: Callable[[Finding], None] = lambda _: None,
    timeout: float | None = None,  # noqa: ASYNC109 - of each attack
    start_timeout: float | None = None,
) -> Outcome:
    """Run the probes of a trust level against an engine; `notify` is called with each finding.

    An engine that isolates nothing can run at `trusted` only; it gets the probes of all levels. An attack may take
    longer where 60 seconds are too few; a shorter timeout is not heeded.
    """
    report = engine.check()
    reasons = _reasons(engine, report)
    probes = [probe for probe in PROBES if not engine.isolates or level in probe.levels]
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        told = excuse(finding, reasons)
        if not engine.isolates and told.verdict is ProbeVerdict.HELD:
            told = replace(told, reason=told.probe.held_anyway)
        findings.append(told)
        notify(told)

    with tempfile.TemporaryDirectory(prefix="nbagent-check-state-") as state, aims.prepared(state=Path(state)) as made:
        run = _Run(engine, _trust(engine, level, timeout, start_timeout), report, made, Path(state))
        async for finding in run.findings(probes):
            tell(finding)
    return Outcome(engine=engine.name, trust=level, findings=findings)


def _trust(engine: Engine, level: TrustLevel, timeout: float | None, start_timeout: float | None) -> Trust:
    limits = LIMITS | {"timeout": max(LIMITS["timeout"], timeout or 0), "start_timeout": start_timeout}
    trust = trust_for(level, **limits)
    # An engine that isolates nothing takes trusted code only, whatever it enforces.
    return trust if engine.isolates else replace(trust_for(TrustLevel.TRUSTED, **limits), limits=trust.limits)


def _reasons(engine: Engine, report: EngineReport) -> dict[str, str]:
    """The reasons of known failures: those that the engine declares, and limits that it can't enforce here."""
    if not engine.isolates:
        return {}
    weak = {each.name: each.how for each in report.controls if not each.enforced}
    known = {
        probe.name: f"not enforced here: {weak[probe.control]}; a start is refused without --accept {probe.control}"
        for probe in PROBES
        if probe.control in weak
    }
    return known | dict(engine.known_failures)


class _Run:
    """One run: a sandbox under attack, a second one beside it, and the recording of the first."""

    def __init__(self, engine: Engine, trust: Trust, report: EngineReport, made: aims.Aims, state: Path) -> None:
        self._engine = engine
        self._aims = made
        self._state = state
        weak = frozenset(each.name for each in report.controls if not each.enforced)
        self._spec = SandboxSpec(trust=trust, data=made.data, accept=weak if engine.isolates else frozenset())
        self._host: dict[str, Any] = {}

    async def findings(self, probes: list[Probe]) -> AsyncIterator[Finding]:
        """Run the probes in order; yields the finding of each."""
        before = self._aims.state()
        recording = Recording()
        log = SessionLog(self._state, "self-check")
        log.follow(recording.on_event)
        with contextlib.closing(log):
            kernel = Kernel(self._engine, self._spec, notify=log.emit, spill=log.spill)
            neighbour = Kernel(self._engine, replace(self._spec, data=()))
            async with _together(kernel, neighbour):
                self._host = self._host_facts(kernel)
                with self._aims.add_later():
                    for probe in probes:
                        if probe.attack is not None:
                            yield await self._try(probe, kernel, neighbour)
            export.write(recording, self._state / "notebook.ipynb")
        for probe in probes:
            if probe.attack is None:
                yield self._look(probe, before)

    def _host_facts(self, kernel: Kernel) -> dict[str, Any]:
        """The values that attacks get as `host`, with paths as the sandbox sees them."""
        about = kernel.about
        outer, folder = (about.data_path(mount) for mount in self._aims.data[:2])
        limits = self._spec.trust.limits
        own = str(Path(about.output_folder).parent)
        scratch = ["/tmp", WORKSPACE, HOME, "/dev/shm"] if self._engine.isolates else [own, "/dev/shm"]  # noqa: S108
        assert about.folder is not None  # noqa: S101 - an engine that is checked runs here
        return {
            **self._aims.host,
            "isolated": self._engine.isolates,
            "ids": list(about.user or ()) if self._engine.isolates else [],
            "data_file": outer,
            "data_folder": folder,
            "clone": DATA if self._engine.isolates else str(self._aims.folder / "clone"),
            "locked_file": f"{folder}/locked.txt",
            "scratch": scratch,
            "door": str(about.folder / "in" / "controller.sock"),
            # Seconds that an attack may wait for what nbagent does meanwhile, on a machine that is busy otherwise.
            "patience": limits.timeout / 6,
            **{name: getattr(limits, name) for name in ("memory_mb", "tmp_mb", "pids", "cpus")},
        }

    async def _try(self, probe: Probe, kernel: Kernel, neighbour: Kernel) -> Finding:
        host: Host = self._host
        if probe.neighbour is not None:
            left = await neighbour.run(source(probe.neighbour, host))
            with contextlib.suppress(ValueError, LookupError, TypeError):
                host = {**host, "left": read_result(left)["got"]}
            if "left" not in host:
                return Finding(probe=probe, verdict=ProbeVerdict.UNCLEAR, seen=f"the other sandbox failed: {left.text}")
        finding = judge(probe, await kernel.run(probe.source(host)))
        seen = finding.seen.replace(self._aims.secret, "the secret").replace(str(self._aims.folder), "/HOST")
        return replace(finding, seen=seen)

    def _look(self, probe: Probe, before: dict[str, str]) -> Finding:
        """Run a probe of the host itself, after the sandbox has ended."""
        seen = {
            "secret_in_what_is_kept": lambda: list(_files_with(self._state, self._aims.secret)),
            "changed_files": lambda: _differences(before, self._aims.state()),
            "heard_from_the_sandbox": lambda: _calls(self._aims.heard),
        }[probe.name]()
        return Finding(
            probe=probe, verdict=ProbeVerdict.BROKEN if seen else ProbeVerdict.HELD, seen=", ".join(seen) or "nothing"
        )


@contextlib.asynccontextmanager
async def _together(*kernels: Kernel) -> AsyncIterator[None]:
    """Start kernels at the same time; at the end, or if one fails, stop all."""
    async with contextlib.AsyncExitStack() as stack:
        for kernel in kernels:
            stack.push_async_callback(kernel.stop)
        async with asyncio.TaskGroup() as group:
            for kernel in kernels:
                group.create_task(kernel.start())
        yield


def _files_with(folder: Path, secret: str) -> Iterator[str]:
    """The names of files that contain the secret, also if it is split over lines."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and secret in re.sub(r'[\s",\\]|\\n', "", path.read_text(errors="replace")):
            yield path.name


def _differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _calls(heard: aims.Heard) -> list[str]:
    found = {"connections": heard.connections, "datagrams": heard.datagrams}
    return [f"{count} {name}" for name, count in found.items() if count]
