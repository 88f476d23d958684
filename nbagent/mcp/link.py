"""One link to a server: the SDK's client over a transport, from start to end. `server_connection` makes a new one.

Servers that are reached by HTTP have the SDK's transports (streamable HTTP, SSE) over a client with bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import mcp_types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from nbagent import __version__
from nbagent.core.errors import McpError
from nbagent.core.text import one_line, printable
from nbagent.mcp.meter import FRAME_BYTES, Meter, MeteredStream
from nbagent.mcp.stdio import program

if TYPE_CHECKING:
    from nbagent.core.compat import TransportStreams
    from nbagent.mcp.servers import ServerEntry

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
"""Seconds between two pieces of a response, after which it is given up; a call has a limit of its own."""

# The SDK logs servers' errors with tracebacks. nbagent has events for them; the host program's handlers still get them.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Link:
    """One link to a server.

    Attributes:
        client: The SDK's client once the server is ready; None until then.
        meter: Counts what the server sends.
        ended: Set when no more messages will come. Setting it ends the connection.
        refused: Methods of refused requests since this set was last replaced.
    """

    def __init__(
        self, server: ServerEntry, *, on_refusal: Callable[[str], None], on_change: Callable[[], None]
    ) -> None:
        self.client: Any = None
        self.meter = Meter()
        self.ended = asyncio.Event()
        self.refused: set[str] = set()
        self._server = server
        self._on_refusal = on_refusal
        self._on_change = on_change
        self._tail: list[bytes] = []
        self._error: BaseException | None = None
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, seconds: float) -> bool:
        """Connect; returns whether the server is ready. If not, all that was started has ended."""
        self._task = asyncio.create_task(self._hold(), name=f"mcp {self._server.name}")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait([ready, self._task], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.shield(asyncio.wait([self._task]))  # a cancelled start also ends the program
            raise
        finally:
            ready.cancel()
        if self.client is None:
            if not self._task.done():
                self.meter.cut(f"was not ready after {seconds:g} s")
            self._task.cancel()
            await asyncio.wait([self._task])
        return self.client is not None

    async def end(self) -> None:
        """End the connection; returns when its program has ended, even if this is cancelled."""
        self.ended.set()
        if self._task is not None:
            await asyncio.shield(asyncio.wait([self._task]))

    def error(self) -> McpError:
        """The error that says why the connection ended."""
        if isinstance(self._error, McpError):
            return McpError(self._error.message, mend=self._error.mend)
        why = self.meter.why or (f"answered with {self.meter.status}" if self.meter.status else "")
        why = why or (f"failed: {message_of(self._error)}" if self._error else "closed the connection")
        lines = self._tail[0].decode("utf-8", "replace").strip().splitlines()[-3:] if self._tail else []
        if said := " / ".join(" ".join(line.split()) for line in lines if line.strip()):
            why = f"{why}; it last said: {printable(said)[:400].rstrip('.')}"
        return McpError(f"The MCP server {self._server.name} {why}.")

    async def _hold(self) -> None:
        """Open the connection and hold it to its end: the SDK's scopes must be left by the task that entered them."""
        try:
            async with Client(
                self._transport(),
                message_handler=self._handle,
                client_info=mcp_types.Implementation(name="nbagent", version=__version__),
                cache=None,
            ) as client:
                self.client = client
                self._ready.set()
                following = asyncio.create_task(self._subscribe(client))
                await self.ended.wait()
                following.cancel()
                await asyncio.wait([following])
        except Exception as error:
            # Transports raise anything, mostly in groups; `error` reports it.
            self._error = error
        finally:
            self.ended.set()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[TransportStreams]:
        if self._server.transport == "stdio":
            transport = program(self._server, meter=self.meter, tail=self._tail)
        else:
            transport = _remote(self._server, meter=self.meter)
        async with transport as (reading, writing):
            yield MeteredStream(reading, meter=self.meter, on_request=self.decline, ended=self.ended), writing

    def decline(self, method: str) -> None:
        """Note that a request of the server was refused."""
        self.refused.add(method)
        self._on_refusal(method)

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of tools, which servers of the newer protocol report on request only."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        # If that fails, the tools are listed anew with each question anyway.
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._on_change()

    async def _handle(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._on_change()


def message_of(error: BaseException) -> str:
    """The message of an error, or of the first one in a group, as one bounded line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return "gave an answer that is not of the protocol's form"
    text = error.error.message if isinstance(error, MCPError) else str(error)
    return one_line(text).rstrip(".") or type(error).__name__


class _Counted(httpx2.AsyncByteStream):
    """A response's body whose bytes are counted."""

    def __init__(self, inner: Any, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if not self._meter.take(len(chunk)):
                raise httpx2.ReadError(self._meter.why)
            yield chunk

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        await self._inner.aclose()


def _client(server: ServerEntry, meter: Meter) -> httpx2.AsyncClient:
    """A client that counts the bytes of responses and takes no compressed ones, which may unpack to any size."""

    async def bound(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            meter.note(f"HTTP {response.status_code} {response.reason_phrase}".strip())
        if response.headers.get("content-encoding", "identity") != "identity":
            meter.cut("sent a compressed response, though none was asked for")
            raise httpx2.ReadError(meter.why)
        response.stream = _Counted(response.stream, meter)

    return httpx2.AsyncClient(
        headers={**server.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        event_hooks={"response": [bound]},
    )


@asynccontextmanager
async def _remote(server: ServerEntry, *, meter: Meter) -> AsyncIterator[TransportStreams]:
    """A transport to a server with a URL."""
    if server.transport == "sse":

        def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:  # noqa: ARG001
            return _client(server, meter)

        async with sse_client(server.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            _client(server, meter) as http,
            streamable_http_client(server.url, http_client=http, max_sse_event_size=FRAME_BYTES) as streams,
        ):
            yield streams
