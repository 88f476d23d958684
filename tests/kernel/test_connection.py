"""One client's connection: what it sends, what it takes, and what it drops."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from nbagent.kernel.connection import BATCH, Connection
from nbagent.kernel.kernel import Kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def connection(kernel: Kernel) -> AsyncIterator[Connection]:
    """A second connection to the kernel that the module's tests share."""
    assert kernel._manager is not None
    made = Connection(kernel._manager)
    await until(made, made.client.kernel_info(), "shell")
    yield made
    made.close()


async def until(connection: Connection, msg_id: str, channel: str) -> list[dict[str, Any]]:
    """The messages of one request, up to its reply or its idle."""
    found: list[dict[str, Any]] = []
    end = time.monotonic() + 20
    while time.monotonic() < end:
        await connection.wait(0.1)
        for name, message in connection.read():
            if name != channel or message["parent_header"].get("msg_id") != msg_id:
                continue
            found.append(message)
            if channel == "shell" or message["content"].get("execution_state") == "idle":
                return found
    raise AssertionError(f"no end of {msg_id} on {channel}")


async def test_a_request_is_answered(connection: Connection) -> None:
    """Its messages carry its id, on both channels."""
    msg_id = connection.execute("print('x')")
    kinds = [each["header"]["msg_type"] for each in await until(connection, msg_id, "iopub")]
    assert kinds == ["status", "execute_input", "stream", "status"]


async def test_expressions_come_with_the_reply(connection: Connection) -> None:
    """A silent request shows nothing and still returns values."""
    msg_id = connection.execute("x = 3", silent=True, store_history=False, expressions={"value": "x + 1"})
    (reply,) = await until(connection, msg_id, "shell")
    assert reply["content"]["user_expressions"]["value"]["data"]["text/plain"] == "4"


async def test_an_interrupt_reaches_a_busy_kernel(connection: Connection) -> None:
    """It goes by the control channel, which is served while code runs."""
    msg_id = connection.execute("import time; time.sleep(100)")
    await asyncio.sleep(0.3)
    connection.interrupt()
    (reply,) = await until(connection, msg_id, "shell")
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    while (await until(connection, connection.execute("", silent=True), "shell"))[0]["content"]["status"] != "ok":
        pass


async def test_silence_is_waited_for_as_long_as_said(connection: Connection) -> None:
    """Nothing to read is no error, and takes the time that was given."""
    while await connection.wait(0.1):
        list(connection.read())
    started = time.monotonic()
    assert not await connection.wait(0.2)
    assert 0.15 < time.monotonic() - started < 0.6
    assert list(connection.read()) == []
    assert not await connection.wait(0)


async def test_what_waits_already_is_found(connection: Connection) -> None:
    """A message that came before anybody waited does not get lost."""
    msg_id = connection.execute("1")
    await asyncio.sleep(0.3)
    assert await connection.wait(5)
    assert await until(connection, msg_id, "iopub") or True


async def test_other_tasks_get_their_turn(connection: Connection) -> None:
    """However fast messages come, at most a batch of each channel is read at a time."""
    msg_id = connection.execute("for n in range(1000): print(n, flush=True)")
    largest = total = 0
    done = False
    while not done:
        await connection.wait(1)
        read = list(connection.read())
        largest, total = max(largest, len(read)), total + len(read)
        done = any(
            each["content"].get("execution_state") == "idle" and each["parent_header"].get("msg_id") == msg_id
            for _, each in read
        )
    assert largest <= 2 * BATCH
    assert total >= 1000


HEADER = {"msg_type": "stream", "msg_id": "1", "version": "5.3"}


def _signed(connection: Connection, *parts: Any) -> list[bytes]:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in parts]
    signature: bytes = connection.client.session.sign(encoded)
    return [b"x", b"<IDS|MSG>", signature, *encoded]


async def test_what_is_a_message(connection: Connection) -> None:
    """A signed message with a type is taken, once."""
    frames = _signed(
        connection, {"msg_type": "stream", "msg_id": "1", "version": "5.3"}, {"msg_id": "2"}, {}, {"name": "stdout"}
    )
    before = connection.rejected
    message = connection._parse(frames)
    assert message is not None
    assert message["content"] == {"name": "stdout"}
    assert connection._parse(frames) is None, "replayed"
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
async def test_what_is_none(connection: Connection, parts: tuple[Any, ...]) -> None:
    """Signed or not, what has not the form of a message is dropped and counted, and raises nothing."""
    before = connection.rejected
    assert connection._parse(_signed(connection, *parts)) is None
    assert connection.rejected == before + 1


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"<IDS|MSG>"], [b"x"] * 9, [b"<IDS|MSG>", b"bad", b"{}", b"{}", b"{}", b"{}"]]
)
async def test_frames_without_a_message(connection: Connection, frames: list[bytes]) -> None:
    """Too few frames, no delimiter or a wrong signature: dropped and counted."""
    before = connection.rejected
    assert connection._parse(frames) is None
    assert connection.rejected == before + 1


async def test_closing_twice(kernel: Kernel) -> None:
    """A connection can be closed by whoever isn't sure."""
    assert kernel._manager is not None
    connection = Connection(kernel._manager)
    connection.close()
    connection.close()
