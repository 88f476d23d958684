"""Measurements added up in this process: what a session has done so far, in numbers, without any SDK."""

from __future__ import annotations

import statistics
import threading
from collections import Counter, defaultdict, deque
from dataclasses import asdict, dataclass, field
from typing import Any

from nbagent.telemetry.measure import INSTRUMENTS, Measurement

RECENT = 1000
"""Values of which the quantiles are taken; sums, counts and extremes are of all."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Values of one kind: all of them counted and summed, quantiles of the last thousand. All zero without a value."""

    count: int = 0
    total: float = 0.0
    min: float = 0.0
    max: float = 0.0
    p50: float = 0.0
    p95: float = 0.0

    @property
    def mean(self) -> float:
        """Zero without a value."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Numbers of one session, or of all in this process. Times in seconds, sizes in bytes.

    Attributes:
        active_sandboxes: Those that run now.
        creation: From a start to the kernel's first answer.
        execution: How long cells ran, installs included.
        install: How long installs took, refused ones too.
        model: How long the model took for each reply.
        turn: From a question to its answer.
        session: How long sessions lasted, those that have ended.
        session_cells: Cells a session, of those that have ended.
        cells: How many ended how: `ok`, `error`, `timeout`, `interrupted`, `died`.
        errors: How many were stopped by what: the exception's name where it is a common one.
        installs: How many ended how: `installed`, `failed`, `refused`.
        packages: Distributions that were installed.
        retries: Attempts beyond the first, over all questions.
        kernels_lost: Kernels that were replaced.
        files: How many files reached the host, and their sizes.
        memory_peak: The most that any sandbox has used.
        tokens: `input` and `output`.
    """

    active_sandboxes: int = 0
    creation: Distribution = field(default_factory=Distribution)
    execution: Distribution = field(default_factory=Distribution)
    install: Distribution = field(default_factory=Distribution)
    model: Distribution = field(default_factory=Distribution)
    turn: Distribution = field(default_factory=Distribution)
    session: Distribution = field(default_factory=Distribution)
    session_cells: Distribution = field(default_factory=Distribution)
    cells: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    installs: dict[str, int] = field(default_factory=dict)
    packages: int = 0
    retries: int = 0
    kernels_lost: int = 0
    files: Distribution = field(default_factory=Distribution)
    memory_peak: int = 0
    tokens: dict[str, int] = field(default_factory=dict)

    @property
    def success_rate(self) -> float | None:
        """Cells that ended well among all that ended; None before the first."""
        return self.cells.get("ok", 0) / total if (total := sum(self.cells.values())) else None

    @property
    def timeouts(self) -> int:
        """Cells that ran too long."""
        return self.cells.get("timeout", 0)

    def as_dict(self) -> dict[str, Any]:
        """All of it as what JSON can hold."""
        return {**asdict(self), "success_rate": self.success_rate, "timeouts": self.timeouts}


class _Values:
    """All values of one kind."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.least = self.most = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.by: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, value: float, attributes: dict[str, str], *, counted: bool) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value) if self.count else value
        self.count += 1
        self.total += value
        self.recent.append(value)
        for name, attribute in attributes.items():
            self.by[name][attribute] += 1 if counted else int(value)

    def distribution(self) -> Distribution:
        if not self.count:
            return Distribution()
        # Twentieths; of a single value all are that value.
        recent = [*self.recent] if len(self.recent) > 1 else [*self.recent] * 2
        cuts = statistics.quantiles(recent, n=20, method="inclusive")
        return Distribution(
            count=self.count, total=self.total, min=self.least, max=self.most, p50=cuts[9], p95=cuts[18]
        )


class Counts:
    """Adds measurements up; any thread may give them, or ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, _Values] = defaultdict(_Values)

    def take(self, measurement: Measurement) -> None:
        """Add one."""
        # Tokens are summed by their kind; of all other distributions it is counted how many there are of each.
        counted = INSTRUMENTS[measurement.name].unit in ("s", "By")
        with self._lock:
            self._values[measurement.name].add(measurement.value, measurement.attributes, counted=counted)

    def snapshot(self) -> Metrics:
        """The sums so far."""
        with self._lock:
            return self._snapshot()

    def _snapshot(self) -> Metrics:
        values = {name: self._values.get(name) or _Values() for name in INSTRUMENTS}

        def spread(name: str) -> Distribution:
            return values[name].distribution()

        def by(name: str, attribute: str) -> dict[str, int]:
            return dict(values[name].by[attribute])

        def total(name: str) -> int:
            return int(values[name].total)

        return Metrics(
            active_sandboxes=total("nbagent.sandbox.active"),
            creation=spread("nbagent.sandbox.creation.duration"),
            execution=spread("nbagent.cell.duration"),
            install=spread("nbagent.install.duration"),
            model=spread("gen_ai.client.operation.duration"),
            turn=spread("nbagent.turn.duration"),
            session=spread("nbagent.session.session.duration"),
            session_cells=spread("nbagent.session.cells"),
            cells=by("nbagent.cell.duration", "status"),
            errors=by("nbagent.cell.errors", "error.type"),
            installs=by("nbagent.install.duration", "outcome"),
            packages=total("nbagent.install.packages"),
            retries=total("nbagent.turn.retries"),
            kernels_lost=total("nbagent.sandbox.lost"),
            files=spread("nbagent.file.size"),
            memory_peak=int(values["nbagent.sandbox.memory.peak"].most),
            tokens=by("gen_ai.client.token.usage", "gen_ai.token.type"),
        )
