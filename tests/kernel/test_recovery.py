"""What becomes of a kernel that died, and what is told of it."""

from __future__ import annotations

import asyncio
import time

import machine
import pytest
from kernel.hostile import TOOLS
from kernel.shared import Events, ended, errors, short
from sandbox.inner import sandbox_of

from nbagent.core.errors import KernelDied, NbagentError, StoreError
from nbagent.core.events import Event, OutputAdded, StateLost
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.recovery import MAX_RESTARTS
from nbagent.sandbox.contract import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_loss_that_a_question_found_is_told_to_the_next_cell(kernel: Kernel, events: Events) -> None:
    """A kernel that ended is replaced for nbagent's own request; the cell after it hears that state is lost."""
    await kernel.run("import os, threading; threading.Timer(0.2, os._exit, [4]).start()")
    await ended(kernel)
    assert await kernel.evaluate("def main(): return 5", []) == 5
    assert len(events.of(StateLost)) == 1
    assert "code 4" in (await kernel.run("1")).state_lost
    assert (await kernel.run("1")).state_lost == ""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os._exit(3)", "exited with code 3"),
        ("import os; os._exit(0)", "exited with code 0"),
        ("import os; os._exit(200)", "exited with code 200"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was killed by SIGTERM"),
        ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("import os; os.abort()", "was killed by SIGABRT"),
        ("x = bytearray(2 * 10**9)", "ran out of memory (limit 512 MB"),
    ],
)
async def test_a_death_is_told_and_mended(kernel: Kernel, events: Events, code: str, told: str) -> None:
    """How the kernel died is named within five seconds, its state is told as lost, and a new one is there."""
    await kernel.run("gone = 1")
    started = time.monotonic()
    cell = await kernel.run(f"print('before', flush=True); import time; time.sleep(0.1); {code}")
    # The end is told before the new kernel is up, which takes what a start takes here.
    assert events.last[OutputAdded] - started < 5
    assert cell.status == "died"
    assert told in cell.state_lost
    assert errors(cell) == ["KernelDied"]
    assert cell.text == "before"
    assert len(events.of(StateLost)) == 1
    assert errors(await kernel.run("gone")) == ["NameError"]
    assert (await kernel.run("1")).success


async def test_a_kernel_that_takes_long_to_die_for_its_memory_is_waited_for(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sockets may be closed long before Linux is done with it; how it ended is only told then."""
    monkeypatch.setattr("nbagent.kernel.channels.kernel_connection.FOUND_DEAD_SECONDS", 1.0)
    hungry = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(2 * 10**9)'])\n"
    cut = "for port in (1, 2): raw(port).shutdown(socket.SHUT_RDWR)\nimport time; time.sleep(4); os._exit(7)"
    assert "exited with code 7" in (await kernel.run(TOOLS + hungry + cut)).state_lost
    assert "closed its connection and was killed" in (await kernel.run(TOOLS + cut)).state_lost


async def test_a_program_that_was_killed_for_the_memory_is_told(kernel: Kernel) -> None:
    """A return code says nothing of memory, and `!` not even that. The kernel lives on; the next cell is quiet."""
    hungry = "import sys\n!{sys.executable} -c 'x = bytearray(2 * 10**9)'"
    cell = await kernel.run(hungry)
    assert cell.success
    assert cell.note == "A program of it was killed: the sandbox ran out of memory (limit 512 MB)."
    assert (await kernel.run("1")).note == ""


async def test_a_kernel_that_exits_is_replaced_like_one_that_died(kernel: Kernel) -> None:
    """`exit()` ends the kernel, which is told like any other death, and the next cell has a new one."""
    await kernel.run("kept = 1")
    cell = await kernel.run("exit()")
    assert cell.status in ("ok", "died")
    # It answers until it is through with ending, which takes a while on a busy machine.
    async with asyncio.timeout(30):
        while (following := await kernel.run("'kept' in globals()")).text != "False":
            assert following.state_lost or following.text == "True"


async def test_a_kernel_that_died_between_cells_is_replaced_and_the_next_cell_says_so(
    kernel: Kernel, events: Events
) -> None:
    """A kernel that dies while nothing runs is replaced before the next cell, which is told so and not to blame."""
    await kernel.run("import os, threading; threading.Timer(0.2, os._exit, [4]).start()")
    await ended(kernel)
    cell = await kernel.run("1 + 1")
    assert cell.text == "2"
    (told,) = events.of(StateLost)
    assert told.reason == cell.state_lost
    assert "code 4" in told.reason


async def test_restarts_are_bounded() -> None:
    """After some deaths in a row it is not restarted by itself, but when somebody runs a cell again."""
    told = Events()
    async with Kernel(machine.works("bubblewrap"), short(), notify=told.append) as kernel:
        for _ in range(MAX_RESTARTS):
            assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert len(told.of(StateLost)) == MAX_RESTARTS
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert len(told.of(StateLost)) == MAX_RESTARTS
        assert await kernel._process.has_ended()
        # ... and one cell that ends well starts the count again.
        assert (await kernel.run("1 + 1")).text == "2"
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert (await kernel.run("1 + 1")).text == "2"


async def test_a_restart_that_fails_can_be_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no engine a cell is a typed error; when there is one again, the session goes on."""
    async with Kernel(engine, short()) as kernel:
        site = sandbox_of(kernel).site
        with monkeypatch.context() as patch:
            patch.setattr("nbagent.sandbox.limits.seccomp.inner_program", lambda **_: b"\xff" * 8)
            with pytest.raises(NbagentError):
                await kernel.run("import os; os._exit(1)")
            with pytest.raises(KernelDied):
                await kernel.run("1")
        assert (await kernel.run("1 + 1")).text == "2"
        assert sandbox_of(kernel).site == site
        assert site.is_dir()


async def test_a_log_that_fails_at_a_death_raises_and_the_next_cell_has_a_new_kernel() -> None:
    """Its error is what the caller gets; the next cell has a new kernel and hears why."""

    def log(event: Event) -> None:
        if isinstance(event, OutputAdded) and event.output.get("ename") == "KernelDied" and full:
            raise StoreError("No room for the log.")

    full = True
    async with Kernel(machine.works("bubblewrap"), short(), notify=log) as kernel:
        await kernel.run("gone = 1")
        with pytest.raises(StoreError, match="No room"):
            await kernel.run("import os; os._exit(1)")
        full = False
        cell = await kernel.run("'gone' in globals()")
        assert cell.text == "False"
        assert "are lost" in cell.state_lost
