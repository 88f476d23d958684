"""What is watched of a reply while its pieces come."""

from __future__ import annotations

import asyncio
import time

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from nbagent.agent.providers import attempt
from nbagent.agent.providers.attempt import Attempt
from nbagent.core.errors import ModelCallError


def piece(args: str, *, index: int = 0) -> AIMessageChunk:
    """A piece of a streamed call."""
    return AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name=None, args=args, id=f"c{index}", index=index)])


def test_calls_that_are_not_json_are_known_by_their_ids() -> None:
    """Whole: in pieces none of them is."""
    one = Attempt()
    for each in (piece('{"code"'), piece('{"code": "1', index=1), piece(': "1"}')):
        one.add(each)
    assert one.calls.unreadable() == {"c1"}


def test_many_pieces_take_no_longer_each() -> None:
    """Copying what came before with each piece would hold the process up for minutes."""
    one, part = Attempt(), piece("x" * 39)
    began = time.process_time()
    for _ in range(100_000):
        one.add(part)
    assert time.process_time() - began < 20


async def test_a_reply_in_blocks_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some providers' words come in lists, their thoughts always do."""
    monkeypatch.setattr(attempt, "MOST_TEXT", 1000)

    async def read() -> None:
        attempt.current().add(AIMessageChunk([{"type": "thinking", "thinking": "x" * 2000}]))  # type: ignore[union-attr]
        await asyncio.sleep(60)

    with pytest.raises(ModelCallError, match="came to no end: it had more than 1,000 characters"):
        await Attempt().wait_for(read())
