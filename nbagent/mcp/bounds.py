"""How much a server may send, and what of it is seen before the SDK acts on it.

A server may be broken or hostile: it may send without end, send what is no message, or ask for what it isn't given.
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

    from nbagent.compat import ReadStream

FRAME_BYTES = 16 * 1024 * 1024
"""Of one message. A page of images is smaller; what the model is shown is far less."""
BURST_BYTES = 64 * 1024 * 1024
BYTES_A_SECOND = 1024 * 1024
BURST_FRAMES = 2_000
"""Each costs the SDK, and so every session of this process, about half a millisecond."""
FRAMES_A_SECOND = 50
MALFORMED = 100
"""Lines that are no messages, such as those of a program that prints where its messages go; then it is no server."""

ASKS = {
    "sampling/createMessage": "a reply of the model (sampling)",
    "elicitation/create": "an answer of the person (elicitation)",
    "roots/list": "the folders of the person (roots)",
}
"""What a server may ask of a client and isn't given, by method."""


class Meter:
    """Counts what a server sends: it may send much at once, but not without end.

    Attributes:
        why: Why the connection was cut, to follow the server's name in a sentence; empty while it is not.
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
        """Count bytes or messages; whether they are still within the bounds."""
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
        """Count what is no message; whether there were not too many."""
        self._malformed += 1
        if self._malformed >= MALFORMED:
            self.cut(f"sent {MALFORMED} lines that are no messages of the protocol")
        return not self.why

    def cut(self, why: str) -> None:
        """Note why the connection ends; the first reason counts."""
        self.why = self.why or why

    def note(self, status: str) -> None:
        """Remember the last refusal of an HTTP server, which the SDK doesn't tell."""
        self.status = status


class Watched:
    """What a transport reads, on its way to the SDK.

    Args:
        inner: The transport's own stream.
        meter: Ends the stream once it says that it is enough.
        asked: Called with a method of `ASKS` when the server uses one. The SDK refuses it.
        ended: Is set when nothing more will come.
    """

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        *,
        meter: Meter,
        asked: Callable[[str], None],
        ended: asyncio.Event,
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._asked = asked
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """The SDK's own, of its streams that carry one."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._ended.set()
            raise
        if not self._see(item):
            self._ended.set()
            raise StopAsyncIteration
        return item

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: There is none.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Close the transport's stream."""
        self._ended.set()
        await self._inner.aclose()

    async def __aenter__(self) -> Watched:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None

    def _see(self, item: SessionMessage | Exception) -> bool:
        """Count it and look at it; whether there may be more."""
        if isinstance(item, Exception):
            return self._meter.malformed()
        message = item.message
        if isinstance(message, mcp_types.JSONRPCRequest) and message.method in ASKS:
            self._asked(message.method)
        return self._meter.take(frames=1)
