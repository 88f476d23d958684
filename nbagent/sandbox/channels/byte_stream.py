"""A file between this process and code in a sandbox on this machine, over a Unix socket.

What goes in is handed over as memory that is *sealed*: nobody copies it through the socket, and code inside can read
it, but neither change it nor open it for writing. What comes out comes as bytes, of which this side reads only as many
as it asked for, or is written by code inside into memory that it is lent, and that is sealed before any of it is read:
this side takes no descriptor from code that may be hostile, since even closing one can take as long as its sender
wants. Where descriptors don't arrive, the bytes go over the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import mmap
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from nbagent.core.concurrency import to_the_end
from nbagent.core.fileio import refuse_files, write

WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes of a file that are held in memory on their way in."""
RECEIVED_BYTES = 256 * 1024
"""Bytes that are received at once: the socket holds no more, and memory of this size is used again and again."""
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
DESCRIPTOR, BYTES = b"d", b"b"
"""What the taker of a file answers: that the descriptor has come, or that it wants the bytes."""


class SealedMemory:
    """Memory that is filled, and then sealed: that of a descriptor, or new memory."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("nbagent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.descriptor = descriptor

    @property
    def size(self) -> int:
        """Bytes in it."""
        return os.fstat(self.descriptor).st_size

    @property
    def path(self) -> Path:
        """Its name for all processes of the same person, as long as this one has it open."""
        return Path(f"/proc/{os.getpid()}/fd/{self.descriptor}")

    @property
    def is_sealed(self) -> bool:
        """Whether nobody can change it any more; false of an ordinary file."""
        try:
            return fcntl.fcntl(self.descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
        except OSError:
            return False

    def add(self, part: bytes) -> None:
        """Add some bytes."""
        left = memoryview(part)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def copy(self) -> SealedMemory:
        """The same memory, to be closed by itself."""
        return SealedMemory(os.dup(self.descriptor))

    def sha256(self) -> str:
        """The hash of all of it, in hexadecimal."""
        with mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ) as content:
            return hashlib.sha256(content).hexdigest()

    def save(self, path: Path) -> None:
        """Write all of it to a file, which is there whole or not at all.

        Raises:
            OSError: It can't be written.
        """
        with mmap.mmap(self.descriptor, 0, prot=mmap.PROT_READ) as content:
            write(path, content)  # type: ignore[arg-type]  # any buffer can be written

    def seal(self) -> None:
        """Let nobody change it any more."""
        if not self.is_sealed:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)

    def close(self) -> None:
        """Let go of it; whoever has its descriptor keeps it. May be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ByteStream:
    """A Unix socket in a folder that a sandbox sees read-only, there as `inside`. It takes one connection.

    Attributes:
        address: Where code inside connects to.

    Raises:
        OSError: It can't be made.
    """

    def __init__(self, folder: Path, inside: str) -> None:
        self._path = folder / f"b-{secrets.token_hex(6)}"
        self.address = f"{inside}/{self._path.name}"
        self._connection: socket.socket | None = None
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            refuse_files(self._listening)
            self._listening.bind(str(self._path))
            self._path.chmod(0o666)
            self._listening.listen(1)
            self._listening.setblocking(False)
        except OSError:
            self.close()
            raise

    async def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
            self._stop_listening()
        return self._connection

    async def send(self, memory: SealedMemory) -> None:
        """Seal some memory and hand it over; returns once code inside has taken it.

        Raises:
            ConnectionError: Code inside has closed the socket.
        """
        connection, loop = await self._connected(), asyncio.get_running_loop()
        memory.seal()
        socket.send_fds(connection, [DESCRIPTOR], [memory.descriptor])
        wanted = await loop.sock_recv(connection, 1)
        if wanted == BYTES:
            with mmap.mmap(memory.descriptor, memory.size, prot=mmap.PROT_READ) as content:
                await loop.sock_sendall(connection, len(content).to_bytes(8, "big"))
                await loop.sock_sendall(connection, content)
            wanted = await loop.sock_recv(connection, 1)
        if wanted != DESCRIPTOR:
            raise ConnectionError

    async def lend(self, memory: SealedMemory, bound: int, *, seconds: float) -> None:
        """Have code inside fill new memory; it must be sealed before it is read.

        It has room from this side, as much as code inside says that it needs: its own might not hold what it has twice.

        Args:
            memory: The memory.
            bound: Bytes of the room, and of what comes where no descriptor arrives.
            seconds: How long code inside may take for each step of it.

        Raises:
            ConnectionError: Code inside has closed the socket.
            OSError: This machine has no such room.
            TimeoutError: A step took longer.
        """
        connection, loop = await self._connected(), asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            wanted = await loop.sock_recv(connection, 8)
        if not wanted:
            raise ConnectionError
        if room := min(bound, int.from_bytes(wanted, "big")):
            # To the end: the descriptor's number may be another file's once the memory is closed.
            await to_the_end(os.posix_fallocate, memory.descriptor, 0, room)
        socket.send_fds(connection, [DESCRIPTOR], [memory.descriptor])
        async with asyncio.timeout(seconds):
            said = await loop.sock_recv(connection, 1)
        if said == BYTES:
            os.ftruncate(memory.descriptor, 0)
            await self.receive(bound + 1, memory.add, seconds=seconds)
        elif said != DESCRIPTOR:
            raise ConnectionError

    async def end(self) -> None:
        """Tell the other side that nothing more is sent."""
        (await self._connected()).shutdown(socket.SHUT_WR)

    async def receive(self, size: int, take: Callable[[bytes], object], *, seconds: float) -> None:
        """Take the bytes of a file up to its size, and give them to `take`; each piece may take some seconds.

        Raises:
            TimeoutError: One took longer.
        """
        connection, loop = await self._connected(), asyncio.get_running_loop()
        while size:
            async with asyncio.timeout(seconds):
                data = await loop.sock_recv(connection, min(size, RECEIVED_BYTES))
            if not data:
                return
            size -= len(data)
            take(data)

    def close(self) -> None:
        """Close and remove it; the other side notices."""
        if self._connection is not None:
            self._connection.close()
        self._stop_listening()

    def _stop_listening(self) -> None:
        self._listening.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
