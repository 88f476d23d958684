"""The wire protocol of ZeroMQ's sockets, ZMTP 3.0 with no encryption: bytes in, messages out, bounded. Pure.

A kernel speaks it at the other end of each of its Unix sockets, and so does hostile code, which owns that end and can
write anything to it. libzmq bounds the frames of a message, and how many whole messages wait; a message whose frames
never end grows it without limit. Here nothing grows beyond `MAX_MESSAGE`. See https://rfc.zeromq.org/spec/23/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nbagent.core.policy import MIB

MAX_MESSAGE: Final = 64 * MIB
"""Bytes of one message with all its frames. nbagent's kernels send less, see `inside/message_sizes_inside.py`."""
MAX_FRAMES: Final = 4_096
"""Frames of one message: six, and one for each binary buffer."""
GREETING_BYTES: Final = 64
_MAX_READY: Final = 4_096
_LARGE: Final = MIB
"""Bytes of a frame that is not held twice for longer than it takes to copy it."""
_MORE, _LONG, _COMMAND = 1, 2, 4


SUBSCRIBE_ALL: Final = (b"\x01",)
"""The message by which a SUB hears everything that is published."""


class BreachError(Exception):
    """The other end broke the protocol or a bound; the text says how, as a predicate: `sent a message …`."""


def hello(socket_type: str) -> bytes:
    """The greeting that a client sends at once, as a `DEALER` or a `SUB`, which receives what it subscribes to.

    It must not send messages before the other end is ready.
    """
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    kind = socket_type.encode()
    ready = b"\x05READY" + b"\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return greeting + bytes((_COMMAND, len(ready))) + ready


def encode(frames: Iterable[bytes]) -> bytes:
    """A message as bytes on the wire."""
    pieces = []
    bodies = list(frames)
    for number, body in enumerate(bodies, start=1):
        more = _MORE if number < len(bodies) else 0
        size = len(body)
        pieces += [bytes((more, size)) if size < 256 else bytes((more | _LONG,)) + size.to_bytes(8, "big"), body]
    return b"".join(pieces)


class Decoder:
    """Turns the bytes from one end of a connection into messages. It holds at most one incomplete message.

    Attributes:
        is_ready: Whether the other end takes messages.
        ready: The command, as it came, by which it said so.
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._at = 0
        self._frames: list[bytes] = []
        self._size = 0
        self._greeted = self.is_ready = False
        self.ready = b""

    def feed(self, data: bytes) -> None:
        """Add bytes that were read."""
        del self._buffer[: self._at]
        self._at = 0
        self._buffer += data

    def messages(self) -> Iterator[list[bytes]]:
        """The complete messages, as lists of frames.

        Raises:
            BreachError: The other end broke the protocol or a bound.
        """
        if not self._greeted and not self._greet():
            return
        while (found := self._frame()) is not None:
            flags, body = found
            if flags & _COMMAND:
                self._command(flags, body)
                continue
            self._frames.append(body)
            if not flags & _MORE:
                frames, self._frames, self._size = self._frames, [], 0
                yield frames

    def _greet(self) -> bool:
        if len(self._buffer) < GREETING_BYTES:
            return False
        greeting = self._buffer[:GREETING_BYTES]
        mechanism = greeting[12:32].rstrip(b"\0")
        if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3 or mechanism != b"NULL":
            raise BreachError("sent something that is no message")
        self._greeted = True
        self._at = GREETING_BYTES
        return True

    def _frame(self) -> tuple[int, bytes] | None:
        """The next frame that is whole, its flags and its body; its size is known and judged before it is there."""
        buffer, at = self._buffer, self._at
        have = len(buffer) - at
        if have < 2:
            return None
        flags = buffer[at]
        if flags & _LONG:
            if have < 9:
                return None
            size, start = int.from_bytes(buffer[at + 1 : at + 9], "big"), at + 9
        else:
            size, start = buffer[at + 1], at + 2
        self._judge(flags, size)
        end = start + size
        if end > len(buffer):
            return None
        with memoryview(buffer) as view:
            body = bytes(view[start:end])
        self._at = end
        if size > _LARGE:
            # While it is parsed, which takes as much again.
            self.feed(b"")
        if not flags & _COMMAND:
            self._size += size
        return flags, body

    def _judge(self, flags: int, size: int) -> None:
        if flags & ~(_MORE | _LONG | _COMMAND) or bool(flags & _COMMAND) == self.is_ready:
            raise BreachError("sent something that is no message")
        if flags & _COMMAND and size > _MAX_READY:
            raise BreachError("sent something that is no message")
        if self._size + size > self._limit:
            raise BreachError(f"sent a message of more than {self._limit // MIB} MB")
        if len(self._frames) >= MAX_FRAMES:
            raise BreachError(f"sent a message of more than {MAX_FRAMES:,} parts")

    def _command(self, flags: int, body: bytes) -> None:
        if not body.startswith(b"\x05READY"):
            raise BreachError("sent something that is no message")
        self.is_ready = True
        self.ready = bytes((flags,)) + len(body).to_bytes(8 if flags & _LONG else 1, "big") + body
