"""Joins several middleware into one, so that a step of the agent costs no more than with one.

LangGraph makes a node of each hook of each middleware, with its own scheduling and routing, and LangSmith takes two
hops through a thread around each `wrap_*` that is a coroutine function, traced or not. For nbagent's middleware that
was more than half of a short step. Here, the hooks of all run in place of the hooks of one:

    model     before_model of each, from the first to the last, then wrap_model_call around the call
    after     after_model of each, from the last to the first, until one jumps
    tools     wrap_tool_call around each call
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import new_class
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command

from nbagent.agent.middleware.types import Middleware, ModelHandler, ToolHandler, ToolOutcome

_Hook = Callable[[Any, Any], Awaitable[Any]]
_Handler = Callable[[Any], Awaitable[Any]]
_Layer = Callable[[Any, _Handler], Awaitable[Any]]


class Stack(Middleware):
    """Middleware in the order in which `create_agent` would take them, the outermost first.

    Two things differ from giving them one by one: `before_model` can't jump, and what it adds to the state is written
    together with the reply, so it is lost if there is no reply.
    """

    def __init__(self, parts: Sequence[AgentMiddleware[Any, Any, Any]]) -> None:
        super().__init__()
        self.state_schema = new_class("StackState", tuple(dict.fromkeys(part.state_schema for part in parts)))
        self._before_agent = [part.abefore_agent for part in parts if _has(part, "abefore_agent")]
        self._before = [part.abefore_model for part in parts if _has(part, "abefore_model")]
        self._after = [part.aafter_model for part in reversed(parts) if _has(part, "aafter_model")]
        self._around_model = [part.awrap_model_call for part in parts if _has(part, "awrap_model_call")]
        self._around_tool = [part.awrap_tool_call for part in parts if _has(part, "awrap_tool_call")]

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a question."""
        return await _run(self._before_agent, state, runtime)

    # These two return coroutines and are no coroutine functions, which spares LangSmith's hops.

    def awrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Coroutine[Any, Any, ExtendedModelResponse[Any]]:
        """Prepare the model's call, and make it."""
        return self._call_model(request, handler)

    def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> Coroutine[Any, Any, ToolOutcome]:
        """Run a tool's call."""
        return self._call_tool(request, handler)

    async def _call_tool(self, request: ToolCallRequest, handler: ToolHandler) -> ToolOutcome:
        result: ToolOutcome = await _around(self._around_tool, handler)(request)
        return result

    async def _call_model(self, request: ModelRequest[Any], handler: ModelHandler) -> ExtendedModelResponse[Any]:
        before = await _run(self._before, request.state, request.runtime) or {}
        added = before.get("messages", [])
        if before:
            state: Any = _update(request.state, before)
            request = request.override(messages=[*request.messages, *added], state=state)
        updates = [{name: value for name, value in before.items() if name != "messages"}]
        layers = [partial(_as_response, layer, updates) for layer in self._around_model]
        response: ModelResponse[Any] = await _around(layers, handler)(request)
        response.result = [*added, *response.result]
        update = _join(updates)
        return ExtendedModelResponse(response, Command(update=update) if update else None)

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Look at the reply before any of its calls runs."""
        return await _run(self._after, state, runtime)


def _has(part: AgentMiddleware[Any, Any, Any], hook: str) -> bool:
    """Whether a middleware defines a hook."""
    return getattr(type(part), hook) is not getattr(AgentMiddleware, hook)


async def _run(hooks: Sequence[_Hook], state: Mapping[str, Any], runtime: Any) -> dict[str, Any] | None:
    """Run hooks, each with the updates of those before it, until one jumps; returns the updates as one."""
    updates = []
    for hook in hooks:
        if update := await hook(state, runtime):
            updates.append(update)
            if update.get("jump_to"):
                break
            state = _update(state, update)
    return _join(updates) or None


def _join(updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join updates into one. It has a key for messages only if there are any: to add none takes a long time."""
    joined = {name: value for update in updates for name, value in update.items()}
    messages = [message for update in updates for message in update.get("messages", ())]
    return joined | {"messages": messages} if messages else joined


def _update(state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """A state with an update, as LangGraph's reducers would join them."""
    added = {"messages": add_messages(state["messages"], new)} if (new := update.get("messages")) else {}
    return {**state, **update, **added}


def _around(layers: Sequence[_Layer], handler: _Handler) -> _Handler:
    """A handler with layers around it, the first one outermost."""
    for layer in reversed(layers):
        handler = partial(_call, layer, handler)
    return handler


async def _call(layer: _Layer, inner: _Handler, request: Any) -> Any:
    return await layer(request, inner)


async def _as_response(layer: _Layer, updates: list[Any], request: Any, inner: _Handler) -> ModelResponse[Any]:
    """Call a layer around the model; what it returns becomes a response, and its updates of the state are collected."""
    result = await layer(request, inner)
    if isinstance(result, ExtendedModelResponse):
        updates += [result.command.update] if result.command and result.command.update else []
        result = result.model_response
    return ModelResponse(result=[result]) if isinstance(result, AIMessage) else result
