"""One stream of bytes between this process and code in a sandbox on this machine: a file on its way in or out.

A file of 100 MB takes a tenth of the time that it takes in messages. The code that connects may be hostile: it can send
no more harm than in messages, since this side reads only as many bytes as it asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from pathlib import Path

CHUNK = 1024 * 1024


class ByteStream:
    """A Unix socket in a folder that a sandbox sees read-only. It takes one connection, and `close` removes it.

    Args:
        folder: The folder on the host.
        inside: The same folder, as the sandbox sees it.

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

    async def send(self, data: bytes) -> None:
        """Send some bytes, once somebody has connected."""
        await asyncio.get_running_loop().sock_sendall(await self._connected(), data)

    async def end(self) -> None:
        """Tell the other side that nothing more is sent."""
        (await self._connected()).shutdown(socket.SHUT_WR)

    async def receive(self, most: int) -> bytes:
        """Wait for data, and return at most `most` bytes of it; empty once the other side has ended."""
        return await asyncio.get_running_loop().sock_recv(await self._connected(), min(most, CHUNK))

    def close(self) -> None:
        """Close and remove it; the other side notices."""
        if self._connection is not None:
            self._connection.close()
        self._stop_listening()

    def _stop_listening(self) -> None:
        self._listening.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
