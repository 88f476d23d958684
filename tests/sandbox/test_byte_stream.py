"""Files over a socket: what goes in can't be changed there, and of what comes out no more is read than was wanted."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbagent.sandbox.channels.byte_stream import BYTES, DESCRIPTOR, ByteStream, SealedMemory

SIZE = 100_000


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[ByteStream]:
    """One that both sides see at the same place."""
    made = ByteStream(tmp_path, str(tmp_path))
    yield made
    made.close()
    assert not list(tmp_path.glob("b-*"))


def inside(stream: ByteStream, work: Callable[[socket.socket], object]) -> threading.Thread:
    """Do what code in the sandbox does with the socket."""

    def run() -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(stream.address)
            work(connection)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def sealed(content: bytes) -> SealedMemory:
    """Memory that was handed over."""
    memory = SealedMemory()
    memory.add(content)
    memory.seal()
    return memory


def test_sealed_memory_can_not_be_changed() -> None:
    """Neither by its descriptor, nor opened again, nor mapped; nor can it shrink under a reader."""
    memory = sealed(b"person's")
    again = f"/proc/self/fd/{memory.descriptor}"
    changes: list[Callable[[], object]] = [
        lambda: os.pwrite(memory.descriptor, b"x", 0),
        lambda: os.ftruncate(memory.descriptor, 0),
        lambda: os.ftruncate(memory.descriptor, 100),
        lambda: mmap.mmap(memory.descriptor, 8, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        lambda: os.pwrite(os.open(again, os.O_RDWR), b"x", 0),
    ]
    for change in changes:
        with pytest.raises(OSError):  # noqa: PT011 - each has another message
            change()
    assert os.pread(memory.descriptor, 100, 0) == b"person's"
    memory.close()


async def test_what_is_sent_arrives(stream: ByteStream) -> None:
    """By its descriptor, and as bytes where the other side wants these."""
    got: list[bytes] = []

    def take(connection: socket.socket) -> None:
        _, (found,), _, _ = socket.recv_fds(connection, 1, 1)
        got.append(os.pread(found, SIZE, 0))
        os.close(found)
        connection.sendall(DESCRIPTOR)
        _, (found,), _, _ = socket.recv_fds(connection, 1, 1)
        os.close(found)
        connection.sendall(BYTES)
        size = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
        got.append(connection.recv(size, socket.MSG_WAITALL))
        connection.sendall(DESCRIPTOR)
        assert connection.recv(1) == b""

    thread = inside(stream, take)
    for content in (b"a" * SIZE, b"b" * SIZE):
        memory = SealedMemory()
        memory.add(content)
        await stream.send(memory)
        memory.close()
    await stream.end()
    await asyncio.to_thread(thread.join)
    assert got == [b"a" * SIZE, b"b" * SIZE]


async def test_no_byte_comes_out_beyond_what_was_asked_for(stream: ByteStream) -> None:
    """However much code inside sends."""

    def give(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(b"c" * 100 * SIZE)

    thread = inside(stream, give)
    got = bytearray()
    await stream.receive(SIZE, got.extend, seconds=10)
    stream.close()
    await asyncio.to_thread(thread.join)
    assert got == b"c" * SIZE


async def test_who_says_nothing_is_not_waited_for(stream: ByteStream) -> None:
    """Longer than is allowed for a piece."""
    thread = inside(stream, lambda connection: connection.recv(1))
    with pytest.raises(TimeoutError):
        await stream.receive(SIZE, lambda _: None, seconds=0.2)
    stream.close()
    await asyncio.to_thread(thread.join)


async def test_lent_memory_stays_open_until_it_has_its_room(
    stream: ByteStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cancels waits for that: after a close, the descriptor's number may be another file's."""
    begun, over = threading.Event(), threading.Event()

    def allocate(*_: int) -> None:
        begun.set()
        time.sleep(0.2)
        over.set()

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    thread = inside(stream, lambda connection: connection.sendall(SIZE.to_bytes(8, "big")))
    lending = asyncio.ensure_future(stream.lend(SealedMemory(), SIZE, seconds=10))
    await asyncio.to_thread(begun.wait)
    lending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lending
    assert over.is_set()
    stream.close()
    await asyncio.to_thread(thread.join)
