"""The door of a running session: a Unix socket, by which other processes of the same person see and steer it.

Whoever owns the session opens it; `attach.py` is the other side. A call goes on if its caller is gone: what it does
stands in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import msgspec

from nbagent.errors import NbagentError, UsageError
from nbagent.events import to_json
from nbagent.session.wire import FROM_CALLER, Call, Failure, Grown, Returned, address, framed, receive

if TYPE_CHECKING:
    from nbagent.events import Record
    from nbagent.session.session import Session

log = logging.getLogger("nbagent")

CALLS = frozenset(
    "ask run install upload download files approve approve_host allow_host export interrupt interrupt_cell stop".split()
)
"""The methods of a session that can be called through its door."""
AT_ONCE = 32
"""Calls of one caller that may wait for their end."""


class Door:
    """Serves one session to whoever is attached to it.

    Args:
        session: Started.

    Attributes:
        visitors: Connections that are open.
        quiet_since: When the last caller left or call ended, as `time.monotonic`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._last = 0
        self.quiet_since = time.monotonic()

    @property
    def visitors(self) -> int:
        """Connections that are open."""
        return len(self._writers)

    @property
    def is_working(self) -> bool:
        """Whether somebody's call has not ended."""
        return bool(self._calls)

    async def open(self) -> None:
        """Listen. Where the folder's file system has no sockets nobody can attach, and the session works as ever."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address(self._session.folder) as path:
                # This process holds the session's lock: what is there was left by one that was killed.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108 - the path leads through a descriptor
                listening.bind(path)
                os.chmod(path, 0o600)  # noqa: PTH101
        except OSError as error:
            listening.close()
            log.info("Nobody can attach to this session: %s", error)
            return
        self._server = await asyncio.start_unix_server(self._serve, sock=listening)

    async def close(self) -> None:
        """End all connections. Calls that have not ended go on."""
        if self._server is None:
            return
        self._server.close()
        for writer in self._writers:
            writer.close()
        with contextlib.suppress(OSError), address(self._session.folder) as path:
            os.unlink(path)  # noqa: PTH108
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in (os.geteuid(), 0):
            writer.close()
            return
        self._writers.add(writer)
        grown = asyncio.Event()
        grown.set()
        loop = asyncio.get_running_loop()

        def hear(_: Record) -> None:
            loop.call_soon_threadsafe(grown.set)  # some events come from other threads

        def done(call: asyncio.Task[None]) -> None:
            self._calls.discard(call)
            room.release()

        unfollow = self._session.follow(hear)
        telling = asyncio.create_task(self._tell(writer, grown))
        room = asyncio.Semaphore(AT_ONCE)
        try:
            while (data := await receive(reader)) is not None:
                await room.acquire()
                call = asyncio.create_task(self._answer(data, writer))
                self._calls.add(call)
                call.add_done_callback(done)
        finally:
            unfollow()
            telling.cancel()
            self._writers.discard(writer)
            writer.close()
            self.quiet_since = time.monotonic()

    async def _tell(self, writer: asyncio.StreamWriter, grown: asyncio.Event) -> None:
        """Say how far the log has come: once for all that came while the last word was on its way."""
        with contextlib.suppress(OSError):
            while True:
                await grown.wait()
                grown.clear()
                writer.write(framed(Grown(self._session.last)))
                await writer.drain()

    async def _answer(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        number = 0
        try:
            call = FROM_CALLER.decode(data)
            number = call.number
            returned = Returned(number, msgspec.Raw(to_json(await self._call(call))))
        except asyncio.CancelledError:
            returned = Returned(number, failure=Failure("UsageError", "It was stopped."))
        except NbagentError as error:
            returned = Returned(number, failure=Failure(type(error).__name__, error.message, error.mend))
        except Exception as error:
            log.exception("A call through the door of the session failed")
            returned = Returned(number, failure=Failure("NbagentError", f"nbagent itself failed: {error!r}"))
        self.quiet_since = time.monotonic()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write(framed(returned))
            await writer.drain()

    async def _call(self, call: Call) -> Any:
        if call.name not in CALLS:
            raise UsageError(f"A session has no call {call.name[:80]!r}.")
        try:
            found = getattr(self._session, call.name)(**call.arguments)
        except TypeError as error:
            raise UsageError(f"The call {call.name} is wrong: {error}.") from error
        return await found if inspect.isawaitable(found) else found
