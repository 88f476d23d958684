"""Who gets into `nbagent mcp --http`: the official client, raw requests, and another user of the machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from nbagent.core.errors import UsageError
from nbagent.faces import mcp_access, mcp_http
from nbagent.mcp import servers
from tests.program import environment, nbagent

PAGE = "http://localhost:6274"
QUICK = "from nbagent.faces import mcp_access, mcp_http; mcp_http.HEAD_SECONDS = mcp_access.BODY_SECONDS = 0.5; "
OTHER = """
import os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
family, address = socket.AF_UNIX, sys.argv[1]
if "/" not in address:
    family, address = socket.AF_INET, ("127.0.0.1", int(address))
with socket.socket(family) as tried:
    tried.settimeout(20)
    try:
        tried.connect(address)
        tried.sendall(b"POST /mcp HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: 0\\r\\n\\r\\n" % sys.argv[2].encode())
        print(tried.recv(100).split(b"\\r\\n")[0].decode() or "closed")
    except OSError as error:
        print(type(error).__name__)
"""


@dataclass
class Served:
    """A program that serves, and what it said."""

    program: subprocess.Popen[str]
    told: str

    @property
    def token(self) -> str:
        """What it said is to be sent."""
        found = re.search(r"^Authorization: Bearer (\S+)$", self.told, re.MULTILINE)
        assert found, self.told
        return found[1]

    @property
    def port(self) -> int:
        """Where it said that it is."""
        found = re.search(r"http://127\.0\.0\.1:([0-9]+)/mcp", self.told)
        assert found, self.told
        return int(found[1])

    @property
    def right(self) -> dict[str, str]:
        """The headers of a request that is let in."""
        return {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}"}

    def ask(self, head: dict[str, str], *, method: str = "POST", path: str = "/mcp", body: bytes = b"") -> str:
        """The head of the answer to one request, sent as it is given."""
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connected:
            connected.sendall("\r\n".join(lines).encode() + body)
            answer = b""
            while b"\r\n\r\n" not in answer and (read := connected.recv(4096)):
                answer += read
        return answer.decode()


@contextlib.contextmanager
def serving(folder: Path, *words: str, code: str = QUICK, **variables: str) -> Iterator[Served]:
    """The program, from when it says where it listens."""
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{code}from nbagent.faces.cli.app import main; main()",
            "mcp",
            "-e",
            "bubblewrap",
            *words,
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(**variables),
    )
    assert program.stderr is not None
    try:
        lines = [program.stderr.readline()]
        while lines[-1].endswith(("header\n", "Bearer \n")) or lines[-1].startswith("Authorization"):
            lines.append(program.stderr.readline())
        yield Served(program, "".join(lines))
    finally:
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The program on a free port."""
    with serving(tmp_path_factory.mktemp("http"), "--http", "0", "--http-origin", PAGE) as found:
        yield found


@contextlib.asynccontextmanager
async def client(url: str, **options: object) -> AsyncIterator[ClientSession]:
    """The official client, connected."""
    async with (
        httpx2.AsyncClient(timeout=60, **options) as http,  # type: ignore[arg-type]
        streamable_http_client(url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def as_another(where: str, host: str) -> str:
    """What another user of the machine gets for a request without a token."""
    asked = [sys.executable, "-c", OTHER, where, host]
    return subprocess.check_output(asked, text=True).strip()


async def test_what_it_says_is_what_a_client_needs(served: Served, tmp_path: Path) -> None:
    """The line of JSON is an entry that clients take, nbagent's own too; with it the tools are there."""
    entry = json.loads(served.told.splitlines()[-1])
    (tmp_path / "mcp.json").write_text(json.dumps(entry))
    (server,) = servers.load(tmp_path / "mcp.json")
    assert len(served.token) >= 43
    async with client(server.url, headers=server.headers) as session:
        assert "run_cell" in {each.name for each in (await session.list_tools()).tools}


@pytest.mark.parametrize(
    "token", [None, "Bearer wrong", "Bearer", "Basic {0}", "Bearer {0}x", "Bearer {0}, Bearer {0}"]
)
async def test_without_the_token_nobody_gets_in(served: Served, token: str | None) -> None:
    """The official client is refused, and nothing of the server is told."""
    headers = {} if token is None else {"Authorization": token.format(served.token)}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - a group of the client's own
        async with client(f"http://127.0.0.1:{served.port}/mcp", headers=headers):
            pass
    told: list[BaseException] = [caught.value]
    while isinstance(told[-1], BaseExceptionGroup):
        told.append(told[-1].exceptions[0])
    assert "run_cell" not in repr(told)
    assert served.ask({"Host": f"127.0.0.1:{served.port}", **headers}).startswith("HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/mcp", "/", "/mcp/", "/docs", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND"])
def test_every_path_asks_for_the_token(served: Served, method: str, path: str) -> None:
    """The answer says what is missing, and comes before a body is read."""
    head = {"Host": f"127.0.0.1:{served.port}", "Content-Length": "1000000000"}
    answer = served.ask(head, method=method, path=path).lower()
    assert answer.startswith("http/1.1 401 ")
    assert 'www-authenticate: bearer realm="nbagent"' in answer
    assert "connection: close" in answer


@pytest.mark.parametrize(
    "host",
    ["evil.example:{0}", "127.0.0.1", "127.0.0.1:1", "localhost.:{0}", "127.0.0.1:{0}@evil", "[::1]:{0}", ""],
)
def test_a_request_for_another_host_is_refused(served: Served, host: str) -> None:
    """As a page sends it whose own name leads to this machine by now; the token would not help it."""
    assert served.ask({**served.right, "Host": host.format(served.port)}).startswith("HTTP/1.1 403 ")
    assert served.ask(served.right, method="GET", path="/nothing").startswith("HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost", f"{PAGE}.evil.example", "http://127.0.0.1:{0}"]
)
def test_a_page_that_was_not_allowed_is_refused(served: Served, origin: str) -> None:
    """Whatever it sends, a preflight too; nothing in the answer lets it read that."""
    for method in ("POST", "OPTIONS"):
        answer = served.ask({**served.right, "Origin": origin.format(served.port)}, method=method)
        assert answer.startswith("HTTP/1.1 403 ")
        assert "access-control" not in answer.lower()


def test_a_page_that_was_allowed_needs_the_token_too(served: Served) -> None:
    """Its preflight is answered, which carries no token; what it sends then must."""
    head = {"Host": f"localhost:{served.port}", "Origin": PAGE}
    preflight = served.ask(head, method="OPTIONS")
    assert preflight.startswith("HTTP/1.1 204 ")
    assert f"access-control-allow-origin: {PAGE}\r\n" in preflight
    assert served.ask(head).startswith("HTTP/1.1 401 ")
    let_in = served.ask({**served.right, "Origin": PAGE}, path="/nothing")
    assert let_in.startswith("HTTP/1.1 404 ")
    assert f"access-control-allow-origin: {PAGE}\r\n" in let_in


def test_a_request_is_bounded(served: Served) -> None:
    """A body that is too large, said or not, or that doesn't come; a head that is too large."""
    assert served.ask({**served.right, "Content-Length": "16000000"}).startswith("HTTP/1.1 413 ")
    assert served.ask({**served.right, "Content-Length": "9" * 5000}).startswith(("HTTP/1.1 400 ", "HTTP/1.1 413 "))
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    assert served.ask({**served.right, "Transfer-Encoding": "chunked"}, body=chunk * 16).startswith("HTTP/1.1 413 ")
    assert served.ask({**served.right, "Content-Length": "10"}, body=b"x").startswith("HTTP/1.1 408 ")
    assert served.ask({**served.right, "X": "x" * 70_000}).startswith("HTTP/1.1 400 ")
    many = b"[" + b"[]," * 4_000_000 + b"[]]"  # which takes the SDK seconds and hundreds of MB
    told = served.ask({**served.right, "Content-Length": str(len(many))}, body=many)
    assert told.startswith("HTTP/1.1 413 ")


async def test_large_bodies_are_read_a_few_at_a_time() -> None:
    """However many requests are under way, and small ones wait for none of them."""
    reading: set[int] = set()
    most, ended = 0, asyncio.Event()

    async def app(_: Any, receive: Any, __: Any) -> None:
        await receive()

    guarded = mcp_access.AccessControl(app, hosts=["h"], token="")

    async def ask(number: int, size: int) -> None:
        async def receive() -> dict[str, Any]:
            nonlocal most
            if size > 1000:
                reading.add(number)
                most = max(most, len(reading))
                await ended.wait()
                reading.discard(number)
            return {"type": "http.request", "body": b" " * size, "more_body": False}

        headers = [(b"host", b"h"), (b"content-length", str(size).encode())]
        await guarded({"type": "http", "method": "POST", "headers": headers}, receive, lambda _: asyncio.sleep(0))

    large = [asyncio.create_task(ask(number, 1_000_000)) for number in range(20)]
    await asyncio.wait_for(ask(99, 10), 20)
    ended.set()
    await asyncio.gather(*large)
    assert 0 < most <= mcp_access.MAX_LARGE


async def test_silent_connections_keep_nobody_out(served: Served) -> None:
    """Two hundred of them, some with half a head: a client gets in all the same, and they are cut."""
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(200)]
    try:
        for each in silent[::2]:
            with contextlib.suppress(OSError):
                each.sendall(b"POST /mcp HTTP/1.1\r\nHost: x")
        async with client(f"http://127.0.0.1:{served.port}/mcp", headers=served.right) as session:
            assert await session.list_tools()
        for each in silent:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.to_thread(each.recv, 1) == b""
    finally:
        for each in silent:
            each.close()


def test_another_user_has_no_token(served: Served) -> None:
    """Loopback is open to every user of a machine."""
    assert as_another(str(served.port), f"127.0.0.1:{served.port}") == "HTTP/1.1 401 Unauthorized"


async def test_a_socket_is_of_one_user(tmp_path: Path) -> None:
    """Mode 0600 in a folder of mode 0700; and where these were opened, Linux still tells whose a peer is."""
    path = tmp_path / "own" / "mcp.sock"
    with serving(tmp_path, "--http", str(path)) as found:
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert "Authorization" not in found.told
        transport = httpx2.AsyncHTTPTransport(uds=str(path))
        async with client("http://localhost/mcp", transport=transport) as session:
            assert (await session.call_tool("run_cell", {"code": "6 * 7"})).content[0].text == "[result]\n42"  # type: ignore[union-attr]
        assert as_another(str(path), "localhost") == "PermissionError"
        for each in (*list(path.parents)[:-2], path):
            each.chmod(each.stat().st_mode | 0o077)
        assert as_another(str(path), "localhost") in ("closed", "ConnectionResetError", "BrokenPipeError")
        assert found.program.poll() is None
    assert not path.exists()


def test_a_chosen_token_is_not_repeated(tmp_path: Path) -> None:
    """It is taken from the environment, and asked for on a socket too; one that can be guessed is refused."""
    chosen = "a-token-of-some-length"
    with serving(tmp_path, "--http", "0", NBAGENT_MCP_TOKEN=chosen) as found:
        assert chosen not in found.told
        assert "${NBAGENT_MCP_TOKEN}" in found.told
        right = {"Host": f"127.0.0.1:{found.port}", "Authorization": f"Bearer {chosen}"}
        assert found.ask(right, path="/nothing").startswith("HTTP/1.1 404 ")
    with pytest.raises(UsageError, match="has no 20 characters"):
        mcp_access.checked_token("1234")
    with pytest.raises(UsageError):
        mcp_access.checked_token("x" * 30 + "\n")


@pytest.mark.parametrize("where", ["0.0.0.0:8000", "example.org:8000", "[::]:8000", "192.168.1.1:80"])
def test_other_addresses_are_refused_with_the_reason(where: str) -> None:
    """Whoever wants to be reached from elsewhere is told how."""
    with pytest.raises(UsageError, match="without TLS") as caught:
        mcp_http.address(where)
    assert "ssh -L" in caught.value.mend


def test_the_program_refuses_what_it_can_not_serve(tmp_path: Path) -> None:
    """With the exit code of wrong use, and one sentence."""
    refused = nbagent("mcp", "--http", "0.0.0.0:8000", cwd=tmp_path)
    assert (refused.code, "without TLS" in refused.err) == (2, True)


def test_a_place_that_is_taken_or_open_is_refused(tmp_path: Path, served: Served) -> None:
    """A port of somebody else's, a folder that others get into, a file of the person's."""
    with pytest.raises(UsageError, match="in use"):
        mcp_http.listen(served.port)
    own = tmp_path / "own"
    own.mkdir(mode=0o755)
    with pytest.raises(UsageError, match="Others can get into"):
        mcp_http.listen(own / "mcp.sock")
    own.chmod(0o700)
    (own / "mcp.sock").write_text("mine")
    with pytest.raises(UsageError, match="can't listen"):
        mcp_http.listen(own / "mcp.sock")
    assert (own / "mcp.sock").read_text() == "mine"
    (own / "mcp.sock").unlink()
    for _ in range(2):  # one that a killed program left is in nobody's way
        mcp_http.listen(own / "mcp.sock").close()
    with mcp_http.listen(own / "mcp.sock"), pytest.raises(UsageError, match="in use"):
        mcp_http.listen(own / "mcp.sock")
    for wrong in ("https://example.org", "http://localhost.evil.example", "localhost:80", "http://localhost:1/x"):
        with pytest.raises(UsageError):
            mcp_access.allowed_origin(wrong)
