"""Pieces of a call's arguments that LangChain would read for minutes."""

from __future__ import annotations

import time
from typing import Any

from langchain_core.messages import AIMessageChunk, ai
from langchain_core.messages.tool import tool_call_chunk

from nbagent.agent.providers.partial import LONG, install
from nbagent.agent.providers.watch import Attempt


def piece(args: str) -> AIMessageChunk:
    """A piece of a streamed call."""
    return AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="python", args=args, id="1", index=0)])


async def test_long_pieces_are_left_alone() -> None:
    """In a request of nbagent's own; joined they are what was sent. Those of others are read as ever."""
    install()
    install()
    long = "x" * 100_000

    async def read() -> tuple[list[Any], float]:
        began = time.process_time()
        pieces = [piece('{"code": "'), piece(long), piece('"}')]
        return (pieces[0] + pieces[1] + pieces[2]).tool_calls, time.process_time() - began

    calls, seconds = await Attempt().follow(read())
    assert [call["args"] for call in calls] == [{"code": long}]
    assert seconds < 5
    cut = '{"code": "' + "x" * LONG
    assert piece(cut).tool_calls[0]["args"] == {"code": "x" * LONG}
    assert ai.parse_partial_json.__module__ == "nbagent.agent.providers.partial"
