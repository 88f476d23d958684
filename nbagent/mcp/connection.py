"""One server: connected when it is first needed, watched, and connected again once when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
import mcp_types
from mcp.client.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from nbagent import __version__
from nbagent.errors import McpError
from nbagent.events import Event, McpRequestDeclined, McpServerChanged
from nbagent.mcp.bounds import ASKS, Meter, Watched
from nbagent.mcp.http import remote
from nbagent.mcp.stdio import program

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from nbagent.mcp.servers import Server

SECONDS = 60.0
"""Of one call."""
START_SECONDS = 30.0
"""From the start of a program to its list of tools; `npx` and `uvx` may have to fetch it first."""
LIST_SECONDS = 15.0
RETRY_SECONDS = 60.0
"""After two failures in a row a server is left alone for so long."""
HUNG = 2
"""Calls in a row without an answer, after which a server counts as hung and is ended."""
MAX_TOOLS = 500
PAGES = 50
ROUNDS = 10
"""How often a server may say "ask again" before it answers a call."""

State = Literal["idle", "ready", "failed", "closed"]
Result = TypeVar("Result")

_ANSWER: TypeAdapter[Any] = TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)

# The SDK logs what servers do wrong with tracebacks. Here it becomes an event; a program's own handlers still get it.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True, kw_only=True)
class Health:
    """How a server is.

    Attributes:
        server: The person's name for it.
        state: `idle` was not needed yet.
        reason: Why it failed, as a sentence.
        version: What it calls itself.
    """

    server: str
    state: State
    reason: str = ""
    version: str = ""


@dataclass(kw_only=True)
class _Link:
    """One connection, from its start to its end."""

    client: Any = None
    meter: Meter = field(default_factory=Meter)
    tail: list[bytes] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asked: set[str] = field(default_factory=set)
    error: BaseException | None = None
    task: asyncio.Task[None] | None = None

    def why(self) -> str:
        """Why it ended, to follow the server's name in a sentence."""
        reason = self.meter.why or (f"answered with {self.meter.status}" if self.meter.status else "")
        reason = reason or (_words(self.error) if self.error else "closed the connection")
        last = self.tail[0].decode("utf-8", "replace").strip().splitlines()[-3:] if self.tail else []
        said = " / ".join(" ".join(line.split()) for line in last if line.strip())
        return f"{reason}; it last said: {_printable(said)[:400]}" if said else reason


class Connection:
    """One server.

    Args:
        server: Its entry.
        notify: Called with events.
        seconds: How long a call may take, if the entry doesn't say.
        start_seconds: How long the start may take, if the entry doesn't say.

    Attributes:
        server: Its entry.
        revision: Grows when the server says that its tools changed.
    """

    def __init__(
        self,
        server: Server,
        *,
        notify: Callable[[Event], None],
        seconds: float = SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.server = server
        self.revision = 0
        self._notify = notify
        self._seconds = server.seconds or seconds
        self._start_seconds = server.start_seconds or start_seconds
        self._health = Health(server=server.name, state="idle")
        self._link: _Link | None = None
        self._starting = asyncio.Lock()
        self._failures = 0
        self._timeouts = 0
        self._retry_at = 0.0
        self._declined: set[str] = set()

    @property
    def health(self) -> Health:
        """How it is now."""
        if self._health.state == "ready" and (self._link is None or self._link.ended.is_set()):
            return Health(server=self.server.name, state="failed", reason="The connection ended.")
        return self._health

    async def tools(self) -> list[mcp_types.Tool]:
        """Its tools, as it lists them now; the first `MAX_TOOLS` of them.

        Raises:
            McpError: It can't be reached, or doesn't answer.
        """

        async def ask(link: _Link) -> list[mcp_types.Tool]:
            client: Client = link.client
            found: list[mcp_types.Tool] = []
            cursor = None
            for _ in range(PAGES if client.server_capabilities.tools else 0):
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                found += page.tools
                cursor = page.next_cursor
                if not cursor or len(found) >= MAX_TOOLS:
                    break
            return found[:MAX_TOOLS]

        return await self._ask(ask, what="list its tools", seconds=LIST_SECONDS)

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[mcp_types.CallToolResult, list[str]]:
        """Call a tool, once: when the connection is lost meanwhile, nobody knows whether it took effect.

        Returns:
            The result as it came, unchecked against the tool's schema, and what the server asked for meanwhile.

        Raises:
            McpError: There is no result; the message says what is known.
        """
        asked: set[str] = set()

        async def ask(link: _Link) -> mcp_types.CallToolResult:
            link.asked = asked
            return await self._call(link.client, tool, arguments)

        result = await self._ask(ask, what=f"answer {tool}", seconds=self._seconds)
        return result, sorted(asked)

    async def close(self) -> None:
        """End the connection, and the program."""
        was_ready = self._health.state == "ready"
        self._health = Health(server=self.server.name, state="closed")
        async with self._starting:
            if self._link is not None:
                await self._drop(self._link)
        if was_ready:
            self._notify(McpServerChanged(server=self.server.name, state="closed"))

    async def _ask(self, ask: Callable[[_Link], Awaitable[Result]], *, what: str, seconds: float) -> Result:
        """Ask over the connection, which is made if there is none; again if the server forgot its session."""
        for again in (True, False):
            link = await self._connected()
            try:
                with anyio.fail_after(seconds):
                    result = await ask(link)
            except TimeoutError:
                raise await self._timed_out(link, what, seconds) from None
            except MCPError as error:
                if again and error.error.message == "Session terminated":  # it was refused, so it took no effect
                    await self._drop(link)
                    continue
                raise await self._refused(link, error) from error
            except (ValidationError, RuntimeError, ValueError, anyio.ClosedResourceError) as error:
                raise await self._refused(link, error) from error
            self._failures = self._timeouts = 0
            return result
        raise McpError(f"The MCP server {self.server.name} forgets its session at once.")

    async def _call(self, client: Client, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        # Not `client.call_tool`: it checks the result against a schema of the server's, whose regular expressions could
        # hold this process up for ever.
        state = None
        for _ in range(ROUNDS):
            params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments, request_state=state)
            answer = await client.session.send_request(mcp_types.CallToolRequest(params=params), _ANSWER)
            if isinstance(answer, mcp_types.CallToolResult):
                return answer
            if methods := {request.method for request in (answer.input_requests or {}).values()}:
                for method in sorted(methods):
                    self._asked(method)
                wanted = " and ".join(ASKS.get(method, method) for method in sorted(methods))
                raise McpError(f"The tool {tool} of {self.server.name} asks for {wanted}, which no server is given.")
            state = answer.request_state
            await anyio.sleep(0.1)
        raise McpError(f"The tool {tool} of {self.server.name} has no result after {ROUNDS} rounds.")

    async def _connected(self) -> _Link:
        async with self._starting:
            if self._health.state == "closed":
                raise McpError(f"The MCP server {self.server.name} was closed.")
            if self._link is not None:
                if not self._link.ended.is_set():
                    return self._link
                await self._lost(self._link)
            if (wait := self._retry_at - time.monotonic()) > 0 and self._failures > 1:
                raise McpError(f"{self._health.reason} It is tried again in {wait:.0f} s.")
            return await self._start()

    async def _start(self) -> _Link:
        link, started = _Link(), time.monotonic()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        link.task = asyncio.create_task(self._hold(link, ready), name=f"mcp {self.server.name}")
        try:
            async with asyncio.timeout(self._start_seconds):
                await asyncio.wait([ready, link.task], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            link.meter.cut(f"was not ready after {self._start_seconds:.0f} s")
        except asyncio.CancelledError:
            link.task.cancel()
            raise
        if link.client is None:
            link.task.cancel()
            await asyncio.wait([link.task])
            raise self._failed(link)
        self._link = link
        info = link.client.server_info
        version = _printable(f"{info.name} {info.version}")[:100] if info else ""
        self._health = Health(server=self.server.name, state="ready", version=version)
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

    async def _hold(self, link: _Link, ready: asyncio.Future[None]) -> None:
        """Hold the connection. The SDK's scopes must be left by the task that entered them, which is this one."""
        try:
            async with Client(
                self._transport(link),
                message_handler=self._heard,
                client_info=mcp_types.Implementation(name="nbagent", version=__version__),
                cache=None,
            ) as client:
                link.client = client
                ready.set_result(None)
                following = asyncio.create_task(self._follow(client))
                await link.ended.wait()
                following.cancel()
                await asyncio.wait([following])
        except Exception as error:
            # Of a transport: anything, mostly in groups. It is told in `why`.
            link.error = error
        finally:
            link.ended.set()

    @asynccontextmanager
    async def _transport(self, link: _Link) -> AsyncIterator[TransportStreams]:
        if self.server.transport == "stdio":
            transport = program(self.server, meter=link.meter, tail=link.tail)
        else:
            transport = remote(self.server, meter=link.meter)
        async with transport as (reading, writing):

            def asked(method: str) -> None:
                link.asked.add(method)
                self._asked(method)

            yield Watched(reading, meter=link.meter, asked=asked, ended=link.ended), writing

    async def _follow(self, client: Client) -> None:
        """Hear of changed tools from servers of the newer protocol, which must be asked to tell."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        # Whoever can't be followed is asked anew with each question anyway.
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.revision += 1

    async def _heard(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.revision += 1

    def _asked(self, method: str) -> None:
        """Tell that it was refused something, once for each thing: who asks again gets no other answer."""
        if method not in self._declined:
            self._declined.add(method)
            self._notify(McpRequestDeclined(server=self.server.name, method=method))

    async def _timed_out(self, link: _Link, what: str, seconds: float) -> McpError:
        self._timeouts += 1
        message = f"The MCP server {self.server.name} didn't {what} within {seconds:.0f} s."
        if self._timeouts < HUNG:
            return McpError(message, mend="Whether it took effect is not known.")
        link.meter.cut(f"didn't answer {HUNG} times in a row")
        self._timeouts = 0
        return await self._lost(link)

    async def _refused(self, link: _Link, error: Exception) -> McpError:
        """What an error of the protocol means: the end of the connection, or a no."""
        closed = isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED
        if closed or link.meter.why:
            # The SDK hears of the end before the task that holds the connection does.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await link.ended.wait()
        if link.ended.is_set() or link.meter.why:
            lost = await self._lost(link)
            return McpError(lost.message, mend="Whether the call took effect is not known.")
        if isinstance(error, ValidationError):
            return McpError(f"The MCP server {self.server.name} {_words(error)}.")
        status = f" ({link.meter.status})" if link.meter.status else ""
        link.meter.note("")
        return McpError(f"The MCP server {self.server.name} refused: {_words(error)}{status}.")

    async def _lost(self, link: _Link) -> McpError:
        """Clean up after a connection that ended."""
        if self._link is not link:
            return McpError(f"The MCP server {self.server.name} was lost.")
        await self._drop(link)
        return self._failed(link)

    async def _drop(self, link: _Link) -> None:
        """End a connection; returns when its program is gone."""
        if self._link is link:
            self._link = None
        link.ended.set()
        if link.task is not None:
            await asyncio.shield(asyncio.wait([link.task]))

    def _failed(self, link: _Link) -> McpError:
        """Count the failure, and tell it."""
        self._failures += 1
        self._retry_at = time.monotonic() + RETRY_SECONDS
        start = link.error if isinstance(link.error, McpError) else None
        message = start.message if start else f"The MCP server {self.server.name} {link.why()}."
        if self._health.state != "closed":
            self._health = Health(server=self.server.name, state="failed", reason=message)
            self._notify(McpServerChanged(server=self.server.name, state="failed", reason=message))
        return McpError(message, mend=start.mend if start else "")


def _words(error: BaseException) -> str:
    """An error's own words, of the first one where it is a group, in one bounded line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return "gave an answer that is not of the protocol's form"
    text = error.error.message if isinstance(error, MCPError) else str(error)
    return _printable(" ".join(text.split()))[:500].rstrip(".") or type(error).__name__


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
