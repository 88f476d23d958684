"""What programs and C libraries print: in the cell that ran them, in order, whole."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from nbagent.core.events import Cell, Event, OutputAdded
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.inside.streams_inside import PIECE, in_order

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRINTS = """
import subprocess
subprocess.run(["sh", "-c", "echo {text}; echo err >&2"]).returncode
"""


Told = tuple[Kernel, list[tuple[float, OutputAdded]]]
"""A kernel, and what its cells showed, each with the moment of the monotonic clock."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(engine: Engine) -> AsyncIterator[Told]:
    """A kernel whose live outputs are kept with their time."""
    events: list[tuple[float, OutputAdded]] = []

    def keep(event: Event) -> None:
        if isinstance(event, OutputAdded):
            events.append((time.monotonic(), event))

    async with Kernel(engine, notify=keep) as kernel:
        yield kernel, events


def shown(cell: Cell) -> list[str]:
    """What stands where: a letter for each output, and its text."""
    return [
        f"{each.get('name', each['output_type'])}: {each.get('text') or each['data']['text/plain']}"
        for each in cell.outputs
    ]


async def test_what_a_program_prints_comes_before_the_result(isolated: Kernel) -> None:
    """Each time: nothing of it is late, and nothing comes behind the value that was computed after it."""
    for number in range(30):
        cell = await isolated.run(PRINTS.format(text=number))
        assert sorted(shown(cell)[:2]) == ["stderr: err\n", f"stdout: {number}\n"]
        assert shown(cell)[2:] == ["execute_result: 0"]


async def test_in_order_with_what_python_prints(isolated: Kernel) -> None:
    """As far as Python flushes before it starts the program, as it would have to anywhere."""
    code = "import os\nfor i in range(5):\n    print('python', i, flush=True)\n    os.system(f'echo program {i}')\n"
    cell = await isolated.run(code)
    assert cell.text.splitlines() == [f"{who} {i}" for i in range(5) for who in ("python", "program")]


async def test_more_than_a_pipe_holds(isolated: Kernel) -> None:
    """All of it arrives, and characters that a piece would cut in two are whole."""
    count = 50 * PIECE // 4
    cell = await isolated.run(f"subprocess.run(['python', '-c', 'print(chr(8364) * {count}, end=str())']).returncode")
    printed = "".join(each["text"] for each in cell.outputs if each["output_type"] == "stream")
    assert printed == "€" * count
    assert cell.outputs[-1]["data"] == {"text/plain": "0"}


async def test_bytes_that_are_no_text(isolated: Kernel) -> None:
    """They are replaced, and what comes after them is there."""
    cell = await isolated.run("import os; os.write(1, b'a\\xff\\xe2'); print('b')")
    assert "a\ufffd" in cell.text
    assert "b" in cell.text


async def test_a_program_that_prints_for_ever_keeps_no_cell(isolated: Kernel) -> None:
    """A cell ends with what was printed until then, however much comes after it."""
    await isolated.run("endless = subprocess.Popen(['yes'])")
    cell = await isolated.run("1 + 1", timeout=60)
    assert cell.status == "ok"
    await isolated.run("endless.kill(); endless.wait()")


async def test_a_fork_takes_nothing_of_its_parent(isolated: Kernel) -> None:
    """A worker that flushes does not wait for a lock that nobody there will ever give back."""
    code = """
import multiprocessing, sys
def work(number):
    print("worker", number); sys.stdout.flush()
    return number
with multiprocessing.get_context("fork").Pool(4) as pool:
    print(sorted(pool.map(work, range(50))))
"""
    for _ in range(3):
        cell = await isolated.run(code, timeout=60)
        assert cell.status == "ok"
        assert str(list(range(50))) in cell.text


async def test_programs_find_packages_where_the_kernel_does(isolated: Kernel) -> None:
    """What is installed for the session can be imported by a Python that a cell starts, after the kernel's own."""
    listing = "import sys; print([each for each in sys.path if each.startswith('/opt')])"
    inside = await isolated.run(f"import subprocess; subprocess.run(['python', '-c', {listing!r}]);")
    assert inside.text == (await isolated.run(listing)).text
    assert inside.text.endswith("'/opt/site']")


async def test_pieces_of_messages() -> None:
    """A long text goes out in several messages, a lone surrogate in a form that can be sent."""

    class Buffered:
        name = "stderr"

        def _flush_buffers(self) -> Any:
            yield "parent", "x" * 300_000
            yield "parent", "a\udce4"

    stream = in_order(Buffered)()
    pieces = [text for _, text in stream._flush_buffers()]
    assert [len(each) for each in pieces[:3]] == [131072, 131072, 37856]
    assert pieces[3:] == ["a\\udce4"]


async def test_a_fork_at_any_moment_can_print(isolated: Kernel) -> None:
    """Also one that comes while a thread takes what programs printed: its lock is there, and nobody who frees it."""
    code = """
import os, signal, sys, time
os.system("true")
with sys.stdout._taking:
    pid = os.fork()
    if not pid:
        sys.stdout.write("from the fork")
        os._exit(0)
    end = time.monotonic() + 60
    while not (ended := os.waitpid(pid, os.WNOHANG)[0]) and time.monotonic() < end:
        time.sleep(0.01)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
ended == pid
"""
    cell = await isolated.run(code)
    assert "execute_result: True" in shown(cell)  # what a fork prints may come after it


LINES = "for i in range(10_000): print(i, flush=True)"


async def test_flushed_lines_are_sent_together(told: Told) -> None:
    """Not in a message each; what comes first is sent at once, and all of it arrives."""
    kernel, events = told
    events.clear()
    cell = await kernel.run(LINES)
    assert cell.text.split() == [str(i) for i in range(10_000)]
    added = [each.output["text"] for _, each in events]
    assert len(added) < 3000
    assert added[:2] == ["0\n", "1\n"]


async def test_what_waits_to_be_sent_is_overtaken_by_nothing(isolated: Kernel) -> None:
    """Neither by the other stream nor by a display, however fast they come."""
    code = """
import sys
from IPython.display import display
for i in range(200):
    for _ in range(5):
        print("out", i, flush=True)
    print("err", i, file=sys.stderr, flush=True)
    for _ in range(5):
        print("more", i, flush=True)
    display(i)
"""
    cell = await isolated.run(code)
    assert shown(cell) == [
        text
        for i in range(200)
        for text in (
            "stdout: " + f"out {i}\n" * 5,
            f"stderr: err {i}\n",
            "stdout: " + f"more {i}\n" * 5,
            f"display_data: {i}",
        )
    ]


async def test_what_was_flushed_is_seen_while_the_cell_goes_on(told: Told) -> None:
    """Also the last of many lines, and though the code keeps the interpreter busy."""
    kernel, events = told
    events.clear()
    busy = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    await kernel.run(f"{LINES}\n{busy}")
    ended = time.monotonic()
    assert events[-1][1].output["text"].endswith("9999\n")
    assert ended - events[-1][0] > 2


async def test_a_fork_does_not_repeat_what_its_parent_flushed(isolated: Kernel) -> None:
    """Though it has not been sent when the fork begins."""
    code = """
import os
for i in range(300):
    print("parent", i, flush=True)
if not (pid := os.fork()):
    print("fork", flush=True)
    os._exit(0)
os.waitpid(pid, 0);
"""
    cell = await isolated.run(code)
    assert cell.text.count("parent 299") == 1
    assert cell.text.count("fork") == 1


async def test_what_was_flushed_before_a_crash_is_seen(isolated: Kernel) -> None:
    """ZeroMQ needs a moment to send it, as with ipykernel itself."""
    crash = "import ctypes, time\nfor n in range(300): print('line', n, flush=True)\ntime.sleep(1)\nctypes.string_at(0)"
    cell = await isolated.run(crash)
    assert cell.status == "died"
    assert cell.text.endswith("line 299")
