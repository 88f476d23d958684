"""Calls that LangChain would read for minutes: how they come to it, over each provider's own wire."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import machine
import pytest
from agent.stub import Kernel, answer
from agent.stubs.cases import CASES, Case
from agent.stubs.transport import Say, Stub, python
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from nbagent.agent.build import build_agent
from nbagent.agent.providers import partial
from nbagent.agent.providers.models import open_model

CODE = "text = '" + "x{[é" * 4_000 + "'\nlen(text)"
"""Sent in three pieces, which LangChain would read for half a minute."""
NO_JSON = '{"code": "' + r"re.compile(r'\d')\n" * 2_000 + '"}'
"""What a model writes that forgets to escape: whole, and no JSON."""


@pytest.fixture(params=[name for name, case in CASES.items() if case.has_pieces])
def case(request: pytest.FixtureRequest) -> Case:
    """Each provider that sends a call's arguments in pieces."""
    return CASES[request.param]


async def test_long_calls_are_read_at_once(case: Case, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent is what runs; what can't be read is told to the model."""
    with Stub(case.wire) as stub:
        model = open_model(case.reach(stub, monkeypatch))
        agent = build_agent(model, kernel, system_prompt="You test.")
        stub.say(Say(calls=(python(CODE),)), Say(calls=(("python", NO_JSON),)), Say(text="done"))
        began = time.process_time()
        found = await answer(agent, "Go", turn=1)
        assert time.process_time() - began < 150 * machine.pace()
        await model.aclose()
    assert (found.text, kernel.codes) == ("done", [CODE])
    assert "not valid JSON" in json.dumps(stub.requests[-1])


def chat_event(*calls: dict[str, Any], **delta: Any) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": {**delta, "tool_calls": list(calls)}, "finish_reason": "tool_calls"}
    return {"id": "1", "choices": [choice], "usage": {"total_tokens": 3}}


async def through(*data: bytes) -> bytes:
    """What a client reads of a stream of events that comes in these pieces."""

    class Sent(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for each in data:
                yield each

    async def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Sent())

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        partial.bound_parsing(open_model("openai:gpt-4.1").chat, client)
        return (await client.get("http://provider.test/")).content


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")


@pytest.mark.usefixtures("_key")
async def test_a_stream_of_short_events_is_left_as_it_is() -> None:
    """However it is cut on its way."""
    events = b'event: a\r\ndata: {"choices": []}\r\n\r\n: comment\n\ndata: [DONE]\n\ndata: no end'
    for size in (1, 7, 1000):
        assert await through(*(events[at : at + size] for at in range(0, len(events), size))) == events


@pytest.mark.usefixtures("_key")
async def test_a_long_piece_comes_in_short_ones() -> None:
    """What else its event says comes once; one without an index is cut, since each would be a call by itself."""
    long, whole = "x" * 5_000, json.dumps({"code": "x" * 5_000})
    call = {"index": 1, "id": "c", "function": {"name": "python", "arguments": long}}
    first, *others = partial._split(chat_event(call, content="words"))
    assert first["choices"][0]["delta"]["content"] == "words"
    assert first["usage"] == {"total_tokens": 3}
    delta = [each["choices"][0]["delta"]["tool_calls"][0] for each in (first, *others)]
    assert "".join(each["function"]["arguments"] for each in delta) == long
    assert [each["function"].get("name") for each in delta] == ["python", *[None] * 19]
    assert {each["index"] for each in delta} == {1}
    assert not any(each["usage"] or each["choices"][0]["finish_reason"] for each in others)
    assert len(partial._split(chat_event({**call, "index": None}))) == 1
    assert partial._split(chat_event({**call, "function": {"arguments": whole}})) == [
        chat_event({**call, "function": {"arguments": whole}})
    ]
    for odd in ({"choices": [{"delta": {"tool_calls": [long]}}]}, [long], long):
        line = b"data: " + json.dumps(odd).encode()
        assert await through(line + b"\n\n") == line + b"\n\n"


async def test_only_what_nbagent_opened_is_spared() -> None:
    """LangChain itself is left as it is, for whoever else uses it in this process."""
    cut = '{"code": "' + "x" * partial.LONG

    class Chat:
        async def _astream(self) -> AsyncIterator[ChatGenerationChunk]:
            for args in (cut, r'\d"}'):
                piece = tool_call_chunk(name="python", args=args, id="1", index=0)
                yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[piece]))

    spared, other = Chat(), Chat()
    partial.bound_parsing(spared, None)
    for chat, size in ((spared, partial.LONG), (other, len(cut) + 4)):
        found = [chunk.message async for chunk in chat._astream()]
        assert sum(len(each.tool_call_chunks[0]["args"]) for each in found) == size  # type: ignore[attr-defined]
    assert AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="python", args=cut, id="1", index=0)]).tool_calls
