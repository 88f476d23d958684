"""Which limits every engine that isolates holds; part of `contract.py`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sandbox.inner import group_value, isolated_with, value

from nbagent.core.policy import MIB
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine


class HoldsLimits:
    """Memory, processes, time and disk; a subclass says how to find the sandbox's process on the host."""

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    def process(self, kernel: Kernel) -> int:
        """A process of the sandbox's, by its id on the host."""
        raise NotImplementedError

    async def test_the_limits_are_set_on_the_group(self, engine: Engine) -> None:
        """Memory, no swap, cores and processes are bounds of the control group that the kernel is in."""
        async with Kernel(engine, isolated_with(memory_mb=300, cpus=0.5, pids=100)) as kernel:
            pid = self.process(kernel)
            assert group_value(pid, "memory", ("memory.limit_in_bytes", "memory.max")) == str(300 * MIB)
            assert group_value(pid, "cpu", ("cpu.cfs_quota_us", "cpu.max")) in ("50000", "50000 100000")
            assert group_value(pid, "pids", ("pids.max",)) == "100"
            if Path("/sys/fs/cgroup/memory").is_dir():
                # Version 2 counts with all memory what waits in connections; this one apart, in whole pages.
                tcp = int(group_value(pid, "memory", ("memory.kmem.tcp.limit_in_bytes",)))
                assert 300 * MIB // 8 - 4096 < tcp <= 300 * MIB // 8

    async def test_memory_of_the_kernel_is_bounded(self, engine: Engine) -> None:
        """A kernel that takes too much is killed, called out of memory with the limit, and replaced."""
        async with Kernel(engine, isolated_with(memory_mb=256)) as kernel:
            cell = await kernel.run("x = bytearray(10**9)")
            assert cell.status == "died"
            assert "ran out of memory (limit 256 MB" in cell.note
            assert "--memory" in cell.note
            assert (await kernel.run("1 + 1")).text == "2"

    async def test_memory_of_a_child_is_bounded(self, engine: Engine) -> None:
        """A child that takes too much is killed alone: the kernel keeps its variables."""
        code = """
import json, subprocess, sys
kept = 5
print(json.dumps(subprocess.run([sys.executable, "-c", "x = bytearray(10**9)"]).returncode))
"""
        async with Kernel(engine, isolated_with(memory_mb=256)) as kernel:
            assert await value(kernel, code) == -9
            assert (await kernel.run("kept")).text == "5"

    async def test_a_million_files_stay_inside(self, engine: Engine) -> None:
        """Empty files without end meet the memory's bound: refused, or the kernel is out of memory."""
        code = """
import os
for number in range(1_000_000):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))
"""
        async with Kernel(engine, isolated_with(memory_mb=256, tmp_mb=32)) as kernel:
            cell = await kernel.run(code, timeout=120)
            assert cell.status in ("died", "error")
            assert "memory" in cell.note or "No space" in str(cell.outputs)
            assert (await kernel.run("1 + 1")).text == "2"

    async def test_a_fork_bomb_is_bounded(self, small: Kernel) -> None:
        """Processes end at the limit, this process stays quick, and the kernel works on."""
        code = """
import json, os, signal, time
children = []
try:
    while len(children) < 5000:
        child = os.fork()
        if not child:
            time.sleep(1000)
        children.append(child)
except BlockingIOError:
    pass
print(json.dumps(len(children)))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
        running = asyncio.create_task(value(small, code))
        slowest = 0.0
        while not running.done():
            started = time.monotonic()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.monotonic() - started)
        assert 10 < await running < 64
        assert slowest < 2
        assert (await small.run("1 + 1")).text == "2"

    async def test_orphans_don_t_count_for_ever(self, small: Kernel) -> None:
        """What code leaves behind is collected, so that it doesn't use up the limit on processes."""
        code = """
import os
for _ in range(200):
    child = os.fork()
    if not child:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
"""
        cell = await small.run(code)
        assert cell.status == "ok", cell.outputs

    @pytest.mark.parametrize(
        "code",
        [
            "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt: pass",
            "sum(range(10**15))",
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        ],
        ids=["swallows the interrupt", "holds the interpreter's lock", "ignores the signal"],
    )
    async def test_what_doesn_t_stop_is_killed(self, brief: Kernel, code: str) -> None:
        """Code that ignores the interrupt ends at deadline plus grace, and no process of it is left."""
        process = self.process(brief)
        started = time.monotonic()
        cell = await brief.run(code)
        assert cell.status == "timeout"
        assert "killed" in cell.note
        assert time.monotonic() - started < 0.5 + 0.5 + 15
        assert not Path(f"/proc/{process}").exists()
        assert (await brief.run("1 + 1", timeout=20)).text == "2"
