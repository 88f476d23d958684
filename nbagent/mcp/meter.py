"""Bounds what an MCP server may send, before the SDK reads it.

A server may be broken or hostile: it may send without end, send lines that are no messages, or use refused requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.shared.message import SessionMessage

    from nbagent.core.compat import ReadStream

FRAME_BYTES = 16 * 1024 * 1024
"""Bytes of one message. A page of images is smaller, and the model is shown far less."""
BURST_BYTES = 64 * 1024 * 1024
BYTES_A_SECOND = 1024 * 1024
BURST_FRAMES = 2_000
"""Messages at once. Each takes the SDK, and so every session of this process, about half a millisecond."""
FRAMES_A_SECOND = 50
MALFORMED = 100
"""Lines that are no messages, after which a program is no server; some servers print to their standard output."""

ASKS = {
    "sampling/createMessage": "a reply of the model (sampling)",
    "elicitation/create": "an answer of the person (elicitation)",
    "roots/list": "the folders of the person (roots)",
}
"""Requests of a server that are refused, by method."""


class Meter:
    """Counts what a server sends, and allows bursts.

    Attributes:
        why: Why the connection was cut, as a clause behind the server's name; empty while it is open.
        status: The last HTTP status that was an error, if there was one.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.why = ""
        self.status = ""
        self._clock = clock
        self._bytes = float(BURST_BYTES)
        self._frames = float(BURST_FRAMES)
        self._malformed = 0
        self._at = clock()

    def take(self, size: int = 0, *, frames: int = 0) -> bool:
        """Count bytes or messages; returns whether they are within the bounds."""
        now = self._clock()
        passed, self._at = now - self._at, now
        self._bytes = min(BURST_BYTES, self._bytes + passed * BYTES_A_SECOND) - size
        self._frames = min(BURST_FRAMES, self._frames + passed * FRAMES_A_SECOND) - frames
        if self._bytes < 0:
            self.cut(f"sent more than {BURST_BYTES >> 20} MB")
        if self._frames < 0:
            self.cut(f"sent more than {BURST_FRAMES:,} messages")
        return not self.why

    def malformed(self) -> bool:
        """Count a line that is no message; returns whether there were not too many."""
        self._malformed += 1
        if self._malformed >= MALFORMED:
            self.cut(f"sent {MALFORMED} lines that are no messages of the protocol")
        return not self.why

    def cut(self, why: str) -> None:
        """Note why the connection is cut; the first reason stays."""
        self.why = self.why or why

    def note(self, status: str) -> None:
        """Remember an HTTP error, which the SDK doesn't report."""
        self.status = status


class MeteredStream:
    """A transport's stream of messages, counted on the way to the SDK; it ends when a bound is exceeded, or by `ended`.

    When the server uses one of `ASKS`, which the SDK refuses, `on_request` is called with the method.
    """

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        *,
        meter: Meter,
        on_request: Callable[[str], None],
        ended: asyncio.Event,
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._on_request = on_request
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """The context of the last message, which some streams of the SDK have."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> MeteredStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._ended.set()
            raise
        if not self._count(item):
            self._ended.set()
            raise StopAsyncIteration
        return item

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: There is no more.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Close the transport's stream."""
        self._ended.set()
        await self._inner.aclose()

    async def __aenter__(self) -> MeteredStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None

    def _count(self, item: SessionMessage | Exception) -> bool:
        """Count a message, and report a request that is refused; returns whether the stream goes on."""
        if isinstance(item, Exception):
            return self._meter.malformed()
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest) and message.method in ASKS:
            self._on_request(message.method)
        return self._meter.take(frames=1)
