"""The inside half of the way out: bytes from a loopback port to a Unix socket and back, in a process of its own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from egress.callers import reachable, wait_for

from nbagent.sandbox.inside import forward
from nbagent.sandbox.inside.forward import CONNECTIONS


class Forwarder:
    """A forwarder that runs, and the socket behind it, where the test is the proxy."""

    def __init__(self, path: Path) -> None:
        self.proxy = socket.socket(socket.AF_UNIX)
        self.proxy.bind(str(path))
        self.proxy.listen(2 * CONNECTIONS)
        self.proxy.settimeout(5)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-I", "-S", forward.__file__, "127.0.0.1", str(self.port), str(path)]
        self.started = subprocess.Popen(command, env={})
        self.process = psutil.Process(self.started.pid)
        wait_for(lambda: reachable(self.port))
        self.proxy.accept()[0].close()  # from the look whether it is there

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A connection: the program's end and the proxy's."""
        client = socket.create_connection(("127.0.0.1", self.port), 5)
        proxy, _ = self.proxy.accept()
        proxy.settimeout(5)
        return client, proxy

    def close(self) -> None:
        """End it."""
        self.proxy.close()
        self.started.kill()
        self.started.wait()


@pytest.fixture
def forwarder(tmp_path: Path) -> Iterator[Forwarder]:
    """A forwarder."""
    made = Forwarder(tmp_path / "egress.sock")
    yield made
    made.close()


def everything(connection: socket.socket) -> bytes:
    """What comes until the end."""
    whole = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65536):
            whole += more
    return whole


def test_it_needs_the_standard_library_only() -> None:
    """It runs in whatever Python a sandbox has, and costs no start."""
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    run = [sys.executable, "-I", "-S", "-c", code, forward.__file__]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert {"socket", "selectors"} <= set(loaded)
    assert not {"asyncio", "ssl", "logging", "threading", "nbagent"} & set(loaded)


def test_bytes_pass_both_ways_at_once(forwarder: Forwarder) -> None:
    """Megabytes in both directions, unchanged, each ended by itself."""
    client, proxy = forwarder.pair()
    sent = {client: os.urandom(3_000_000), proxy: os.urandom(5_000_000)}
    got: dict[socket.socket, bytes] = {}

    def send(connection: socket.socket) -> None:
        connection.sendall(sent[connection])
        connection.shutdown(socket.SHUT_WR)

    def receive(connection: socket.socket) -> None:
        got[connection] = everything(connection)

    threads = [threading.Thread(target=work, args=(each,)) for each in sent for work in (send, receive)]
    with client, proxy:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    digest = {each: hashlib.sha256(got[each]).hexdigest() for each in sent}
    assert digest == {
        client: hashlib.sha256(sent[proxy]).hexdigest(),
        proxy: hashlib.sha256(sent[client]).hexdigest(),
    }


def test_one_side_may_end_first(forwarder: Forwarder) -> None:
    """The other one sees the end, and may go on speaking."""
    pair = forwarder.pair()
    for speaker, listener in (pair, pair[::-1]):
        speaker.sendall(b"last words")
        speaker.shutdown(socket.SHUT_WR)
        assert everything(listener) == b"last words"
    for each in pair:
        each.close()


def test_who_is_turned_down_gets_to_know_why(forwarder: Forwarder) -> None:
    """An answer reaches a program that is still sending when the proxy has closed."""
    client, proxy = forwarder.pair()
    with client:
        client.sendall(b"x" * 50_000)
        proxy.recv(1000)
        proxy.sendall(b"HTTP/1.1 403 no\r\n\r\n")
        proxy.close()
        assert everything(client) == b"HTTP/1.1 403 no\r\n\r\n"


def test_a_slow_reader_slows_the_other_side(forwarder: Forwarder) -> None:
    """What is not taken is not read either: nothing piles up in the forwarder."""
    client, proxy = forwarder.pair()
    before = forwarder.process.memory_info().rss
    proxy.settimeout(0.5)
    sent = 0
    with client, proxy, contextlib.suppress(TimeoutError):
        while sent < 100_000_000:
            sent += proxy.send(b"x" * 65536)
    assert sent < 50_000_000
    assert forwarder.process.memory_info().rss - before < 2_000_000


def test_waiting_costs_nothing(forwarder: Forwarder) -> None:
    """Neither open connections nor half of them keep a core busy."""
    pairs = [forwarder.pair() for _ in range(10)]
    for client, proxy in pairs[:5]:
        client.shutdown(socket.SHUT_WR)
        assert proxy.recv(1) == b""
    for _, proxy in pairs[5:8]:
        proxy.close()
    time.sleep(0.1)
    before = sum(forwarder.process.cpu_times()[:2])
    time.sleep(0.6)
    assert sum(forwarder.process.cpu_times()[:2]) - before < 0.1
    for each in pairs:
        for end in each:
            end.close()


def test_only_so_many_at_a_time(forwarder: Forwarder) -> None:
    """Further programs wait until a connection ends."""
    pairs = [forwarder.pair() for _ in range(CONNECTIONS)]
    with socket.create_connection(("127.0.0.1", forwarder.port), 5) as client:
        forwarder.proxy.settimeout(0.3)
        with pytest.raises(TimeoutError):
            forwarder.proxy.accept()
        for each in pairs.pop():
            each.close()
        forwarder.proxy.settimeout(5)
        with forwarder.proxy.accept()[0] as proxy:
            proxy.sendall(b"now")
            assert client.recv(10) == b"now"
    for pair in pairs:
        for each in pair:
            each.close()


def test_nothing_is_left_of_what_has_ended(forwarder: Forwarder) -> None:
    """However connections end: politely, with a reset, one side only, with bytes on the way."""
    pairs = [forwarder.pair()]
    before = forwarder.process.num_fds() - 2
    for number in range(60):
        client, proxy = forwarder.pair()
        pairs.append((client, proxy))
        if number % 2:
            client.sendall(b"x" * 100)
        if number % 3 == 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        first, second = (client, proxy) if number % 5 else (proxy, client)
        first.close()
        if number % 7:
            everything(second)
    for pair in pairs:
        for each in pair:
            each.close()
    wait_for(lambda: forwarder.process.num_fds() <= before)


def test_without_a_proxy_programs_are_told(forwarder: Forwarder, tmp_path: Path) -> None:
    """The connection ends at once, and works again when there is one."""
    path = tmp_path / "egress.sock"
    path.rename(tmp_path / "away")
    with socket.create_connection(("127.0.0.1", forwarder.port), 5) as client:
        assert everything(client) == b""
    (tmp_path / "away").rename(path)
    client, proxy = forwarder.pair()
    with client, proxy:
        proxy.sendall(b"back")
        assert client.recv(10) == b"back"
