"""A model's reply: its words, how it ended, and what of it is kept. Pure.

A reply is sent back to its provider with each later request, and written to the log. What is too long in it is cut, and
a call that can't be encoded is refused, or every later request would fail or be slow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage

from nbagent.agent.cell_view import cut_middle
from nbagent.core.text import SURROGATES

ANSWERED_BY: Final = "nbagent_model"
"""In a reply's metadata: the name of the fallback model that gave it."""
REQUESTS: Final = "nbagent_calls"
"""In a reply's metadata: how many requests it took, if it took more than one."""
MOST_CALLS: Final = 64
"""Calls of one reply that are kept."""
MOST_TEXT: Final = 200_000
"""Characters of a reply's words that are kept."""
MOST_NAME: Final = 100
"""Characters of a tool's name that are kept; providers take 64."""
CUT: Final = "\n[… the rest of this reply was cut off …]"
TOO_MANY: Final = "this reply has {count:,} calls, of which the first {kept} run; send fewer at a time"
BROKEN: Final = "its arguments have half of a surrogate pair, which can't be sent; write it as an escape sequence"
_REASONS = ("finish_reason", "stop_reason", "done_reason", "status")


def text_of(reply: AIMessage) -> str:
    """The words of a reply: its text blocks, or the refusal that OpenAI sends beside them."""
    return str(reply.text) or str(reply.additional_kwargs.get("refusal") or "")


def last_reply(messages: Iterable[BaseMessage]) -> AIMessage | None:
    """The last reply among messages."""
    return next((each for each in reversed(list(messages)) if isinstance(each, AIMessage)), None)


def stop_reason(reply: AIMessage) -> str:
    """Why the provider says that the reply ended; empty if it says nothing."""
    found = reply.response_metadata
    return str(next((found[name] for name in _REASONS if found.get(name)), ""))


def in_place_of_result(call: ToolCall | InvalidToolCall, text: str) -> ToolMessage:
    """The message that tells the model why a call has no result."""
    return ToolMessage(text, name=call["name"] or "unknown", tool_call_id=call["id"] or "", status="error")


def refuse(reply: AIMessage, call: ToolCall, error: str) -> None:
    """Keep a call from running; the model is told why."""
    reply.tool_calls.remove(call)
    reply.invalid_tool_calls.append(
        InvalidToolCall(type="invalid_tool_call", name=call["name"], args="", id=call["id"], error=error)
    )


def bound(reply: AIMessage) -> None:
    """Cut a reply's text, names and number of calls, and refuse the calls that can't be encoded."""
    text = str(reply.text)
    if len(text) > MOST_TEXT or SURROGATES.search(text):
        reply.content = _encodable(text[:MOST_TEXT]) + (CUT if len(text) > MOST_TEXT else "")
    count = len(reply.tool_calls)
    for call in reply.tool_calls[MOST_CALLS : MOST_CALLS + 1]:
        refuse(reply, call, TOO_MANY.format(count=count, kept=MOST_CALLS))
    del reply.tool_calls[MOST_CALLS:], reply.invalid_tool_calls[MOST_CALLS:]
    calls: list[Any] = [*reply.tool_calls, *reply.invalid_tool_calls]
    for each in calls:
        each["name"] = _encodable(each["name"] or "")[:MOST_NAME]
    for call in [call for call in reply.tool_calls if not _can_be_encoded(call["args"])]:
        refuse(reply, call, BROKEN)
    for invalid in reply.invalid_tool_calls:
        invalid["args"] = cut_middle(_encodable(invalid["args"] or ""))[0]


def _can_be_encoded(args: Any) -> bool:
    try:
        json.dumps(args, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _encodable(text: str) -> str:
    return SURROGATES.sub("?", text)
