"""Adds measurements up in this process, without an SDK."""

from __future__ import annotations

import statistics
import threading
from collections import Counter, defaultdict, deque
from dataclasses import asdict, dataclass, field
from typing import Any

from nbagent.observability.telemetry.measure import INSTRUMENTS, Measurement

RECENT = 1000
"""The number of last values from which quantiles are computed; sums, counts and extremes are of all values."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Statistics of one kind of measurement; quantiles are of the last `RECENT` values. All zero without values."""

    count: int = 0
    total: float = 0.0
    min: float = 0.0
    max: float = 0.0
    p50: float = 0.0
    p95: float = 0.0

    @property
    def mean(self) -> float:
        """The mean; zero without values."""
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of one session, or of all in this process. Times in seconds, sizes in bytes.

    Attributes:
        active_sandboxes: Sandboxes that are running.
        creation: Times from a start to the kernel's first answer.
        execution: Times of cells, installs included.
        install: Times of installs, refused ones included.
        model: Times of the model's replies.
        turn: Times from a question to its answer.
        session: Times of sessions that have ended.
        session_cells: Cells of each session that has ended.
        cells: Cells by status: `ok`, `error`, `timeout`, `interrupted`, `died`.
        errors: Cells by the exception that ended them, rare ones as `other`.
        installs: Installs by result: `installed`, `failed`, `refused`.
        packages: Distributions that were installed.
        retries: Attempts beyond the first, over all questions.
        kernels_lost: Kernels that were replaced.
        files: Sizes of files that reached the host.
        memory_peak: The highest use of memory of any sandbox.
        tokens: Tokens, `input` and `output`.
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
        """The share of cells with the status `ok`; None before the first."""
        return self.cells.get("ok", 0) / total if (total := sum(self.cells.values())) else None

    @property
    def timeouts(self) -> int:
        """Cells with the status `timeout`."""
        return self.cells.get("timeout", 0)

    def as_dict(self) -> dict[str, Any]:
        """The metrics as values of JSON's types."""
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
        # In twentieths; of a single value, each quantile is that value.
        recent = [*self.recent] if len(self.recent) > 1 else [*self.recent] * 2
        cuts = statistics.quantiles(recent, n=20, method="inclusive")
        return Distribution(
            count=self.count, total=self.total, min=self.least, max=self.most, p50=cuts[9], p95=cuts[18]
        )


class Counts:
    """Adds measurements up. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, _Values] = defaultdict(_Values)

    def take(self, measurement: Measurement) -> None:
        """Add one measurement."""
        # Times and sizes count the measurements with an attribute; others, such as tokens, add up their values.
        counted = INSTRUMENTS[measurement.name].unit in ("s", "By")
        with self._lock:
            self._values[measurement.name].add(measurement.value, measurement.attributes, counted=counted)

    def snapshot(self) -> Metrics:
        """The metrics so far."""
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
            session=spread("nbagent.session.duration"),
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
