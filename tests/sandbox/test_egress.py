"""The proxy against real servers with real TLS, on a small Internet of the tests' own."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import machine
import pytest
from sandbox.callers import Proxy, Start, answer, forwarded, page, wait_for
from sandbox.test_tls import hello, records
from sandbox.world import EVIL, HOST, OTHER, PRIVATE, PRIVATE_6, PUBLIC, PUBLIC_6, World

from nbagent.errors import SandboxError, UsageError
from nbagent.sandbox import dial, egress, proxy, relay
from nbagent.sandbox.egress import Egress
from nbagent.sandbox.gate import Verdict
from nbagent.sandbox.proxy import Closed, Decision

# -- what is allowed ------------------------------------------------------------------------------------------------


def test_an_allowed_page_comes(start: Start, world: World) -> None:
    """Over plain HTTP, with its decision, the address and the bytes told."""
    proxy = start("example.org")
    status, body = proxy.get("http://example.org/page?q=1")
    assert (status, body) == (200, b"hello")
    assert world.web.seen[0]["path"] == "/page?q=1"
    (closed,) = proxy.closed()
    assert proxy.decisions == [Decision(host="example.org", port=80, allowed=True, by="list", address=PUBLIC)]
    assert (closed.host, closed.port, closed.address) == ("example.org", 80, PUBLIC)
    assert closed.sent > 40
    assert closed.received > 40


def test_an_allowed_tunnel_opens(start: Start, world: World) -> None:
    """Over TLS end to end: the server's certificate is checked by the caller, who asks for it by name."""
    proxy = start("example.org")
    assert proxy.secure(world, "example.org:443") == "hello"
    assert world.web.names == ["example.org"]
    (closed,) = proxy.closed()
    assert proxy.decisions == [Decision(host="example.org", port=443, allowed=True, by="list", address=PUBLIC)]
    assert closed.sent > 300
    assert closed.received > 300


def test_another_port_must_be_listed(start: Start, world: World) -> None:
    """With its port, a host is allowed there and nowhere else; it may speak either protocol."""
    proxy = start("example.org:8080", "example.org:8443")
    assert proxy.get("http://example.org:8080/") == (200, b"hello")
    assert world.web.seen[0]["headers"]["host"] == "example.org:8080"
    assert proxy.secure(world, "example.org:8443") == "hello"
    assert proxy.get("http://example.org/")[0] == 403
    assert proxy.get("http://example.org:8081/")[0] == 403


def test_a_domain_has_its_hosts(start: Start) -> None:
    """A wildcard allows names below it."""
    proxy = start("*.example.org")
    assert proxy.get("http://www.example.org/")[0] == 200
    assert proxy.get("http://example.org/")[0] == 403


def test_ipv6_works(start: Start, world: World) -> None:
    """A host that has only such an address is reached at it."""
    proxy = start("six.example.org")
    assert proxy.get("http://six.example.org/") == (200, b"hello")
    assert world.web.seen[0]["address"] == PUBLIC_6


@pytest.mark.parametrize("client", ["urllib", "httpx", "curl"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_programs_use_it_by_the_usual_variables(start: Start, world: World, client: str, scheme: str) -> None:
    """Unchanged clients, through the inside half, and each shows the reason of a denial."""
    proxy = start("example.org")
    urllib = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    httpx = "import sys, httpx; r = httpx.get(sys.argv[1]); print(r.text); assert r.is_success"
    commands = {
        "urllib": [sys.executable, "-c", urllib],
        "httpx": [sys.executable, "-c", httpx],
        "curl": ["curl", "--silent", "--show-error", "--include", "--fail-with-body"],
    }
    with forwarded(proxy.path) as environment:
        environment |= dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), str(world.authority))
        for host, works in (("example.org", True), ("evil.test", False)):
            command = [*commands[client], f"{scheme}://{host}/"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
            said = done.stdout + done.stderr
            assert (done.returncode == 0) is works, said
            assert ("hello" if works else "evil.test is not an allowed host; a person can") in said


def test_what_was_sent_arrives(start: Start, world: World) -> None:
    """Bodies with a length and in chunks, large ones and empty ones, byte for byte."""
    proxy = start("example.org")
    large = os.urandom(300_000)
    head = "POST http://example.org/in HTTP/1.1\r\nHost: example.org\r\n"
    proxy.send(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large)
    chunk = f"{len(large):x}\r\n".encode() + large + b"\r\n"
    proxy.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + chunk + b"0\r\n\r\n")
    proxy.send(f"{head}\r\n")
    assert [each["body"] for each in world.web.seen] == [large, large * 2, b""]


def test_what_comes_arrives(start: Start) -> None:
    """A large response in chunks, and one without a body."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        caller.sendall(b"GET http://example.org/big HTTP/1.0\r\n\r\n")
        status, body = answer(caller)
    assert (status, len(body)) == (200, 1024 * 1024)
    assert proxy.send("HEAD http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n") == (200, b"")


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


def test_a_connection_is_for_one_request(start: Start, world: World) -> None:
    """A second one that follows the first, or hides behind its end, reaches nobody."""
    proxy = start("example.org")
    get = "GET http://example.org/{} HTTP/1.1\r\nHost: example.org\r\n\r\n"
    evil = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    assert proxy.send(get.format("first") + get.format("second") + evil) == (200, b"hello")
    assert [each["path"] for each in world.web.seen] == ["/first"]
    assert [each.host for each in proxy.decisions] == ["example.org"]


# -- what is not ----------------------------------------------------------------------------------------------------


def test_a_host_that_is_not_listed_is_denied(start: Start, world: World) -> None:
    """With one sentence that names it and the mend; no name server is asked."""
    proxy = start("example.org")
    status, body = proxy.get("http://evil.test/")
    assert (status, body) == (
        403,
        b"evil.test is not an allowed host; a person can allow it with --allow-host evil.test.\n",
    )
    assert proxy.send("CONNECT evil.test:443 HTTP/1.0\r\n\r\n")[0] == 403
    assert world.names.asked == []
    assert [each.by for each in proxy.decisions] == ["policy", "policy"]


HOSTILE = (
    "example.org@evil.test", "example.org:80@evil.test", "evil.test#@example.org", "example.org\\@evil.test",
    "example.org\0.evil.test", "example.org%00.evil.test", "example.org%2eevil.test", "example.org.evil.test",
    "evilexample.org", "evil-example.org", "example.org.", "example.org..", ".example.org", "example.org:80:80",
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "[::1]",
    "[::ffff:127.0.0.1]", "[fd00:ec2::254]", "169.254.169.254", "0251.254.169.254", "localhost", "93.184.216.34",
    "ex\xe4mple.org", "xn--exmple-cua.org", "xn--example-.org", "example.org:", "example.org:0", "example.org:99999",
    "example.org,evil.test", "example.org;evil.test", "*.org", "*", "example.org\t", "example.org:80 ",
)  # fmt: skip


@pytest.mark.parametrize("host", HOSTILE, ids=ascii)
def test_a_host_that_looks_like_another_is_denied(start: Start, world: World, host: str) -> None:
    """User information, NUL, suffixes, dots, escapes, addresses in any notation, other letters: in all three places."""
    proxy = start("example.org", "localhost")
    for request in (
        f"GET http://{host}/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        f"GET http://example.org/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        f"CONNECT {host}:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
        f"CONNECT {host}:443 HTTP/1.0\r\n\r\n",
        f"CONNECT example.org:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n",
    ):
        if host.strip() in ("example.org", "example.org:80") and request.startswith("GET http://example.org/"):
            continue  # white space around a header's value means nothing
        status, _ = proxy.send(request)
        assert status in (400, 403, 502), request
        assert not proxy.decisions[-1].allowed
    assert world.web.seen == world.own.seen == []


@pytest.mark.parametrize(
    "request_",
    [
        "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET //example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET https://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET ftp://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http:/example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http:///example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http://example.org/#@evil.test/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nHost: evil.test\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost: example.org:8080\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost:\r\n\r\n",
        "GET http://example.org/\r\nX: y HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http://example.org/ x HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nX: a\rb\r\n\r\n",
        "GET http://example.org/ HTTP/1.1\r\nHost : example.org\r\n\r\n",
        "GET http://example.org/ HTTP/2.0\r\nHost: example.org\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT example.org HTTP/1.0\r\n\r\n",
        "CONNECT http://example.org:443/ HTTP/1.0\r\n\r\n",
        "CONNECT example.org:443/ HTTP/1.0\r\n\r\n",
        "CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        "CONNECT example.org:443 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        "CONNECT example.org:443 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "CONNECT example.org:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "hello\r\n\r\n",
        f"GET http://example.org/{'x' * 200_000} HTTP/1.1\r\nHost: example.org\r\n\r\n",
    ],
    ids=lambda each: ascii(each[:60]),
)
def test_a_request_that_makes_no_sense_is_denied(start: Start, world: World, request_: str) -> None:
    """Another form of URL, a Host header that is missing, doubled or another one, split lines, other protocols."""
    proxy = start("example.org")
    status, body = proxy.send(request_)
    assert status == 400
    assert body.decode("ascii").endswith(".\n")
    assert not proxy.decisions[-1].allowed
    assert world.web.seen == []


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 40",
        "Content-Length: 5, 40",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: \x0bchunked",
        "Content-Length: 5\r\n Transfer-Encoding: chunked",
    ],
    ids=ascii,
)
def test_a_request_can_not_hide_another(start: Start, world: World, framing: str) -> None:
    """Two statements of where it ends, or one that programs read differently, are turned down before a byte is sent."""
    proxy = start("example.org")
    body = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    request = f"POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\n{framing}\r\n\r\n{body}"
    assert proxy.send(request)[0] == 400
    old = f"POST http://example.org/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
    assert proxy.send(old)[0] == 400
    assert world.web.seen == []


def test_a_broken_body_is_cut(start: Start, world: World) -> None:
    """A chunk that lies about its size ends the connection; what follows reaches nobody as a request."""
    proxy = start("example.org")
    head = "POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n"
    proxy.send(f"{head}1\r\nxyzGET /hidden HTTP/1.1\r\n\r\n")
    proxy.closed()
    assert all(each["path"] != "/hidden" for each in world.web.seen)


def test_a_redirect_is_a_new_request(start: Start, world: World) -> None:
    """An allowed host can send its visitors anywhere, and they are checked there like anybody."""
    proxy = start("example.org")
    follow = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    with forwarded(proxy.path) as environment:
        for to, works in (("example.org/there", True), ("evil.test/", False), ("127.0.0.1/", False)):
            command = [sys.executable, "-c", follow, f"http://example.org/to?http://{to}"]
            done = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False)
            assert (done.returncode == 0) is works
    assert {each["address"] for each in world.web.seen} == {PUBLIC}
    assert world.own.seen == []


# -- names and addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses",
    [
        *([each] for each in (*PRIVATE, *PRIVATE_6)),
        *(["127.0.0.1"], ["127.0.0.53"], ["0.0.0.0"], ["::1"], ["::"]),  # noqa: S104
        *(["::ffff:127.0.0.1"], ["::ffff:93.184.216.34"]),
        *(["fe80::1"], ["ff02::1"], ["224.0.0.1"], ["255.255.255.255"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"]),
        *([HOST], ["2606:2800:215::2"], [PUBLIC, "10.0.0.5"], [PUBLIC, PUBLIC_6, "fd00:ec2::254"]),
    ],
    ids=str,
)
def test_an_address_that_is_not_out_there_is_refused(start: Start, world: World, addresses: list[str]) -> None:
    """However a name leads inwards: private, loopback, metadata, embedded, this machine's own, one among good ones."""
    proxy = start("inward.test")
    world.names.table["inward.test"] = addresses
    assert proxy.get("http://inward.test/")[0] == 403
    assert proxy.send("CONNECT inward.test:443 HTTP/1.0\r\n\r\n")[0] == 403
    assert "not on the public Internet" in proxy.denied
    assert world.own.seen == world.web.seen == []


def test_those_addresses_would_answer(world: World) -> None:
    """The refusals above are what keeps them: without them, what listens there is reached."""
    for address in (*PRIVATE, *PRIVATE_6, "127.0.0.1", HOST):
        world.host.call(socket.create_connection, (address, 80), 5).close()


def test_names_of_the_host_itself_mean_nothing(start: Start, world: World) -> None:
    """Neither its /etc/hosts nor its search domains lead an allowed name elsewhere."""
    proxy = start("localhost", "listed.test", "short", "gone.test")
    world.names.table |= {"short.corp.test": [EVIL], "gone.test.corp.test": [EVIL]}
    for name in ("localhost", "listed.test", "short", "gone.test"):
        assert proxy.get(f"http://{name}/")[0] == 502
        assert proxy.denied == f"The name {name} is not known."
    assert world.own.seen == world.web.seen == []


def test_a_name_is_looked_up_once(start: Start, world: World) -> None:
    """The connection goes to the address that was checked, whatever the name server says a moment later."""
    proxy = start("turning.test")
    world.names.table["turning.test"] = [[PUBLIC], ["127.0.0.1"]]
    assert proxy.get("http://turning.test/") == (200, b"hello")
    assert world.names.asked == ["turning.test"]
    assert world.web.seen[0]["address"] == PUBLIC
    assert proxy.get("http://turning.test/")[0] == 403
    assert world.own.seen == []


def test_the_next_address_is_tried(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that does not answer costs its own time only."""
    monkeypatch.setattr(dial, "ONE_SECONDS", 0.3)
    proxy = start("two.test")
    world.names.table["two.test"] = ["93.184.216.200", PUBLIC]
    assert proxy.get("http://two.test/")[0] == 200
    world.names.table["two.test"] = ["93.184.216.200"]
    status, body = proxy.get("http://two.test/")
    assert status == 502
    assert body.startswith(b"two.test can't be reached: ")


def test_a_silent_name_server_holds_nobody_up(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the caller is told, and others are served meanwhile."""
    monkeypatch.setattr(dial, "LOOKUP_SECONDS", 0.5)
    proxy = start("silent.test", "example.org")
    world.names.table["silent.test"] = "silent"
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(proxy.get, "http://silent.test/") for _ in range(4)]
        assert proxy.get("http://example.org/")[0] == 200
        assert [each.result()[0] for each in slow] == [504] * 4


# -- tunnels --------------------------------------------------------------------------------------------------------


def test_a_tunnel_is_for_its_host_only(start: Start, world: World) -> None:
    """Who asks for another certificate in it is cut off, and the server hears nothing."""
    proxy = start("example.org")
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        proxy.secure(world, "example.org:443", name="evil.test")
    assert proxy.denied == "The tunnel to example.org was closed: in it, 'evil.test' is asked for."
    (closed,) = proxy.closed()
    assert (closed.sent, closed.received) == (0, 0)
    assert world.web.names == []


@pytest.mark.parametrize("port", [443, 8443, 8080])
@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\0" * 100,
        hello(None),
        hello("example.org.evil.test"),
        hello("www.example.org"),
    ],
    ids=lambda each: f"{each[:5]!r}+{len(each)}",
)
def test_a_tunnel_is_for_tls_only(start: Start, world: World, port: int, first: bytes) -> None:
    """At any port, listed or not by its number: other protocols and other names end it before a byte is sent."""
    proxy = start("example.org", "example.org:8443", "example.org:8080")
    with proxy.tunnel(f"example.org:{port}") as caller:
        caller.sendall(first)
        assert caller.recv(100)[:1] == b"\x15"  # an alert
        assert caller.recv(100) == b""
    assert proxy.denied.startswith("The tunnel to example.org was closed: ")
    assert proxy.closed()[0].sent == 0
    assert world.web.seen == []


def test_silence_in_a_tunnel_ends_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing, or half of something, is cut off after a few seconds."""
    monkeypatch.setattr(proxy, "HELLO_SECONDS", 0.2)
    one = start("example.org")
    for first in (b"", hello()[:50]):
        with one.tunnel("example.org:443") as caller:
            caller.sendall(first)
            assert caller.recv(100)[:1] == b"\x15"
        assert "TLS did not begin in time" in one.denied


@pytest.mark.parametrize("size", [1, 20, 100])
def test_a_hello_in_pieces_gets_through(start: Start, world: World, size: int) -> None:
    """TLS begins however its first message is cut, into records and into segments."""
    proxy = start("example.org")
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = world.trust.wrap_bio(*ends, server_hostname="example.org")
    with contextlib.suppress(ssl.SSLWantReadError):
        secure.do_handshake()
    first = records(ends[1].read()[5:], size=size)
    with proxy.tunnel("example.org:443") as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for at in range(0, len(first), 33):
            caller.sendall(first[at : at + 33])
        ends[0].write(caller.recv(65536))
        with contextlib.suppress(ssl.SSLWantReadError):
            secure.do_handshake()
        wait_for(lambda: world.web.names == ["example.org"])


def test_bytes_that_come_with_the_request_count(start: Start, world: World) -> None:
    """A ClientHello right behind CONNECT, in the same packet, is seen like any other."""
    proxy = start("example.org")
    with proxy.connect() as caller:
        caller.sendall(b"CONNECT example.org:443 HTTP/1.0\r\n\r\n" + hello("evil.test"))
        assert answer(caller)[0] == 200
    assert "'evil.test' is asked for" in proxy.denied
    with proxy.connect() as caller:
        caller.sendall(b"CONNECT example.org:443 HTTP/1.0\r\n\r\n" + hello("example.org"))
        wait_for(lambda: world.web.names == ["example.org"])


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


# -- questions ------------------------------------------------------------------------------------------------------


def test_a_person_is_asked(start: Start) -> None:
    """From another thread, while the caller waits; the decision says who made it."""
    asked: list[tuple[str, int]] = []

    def decide(host: str, port: int) -> Future[Verdict]:
        asked.append((host, port))
        future: Future[Verdict] = Future()
        threading.Timer(0.05, future.set_result, [Verdict.SESSION if host == "other.test" else Verdict.DENY]).start()
        return future

    proxy = start("example.org", decide=decide)
    for _ in range(2):
        assert proxy.get("http://other.test/") == (200, b"hello")
        assert proxy.get("http://evil.test/")[0] == 403
    assert asked == [("other.test", 80), ("evil.test", 80)]
    assert proxy.denied.startswith("A person denied evil.test")
    decisions = [(each.host, each.allowed, each.by, each.address) for each in proxy.decisions[:2]]
    assert decisions == [("other.test", True, "person", OTHER), ("evil.test", False, "person", "")]


def test_what_a_person_allows_is_still_checked(start: Start, world: World) -> None:
    """A person allows a name, not the way inwards."""

    def decide(*_: object) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        future.set_result(Verdict.SESSION)
        return future

    proxy = start(decide=decide)
    world.names.table["inward.test"] = ["169.254.169.254"]
    assert proxy.get("http://inward.test/")[0] == 403
    assert world.web.seen == []


def test_nobody_answers(start: Start) -> None:
    """The question's time is a denial; the end of the proxy takes open questions back."""
    questions: list[Future[Verdict]] = []

    def decide(*_: object) -> Future[Verdict]:
        questions.append(Future())
        return questions[-1]

    proxy = start(decide=decide, ask_seconds=0.2)
    assert proxy.get("http://example.org/")[0] == 403
    assert "Nobody allowed example.org within 0.2 s" in proxy.denied
    other = start(decide=decide)
    with other.connect() as caller:
        caller.sendall(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
        wait_for(lambda: len(questions) == 2)
        other.egress.close()
        assert caller.recv(100) == b""
    assert [each.cancelled() for each in questions] == [True, True]


def test_the_list_can_grow(start: Start) -> None:
    """A person adds a host while the sandbox runs."""
    proxy = start()
    assert proxy.get("http://example.org/")[0] == 403
    proxy.egress.allow("example.org")
    assert proxy.get("http://example.org/")[0] == 200
    with pytest.raises(UsageError):
        proxy.egress.allow("http://example.org")


# -- bounds ---------------------------------------------------------------------------------------------------------


def test_the_budget_of_a_session_holds(start: Start, world: World) -> None:
    """What is too much is not sent; then nothing is, with the reason."""
    proxy = start("example.org", upload=100_000)
    head = "POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1000000\r\n\r\n"
    assert proxy.send(head.encode() + bytes(1_000_000))[0] == 403
    assert "upload budget of 100,000 bytes is used up" in proxy.denied
    assert sum(each.sent for each in proxy.closed()) <= 100_000
    assert proxy.get("http://example.org/")[0] == 403
    assert [len(each["body"]) <= 100_000 for each in world.web.seen] == [True]


def test_the_budget_holds_in_tunnels(start: Start, world: World) -> None:
    """A download that is too much is cut."""
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
    monkeypatch.setattr(relay, "IDLE_SECONDS", 0.4)
    proxy = start("example.org")
    with proxy.tunnel("example.org:443") as caller:
        started = time.monotonic()
        with world.trust.wrap_socket(caller, server_hostname="example.org") as secure:
            for _ in range(6):
                time.sleep(0.15)
                secure.sendall(b"G")
            assert secure.recv(10) == b""
        assert 1.2 < time.monotonic() - started < 3


def test_slow_requests_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose head doesn't come in time is closed, and so is nothing at all."""
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 0.2)
    one = start("example.org")
    for first in (b"", b"GET http://example.org/ HTTP/1.1\r\nHost: exa"):
        with one.connect() as caller:
            caller.sendall(first)
            assert caller.recv(100) == b""
    assert one.told == []


def test_only_so_many_at_a_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further callers wait until one leaves; then they are served."""
    monkeypatch.setattr(egress, "CONNECTIONS", 4)
    proxy = start("example.org")
    with contextlib.ExitStack() as stack:
        holding = [stack.enter_context(proxy.connect()) for _ in range(4)]
        time.sleep(0.1)
        with proxy.connect() as caller:
            caller.sendall(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
            caller.settimeout(0.3)
            with pytest.raises(TimeoutError):
                caller.recv(100)
            holding[0].close()
            caller.settimeout(10)
            assert answer(caller) == (200, b"hello")


def test_many_connections_leave_nothing(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither memory, descriptors nor threads grow with what has been served or denied."""
    monkeypatch.setattr(egress, "PACE", 0)
    proxy = start("example.org")

    def burst(count: int) -> None:
        for number in range(count):
            assert proxy.get("http://example.org/" if number % 4 == 0 else f"http://h{number}.test/")[0] in (200, 403)
        proxy.closed()
        for each in (proxy.told, world.web.seen, world.names.asked):
            each.clear()

    burst(200)
    tracemalloc.start()
    try:
        burst(200)
        before = tracemalloc.get_traced_memory()[0]
        descriptors, threads = machine.descriptors(), threading.active_count()
        burst(1000)
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()
    assert machine.descriptors() <= descriptors + 2
    assert threading.active_count() <= threads + 2


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


def test_a_busy_controller_does_not_stall_it(start: Start) -> None:
    """It serves while this thread does nothing but compute."""
    proxy = start("example.org")
    with ThreadPoolExecutor() as pool:
        got = pool.submit(proxy.get, "http://example.org/")
        end = time.monotonic() + 10
        while not got.done():
            assert time.monotonic() < end
            sum(range(1000))
        assert got.result()[0] == 200


# -- its life -------------------------------------------------------------------------------------------------------


def test_its_socket_is_for_anybody_who_sees_it(start: Start) -> None:
    """The sandbox's own user gets through; the folder says who sees it."""
    assert stat.S_IMODE(start().path.stat().st_mode) == 0o666


def test_closing_leaves_nothing(tmp_path: Path) -> None:
    """Neither thread, descriptor nor socket; connections that are open are cut; closing again does nothing."""
    path = tmp_path / "s"
    before, threads = machine.descriptors(), threading.active_count()
    for _ in range(3):
        one = Egress(["example.org"])
        one.close()
        one.start(path)
        with Proxy(path, one).connect() as caller:
            time.sleep(0.05)
            one.close()
            assert caller.recv(1) == b""
        one.close()
        assert not path.exists()
    assert machine.descriptors() == before
    assert threading.active_count() == threads


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a controller that died has left doesn't stop the next one."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    one = Egress([])
    one.start(path)
    with Proxy(path, one).connect() as caller:
        caller.sendall(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert answer(caller)[0] == 403
    one.close()


def test_a_socket_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    """With the mend, and nothing left."""
    before = machine.descriptors()
    with pytest.raises(SandboxError, match="can't be made") as caught:
        Egress([]).start(tmp_path / ("x" * 120))
    assert "XDG_RUNTIME_DIR" in caught.value.mend
    assert machine.descriptors() == before


def test_who_is_told_may_fail(tmp_path: Path, world: World) -> None:
    """A reader of decisions that raises ends no connection."""

    def broken(_: Decision | Closed) -> None:
        raise RuntimeError("the loop is closed")

    one = Egress(["example.org"], notify=broken)
    world.host.call(one.start, tmp_path / "s")
    assert Proxy(tmp_path / "s", one).get("http://example.org/")[0] == 200
    one.close()
