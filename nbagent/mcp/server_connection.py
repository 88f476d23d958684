"""The connection to one server: made when it is first needed, watched, and made anew when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from nbagent.core.errors import McpError
from nbagent.core.events import Event, McpRequestDeclined, McpServerChanged
from nbagent.core.text import printable
from nbagent.mcp.link import Link, message_of
from nbagent.mcp.meter import ASKS

if TYPE_CHECKING:
    from nbagent.mcp.servers import ServerEntry

CALL_SECONDS = 60.0
"""Seconds that a call may take by default."""
START_SECONDS = 30.0
"""Seconds from the start of a program to its list of tools; `npx` and `uvx` may have to fetch it first."""
LIST_SECONDS = 15.0
RETRY_SECONDS = 60.0
"""Seconds for which a server is left alone after two failures in a row."""
HUNG = 2
"""Calls in a row without an answer after which a server is ended."""
MAX_TOOLS = 500
PAGES = 50
ROUNDS = 10
"""How often a server may ask for a repetition before it answers a call."""

_State = Literal["idle", "ready", "failed", "closed"]
_Result = TypeVar("_Result")

_ANSWER: TypeAdapter[Any] = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)


class ServerConnection:
    """The connection to one server.

    Attributes:
        revision: A number that grows when the server says that its tools changed.
    """

    def __init__(self, server: ServerEntry, *, notify: Callable[[Event], object]) -> None:
        self.server = server
        self.revision = 0
        self._notify = notify
        self._seconds = server.seconds or CALL_SECONDS
        self._start_seconds = server.start_seconds or START_SECONDS
        self._state: _State = "idle"
        self._reason = ""  # why the server failed, as a sentence
        self._link: Link | None = None
        self._starting = asyncio.Lock()
        self._failures = 0
        self._timeouts = 0
        self._retry_at = 0.0
        self._declined: set[str] = set()

    async def tools(self) -> list[mcp_types.Tool]:
        """The first `MAX_TOOLS` tools that the server lists now."""

        async def ask(link: Link) -> list[mcp_types.Tool]:
            client = link.client
            found: list[mcp_types.Tool] = []
            cursor = None
            for _ in range(PAGES if client.server_capabilities.tools else 0):
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                found += page.tools
                cursor = page.next_cursor
                if not cursor or len(found) >= MAX_TOOLS:
                    break
            return found[:MAX_TOOLS]

        found = await self._ask(ask, what="list its tools", seconds=LIST_SECONDS)
        # That a server is well is proved by a call only: some list their tools, and die or hang when one is called.
        if time.monotonic() > self._retry_at:
            self._failures = 0
        return found

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[mcp_types.CallToolResult, list[str]]:
        """Call a tool. The call is not repeated if the connection is lost, since it may have taken effect.

        Returns:
            The result, not checked against the tool's schema, and the methods of refused requests of the server.

        Raises:
            McpError: There is no result; the message says why.
        """
        refused: set[str] = set()

        async def ask(link: Link) -> mcp_types.CallToolResult:
            link.refused = refused
            return await self._call(link, tool, arguments)

        result = await self._ask(ask, what=f"answer {tool}", seconds=self._seconds)
        self._failures = self._timeouts = 0
        return result, sorted(refused)

    async def close(self) -> None:
        """End the connection, and the program."""
        was_ready = self._state == "ready"
        self._state = "closed"
        async with self._starting:
            if self._link is not None:
                await self._drop(self._link)
        if was_ready:
            self._notify(McpServerChanged(server=self.server.name, state="closed"))

    async def _ask(self, ask: Callable[[Link], Awaitable[_Result]], *, what: str, seconds: float) -> _Result:
        """Send a request, connecting first if need be; again if the server has forgotten its session."""
        for again in (True, False):
            link = await self._connect()
            try:
                with anyio.fail_after(seconds):
                    return await ask(link)
            except TimeoutError:
                raise await self._time_out(link, what, seconds) from None
            except MCPError as error:
                if again and error.error.message == "Session terminated":  # refused, so it had no effect
                    await self._drop(link)
                    continue
                raise await self._error_for(link, error) from error
            except (ValidationError, RuntimeError, ValueError, anyio.ClosedResourceError) as error:
                raise await self._error_for(link, error) from error
        raise McpError(f"The MCP server {self.server.name} forgets its session at once.")

    async def _call(self, link: Link, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        # Not `client.call_tool`: it checks the result against a schema of the server's, whose regular expressions could
        # hold this process up for ever.
        state = None
        for _ in range(ROUNDS):
            params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments, request_state=state)
            answer = await link.client.session.send_request(mcp_types.CallToolRequest(params=params), _ANSWER)
            if isinstance(answer, mcp_types.CallToolResult):
                return answer
            if methods := {request.method for request in (answer.input_requests or {}).values()}:
                for method in methods:
                    link.decline(method)
                wanted = " and ".join(ASKS.get(method, method) for method in sorted(methods))
                raise McpError(f"The tool {tool} of {self.server.name} asks for {wanted}, which no server is given.")
            state = answer.request_state
            await anyio.sleep(0.1)
        raise McpError(f"The tool {tool} of {self.server.name} has no result after {ROUNDS} rounds.")

    async def _connect(self) -> Link:
        async with self._starting:
            if self._state == "closed":
                raise McpError(f"The MCP server {self.server.name} was closed.")
            if self._link is not None:
                if not self._link.ended.is_set():
                    return self._link
                await self._discard(self._link)
            if (wait := self._retry_at - time.monotonic()) > 0 and self._failures > 1:
                raise McpError(f"{self._reason} It is tried again in {wait:.0f} s.")
            return await self._start()

    async def _start(self) -> Link:
        link, started = (
            Link(self.server, on_refusal=self._report_refusal, on_change=self._note_change),
            time.monotonic(),
        )
        if not await link.start(self._start_seconds):
            raise self._fail(link)
        self._link = link
        info = link.client.server_info
        version = printable(f"{info.name} {info.version}")[:100] if info else ""
        self._state = "ready"
        self._notify(
            McpServerChanged(
                server=self.server.name,
                state="ready",
                version=version,
                protocol=str(link.client.protocol_version),
                seconds=round(time.monotonic() - started, 3),
            )
        )
        return link

    def _note_change(self) -> None:
        self.revision += 1

    def _report_refusal(self, method: str) -> None:
        """Emit that a request of the server was refused, once for each method."""
        if method not in self._declined:
            self._declined.add(method)
            self._notify(McpRequestDeclined(server=self.server.name, method=method))

    async def _time_out(self, link: Link, what: str, seconds: float) -> McpError:
        self._timeouts += 1
        message = f"The MCP server {self.server.name} didn't {what} within {seconds:g} s."
        if self._timeouts < HUNG:
            return McpError(message, mend="Whether it took effect is not known.")
        link.meter.cut(f"didn't answer {HUNG} times in a row")
        self._timeouts = 0
        return await self._discard(link)

    async def _error_for(self, link: Link, error: Exception) -> McpError:
        """The error to raise for an error of the protocol, which may mean that the connection has ended."""
        closed = isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED
        if closed or link.meter.why:
            # The SDK notices the end before the task that holds the connection.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await link.ended.wait()
        if link.ended.is_set() or link.meter.why:
            lost = await self._discard(link)
            return McpError(lost.message, mend="Whether the call took effect is not known.")
        if isinstance(error, ValidationError):
            return McpError(f"The MCP server {self.server.name} {message_of(error)}.")
        status = f" ({link.meter.status})" if link.meter.status else ""
        link.meter.note("")
        return McpError(f"The MCP server {self.server.name} refused: {message_of(error)}{status}.")

    async def _discard(self, link: Link) -> McpError:
        """Clean up after a connection that ended; returns the error to raise."""
        if self._link is not link:
            return McpError(f"The MCP server {self.server.name} was lost.")
        await self._drop(link)
        return self._fail(link)

    async def _drop(self, link: Link) -> None:
        """Close a connection; returns when its program has ended."""
        if self._link is link:
            self._link = None
        await link.end()

    def _fail(self, link: Link) -> McpError:
        """Count a failure and emit it; returns the error to raise."""
        self._failures += 1
        self._retry_at = time.monotonic() + RETRY_SECONDS
        error = link.error()
        if self._state != "closed":
            self._state, self._reason = "failed", error.message
            self._notify(McpServerChanged(server=self.server.name, state="failed", reason=error.message))
        return error
