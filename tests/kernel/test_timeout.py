"""How long a cell runs and how it ends: limits, stops, last words, and ends that do not come."""

from __future__ import annotations

import asyncio
import time

import pytest
import pytest_asyncio
from kernel.shared import SWALLOW, Events, ended, errors

from nbagent.core.events import OutputAdded, StateLost
from nbagent.kernel.kernel import Kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def imports_are_paid(kernel: Kernel) -> None:
    """A kernel's first error costs imports of its own, which are not what the times here are about."""
    await kernel.run("1 / 0")


async def test_a_timeout_keeps_variables(kernel: Kernel, events: Events) -> None:
    """A cell over its limit is interrupted in time, and the next one finds its variables."""
    started = time.monotonic()
    cell = await kernel.run("import time; kept = 5; print('begun'); time.sleep(100)", timeout=0.5)
    assert time.monotonic() - started < 60
    assert (cell.status, cell.text, cell.state_lost) == ("timeout", "begun", "")
    assert "variables are kept" in cell.note
    assert errors(cell) == ["KeyboardInterrupt"]
    assert (await kernel.run("kept")).text == "5"
    assert not events.of(StateLost)


async def test_a_clock_that_jumps_changes_no_limit(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time of day is set forward or back, a cell is neither stopped early nor runs on for ever."""
    real = time.time
    for jump in (86_400.0, -86_400.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        assert (await kernel.run("import time; time.sleep(0.3); 'slept'", timeout=10)).text == "'slept'"
        started = time.monotonic()
        assert (await kernel.run("time.sleep(60)", timeout=0.3)).status == "timeout"
        assert time.monotonic() - started < 45
        monkeypatch.setattr(time, "time", real)


async def test_after_each_of_ten_timeouts_the_next_cell_really_runs(kernel: Kernel) -> None:
    """After each interrupt the next cell really runs: no empty success."""
    for number in range(10):
        assert (await kernel.run("import time; time.sleep(100)", timeout=0.05)).status == "timeout"
        assert (await kernel.run(f"{number}")).text == str(number)


async def test_a_swallowed_interrupt_ends_in_time(kernel: Kernel, events: Events) -> None:
    """At limit plus grace the kernel is killed and replaced; person and model are told that state is lost."""
    await kernel.run("gone = 1")
    started = time.monotonic()
    cell = await kernel.run(SWALLOW, timeout=0.5)
    # The end is told before the new kernel is up, which takes what a start takes here.
    assert events.last[OutputAdded] - started < 0.5 + 5 + 20
    assert cell.status == "timeout"
    assert errors(cell) == ["KernelDied"]
    assert "Variables, imports and files of the sandbox are lost." in cell.state_lost
    (told,) = events.of(StateLost)
    assert (told.cell, told.reason) == (cell.cell, cell.state_lost)
    assert errors(await kernel.run("gone")) == ["NameError"]


async def test_a_person_stops_a_cell(kernel: Kernel) -> None:
    """`interrupt` stops what runs and keeps variables; when nothing runs it does nothing to the next cell."""
    kernel.interrupt()
    assert (await kernel.run("kept = 6; kept")).text == "6"
    running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    kernel.interrupt()
    cell = await asyncio.wait_for(running, 60)
    assert cell.status == "interrupted"
    assert "was stopped" in cell.note
    assert (await kernel.run("kept")).text == "6"


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nprint('begun', flush=True)\nawait asyncio.sleep(100)",
        "import asyncio\nprint('begun', flush=True)\nawait asyncio.Event().wait()",
        "import re, time\nprint('begun', flush=True)\ntime.sleep(0.5)\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
        "import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '100'])",
    ],
)
async def test_a_stop_reaches_code_that_waits_or_holds_the_lock(kernel: Kernel, events: Events, code: str) -> None:
    """A cell that awaits, one that keeps the kernel from reading messages, and one whose program runs: all in time."""
    await kernel.run("kept = 9")
    running = asyncio.create_task(kernel.run(code))
    async with asyncio.timeout(60):
        while "begun" not in str(events.of(OutputAdded)):
            await asyncio.sleep(0.02)
    await asyncio.sleep(1)
    kernel.interrupt()
    assert (await running).status == "interrupted"
    assert (await kernel.run("kept")).text == "9"
    assert not events.of(StateLost)


async def test_a_stop_as_the_code_begins_keeps_variables(kernel: Kernel, events: Events) -> None:
    """The kernel heeds no interrupt before the code, and answers nothing if one meets its last step before that."""
    await kernel.run("kept = 7")
    for number in range(24):
        running = asyncio.create_task(kernel.run("while True: pass"))
        await asyncio.sleep(number % 8 * 0.0005)
        assert kernel.interrupt()
        assert (await running).status == "interrupted"
    assert (await kernel.run("kept")).text == "7"
    assert not events.of(StateLost)


async def test_a_cancelled_call_as_the_code_begins_keeps_variables(kernel: Kernel, events: Events) -> None:
    """The same where nobody waits for the cell any longer."""
    await kernel.run("kept = 8")
    for number in range(24):
        running = asyncio.create_task(kernel.run("while True: pass"))
        await asyncio.sleep(number % 8 * 0.0005)
        running.cancel()
        await asyncio.wait([running])
    assert (await kernel.run("kept")).text == "8"
    assert not events.of(StateLost)


async def test_a_stop_while_the_kernel_is_replaced_stops_the_cell(kernel: Kernel) -> None:
    """The code doesn't begin in the new kernel."""
    await kernel.run("import os, threading; threading.Timer(0.2, os._exit, [4]).start()")
    await ended(kernel)
    running = asyncio.create_task(kernel.run("print('ran')"))
    await asyncio.sleep(0)
    assert kernel.interrupt()
    cell = await running
    assert (cell.status, cell.text) == ("interrupted", "")
    assert "stopped before it began" in cell.note
    assert "exited with code 4" in cell.state_lost


async def test_a_stop_is_for_the_running_cell_only(kernel: Kernel) -> None:
    """Of two cells that wait for each other, only the first is stopped."""
    first = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    second = asyncio.create_task(kernel.run("'second'"))
    await asyncio.sleep(0.3)
    kernel.interrupt()
    assert (await first).status == "interrupted"
    assert (await second).text == "'second'"


async def test_a_cell_that_ends_well_despite_an_interrupt_is_ok(kernel: Kernel) -> None:
    """A cell that ends well while it is being stopped has ended well."""
    code = "import time\ntry:\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    print('put away')"
    cell = await kernel.run(code, timeout=0.3)
    assert cell.text == "put away"
    assert cell.status == "ok"


async def test_all_that_was_sent_before_a_death_is_shown(kernel: Kernel) -> None:
    """What was sent before the death is shown, however much of it was still on its way."""
    code = "import os, time\nfor n in range(300): print(n, flush=True)\ntime.sleep(2)\nos._exit(1)"
    cell = await kernel.run(code)
    assert cell.status == "died"
    assert cell.text.split() == [str(n) for n in range(300)]


async def test_a_kernel_that_became_something_else(kernel: Kernel) -> None:
    """A kernel replaced by another program answers no more: it is stopped at the limit and replaced."""
    cell = await kernel.run("import os; os.execv('/bin/sleep', ['sleep', '1000'])", timeout=0.5)
    assert cell.status == "timeout"
    assert cell.state_lost
    assert (await kernel.run("1 + 1")).text == "2"


async def test_code_that_has_stopped_is_not_killed_though_its_end_takes_longer_than_the_grace_period(
    kernel: Kernel, events: Events
) -> None:
    """On a machine that is busy, seconds pass between the error of a stopped cell and the kernel's reply."""
    slow = "import time\nget_ipython().events.register('post_run_cell', slow := lambda _: time.sleep(2.5))\nkept = 7"
    await kernel.run(slow)
    cell = await kernel.run("time.sleep(100)", timeout=0.3)
    assert (cell.status, errors(cell), cell.state_lost) == ("timeout", ["KeyboardInterrupt"], "")
    assert (await kernel.run("get_ipython().events.unregister('post_run_cell', slow); kept")).text == "7"
    assert not events.of(StateLost)


async def test_an_end_that_is_withheld_is_bounded(kernel: Kernel) -> None:
    """A kernel that never says idle is waited for a few seconds, and that is noted."""
    code = """
kernel = get_ipython().kernel
say = kernel._publish_status
kernel._publish_status = lambda *a, **k: None
kernel._publish_status_and_flush = lambda *a, **k: None
"""
    started = time.monotonic()
    cell = await kernel.run(code)
    assert time.monotonic() - started < 45
    assert "may be incomplete" in cell.note
    await kernel.restart()


async def test_a_representation_that_loops_ends(kernel: Kernel) -> None:
    """A result that takes for ever to show itself ends at the cell's limit."""
    code = "class Loop:\n    def _repr_html_(self):\n        while True: x = 1\nLoop()"
    assert (await kernel.run(code, timeout=0.5)).status in ("timeout", "ok")
    assert (await kernel.run("1 + 1")).text == "2"
