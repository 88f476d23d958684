"""Passes bytes from a loopback port to the egress proxy's Unix socket, *inside* a sandbox.

Programs take a proxy's address as a host and a port, not as a path. This file is copied into the sandbox beside
`inside.py`, which runs it in a process of its own: the standard library only, one thread for all connections, and at
most one piece waiting in each direction, since what it takes counts against the sandbox's own limits. Nothing is
decided here; code in the sandbox may as well speak to the proxy's socket itself.
"""

from __future__ import annotations

import ctypes
import selectors
import socket
import sys

CONNECTIONS = 64
"""Connections at a time, as the proxy has; further ones wait to be accepted."""
CHUNK_BYTES = 64 * 1024
SET_NAME = 15
"""PR_SET_NAME of prctl(2)."""


class Side:
    """One end of a connection.

    Attributes:
        other: The side that gets what this one sends.
        waiting: Bytes that still have to be sent to this side.
        ended: Whether this side will send nothing more.
        deaf: Whether it takes nothing more; bytes for it are dropped, so that the other side isn't stopped.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.other = self
        self.waiting = b""
        self.ended = False
        self.deaf = False

    @property
    def interest(self) -> int:
        """The events to wait for: room for what waits, and input once the other side has taken all."""
        reading = not self.ended and not self.other.waiting
        return selectors.EVENT_READ * reading | selectors.EVENT_WRITE * bool(self.waiting)

    @property
    def delivered(self) -> bool:
        """Whether all that it ever sends has reached the other side."""
        return self.ended and not self.other.waiting

    def read(self) -> None:
        """Read a piece and send it to the other side."""
        try:
            data = self.socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, self.deaf = b"", True
        if data:
            self.other.write(data)
        else:
            self.ended = True
            self.other.end()

    def write(self, data: bytes) -> None:
        """Send what the socket takes at once, and keep the rest."""
        try:
            self.waiting = b"" if self.deaf else data[self.socket.send(data) :]
        except BlockingIOError:
            self.waiting = data
        except OSError:
            self.waiting, self.deaf = b"", True

    def end(self) -> None:
        """Tell it that nothing more comes; it may go on sending."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.deaf = True


def serve(host: str, port: int, path: str) -> None:
    """Listen on a port, and pass bytes to the socket at `path` and back, for ever.

    Raises:
        OSError: The port can't be had.
    """
    forward(socket.create_server((host, port), backlog=CONNECTIONS), path)


def forward(listening: socket.socket, path: str) -> None:
    """Pass bytes like `serve`, for a socket that listens already."""
    selector = selectors.DefaultSelector()
    sides: set[Side] = set()
    prctl = ctypes.CDLL(None).prctl
    while True:
        # Process 1 may not look into this process: `overuse_inside.py` reads in the name how many connections it has.
        prctl(SET_NAME, f"forward {len(sides) // 2}".encode(), 0, 0, 0)
        watch(selector, listening, selectors.EVENT_READ * (len(sides) < 2 * CONNECTIONS), None)
        for key, events in selector.select():
            side = key.data or accept(listening, path)
            if side is None or side.socket.fileno() < 0:  # closed a moment ago, with the other one
                continue
            pair = {side, side.other}
            sides |= pair
            if events & selectors.EVENT_WRITE:
                side.write(side.waiting)
            if events & selectors.EVENT_READ and key.data:
                side.read()
            over = [each.delivered and (each.other.delivered or each.deaf) for each in pair]
            for each in pair:
                watch(selector, each.socket, 0 if any(over) else each.interest, each)
            if any(over):
                sides -= pair
                for each in pair:
                    each.socket.close()


def accept(listening: socket.socket, path: str) -> Side | None:
    """Accept a connection, and connect to the proxy for it; if there is no proxy, the connection is closed."""
    proxy = Side(socket.socket(socket.AF_UNIX))
    try:
        client = Side(listening.accept()[0])
    except OSError:
        proxy.socket.close()
        return None
    client.other, proxy.other = proxy, client
    try:
        proxy.socket.connect(path)
    except OSError:
        client.socket.close()
        proxy.socket.close()
        return None
    return client


def watch(selector: selectors.BaseSelector, connection: socket.socket, interest: int, side: Side | None) -> None:
    """Wait for these events of a socket, and no others."""
    if connection not in selector.get_map():
        if interest:
            selector.register(connection, interest, side)
    elif interest:
        selector.modify(connection, interest, side)
    else:
        selector.unregister(connection)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
