"""Ollama's chat. A call comes whole, as an object: it has neither pieces nor arguments that are no JSON, nor an id.

Source: https://github.com/ollama/ollama/blob/main/docs/api.md, "Generate a chat completion" and "List local models".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.stubs.transport import Say, words

BASE = ""
END = b""
LINES = True
GARBAGE = b'{"oops: \n'


def streamed(path: str, asked: dict[str, Any]) -> bool:
    """Whether a request wants a stream."""
    assert path == "/api/chat", path
    return bool(asked.get("stream", True))


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """One JSON object a line; the last one is done, and has the counts."""
    for word in words(say.text):
        yield _line(_message(asked, {"content": word}))
    for call in _calls(say):
        yield _line(_message(asked, {"content": "", "tool_calls": [call]}))
    yield _line({**_message(asked, {"content": ""}), **_done(say)})


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:
    """The same in one object."""
    return {**_message(asked, {"content": say.text, "tool_calls": _calls(say)}), **_done(say)}


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _message(asked: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    head = {"model": asked["model"], "created_at": "2026-01-01T00:00:00.000000Z"}
    return {**head, "message": {"role": "assistant", **content}, "done": False}


def _done(say: Say) -> dict[str, Any]:
    counts = {"prompt_eval_count": say.usage[0], "eval_count": say.usage[1]}
    times = {"total_duration": 5_000, "load_duration": 1_000, "prompt_eval_duration": 2_000, "eval_duration": 2_000}
    return {"done": True, "done_reason": say.finish or "stop", **counts, **times}


def _calls(say: Say) -> list[dict[str, Any]]:
    return [{"function": {"name": name, "arguments": json.loads(arguments)}} for name, arguments in say.calls]


def failed(say: Say) -> dict[str, Any]:
    """An error."""
    return {"error": say.message or f"stub says {say.status}"}


def broken(say: Say) -> bytes:
    """An error in the stream."""
    return _line({"error": say.error})


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models."""
    rows = [
        {"name": name, "model": name, "modified_at": f"{2030 - number}-01-01T00:00:00Z"}
        for number, name in enumerate(names)
    ]
    return {"models": rows}


def images(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """The images of a request: the role of the message that has one, and its base64."""
    return [(message["role"], image) for message in asked["messages"] for image in message.get("images") or []]


def results(asked: dict[str, Any]) -> list[str]:
    """The texts of the calls' results."""
    return [message["content"] for message in asked["messages"] if message["role"] == "tool"]
