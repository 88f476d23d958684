"""OpenAI's chat completions, which compatible servers speak too.

Source: https://platform.openai.com/docs/api-reference/chat, "Create chat completion" and "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.stubs.transport import Say, ids, parts, sse, words

BASE = "/v1"
END = b"data: [DONE]\n\n"


def streamed(path: str, asked: dict[str, Any]) -> bool:
    """Whether a request wants a stream."""
    assert path.endswith("/chat/completions"), path
    return bool(asked.get("stream"))


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """Chunks; a call's name comes first, its arguments after it in pieces; the usage last, if it was asked for."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        return {**_head(asked), "object": "chat.completion.chunk", "choices": choices}

    yield sse(chunk({"role": "assistant", "content": ""}))
    for word in words(say.text):
        yield sse(chunk({"content": word}))
    for call in _calls(say):
        arguments = call["function"]["arguments"]
        yield sse(chunk({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]}))
        for part in parts(arguments):
            yield sse(chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": part}}]}))
    yield sse(chunk({}, _finish(say)))
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield sse({**chunk({}), "choices": [], "usage": usage(say)})


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:
    """A completion."""
    calls = [{name: value for name, value in call.items() if name != "index"} for call in _calls(say)]
    message = {"role": "assistant", "content": say.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(say)}
    return {**_head(asked), "object": "chat.completion", "choices": [choice], "usage": usage(say)}


def failed(say: Say) -> dict[str, Any]:
    """An error."""
    message = say.message or f"stub says {say.status}"
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": say.code or None}}


def broken(say: Say) -> bytes:
    """An error in the stream."""
    return sse({"error": {"message": say.error, "type": "server_error", "param": None, "code": None}})


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models."""
    created = range(1_700_000_000, 0, -86_400)
    rows = [
        {"id": name, "object": "model", "created": at, "owned_by": "stub"}
        for name, at in zip(names, created, strict=False)
    ]
    return {"object": "list", "data": rows}


def usage(say: Say) -> dict[str, Any]:
    """Tokens."""
    into, out = say.usage
    return {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}


def images(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """The images of a request: the role of the message that has one, and its base64."""
    found = []
    for message in asked["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        urls = [block["image_url"]["url"] for block in blocks if block["type"] == "image_url"]
        found += [(message["role"], url.removeprefix("data:image/png;base64,")) for url in urls]
    return found


def results(asked: dict[str, Any]) -> list[str]:
    """The texts of the calls' results."""
    texts = []
    for message in asked["messages"]:
        if message["role"] == "tool":
            content = message["content"]
            texts.append(content if isinstance(content, str) else "".join(block.get("text", "") for block in content))
    return texts


def _head(asked: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "created": 1_700_000_000, "model": asked["model"]}


def _calls(say: Say) -> list[dict[str, Any]]:
    named = zip(ids(say, "call_"), say.calls, strict=True)
    return [
        {"index": number, "id": each, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (each, (name, arguments)) in enumerate(named)
    ]


def _finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.calls else "stop")
