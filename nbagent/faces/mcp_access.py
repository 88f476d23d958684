"""Who may send requests to `nbagent mcp --http`, and how large and slow a request may be.

On loopback every user of the machine and every page in a browser can connect. So each request is checked before a byte
of its body is read: it must name this server as its host (a page whose own name was rebound to 127.0.0.1 names itself),
come from no page but one that was allowed, and carry the token. On a Unix socket the folder's and the socket's modes
and the peer's user, which Linux tells, take the token's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from nbagent.core.errors import UsageError
from nbagent.sandbox.inside.message_sizes_inside import MAX_WEIGHT, weight

MAX_BODY_BYTES = 15 * 1024 * 1024
"""Bytes of a request: a file of 10 MB in base64, and what is around it."""
BODY_SECONDS = 60.0
"""Seconds for a request's body."""
MAX_LARGE = 4
"""Bodies that are read at a time, but for those of less than `SMALL_BYTES`."""
SMALL_BYTES = 512 * 1024
MIN_TOKEN_CHARACTERS = 20
"""Characters of a token that a person chose."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def allowed_origin(text: str) -> str:
    """The origin of a page that may talk to this server, as browsers write it."""
    if not re.fullmatch(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", text):
        raise UsageError(
            f"{text!r} is no origin of this machine.",
            mend="Give --http-origin a page's, such as http://localhost:6274.",
        )
    return text.removesuffix(":80")


def checked_token(text: str) -> str:
    """The token that a person chose; without one, a new one."""
    if not text:
        return secrets.token_urlsafe(32)
    if not re.fullmatch(rf"[!-~]{{{MIN_TOKEN_CHARACTERS},}}", text):
        raise UsageError(
            f"NBAGENT_MCP_TOKEN has no {MIN_TOKEN_CHARACTERS} characters, or some that can't stand in a header.",
            mend="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    return text


class _RefusedError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, reason: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class AccessControl:
    """ASGI middleware that checks each request as this module's docstring says, and reads its body within bounds.

    Args:
        hosts: What a request may say in `Host`.
        token: What it must say in `Authorization`, as a bearer token; empty if nothing.
        origins: Pages that may send requests.
    """

    def __init__(self, app: App, *, hosts: Iterable[str], token: str, origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._token = token.encode()
        self._origins = frozenset(origins)
        self._large = asyncio.Semaphore(MAX_LARGE)

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
            body = await self._body(scope, receive)
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

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body; of several large ones, some wait until others are there."""
        length = next(iter(_values(scope, b"content-length")), "0")
        is_told = length.isdigit() and not _values(scope, b"transfer-encoding")
        async with contextlib.nullcontext() if is_told and int(length[:12]) < SMALL_BYTES else self._large:
            body = await _read(receive, length)
        if weight(body) > MAX_WEIGHT:
            raise _RefusedError(413, "The request has too many values.")
        return body


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == name]


async def _read(receive: Receive, length: str) -> bytes:
    """The body, whole: what is slow or large ends here."""
    body, is_whole = bytearray(), False
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not is_whole:
                if len(body) > MAX_BODY_BYTES or not length.isdigit() or int(length[:12]) > MAX_BODY_BYTES:
                    raise _RefusedError(413, f"A request has at most {MAX_BODY_BYTES:,} bytes.")
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusedError(400, "The request broke off.")
                body += message.get("body", b"")
                is_whole = not message.get("more_body", False)
    except TimeoutError:
        raise _RefusedError(408, f"The request took more than {BODY_SECONDS:g} s.") from None
    if len(body) > MAX_BODY_BYTES:
        raise _RefusedError(413, f"A request has at most {MAX_BODY_BYTES:,} bytes.")
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
