"""Middleware that offers the model tools of MCP servers: chosen for each question, and called outside of the sandbox.

A tool that fails gives text that the model can act on, and never ends the turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain.agents import AgentState
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from nbagent.agent.cell_view import cut_middle
from nbagent.agent.mcp_view import encodable, render, structured
from nbagent.agent.middleware.types import Middleware, ModelHandler, ToolHandler, ToolOutcome, with_status
from nbagent.agent.tools.any_tool import AnyTool
from nbagent.agent.turn import Turn, turn_of
from nbagent.core.errors import McpError
from nbagent.core.events import McpToolCalled, McpToolsSelected
from nbagent.mcp.catalog import DIVIDER, McpTool
from nbagent.mcp.constraints import Constraints
from nbagent.mcp.select import DynamicToolSelector, Selection
from nbagent.safety.actions import Action
from nbagent.safety.approvals import Consent

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ToolCallRequest
    from langgraph.runtime import Runtime

    from nbagent.mcp.client import McpClient

OWN = frozenset(
    ("code:python", "code:shell", "data:analyse", "chart:plot", "math:compute", "file:read", "file:write", "file:list")
)
"""The capabilities of the kernel: they are never missing, though a tool with them may be chosen."""
NO_EFFECT = "There is no such tool now: {name}. Its server failed, or no longer has it; go on without it."


class McpTools(Middleware):
    """Offers the model the MCP tools that the question needs, and those that it has called in this conversation.

    Args:
        client: The servers. Whoever made it closes it.
        images: Whether the model takes images.
        constraints: What each tool must meet.
        consent: Asked before a call; without it, no call is asked about.
    """

    def __init__(
        self,
        client: McpClient,
        *,
        images: bool = False,
        constraints: Constraints | Mapping[str, Any] | None = None,
        consent: Consent | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._selector = DynamicToolSelector(client.catalog)
        self._images = images
        self._constraints = Constraints.of(constraints)
        self._consent = consent
        self._offered: dict[str, McpTool] = {}
        self._question = ""
        self._revision = -1
        self._last: McpToolsSelected | None = None

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Turn]) -> None:
        """Choose tools for the question."""
        self._last = None
        self._question = _question(state["messages"])
        await self._choose(state["messages"], runtime.context)

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Add the chosen tools; choose again first if a server's tools have changed."""
        if self._client.revision != self._revision:
            await self._choose(request.messages, request.runtime.context)
        tools = [self._tool(tool, request.runtime.context) for tool in self._offered.values()]
        return await handler(request.override(tools=[*request.tools, *tools]))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolOutcome:
        """Run a call of a chosen tool; pass others on."""
        name = str(request.tool_call["name"])
        tool = self._offered.get(name)
        if tool is None:
            if DIVIDER in name and request.tool is None:
                return ToolMessage(
                    NO_EFFECT.format(name=name), name=name, tool_call_id=request.tool_call["id"] or "", status="error"
                )
            return await handler(request)
        return with_status(await handler(request.override(tool=self._tool(tool, turn_of(request)))))

    async def _choose(self, messages: Sequence[AnyMessage], turn: Turn) -> None:
        self._revision = self._client.revision
        tools = await self._client.catalog()
        chosen = await self._selector.select_tools_for_task(self._question, constraints=self._constraints, provided=OWN)
        used = _tools_called(messages)
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
        if event != self._last:
            self._last = event
            turn.emit(event)

    def _tool(self, tool: McpTool, turn: Turn) -> BaseTool:
        async def call(arguments: dict[str, Any]) -> tuple[Any, Any]:
            return await self._call(tool, encodable(arguments), turn)

        words = tool.description or tool.tool
        return AnyTool(name=tool.name, description=words, args_schema=dict(tool.schema), call=call)

    async def _call(self, tool: McpTool, arguments: dict[str, Any], turn: Turn) -> tuple[Any, Any]:
        """Call the tool, if that is approved; returns the content for the model, and the artifact."""
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
            outcome = await self._client.call(tool, arguments)
        except McpError as error:
            content, artifact["status"] = str(error), "failed"
        else:
            content, seconds = render(outcome.result, refused=outcome.refused, images=self._images), outcome.seconds
            artifact["status"] = "error" if outcome.result.is_error else "ok"
            artifact["structured"] = structured(outcome.result)
        text = content if isinstance(content, str) else content[0]["text"]
        turn.emit(
            McpToolCalled(
                server=tool.server,
                tool=tool.tool,
                arguments=arguments,
                status=artifact["status"],
                text=cut_middle(text)[0],
                seconds=round(seconds, 3),
            )
        )
        return content, artifact


def _action(tool: McpTool, arguments: dict[str, Any], *, turn: int) -> Action:
    """What a call does, as a person is asked about it; they may edit the arguments.

    In any mode, a person is asked about a tool that changed since it was accepted.
    """
    shown = json.dumps(arguments, ensure_ascii=False, indent=1)
    return Action(
        kind="mcp", tool=tool.name, what=tool.name, code=shown, note=tool.shown, turn=turn, anyway=tool.changed
    )


def _arguments(edited: str) -> dict[str, Any] | None:
    """The arguments that a person edited; None if they are no JSON object."""
    try:
        given = json.loads(edited)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def _question(messages: Sequence[AnyMessage]) -> str:
    """The last words of the person."""
    return next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")


def _tools_called(messages: Sequence[AnyMessage]) -> set[str]:
    """The names of the tools that the model has called in this conversation."""
    return {str(call["name"]) for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
