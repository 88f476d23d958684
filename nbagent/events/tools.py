"""Tools beside the kernel's own: those of MCP servers, and those that are made."""

from __future__ import annotations

from typing import Any, Literal

from nbagent.events.base import Fact
from nbagent.events.packages import Package


class McpServerChanged(Fact, frozen=True, kw_only=True):
    """An MCP server was started or reached, failed, or was closed."""

    server: str
    """The person's name for it."""
    state: Literal["ready", "failed", "closed"]
    reason: str = ""
    """Why it failed, as a sentence."""
    version: str = ""
    """The name and version that it gives itself."""
    protocol: str = ""
    seconds: float = 0.0
    """That the start took."""


class McpToolsChanged(Fact, frozen=True, kw_only=True):
    """A server's tools are not what they were when they were first seen, or last accepted.

    A tool whose description or schema changed may be an update, or an attempt to make the model do something else.
    """

    server: str
    changed: list[str] = []
    added: list[str] = []
    removed: list[str] = []
    unusable: dict[str, str] = {}
    """Tools that are offered to no model, with the reason."""


class McpToolsSelected(Fact, frozen=True, kw_only=True):
    """Which MCP tools the model is offered for a question, and why."""

    tools: list[str]
    confidence: float
    """From 0 to 1."""
    missing: list[str] = []
    """Capabilities that the question needs and no tool has."""
    reasons: list[str] = []


class McpRequestDeclined(Fact, frozen=True, kw_only=True):
    """A server asked for what no server is given: a reply of the model, an answer of the person, their folders."""

    server: str
    method: str
    """The protocol's name of it, for example `sampling/createMessage`."""


class McpToolCalled(Fact, frozen=True, kw_only=True):
    """The model called a tool of an MCP server, outside of the sandbox, and this is what it was told."""

    server: str
    tool: str
    arguments: dict[str, Any]
    status: Literal["ok", "error", "failed"]
    """`error` is the tool's own answer; with `failed` there was none."""
    text: str
    seconds: float


class ToolStage(Fact, frozen=True, kw_only=True):
    """The tool forge has taken a tool to the next stage of its life, see `nbagent.forge`."""

    tool: str
    version: int
    stage: Literal["dormant", "creating", "installing", "testing", "active", "cleanup"]
    """`active` tools are in the library; after `cleanup` nothing is left but what was there before."""
    reason: str = ""
    """Why it failed, or who removed it, as a sentence."""
    seconds: float = 0.0
    """Since its making began."""
    code: str = ""
    """With `creating`, what is about to run in a sandbox of its own."""
    tests: str = ""
    dependencies: list[str] = []
    packages: list[Package] = []
    """With `testing`, what was installed for it in there."""
    sha256: str = ""
    """With `active`, of the file in the library."""


class ToolRefused(Fact, frozen=True, kw_only=True):
    """A tool of the library, or all of it, is not used: it is not what was put there."""

    tool: str
    """Empty for the whole library."""
    reason: str
