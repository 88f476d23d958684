"""One client's connection: what it sends, what it takes, and what it drops."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import machine
import pytest
import pytest_asyncio
from kernel.hostile import BREACHES, FLOODS
from kernel.shared import Events, a_cell_takes

from nbagent.core.events import StateLost
from nbagent.kernel import inside_calls
from nbagent.kernel.channels.kernel_connection import KernelConnection
from nbagent.kernel.channels.messages import MAX_HEADER, MAX_METADATA, MAX_SIGNATURE
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def connection(kernel: Kernel) -> AsyncIterator[KernelConnection]:
    """A second connection to the kernel that the module's tests share."""
    made = KernelConnection(kernel._process.sandbox.endpoint)
    await until(made, made.kernel_info(), "shell")
    yield made
    made.close()


async def until(connection: KernelConnection, msg_id: str, channel: str) -> list[dict[str, Any]]:
    """The messages of one request, up to its reply or its idle."""
    found: list[dict[str, Any]] = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        await connection.wait(0.1)
        for name, message in connection.read():
            if name != channel or message["parent_header"].get("msg_id") != msg_id:
                continue
            found.append(message)
            if channel == "shell" or message["content"].get("execution_state") == "idle":
                return found
    raise AssertionError(f"no end of {msg_id} on {channel}")


async def test_a_request_is_answered(connection: KernelConnection) -> None:
    """Its messages carry its id, on both channels."""
    msg_id = connection.execute("print('x')")
    kinds = [each["header"]["msg_type"] for each in await until(connection, msg_id, "iopub")]
    assert kinds == ["status", "execute_input", "stream", "status"]


async def test_expressions_come_with_the_reply(connection: KernelConnection) -> None:
    """A silent request shows nothing and still returns a value."""
    expression = inside_calls.call("def main(x):\n    return x + 1", [3], kept=False)
    msg_id = connection.execute("", silent=True, store_history=False, expressions={"value": expression})
    (reply,) = await until(connection, msg_id, "shell")
    assert inside_calls.result(reply["content"]) == 4


async def test_an_interrupt_reaches_a_busy_kernel(connection: KernelConnection) -> None:
    """It goes by the control channel, which is served while code runs."""
    msg_id = connection.execute("import time; time.sleep(100)")
    await asyncio.sleep(0.3)
    connection.interrupt()
    (reply,) = await until(connection, msg_id, "shell")
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    while (await until(connection, connection.execute("", silent=True), "shell"))[0]["content"]["status"] != "ok":
        pass


async def test_a_wait_without_messages_takes_the_time_that_was_given(connection: KernelConnection) -> None:
    """Nothing to read is no error, and takes the time that was given."""
    while await connection.wait(0.1):
        list(connection.read())
    started = time.monotonic()
    assert not await connection.wait(0.2)
    assert 0.15 < time.monotonic() - started < 30
    assert list(connection.read()) == []
    assert not await connection.wait(0)


async def test_a_message_that_came_before_the_wait_is_read(connection: KernelConnection) -> None:
    """A message that came before anybody waited does not get lost."""
    msg_id = connection.execute("1")
    await asyncio.sleep(0.3)
    assert await connection.wait(5)
    assert await until(connection, msg_id, "iopub") or True


async def test_other_tasks_get_their_turn(connection: KernelConnection) -> None:
    """However fast messages come, they are read for about a millisecond at a time, and all are read."""
    msg_id = connection.execute("for n in range(1000): display(n)")
    most = total = 0
    done = False
    while not done:
        await connection.wait(1)
        read = list(connection.read())
        most, total = max(most, len(read)), total + len(read)
        done = any(
            each["content"].get("execution_state") == "idle" and each["parent_header"].get("msg_id") == msg_id
            for _, each in read
        )
    assert most < total / 4
    assert total >= 1000


async def test_closing_ends_a_wait(kernel: Kernel) -> None:
    """Who waits for a connection that is closed meanwhile goes on at once, and can ask again."""
    made = KernelConnection(kernel._process.sandbox.endpoint)
    await until(made, made.kernel_info(), "shell")
    while await made.wait(0.1):
        list(made.read())
    waiting = asyncio.create_task(made.wait(600))
    await asyncio.sleep(0)
    made.close()
    assert not await asyncio.wait_for(waiting, 60)
    assert not await made.wait(0)
    assert list(made.read()) == []
    made.execute("1")
    made.interrupt()


async def test_a_request_larger_than_a_socket_is_sent_while_the_reply_is_awaited(connection: KernelConnection) -> None:
    """More than fits into a socket is sent while the answer is waited for."""
    msg_id = connection.execute(f"len({'x' * 1_000_000!r})")
    found = await until(connection, msg_id, "iopub")
    assert found[2]["content"]["data"] == {"text/plain": "1000000"}


HEADER = {"msg_type": "stream", "msg_id": "1", "version": "5.3"}


def _signed(connection: KernelConnection, *parts: Any) -> list[bytes]:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in parts]
    signature: bytes = connection.session.sign(encoded)
    return [b"x", b"<IDS|MSG>", signature, *encoded]


async def test_a_signed_message_is_taken_once(connection: KernelConnection) -> None:
    """A signed message with a type is taken, once."""
    frames = _signed(
        connection, {"msg_type": "stream", "msg_id": "1", "version": "5.3"}, {"msg_id": "2"}, {}, {"name": "stdout"}
    )
    before = connection.rejected
    message = connection._parse("iopub", frames)
    assert message is not None
    assert message["content"] == {"name": "stdout"}
    assert connection._parse("iopub", frames) is None, "replayed"
    assert connection.rejected == before + 1


@pytest.mark.parametrize(
    "parts",
    [
        (None, {}, {}, {}),
        ([], {}, {}, {}),
        ({}, {}, {}, {}),
        (HEADER | {"msg_type": 1}, {}, {}, {}),
        (HEADER, [], {}, {}),
        (HEADER, {"msg_id": 3}, {}, {}),
        (HEADER, {"msg_id": ["unhashable"]}, {}, {}),
        (HEADER, {}, {}, []),
        (HEADER, {}, {}, None),
        (b"\xff", b"{}", b"{}", b"{}"),
        (b"[" * 100_000, b"{}", b"{}", b"{}"),
        (json.dumps(HEADER).encode(), b"{}", b"{}", b"9" * 10_000),
        (json.dumps(HEADER | {"date": "not a date"}).encode(), b"{}", b"{}", b"7"),
    ],
    ids=lambda each: repr(each)[:40],
)
async def test_what_is_no_message_is_dropped_and_counted(connection: KernelConnection, parts: tuple[Any, ...]) -> None:
    """Signed or not, what has not the form of a message is dropped and counted, and raises nothing."""
    before = connection.rejected
    assert connection._parse("iopub", _signed(connection, *parts)) is None
    assert connection.rejected == before + 1


@pytest.mark.parametrize(("part", "size"), [(0, MAX_SIGNATURE), (1, MAX_HEADER), (2, MAX_HEADER), (3, MAX_METADATA)])
async def test_a_part_out_of_bounds_is_dropped_at_once(connection: KernelConnection, part: int, size: int) -> None:
    """A part that is larger than any honest one is dropped before it costs anything, and no trace of it is kept."""
    parts = [json.dumps(each).encode() for each in (HEADER | {"msg_id": str(part)}, {"msg_id": "2"}, {}, {})]
    frames = [connection.session.sign(parts), *parts]
    frames[part] = frames[part].ljust(size + 1)
    before, known = connection.rejected, len(connection.session.digest_history)
    assert connection._parse("iopub", [b"<IDS|MSG>", *frames]) is None
    assert connection.rejected == before + 1
    assert len(connection.session.digest_history) == known


async def test_json_that_takes_too_much_memory_is_not_parsed(connection: KernelConnection) -> None:
    before = connection.rejected
    signed = _signed(connection, HEADER, {}, {}, b"[" + b"[]," * 10_000_000 + b"1]")
    assert machine.within(50, lambda: connection._parse("iopub", list(signed))) is None
    assert connection.rejected > before


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"<IDS|MSG>"], [b"x"] * 9, [b"<IDS|MSG>", b"bad", b"{}", b"{}", b"{}", b"{}"]]
)
async def test_frames_without_a_message(connection: KernelConnection, frames: list[bytes]) -> None:
    """Too few frames, no delimiter or a wrong signature: dropped and counted."""
    before = connection.rejected
    assert connection._parse("iopub", frames) is None
    assert connection.rejected == before + 1


async def test_a_connection_may_be_closed_twice(kernel: Kernel) -> None:
    """A connection can be closed by whoever isn't sure."""
    connection = KernelConnection(kernel._process.sandbox.endpoint)
    connection.close()
    connection.close()


@pytest.mark.parametrize("attack", BREACHES)
async def test_a_breach_kills_the_kernel_and_the_next_cell_has_a_new_one(
    kernel: Kernel, events: Events, attack: str
) -> None:
    """The kernel is killed, the cell says why, the loss is told, and the next cell has a new kernel."""
    code, reason = BREACHES[attack]
    await kernel.run("kept = 1")
    events.clear()
    started = time.monotonic()
    cell = await kernel.run(code)
    assert cell.status == "died"
    assert time.monotonic() - started < 30
    assert re.search(rf"The kernel .*{reason}.* Variables, imports and files of the sandbox are lost\.", cell.note)
    assert [each["ename"] for each in cell.outputs if each["output_type"] == "error"] == ["KernelDied"]
    assert len(events.of(StateLost)) == 1
    assert (await kernel.run("'kept' in globals()")).text == "False"


async def test_a_breach_between_two_cells_costs_at_most_the_next_one(kernel: Kernel, events: Events) -> None:
    """The next cell runs all the same, or is the one that is told; the one after it in any case."""
    code = f"import threading, time\nthreading.Timer(0.3, lambda: exec({BREACHES['noise'][0]!r}, globals())).start()"
    assert (await kernel.run(code)).status == "ok"
    await asyncio.sleep(0.6)
    cell = await kernel.run("1")
    assert cell.status in ("ok", "died")
    assert (await kernel.run("1")).text == "1"
    assert any("no message" in each.reason for each in events.of(StateLost))


GROWTH = """
import asyncio, json, sys
import psutil
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import choose

async def main():
    me = psutil.Process()
    async with Kernel(await choose(sys.argv[1])) as kernel:
        await kernel.run("1+1")
        before = me.memory_info().rss
        growth = 0
        async def watch():
            nonlocal growth
            while True:
                growth = max(growth, me.memory_info().rss - before)
                await asyncio.sleep(0.002)
        watching = asyncio.create_task(watch())
        for code, seconds in json.loads(sys.stdin.read()):
            cell = await kernel.run(code, timeout=seconds)
            after = await kernel.run("1+1")
            print(cell.status, after.text, growth >> 20)
            growth = 0

asyncio.run(main())
"""


GROWS = {"unsigned messages": 30, "endless message": 120, "large messages": 400, "heavy messages": 500}
"""By how many MB at most this side may grow, one attack after the other."""


async def test_hostile_messages_cost_little_memory() -> None:
    """Whatever it sends, for as long as it likes, this side grows by a few messages at most."""
    # What reads the messages is above the engines, so that one engine is enough.
    command = [sys.executable, "-c", GROWTH, machine.works("bubblewrap").name]
    # One of them ends by itself, as soon as it is over the bound.
    attacks = json.dumps([(FLOODS[each], 30 if each == "endless message" else 1) for each in GROWS])
    done = await asyncio.to_thread(
        subprocess.run, command, input=attacks, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for attack, line in zip(GROWS, done.stdout.splitlines(), strict=True):
        status, after, growth = line.split()
        assert status == ("died" if attack == "endless message" else "timeout"), done.stdout
        assert after == "2"
        assert int(growth) < GROWS[attack], done.stdout


async def test_a_flood_of_messages_delays_no_other_kernel(engine: Engine, kernel: Kernel) -> None:
    """While one kernel floods this process, cells of another one run, none of them much later than it would."""
    alone = await a_cell_takes(kernel)
    async with Kernel(engine) as hostile:
        for attack in ("a million messages", "unsigned messages", "large messages", "endless message"):
            flood = asyncio.create_task(hostile.run(FLOODS[attack], timeout=1.5))
            times = []
            while not flood.done() or len(times) < 10:
                times.append(await a_cell_takes(kernel, cells=1))
            assert (await flood).status in ("timeout", "died"), attack
            assert sorted(times)[len(times) // 2] < 0.3 + 10 * alone, attack
            assert max(times) < 3 + 100 * alone, attack


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("from IPython.display import HTML, display\ndisplay(HTML('x' * 100_000_000))", "display_data"),
        ("from IPython.display import HTML\nHTML('x' * 100_000_000)", "execute_result"),
    ],
)
async def test_a_huge_display_is_left_out_and_named(kernel: Kernel, code: str, kind: str) -> None:
    """What is more than a message may have is left out and named, and the cell is well."""
    cell = await kernel.run(code)
    assert cell.status == "ok", cell.note
    assert cell.note == "Left out: text/html of 100,000,000 characters."
    (output,) = cell.outputs
    assert output["output_type"] == kind
    assert output["data"] == {
        "text/plain": "<IPython.core.display.HTML object>\n[left out: text/html of 100,000,000 characters]"
    }


@pytest.mark.parametrize(
    ("code", "status", "marker"),
    [
        ("display({'text/html': 'x' * 10**8}, raw=True, display_id='a'); display({'text/html': 'y' * 10**8}, raw=True,"
         " display_id='a', update=True)", "ok", "text/html of 100,000,000 characters"),
        ("raise ValueError('x' * 50_000_000)", "error", "characters left out"),
        ("from comm import create_comm\nx = create_comm('t', buffers=[bytes(10**8)])", "ok",
         "100,000,000 bytes of binary data in a comm_open"),
        ("from comm import create_comm\nx = create_comm('t', data={'a': 'x' * 45_000_000})", "ok",
         "comm_open of 45,000,"),
    ],
    ids=["update", "error", "buffers", "comm"],
)  # fmt: skip
async def test_huge_updates_errors_and_widget_messages_are_cut(
    kernel: Kernel, code: str, status: str, marker: str
) -> None:
    """Updates, errors and messages of widgets are cut likewise, and the kernel lives."""
    await kernel.run("kept = 1")
    cell = await kernel.run(code)
    assert cell.status == status, cell.note
    assert marker in str(cell.outputs)
    assert (await kernel.run("kept")).text == "1"
