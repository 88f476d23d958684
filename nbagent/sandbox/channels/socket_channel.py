"""One channel of a kernel: a non-blocking socket that is read only on request.

Unread data stays in the socket's own small buffer, and then with the sender. However much is sent, this side holds one
chunk and one incomplete message.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Final

from nbagent.core.fileio import refuse_files
from nbagent.sandbox.channels.zmtp import MAX_MESSAGE, SUBSCRIBE_ALL, Decoder, encode, hello

CHUNK_BYTES: Final = 256 * 1024
"""Bytes that are read at once; Linux buffers about 200 KB for a reader that is busy."""
CONNECT_SECONDS: Final = 1.0
"""Seconds in which a kernel of this machine takes a connection over TCP, for which the caller waits."""


class SocketChannel:
    """A connection to one of the kernel's sockets.

    Args:
        address: The socket's address. It listens already, though the kernel may not be up yet.
        kind: The socket type of this end in ZeroMQ's terms: `DEALER`, or `SUB`, which subscribes to everything.
        limit: The most bytes of one incoming message.
        family: The kind of address: a Unix socket's path, or a host and a port.

    Attributes:
        is_open: Whether more messages can come; False once either end has closed.
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
        refuse_files(self._socket)
        try:
            # Hostile code may take no more connections: then a Unix socket refuses at once, and TCP would wait.
            self._socket.settimeout(0 if family == socket.AF_UNIX else CONNECT_SECONDS)
            self._socket.connect(address)
            self._socket.setblocking(False)
            self._socket.send(hello(kind))
        except OSError:
            # The kernel ended right after it was started; the end of its process says why.
            self.close()
        if kind == "SUB":
            self.send(SUBSCRIBE_ALL)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Close it at once; what was not sent or not read is gone."""
        self.is_open = False
        self._socket.close()

    @property
    def is_ready(self) -> bool:
        return self._decoder.is_ready

    @property
    def is_unsent(self) -> bool:
        return self.is_open and self.is_ready and bool(self._unsent)

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message, as far as the socket takes it now; `flush` sends the rest."""
        if self.is_open:
            self._unsent += encode(frames)
            self.flush()

    def flush(self) -> None:
        while self.is_unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                # What the other end sent before it closed can still be read; `fill` then finds the end.
                self._unsent.clear()
                return
            del self._unsent[:sent]

    def fill(self) -> bool:
        if not self.is_open:
            return False
        try:
            data = self._socket.recv(CHUNK_BYTES)
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
        return self._decoder.messages()
