"""nbagent's own requests to a kernel: no cells, no trace, and bounded in time."""

from __future__ import annotations

import time

import pytest
import pytest_asyncio
from kernel.shared import Events

from nbagent.core.events import StateLost
from nbagent.kernel.kernel import Kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def imports_are_paid(kernel: Kernel) -> None:
    """A kernel's first error costs imports of its own, which are not what the times here are about."""
    await kernel.run("1 / 0")


async def test_values_are_asked_for_as_json(kernel: Kernel) -> None:
    """`evaluate` fetches a value without a cell and without a trace, and gives None for what is none."""
    before = kernel.last_cell
    assert await kernel.evaluate("def main(*given):\n    return list(given)", [1, "ü"]) == [1, "ü"]
    for code in ("", "def main(): return object()", "def main(): 1 / 0", "def main(", "def main(): raise SystemExit"):
        assert await kernel.evaluate(code, []) is None
    assert kernel.last_cell == before
    assert (await kernel.run("'main' in globals()")).text == "False"


async def test_a_question_that_takes_too_long_is_interrupted(kernel: Kernel, events: Events) -> None:
    """Nbagent's own request has a limit too; the kernel keeps its state, and really runs the next cell."""
    await kernel.run("kept = 7")
    started = time.monotonic()
    assert await kernel.evaluate("import time\ndef main(): time.sleep(100)", [], seconds=0.3) is None
    assert time.monotonic() - started < 30
    assert (await kernel.run("kept")).text == "7"
    assert not events.of(StateLost)


async def test_a_question_that_cannot_be_stopped_costs_the_kernel(kernel: Kernel, events: Events) -> None:
    """One that ignores the interrupt too is ended; the next cell gets a new kernel, and is told."""
    await kernel.run("gone = 1")
    stubborn = "import time\ndef main():\n    while True:\n        try: time.sleep(60)\n"
    stubborn += "        except KeyboardInterrupt: pass"
    started = time.monotonic()
    assert await kernel.evaluate(stubborn, [], seconds=0.3) is None
    assert time.monotonic() - started < 30
    assert not kernel.is_alive
    cell = await kernel.run("'gone' in globals()")
    assert cell.text == "False"
    assert "did not answer between two cells, ignored the interrupt, and was killed" in cell.state_lost
    assert cell.state_lost in cell.note
    (told,) = events.of(StateLost)
    assert (told.cell, told.reason) == (cell.cell, cell.state_lost)
    assert (await kernel.run("2")).state_lost == ""
