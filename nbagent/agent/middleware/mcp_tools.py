"""Tools of MCP servers for the model: chosen anew for each question, called outside of the sandbox.

A tool that fails is text that the model can act on, never the end of the turn.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from nbagent.agent.mcp_view import encodable, render, structured
from nbagent.agent.tools.any_tool import AnyTool
from nbagent.agent.turn import Turn, turn_of
from nbagent.agent.view import cut
from nbagent.core.errors import McpError
from nbagent.core.events import McpToolCalled, McpToolsSelected
from nbagent.mcp.catalog import DIVIDER, McpTool
from nbagent.mcp.select import Constraints, Selection, select
from nbagent.safety.actions import Action
from nbagent.safety.consent import Consent

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from nbagent.mcp.client import McpClient

OWN = frozenset(
    ("code:python", "code:shell", "data:analyse", "chart:plot", "math:compute", "file:read", "file:write", "file:list")
)
"""What the kernel does: no tool is missing for it, though one may be chosen."""
NO_EFFECT = "There is no such tool now: {name}. Its server failed, or no longer has it; go on without it."


class McpTools(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the model the MCP tools that the question needs, and those that it used before in the conversation.

    Args:
        client: The servers. Whoever made it closes it.
        images: Whether the model takes images.
        explicit: Capabilities that every question needs.
        constraints: What a tool must meet, see `select.Constraints`.
        consent: Asked before a call, if there is one.
    """

    def __init__(
        self,
        client: McpClient,
        *,
        images: bool = False,
        explicit: Iterable[str] = (),
        constraints: Constraints | Mapping[str, Any] | None = None,
        consent: Consent | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._images = images
        self._explicit = tuple(explicit)
        self._constraints = Constraints.of(constraints)
        self._consent = consent
        self._offered: dict[str, McpTool] = {}
        self._question = ""
        self._revision = -1
        self._told: McpToolsSelected | None = None

    @property
    def offered(self) -> Mapping[str, McpTool]:
        """What the model is offered now, by name; approvals show `McpTool.shown` of it."""
        return self._offered

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Turn]) -> None:
        """Choose for the question that was asked."""
        self._told = None
        self._question = _question(state["messages"])
        await self._choose(state["messages"], runtime.context)

    async def awrap_model_call(
        self, request: ModelRequest[Turn], handler: Callable[[ModelRequest[Turn]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add the chosen tools; choose again if a server has changed its own meanwhile."""
        if self._client.revision != self._revision:
            await self._choose(request.messages, request.runtime.context)
        tools = [self._tool(tool, request.runtime.context) for tool in self._offered.values()]
        return await handler(request.override(tools=[*request.tools, *tools]))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Run a call of a chosen tool; others are passed on."""
        name = str(request.tool_call["name"])
        tool = self._offered.get(name)
        if tool is None:
            if DIVIDER in name and request.tool is None:
                return ToolMessage(
                    NO_EFFECT.format(name=name), name=name, tool_call_id=request.tool_call["id"] or "", status="error"
                )
            return await handler(request)
        result = await handler(request.override(tool=self._tool(tool, turn_of(request))))
        if isinstance(result, ToolMessage) and isinstance(result.artifact, dict) and result.artifact["status"] != "ok":
            result.status = "error"
        return result

    async def _choose(self, messages: Sequence[AnyMessage], turn: Turn) -> None:
        self._revision = self._client.revision
        tools = await self._client.catalog()
        chosen = select(self._question, tools, self._explicit, self._constraints, provided=OWN)
        used = _used(messages)
        before = [tool for tool in tools if tool.name in used and tool not in chosen.selected_tools]
        self._offered = {tool.name: tool for tool in (*chosen.selected_tools, *before)}
        if tools:
            self._tell(chosen, turn)

    def _tell(self, chosen: Selection, turn: Turn) -> None:
        event = McpToolsSelected(
            tools=list(self._offered),
            confidence=chosen.confidence,
            missing=list(chosen.missing_capabilities),
            reasons=list(chosen.reasons),
        )
        if event != self._told:
            self._told = event
            turn.emit(event)

    def _tool(self, tool: McpTool, turn: Turn) -> BaseTool:
        async def call(arguments: dict[str, Any]) -> tuple[Any, Any]:
            return await self._call(tool, encodable(arguments), turn)

        words = tool.description or tool.tool
        return AnyTool(name=tool.name, description=words, args_schema=dict(tool.schema), call=call)

    async def _call(self, tool: McpTool, arguments: dict[str, Any], turn: Turn) -> tuple[Any, Any]:
        """Call the tool, if that is allowed; its content for the model, and the artifact."""
        artifact: dict[str, Any] = {"server": tool.server, "tool": tool.tool}
        content: Any
        seconds = 0.0
        if self._consent is not None:
            verdict = await self._consent.ask(_action(tool, arguments, turn=turn.number))
            wanted = _arguments(verdict.code) if verdict.decision == "edit" else arguments
            if not verdict.granted or wanted is None:
                reason = verdict.reason if wanted is not None else "The edited arguments are no JSON object."
                return f"Not called: this was not approved. {reason}".strip(), {**artifact, "status": "failed"}
            arguments = wanted
            if tool.changed and verdict.by == "person":
                self._client.accept(tool)
        try:
            called = await self._client.call(tool, arguments)
        except McpError as error:
            content, artifact["status"] = str(error), "failed"
        else:
            content, seconds = render(called.result, asked=called.asked, images=self._images), called.seconds
            artifact["status"] = "error" if called.result.is_error else "ok"
            artifact["structured"] = structured(called.result)
        text = content if isinstance(content, str) else content[0]["text"]
        turn.emit(
            McpToolCalled(
                server=tool.server,
                tool=tool.tool,
                arguments=arguments,
                status=artifact["status"],
                text=cut(text)[0],
                seconds=round(seconds, 3),
            )
        )
        return content, artifact


def _action(tool: McpTool, arguments: dict[str, Any], *, turn: int) -> Action:
    """What a call does, as a person is asked about it; its arguments may be edited.

    A tool that says something else of itself than when it was accepted is asked about in any mode: what was approved is
    not what it is now.
    """
    shown = json.dumps(arguments, ensure_ascii=False, indent=1)
    return Action(
        kind="mcp", tool=tool.name, what=tool.name, code=shown, note=tool.shown, turn=turn, anyway=tool.changed
    )


def _arguments(edited: str) -> dict[str, Any] | None:
    """The arguments that a person wrote, if they are any."""
    try:
        given = json.loads(edited)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def _question(messages: Sequence[AnyMessage]) -> str:
    """The last words of the person."""
    return next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")


def _used(messages: Sequence[AnyMessage]) -> set[str]:
    """Names of the tools that the model has called in this conversation."""
    return {str(call["name"]) for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
