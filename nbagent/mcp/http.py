"""Servers that are reached by HTTP: the SDK's transports (streamable HTTP, SSE) over a client with bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from nbagent.mcp.meter import FRAME_BYTES, Meter

if TYPE_CHECKING:
    from nbagent.core.compat import TransportStreams
    from nbagent.mcp.servers import ServerEntry

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
"""Seconds between two pieces of a response, after which it is given up; a call has a limit of its own."""


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
async def remote(server: ServerEntry, *, meter: Meter) -> AsyncIterator[TransportStreams]:
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
