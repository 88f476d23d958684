"""CpuWeight: a sandbox gives way once its cell takes long, and has its weight again for the next one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nbagent.kernel.cpu_weight import CpuWeight
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.limits.cgroup.usage import WEIGHTS, GroupUsage

pytestmark = pytest.mark.asyncio(loop_scope="module")

FULL = 1.5
"""Long enough for a short cell to end within it on a busy machine."""


@pytest.fixture(autouse=True)
def longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell has its full weight for longer than usual."""
    monkeypatch.setattr("nbagent.kernel.cpu_weight.FULL_WEIGHT_SECONDS", FULL)


def weight(kernel: Kernel) -> int:
    """What Linux knows of the sandbox's weight."""
    usage = kernel._process.usage()
    assert usage is not None
    assert usage._cpu is not None
    return int((usage._cpu / WEIGHTS[usage._version][0]).read_text())


async def test_who_takes_long_gives_way(kernel: Kernel) -> None:
    """After a while, in a cell and after it; a cell that begins has the full weight."""
    await kernel.run("1")
    usage = kernel._process.usage()
    assert usage is not None
    _, (full, low) = WEIGHTS[usage._version]
    assert weight(kernel) == full
    running = asyncio.create_task(kernel.run("import time; time.sleep(3)"))
    await asyncio.sleep(FULL + 0.3)
    assert not running.done()
    assert weight(kernel) == low
    await running
    assert weight(kernel) == low
    await kernel.run("1")
    assert weight(kernel) == full
    await asyncio.sleep(FULL + 0.2)
    assert weight(kernel) == low


async def test_what_is_stopped_has_its_full_weight(kernel: Kernel) -> None:
    """Where much runs beside it, its traceback would come too late, and the kernel be killed with its variables."""
    caught = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(0.7)"
    running = asyncio.create_task(kernel.run(caught))
    await asyncio.sleep(FULL + 0.3)
    usage = kernel._process.usage()
    assert usage is not None
    _, (full, low) = WEIGHTS[usage._version]
    assert weight(kernel) == low
    kernel.interrupt()
    while weight(kernel) == low:
        assert not running.done()
        await asyncio.sleep(0.05)
    assert weight(kernel) == full
    await running


async def test_a_new_kernel_has_its_full_weight(kernel: Kernel) -> None:
    """What the one before did is not held against it."""
    await kernel.run("1")
    await asyncio.sleep(FULL + 0.2)
    await kernel.restart()
    usage = kernel._process.usage()
    assert usage is not None
    assert weight(kernel) == WEIGHTS[usage._version][1][0]
    assert (await kernel.run("2")).text == "2"


async def test_a_missing_control_group_is_no_error(tmp_path: Path) -> None:
    precedence = CpuWeight()
    precedence.begin(None)
    gone = GroupUsage(1, tmp_path / "gone", cpu=tmp_path / "gone")
    precedence.begin(gone)
    await asyncio.sleep(FULL + 0.1)
    precedence.begin(gone)
    precedence.end()
    precedence.end()
    GroupUsage(1, tmp_path).give_way(True)
