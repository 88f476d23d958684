"""Keeps LangChain from parsing a call's partial arguments for minutes, for one chat model and its HTTP client alone.

LangChain parses each piece of a streamed call, and the whole call at its end, as partial JSON: it takes one character
after the other off the end until the rest can be read. For 200 KB that are no JSON this takes two minutes, and nobody
uses what it makes of a piece. So LangChain is given a long piece as many short ones; of a long call that is no JSON,
and so can't run, it is given the beginning.

Other models in this process keep LangChain's own behaviour.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from nbagent.agent.providers.attempt import note_input
from nbagent.agent.providers.streamed_calls import is_json
from nbagent.core import compat

LONG: Final = 2_000
"""Characters of arguments from which on LangChain is spared the work."""
SHORT: Final = 250
"""Characters of each short piece: together they take no longer than the single words that most models send."""
_Event = dict[str, Any]


def bound_parsing(chat: Any, client: Any) -> None:
    """Set up a chat model that was just opened.

    Args:
        chat: LangChain's chat model.
        client: Its provider's client, if it is known. It must be this model's own.
    """
    chat.__dict__[compat.STREAM.name] = _joinable(chat)  # a model of pydantic's takes no attributes
    http = client if hasattr(client, "event_hooks") else compat.HTTP_CLIENTS[0].of(client)
    if hasattr(http, "event_hooks"):
        http.event_hooks = {**http.event_hooks, "response": [*http.event_hooks["response"], _listen]}
        http.headers["Accept-Encoding"] = "identity"  # what is compressed can't be read on its way


def _joinable(chat: Any) -> Any:
    """A chat model's own stream, in which a long call that is no JSON is cut before LangChain joins its pieces."""
    stream = compat.STREAM.of(chat)

    async def read(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        calls: dict[Any, list[Any]] = {}
        async for chunk in stream(*args, **kwargs):
            for piece in getattr(chunk.message, "tool_call_chunks", ()):
                # A piece without an index is a call by itself, as LangChain has it.
                calls.setdefault(id(piece) if piece["index"] is None else ("at", piece["index"]), []).append(piece)
            yield chunk
        for pieces in calls.values():
            whole = "".join(piece["args"] or "" for piece in pieces)
            if len(whole) > LONG and not is_json(whole):
                for piece in pieces:
                    piece["args"] = ""
                pieces[0]["args"] = whole[:LONG]

    return read


async def _listen(response: Any) -> None:
    """Put `_in_short_pieces` between a stream of events and the provider's client; a hook of httpx, and of httpx2."""
    headers = response.headers
    if headers.get("Content-Type", "").startswith("text/event-stream") and not headers.get("Content-Encoding"):
        library = importlib.import_module(type(response).__module__.partition(".")[0])
        response.stream = _in_short_pieces(response.stream, library.AsyncByteStream)


def _in_short_pieces(stream: Any, kind: type[Any]) -> Any:
    """The same stream of events, as the kind of stream that the HTTP library takes."""

    class Stream(kind):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            name, rest = b"", bytearray()
            async for data in stream:
                *ended, last = data.split(b"\n")
                if ended:
                    ended[0] = bytes(rest) + ended[0]
                    rest.clear()
                rest += last
                for number, line in enumerate(ended):
                    name = line + b"\n" if line.startswith(b"event:") else name if line.strip() else b""
                    ended[number] = _split_line(line, name)
                if ended:
                    yield b"\n".join(ended) + b"\n"
            yield bytes(rest)

        async def aclose(self) -> None:
            await stream.aclose()

    return Stream()


def _split_line(line: bytes, name: bytes) -> bytes:
    """A line of a stream of events, with a call's long piece as several events."""
    begins = b'"message_start"' in line
    if not line.startswith(b"data:") or not (begins or len(line) > LONG):
        return line
    try:
        event = json.loads(line[len(b"data:") :])
        if begins:
            note_input(event["message"]["usage"])
        events = _split(event)
    except (ValueError, LookupError, TypeError, RecursionError):
        return line  # malformed: the provider's client reports it
    return line if len(events) == 1 else (b"\n\n" + name).join(b"data: " + json.dumps(each).encode() for each in events)


def _split(event: _Event) -> list[_Event]:
    """The events for an event of Anthropic's, of OpenAI's responses or of chat completions."""
    match event:
        case {"delta": {"partial_json": str(text)} as delta}:
            return [{**event, "delta": {**delta, "partial_json": part}} for part in _parts(text)]
        case {"type": "response.function_call_arguments.delta", "delta": str(text)}:
            return [{**event, "delta": part} for part in _parts(text)]
        case {"choices": [{"delta": {"tool_calls": [*calls]}}]}:
            return _split_calls(event, calls)
    return [event]


def _split_calls(event: _Event, calls: list[_Event]) -> list[_Event]:
    first, others = [], []
    for call in calls:
        text, *parts = _parts(call["function"].get("arguments") or "")
        first.append({**call, "function": {**call["function"], "arguments": text}})
        # Without an index each piece would count as another call; this one is no JSON, so its rest is not needed.
        if (index := call.get("index")) is not None:
            others += [{"index": index, "function": {"arguments": part}} for part in parts]
    choice = event["choices"][0]
    more = [
        {**event, "usage": None, "choices": [{"index": 0, "delta": {"tool_calls": [each]}, "finish_reason": None}]}
        for each in others
    ]
    return [{**event, "choices": [{**choice, "delta": {**choice["delta"], "tool_calls": first}}]}, *more]


def _parts(text: str) -> list[str]:
    if len(text) <= LONG or is_json(text):
        return [text]
    return [text[at : at + SHORT] for at in range(0, len(text), SHORT)]
