"""What nbagent's middleware has in common: its base, and the types of its handlers and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

Middleware = AgentMiddleware[AgentState[Any], Any, Any]
"""The base of nbagent's middleware, and the type of any."""
ModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
"""Calls the model, with all middleware that stands further inside."""
ToolOutcome = ToolMessage | Command[Any]
"""The result of a tool's call."""
ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
"""Runs a tool's call, with all middleware that stands further inside."""


def with_status(result: ToolOutcome) -> ToolOutcome:
    """Mark the message of a tool as an error if its artifact says so."""
    if isinstance(result, ToolMessage) and isinstance(result.artifact, dict) and result.artifact["status"] != "ok":
        result.status = "error"
    return result
