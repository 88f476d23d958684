"""Relays bytes between a caller in the sandbox and a host, and counts them against the session's budget."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import h11

from nbagent.egress.hosts import Denied
from nbagent.egress.tls import Handshake

IDLE_SECONDS = 300.0
"""Seconds without a byte in either direction after which a connection is closed."""
CHUNK_BYTES = 64 * 1024
MAX_HEAD = 64 * 1024
"""Bytes that the head of a request or response may have."""
HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}
"""Headers that are for the next hop only, beside `Proxy-…` and what `Connection` names (RFC 9110, section 7.6.1)."""
FRAMING = {b"host", b"content-length", b"transfer-encoding"}
"""Headers that `Connection` can't take away: they say where the request goes and where it ends."""

Headers = Iterable[tuple[bytes, bytes]]


class TrafficBudget:
    """The bytes that a session may still send and receive."""

    def __init__(self, *, upload: int, download: int) -> None:
        self._granted = {"upload": upload, "download": download}
        self._left = dict(self._granted)

    def take(self, direction: str, count: int) -> None:
        """Count bytes in a direction."""
        self._left[direction] -= count
        self.check()

    def check(self) -> None:
        """Check that the budgets of both directions are not used up."""
        for direction, left in self._left.items():
            if left < 0:
                granted = f"{self._granted[direction]:,} bytes"
                raise Denied(f"The session's {direction} budget of {granted} is used up; --{direction}-mb raises it.")


class HostConnection:
    """One connection to a host, and the caller it was opened for; neither socket blocks.

    Attributes:
        sent: Bytes that went to the host.
        received: Bytes that came from it.
    """

    def __init__(self, caller: socket.socket, server: socket.socket, *, budget: TrafficBudget) -> None:
        self._caller = caller
        self._server = server
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.Timeout | None = None
        self.sent = self.received = 0

    def close(self) -> None:
        """Close the connection to the host."""
        self._server.close()

    async def tunnel(self, first: bytes, handshake: Handshake) -> None:
        """Send the first bytes, then relay in both directions until both sides have ended.

        Args:
            first: The caller's ClientHello, and nothing else.
            handshake: Checks what the caller sends after it, and holds what came behind it already.

        Raises:
            Denied: The budget is used up.
            NotTls: A second ClientHello names another host.
            OSError: One side broke the connection.
            TimeoutError: Neither side has sent anything for `IDLE_SECONDS`.
        """
        async with asyncio.timeout(IDLE_SECONDS) as self._idle:
            await self._send_up(first)
            answered = asyncio.Event()

            async def receive_up() -> bytes:
                data = b""  # at first, what came right behind the ClientHello
                while not (passing := handshake.up(data)):
                    if handshake.waits:
                        await answered.wait()
                        data = b""
                    elif not (data := await self._receive_up()):
                        return b""
                return passing

            async def receive_down() -> bytes:
                data = await self._receive_down()
                handshake.down(data)
                if handshake.answered:
                    answered.set()
                return data

            await _together(
                self._pump(receive_up, self._send_up, self._server),
                self._pump(receive_down, self._send_down, self._caller),
            )

    async def exchange(self, client: h11.Connection, request: h11.Request) -> None:
        """Send one request to the host, with the rest of its body, and relay the response.

        Raises:
            Denied: The budget is used up.
            h11.ProtocolError: One side breaks the protocol.
            OSError: One side broke the connection.
            TimeoutError: Neither side has sent anything for `IDLE_SECONDS`.
        """
        server = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        async with asyncio.timeout(IDLE_SECONDS) as self._idle:
            await _until_first(self._respond(client, server), self._request(client, server, request))

    async def _pump(
        self, receive: Callable[[], Awaitable[bytes]], send: Callable[[bytes], Awaitable[None]], target: socket.socket
    ) -> None:
        """Relay one direction until its source ends, then shut the target's side down; the other direction goes on."""
        while data := await receive():
            await send(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    async def _request(self, client: h11.Connection, server: h11.Connection, request: h11.Request) -> None:
        event: Any = request
        while True:
            await self._send_up(server.send(event) or b"")
            if isinstance(event, h11.EndOfMessage):
                return
            event = await next_event(client, self._receive_up)
            if isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()  # without trailers, which nothing has checked
            elif not isinstance(event, h11.Data):
                raise ConnectionError("The caller left.")

    async def _respond(self, client: h11.Connection, server: h11.Connection) -> None:
        """Relay the response in a framing that the caller's HTTP version has; its connection ends with it."""
        event: Any = None
        while not isinstance(event, h11.EndOfMessage):
            event = await next_event(server, self._receive_down)
            if isinstance(event, h11.Response):
                headers = [*end_to_end(event.headers), (b"Connection", b"close")]
                event = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
            elif isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()
            elif not isinstance(event, h11.Data | h11.InformationalResponse):
                raise ConnectionError("The server left.")
            await self._send_down(client.send(event) or b"")

    async def _receive_up(self) -> bytes:
        return await self._loop.sock_recv(self._caller, CHUNK_BYTES)

    async def _receive_down(self) -> bytes:
        data = await self._loop.sock_recv(self._server, CHUNK_BYTES)
        self.received += len(data)
        self._budget.take("download", len(data))
        return data

    async def _send_up(self, data: bytes) -> None:
        self._budget.take("upload", len(data))
        self.sent += len(data)
        await self._send(self._server, data)

    async def _send_down(self, data: bytes) -> None:
        await self._send(self._caller, data)

    async def _send(self, target: socket.socket, data: bytes) -> None:
        await self._loop.sock_sendall(target, data)
        if self._idle is not None:
            self._idle.reschedule(self._loop.time() + IDLE_SECONDS)


async def next_event(connection: h11.Connection, receive: Callable[[], Awaitable[bytes]]) -> Any:
    """The next event of one side of a connection; receives more bytes if it needs them."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await receive())
    return event


def end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers without those that are for this hop only."""
    words = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
    drop = HOP_BY_HOP | (words - FRAMING)
    return [(name, value) for name, value in headers if name not in drop and not name.startswith(b"proxy-")]


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Wait for all; when one fails, cancel the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def _until_first(first: Coroutine[Any, Any, None], beside: Coroutine[Any, Any, None]) -> None:
    """Wait for the first, then cancel the other; if the other fails meanwhile, raise its error."""
    tasks = [asyncio.create_task(first), asyncio.create_task(beside)]
    try:
        waiting = set(tasks)
        while not tasks[0].done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
