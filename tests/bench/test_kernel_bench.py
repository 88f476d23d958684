"""What a sandbox costs beside a bare ipykernel: round trips, cold starts, installs, much output, many cells."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.conftest import Bare, Pair, at, beside_bare, timed

from nbagent import Session
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import choose

ENGINES = ("bubblewrap", "docker")
BARE = "a bare ipykernel"
PRINTS = "for i in range(10_000): print(i, flush=True)"
FIGURE = """
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot(range(100))
plt.show()
"""
COLD = {"bubblewrap": 1.0, "docker": 1.25}
Say = Callable[..., None]


async def warm(engine: str) -> Kernel:
    """A started kernel that has run one cell."""
    kernel = Kernel(await choose(engine))
    await kernel.start()
    await kernel.run("1+1")
    return kernel


@pytest.mark.parametrize("engine", ENGINES)
def test_round_trip(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, compare: Say) -> None:
    """A trivial cell costs at most 1.10 times what it costs in a bare ipykernel, in the median and at p95."""
    kernel = loop.run_until_complete(warm(engine))
    pair = beside_bare(benchmark, loop, kernel, rounds=500, warmup_rounds=20)
    compare(f"trivial cell of a kernel, {engine}", pair, floor=BARE, limit=1.10)


@pytest.mark.parametrize(
    ("what", "code", "rounds", "limit"), [("10,000 flushed prints", PRINTS, 7, 0.9), ("a figure", FIGURE, 40, 1.0)]
)
def test_a_cell_with_output(
    what: str,
    code: str,
    rounds: int,
    limit: float,
    benchmark: Any,
    loop: asyncio.AbstractEventLoop,
    compare: Say,
    tmp_path: Path,
) -> None:
    """What is printed a line at a time, and a figure, cost a session no more than they cost in a bare ipykernel."""
    session = Session(engine="bubblewrap", state_dir=str(tmp_path))
    loop.run_until_complete(session.start())
    pair = beside_bare(benchmark, loop, session, code, rounds=rounds, warmup_rounds=1)
    del pair.ours[0], pair.floor[0]  # the first figure makes the list of fonts
    compare(f"{what}, Session.run, bubblewrap", pair, floor=BARE, limit=limit)


@pytest.mark.parametrize("engine", ENGINES)
def test_cold_start(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say) -> None:
    """From nothing to the first result: bubblewrap takes no longer than a bare ipykernel, Docker a quarter more."""
    pair = Pair()

    async def ours() -> None:
        async with Kernel(await choose(engine)) as kernel:
            started = kernel.run("1+1")
            await started
            pair.ours.append(time.perf_counter() - begun)

    async def floor() -> None:
        bare = Bare()
        await bare.start()
        await bare.run("1+1")
        pair.floor.append(time.perf_counter() - begun)
        await bare.stop()

    begun = 0.0

    def run(work: Callable[[], Any]) -> None:
        nonlocal begun
        begun = time.perf_counter()
        loop.run_until_complete(work())

    run(ours)
    run(floor)
    pair.ours.clear()
    pair.floor.clear()
    benchmark.pedantic(lambda: run(ours), setup=lambda: run(floor), rounds=9)
    say(f"cold start to first result, {engine}, to a bare ipykernel", pair.ratio(), limit=COLD[engine])


@pytest.mark.parametrize("engine", ENGINES)
def test_cached_install(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say) -> None:
    """A small pure wheel that is in uv's cache: from ModuleNotFoundError to the re-run's result in half a second."""
    times: list[float] = []

    async def install() -> None:
        kernel = await warm(engine)
        try:
            cell = await kernel.run("import humanize; humanize.naturalsize(10**9)")
            assert cell.text == "'1.0 GB'"
            assert [package.name for package in cell.installed] == ["humanize"]
            times.append(cell.duration)
        finally:
            await kernel.stop()

    loop.run_until_complete(install())
    times.clear()
    benchmark.pedantic(lambda: loop.run_until_complete(install()), rounds=5)
    say(f"cached install of a small wheel and re-run, {engine}, median", at(times, 0.5), limit=0.5, unit="s")


MUCH = "for _ in range(1000): print('x' * 100_000)"
GROWTH = f"""
import asyncio, json, resource, sys, time
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import choose

async def main():
    async with Kernel(await choose(sys.argv[1])) as kernel:
        await kernel.run("1+1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        cell = await kernel.run({MUCH!r})
        assert cell.status == "ok", cell.note
        seconds = time.perf_counter() - started
        print(json.dumps([(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, seconds]))

asyncio.run(main())
"""
NBCLIENT = f"""
import json, time, nbformat
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in ("1+1", {MUCH!r})])
client = NotebookClient(notebook, kernel_name="python3")
with client.setup_kernel():
    client.execute_cell(notebook.cells[0], 0)
    started = time.perf_counter()
    client.execute_cell(notebook.cells[1], 1)
    print(json.dumps(time.perf_counter() - started))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_much_output(engine: str, benchmark: Any, say: Say) -> None:
    """100 MB of stdout: the controller grows by at most 50 MB, and the cell ends no later than with nbclient."""
    pair, growth = Pair(), []

    def run(source: str, *arguments: str) -> Any:
        done = subprocess.run([sys.executable, "-c", source, *arguments], capture_output=True, text=True, check=True)
        return json.loads(done.stdout.strip().splitlines()[-1])

    def ours() -> None:
        grown, seconds = run(GROWTH, engine)
        growth.append(grown)
        pair.ours.append(seconds)

    benchmark.pedantic(ours, setup=lambda: pair.floor.append(run(NBCLIENT)), rounds=3)
    say(f"100 MB of stdout, {engine}, growth of the controller", max(growth), limit=50, unit="MB")
    say(f"100 MB of stdout, {engine}, time to nbclient's", pair.ratio(), limit=1.0)


def test_many_cells(benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say) -> None:
    """Cell 2,000 costs what cell 1 costs."""
    times: list[float] = []
    kernel = loop.run_until_complete(warm("bubblewrap"))
    try:
        benchmark.pedantic(
            lambda: times.append(loop.run_until_complete(timed(kernel.run("print(1)\n1+1")))), rounds=2000
        )
    finally:
        loop.run_until_complete(kernel.stop())
    say("last 200 of 2,000 cells to the first 200, p50", at(times[-200:], 0.5) / at(times[:200], 0.5), limit=1.10)
