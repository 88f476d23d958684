"""What of a model's reply is kept: bounds that an honest one never meets, and characters that nothing can hold.

A reply is sent back to its provider with each later call, and written to the log. Whatever is odd about it must not
make every call after it fail, or slow.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall

from nbagent.agent.view import cut

CALLS: Final = 64
"""Of one reply."""
TEXT: Final = 200_000
"""Characters of a reply's words."""
CUT: Final = "\n[… the rest of this reply was cut off …]"
NAME: Final = 100
"""Characters of a tool's name, of which providers take 64."""
TOO_MANY: Final = "this reply has {count:,} calls, of which the first {kept} run; send fewer at a time"
BROKEN: Final = "its arguments have half of a surrogate pair, which can't be sent; write it as an escape sequence"
_HALF = re.compile("[\ud800-\udfff]")


def bound(reply: AIMessage) -> None:
    """Cut a reply to what can be kept; calls that can't be are told to the model as those that can't be read are."""
    _bound_text(reply)
    count = len(reply.tool_calls)
    for call in reply.tool_calls[CALLS : CALLS + 1]:
        refuse(reply, call, TOO_MANY.format(count=count, kept=CALLS))
    del reply.tool_calls[CALLS:], reply.invalid_tool_calls[CALLS:]
    named: list[Any] = [*reply.tool_calls, *reply.invalid_tool_calls]
    for each in named:
        each["name"] = _clean(each["name"] or "")[:NAME]
    for call in [call for call in reply.tool_calls if _is_broken(call["args"])]:
        refuse(reply, call, BROKEN)
    for invalid in reply.invalid_tool_calls:
        invalid["args"] = cut(_clean(invalid["args"] or ""))[0]


def refuse(reply: AIMessage, call: ToolCall, error: str) -> None:
    """Keep a call from running, and have the model told why."""
    reply.tool_calls.remove(call)
    reply.invalid_tool_calls.append(
        InvalidToolCall(type="invalid_tool_call", name=call["name"], args="", id=call["id"], error=error)
    )


def _bound_text(reply: AIMessage) -> None:
    text = str(reply.text)
    if len(text) > TEXT or _HALF.search(text):
        reply.content = _clean(text[:TEXT]) + (CUT if len(text) > TEXT else "")


def _is_broken(args: Any) -> bool:
    try:
        json.dumps(args, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return True
    return False


def _clean(text: str) -> str:
    return _HALF.sub("?", text)
