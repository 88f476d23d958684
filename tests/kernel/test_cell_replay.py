"""Cells that are run again in a kernel that replaced another one: `restore="replay"`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from kernel.shared import Events
from packages.index import Index

from nbagent.core.events import (
    CellFinished,
    CellStarted,
    CellStatus,
    Event,
    LateOutputAdded,
    OutputAdded,
    Record,
    StateLost,
    StateRestored,
)
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.cell_replay import CellReplay, SucceededCells
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.paths import VARIABLES
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")
DIE = "import os; os._exit(1)"


@pytest_asyncio.fixture(loop_scope="module")
async def restoring(engine: Engine, told: Events, packages: Index) -> AsyncIterator[Kernel]:
    """A kernel whose cells are run again when it is lost."""
    assert packages.url
    spec = SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, timeout=2, grace=10))
    async with Kernel(engine, spec, notify=told.append, restore="replay") as kernel:
        yield kernel


@pytest.fixture
def told() -> Events:
    """What the kernel told in this test."""
    return Events()


async def test_what_succeeded_is_there_again(restoring: Kernel, told: Events) -> None:
    """Variables are back, those of results too; what failed is not run again, and no output is shown twice."""
    await restoring.run("print('once'); x = [1]; import threading; threading.Timer(0.1, print, ['late'])")
    await restoring.run("x.append(2); x")
    await restoring.run("x.append(99); 1 / 0")
    told.clear()
    cell = await restoring.run(DIE)
    (restored,) = told.of(StateRestored)
    assert (restored.cells, restored.failed, restored.skipped) == ([1, 2], 0, [])
    assert restored.text in cell.note
    assert "Cells 1 and 2 succeeded before and were run again" in restored.text
    assert (cell.status, cell.restored) == ("died", restored.text)
    assert [type(each) for each in told] == [type(told[0]), OutputAdded, StateLost, StateRestored, CellFinished]
    assert (await restoring.run("x, Out[2] is x")).text == "([1, 2], True)"
    assert told.of(LateOutputAdded) == []


async def test_a_second_loss_brings_back_what_came_since(restoring: Kernel, told: Events) -> None:
    """What was restored and what succeeded after it make up the state, however often it is lost."""
    for number in range(3):
        await restoring.run(f"y{number} = {number}")
        await restoring.run(DIE)
    assert [each.cells for each in told.of(StateRestored)] == [[1], [1, 3], [1, 3, 5]]
    assert (await restoring.run("y0 + y1 + y2")).text == "3"


async def test_a_replay_stops_at_the_first_cell_that_fails_and_says_why(restoring: Kernel, told: Events) -> None:
    """It is told which and why; those before it are kept, those after it forgotten."""
    await restoring.run("a = 1")
    await restoring.run("1 / 0")
    # Of what failed nothing is left the second time.
    await restoring.run("assert In[2] == '1 / 0', 'no history'")
    await restoring.run("after = 1")
    await restoring.run(DIE)
    (restored,) = told.of(StateRestored)
    assert (restored.cells, restored.failed, restored.skipped) == ([1], 3, [4])
    assert restored.reason == "AssertionError: no history"
    assert "Cell 3 succeeded before, but not when it was run again (AssertionError: no history)" in restored.text
    assert "Cell 4 was not run again" in restored.text
    assert (await restoring.run("a")).text == "1"
    assert (await restoring.run("after")).status == "error"
    await restoring.run(DIE)
    assert told.of(StateRestored)[1].cells == [1, 6]


async def test_a_replay_takes_no_longer_than_one_cell_may(restoring: Kernel, told: Events) -> None:
    """All of it takes no longer than one cell may: what doesn't fit is told, and the kernel works."""
    for _ in range(3):
        await restoring.run("import time; time.sleep(0.9)")
    cell = await restoring.run(DIE)
    (restored,) = told.of(StateRestored)
    assert (restored.cells, restored.skipped) == ([*range(1, restored.failed)], [])
    assert restored.failed > 1
    assert "no time was left" in cell.note
    assert (await restoring.run("1 + 1")).text == "2"


async def test_a_kernel_that_dies_in_a_replay_is_replaced_without_another_replay(
    restoring: Kernel, told: Events
) -> None:
    """A kernel that dies of it is replaced once more, without another attempt."""
    await restoring.run("1 / 0")
    await restoring.run("import os; In[1] == '1 / 0' or os._exit(5)")
    cell = await restoring.run(DIE)
    (restored,) = told.of(StateRestored)
    assert (restored.cells, restored.failed, restored.reason) == ([], 2, "the kernel died of it")
    assert len(told.of(StateLost)) == 2
    assert "Cell 2 succeeded before, but not when it was run again" in cell.restored
    assert (await restoring.run("1 + 1")).text == "2"


async def test_a_loss_between_two_cells_is_told_with_the_next(restoring: Kernel, told: Events) -> None:
    """The cell that finds another kernel is the one with which it is told, restored or not."""
    await restoring.run("z = 26")
    await restoring._process.sandbox.signal(signal.SIGKILL)
    while not await restoring._process.has_ended():
        await asyncio.sleep(0.02)
    cell = await restoring.run("z")
    assert cell.text == "26"
    assert "between two cells" in cell.state_lost
    assert "Cell 1 succeeded before and was run again" in cell.note
    assert told.of(StateRestored)[0].cell == 2
    assert (await restoring.run("z")).state_lost == ""


async def test_a_restart_on_purpose_restores_nothing(restoring: Kernel, told: Events) -> None:
    """Who restarts the kernel wants it empty."""
    await restoring.run("z = 26")
    await restoring.restart()
    assert told.of(StateRestored) == []
    assert (await restoring.run("z")).status == "error"


async def test_packages_are_there_when_cells_run_again(restoring: Kernel, told: Events, packages: Index) -> None:
    packages.add("nbareplay", files={"nbareplay.py": "value = 5"})
    assert (await restoring.run("import nbareplay; v = nbareplay.value; v")).text == "5"
    await restoring.run(DIE)
    assert told.of(StateRestored)[0].cells == [1]
    assert (await restoring.run("v")).text == "5"


async def test_without_the_option_nothing_is_run_again(engine: Engine, told: Events) -> None:
    async with Kernel(engine, notify=told.append) as kernel:
        await kernel.run("x = 1")
        cell = await kernel.run(DIE)
        assert cell.restored == ""
        assert told.of(StateRestored) == []
        assert told.of(StateLost)[0].kept == ("outputs", "packages", "data")
        assert (await kernel.run("x")).status == "error"


async def test_a_replay_without_cells_is_no_event() -> None:
    """A kernel that is lost before any cell succeeded is not told as restored."""

    async def execute(code: str, seconds: float) -> dict[str, Any] | None:
        raise AssertionError(code, seconds)

    assert await CellReplay().run(execute, cell=1, seconds=1) is None


async def test_a_variable_that_went_with_the_kernel_is_to_be_given_again() -> None:
    async def execute(code: str, seconds: float) -> dict[str, Any]:
        return {"status": "error", "ename": "FileNotFoundError", "evalue": f"{code} {seconds}"}

    replay = CellReplay()
    replay.add(1, f'x = np.load("{VARIABLES}/x.npy")')
    restored = await replay.run(execute, cell=2, seconds=1)
    assert restored is not None
    assert "give it again" in restored.text


def finished(cell: int, status: CellStatus = "ok") -> list[Event]:
    """A cell from its beginning to its end."""
    end = CellFinished(cell=cell, status=status, outputs=[], execution_count=cell, duration=0.1)
    return [CellStarted(cell=cell, turn=0, code=f"code {cell}"), end]


LOST = StateLost(cell=9, reason="The kernel died.")
AGAIN = StateRestored(cell=9, cells=[1])


@pytest.mark.parametrize(
    ("events", "cells"),
    [
        ([*finished(1), *finished(2, "error"), *finished(3)], [1, 3]),
        ([*finished(1), CellStarted(cell=2, turn=0, code="code 2")], [1]),
        ([*finished(1), LOST, *finished(2)], [2]),
        ([*finished(1), *finished(2), LOST, AGAIN], [1]),
        ([*finished(1), LOST, AGAIN, *finished(2), LOST, AGAIN], [1]),
        # It died of what was run again, and was replaced once more, without.
        ([*finished(1), LOST, AGAIN, LOST], []),
        # No log of ours.
        ([finished(1)[1], AGAIN], []),
    ],
)
async def test_a_log_tells_what_a_kernel_is_made_of(events: list[Event], cells: list[int]) -> None:
    """What succeeded since the kernel was last replaced, and what was run again in it."""
    succeeded = SucceededCells()
    for number, event in enumerate(events, 1):
        succeeded.on_event(Record(number, 0.0, event))
    assert succeeded.cells == {cell: f"code {cell}" for cell in cells}
