"""What the benchmarks share: the floor they are measured against, taken in the same run, turn by turn."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client import AsyncKernelManager

LINES: list[str] = []
"""What the run found, printed at its end."""


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
    """Keep one line for the table at the end, and hold the figure against its limit."""

    def tell(what: str, figure: float, *, limit: float, unit: str = "×") -> None:
        verdict = "ok" if figure <= limit else "TOO MUCH"
        LINES.append(f"{what:<68} {figure:8.3f} {unit:<3} limit {limit:g} {unit:<3} {verdict}")
        assert figure <= limit, LINES[-1]

    return tell


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table."""
    terminalreporter.section("figures")
    for line in LINES:
        terminalreporter.write_line(line)


@pytest.fixture
def note() -> Callable[[str], None]:
    """Keep one line for the table that is held against nothing."""
    return LINES.append


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
