"""Warm kernels: handed out in place of cold ones, without a difference but in time, and never a second time."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import machine
import psutil
import pytest
from kernel.shared import Events
from packages.index import Index

from nbagent import Session
from nbagent.core import settings
from nbagent.core.errors import SandboxError, UsageError
from nbagent.core.events import Cell, CellStarted, HostDecided, PackagesInstalled
from nbagent.core.policy import TRUST_PRESETS, TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.pool.pool import KernelConfig, KernelPool
from nbagent.kernel.pool.stock import ESTIMATED_KERNEL_BYTES, FILES_PER_KERNEL, free_memory, shortage
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data import mirror
from nbagent.sandbox.leases import lease
from nbagent.sandbox.machine import reaper, supervisor
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

LEVEL = KernelConfig(name="task", capabilities=("plot",))


async def until(found: Callable[[], bool], *, seconds: float = 30) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.05)


def waiting(pool: KernelPool) -> Callable[[], bool]:
    """Whether a pool has all its kernels."""
    return lambda: pool.figures.waiting == pool.figures.wanted


# -- the life of a pool ---------------------------------------------------------------------------------------------


async def test_kernels_are_handed_out_once_and_replaced(engine: Engine) -> None:
    """`get`, `execute`, `release`: a kernel that was there, its first cell is cell 1, and then it is gone for good."""
    files, threads = machine.descriptors(), len(psutil.Process().threads())
    began = time.monotonic()
    async with KernelPool({"isolated": 2}, engine=engine.name, imports=()) as pool:
        assert await pool.wait_until_full()
        filling = time.monotonic() - began
        # The first kernels of a process bring some of these for all.
        assert (machine.descriptors() - files) / 2 < 35
        assert (len(psutil.Process().threads()) - threads) / 2 < 8
        told = Events()
        started = time.monotonic()
        kernel = await pool.get(LEVEL, notify=told.append)
        assert time.monotonic() - started < filling / 4
        first, id_ = await pool.execute(kernel.id, "x = 1; x"), kernel.id
        assert (first.cell, first.execution_count, first.text) == (1, 1, "1")
        assert [each.cell for each in told.of(CellStarted)] == [1]
        assert pool.lent == {id_: LEVEL}
        await pool.release(id_)
        await pool.release(id_)
        assert not kernel.is_alive
        with pytest.raises(UsageError, match="No kernel"):
            await pool.execute(id_, "x")
        await until(waiting(pool))
        ids = set()
        for _ in range(2):
            other = await pool.get(LEVEL)
            ids.add(other.id)
            assert (await pool.execute(other.id, "'x' in dir()")).text == "False"
        assert len(ids - {id_}) == 2
        assert (pool.figures.warm_starts, pool.figures.cold_starts, pool.figures.lent) == (3, 0, 2)
    assert pool.figures.lent == 0
    with pytest.raises(UsageError, match="was shut down"):
        await pool.get(LEVEL)


async def test_an_empty_pool_degrades_to_cold_starts() -> None:
    """Who comes when nothing is there, or wants another kind, waits for a cold start; all get a kernel of their own."""
    async with KernelPool({"isolated": 1}, engine="bubblewrap", imports=()) as pool:
        assert await pool.wait_until_full()
        other = KernelConfig(security=trust_for(TrustLevel.ISOLATED, memory_mb=1024))
        kernels = await asyncio.gather(pool.get(LEVEL), pool.get(LEVEL), pool.get(other))
        cells = await asyncio.gather(*(pool.execute(each.id, "1 + 1") for each in kernels))
        assert [cell.text for cell in cells] == ["2"] * 3
        assert (pool.figures.warm_starts, pool.figures.cold_starts) == (1, 2)
        assert kernels[2].spec.trust.limits.memory_mb == 1024


async def test_what_is_dead_hung_or_too_old_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """By a look now and then, and at the latest when somebody wants a kernel."""
    async with KernelPool({"isolated": 1}, engine="bubblewrap", imports=(), check=0.3) as pool:
        assert await pool.wait_until_full()
        (folder,) = lease.all_folders()
        supervisor.end(folder)
        await until(lambda: pool.figures.dropped == 1)
        await until(waiting(pool))
        (other,) = lease.all_folders()
        assert other != folder
    before = psutil.Process().children(recursive=True)
    async with KernelPool({"isolated": 1}, engine="bubblewrap", imports=()) as pool:
        assert await pool.wait_until_full()
        inner = [each for each in psutil.Process().children(recursive=True) if each not in before][-1]
        inner.suspend()
        kernel = await pool.get(LEVEL)
        assert (await kernel.run("1")).text == "1"
        assert (pool.figures.dropped, pool.figures.cold_starts) == (1, 1)
        assert "did not answer" in caplog.text
    async with KernelPool({"isolated": 1}, engine="bubblewrap", imports=(), ttl=0.5) as pool:
        await until(lambda: pool.figures.dropped >= 1)
        await until(lambda: pool.figures.waiting == 1)


async def test_starts_that_fail_are_told_and_tried_less_and_less(caplog: pytest.LogCaptureFixture) -> None:
    """A sandbox that can't be started costs a warning now and then, no more; who wants one is told why."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, start_timeout=0.001))
    async with KernelPool({spec: 2}, engine="bubblewrap") as pool:
        assert not await pool.wait_until_full()
        await asyncio.sleep(2.5)
        assert 1 <= pool.figures.failures <= 3
        with pytest.raises(SandboxError, match="did not answer"):
            await pool.get(spec)
    said = [each.getMessage() for each in caplog.records]
    assert 1 <= len(said) <= 3
    assert "could be warmed; the next try is in 1 s. The kernel in bubblewrap did not answer" in said[0]


async def test_a_pool_stays_within_half_of_the_free_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is not warmed, which is said once; kernels are still to be had."""
    assert shortage(0, each=ESTIMATED_KERNEL_BYTES) == ""
    assert shortage(10, each=free_memory() // 8)
    assert "it would hold half of the free memory" in shortage(0, each=free_memory())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (machine.descriptors() + FILES_PER_KERNEL, hard))
    try:
        assert "ulimit" in shortage(0, each=ESTIMATED_KERNEL_BYTES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setattr("nbagent.kernel.pool.stock.ESTIMATED_KERNEL_BYTES", free_memory())
    async with KernelPool({"isolated": 3}, engine="bubblewrap", imports=(), check=0.05) as pool:
        assert not await pool.wait_until_full()
        kernel = await pool.get(LEVEL)
        assert (await kernel.run("1")).text == "1"
        assert (pool.figures.waiting, pool.figures.cold_starts) == (0, 1)
    (said,) = [each.getMessage() for each in caplog.records if "free memory" in each.getMessage()]
    assert said.startswith("The pool stays at 0 of 3 kernels")


async def test_sizes_and_imports_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept warm unless it is asked for; a number is for the person's own level, a table for levels."""
    assert settings.load().pool_size == 0
    async with KernelPool(engine="bubblewrap") as pool:
        assert pool.figures.wanted == 0
        assert (await (await pool.get(LEVEL)).run("1")).text == "1"
    assert pool.imports == ("polars", "matplotlib.pyplot")
    assert pool.ttl == 1800
    monkeypatch.setenv("NBAGENT_POOL_SIZE", '{"isolated": 1, "untrusted": 1}')
    monkeypatch.setenv("NBAGENT_POOL_IMPORTS", '["polars", "nosuch"]')
    async with KernelPool(engine="bubblewrap") as pool:
        assert await pool.wait_until_full()
        seen = "import sys; 'polars' in sys.modules"
        for level, imported in ((TrustLevel.ISOLATED, "True"), (TRUST_PRESETS[TrustLevel.UNTRUSTED], "False")):
            kernel = await pool.get(KernelConfig(security=level))
            # At `untrusted` the usual imports would take most of the memory that code has.
            assert (await kernel.run(seen)).text == imported
        assert pool.figures.warm_starts == 2
    monkeypatch.setenv("NBAGENT_POOL_SIZE", '{"nosuch": 1}')
    with pytest.raises(UsageError, match="pool_size"):
        KernelPool()
    monkeypatch.delenv("NBAGENT_POOL_SIZE")
    with pytest.raises(UsageError, match="no trust level"):
        KernelPool({"nosuch": 1})
    with pytest.raises(UsageError, match="-1 kernels"):
        KernelPool(-1)


async def test_the_unsandboxed_engine_has_no_pool() -> None:
    """Its kernels see files where they lie; and a pool is initialized once."""
    with pytest.raises(UsageError, match="keeps no kernels warm"):
        await KernelPool(1, engine="local").initialize()
    async with KernelPool(0, engine="bubblewrap") as pool:
        with pytest.raises(UsageError, match="initialized before"):
            await pool.initialize()


# -- no difference but in time --------------------------------------------------------------------------------------

CELLS = (
    "sorted(dir())",
    "%who",
    "In, Out, _, __, _i, _ii",
    "from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1, 2]); f",
    "import matplotlib\nmatplotlib.is_interactive(), sorted((k, str(v)) for k, v in matplotlib.rcParams.items())",
    "1/0",
    "import matplotlib.pyplot as plt\nplt.get_fignums(), plt.isinteractive()",
    "calls = get_ipython().events.callbacks\n{k: [getattr(e, '__qualname__', e) for e in v] for k, v in calls.items()}",
    "fig, ax = plt.subplots(); ax.plot([1, 3, 2], label='a'); ax.legend(); ax.set_title('T'); plt.show()",
    "plt.get_backend(), plt.figure().number, sorted((k, str(v)) for k, v in matplotlib.rcParams.items())",
    "{k: [getattr(e, '__qualname__', e) for e in v] for k, v in calls.items()}",
    "import polars as pl\npl.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', None]})",
    "pl.DataFrame({'a': [1]}).select('nosuch')",
    "pl.Config.state(), pl.thread_pool_size()",
    "plt.close('all'); matplotlib.use('Agg'); plt.plot([1]); plt.show()",
    "undefined_name",
)
OTHERS = (
    "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
    "%matplotlib inline\nplt.plot([1, 2])",
)


def told(cell: Cell) -> Any:
    """All that a notebook keeps of a cell; without addresses in memory, which no two kernels share."""
    text = json.dumps([cell.status, cell.execution_count, cell.note, cell.outputs])
    return json.loads(re.sub(r"0x[0-9a-f]{8,}", "0x…", text))


async def test_cells_give_the_same_outputs_as_in_a_cold_kernel(engine: Engine) -> None:
    """Whatever was imported and used ahead: namespace, counter, history, figures, backend, tracebacks are as new."""
    await compare(engine.name, CELLS)


async def test_another_backend_is_chosen_as_in_a_cold_kernel() -> None:
    """Before pyplot is imported, too, as far as the code can know."""
    await compare("bubblewrap", OTHERS)


async def compare(engine: str, cells: tuple[str, ...]) -> None:
    """Run cells in a warm kernel and in a cold one."""
    async with KernelPool({"isolated": 1}, engine=engine) as pool:
        assert await pool.wait_until_full()
        warm = await pool.get(LEVEL)
        async with Kernel(engines()[engine]) as cold:
            for code in cells:
                assert told(await warm.run(code)) == told(await cold.run(code)), code
            seen = "import sys; {'polars', 'matplotlib.pyplot'} <= set(sys.modules)"
            assert (await warm.run(seen)).text == "True"
        assert pool.figures.warm_starts == 1


async def test_packages_reach_a_warm_kernel(engine: Engine, packages: Index) -> None:
    """The installer, what it tells and `%pip` are those of whoever has the kernel now."""
    packages.add("ahead")
    packages.add("behind")
    spec = SandboxSpec(trust=trust_for(TrustLevel.ISOLATED))
    async with KernelPool({spec: 1}, engine=engine.name, imports=()) as pool:
        assert await pool.wait_until_full()
        told = Events()
        kernel = await pool.get(spec, notify=told.append)
        cell = await kernel.run("import ahead; ahead.version")
        assert (cell.text, [each.name for each in cell.installed]) == ("'1.0'", ["ahead"])
        assert (await kernel.run("%pip install behind\nimport behind; behind.version")).text.endswith("'1.0'")
        assert [each.packages[0].name for each in told.of(PackagesInstalled)] == ["ahead", "behind"]
        assert pool.figures.warm_starts == 1


OUT = """
import urllib.request
try:
    urllib.request.urlopen('http://other.example.org', timeout=5)
except OSError as error:
    print(error)
"""


async def test_decisions_about_hosts_reach_whoever_has_the_kernel() -> None:
    """The way out of a sandbox that was started ahead tells what it decides to its new owner."""
    trust = trust_for(TrustLevel.SANDBOXED, security={"allowed_hosts": ["api.example.org"]})
    spec = SandboxSpec(trust=trust)
    async with KernelPool({spec: 1}, engine="bubblewrap", imports=()) as pool:
        assert await pool.wait_until_full()
        told = Events()
        kernel = await pool.get(spec, notify=told.append)
        assert "is not an allowed host" in (await kernel.run(OUT)).text
        await until(lambda: bool(told.of(HostDecided)), seconds=5)
        assert [(each.host, each.allowed) for each in told.of(HostDecided)] == [("other.example.org", False)]
        assert pool.figures.warm_starts == 1


@pytest.fixture
def data(tmp_path: Path) -> list[Path]:
    """A file and a folder."""
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "b.csv").write_text("b\n2\n")
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "a.csv").chmod(0o600)
    return [tmp_path / "a.csv", tmp_path / "folder"]


LOOK = """
import os
found = sorted(os.path.join(path, name) for path, _, names in os.walk('/tmp/data') for name in names)
print([(each, open(each).read()) for each in found])
try:
    open('/tmp/data/new', 'w')
except OSError:
    print('read-only')
"""


async def test_a_session_sees_no_difference(engine: Engine, data: list[Path]) -> None:
    """Data, its description, events and the kernel after a restart are as in a session that started cold."""
    async with KernelPool({"isolated": 1}, engine=engine.name, imports=()) as pool:
        assert await pool.wait_until_full()
        found = []
        for each in (pool, None):
            async with Session(data=data, engine=engine.name, pool=each) as session:
                assert session._started().recording.started is not None
                seen = [(one.path, one.size, one.source) for one in session._started().recording.data]
                looks = [(await session.run(LOOK)).outputs]
                died = await session.run("import os; os._exit(3)")
                looks.append((await session.run(LOOK)).outputs)
                found.append((seen, looks, died.status, died.state_lost))
        assert found[0] == found[1]
        assert found[0][1][0] == found[0][1][1]
        assert "b\\\\n2" in str(found[0][1][0])
        assert (pool.figures.warm_starts, pool.figures.cold_starts) == (1, 0)


async def test_data_that_would_have_to_be_copied_is_mounted(
    data: list[Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of much data that can't be linked: a cold start, which is logged with its reason; the warm kernel stays."""
    caplog.set_level(logging.INFO, "nbagent.kernel.pool.pool")
    large = data[1].parent / "large"
    with large.open("wb") as file:
        file.truncate(2 * mirror.MAX_COPIED)
    async with KernelPool({"isolated": 1}, engine="bubblewrap", imports=()) as pool:
        assert await pool.wait_until_full()
        large.chmod(0o600)  # for a sandbox of root's
        with monkeypatch.context() as patch:
            patch.setattr(mirror, "MAX_COPIED", 3)
            async with Session(data=data, memory_mb=2048, engine="bubblewrap", pool=pool) as session:
                assert (await session.run("open('/tmp/data/a.csv').read()")).text == "'a\\n1\\n'"
        assert (pool.figures.warm_starts, pool.figures.cold_starts, pool.figures.waiting) == (0, 1, 1)
        large.chmod(0o644)
        async with Session(data=[large], engine="bubblewrap", memory_mb=2048, pool=pool) as session:
            size = (await session.run("import os; os.path.getsize('/tmp/data/large')")).text
            assert size == str(2 * mirror.MAX_COPIED)
        assert pool.figures.warm_starts == 1
    assert [each.getMessage().partition("since ")[2] for each in caplog.records] == [f"{mirror.TOO_MUCH}."]


# -- nothing is left ------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, signal, sys
from nbagent import Session
from nbagent.kernel.pool.pool import KernelConfig, KernelPool

async def main(engine, end):
    pool = KernelPool({"isolated": 1}, engine=engine, imports=())
    await pool.initialize()
    await pool.wait_until_full()
    if end == "session":
        session = Session(engine=engine, pool=pool)
        await session.start()
        await session.run("x = 41")
        print(session.id, pool.figures.warm_starts, flush=True)
    else:
        await pool.get(KernelConfig())
        print("ready", flush=True)
    await pool.wait_until_full()
    if end in ("session", "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "loop":
        return asyncio.get_running_loop().stop()
    if end != "return":
        await asyncio.sleep(60)

if sys.argv[2] == "loop":
    loop = asyncio.new_event_loop()
    loop.create_task(main(*sys.argv[1:]))
    loop.run_forever()
    loop.close()
else:
    asyncio.run(main(*sys.argv[1:]))
"""


def run(engine: str, end: str) -> subprocess.Popen[str]:
    """A process with a pool of two kernels, one of them lent."""
    command = [sys.executable, "-c", PROGRAM, engine, end]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def finish(process: subprocess.Popen[str], end: str) -> str:
    """Let it come to its end; returns what it said."""
    assert process.stdout is not None
    said = await asyncio.to_thread(process.stdout.readline)
    if end in ("SIGINT", "SIGTERM"):
        await asyncio.sleep(0.5)
        process.send_signal(signal.Signals[end])
    _, errors = await asyncio.to_thread(process.communicate)
    assert said, errors
    return said.strip()


async def all_of(*work: Awaitable[str]) -> list[str]:
    """What each of them gave."""
    return list(await asyncio.gather(*work))


async def test_a_process_leaves_nothing_however_it_ends(
    leftovers: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a shutdown too: at its end by itself, by Ctrl-C, with its loop closed, by SIGTERM and by SIGKILL.

    What a signal that can't be caught leaves on disk, the next sweep removes; processes are gone at once.
    """
    # A process that is killed while it begins a lease leaves its folder, which a sweep takes away only later.
    monkeypatch.setattr(lease, "STALE_NEW", 0)
    before = set(leftovers())
    for ends in (("return", "loop", "SIGINT"), ("SIGTERM", "kill")):
        running = [(run("bubblewrap", end), end) for end in ends]
        await all_of(*(finish(process, end) for process, end in running))
        if "kill" in ends:
            await until(lambda: not [each for each in set(leftovers()) - before if each.startswith("process")])
            reaper.sweep()
        await until(lambda: not set(leftovers()) - before)


async def test_a_session_with_a_warm_kernel_survives_its_process(engine: Engine) -> None:
    """Its lease is the session's from the hand-out on; the kernel that was not handed out ends with the process."""
    said = await finish(run(engine.name, "session"), "session")
    id_, _, warm = said.partition(" ")
    assert warm == "1"
    session = await Session.connect(id_)
    try:
        assert (await session.run("x + 1")).text == "42"
        reaper.sweep()
        await until(lambda: len(list(lease.all_folders())) == 1)
        lost = await session.run("import os; os._exit(1)")
        assert lost.status == "died"
        assert (await session.run("1 + 1")).text == "2"
    finally:
        await session.stop()
