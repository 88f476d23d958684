"""Anthropic's Messages API.

Source: https://docs.anthropic.com/en/api/messages-streaming, and "Errors" there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.stubs.transport import Say, ids, parts, sse, unique, words

BASE = ""
END = b""
GARBAGE = b'event: content_block_delta\ndata: {"oops: \n\n'

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def streamed(path: str, asked: dict[str, Any]) -> bool:
    """Whether a request wants a stream."""
    assert path == "/v1/messages", path
    return bool(asked.get("stream"))


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """Typed events: the input's usage first, the output's last, arguments in pieces between."""
    into, out = say.usage
    begun = {**_head(asked), "usage": {"input_tokens": into, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": begun})
    yield _event({"type": "ping"})
    for index, block in enumerate(_blocks(say)):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for piece in words(block["text"]) if is_text else parts(block["input"]):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _stop(say), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"input_tokens": into, "output_tokens": out}})
    yield _event({"type": "message_stop"})


def _event(data: dict[str, Any]) -> bytes:
    return sse(data, data["type"])


def _blocks(say: Say) -> list[dict[str, Any]]:
    """Content blocks; the input of a call is still text here."""
    text = [{"type": "text", "text": say.text}] if say.text else []
    named = zip(ids(say, "toolu_"), say.calls, strict=True)
    return [*text, *({"type": "tool_use", "id": each, "name": name, "input": args} for each, (name, args) in named)]


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:
    """A message."""
    blocks = _blocks(say)
    content = [{**block, "input": json.loads(block["input"])} if "input" in block else block for block in blocks]
    usage = {"input_tokens": say.usage[0], "output_tokens": say.usage[1]}
    return {**_head(asked), "content": content, "stop_reason": _stop(say), "usage": usage}


def _head(asked: dict[str, Any]) -> dict[str, Any]:
    head = {"id": unique("msg_"), "type": "message", "role": "assistant", "model": asked["model"]}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None}


def _stop(say: Say) -> str:
    return say.finish or ("tool_use" if say.calls else "end_turn")


def failed(say: Say) -> dict[str, Any]:
    """An error."""
    error = {"type": _KINDS.get(say.status, "api_error"), "message": say.message or f"stub says {say.status}"}
    return {"type": "error", "error": error, "request_id": "req_1"}


def broken(say: Say) -> bytes:
    """An error in the stream."""
    return _event({"type": "error", "error": {"type": "overloaded_error", "message": say.error}})


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models."""
    rows = [
        {"type": "model", "id": name, "display_name": name, "created_at": f"{2030 - number}-01-01T00:00:00Z"}
        for number, name in enumerate(names)
    ]
    return {"data": rows, "has_more": False, "first_id": names[0] if names else None, "last_id": None}


def images(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """The images of a request: the kind of block that has one, and its base64."""
    found = []
    for message in asked["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            inner = block.get("content") if block["type"] == "tool_result" else [block]
            for each in inner if isinstance(inner, list) else []:
                if each["type"] == "image":
                    found.append((block["type"], each["source"]["data"]))
    return found


def results(asked: dict[str, Any]) -> list[str]:
    """The texts of the calls' results."""
    texts = []
    for message in asked["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                content = block["content"]
                texts.append(content if isinstance(content, str) else "".join(each.get("text", "") for each in content))
    return texts
