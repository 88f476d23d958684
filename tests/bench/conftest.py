"""What the benchmarks share: the floor they are measured against, taken in the same run, turn by turn.

What a run found is printed at its end, and written as a page where `--page` says, which `make bench` does.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import AsyncKernelManager

QUANTILES = {"p50": 0.5, "p95": 0.95}
BUSY = (
    "The machine was busy with other things, so these figures are no measure of nbagent: beside other work a sandbox",
    "has the share of one control group and a bare ipykernel that of a process, which may be far more. Run it again.",
)
"""What is said of a run beside which more wanted to run than there are cores."""
PACKAGES = ("nbagent", "ipykernel", "jupyter_client", "pyzmq", "langchain", "langgraph")
"""Whose versions stand in the page."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure that was found.

    Attributes:
        what: What was measured.
        figures: What came out, by quantile; by an empty name if there is only one.
        unit: Of these.
        floor: What it is a ratio to; empty for an absolute figure.
        limit: What it is held against; None if against nothing.
        runs: How often both were measured.
    """

    what: str
    figures: dict[str, float]
    unit: str = "×"
    floor: str = ""
    limit: float | None = None
    runs: int = 0

    @property
    def ok(self) -> bool:
        """Whether it is within its limit."""
        return self.limit is None or max(self.figures.values()) <= self.limit

    def __str__(self) -> str:
        figures = "  ".join(f"{name} {figure:.3f}".strip() for name, figure in self.figures.items())
        limit = "" if self.limit is None else f"limit {self.limit:g}  {'ok' if self.ok else 'TOO MUCH'}"
        what = f"{self.what}, to {self.floor}" if self.floor else self.what
        return f"{what:<90} {figures} {self.unit}  {limit}"


ROWS: list[Row] = []
"""What the run found."""
NOTES: list[str] = []
"""What it found that is held against nothing."""
BEGUN: list[float] = []
"""How many processes wanted to run when it began."""


@dataclass
class Pair:
    """Times of ours and of the floor, taken in turn, in seconds."""

    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    def ratio(self, quantile: float = 0.5) -> float:
        """Ours over the floor's, at a quantile."""
        return at(self.ours, quantile) / at(self.floor, quantile)


def at(values: list[float], quantile: float) -> float:
    """The value at a quantile; the median for one half."""
    return statistics.median(values) if quantile == 0.5 else sorted(values)[int(quantile * (len(values) - 1))]


@pytest.fixture
def say() -> Callable[..., None]:
    """Keep one figure for the table at the end, and hold it against its limit."""

    def tell(what: str, figure: float, *, limit: float, unit: str = "×") -> None:
        _keep(Row(what=what, figures={"": figure}, limit=limit, unit=unit))

    return tell


@pytest.fixture
def compare() -> Callable[..., None]:
    """Keep the ratios of a pair, median and p95, and hold both against a limit."""

    def tell(what: str, pair: Pair, *, floor: str, limit: float) -> None:
        figures = {name: pair.ratio(quantile) for name, quantile in QUANTILES.items()}
        _keep(Row(what=what, figures=figures, floor=floor, limit=limit, runs=len(pair.ours)))

    return tell


def _keep(row: Row) -> None:
    ROWS.append(row)
    assert row.ok, str(row)


@pytest.fixture
def note() -> Callable[[str], None]:
    """Keep one line for the table that is held against nothing."""
    return NOTES.append


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the page goes."""
    parser.addoption("--page", default="", help="Write the figures to this file.")


def pytest_sessionstart() -> None:
    """Remember how busy the machine was."""
    BEGUN.append(os.getloadavg()[0])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the figures, and write the page."""
    terminalreporter.section("figures")
    for line in [*map(str, ROWS), *NOTES]:
        terminalreporter.write_line(line)
    if (path := config.getoption("--page")) and ROWS:
        Path(path).write_text(page())


def page() -> str:
    """The page of what this run found."""
    compared = [
        f"| {row.what} | {row.floor} | {row.figures['p50']:.2f} | {row.figures['p95']:.2f} "
        f"| {row.limit:g} | {row.runs} |"
        for row in ROWS
        if row.floor
    ]
    single = [f"| {row.what} | {row.figures['']:.3g} {row.unit} | {row.limit:g} |" for row in ROWS if not row.floor]
    over = [row.what for row in ROWS if not row.ok]
    return "\n".join(
        [
            "# What things cost",
            "",
            "`make bench` wrote this page from the figures of one run; nobody edits it. In the first table, each",
            "figure is the time of what is on the left, divided by that of its *floor*, something without nbagent.",
            "Both were measured in turns, so that whatever else the machine did hit both: below 1, nbagent is the",
            "faster one. p50 is the ratio of the medians, p95 that of the 95th percentiles; above its *limit*, a row",
            "has failed. In the second table, ratios have a ×; its other figures are this machine's.",
            "",
            _machine(),
            *(["", *BUSY] if max(BEGUN[0], os.getloadavg()[0]) > (os.cpu_count() or 1) else []),
            "",
            "| what | floor | p50 | p95 | limit | runs |",
            "|---|---|---|---|---|---|",
            *compared,
            "",
            f"Over its limit in this run: {', '.join(over)}." if over else "All were within their limits.",
            *(["", "| what | figure | limit |", "|---|---|---|", *single] if single else []),
            *(["", *(f"- {line}" for line in NOTES)] if NOTES else []),
            "",
        ]
    )


def _machine() -> str:
    """Where and when the run was, and how busy the machine was with other things."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    busy = f"processes that wanted to run: {BEGUN[0]:.1f} at its begin, {os.getloadavg()[0]:.1f} at its end"
    return (
        f"Machine: {os.cpu_count()} cores ({cpu}), {memory:.0f} GB, Linux {platform.release()}; {busy}.\n"
        f"Python {platform.python_version()}, {versions}. {time.strftime('%Y-%m-%d', time.gmtime())}."
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for the kernels of a module."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


class Bare:
    """The floor: ipykernel as it is, on this machine, driven by jupyter_client alone."""

    async def start(self) -> None:
        """Start it and wait until it is ready, as its own clients do."""
        self.manager = AsyncKernelManager(kernel_name="python3")
        await self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels(stdin=False, hb=False)
        await self.client.wait_for_ready(timeout=60)

    async def run(self, code: str) -> None:
        """Run a cell until both its reply and idle have come."""
        msg_id = self.client.execute(code)
        while True:
            message = await self.client.get_iopub_msg()
            if message["parent_header"].get("msg_id") == msg_id and message["content"].get("execution_state") == "idle":
                break
        await self.client.get_shell_msg()

    async def stop(self) -> None:
        """End it."""
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


async def timed(work: Awaitable[Any]) -> float:
    """How long something takes, in seconds."""
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def beside_bare(benchmark: Any, loop: asyncio.AbstractEventLoop, ours: Any, code: str = "1+1", **rounds: int) -> Pair:
    """The times of a cell of a started kernel or session, and of one of a bare ipykernel, in turn; both are ended."""
    pair, bare = Pair(), Bare()
    loop.run_until_complete(bare.start())
    try:
        benchmark.pedantic(
            lambda: pair.ours.append(loop.run_until_complete(timed(ours.run(code)))),
            setup=lambda: pair.floor.append(loop.run_until_complete(timed(bare.run(code)))),
            **rounds,
        )
    finally:
        loop.run_until_complete(bare.stop())
        loop.run_until_complete(ours.stop())
    return pair
