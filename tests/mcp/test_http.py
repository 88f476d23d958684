"""Servers with an address: the SDK's own, and hostile ones, over real connections on loopback."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nbagent.core.errors import McpError
from nbagent.core.events import McpServerChanged, McpToolsChanged
from nbagent.mcp.servers import ServerEntry

Opens = Callable[..., Any]


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_over_http(opened: Opens, serve: Callable[[str], Any], kind: str) -> None:
    """Tools are listed and called, changes are heard of, and when it is gone that is told, twice at most."""
    far = serve(kind)
    one = opened(ServerEntry(name="far", transport=kind, url=far.url, seconds=1))  # type: ignore[arg-type]
    assert (await one.call("read_file", path="a")).result.content[0].text == "contents of a"
    revision = one.client.revision
    await one.call("change", description="Search the web, and more.")
    for _ in range(100):
        if one.client.revision > revision:
            break
        await asyncio.sleep(0.05)
    await one.tools()
    assert [event.changed for event in one.told(McpToolsChanged)] == [["search_web"]]
    tool = (await one.tools())["slow"]
    with pytest.raises(McpError, match="didn't answer slow within 1 s"):
        await one.client.call(tool, {"seconds": 3})
    far.process.kill()
    far.process.wait()
    for _ in range(3):
        with pytest.raises(McpError, match=r"MCP server far"):
            await one.client.call(tool, {"seconds": 0})
    assert [event.state for event in one.told(McpServerChanged)] == ["ready", "failed", "failed"]


class Web:
    """A server whose answers to `tools/call` are made by a function that gets the request."""

    def __init__(self, answer: Callable[[http.server.BaseHTTPRequestHandler, Any], None], *, first: int = 200) -> None:
        self.headers: list[dict[str, str]] = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                web.headers.append({name.lower(): value for name, value in self.headers.items()})
                method = message.get("method")
                if first != 200:
                    reply(self, b"no", status=first)
                elif method == "initialize":
                    server = {"name": "web", "version": "1"}
                    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
                    reply(self, result_of(message, result), Mcp_Session_Id=f"s{len(web.headers)}")
                elif method == "tools/list":
                    tools = [{"name": "go", "inputSchema": {"type": "object"}}]
                    reply(self, result_of(message, {"tools": tools}))
                elif method == "tools/call":
                    answer(self, message)
                elif "id" in message:
                    error = {"code": -32601, "message": "Method not found"}
                    reply(self, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
                else:
                    reply(self, b"", status=202)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/mcp"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def result_of(message: Any, result: Any) -> bytes:
    """A response as JSON."""
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def reply(handler: Any, body: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> None:
    """Answer a request; whoever asked may be gone."""
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    except OSError:
        handler.close_connection = True


@pytest.fixture
def web() -> Iterator[Callable[..., Web]]:
    """Starts such servers."""
    started: list[Web] = []

    def start(answer: Any, **more: Any) -> Web:
        started.append(Web(answer, **more))
        return started[-1]

    yield start
    for each in started:
        each.close()


def zipped(handler: Any, message: Any) -> None:
    """100 MB in 100 KB."""
    result = {"content": [{"type": "text", "text": "x" * 100_000_000}]}
    reply(handler, gzip.compress(result_of(message, result), 1), Content_Encoding="gzip")


def huge(handler: Any, message: Any) -> None:
    """200 MB as they are."""
    result = {"content": [{"type": "text", "text": "x" * 200_000_000}]}
    reply(handler, result_of(message, result))


def events(handler: Any, _: Any) -> None:
    """An event stream without end, and without an answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.close_connection = True
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    try:
        while True:
            handler.wfile.write(f"event: message\ndata: {note}\n\n".encode())
    except OSError:
        return


def away(handler: Any, _: Any) -> None:
    """Somewhere else, with the headers."""
    reply(handler, b"", status=307, Location="http://example.org/mcp")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (zipped, "sent a compressed response, though none was asked for"),
        (huge, "sent more than 64 MB"),
        (events, "sent more than 2,000 messages"),
        (away, r"refused: Redirect to http://example.org/mcp not followed"),
        (lambda handler, _: reply(handler, b"{", kind="application/json"), "refused: Failed to parse JSON"),
        (lambda handler, _: reply(handler, b"<html>", kind="text/html"), "refused: Unexpected content type"),
        (lambda handler, _: reply(handler, b"", status=503), r"refused: .*\(HTTP 503 Service Unavailable\)"),
    ],
    ids=["zipped", "huge", "events", "away", "broken", "html", "503"],
)
async def test_a_hostile_answer_is_told(
    opened: Opens, web: Callable[..., Web], answer: Callable[[Any, Any], None], why: str
) -> None:
    """Whatever comes back, the call ends with a sentence, within its time."""
    one = opened(ServerEntry(name="w", transport="http", url=web(answer).url, seconds=20))
    with pytest.raises(McpError, match=f"The MCP server w {why}"):
        await one.call("go")


async def test_headers_are_sent_with_each_request(opened: Opens, web: Callable[..., Web]) -> None:
    """A token in mcp.json reaches the server, and no error names it."""
    served = web(lambda handler, _: reply(handler, b"", status=500))
    entry = ServerEntry(name="w", transport="http", url=served.url, headers={"Authorization": "Bearer s3cret"})
    one = opened(entry)
    with pytest.raises(McpError) as caught:
        await one.call("go")
    assert {headers["authorization"] for headers in served.headers} == {"Bearer s3cret"}
    assert "s3cret" not in f"{caught.value}{one.events}"


async def test_a_server_that_refuses_everybody(opened: Opens, web: Callable[..., Web]) -> None:
    """The status is told: what is missing is mostly a token."""
    one = opened(ServerEntry(name="w", transport="http", url=web(lambda *_: None, first=401).url))
    assert await one.tools() == {}
    assert one.told(McpServerChanged)[0].reason == "The MCP server w answered with HTTP 401 Unauthorized."


async def test_a_session_that_the_server_forgot_is_made_anew(opened: Opens, web: Callable[..., Web]) -> None:
    """A call that was turned down for that is sent again, once: it took no effect."""
    sessions: list[str] = []

    def forget(handler: Any, message: Any) -> None:
        sessions.append(handler.headers["Mcp-Session-Id"])
        if len(set(sessions)) == 1:
            reply(handler, b"", status=404)
        else:
            reply(handler, result_of(message, {"content": [{"type": "text", "text": "again"}]}))

    one = opened(ServerEntry(name="w", transport="http", url=web(forget).url))
    assert (await one.call("go")).result.content[0].text == "again"
    assert len(sessions) == len(set(sessions)) == 2


async def test_nobody_there(opened: Opens) -> None:
    """An address where nothing listens."""
    one = opened(ServerEntry(name="w", transport="http", url="http://127.0.0.1:9/mcp"))
    assert await one.tools() == {}
    assert one.told(McpServerChanged)[0].reason == "The MCP server w failed: All connection attempts failed."
