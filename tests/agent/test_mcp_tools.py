"""MCP tools in the agent: real servers, and a provider that speaks the real protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent.stub import Kernel, Provider, Say, answer, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.mcp_tools import McpTools
from nbagent.agent.providers.models import open_model
from nbagent.core.events import Event, McpServerChanged, McpToolCalled, McpToolsSelected
from nbagent.mcp.client import McpClient
from nbagent.mcp.servers import ServerEntry

HOSTILE = Path(__file__).parent.parent / "mcp" / "hostile.py"


def server(name: str, how: str = "ok", **entry: Any) -> ServerEntry:
    """A server of the tests, with one tool, `go`."""
    return ServerEntry(
        name=name, transport="stdio", command=sys.executable, args=(str(HOSTILE), how), **{"seconds": 2.0, **entry}
    )


class World:
    """An agent with servers."""

    def __init__(self, provider: Provider, kernel: Kernel) -> None:
        self.provider = provider
        self.kernel = kernel
        self.events: list[Event] = []
        self.client = McpClient([], notify=self.events.append)
        self.turn = 0
        self.agent: Agent

    def open(self, *servers: ServerEntry, **options: Any) -> None:
        """Put the agent together."""
        self.client = McpClient(servers, notify=self.events.append)
        self.tools = McpTools(self.client, **options)
        self.agent = build_agent(open_model("openai:m"), self.kernel, system_prompt="s", middleware=[self.tools])

    async def ask(self, question: str, *script: Say) -> str:
        """Ask a question that the model answers like this."""
        self.turn += 1
        self.provider.say(*script)
        found = await answer(self.agent, question, turn=self.turn, told=self.events)
        assert self.provider.script == []
        return found.text

    def offered(self, number: int = -1) -> list[str]:
        """The MCP tools in a request, behind nbagent's own."""
        names = [tool["function"]["name"] for tool in self.provider.requests[number]["tools"]]
        assert names[:2] == ["python", "install"]
        return [name for name in names if "__" in name]

    def told(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
async def world(provider: Provider, kernel: Kernel) -> AsyncIterator[World]:
    """A world whose servers are ended with it."""
    one = World(provider, kernel)
    yield one
    await one.client.close()


def call(name: str, **arguments: Any) -> Say:
    """A reply that calls a tool."""
    return Say(calls=((name, json.dumps(arguments)),))


async def test_only_what_the_question_needs_is_offered(world: World) -> None:
    """Of two servers the one that the question needs; for another question the other one; always the kernel."""
    web = server("net", capabilities={"*": frozenset({"web:search"})})
    disk = server("disk", capabilities={"*": frozenset({"file:read"})})
    world.open(web, disk)
    await world.ask("Search the web", Say(text="ok"))
    assert world.offered() == ["net__go"]
    await world.ask("Read the file", Say(text="ok"))
    assert world.offered() == ["disk__go"]
    await world.ask("What is the mean of the column?", Say(text="ok"))
    assert world.offered() == []
    assert [(event.tools, event.confidence, event.missing) for event in world.told(McpToolsSelected)] == [
        (["net__go"], 1.0, []),
        (["disk__go"], 1.0, []),
        ([], 1.0, []),
    ]


async def test_what_is_missing_is_told(world: World) -> None:
    """A need that no tool has, and the kernel neither."""
    world.open(server("disk", capabilities={"*": frozenset({"file:read"})}))
    await world.ask("Send an email to Bob", Say(text="I can't"))
    (event,) = world.told(McpToolsSelected)
    assert (event.tools, event.confidence, event.missing) == ([], 0.0, ["email:send"])


async def test_a_call_reaches_the_server_and_its_result_the_model(world: World) -> None:
    """Beside cells, in the order in which the calls are written; the event has what was called with and told."""
    world.open(server("net"))
    both = Say(calls=(python("6 * 7"), ("net__go", '{"say": "hello"}')))
    assert await world.ask("Ask net", both, Say(text="done")) == "done"
    assert [message["content"] for message in world.provider.sent() if message["role"] == "tool"] == [
        "[result]\n42",
        "hello",
    ]
    (event,) = world.told(McpToolCalled)
    assert (event.server, event.tool, event.arguments) == ("net", "go", {"say": "hello"})
    assert (event.status, event.text) == ("ok", "hello")


async def test_arguments_of_any_name_arrive(world: World) -> None:
    """Also those that LangChain has a meaning for."""
    world.open(server("net"))
    names = "self config run_manager callbacks runtime state tool_call_id args kwargs".split()
    await world.ask("Ask net", call("net__go", say="x", **dict.fromkeys(names, "v")), Say(text="done"))
    assert world.told(McpToolCalled)[0].arguments == {"say": "x", **dict.fromkeys(names, "v")}


async def test_a_failing_server_is_text_and_the_turn_goes_on(world: World) -> None:
    """A death, then a new server; the model is told what is known of the first call."""
    world.open(server("net"))
    found = await world.ask("Ask net", call("net__go", exit=3), call("net__go", say="back"), Say(text="done"))
    assert found == "done"
    told = [message["content"] for message in world.provider.sent() if message["role"] == "tool"]
    assert "net ended with exit code 3" in told[0]
    assert "Whether the call took effect is not known." in told[0]
    assert told[1] == "back"
    assert [event.status for event in world.told(McpToolCalled)] == ["failed", "ok"]


async def test_a_server_that_is_not_there_costs_its_tools_only(world: World) -> None:
    """The question is answered without."""
    world.open(ServerEntry(name="gone", transport="stdio", command="no-such-program"))
    assert await world.ask("Ask gone", Say(text="alone")) == "alone"
    assert world.offered() == []
    assert world.told(McpServerChanged)[0].state == "failed"


async def test_a_tool_that_was_not_offered_is_told(world: World) -> None:
    """A model may remember it, or make it up."""
    world.open(server("net"))
    assert await world.ask("Ask net", call("net__gone"), Say(text="done")) == "done"
    assert "There is no such tool now: net__gone." in world.provider.sent()[-1]["content"]


async def test_a_tool_that_was_used_stays(world: World) -> None:
    """The next question may go on where this one ended, in words that tell nothing of it."""
    web = server("net", capabilities={"*": frozenset({"web:search"})})
    world.open(web)
    await world.ask("Search the web", call("net__go"), Say(text="done"))
    await world.ask("What is the mean of the column?", Say(text="ok"))
    assert world.offered() == ["net__go"]


async def test_constraints_hold(world: World) -> None:
    """Whatever the words say."""
    world.open(server("net"), constraints={"deny": ["net"]})
    await world.ask("Ask net", Say(text="ok"))
    assert world.offered() == []


async def test_no_servers_change_nothing(world: World) -> None:
    """Who has none sees no difference, and no event."""
    world.open()
    await world.ask("Search the web", Say(text="ok"))
    assert (world.offered(), world.events) == ([], [])


async def test_a_schema_arrives_at_the_provider_as_it_is(world: World) -> None:
    """And a tool without a description has one."""
    world.open(server("net", env={"DESCRIPTION": ""}))
    await world.ask("Ask net", Say(text="ok"))
    (tool,) = [each for each in world.provider.requests[-1]["tools"] if each["function"]["name"] == "net__go"]
    assert tool["function"]["description"] == "go"
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}}
