"""One connection to the egress proxy: reads its request, has it decided, and relays it.

Each connection carries one request, of two kinds:

- `CONNECT HOST:PORT` opens a tunnel. In it the caller must begin TLS and ask for that very host; nothing is sent to the
  server before that was checked. A tunnel for anything but TLS is refused at any port.
- `GET http://HOST/…`, or any other method, is parsed and written anew, so that the server reads what was checked here.

Not covered: what is said inside of TLS can't be seen. A server that holds several names may serve another one than the
one that was asked for (domain fronting), and an allowed host receives whatever is sent to it, up to the budget.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

import h11

from nbagent.core.events import HostDecided
from nbagent.egress.dial import Dialer
from nbagent.egress.gate import Gate
from nbagent.egress.hosts import By, Denied, authority, quoted
from nbagent.egress.relay import CHUNK_BYTES, MAX_HEAD, HostConnection, TrafficBudget, end_to_end, next_event
from nbagent.egress.tls import UNRECOGNIZED_NAME, Handshake, HelloReader, NotTls

HEAD_SECONDS = 15.0
"""Seconds from the connection to the end of the request's head."""
HELLO_SECONDS = 5.0
"""Seconds from the opening of a tunnel to the end of the ClientHello."""
LINGER_SECONDS = 1.0
"""Seconds that a refused caller gets to read the reason, while it may still be sending."""
_URL = re.compile(r"http://(?P<authority>[^/?#]*)(?P<path>/[^#]*|\?[^#]*|)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ConnectionEnded:
    """The end of a connection that was opened to a host, with the bytes that went there and came back."""

    host: str
    port: int
    address: str
    sent: int
    received: int


Observe = Callable[[HostDecided | ConnectionEnded], None]
"""Gets each decision and each connection's end, on the proxy's thread: it must not block; its errors are dropped."""


class Exchange:
    """One connection, from its request to the last byte; the caller's socket, which doesn't block, is closed here."""

    def __init__(
        self, caller: socket.socket, *, gate: Gate, dialer: Dialer, budget: TrafficBudget, observe: Observe
    ) -> None:
        self._caller = caller
        self._gate = gate
        self._dialer = dialer
        self._budget = budget
        self._observe = observe
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._relay: HostConnection | None = None
        self._tunnel = False
        self._host, self._port, self._address = "", 0, ""

    async def run(self) -> None:
        """Serve the connection to its end. Never raises, whatever the caller sends."""
        try:
            with contextlib.suppress(OSError, h11.ProtocolError):
                await self._serve()
        except Denied as denied:
            self._address = self._address or denied.address
            self._report(allowed=False, by=denied.by, reason=denied.reason)
            with contextlib.suppress(OSError):
                await self._refuse(denied)
        except Exception as error:  # a failure of one connection must not end the others
            self._report(allowed=False, by="policy", reason=f"The proxy failed: {type(error).__name__}: {error}")
        finally:
            self._caller.close()
            if self._relay is not None:
                self._relay.close()
                where = {"host": self._host, "address": self._address}
                self._observe(
                    ConnectionEnded(**where, port=self._port, sent=self._relay.sent, received=self._relay.received)
                )

    async def _serve(self) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                request = await next_event(self._client, self._receive)
        except h11.RemoteProtocolError as error:
            raise Denied(f"That is no HTTP request: {error}.", status=400) from error
        if not isinstance(request, h11.Request):
            return
        self._host = quoted(request.target.decode("ascii"))
        if request.http_version not in (b"1.0", b"1.1"):
            raise Denied("Only HTTP/1.0 and HTTP/1.1 are spoken here.", status=400)
        _check_framing(request)
        if request.method == b"CONNECT":
            await self._serve_tunnel(request)
        else:
            await self._serve_request(request)

    async def _serve_tunnel(self, request: h11.Request) -> None:
        self._host, self._port = authority(request.target.decode("ascii"))
        self._check_host(request, default_port=self._port)
        by, relay = await self._open()
        await asyncio.get_running_loop().sock_sendall(self._caller, b"HTTP/1.1 200 Connection established\r\n\r\n")
        self._tunnel = True
        self._client.next_event()  # the end of the request; what follows is the tunnel's
        hello, more = await self._read_hello(self._client.trailing_data[0])
        self._report(allowed=True, by=by)
        try:
            await relay.tunnel(hello, Handshake(self._host, more))
        except NotTls as error:
            raise Denied(f"The tunnel to {self._host} was closed: {error}.") from error

    async def _read_hello(self, data: bytes) -> tuple[bytes, bytes]:
        """Wait for a ClientHello for this host; returns it, and the bytes that came behind it."""
        reader = HelloReader()
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                while (name := reader.feed(data)) is None:
                    if not (data := await self._receive()):
                        raise NotTls("it ended before TLS began")
        except TimeoutError:
            raise Denied(f"The tunnel to {self._host} was closed: TLS did not begin in time.") from None
        except NotTls as error:
            raise Denied(f"The tunnel to {self._host} was closed: {error}.") from error
        if name != self._host:
            raise Denied(f"The tunnel to {self._host} was closed: in it, {quoted(name)} is asked for.")
        return reader.hello, reader.more

    async def _serve_request(self, request: h11.Request) -> None:
        target = request.target.decode("ascii")
        url = _URL.fullmatch(target)
        if url is None:
            raise Denied(f"{quoted(target)} is not a URL that begins with http://, without a fragment.", status=400)
        self._host, self._port = authority(url["authority"], default_port=80)
        self._check_host(request, default_port=80)
        by, relay = await self._open()
        self._report(allowed=True, by=by)
        named = self._host if self._port == 80 else f"{self._host}:{self._port}"
        headers = [(name, value) for name, value in end_to_end(request.headers) if name != b"host"]
        headers = [(b"Host", named.encode()), *headers, (b"Connection", b"close")]
        path = url["path"] if url["path"].startswith("/") else f"/{url['path']}"
        await relay.exchange(self._client, h11.Request(method=request.method, target=path, headers=headers))

    def _check_host(self, request: h11.Request, *, default_port: int) -> None:
        """Check that a Host header names the URL's host: servers differ in which of the two they believe."""
        for name, value in request.headers:
            if name == b"host":
                text = value.decode("latin-1")
                if authority(text, default_port=default_port) != (self._host, self._port):
                    raise Denied(f"The Host header {quoted(text)} is not the URL's host.", status=400)

    async def _open(self) -> tuple[By, HostConnection]:
        """Have the host decided, and connect to it."""
        self._budget.check()
        by = await self._gate.admit(self._host, self._port)
        # The look-up already tells the name to the domain's name server, so the name counts against the budget.
        self._budget.take("upload", len(self._host))
        server, self._address = await self._dialer.connect(self._host, self._port)
        self._relay = HostConnection(self._caller, server, budget=self._budget)
        return by, self._relay

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._caller, CHUNK_BYTES)

    def _report(self, *, allowed: bool, by: By, reason: str = "") -> None:
        where = {"host": self._host, "address": self._address}
        self._observe(HostDecided(**where, port=self._port, allowed=allowed, by=by, reason=reason))

    async def _refuse(self, denied: Denied) -> None:
        """Tell the caller why. The reason phrase has it too: of a refused tunnel, clients show nothing else."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LINGER_SECONDS):
            if self._tunnel and self._relay is not None and not self._relay.sent:
                await loop.sock_sendall(self._caller, UNRECOGNIZED_NAME)
            elif not self._tunnel and self._client.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                reason = denied.reason.encode("ascii", "backslashreplace")
                head = b"HTTP/1.1 %d %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                await loop.sock_sendall(self._caller, head % (denied.status, reason, len(reason) + 1) + reason + b"\n")
            self._caller.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(self._caller, CHUNK_BYTES):
                pass


def _check_framing(request: h11.Request) -> None:
    """Refuse ambiguous framing, by which a second request could be hidden in the first (request smuggling)."""
    names = [name for name, _ in request.headers]
    lengths, encodings = names.count(b"content-length"), names.count(b"transfer-encoding")
    allowed = 0 if request.method == b"CONNECT" else 1
    if lengths + encodings > allowed or (encodings and request.http_version < b"1.1"):
        raise Denied("The request says twice where it ends, or in a way that it can't.", status=400)
