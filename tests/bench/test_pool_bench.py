"""What a pool of warm kernels saves, and what it costs while nobody uses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import machine
import psutil
import pytest
from bench.conftest import Bare, Pair, at, timed

from nbagent import Session
from nbagent.core.policy import MIB
from nbagent.kernel.pool.pool import CHECK_SECONDS, KernelConfig, KernelPool
from nbagent.kernel.pool.stock import ESTIMATED_KERNEL_BYTES
from nbagent.sandbox.inside.overuse_inside import clock_of
from nbagent.sandbox.leases import lease

ENGINES = ("bubblewrap", "docker")
LEVEL = KernelConfig(name="bench")
MANY = 50
BARE = 10
IDLE_SECONDS = CHECK_SECONDS
"""As long as a pool waits between two checks of a kernel: each pays for exactly one."""
THREADS, FILES = 5, 28
"""Of the controller's, for each sandbox that waits."""
CELL = """
import polars as pl
import matplotlib.pyplot as plt
df = pl.DataFrame({"day": range(100), "group": ["a", "b"] * 50}).with_columns(value=pl.col("day") ** 2)
found = df.group_by("group").agg(pl.col("value").mean()).sort("group")
fig, ax = plt.subplots()
ax.plot(df["day"], df["value"])
plt.show()
found
"""
Say = Callable[..., None]
Note = Callable[[str], None]


@asynccontextmanager
async def full(engine: str, size: int, **more: Any) -> AsyncIterator[KernelPool]:
    """A pool that has all its kernels."""
    async with KernelPool({"isolated": size}, engine=engine, **more) as pool:
        assert await pool.wait_until_full()
        yield pool


@pytest.mark.parametrize("engine", ENGINES)
def test_hand_out(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, note: Note) -> None:
    """From `get` to a kernel that runs cells: at most two trivial cells' time, of which one empty request is a part."""
    times: list[float] = []
    floor: list[float] = []
    rounds = 20

    async def hand_out() -> None:
        async with full(engine, rounds, imports=()) as pool:
            bare = Bare()
            await bare.start()
            for _ in range(rounds):
                floor.append(await timed(bare.run("1+1")))
                started = time.perf_counter()
                kernel = await pool.get(LEVEL)
                times.append(time.perf_counter() - started)
                assert (await kernel.run("1+1")).text == "2"
            await bare.stop()
            assert pool.figures.warm_starts == rounds

    benchmark.pedantic(lambda: loop.run_until_complete(hand_out()), rounds=1)
    pair = Pair(times, floor)
    note(f"hand-out of a warm kernel, {engine}, p50: {1000 * at(times, 0.5):.1f} ms")
    say(f"hand-out of a warm kernel, {engine}, to a trivial cell of a bare ipykernel", pair.ratio(), limit=2.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_first_cell(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, note: Note) -> None:
    """A first cell with Polars and Matplotlib, hand-out included, costs what a bare kernel's second run of it does."""
    pair, starts = Pair(), []

    async def bare_twice() -> None:
        bare = Bare()
        started = time.perf_counter()
        await bare.start()
        await bare.run(CELL)
        starts.append(time.perf_counter() - started)
        pair.floor.append(await timed(bare.run(CELL)))
        await bare.stop()

    async def warm() -> None:
        async with full(engine, 1) as pool:
            started = time.perf_counter()
            kernel = await pool.get(LEVEL)
            cell = await kernel.run(CELL)
            pair.ours.append(time.perf_counter() - started)
            assert [list(each["data"]) for each in cell.outputs] == [
                ["text/plain", "image/png"],
                ["text/plain", "text/html"],
            ]
            assert pool.figures.warm_starts == 1

    def before() -> None:
        loop.run_until_complete(bare_twice())

    before()  # The first one of a home makes Matplotlib's list of fonts, which takes seconds more.
    for times in (pair.floor, starts):
        times.clear()
    benchmark.pedantic(lambda: loop.run_until_complete(warm()), setup=before, rounds=7)
    note(f"first cell with Polars and Matplotlib, bare ipykernel from cold: {at(starts, 0.5):.2f} s")
    note(f"first cell with Polars and Matplotlib, warm, {engine}: {1000 * at(pair.ours, 0.5):.0f} ms")
    say(f"first cell with Polars and Matplotlib, warm, {engine}, to a bare kernel's second", pair.ratio(), limit=1.25)


@pytest.mark.parametrize("engine", ENGINES)
def test_session_from_a_full_pool(
    engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, note: Note, tmp_path: Path
) -> None:
    """From a session's making to one that takes cells, log and audit included; the engine is not asked anew for it."""
    pair, rounds = Pair(), 20

    async def sessions() -> None:
        async with full(engine, rounds, imports=()) as pool:
            bare = Bare()
            await bare.start()
            for _ in range(rounds):
                pair.floor.append(await timed(bare.run("1+1")))
                session = Session(engine=engine, pool=pool, state_dir=str(tmp_path))
                pair.ours.append(await timed(session.start()))
                assert (await session.run("1+1")).text == "2"
                await session.stop()
            await bare.stop()
            assert pool.figures.warm_starts == rounds

    benchmark.pedantic(lambda: loop.run_until_complete(sessions()), rounds=1)
    note(f"session from a full pool, {engine}, to a trivial cell of a bare ipykernel: {pair.ratio():.2f} ×")
    say(f"session from a full pool, {engine}, p50", 1000 * at(pair.ours, 0.5), limit=50, unit="ms")


@pytest.mark.parametrize("engine", ENGINES)
def test_session_start(engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, tmp_path: Path) -> None:
    """A session with a small table, from nothing to its first result, in a tenth of a second."""
    times: list[float] = []
    table = tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n" * 10_000)

    async def sessions() -> None:
        async with full(engine, 6, imports=()) as pool:
            for _ in range(6):
                session = Session(data=[table], engine=engine, pool=pool)
                started = time.perf_counter()
                await session.start()
                assert (await session.run("open('/tmp/data/table.csv').readline()")).text == "'a,b\\n'"
                times.append(time.perf_counter() - started)
                await session.stop()
            assert pool.figures.warm_starts == 6

    benchmark.pedantic(lambda: loop.run_until_complete(sessions()), rounds=1)
    say(f"session with data, warm, {engine}, start to first result, median", at(times, 0.5), limit=0.1, unit="s")


def processes() -> list[psutil.Process]:
    """All processes of all sandboxes, by their control groups."""
    names = []
    for folder in lease.all_folders():
        terms = lease.read_terms(folder)
        assert terms is not None
        names.append(terms.parts.get("container") or folder.name)
    found = []
    for pid in psutil.pids():
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        if any(name in groups for name in names):
            found.append(psutil.Process(pid))
    return found


def used(those: list[int]) -> float:
    """Seconds of CPU that processes have used; psutil tells hundredths, of which an idle one takes few."""
    return sum(time.clock_gettime(clock_of(each)) for each in those)


@pytest.mark.parametrize("engine", ENGINES)
def test_many_idle_sandboxes(
    engine: str, benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, note: Note
) -> None:
    """Fifty sandboxes wait with their imports done: they all answer, and cost memory, and CPU as bare kernels do."""

    async def many() -> None:
        me = psutil.Process()
        bare = [Bare() for _ in range(BARE)]
        await asyncio.gather(*(each.start() for each in bare))
        floor = [each.manager.provisioner.pid for each in bare]
        threads, files = me.num_threads(), machine.descriptors()
        started = time.perf_counter()
        async with full(engine, MANY) as pool:
            note(f"{MANY} warm kernels, {engine}, one after the other: {time.perf_counter() - started:.0f} s")
            threads, files = me.num_threads() - threads, machine.descriptors() - files
            those = processes()
            memory = [each.memory_full_info() for each in those]
            pids = [each.pid for each in those]
            before = [used(each) for each in (pids, floor, [me.pid])]
            await asyncio.sleep(IDLE_SECONDS)
            idle, least, ours = (used(each) - at for each, at in zip((pids, floor, [me.pid]), before, strict=True))
            for each in bare:
                await each.stop()
            kernels = [await pool.get(LEVEL) for _ in range(MANY)]
            assert pool.figures.warm_starts == MANY
            cells = await asyncio.gather(*(kernel.run("1+1") for kernel in kernels))
            assert [cell.text for cell in cells] == ["2"] * MANY
            rss = sum(each.rss for each in memory) / MANY / MIB
            pss = sum(each.pss for each in memory) / MANY / MIB
            note(f"an idle sandbox, {engine}: {len(those) / MANY:g} processes, {rss:.0f} MB RSS, {pss:.0f} MB PSS")
            say(f"an idle sandbox, {engine}, PSS", pss, limit=ESTIMATED_KERNEL_BYTES / MIB, unit="MB")
            note(f"{MANY} idle sandboxes, {engine}, of one core: {100 * idle / IDLE_SECONDS:.1f} %")
            say(f"an idle sandbox, {engine}, CPU, to an idle bare ipykernel", idle / MANY / (least / BARE), limit=2.5)
            say(f"their controller, {engine}, of one core", 100 * ours / IDLE_SECONDS, limit=2, unit="%")
            say(f"an idle sandbox, {engine}, threads of the controller", threads / MANY, limit=THREADS, unit="")
            say(f"an idle sandbox, {engine}, open files of the controller", files / MANY, limit=FILES, unit="")

    benchmark.pedantic(lambda: loop.run_until_complete(many()), rounds=1)
