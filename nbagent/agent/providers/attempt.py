"""One attempt at a reply, watched while it is streamed: that it goes on, that it ends, and what it has used.

LangChain tells a callback of each piece, whatever the provider. A context variable says to which attempt the pieces
belong, so one callback without a state serves all models.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk

from nbagent.agent.providers import known
from nbagent.agent.providers.streamed_calls import StreamedCalls
from nbagent.core.errors import ModelCallError

_Reply = TypeVar("_Reply")

MOST_CALLS = 256
"""Calls of one reply after which it is cut off: LangChain joins the pieces of thousands for minutes."""
MOST_PIECES = 200_000
"""Pieces of one reply after which it is cut off; no reply of today has as many tokens."""
MOST_TEXT = 8_000_000
"""Characters of one reply, calls included, after which it is cut off."""


class Attempt:
    """One request to a model, and its reply.

    Attributes:
        calls: The calls in the reply so far.
        usage: What the provider has told of the usage with the pieces so far.
        begun: What it told of the usage before the first piece; some tell the rest only at the end.
    """

    def __init__(self, *, say: Callable[[str], object] | None = None) -> None:
        self._say = say
        self.calls = StreamedCalls()
        self.usage: UsageMetadata | None = None
        self.begun: UsageMetadata | None = None
        self._timeout: asyncio.Timeout | None = None
        self._pieces = 0
        self._size = 0

    async def wait_for(self, reply: Awaitable[_Reply]) -> _Reply:
        """Wait for the reply, for as long as pieces of it come.

        Raises:
            TimeoutError: No piece came for `known.SILENCE` seconds.
            ModelCallError: The reply is larger than any honest one.
        """
        token = _CURRENT.set(self)
        try:
            async with asyncio.timeout(known.SILENCE) as self._timeout:
                return await reply
        except TimeoutError:
            if not (excess := self._excess()):
                raise
            raise ModelCallError(f"The model's reply came to no end: it had {excess}.", mend="Ask again.") from None
        finally:
            _CURRENT.reset(token)

    def add(self, message: AIMessageChunk) -> None:
        """Count a piece, and begin to wait anew; after too many, end the wait at once."""
        self._expire_in(known.SILENCE)
        if message.usage_metadata:
            self.usage = add_usage(self.usage, message.usage_metadata)
        for piece in message.tool_call_chunks:
            self.calls.add(piece)
            self._size += len(piece["args"] or "")
        self._pieces += 1
        self._size += _size(message.content)
        if self._excess():
            self._expire_in(0)
        elif self._say is not None and (words := str(message.text)):
            self._say(words)

    def _expire_in(self, seconds: float) -> None:
        if self._timeout and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + seconds)

    def _excess(self) -> str:
        """The bound that the reply exceeds, as `more than 256 calls`; empty if it exceeds none."""
        bounds = {"calls": MOST_CALLS, "pieces": MOST_PIECES, "characters": MOST_TEXT}
        counts = {"calls": len(self.calls), "pieces": self._pieces, "characters": self._size}
        return next((f"more than {bounds[each]:,} {each}" for each in bounds if counts[each] > bounds[each]), "")


def current() -> Attempt | None:
    """The attempt that is followed in this context, if any."""
    return _CURRENT.get()


def note_input(usage: Mapping[str, Any]) -> None:
    """Note the usage that Anthropic tells when a reply begins: `input_tokens`, and those of its cache beside them."""
    attempt = _CURRENT.get()
    if attempt is None:
        return
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    given = sum(usage.get(name) or 0 for name in names)
    made = usage.get("output_tokens") or 0
    attempt.begun = UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)


class _Watch(AsyncCallbackHandler):
    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],  # noqa: ARG002 - LangChain's signature
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **_: Any,
    ) -> None:
        """Add the piece to the attempt of this context."""
        message = getattr(chunk, "message", None)
        if (attempt := _CURRENT.get()) and isinstance(message, AIMessageChunk):
            attempt.add(message)


WATCH = _Watch()
"""The callback of every model that `models.open_model` opens."""

_CURRENT: ContextVar[Attempt | None] = ContextVar("nbagent_attempt", default=None)


def _size(content: str | list[str | dict[Any, Any]]) -> int:
    """Characters of a piece's words, and of its thoughts, which come in blocks."""
    if isinstance(content, str):
        return len(content)
    values = (each.values() if isinstance(each, dict) else [each] for each in content)
    return sum(len(each) for each in itertools.chain.from_iterable(values) if isinstance(each, str))
