"""OpenAI's Responses API.

Source: https://platform.openai.com/docs/api-reference/responses, "Create a model response" and "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.stubs.openai_chat import failed, listed
from agent.stubs.transport import Say, ids, parts, sse, unique, words

__all__ = ["BASE", "END", "broken", "failed", "images", "listed", "pieces", "results", "streamed", "whole"]

BASE = "/v1"
END = b""


def streamed(path: str, asked: dict[str, Any]) -> bool:
    """Whether a request wants a stream."""
    assert path.endswith("/responses"), path
    return bool(asked.get("stream"))


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
    """Typed events with a sequence number; the last one has the whole response."""
    for number, event in enumerate(_events(say, asked)):
        yield sse({**event, "sequence_number": number}, event["type"])


def _events(say: Say, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ended = whole(say, asked)
    begun = {**ended, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(ended["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            yield from _text(item, place, say.text)
        else:
            yield from _call(item, place)
    yield {"type": f"response.{ended['status']}", "response": ended}


def _text(item: dict[str, Any], place: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place_of_item = {"output_index": place["output_index"]}
    yield {
        "type": "response.output_item.added",
        **place_of_item,
        "item": {**item, "status": "in_progress", "content": []},
    }
    yield {"type": "response.content_part.added", **place, "content_index": 0, "part": empty}
    for word in words(text):
        yield {"type": "response.output_text.delta", **place, "content_index": 0, "delta": word, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "content_index": 0, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "content_index": 0, "part": {**empty, "text": text}}
    yield {"type": "response.output_item.done", **place_of_item, "item": item}


def _call(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place_of_item = {"output_index": place["output_index"]}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", **place_of_item, "item": begun}
    for part in parts(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": part}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield {"type": "response.function_call_arguments.done", **place, **done}
    yield {"type": "response.output_item.done", **place_of_item, "item": item}


def _items(say: Say) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if say.text:
        content = [{"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}]
        items.append(
            {"id": unique("msg_"), "type": "message", "role": "assistant", "status": "completed", "content": content}
        )
    for each, (name, arguments) in zip(ids(say, "call_"), say.calls, strict=True):
        call = {"call_id": each, "name": name, "arguments": arguments, "status": "completed"}
        items.append({"id": unique("fc_"), "type": "function_call", **call})
    return items


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:
    """A response."""
    into, out = say.usage
    usage = {
        "input_tokens": into,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": into + out,
    }
    ended = (
        {"status": "incomplete", "incomplete_details": {"reason": say.finish}}
        if say.finish
        else {"status": "completed"}
    )
    return {
        "id": unique("resp_"),
        "object": "response",
        "created_at": 1_700_000_000,
        "model": asked["model"],
        "output": _items(say),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": usage,
        **ended,
    }


def broken(say: Say) -> bytes:
    """An error in the stream."""
    return sse(
        {"type": "error", "code": "server_error", "message": say.error, "param": None, "sequence_number": 9}, "error"
    )


def images(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """The images of a request: the kind of the item that has one, or its role, and its base64."""
    found = []
    for item in asked["input"]:
        blocks = item.get("output") if item.get("type") == "function_call_output" else item.get("content")
        urls = [each["image_url"] for each in blocks or [] if isinstance(each, dict) and each["type"] == "input_image"]
        found += [(item.get("role") or item["type"], url.removeprefix("data:image/png;base64,")) for url in urls]
    return found


def results(asked: dict[str, Any]) -> list[str]:
    """The texts of the calls' results."""
    outputs = [item["output"] for item in asked["input"] if item.get("type") == "function_call_output"]
    return [
        output if isinstance(output, str) else "".join(block.get("text", "") for block in output) for output in outputs
    ]
