"""One channel, against ZeroMQ's own sockets, which are what a kernel has."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from nbagent.sandbox.channels.socket_channel import CHUNK_BYTES, SocketChannel
from nbagent.sandbox.channels.zmtp import encode, hello


@pytest.fixture
def path() -> Iterator[str]:
    """A place for a socket; its name must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder) / "k")


@pytest.fixture
def bind(path: str) -> Iterator[Callable[[int], zmq.Socket[bytes]]]:
    """Makes one of ZeroMQ's sockets that listens there."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())

        def make(kind: int) -> zmq.Socket[bytes]:
            made: zmq.Socket[bytes] = stack.enter_context(context.socket(kind))
            made.linger = 0
            made.rcvtimeo = 5_000
            made.bind(f"ipc://{path}")
            return made

        yield make


def received(channel: SocketChannel, count: int) -> list[list[bytes]]:
    """So many messages, as they come."""
    found: list[list[bytes]] = []
    end = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < end, found
        channel.flush()
        if not channel.fill():
            time.sleep(0.001)
        found += list(channel.messages())
    return found


def begin(channel: SocketChannel) -> None:
    """Let both ends greet each other."""
    end = time.monotonic() + 60
    while not channel.is_ready:
        assert time.monotonic() < end
        received(channel, 0)
        channel.fill()
        list(channel.messages())
    channel.flush()


def connected(path: str) -> tuple[SocketChannel, socket.socket]:
    """A channel, and the other end of its connection."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        channel = SocketChannel(path, kind="DEALER")
        return channel, listening.accept()[0]


def test_requests_and_replies(path: str, bind: Callable[[int], zmq.Socket[bytes]]) -> None:
    """A ROUTER understands what is sent, and is understood: small parts, large ones, empty ones."""
    router = bind(zmq.ROUTER)
    channel = SocketChannel(path, kind="DEALER")
    message = [b"", b"x", b"y" * 255, b"z" * 256, b"w" * 3_000_000]
    channel.send(message)
    begin(channel)
    answers = []
    end = time.monotonic() + 60
    while not answers and time.monotonic() < end:
        channel.flush()
        if router.poll(1):
            answers = router.recv_multipart()
    identity, *got = answers
    assert got == message
    assert not channel.is_unsent
    router.send_multipart([identity, *message])
    router.send_multipart([identity, b"again"])
    assert received(channel, 2) == [message, [b"again"]]
    channel.close()


def test_what_is_published(path: str, bind: Callable[[int], zmq.Socket[bytes]]) -> None:
    """A SUB hears all, from when the publisher has its subscription."""
    publisher = bind(zmq.XPUB)
    channel = SocketChannel(path, kind="SUB")
    begin(channel)
    assert publisher.recv() == b"\x01"
    publisher.send_multipart([b"topic", b"text"])
    assert received(channel, 1) == [[b"topic", b"text"]]
    channel.close()


def test_what_nobody_asks_for_stays_away(path: str, bind: Callable[[int], zmq.Socket[bytes]]) -> None:
    """Of 100 MB that were sent, one read takes a chunk."""
    publisher = bind(zmq.XPUB)
    publisher.sndhwm = 0
    channel = SocketChannel(path, kind="SUB")
    begin(channel)
    publisher.recv()
    for _ in range(100):
        publisher.send(b"x" * 1_000_000)
    end = time.monotonic() + 60
    while not channel.fill():
        assert time.monotonic() < end
        time.sleep(0.001)
    assert len(channel._decoder._buffer) <= CHUNK_BYTES
    assert [len(each) for (each,) in received(channel, 100)] == [1_000_000] * 100
    channel.close()


def test_what_can_not_be_sent_yet_waits(path: str) -> None:
    """Nothing goes before the other end is ready, and no more than it takes; all of it goes in the end, in order."""
    message = [b"x" * 3_000_000]
    channel, other = connected(path)
    with other:
        channel.send(message)
        assert other.recv(1_000_000) == hello("DEALER")
        other.sendall(hello("ROUTER"))
        begin(channel)
        assert channel.is_unsent
        got = b""
        while len(got) < len(encode(message)):
            got += other.recv(1_000_000)
            channel.flush()
        assert got == encode(message)
        assert not channel.is_unsent
    channel.close()


def test_the_end_comes_after_what_was_said(path: str) -> None:
    """Who is gone can still be heard to the end."""
    channel, other = connected(path)
    with other:
        other.sendall(hello("ROUTER") + encode([b"last words"]))
    assert channel.is_open
    assert received(channel, 1) == [[b"last words"]]
    channel.send([b"x"])
    assert not channel.fill()
    assert not channel.is_open
    assert not channel.is_unsent
    channel.send([b"x"])
    channel.close()


def test_nobody_is_there(path: str) -> None:
    """A socket that is gone is a channel that is closed, not an error."""
    channel = SocketChannel(path, kind="SUB")
    assert not channel.is_open
    assert not channel.fill()
    assert list(channel.messages()) == []


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_kernel_that_takes_no_connection_holds_nobody_up(path: str, family: socket.AddressFamily) -> None:
    """Hostile code can shorten the queue of its sockets, and let it fill up."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listening.bind(path if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        connecting = threading.Thread(
            target=lambda: SocketChannel(listening.getsockname(), kind="DEALER", family=family).close(), daemon=True
        )
        connecting.start()
        connecting.join(30)
        assert not connecting.is_alive()
