"""Middleware that runs the tool calls of one reply one at a time, in the order in which the model wrote them.

LangGraph starts a task for each call, all at once. A lock would be fair only to the order in which the tasks reach it,
which other middleware can change; here each call waits for the one before it. If one raises, those behind it never
start: LangGraph cancels them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage

from nbagent.agent.middleware.types import Middleware, ToolHandler, ToolOutcome


class InOrder(Middleware):
    """Makes each call wait for the one before it.

    Attributes:
        finished: The results of the last reply's calls so far, by the ids of the reply and the call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.finished: dict[tuple[str | None, str | None], ToolMessage] = {}
        self._reply: tuple[str | None, ...] = ()
        self._ended: list[asyncio.Event] = []

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolOutcome:
        """Wait for the call before this one, and run this one."""
        reply = _pending(request.state["messages"])
        if reply != self._reply:
            self._reply, self._ended = reply, [asyncio.Event() for _ in reply]
            self._ended[0].set()
            self.finished.clear()
        place = reply.index(request.tool_call["id"], 1)
        await self._ended[place - 1].wait()
        result = await handler(request)
        if isinstance(result, ToolMessage):
            self.finished[reply[0], result.tool_call_id] = result
        self._ended[place].set()
        return result


def _pending(messages: Sequence[Any]) -> tuple[str | None, ...]:
    """The id of the last reply, then the ids of its calls that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        if isinstance(message, AIMessage):
            return (message.id, *(call["id"] for call in message.tool_calls if call["id"] not in answered))
    return (None,)
