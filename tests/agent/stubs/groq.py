"""Groq's chat completions: OpenAI's, with the usage in a field of its own as well.

Source: https://console.groq.com/docs/api-reference, "Create chat completion".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.stubs import openai_chat
from agent.stubs.openai_chat import END, failed, images, results, streamed, usage, whole
from agent.stubs.transport import Say, sse

__all__ = ["BASE", "END", "broken", "failed", "images", "listed", "pieces", "results", "streamed", "whole"]

BASE = ""


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """OpenAI's chunks; the first and the one that ends the reply have `x_groq`, the latter with the usage in it."""
    chunks = [
        json.loads(event.removeprefix(b"data: ")) for event in openai_chat.pieces(say, {**asked, "stream_options": {}})
    ]
    chunks[0]["x_groq"] = {"id": "req_1"}
    chunks[-1]["x_groq"] = {"id": "req_1", "usage": usage(say)}
    yield from map(sse, chunks)


def broken(say: Say) -> bytes:
    """An error in the stream."""
    error = {"message": say.error, "type": "server_error", "code": "internal_server_error", "status_code": 500}
    return b"event: error\ndata: " + json.dumps({"error": error}).encode() + b"\n\n"


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models, with what no longer runs."""
    found = openai_chat.listed(names)
    for row in found["data"]:
        row |= {"active": True, "context_window": 131_072}
    found["data"].append({**openai_chat.listed(["gpt-oss-900b"])["data"][0], "active": False, "created": 1_900_000_000})
    return found
