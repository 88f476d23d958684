"""Bytes between callers and servers: unchanged, counted, and never piled up."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
import tracemalloc

import pytest
from egress.callers import Start, answer, page, wait_for
from egress.world import World

from nbagent.egress import relay


def test_request_bodies_arrive_byte_for_byte(start: Start, world: World) -> None:
    """Bodies with a length and in chunks, large ones and empty ones, byte for byte."""
    proxy = start("example.org")
    large = os.urandom(300_000)
    head = "POST http://example.org/in HTTP/1.1\r\nHost: example.org\r\n"
    proxy.send(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large)
    chunk = f"{len(large):x}\r\n".encode() + large + b"\r\n"
    proxy.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + chunk + b"0\r\n\r\n")
    proxy.send(f"{head}\r\n")
    assert [each["body"] for each in world.web.seen] == [large, large * 2, b""]


def test_responses_arrive_byte_for_byte(start: Start) -> None:
    """A large response in chunks, and one without a body."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        caller.sendall(b"GET http://example.org/big HTTP/1.0\r\n\r\n")
        status, body = answer(caller)
    assert (status, len(body)) == (200, 1024 * 1024)
    assert proxy.send("HEAD http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n") == (200, b"")


def test_a_response_without_a_length_ends_as_its_caller_understands(start: Start) -> None:
    """A response without a length ends as its caller understands it: in chunks, or with the connection."""
    proxy = start("example.org")
    status, body = proxy.get("http://example.org/old")
    assert (status, body) == (200, b"d\r\nuntil the end\r\n0\r\n\r\n")
    assert proxy.send("GET http://example.org/old HTTP/1.0\r\n\r\n") == (200, b"until the end")


def test_a_caller_may_wait_to_be_told_to_go_on(start: Start, world: World) -> None:
    """`Expect: 100-continue` and its answer pass, and then the body."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        head = b"POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\n"
        caller.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert caller.recv(100).startswith(b"HTTP/1.1 100 ")
        caller.sendall(b"body")
        assert answer(caller) == (200, b"hello")
    assert world.web.seen[0]["body"] == b"body"


def test_headers_for_the_proxy_stay_with_it(start: Start, world: World) -> None:
    """Hop-by-hop and proxy headers are stripped, what `Connection` names too, and the others kept."""
    proxy = start("example.org")
    headers = (
        "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic c2VjcmV0", "Connection: x-mine, host, keep-alive",
        "X-Mine: 1", "Keep-Alive: 300", "TE: trailers", "Upgrade: websocket", "X-Kept: yes", "Cookie: a=b",
    )  # fmt: skip
    proxy.get("http://example.org/", headers="".join(f"{each}\r\n" for each in headers))
    found = world.web.seen[0]["headers"]
    assert found == {"host": "example.org", "connection": "close", "x-kept": "yes", "cookie": "a=b"}


def test_either_side_may_end_first(start: Start, world: World) -> None:
    """A caller that has said all still gets the answer; a server that has said all ends the tunnel."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        caller.sendall(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
        caller.shutdown(socket.SHUT_WR)
        assert answer(caller) == (200, b"hello")
    with proxy.tunnel("example.org:443") as caller:
        assert page(caller, world.trust, "example.org") == "hello"
    assert len(proxy.closed(2)) == 2


def test_the_budget_of_a_session_holds(start: Start, world: World) -> None:
    """What is too much is not sent; then nothing is, with the reason."""
    proxy = start("example.org", upload=100_000)
    head = "POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1000000\r\n\r\n"
    assert proxy.send(head.encode() + bytes(1_000_000))[0] == 403
    assert "upload budget of 100,000 bytes is used up" in proxy.denied
    assert sum(each.sent for each in proxy.closed()) <= 100_000
    assert proxy.get("http://example.org/")[0] == 403
    assert [len(each["body"]) <= 100_000 for each in world.web.seen] == [True]


def test_names_that_are_looked_up_are_part_of_the_budget(start: Start, world: World) -> None:
    """Of a domain that is allowed, code chooses the names, and who owns it reads them at its name server."""
    proxy = start("*.example.org", upload=1000)
    for number in range(200):
        proxy.get(f"http://secret-{number:03}.example.org/")
    assert "upload budget of 1,000 bytes is used up" in proxy.denied
    assert sum(map(len, set(world.names.asked))) <= 1000


def test_the_budget_holds_in_tunnels(start: Start, world: World) -> None:
    proxy = start("example.org", download=200_000)
    with (
        proxy.tunnel("example.org:443") as caller,
        world.trust.wrap_socket(caller, server_hostname="example.org") as secure,
    ):
        secure.sendall(b"GET /big HTTP/1.1\r\nHost: example.org\r\n\r\n")
        received = b""
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while more := secure.recv(65536):
                received += more
    assert 0 < len(received) <= 200_000
    wait_for(lambda: not proxy.decisions[-1].allowed)
    assert "download budget" in proxy.denied


def test_idle_connections_end(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that carries nothing is closed; one that carries a byte now and then is not."""
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.6)
    proxy = start("example.org")
    with proxy.tunnel("example.org:443") as caller:
        started = time.monotonic()
        with world.trust.wrap_socket(caller, server_hostname="example.org") as secure:
            for _ in range(6):
                time.sleep(0.15)
                secure.sendall(b"G")
            assert secure.recv(10) == b""
        assert 1.4 < time.monotonic() - started < 30


def test_a_slow_reader_does_not_fill_memory(start: Start, world: World) -> None:
    """What a caller doesn't take stays with the server."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        caller.sendall(b"GET http://example.org/big HTTP/1.1\r\nHost: example.org\r\n\r\n")
        wait_for(lambda: bool(world.web.seen))
        tracemalloc.start()
        try:
            time.sleep(0.3)
            assert tracemalloc.get_traced_memory()[1] < 600_000
        finally:
            tracemalloc.stop()
        assert len(answer(caller)[1]) > 1024 * 1024
