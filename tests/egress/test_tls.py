"""The server's name in a ClientHello, from real ones and from broken ones."""

from __future__ import annotations

import random
import ssl

import pytest

from nbagent.egress.tls import MAX_HELLO, RETRY, Handshake, HelloReader, NotTls


def hello(name: str | None = "example.org", *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """A ClientHello as OpenSSL sends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.verify_mode = ssl.CERT_REQUIRED if name else ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def records(message: bytes, *, size: int) -> bytes:
    """A handshake message in records of a size."""
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(each).to_bytes(2, "big") + each for each in pieces)


def made(extensions: bytes) -> bytes:
    """A ClientHello with these extensions, in one record."""
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(extensions).to_bytes(2, "big") + extensions
    return records(b"\1" + len(body).to_bytes(3, "big") + body, size=2**14)


def names(*entries: tuple[int, bytes]) -> bytes:
    """The extension that names servers."""
    listed = b"".join(bytes((kind,)) + len(name).to_bytes(2, "big") + name for kind, name in entries)
    content = len(listed).to_bytes(2, "big") + listed
    return b"\0\0" + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_is_read_from_a_real_client_hello(version: ssl.TLSVersion) -> None:
    """From OpenSSL's own, in lower case."""
    assert HelloReader().feed(hello("Example.ORG", version=version)) == "example.org"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 2**14])
def test_records_may_be_of_any_size(size: int) -> None:
    """A ClientHello may be cut into records anywhere, also within its header."""
    assert HelloReader().feed(records(hello()[5:], size=size)) == "example.org"


def test_pieces_may_be_of_any_size() -> None:
    """It may come byte by byte, and what follows it is kept."""
    reader = HelloReader()
    whole = hello()
    for each in whole[:-1]:
        assert reader.feed(bytes((each,))) is None
    assert reader.feed(whole[-1:] + b"early data") == "example.org"
    assert bytes(reader.received) == whole + b"early data"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (b"SSH-2.0", "not TLS"),
        (b"\x80\x2e\x01\x00\x02", "not TLS"),  # SSL 2
        (b"\x17\x03\x03\x00\x01x", "not TLS"),
        (b"\x16\x03\x01\x00\x00", "not TLS"),
        (b"\x16\x03\x01\xff\xff", "not TLS"),
        (b"\x16\x02", "not TLS"),
        (b"\x16\x03\x03\x00\x04\x02\x00\x00\x00", "ClientHello"),
        (records(hello()[5:] + b"\x01", size=2**14), "something follows"),
        (made(b""), "no SNI"),
        (made(names((0, b"a.org")) + names((0, b"b.org"))), "several"),
        (made(names((0, b"a.org"), (0, b"b.org"))), "several"),
        (made(names((1, b"a.org"))), "several"),
        (made(names((0, b"\xff.org"))), "several"),
        (made(names()), "no SNI"),
        (made(names((0, b"a.org"))[:-1]), "malformed"),
        (made(b"\0\0\0\x09\0\x20\0\0\x05a.org"), "malformed"),
        (records(b"\1\0\0\1\3", size=9), "malformed"),
        (b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(2**14 - 4), "too large"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each[:9]!r}",
)
def test_anything_else_is_refused(data: bytes, why: str) -> None:
    """Other protocols, broken messages, no name, several names, too much."""
    with pytest.raises(NotTls, match=why):
        HelloReader().feed(data)


def test_without_a_name_it_is_refused() -> None:
    """OpenSSL's own without SNI."""
    with pytest.raises(NotTls, match="no SNI"):
        HelloReader().feed(hello(None))


def test_an_endless_one_is_refused() -> None:
    """Records of one byte can't be sent for ever."""
    reader = HelloReader()
    reader.feed(b"\x16\x03\x01\x00\x01\x01" + b"\x16\x03\x01\x00\x01\xff" * 3)
    for _ in range(MAX_HELLO // 6 - 4):
        assert reader.feed(b"\x16\x03\x01\x00\x01x") is None
    with pytest.raises(NotTls, match="too large"):
        reader.feed(b"\x16\x03\x01\x00\x01x")


def test_a_damaged_hello_is_read_awaited_or_refused() -> None:
    """With any bytes changed it is still read, waited for, or refused."""
    whole, chance = hello(), random.Random(7)  # noqa: S311 - the same damage each time
    seen = set()
    for _ in range(3000):
        damaged = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            seen.add(type(HelloReader().feed(bytes(damaged))))
        except NotTls:
            seen.add(NotTls)
    assert seen == {str, type(None), NotTls}


# -- after the first one ----------------------------------------------------------------------------------------------


ASKED = records(b"\2\0\0\x46" + b"\3\3" + RETRY + bytes(36), size=2**14)
ANSWERED = records(b"\2\0\0\x46" + b"\3\3" + bytes(68), size=2**14)
CHANGE = b"\x14\3\3\0\1\1"
DATA = b"\x17\3\3\0\4data"


@pytest.mark.parametrize("size", [1, 7, 2**14])
@pytest.mark.parametrize("before", [b"", CHANGE, DATA + CHANGE])
def test_a_second_hello_passes_for_the_same_server(size: int, before: bytes) -> None:
    """However it and the server's question are cut, whatever may stand before it; and then all passes."""
    handshake = Handshake("example.org")
    for each in records(ASKED[5:], size=size):
        handshake.down(bytes((each,)))
    assert handshake.answered
    second = before + records(hello()[5:], size=size)
    assert b"".join(handshake.up(bytes((each,))) for each in second) == second
    assert handshake.up(b"\x16\3\3 anything") == b"\x16\3\3 anything"


@pytest.mark.parametrize("size", [1, 7, 2**14])
@pytest.mark.parametrize("before", [b"", CHANGE, DATA + CHANGE])
def test_a_second_hello_for_another_server_doesn_t_pass(size: int, before: bytes) -> None:
    """Not a byte of it, and neither does anything else of a handshake in its place."""
    for second in (records(hello("evil.test")[5:], size=size), records(b"\x10\0\0\2ab", size=size)):
        handshake = Handshake("example.org")
        handshake.down(ASKED)
        assert passed_until_refused(handshake, before + second) == before


def passed_until_refused(handshake: Handshake, data: bytes) -> bytes:
    """What of data that comes byte by byte passes before it is refused, as some of it must be."""
    passed = b""
    for each in data:
        try:
            passed += handshake.up(bytes((each,)))
        except NotTls:
            return passed
    pytest.fail("all of it passed")


def test_a_handshake_waits_for_the_server() -> None:
    """What comes of it too early is held, and other records pass; asked or not, it is checked or goes on."""
    early = hello("evil.test")
    for said, passes in ((ANSWERED, True), (b"", True), (b"HTTP/1.1 400 ", True), (ASKED, False)):
        handshake = Handshake("example.org", DATA)
        assert handshake.up(early) == DATA
        assert handshake.waits
        handshake.down(said)
        assert not handshake.waits
        if passes:
            assert handshake.up(b"") == early
        else:
            with pytest.raises(NotTls, match="another server"):
                handshake.up(b"")


@pytest.mark.parametrize("wrong", [b"GET / HTTP/1.1", b"\x17\2\0", b"\x17\3\3\xff\xff"])
def test_what_is_no_tls_doesn_t_pass(wrong: bytes) -> None:
    """Other bytes after a ClientHello, and records larger than there are, end it."""
    with pytest.raises(NotTls):
        Handshake("example.org").up(wrong)
