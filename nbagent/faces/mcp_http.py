"""`nbagent mcp --http`: where it listens, who may send it requests, and the server around the SDK's application.

On loopback every user of the machine and every page in a browser can connect. So each request is checked before a byte
of its body is read: it must name this server as its host (a page whose own name was rebound to 127.0.0.1 names itself),
come from no page but one that was allowed, and carry the token. On a Unix socket the folder's and the socket's modes
and the peer's user, which Linux tells, take the token's place.

It listens nowhere else: without TLS the token and the data could be read on the way. A tunnel (`ssh -L`) encrypts them,
with a key of the person's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import re
import secrets
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nbagent.core.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

PATH = "/mcp"
MAX_BODY = 15 * 1024 * 1024
"""Bytes of a request: a file of 10 MB in base64, and what is around it."""
MAX_CONNECTIONS = 64
"""Connections at a time. One more, and the one that has been silent for longest is cut."""
MAX_SESSIONS = 32
"""Sessions of the protocol at a time."""
IDLE_SECONDS = 1800.0
"""After which a session is forgotten."""
HEAD_SECONDS = 10.0
"""For a request's head; also for the first one of a connection to begin."""
BODY_SECONDS = 60.0
"""For a request's body."""
MIN_TOKEN_CHARACTERS = 20
"""Characters of a token that a person chose."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


# -- where


def address(text: str) -> int | Path:
    """Where to listen: a port of 127.0.0.1, or the path of a Unix socket.

    Args:
        text: `PORT`, `127.0.0.1:PORT` or `PATH.sock`.

    Raises:
        UsageError: It is none of these; other addresses are refused with the reason.
    """
    found = re.fullmatch(r"(?:(?:127\.0\.0\.1|localhost):)?([0-9]{1,5})", text)
    if found and int(found[1]) < 65536:
        return int(found[1])
    if text.endswith(".sock"):
        return Path(text).expanduser().absolute()
    if re.fullmatch(r".*:[0-9]+", text):
        raise UsageError(
            f"nbagent listens on 127.0.0.1 only, not on {text}: without TLS others on the way could read the token.",
            mend="Use --http PORT, and from another machine a tunnel: ssh -L PORT:127.0.0.1:PORT HOST.",
        )
    raise UsageError(f"{text!r} is no place to listen.", mend="Give --http a port, or a path that ends in .sock.")


def listen(where: int | Path) -> socket.socket:
    """A listening socket there.

    Raises:
        UsageError: It is taken, or the socket's folder is open to others.
    """
    try:
        return _listen_on_port(where) if isinstance(where, int) else _listen_at(where)
    except OSError as error:
        raise UsageError(
            f"nbagent can't listen at {where}: {error.strerror or error}.", mend="Name another."
        ) from error


def _listen_on_port(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=MAX_CONNECTIONS)


def _listen_at(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    folder = path.parent.stat()
    if folder.st_uid != os.geteuid() or folder.st_mode & 0o077:
        raise UsageError(
            f"Others can get into the folder {path.parent}.",
            mend="Name a socket in a folder of mode 0700, yours alone.",
        )
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(MAX_CONNECTIONS)
    except BaseException:
        listening.close()
        raise
    return listening


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on any more; a file of the person's stays, and is in the way."""
    if not path.is_symlink() and path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            if tried.connect_ex(str(path)) != 0:
                path.unlink()


def allowed_origin(text: str) -> str:
    """The origin of a page that may talk to this server, as browsers write it.

    Raises:
        UsageError: It is not of this machine.
    """
    if not re.fullmatch(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", text):
        raise UsageError(
            f"{text!r} is no origin of this machine.",
            mend="Give --http-origin a page's, such as http://localhost:6274.",
        )
    return text.removesuffix(":80")


def checked_token(text: str) -> str:
    """The token that a person chose; without one, a new one.

    Raises:
        UsageError: It is short, or can't stand in a header.
    """
    if not text:
        return secrets.token_urlsafe(32)
    if not re.fullmatch(rf"[!-~]{{{MIN_TOKEN_CHARACTERS},}}", text):
        raise UsageError(
            f"NBAGENT_MCP_TOKEN has no {MIN_TOKEN_CHARACTERS} characters, or some that can't stand in a header.",
            mend="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    return text


# -- each request


class _RefusedError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, reason: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class AccessControl:
    """ASGI middleware that checks each request as this module's docstring says, and reads its body within bounds.

    Args:
        app: What is behind it.
        hosts: What a request may say in `Host`.
        token: What it must say in `Authorization`, as a bearer token; empty if nothing.
        origins: Pages that may send requests.
    """

    def __init__(self, app: App, *, hosts: Iterable[str], token: str, origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._token = token.encode()
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        page: list[tuple[bytes, bytes]] = []
        try:
            if scope["type"] != "http":
                raise _RefusedError(403, "Only HTTP is spoken here.")
            page = self._let_in(scope)
            if page and scope["method"] == "OPTIONS":
                await _answer(send, 204, b"", page)
                return
            self._authorize(scope)
            body = await _body(scope, receive)
        except _RefusedError as refused:
            body = json.dumps({"error": str(refused)}).encode()
            await _answer(send, refused.status, body, [*page, *refused.headers, (b"connection", b"close")])
            return

        async def more(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *page]}
            await send(message)

        await self._app(scope, _replayed(body, receive), more)

    def _let_in(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Check whom the request names and where it comes from; returns the headers that an allowed page needs."""
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise _RefusedError(403, "This server has another name than the request says.")
        if not origins:
            return []
        if len(origins) != 1 or origins[0] not in self._origins:
            raise _RefusedError(403, "Pages of this origin may not use this server; --http-origin allows one.")
        headers = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id"
        return [
            (b"access-control-allow-origin", origins[0].encode()),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", headers.encode()),
            (b"access-control-expose-headers", b"mcp-session-id"),
            (b"vary", b"origin"),
        ]

    def _authorize(self, scope: Scope) -> None:
        if not self._token:
            return
        given = _values(scope, b"authorization")
        if not given:
            raise _RefusedError(401, "A token is needed.", (b"www-authenticate", b'Bearer realm="nbagent"'))
        scheme, _, token = given[0].partition(" ")
        right = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        if len(given) != 1 or scheme.lower() != "bearer" or not right:
            challenge = b'Bearer realm="nbagent", error="invalid_token"'
            raise _RefusedError(401, "This is not the token.", (b"www-authenticate", challenge))


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == name]


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The body, whole: what is slow or large ends here."""
    length = next(iter(_values(scope, b"content-length")), "0")
    body, is_whole = bytearray(), False
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not is_whole:
                if len(body) > MAX_BODY or not length.isdigit() or int(length[:12]) > MAX_BODY:
                    raise _RefusedError(413, f"A request has at most {MAX_BODY:,} bytes.")
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusedError(400, "The request broke off.")
                body += message.get("body", b"")
                is_whole = not message.get("more_body", False)
    except TimeoutError:
        raise _RefusedError(408, f"The request took more than {BODY_SECONDS:g} s.") from None
    if len(body) > MAX_BODY:
        raise _RefusedError(413, f"A request has at most {MAX_BODY:,} bytes.")
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more for the app, and then what comes."""
    first: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return again


async def _answer(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})


# -- each connection


class _Connection(H11Protocol):
    """uvicorn's connection, which has no bound of its own on their number and on how long a head may take."""

    _open: list[_Connection]
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not _is_own(transport.get_extra_info("socket")):
            transport.abort()
            return
        if len(self.connections) > MAX_CONNECTIONS:
            # Whoever may talk has a request under way: those who have not are others, or have finished.
            silent = [each for each in self._open if each.is_silent]
            (silent[0] if silent else self).transport.abort()
        self._open.append(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._open:
            self._open.remove(self)
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    @property
    def is_silent(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Give a head its time, from the connection's beginning or its own first byte."""
        if not self.is_silent and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        elif self.is_silent and self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self.is_silent:
            self.transport.abort()


def _is_own(connected: Any) -> bool:
    """Whether a peer on a Unix socket is this user, or root, who needs no socket; of TCP nothing is known."""
    if connected is None or connected.family != socket.AF_UNIX:
        return True
    _, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in (0, os.geteuid())


# -- serving


async def serve(
    server: MCPServer, *, at: str, token: str, origins: Iterable[str], say: Callable[[str], object]
) -> None:
    """Serve over HTTP until somebody interrupts.

    Args:
        server: The SDK's server.
        at: Where to listen, see `address`.
        token: That a person chose, or nothing.
        origins: Pages that may send requests.
        say: Told once what a client needs, the token included if it was made here.

    Raises:
        UsageError: Nothing can be served so.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    where, pages = address(at), [allowed_origin(each) for each in origins]
    secret = checked_token(token) if token or isinstance(where, int) else ""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=IDLE_SECONDS,
        # `AccessControl` has looked at all of this already; and the SDK's check knows no Unix sockets.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    listening = listen(where)
    try:
        port = listening.getsockname()[1] if isinstance(where, int) else None
        hosts = ["localhost", "127.0.0.1"] if port in (None, 80) else []
        hosts += [f"{name}:{port}" for name in ("localhost", "127.0.0.1") if port is not None]
        guarded = AccessControl(app, hosts=hosts, token=secret, origins=pages)
        protocol = type("Connection", (_Connection,), {"_open": []})
        config = uvicorn.Config(
            guarded, http=protocol, ws="none", log_level="error", access_log=False, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=3,
        )  # fmt: skip
        say(
            _instructions(
                where if isinstance(where, Path) else f"http://127.0.0.1:{port}{PATH}", secret, chosen=bool(token)
            )
        )
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        listening.close()
        if isinstance(where, Path):
            with contextlib.suppress(OSError):
                where.unlink()


def _instructions(where: str | Path, token: str, *, chosen: bool) -> str:
    """What a client needs to connect, in words and for its configuration. A token that a person chose isn't repeated.

    The address is 127.0.0.1 rather than `localhost`, at whose other address (::1) somebody else may listen.
    """
    shown = "${NBAGENT_MCP_TOKEN}" if chosen else token
    header = {"Authorization": f"Bearer {shown}"}
    needs = f", for requests with the header\nAuthorization: Bearer {shown}" if token else ""
    if isinstance(where, Path):
        return f"nbagent serves MCP on the Unix socket {where}, at http://localhost{PATH}, for this user alone{needs}"
    entry = {"mcpServers": {"nbagent": {"type": "http", "url": where, "headers": header}}}
    return f"nbagent serves MCP at {where}{needs}\n{json.dumps(entry)}"
