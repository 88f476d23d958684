"""The proxy under test, started on the host of the tests' own Internet, and callers of every kind."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from egress.world import World

from nbagent.core.events import HostDecided
from nbagent.egress.listener import Egress
from nbagent.egress.proxy import ConnectionEnded
from nbagent.sandbox.inside import forward


@dataclass
class Proxy:
    """A proxy that runs, with what it told."""

    path: Path
    egress: Egress
    told: list[HostDecided | ConnectionEnded] = field(default_factory=list)

    @property
    def decisions(self) -> list[HostDecided]:
        """What was decided, in order."""
        return [each for each in self.told if isinstance(each, HostDecided)]

    @property
    def denied(self) -> str:
        """Why the last request was denied."""
        decision = self.decisions[-1]
        assert not decision.allowed
        return decision.reason

    def closed(self, count: int = 1) -> list[ConnectionEnded]:
        """The connections that have ended, once they are so many."""
        wait_for(lambda: sum(isinstance(each, ConnectionEnded) for each in self.told) >= count)
        return [each for each in self.told if isinstance(each, ConnectionEnded)]

    def connect(self) -> socket.socket:
        """A connection, as `forward.py` makes it."""
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(10)
        caller.connect(str(self.path))
        return caller

    def send(self, request: str | bytes) -> tuple[int, bytes]:
        """Send a request as it stands; returns the status and all that came back."""
        with self.connect() as caller:
            caller.sendall(request if isinstance(request, bytes) else request.encode("latin-1"))
            return answer(caller)

    def get(self, url: str, *, headers: str = "") -> tuple[int, bytes]:
        """Ask for a page over plain HTTP."""
        host = url.split("/")[2]
        return self.send(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")

    @contextlib.contextmanager
    def tunnel(self, target: str) -> Iterator[socket.socket]:
        """An open tunnel."""
        with self.connect() as caller:
            caller.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                more = caller.recv(1)
                assert more, f"the tunnel was not opened: {head!r}"
                head += more
            assert head.startswith(b"HTTP/1.1 200 "), head
            yield caller

    def secure(self, world: World, target: str, *, name: str | None = None) -> str:
        """Ask for a page over TLS; returns its text."""
        with self.tunnel(target) as caller:
            return page(caller, world.trust, name or target.partition(":")[0])


def page(caller: socket.socket, trust: ssl.SSLContext, name: str) -> str:
    """The text of a page, over TLS."""
    with trust.wrap_socket(caller, server_hostname=name) as secure:
        secure.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        return answer(secure)[1].decode()


def answer(caller: socket.socket) -> tuple[int, bytes]:
    """The status and the body of a response, up to the end of the connection; 0 if there is none."""
    whole = b""
    with contextlib.suppress(ConnectionError):
        while more := caller.recv(65536):
            whole += more
    head, _, body = whole.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has come about, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


Start = Callable[..., Proxy]


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    """Starts a proxy on the host of the small Internet; arguments as `Egress` has them."""
    with contextlib.ExitStack() as stack:

        def begin(*allowed: str, **named: Any) -> Proxy:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sock"
            told: list[HostDecided | ConnectionEnded] = []
            proxy = Proxy(path, Egress(allowed, observe=told.append, **named), told)
            world.host.call(proxy.egress.start, path)
            stack.callback(proxy.egress.close)
            return proxy

        yield begin


@contextlib.contextmanager
def forwarded(path: Path) -> Iterator[dict[str, str]]:
    """The inside half, as a process; yields the environment that names it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-I", forward.__file__, "127.0.0.1", str(port), str(path)]
    process = subprocess.Popen(command, env={})
    try:
        wait_for(lambda: reachable(port))
        names = ("http_proxy", "https_proxy", "all_proxy")
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        yield environment | {each: f"http://127.0.0.1:{port}" for name in names for each in (name, name.upper())}
    finally:
        process.kill()
        process.wait()


def reachable(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
