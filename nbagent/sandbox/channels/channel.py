"""One channel of a kernel: a socket that is read only when somebody asks, and never waits.

What nobody asked for stays in the socket's own small buffer, and behind that with who sends it. However much comes,
this side holds a chunk of it and one message that is not whole.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Final

from nbagent.sandbox.channels.zmtp import MAX_MESSAGE, SUBSCRIBE_ALL, Decoder, encode, hello

CHUNK: Final = 256 * 1024
"""Bytes that are read at once; Linux holds about 200 KB for a reader that is not there."""


class SocketChannel:
    """A connection to one of the kernel's sockets.

    Args:
        address: Of the socket, which listens already; the kernel may not be up yet.
        kind: What this end is, in ZeroMQ's terms: `DEALER`, or `SUB` to all that is published.
        limit: Bytes of one message that comes.
        family: What the address is: a Unix socket's path, or a host and a port.

    Attributes:
        is_open: Whether more can come. The other end closed it, or this one.
    """

    def __init__(
        self,
        address: str | tuple[str, int],
        *,
        kind: str,
        limit: int = MAX_MESSAGE,
        family: socket.AddressFamily = socket.AF_UNIX,
    ) -> None:
        self.is_open = True
        self._decoder = Decoder(limit)
        self._unsent = bytearray()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.connect(address)
            self._socket.setblocking(False)
            self._socket.send(hello(kind))
        except OSError:
            # The kernel ended right after it was started; who looks at its process will know more.
            self.close()
        if kind == "SUB":
            self.send(SUBSCRIBE_ALL)

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it at once; what was not sent or not read is gone."""
        self.is_open = False
        self._socket.close()

    @property
    def is_ready(self) -> bool:
        """Whether the other end takes messages yet; until then they are kept."""
        return self._decoder.is_ready

    @property
    def is_unsent(self) -> bool:
        """Whether something waits that could be sent if the other end took it."""
        return self.is_open and self.is_ready and bool(self._unsent)

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message, or what of it can be sent now; `flush` goes on with it."""
        if self.is_open:
            self._unsent += encode(frames)
            self.flush()

    def flush(self) -> None:
        """Send what waits, as far as that goes."""
        while self.is_unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                # What the other end sent before it closed can still be read; its end will tell.
                self._unsent.clear()
                return
            del self._unsent[:sent]

    def fill(self) -> bool:
        """Read what is there, at most a chunk; returns whether anything was."""
        if not self.is_open:
            return False
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        self._decoder.feed(data)
        return True

    def messages(self) -> Iterator[list[bytes]]:
        """The messages that have been read whole, each as its frames.

        Raises:
            BreachError: The other end is not to be heard any more.
        """
        return self._decoder.messages()
