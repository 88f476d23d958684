"""Reads the server's name from the first message of a TLS connection, without taking part in it. Pure.

The name (SNI) is what the server shows its certificate for. It is sent in the clear, unless the client encrypts its
ClientHello (ECH): then the outer one is seen here, and its name counts.

Source:
    RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3.
"""

from __future__ import annotations

MAX_HELLO = 16 * 1024
"""Bytes that a ClientHello may take with the headers of its records; with post-quantum keys it is about 2,000."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_HEADER = 5

UNRECOGNIZED_NAME = bytes((21, 3, 3, 0, 2, 2, 112))
"""A fatal alert, as a server sends it for a name it doesn't have."""


class NotTls(ValueError):  # noqa: N818 - the name says what is wrong
    """What came is no ClientHello that can be read; the message says why, as the end of a sentence."""


class HelloReader:
    """Takes a ClientHello in however many pieces and records it comes.

    Attributes:
        received: All that was taken.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self._message = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> str | None:
        """Take more; returns the server's name, in lower case, once the ClientHello is whole, else None.

        Raises:
            NotTls: It isn't one, is too large, or names no server, or several.
        """
        self.received += data
        while (payload := self._next_record()) is not None:
            self._message += payload
            if self._message[0] != _CLIENT_HELLO:
                raise NotTls("it does not begin with a ClientHello")
            if len(self._message) >= 4:
                end = 4 + int.from_bytes(self._message[1:4], "big")
                if len(self._message) > end:
                    raise NotTls("something follows its ClientHello in the same record")
                if len(self._message) == end:
                    return server_name(bytes(self._message[4:]))
        if len(self.received) >= MAX_HELLO:
            raise NotTls("its ClientHello is too large")
        return None

    def _next_record(self) -> bytes | None:
        """The content of the next whole record."""
        header = bytes(self.received[self._at : self._at + _HEADER])
        # At once, even if the header isn't whole: who speaks something else may wait for an answer.
        if header[:1] not in (b"", bytes((_HANDSHAKE,))) or header[1:2] not in (b"", b"\x03"):
            raise NotTls("it is not TLS")
        if len(header) < _HEADER:
            return None
        length = int.from_bytes(header[3:], "big")
        if not 0 < length <= 2**14:
            raise NotTls("it is not TLS")
        start = self._at + _HEADER
        if len(self.received) < start + length:
            return None
        self._at = start + length
        return bytes(self.received[start : self._at])


def server_name(hello: bytes) -> str:
    """The one name in a ClientHello without its header, in lower case.

    Raises:
        NotTls: It can't be read, or has no name, or several.
    """
    body = _Bytes(hello)
    body.take(2 + 32)  # version, random
    body.vector(1)  # session
    body.vector(2)  # cipher suites
    body.vector(1)  # compression
    extensions = _Bytes(body.vector(2))
    names = []
    while extensions.left:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            entries = _Bytes(_Bytes(content).vector(2))
            while entries.left:
                names.append((entries.number(1), entries.vector(2)))
    if not names:
        raise NotTls("it names no server (no SNI)")
    (kind, name), *more = names
    if more or kind != _HOST_NAME or not name.isascii():
        raise NotTls("it names several servers, or none in a known form")
    return name.decode("ascii").lower()


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise NotTls("its ClientHello is cut or malformed")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """What follows its own length, a number of `size` bytes."""
        return self.take(self.number(size))
