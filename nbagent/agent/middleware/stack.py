"""Several middleware as one, which costs a step of the agent what one does.

LangGraph makes a node of each hook of each middleware, with its own scheduling and routing, and LangSmith takes two
hops through a thread around each `wrap_*` that is a coroutine function, traced or not. With all that surrounds
nbagent's model that was more than half of a short step. Here the hooks of all of them run where those of one would:

    model     before_model of each, from the first to the last, then wrap_model_call around the call
    after     after_model of each, from the last to the first, until one jumps
    tools     wrap_tool_call around each call
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import new_class
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain_core.messages import AIMessage
from langgraph.graph.message import add_messages
from langgraph.types import Command

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langgraph.runtime import Runtime

Middleware = AgentMiddleware[Any, Any, Any]
Handler = Callable[[Any], Awaitable[Any]]


class Stack(AgentMiddleware[AgentState[Any], Any, Any]):
    """Middleware in the order in which `create_agent` would take them, the outermost first.

    Two things differ from giving them one by one: what `before_model` adds to the state is written with the reply, and
    so is lost if there is none; and it can't jump.

    Args:
        parts: The middleware; their tools are not taken over.
    """

    def __init__(self, parts: Sequence[Middleware]) -> None:
        super().__init__()
        self.state_schema = new_class("StackState", tuple(dict.fromkeys(part.state_schema for part in parts)))
        self._before_agent = [part.abefore_agent for part in parts if _has(part, "abefore_agent")]
        self._before = [part.abefore_model for part in parts if _has(part, "abefore_model")]
        self._after = [part.aafter_model for part in reversed(parts) if _has(part, "aafter_model")]
        self._around_model = [part.awrap_model_call for part in parts if _has(part, "awrap_model_call")]
        self._around_tool = [part.awrap_tool_call for part in parts if _has(part, "awrap_tool_call")]

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a question."""
        return await _through(self._before_agent, state, runtime)

    # The next two return coroutines, and are no coroutine functions: so LangSmith's hops are spared.

    def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Coroutine[Any, Any, ExtendedModelResponse[Any]]:
        """Prepare the model's call, and make it."""
        return self._call_model(request, handler)

    def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> Coroutine[Any, Any, ToolMessage | Command[Any]]:
        """Run a tool's call."""
        return self._call_tool(request, handler)

    async def _call_tool(self, request: ToolCallRequest, handler: Handler) -> ToolMessage | Command[Any]:
        result: ToolMessage | Command[Any] = await _around(self._around_tool, handler)(request)
        return result

    async def _call_model(self, request: ModelRequest[Any], handler: Handler) -> ExtendedModelResponse[Any]:
        before = await _through(self._before, request.state, request.runtime) or {}
        added = before.get("messages", [])
        if before:
            state: Any = _updated(request.state, before)
            request = request.override(messages=[*request.messages, *added], state=state)
        updates = [{name: value for name, value in before.items() if name != "messages"}]
        layers = [partial(_whole, layer, updates) for layer in self._around_model]
        response: ModelResponse[Any] = await _around(layers, handler)(request)
        response.result = [*added, *response.result]
        update = _joined(updates)
        return ExtendedModelResponse(response, Command(update=update) if update else None)

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Look at the reply before any of its calls runs."""
        return await _through(self._after, state, runtime)


def _has(part: Middleware, hook: str) -> bool:
    """Whether a middleware has made a hook its own."""
    return getattr(type(part), hook) is not getattr(AgentMiddleware, hook)


async def _through(
    hooks: Sequence[Callable[[Any, Any], Awaitable[Any]]], state: Mapping[str, Any], runtime: Any
) -> dict[str, Any] | None:
    """The updates of hooks as one; each sees those of the hooks before it, and one that jumps is the last."""
    updates = []
    for hook in hooks:
        if update := await hook(state, runtime):
            updates.append(update)
            if update.get("jump_to"):
                break
            state = _updated(state, update)
    return _joined(updates) or None


def _joined(updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join updates into one; without messages it has no such key, since adding none reads the whole conversation."""
    joined = {name: value for update in updates for name, value in update.items()}
    messages = [message for update in updates for message in update.get("messages", ())]
    return joined | {"messages": messages} if messages else joined


def _updated(state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """A state as LangGraph's reducers make it."""
    added = {"messages": add_messages(state["messages"], new)} if (new := update.get("messages")) else {}
    return {**state, **update, **added}


def _around(layers: Sequence[Callable[[Any, Handler], Awaitable[Any]]], handler: Handler) -> Handler:
    """A handler with layers around it, the first one outermost."""
    for layer in reversed(layers):
        handler = partial(_called, layer, handler)
    return handler


async def _called(layer: Callable[[Any, Handler], Awaitable[Any]], inner: Handler, request: Any) -> Any:
    return await layer(request, inner)


async def _whole(
    layer: Callable[[Any, Handler], Awaitable[Any]], updates: list[Any], request: Any, inner: Handler
) -> ModelResponse[Any]:
    """Call a layer around the model; what it returns in another form is made a whole response for the one around it."""
    result = await layer(request, inner)
    if isinstance(result, ExtendedModelResponse):
        updates += [result.command.update] if result.command and result.command.update else []
        result = result.model_response
    return ModelResponse(result=[result]) if isinstance(result, AIMessage) else result
