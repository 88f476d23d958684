"""What callers may ask of the proxy, with real servers and real TLS on a small Internet of the tests' own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys

import pytest
from egress.callers import Start, answer, forwarded, wait_for
from egress.test_tls import hello, records
from egress.world import PUBLIC, PUBLIC_6, World

from nbagent.core.events import HostDecided
from nbagent.egress import proxy
from nbagent.egress.tls import RETRY

# -- what is allowed --------------------------------------------------------------------------------------------------


def test_an_allowed_page_comes(start: Start, world: World) -> None:
    """Over plain HTTP, with its decision, the address and the bytes told."""
    proxy = start("example.org")
    status, body = proxy.get("http://example.org/page?q=1")
    assert (status, body) == (200, b"hello")
    assert world.web.seen[0]["path"] == "/page?q=1"
    (closed,) = proxy.closed()
    assert proxy.decisions == [HostDecided(host="example.org", port=80, allowed=True, by="list", address=PUBLIC)]
    assert (closed.host, closed.port, closed.address) == ("example.org", 80, PUBLIC)
    assert closed.sent > 40
    assert closed.received > 40


def test_an_allowed_tunnel_opens(start: Start, world: World) -> None:
    """Over TLS end to end: the server's certificate is checked by the caller, who asks for it by name."""
    proxy = start("example.org")
    assert proxy.secure(world, "example.org:443") == "hello"
    assert world.web.names == ["example.org"]
    (closed,) = proxy.closed()
    assert proxy.decisions == [HostDecided(host="example.org", port=443, allowed=True, by="list", address=PUBLIC)]
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
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            said = done.stdout + done.stderr
            assert (done.returncode == 0) is works, said
            assert ("hello" if works else "evil.test is not an allowed host; list evil.test in") in said


def test_a_connection_is_for_one_request(start: Start, world: World) -> None:
    """A second one that follows the first, or hides behind its end, reaches nobody."""
    proxy = start("example.org")
    get = "GET http://example.org/{} HTTP/1.1\r\nHost: example.org\r\n\r\n"
    evil = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    assert proxy.send(get.format("first") + get.format("second") + evil) == (200, b"hello")
    assert [each["path"] for each in world.web.seen] == ["/first"]
    assert [each.host for each in proxy.decisions] == ["example.org"]


# -- what is not ------------------------------------------------------------------------------------------------------


def test_a_host_that_is_not_listed_is_denied(start: Start, world: World) -> None:
    """With one sentence that names it and the mend; no name server is asked."""
    proxy = start("example.org")
    status, body = proxy.get("http://evil.test/")
    assert (status, body) == (
        403,
        b"evil.test is not an allowed host; list evil.test in allow_hosts (--allow-host evil.test, or Hosts in "
        b"JupyterLab's settings of nbagent).\n",
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
            done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
            assert (done.returncode == 0) is works
    assert {each["address"] for each in world.web.seen} == {PUBLIC}
    assert world.own.seen == []


# -- tunnels ----------------------------------------------------------------------------------------------------------


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


def test_a_second_hello_gets_through(start: Start, world: World) -> None:
    """A server may ask for other keys than the client guessed."""
    assert start("example.org:8443").secure(world, "example.org:8443") == "hello"


@pytest.mark.parametrize("waits", [True, False])
def test_a_second_hello_is_for_the_same_host(start: Start, waits: bool) -> None:
    """One that names another host ends the tunnel, also where it comes before it was asked for."""
    proxy, first = start("example.org:8443"), hello("example.org")
    with proxy.tunnel("example.org:8443") as caller:
        caller.sendall(first + (b"" if waits else hello("evil.test")))
        if waits:
            assert RETRY in caller.recv(65536)
            caller.sendall(hello("evil.test"))
        (closed,) = proxy.closed()
    assert proxy.denied == "The tunnel to example.org was closed: its second ClientHello names another server."
    assert closed.sent == len(first)


def test_a_second_hello_that_nobody_asked_for_is_the_servers_to_refuse(start: Start, world: World) -> None:
    """It waits for the server's answer, and the server, which has chosen, ends it."""
    proxy = start("example.org")
    with proxy.tunnel("example.org:443") as caller:
        caller.sendall(hello("example.org") + hello("evil.test"))
        while caller.recv(65536):
            pass
    assert world.web.names == ["example.org"]


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


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_slow_requests_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose head doesn't come in time is closed, and so is nothing at all."""
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 0.2)
    one = start("example.org")
    for first in (b"", b"GET http://example.org/ HTTP/1.1\r\nHost: exa"):
        with one.connect() as caller:
            caller.sendall(first)
            assert caller.recv(100) == b""
    assert one.told == []
