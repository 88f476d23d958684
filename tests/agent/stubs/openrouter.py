"""OpenRouter's chat completions: OpenAI's, with comments while it waits, the cost, and what each model takes.

Source: https://openrouter.ai/docs/api-reference/overview, "Streaming" and "Errors and debugging".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.stubs import openai_chat
from agent.stubs.openai_chat import END, images, results, streamed
from agent.stubs.transport import Say, sse

__all__ = ["BASE", "END", "broken", "failed", "images", "listed", "pieces", "results", "streamed", "whole"]

BASE = "/api/v1"


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """A comment, then OpenAI's chunks with the provider behind it; the usage comes in any case."""
    yield b": OPENROUTER PROCESSING\n\n"
    for event in openai_chat.pieces(say, {**asked, "stream_options": {"include_usage": True}}):
        chunk = {**json.loads(event.removeprefix(b"data: ")), "provider": "Stub"}
        if "usage" in chunk:
            chunk["usage"]["cost"] = 0.0001
            chunk["choices"] = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
        yield sse(chunk)


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:
    """A completion."""
    return {**openai_chat.whole(say, asked), "provider": "Stub"}


def failed(say: Say) -> dict[str, Any]:
    """An error: its code is the status."""
    return {"error": {"code": say.status, "message": say.message or f"stub says {say.status}"}, "user_id": "user_1"}


def broken(say: Say) -> bytes:
    """An error in the stream."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "error"}
    head = {
        "id": "gen-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
        "provider": "Stub",
    }
    return sse({**head, "error": {"code": 502, "message": say.error}, "choices": [choice]})


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models, among them one that takes no tools."""
    found = openai_chat.listed([*names, "acme/poet"])
    for row in found["data"]:
        row["supported_parameters"] = ["max_tokens"] if row["id"] == "acme/poet" else ["max_tokens", "tools"]
    return {"data": found["data"]}
