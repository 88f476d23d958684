"""Fixtures: real servers as programs and over HTTP, and clients that leave nothing behind."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbagent.core.events import Event
from nbagent.mcp.catalog import McpTool
from nbagent.mcp.client import CallOutcome, McpClient
from nbagent.mcp.servers import ServerEntry

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shelf() -> ServerEntry:
    """A server of the official SDK."""
    return ServerEntry(name="shelf", transport="stdio", command=sys.executable, args=(str(HERE / "server.py"),))


@pytest.fixture
def hostile() -> Callable[..., ServerEntry]:
    """A server that misbehaves in the way that is named."""

    def make(how: str, **entry: Any) -> ServerEntry:
        args = (str(HERE / "hostile.py"), how)
        return ServerEntry(name="h", transport="stdio", command=sys.executable, args=args, **{"seconds": 5.0, **entry})

    return make


@dataclass(kw_only=True)
class Opened:
    """A client, and what it told."""

    client: McpClient
    events: list[Event] = field(default_factory=list)

    async def tools(self) -> dict[str, McpTool]:
        """The tools by the names that their servers have for them."""
        return {tool.tool: tool for tool in await self.client.catalog()}

    async def call(self, name: str, **arguments: Any) -> CallOutcome:
        """Call a tool that is there now."""
        return await self.client.call((await self.tools())[name], arguments)

    def told(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Opened]]:
    """Opens clients; at the end each is closed, and no process that it started may be left."""
    before = set(psutil.Process().children(recursive=True))
    clients: list[McpClient] = []

    def open_client(*servers: ServerEntry, seen: Path | None = None) -> Opened:
        events: list[Event] = []
        clients.append(McpClient(servers, notify=events.append, seen=seen))
        return Opened(client=clients[-1], events=events)

    yield open_client
    for client in clients:
        await client.close()
    assert set(psutil.Process().children(recursive=True)) - before == set()


@dataclass(kw_only=True)
class Far:
    """A server over HTTP."""

    url: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def serve() -> Iterator[Callable[[str], Far]]:
    """Starts the SDK's server on loopback, as `http` or `sse`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str) -> Far:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started.append(subprocess.Popen([sys.executable, str(HERE / "server.py"), kind, str(port)]))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return Far(url=f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}", process=started[-1])

    yield start
    for process in started:
        process.kill()
        process.wait()
