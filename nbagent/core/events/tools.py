"""Events of MCP servers and their tools, and of tools that the forge makes."""

from __future__ import annotations

from typing import Any, Literal

from nbagent.core.events.base import Fact
from nbagent.core.events.packages import Package


class McpServerChanged(Fact, frozen=True, kw_only=True):
    """An MCP server was started or reached, failed, or was closed."""

    server: str
    """The person's name for it."""
    state: Literal["ready", "failed", "closed"]
    reason: str = ""
    """Why it failed, as a sentence."""
    version: str = ""
    """The server's own name and version."""
    protocol: str = ""
    seconds: float = 0.0
    """Seconds that the start took."""


class McpToolsChanged(Fact, frozen=True, kw_only=True):
    """A server's tools differ from those that were first seen, or last accepted.

    That may be an update, or an attempt to make the model do something else. Emitted when the server is started.
    """

    server: str
    changed: list[str] = []
    added: list[str] = []
    removed: list[str] = []
    unusable: dict[str, str] = {}
    """Tools that can't be offered to a model, with the reason."""


class McpToolsSelected(Fact, frozen=True, kw_only=True):
    """MCP tools were selected for a question; the model is offered these. The agent emits it."""

    tools: list[str]
    confidence: float
    """From 0 to 1."""
    missing: list[str] = []
    """Needed capabilities that no tool has."""
    reasons: list[str] = []


class McpRequestDeclined(Fact, frozen=True, kw_only=True):
    """A request of a server was refused: for a reply of the model, an answer of the person, or the person's folders."""

    server: str
    method: str
    """The protocol's method, such as `sampling/createMessage`."""


class McpToolCalled(Fact, frozen=True, kw_only=True):
    """The model called a tool of an MCP server, which runs outside of the sandbox. The agent emits it afterwards."""

    server: str
    tool: str
    arguments: dict[str, Any]
    status: Literal["ok", "error", "failed"]
    """`error`: the tool answered with an error. `failed`: it gave no answer."""
    text: str
    seconds: float


class ToolStageEntered(Fact, frozen=True, kw_only=True):
    """A tool that the forge makes has entered a stage, see `nbagent.forge`. The forge emits it."""

    tool: str
    version: int
    stage: Literal["dormant", "creating", "installing", "testing", "active", "cleanup"]
    """`active` tools are in the library; after `cleanup` the library is as before."""
    reason: str = ""
    """Why it failed, or who removed it, as a sentence."""
    seconds: float = 0.0
    """Seconds since its making began."""
    code: str = ""
    """With `creating`, the code that will run in a sandbox of its own."""
    tests: str = ""
    dependencies: list[str] = []
    packages: list[Package] = []
    """With `testing`, the packages that were installed for it."""
    sha256: str = ""
    """With `active`, the hash of the file in the library."""


class ToolRefused(Fact, frozen=True, kw_only=True):
    """A tool of the library, or the whole library, was refused because its file was changed. The agent emits it."""

    tool: str
    """Empty for the whole library."""
    reason: str
