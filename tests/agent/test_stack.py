"""Several middleware as one: the same hooks in the same order, and what they add arrives where it would."""
# ruff: noqa: ARG002 - hooks have the arguments that LangChain gives them

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelCallLimitMiddleware,
    hook_config,
)
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from nbagent.agent.middleware.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Model(GenericFakeChatModel):
    """Says what it is given, and takes tools."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        """Whatever the tools."""
        return self


@tool
def double(number: int) -> str:
    """Twice the number."""
    return str(2 * number)


def call(number: int, *, name: str = "a") -> AIMessage:
    """A reply that calls the tool."""
    return AIMessage("", tool_calls=[{"name": "double", "args": {"number": number}, "id": name}])


class Counted(AgentState[Any]):
    """A state with a number of its own."""

    count: NotRequired[int]


class Watcher(AgentMiddleware[Counted, Any, Any]):
    """Writes down each of its hooks, with the number of messages and the count that it sees."""

    state_schema = Counted

    def __init__(self, name: str, heard: list[str]) -> None:
        super().__init__()
        self._name = name
        self._heard = heard

    @property
    def name(self) -> str:
        """Its own, so that two of them can stand side by side."""
        return self._name

    def _hear(self, hook: str, state: Any) -> None:
        self._heard.append(f"{self._name} {hook} {len(state['messages'])} {state.get('count', 0)}")

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Count."""
        self._hear("before agent", state)
        return {"count": state.get("count", 0) + 1}

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Count, and put a note into the conversation behind a result."""
        self._hear("before model", state)
        called = any(message.type == "tool" for message in state["messages"])
        note = {"messages": [HumanMessage(f"note of {self._name}")]} if called else {}
        return {"count": state.get("count", 0) + 1, **note}

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Pass it on."""
        self._hear("around model", request.state | {"messages": request.messages})
        return await handler(request)

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Count."""
        self._hear("after model", state)
        return {"count": state["count"] + 1}

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Pass it on."""
        self._heard.append(f"{self._name} around tool {request.tool_call['id']}")
        return await handler(request)


async def played(parts: list[Any], *, together: bool, replies: list[AIMessage]) -> dict[str, Any]:
    """The state in which an agent with such middleware ends."""
    agent = create_agent(
        Model(messages=iter(replies)), [double], middleware=[Stack(parts)] if together else parts, system_prompt="x"
    )
    state: dict[str, Any] = await agent.ainvoke({"messages": [HumanMessage("?")]})
    return state


def said(state: dict[str, Any]) -> list[tuple[str, str]]:
    """The conversation."""
    return [(message.type, message.text) for message in state["messages"]]


async def test_it_is_as_one_by_one() -> None:
    """Each hook runs in its turn and sees what those before it have made of the state."""
    one, all_of_them = [], []
    for together, heard in ((False, one), (True, all_of_them)):
        parts = [Watcher(each, heard) for each in "abc"]
        state = await played(parts, together=together, replies=[call(2), AIMessage("four")])
        assert state["count"] == 3 + 2 * 6
        notes = [("human", f"note of {each}") for each in "abc"]
        assert said(state) == [("human", "?"), ("ai", ""), ("tool", "4"), *notes, ("ai", "four")]
    assert all_of_them == one
    assert len(one) == 3 + 2 * 9 + 3


async def test_it_costs_the_nodes_of_one() -> None:
    """However many there are."""
    parts = [Watcher(each, []) for each in "abcd"]
    agent = create_agent(Model(messages=iter([])), [double], middleware=[Stack(parts)])
    assert set(agent.nodes) == {"__start__", "model", "tools", "Stack.before_agent", "Stack.after_model"}


class Back(AgentMiddleware[AgentState[Any], Any, Any]):
    """Sends the first answer back."""

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Once."""
        again = len(state["messages"]) == 2
        return {"messages": [HumanMessage("again")], "jump_to": "model"} if again else None


@pytest.mark.parametrize("together", [False, True])
async def test_who_jumps_is_the_last(together: bool) -> None:
    """What would look at the reply after it doesn't see one that is sent back."""
    heard: list[str] = []
    parts = [Watcher("a", heard), Back(), Watcher("b", heard)]
    state = await played(parts, together=together, replies=[AIMessage("one"), AIMessage("two")])
    assert [each for _, each in said(state)] == ["?", "one", "again", "two"]
    assert [each[:7] for each in heard if "after" in each] == ["b after", "b after", "a after"]


@pytest.mark.parametrize("together", [False, True])
async def test_langchains_own_counts_in_it(together: bool) -> None:
    """Its state has a field that is not the agent's, and must not outlive the question."""
    parts = [ModelCallLimitMiddleware(run_limit=3, exit_behavior="error")]
    with pytest.raises(ModelCallLimitExceededError):
        await played(parts, together=together, replies=[call(1, name=str(each)) for each in range(9)])
    state = await played(
        [ModelCallLimitMiddleware(run_limit=3)], together=together, replies=[call(1), call(2, name="b"), AIMessage("x")]
    )
    assert [each for _, each in said(state)] == ["?", "", "2", "", "4", "x"]


class Short(AgentMiddleware[AgentState[Any], Any, Any]):
    """Answers by itself, in one of the forms that LangChain allows."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self._given = given

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Without the model, or with a command beside its reply."""
        return self._given or ExtendedModelResponse(await handler(request), Command(update={"count": 10}))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("given", "count"), [(AIMessage("by itself"), 3), (None, 11)])
async def test_each_form_of_a_reply(together: bool, given: Any, count: int) -> None:
    """A middleware may return the bare message, or one with a command; those around it see a whole response."""
    parts = [Watcher("a", []), Short(given)]
    state = await played(parts, together=together, replies=[AIMessage("by itself")])
    assert said(state) == [("human", "?"), ("ai", "by itself")]
    assert state["count"] == count
