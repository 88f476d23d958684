"""Google's Gemini API. A call comes whole, as an object: it has neither pieces nor arguments that are no JSON.

Source: https://ai.google.dev/api/generate-content, and "Thought signatures" there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from agent.stubs.transport import Say, sse, words

BASE = ""
END = b""
SIGNATURE = base64.b64encode(b"thought").decode()
"""Gemini 3 refuses a conversation in which its signature on a call is missing."""

_KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def streamed(path: str, asked: dict[str, Any]) -> bool:  # noqa: ARG001 - the path tells
    """Whether a request wants a stream."""
    assert path.startswith("/v1beta/models/"), path
    return ":streamGenerateContent" in path


def pieces(say: Say, asked: dict[str, Any]) -> Iterator[bytes]:  # noqa: ARG001 - the model is in the path
    """Candidates with parts; each has the usage so far, the last one the reason."""
    parts = [[{"text": word}] for word in words(say.text)] + [[part] for part in _calls(say)]
    for part in parts:
        yield sse(_response(part, None, (say.usage[0], 0)))
    yield sse(_response([{"text": ""}], _finish(say), say.usage))


def whole(say: Say, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - as above
    """A response."""
    return _response([{"text": say.text}, *_calls(say)], _finish(say), say.usage)


def _response(parts: list[dict[str, Any]], finish: str | None, usage: tuple[int, int]) -> dict[str, Any]:
    candidate = {
        "content": {"role": "model", "parts": parts},
        "index": 0,
        **({"finishReason": finish} if finish else {}),
    }
    counted = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
    return {"candidates": [candidate], "usageMetadata": counted, "modelVersion": "m", "responseId": "r1"}


def _calls(say: Say) -> list[dict[str, Any]]:
    named = [{"functionCall": {"name": name, "args": json.loads(arguments)}} for name, arguments in say.calls]
    # Of parallel calls only the first is signed.
    return [{**part, "thoughtSignature": SIGNATURE} if not number else part for number, part in enumerate(named)]


def _finish(say: Say) -> str:
    return say.finish or "STOP"


def failed(say: Say) -> dict[str, Any]:
    """An error."""
    message = say.message or f"stub says {say.status}"
    kind = _KINDS.get(say.status, "UNKNOWN")
    return {"error": {"code": say.status, "message": message, "status": kind, "details": list(say.details)}}


def broken(say: Say) -> bytes:
    """An error in the stream."""
    return sse({"error": {"code": 503, "message": say.error, "status": "UNAVAILABLE"}})


def listed(names: list[str]) -> dict[str, Any]:
    """The list of models, with one that doesn't talk."""
    rows = [
        {"name": f"models/{name}", "supportedGenerationMethods": ["generateContent", "countTokens"]} for name in names
    ]
    return {"models": [*rows, {"name": "models/aqa", "supportedGenerationMethods": ["generateAnswer"]}]}


def images(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """The images of a request: where each is, and its base64."""
    found = []
    for content in asked["contents"]:
        for part in content["parts"]:
            if "inlineData" in part:
                found.append((content["role"], part["inlineData"]["data"]))
            inner = part.get("functionResponse", {}).get("parts", [])
            found += [("functionResponse", each["inlineData"]["data"]) for each in inner]
    return found


def results(asked: dict[str, Any]) -> list[str]:
    """The texts of the calls' results."""
    parts = [part for content in asked["contents"] for part in content["parts"]]
    answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    return [str(answer.get("output", answer)) for answer in answers]
