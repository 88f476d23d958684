"""A small Internet of the tests' own: a host, a network, name servers and web servers with public addresses.

Two network namespaces, joined by a cable: in one live the servers, with addresses that look public and with private
ones that would answer too; the other is the host on which the proxy runs, with its own resolv.conf. In Linux namespaces
belong to threads, so both live in this process and end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme

NEW_NETWORK, NEW_MOUNTS = 0x40000000, 0x00020000
Result = TypeVar("Result")

PUBLIC, EVIL, OTHER = "93.184.216.34", "93.184.216.66", "93.184.216.77"
PUBLIC_6 = "2606:2800:220:1::34"
PRIVATE = ("10.0.0.5", "172.16.0.5", "192.168.1.1", "100.100.100.200", "169.254.169.254", "168.63.129.16")
PRIVATE_6 = ("fd00:ec2::254",)
NAME_SERVER, SILENT = "9.9.9.9", "9.9.9.10"
HOST, PEER = "93.184.215.2", "93.184.215.1"
WEB, TLS = (80, 8080), (443, 8443)
RETRIES = 8443
"""Where clients are asked for a second ClientHello, since the server has none of the keys that they guess at first."""


class Place:
    """A thread that lives in namespaces of its own; threads and programs that it starts live there too."""

    def __init__(self, namespaces: int) -> None:
        self._pool = ThreadPoolExecutor(1, initializer=self._enter, initargs=(namespaces,))
        self.thread = self.call(threading.get_native_id)

    @staticmethod
    def _enter(namespaces: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(namespaces) == 0, f"namespaces can't be made: {os.strerror(ctypes.get_errno())}"

    def call(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Do something there, and return its result."""
        return self._pool.submit(work, *arguments, **named).result()

    def run(self, *command: str) -> None:
        """Run a program there."""
        self.call(subprocess.run, command, check=True)

    def close(self) -> None:
        """End the thread, and with it what lives there only."""
        self._pool.shutdown()


class Web:
    """Web servers on all addresses of a place, which write down what they are asked."""

    def __init__(self, place: Place, *, certificate: trustme.LeafCert | None = None, text: str = "hello") -> None:
        self.seen: list[dict[str, Any]] = []
        self.names: list[str | None] = []
        self.text = text
        self._servers: list[ThreadingHTTPServer] = []
        self._threads: list[threading.Thread] = []
        for port in WEB:
            self._serve(place, port)
        if certificate is not None:
            for port in TLS:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                certificate.configure_cert(context)
                context.sni_callback = lambda _socket, name, _context: self.names.append(name)
                if port == RETRIES:
                    context.set_ecdh_curve("secp384r1")
                self._serve(place, port, context)

    def _serve(self, place: Place, port: int, context: ssl.SSLContext | None = None) -> None:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                web.answer(self)

            do_GET = do_POST = do_HEAD = do_PUT = answer  # noqa: N815 - the base's

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6
            daemon_threads = True

            def server_bind(self) -> None:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                super().server_bind()

            def get_request(self) -> tuple[Any, Any]:
                connection, address = super().get_request()
                if context is None:
                    return connection, address
                connection.settimeout(10)
                return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, *_: object) -> None:
                """A connection that was cut."""

        server = place.call(Server, ("::", port), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self._servers.append(server)
        self._threads.append(thread)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request: `/to?URL` redirects there, `/big` is a megabyte in chunks, `/old` has no end but its own."""
        length = int(request.headers.get("Content-Length", 0))
        chunked = request.headers.get("Transfer-Encoding") == "chunked"
        body = self._chunks(request) if chunked else request.rfile.read(length)
        self.seen.append(
            {
                "address": request.connection.getsockname()[0].removeprefix("::ffff:"),
                "method": request.command,
                "path": request.path,
                "headers": {name.lower(): value for name, value in request.headers.items()},
                "body": body,
            }
        )
        if request.path.startswith("/to?"):
            request.send_response(302)
            request.send_header("Location", request.path[4:])
            request.send_header("Content-Length", "0")
            request.end_headers()
        elif request.path == "/big":
            request.send_response(200)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            for _ in range(16):
                request.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            request.wfile.write(b"0\r\n\r\n")
        elif request.path == "/old":
            request.send_response(200)
            request.end_headers()
            request.wfile.write(b"until the end")
            request.close_connection = True
        else:
            text = self.text.encode()
            request.send_response(200)
            request.send_header("Content-Length", str(len(text)))
            request.send_header("Keep-Alive", "timeout=5")
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(text)

    @staticmethod
    def _chunks(request: BaseHTTPRequestHandler) -> bytes:
        body = b""
        while size := int(request.rfile.readline(), 16):
            body += request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return body

    def close(self) -> None:
        """Stop all of them."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()


class Names:
    """A name server. `table` has the addresses of a name; a list of lists is gone through, one answer a query."""

    def __init__(self, place: Place) -> None:
        self.table: dict[str, Any] = {}
        self.asked: list[str] = []
        self._socket = place.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((NAME_SERVER, 53))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                query, caller = self._socket.recvfrom(512)
            except OSError:
                return
            if not query:
                return  # closed
            if answer := self._answer(query):
                self._socket.sendto(answer, caller)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode())
            at += 1 + size
        name, (kind,) = ".".join(labels).lower(), struct.unpack("!H", query[at + 1 : at + 3])
        if kind == 1:
            self.asked.append(name)
        known = self.table.get(name)
        if known == "silent":
            return b""
        addresses = known or []
        if addresses and isinstance(addresses[0], list):
            addresses = addresses.pop(0) if kind == 1 and len(addresses) > 1 else addresses[0]
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [socket.inet_pton(family, each) for each in addresses if family and (":" in each) == (kind == 28)]
        flags = 0x8180 if known else 0x8183
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0) + query[12 : at + 5]
        return head + b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(each)) + each for each in found)

    def close(self) -> None:
        """Stop it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


class World:
    """All of it.

    Attributes:
        host: Where the proxy runs.
        web: The servers out there.
        own: The host's own servers, on loopback and on its public address.
        names: The name server.
        trust: What clients believe: the certificates of `web`.
        authority: The file of the same.
    """

    def __init__(self, folder: Path) -> None:
        assert shutil.which("ip"), "these tests need iproute2; run: .ci/setup tests"
        self._stack = contextlib.ExitStack()
        self._out = Place(NEW_NETWORK)
        self.host = Place(NEW_NETWORK | NEW_MOUNTS)
        for place in (self.host, self._out):
            self._stack.callback(place.close)
        self._lay_cables()
        resolver = f"nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\nsearch corp.test\n"
        (folder / "resolv.conf").write_text(resolver)
        (folder / "hosts").write_text("127.0.0.1 localhost listed.test\n")
        self.host.run("mount", "--make-rprivate", "/")
        for name in ("resolv.conf", "hosts"):
            self.host.run("mount", "--bind", str(folder / name), f"/etc/{name}")
        ca = trustme.CA()
        self.trust = ssl.create_default_context()
        ca.configure_trust(self.trust)
        self.authority = folder / "ca.pem"
        ca.cert_pem.write_to_path(self.authority)
        self.web = Web(self._out, certificate=ca.issue_cert("example.org", "*.example.org", "evil.test", "other.test"))
        self.own = Web(self.host, text="the host's own")
        self.names = Names(self._out)
        for server in (self.web, self.own, self.names):
            self._stack.callback(server.close)

    def _lay_cables(self) -> None:
        ip = "ip"
        self.host.run(ip, "link", "add", "out", "type", "veth", "peer", "name", "in", "netns", str(self._out.thread))
        for each in (PUBLIC, EVIL, OTHER, NAME_SERVER, SILENT, *PRIVATE):
            self._out.run(ip, "address", "add", f"{each}/32", "dev", "lo")
        for each in (PUBLIC_6, *PRIVATE_6):
            self._out.run(ip, "address", "add", f"{each}/128", "dev", "lo", "nodad")
        for place, card, address, peer in ((self.host, "out", HOST, PEER), (self._out, "in", PEER, HOST)):
            place.run(ip, "address", "add", f"{address}/24", "dev", card)
            number = 2 if address == HOST else 1
            place.run(ip, "address", "add", f"2606:2800:215::{number}/64", "dev", card, "nodad")
            for each in ("lo", card):
                place.run(ip, "link", "set", each, "up")
            place.run(ip, "route", "add", "default", "via", peer)
            place.run(ip, "-6", "route", "add", "default", "via", f"2606:2800:215::{3 - number}")

    def forget(self) -> None:
        """Start anew for the next test: names as they mostly are, nothing seen."""
        self.names.table = {
            "example.org": [PUBLIC],
            "www.example.org": [PUBLIC],
            "evil.test": [EVIL],
            "other.test": [OTHER],
            "six.example.org": [PUBLIC_6],
        }
        for seen in (self.names.asked, self.web.seen, self.web.names, self.own.seen):
            seen.clear()

    def close(self) -> None:
        """End it."""
        self._stack.close()


@pytest.fixture(scope="module")
def whole_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests of a file."""
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.close()


@pytest.fixture
def world(whole_world: World) -> World:
    """The same, as it was at first."""
    whole_world.forget()
    return whole_world
