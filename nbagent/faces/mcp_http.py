"""`nbagent mcp --http`: where it listens, and the server around the SDK's application; `mcp_access.py` guards it.

It listens on loopback or on a Unix socket only: without TLS the token and the data could be read on the way. A tunnel
(`ssh -L`) encrypts them, with a key of the person's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nbagent.core.errors import UsageError
from nbagent.faces.mcp_access import MAX_BODY_BYTES, AccessControl, allowed_origin, checked_token
from nbagent.session.sharing.wire import is_own

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

PATH = "/mcp"
MAX_CONNECTIONS = 64
"""Connections at a time. One more, and the one that has been silent for longest is cut."""
MAX_SESSIONS = 32
"""Sessions of the protocol at a time."""
IDLE_SECONDS = 1800.0
"""Seconds after which a session is forgotten."""
HEAD_SECONDS = 10.0
"""Seconds for a request's head; also for the first one of a connection to begin."""


def address(text: str) -> int | Path:
    """Where to listen: a port of 127.0.0.1 (`PORT`, `127.0.0.1:PORT`), or the path of a Unix socket (`PATH.sock`)."""
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
    """A listening socket there."""
    try:
        if isinstance(where, int):
            return socket.create_server(("127.0.0.1", where), backlog=MAX_CONNECTIONS)
        return _listen_at(where)
    except OSError as error:
        raise UsageError(
            f"nbagent can't listen at {where}: {error.strerror or error}.", mend="Name another."
        ) from error


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


# -- each connection


class _Connection(H11Protocol):
    """uvicorn's connection, which has no bound of its own on their number and on how long a head may take."""

    _open: list[_Connection]
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family == socket.AF_UNIX and not is_own(connected):
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


# -- serving


async def serve(
    server: MCPServer, *, at: str, token: str, origins: Iterable[str], say: Callable[[str], object]
) -> None:
    """Serve over HTTP at an `address` until somebody interrupts; `say` is told what a client needs, the token too."""
    from mcp.server.transport_security import TransportSecuritySettings

    where, pages = address(at), [allowed_origin(each) for each in origins]
    secret = checked_token(token) if token or isinstance(where, int) else ""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
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
