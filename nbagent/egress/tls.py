"""Reads the server's name from the first message of a TLS connection, without taking part in it. Pure.

The name (SNI) is what the server shows its certificate for. It is sent in the clear, unless the client encrypts its
ClientHello (ECH): then the outer one is seen here, and its name counts.

Source:
    RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3.
"""

from __future__ import annotations

MAX_HELLO = 16 * 1024
"""Bytes that a ClientHello may have, the headers of its records included; with post-quantum keys it has some 2,000."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
_HEADER = 5

_CHANGE_CIPHER_SPEC, _ALERT, _APPLICATION_DATA, _SERVER_HELLO = 20, 21, 23, 2
MAX_RECORD = 2**14 + 256
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random number that marks a ServerHello as a HelloRetryRequest (RFC 8446, 4.1.3)."""

UNRECOGNIZED_NAME = bytes((21, 3, 3, 0, 2, 2, 112))
"""The fatal alert that a server sends for a name that it doesn't have."""


class NotTls(ValueError):  # noqa: N818 - the name says what is wrong
    """Bytes that are no valid ClientHello; the message says why, as the end of a sentence."""


class HelloReader:
    """Puts a ClientHello together from the pieces and records in which it comes.

    Attributes:
        received: All bytes so far.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self._message = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> str | None:
        """Add bytes; returns the server's name, in lower case, once the ClientHello is whole, else None.

        Raises:
            NotTls: It is no ClientHello, is too large, or names no server or several.
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

    @property
    def hello(self) -> bytes:
        """The records of the whole ClientHello."""
        return bytes(self.received[: self._at])

    @property
    def more(self) -> bytes:
        """The bytes that came after the hello."""
        return bytes(self.received[self._at :])

    def _next_record(self) -> bytes | None:
        """The content of the next whole record."""
        header = bytes(self.received[self._at : self._at + _HEADER])
        # At once, even if the header isn't whole: a client of another protocol may wait for an answer.
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


class Handshake:
    """Follows a TLS connection after its first ClientHello, to check that a second one names the same server.

    A server that can't use the keys in the first ClientHello asks for a second one, with a HelloRetryRequest. Handshake
    messages of the client are held back until it is known whether the server did so; no honest client sends any before.

    Args:
        name: The server that a second ClientHello must name.
        more: What the client sent right behind the first one.

    Attributes:
        answered: Whether the server has answered the first one.
    """

    def __init__(self, name: str, more: bytes = b"") -> None:
        self._name = name
        self._up, self._down = bytearray(more), bytearray()
        self._message = bytearray()
        self._second: HelloReader | None = None
        self._free = self.answered = False

    def down(self, data: bytes) -> None:
        """Take what the server sends; empty bytes are its end."""
        if self.answered:
            return
        self._down += data
        try:
            while (record := _record(self._down)) is not None and len(self._message) < 6 + len(RETRY):
                self._message += record[_HEADER:] if record[0] == _HANDSHAKE else b"\xff" * 64
        except NotTls:
            self._message += b"\xff" * 64
        if not data or len(self._message) >= 6 + len(RETRY):
            self.answered = True
            retry = self._message[:1] == bytes((_SERVER_HELLO,)) and self._message[6 : 6 + len(RETRY)] == RETRY
            self._second, self._free = (HelloReader(), False) if retry else (None, True)
            self._down.clear()

    def up(self, data: bytes) -> bytes:
        """Take what the client sends; returns the bytes that may go to the server now.

        Raises:
            NotTls: They are no TLS, or a second ClientHello that names another server.
        """
        self._up += data
        passing = bytearray()
        while not self._free:
            if self._up[:1] == bytes((_HANDSHAKE,)) and not self.answered:
                return bytes(passing)
            if (record := _record(self._up)) is None:
                return bytes(passing)
            passing += self._pass(record)
        passing += self._up
        self._up.clear()
        return bytes(passing)

    @property
    def waits(self) -> bool:
        """Whether bytes of the client's are held back until the server has answered."""
        return not self.answered and self._up[:1] == bytes((_HANDSHAKE,))

    def _pass(self, record: bytes) -> bytes:
        """The bytes that may go to the server now that the client sent this record, too."""
        if record[0] != _HANDSHAKE or self._second is None:
            return record
        name = self._second.feed(record)
        if name is None:
            return b""
        if name != self._name:
            raise NotTls("its second ClientHello names another server")
        self._free = True
        return self._second.hello


def _record(taken: bytearray) -> bytes | None:
    """Remove the next record, with its header, from the front; None if it isn't whole yet."""
    kinds = (_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA)
    if any(byte not in known for byte, known in zip(taken, (kinds, (3,)), strict=False)):
        raise NotTls("it is not TLS")
    if len(taken) < _HEADER:
        return None
    end = _HEADER + int.from_bytes(taken[3:_HEADER], "big")
    if end > _HEADER + MAX_RECORD:
        raise NotTls("it is not TLS")
    if len(taken) < end:
        return None
    record = bytes(taken[:end])
    del taken[:end]
    return record


def server_name(hello: bytes) -> str:
    """The one server name in a ClientHello (given without its header), in lower case.

    Raises:
        NotTls: The ClientHello is malformed, or has no name or several.
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
    """Reads bytes from front to end."""

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
        """A vector of TLS: its length, a number of `size` bytes, and as many bytes."""
        return self.take(self.number(size))
