"""Watches one request to a model while its reply is streamed: that it goes on, its cost, and how its calls are written.

LangChain tells a callback of each piece, whatever the provider. `Attempt.follow` says which request the pieces belong
to, by a context variable, so that one callback without a state serves all models.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk

from nbagent.agent.providers import known
from nbagent.core.errors import ModelCallError

Reply = TypeVar("Reply")

MOST_CALLS = 256
"""Calls of one reply after which it is cut off: LangChain joins the pieces of thousands for minutes."""
MOST_PIECES = 200_000
"""Pieces of one reply after which it is cut off; no reply of today has as many tokens."""
MOST_TEXT = 8_000_000
"""Characters of one reply, calls included, after which it is cut off."""


@dataclass
class _Call:
    """A call so far. Its arguments are joined at the end: to join each piece would copy all that came before it."""

    id: str | None = None
    pieces: list[str] = field(default_factory=list)


class Attempt:
    """One request and its reply.

    Attributes:
        usage: What the provider has told of it so far.
        begun: What it told before the first piece, of a reply whose usage comes with its end.
    """

    def __init__(self) -> None:
        self.usage: UsageMetadata | None = None
        self.begun: UsageMetadata | None = None
        self._calls: dict[Any, _Call] = {}  # by their indices
        self._timeout: asyncio.Timeout | None = None
        self._pieces = 0
        self._size = 0

    async def follow(self, reply: Awaitable[Reply]) -> Reply:
        """Wait for the reply, for as long as pieces of it come.

        Raises:
            TimeoutError: Nothing came for `providers.SILENCE`.
            ModelCallError: It comes to no end.
        """
        token = _CURRENT.set(self)
        try:
            async with asyncio.timeout(known.SILENCE) as self._timeout:
                return await reply
        except TimeoutError:
            if not (endless := self._endless()):
                raise
            raise ModelCallError(f"The model's reply came to no end: it had {endless}.", mend="Ask again.") from None
        finally:
            _CURRENT.reset(token)

    def heard(self, message: AIMessageChunk) -> None:
        """A piece came: begin to wait anew."""
        if self._timeout and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + known.SILENCE)
        if message.usage_metadata:
            self.usage = add_usage(self.usage, message.usage_metadata)
        for piece in message.tool_call_chunks:
            # A piece without an index is a call by itself, as LangChain has it.
            index = len(self._calls) if piece["index"] is None else piece["index"]
            call = self._calls.setdefault(index, _Call())
            call.id = call.id or piece["id"]
            call.pieces.append(piece["args"] or "")
            self._size += len(piece["args"] or "")
        self._pieces += 1
        self._size += _size(message.content)
        if self._endless() and self._timeout and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def _endless(self) -> str:
        """What there is too much of, if the reply comes to no end."""
        bounds = {"calls": MOST_CALLS, "pieces": MOST_PIECES, "characters": MOST_TEXT}
        counts = {"calls": len(self._calls), "pieces": self._pieces, "characters": self._size}
        return next((f"more than {bounds[each]:,} {each}" for each in bounds if counts[each] > bounds[each]), "")

    def unreadable(self) -> set[str | None]:
        """The ids of the calls whose arguments are not JSON as they came.

        LangChain completes JSON that was cut, and takes the result for what the model has sent.
        """
        return {call.id for call in self._calls.values() if not is_json("".join(call.pieces))}


def current() -> Attempt | None:
    """The attempt that is followed here, if any."""
    return _CURRENT.get()


def started(usage: Mapping[str, Any]) -> None:
    """Note what a reply has cost when it begins, as Anthropic tells it: `input_tokens`, those of its cache beside."""
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
        """Tell the attempt that a piece came."""
        message = getattr(chunk, "message", None)
        if (attempt := _CURRENT.get()) and isinstance(message, AIMessageChunk):
            attempt.heard(message)


WATCH = _Watch()
"""Every model that `models.open_model` opens calls it."""

_CURRENT: ContextVar[Attempt | None] = ContextVar("nbagent_attempt", default=None)


def _size(content: str | list[str | dict[Any, Any]]) -> int:
    """Characters of a piece's words, and of its thoughts, which come in blocks."""
    if isinstance(content, str):
        return len(content)
    told = (each.values() if isinstance(each, dict) else [each] for each in content)
    return sum(len(each) for each in itertools.chain.from_iterable(told) if isinstance(each, str))


def is_json(arguments: str) -> bool:
    """Whether a call's arguments can be read as they came; none at all can."""
    try:
        json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return False
    return True
