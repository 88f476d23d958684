"""The client of all MCP servers of a person: lists their tools, and calls them."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import McpError, UsageError
from nbagent.core.text import legible
from nbagent.mcp.catalog import McpTool, UnusableError, describe
from nbagent.mcp.seen import AcceptedTools

if TYPE_CHECKING:
    from nbagent.core.events import Event
    from nbagent.mcp.server_connection import ServerConnection
    from nbagent.mcp.servers import ServerEntry

START_WAIT_SECONDS = 10.0
"""Seconds that a question waits for servers to start; the tools of a slower one are offered later."""
SMOOTHING = 0.3
"""Weight of the last call in the running mean of a tool's times."""


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """The result of a call.

    Attributes:
        result: The SDK's `CallToolResult`.
        refused: The methods of the server's requests that were refused meanwhile.
        seconds: The time that the call took.
    """

    result: Any
    refused: Sequence[str] = ()
    seconds: float = 0.0


class McpClient:
    """Servers are started when the first question needs their tools, and end with `close`.

    Args:
        servers: The servers that `servers.load` read.
        notify: Called with events, from the event loop.
        seen: The file that keeps digests of tools, to notice changes between runs; None keeps them in memory.

    Raises:
        UsageError: The SDK is not installed.
        StoreError: `seen` can't be read.
    """

    def __init__(
        self, servers: Sequence[ServerEntry], *, notify: Callable[[Event], object], seen: Path | None = None
    ) -> None:
        if servers and importlib.util.find_spec("mcp") is None:
            raise UsageError(
                "MCP servers need a package that is not installed.", mend="Run: pip install 'nbagent[mcp]'"
            )
        self._servers = list(servers)
        self._notify = notify
        self._seen = AcceptedTools(seen)
        self._connections: dict[str, ServerConnection] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._tools: dict[str, list[McpTool]] = {}
        self._unusable: dict[str, dict[str, str]] = {}
        self._latency: dict[tuple[str, str], float] = {}
        self._arrived = 0
        self._closed = False

    @property
    def revision(self) -> int:
        """A number that grows when the tools may have changed since `catalog` was called."""
        return self._arrived + sum(connection.revision for connection in self._connections.values())

    async def catalog(self) -> list[McpTool]:
        """The tools that can be called now, in the order of the servers and their lists.

        If a server fails, that is an event, and its tools are missing.

        Raises:
            StoreError: The digests of the tools can't be written.
        """
        if self._closed or not self._servers:
            return []
        await self._connect()
        waited = []
        for name, connection in self._connections.items():
            if name not in self._listing:
                self._listing[name] = asyncio.create_task(self._list(connection), name=f"mcp tools {name}")
            waited.append(self._listing[name])
        done, _ = await asyncio.wait(waited, timeout=START_WAIT_SECONDS)
        for task in done:
            if not task.cancelled():  # as `close` does
                task.result()
        return self._with_figures()

    async def call(self, tool: McpTool, arguments: dict[str, Any]) -> CallOutcome:
        """Call a tool.

        Raises:
            McpError: There is no result. The message is fit for the model.
        """
        started = time.monotonic()
        try:
            result, refused = await self._connections[tool.server].call(tool.tool, arguments)
        finally:
            self._measure(tool, time.monotonic() - started)
        return CallOutcome(result=result, refused=refused, seconds=time.monotonic() - started)

    def accept(self, tool: McpTool) -> None:
        """Note that a person has accepted a tool as it is now, so that it no longer counts as changed.

        Raises:
            StoreError: That can't be written.
        """
        self._seen.accept(tool.server, tool.tool, tool.digest)

    async def close(self) -> None:
        """End all connections and programs."""
        self._closed = True
        for task in self._listing.values():
            task.cancel()
        await asyncio.gather(*self._listing.values(), return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    async def _connect(self) -> None:
        """Make the connections; each connects when it is first used."""
        if not self._connections:
            # In a thread: it imports the SDK, which takes a second.
            module = await asyncio.to_thread(importlib.import_module, "nbagent.mcp.server_connection")
            for each in self._servers:
                self._connections.setdefault(each.name, module.ServerConnection(each, notify=self._notify))

    async def _list(self, connection: ServerConnection) -> None:
        """Ask one server for its tools, and note which have changed."""
        name, late = connection.server.name, time.monotonic() + START_WAIT_SECONDS
        try:
            listed = await connection.tools()
            found, unusable = _describe(connection.server, listed)
            self._compare(name, found, unusable)
            self._tools[name] = found
        except McpError:
            self._tools.pop(name, None)  # the connection has emitted the failure
        finally:
            del self._listing[name]
            if time.monotonic() > late:
                self._arrived += 1

    def _compare(self, server: str, found: list[McpTool], unusable: dict[str, str]) -> None:
        from nbagent.core.events import McpToolsChanged

        changes = self._seen.look(server, {tool.tool: tool.digest for tool in found})
        if changes or unusable != self._unusable.get(server, {}):
            self._notify(
                McpToolsChanged(
                    server=server,
                    changed=[legible(tool) for tool in changes.changed],
                    added=[legible(tool) for tool in changes.added],
                    removed=[legible(tool) for tool in changes.removed],
                    unusable=unusable,
                )
            )
        self._unusable[server] = unusable

    def _with_figures(self) -> list[McpTool]:
        return [
            replace(
                tool,
                changed=self._seen.is_changed(tool.server, tool.tool, tool.digest),
                latency_ms=self._latency.get((tool.server, tool.tool)),
            )
            for server in self._servers
            for tool in self._tools.get(server.name, [])
        ]

    def _measure(self, tool: McpTool, seconds: float) -> None:
        key, taken = (tool.server, tool.tool), seconds * 1000
        before = self._latency.get(key, taken)
        self._latency[key] = before + SMOOTHING * (taken - before)


def _describe(server: ServerEntry, listed: Sequence[Any]) -> tuple[list[McpTool], dict[str, str]]:
    """The tools that can be offered to a model, and the names of others with the reason."""
    found: dict[str, McpTool] = {}
    unusable: dict[str, str] = {}
    for each in listed:
        try:
            tool = describe(server.name, each, capabilities=server.capabilities_of(each.name))
            if tool.name in found:
                raise UnusableError("another one has the same name")
            found[tool.name] = tool
        except UnusableError as error:
            unusable[legible(each.name)[:100]] = str(error)
    return list(found.values()), unusable
