"""The connection of an attached process to the process that owns the session: the other side of `server.py`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nbagent.core.errors import OwnerGone, StoreError, UsageError
from nbagent.core.events import from_json
from nbagent.session.catalog import lookup
from nbagent.session.sharing import wire

T = TypeVar("T")
GREETING_SECONDS = 5.0
"""Seconds to wait for an owner's first message. One that is there and busy may need longer, and counts as there."""


class OwnerConnection:
    """The connection to the process that owns a session.

    Args:
        on_growth: Called when the log has grown, and before each call returns, since what it did is in the log.
        on_words: Called with the words of a reply that isn't whole yet, as `WordFeed.say` is.
    """

    def __init__(self, folder: Path, *, on_growth: Callable[[], None], on_words: Callable[..., None]) -> None:
        self._folder = folder
        self._session = folder.name
        self._on_growth = on_growth
        self._on_words = on_words
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._number = 0
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    @property
    def is_there(self) -> bool:
        """Whether this process is connected to it."""
        return self._hearing is not None and not self._hearing.done()

    @contextlib.asynccontextmanager
    async def connecting(self) -> AsyncIterator[None]:
        """Connect; what is done meanwhile is done before the owner is heard for the first time.

        Raises:
            UsageError: No process owns the session now, or its owner can't be attached to.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)  # an owner that hangs takes none after a hundred
        try:
            with wire.address(self._folder) as path:
                connection.connect(path)
            if not wire.is_own(connection):
                raise PermissionError("it is somebody else's")
        except OSError as error:
            connection.close()
            raise self._not_served() from error
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        try:
            yield
        except BaseException:
            self._writer.close()
            raise
        greeted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._hearing = asyncio.create_task(self._hear(reader, greeted))
        try:
            await asyncio.wait([greeted], timeout=GREETING_SECONDS)
        except asyncio.CancelledError:
            await self.leave()
            raise
        if greeted.done() and not greeted.result():
            await asyncio.wait([self._hearing])
            raise self._not_served()

    def _not_served(self) -> UsageError:
        if lookup.is_running(self._folder):
            message = f"The process that runs the session {self._session} can't be attached to now."
            return UsageError(message, mend="Try again in a moment: it may be starting.")
        return UsageError(
            f"No process runs the session {self._session} now.", mend=f"Resume it by: nbagent resume {self._session}"
        )

    async def leave(self) -> None:
        """Disconnect; the owner goes on."""
        if self._writer is not None:
            self._writer.close()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def closed(self) -> None:
        """Wait until the connection has ended.

        Raises:
            OSError: `on_growth` raised it.
        """
        if self._hearing is not None:
            await asyncio.wait([self._hearing])
            if not self._hearing.cancelled() and (error := self._hearing.exception()) is not None:
                raise error

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Have the owner make one of the calls in `wire.CALLS`, and return what it returns.

        Raises:
            OwnerGone: The owner has ended.
            NbagentError: The call raised it.
        """
        if self._writer is None or not self.is_there:
            raise self._gone("isn't there")
        rule = wire.CALLS.get(name, wire.CallRule())
        self._number += 1
        number, waiting = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._writer.write(wire.framed(wire.RemoteCall(number, name, arguments)))
            await self._writer.drain()
            value: msgspec.Raw = await waiting
        except OSError:
            value = await waiting  # `_hear` will say that the owner is gone
        except asyncio.CancelledError:
            if rule.ends_with_caller:
                self.send("cancel", call=number)
            raise
        finally:
            self._waiting.pop(number, None)
        return from_json(value, rule.returns)

    def send(self, name: str, **arguments: Any) -> None:
        """Have the owner make a call, without waiting for its end."""
        if self._writer is not None and self.is_there:
            self._number += 1
            self._writer.write(wire.framed(wire.RemoteCall(self._number, name, arguments)))

    def soon(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a call that is made whether or not somebody awaits it."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)

        def done(ended: asyncio.Task[T]) -> None:
            self._calls.discard(ended)
            if not ended.cancelled():
                ended.exception()  # is raised where the call is awaited; if it isn't, nobody wants to know

        task.add_done_callback(done)
        return task

    async def _hear(self, reader: asyncio.StreamReader, greeted: asyncio.Future[bool]) -> None:
        gone = self._gone("has ended")
        try:
            while (data := await wire.receive(reader)) is not None:
                if not greeted.done():
                    greeted.set_result(True)
                message = wire.FROM_OWNER.decode(data)
                # What a call has done stands in the log before the call returns.
                self._on_growth()
                if isinstance(message, wire.Returned):
                    self._take(message)
                elif isinstance(message, wire.SpokenWords):
                    self._on_words(message.turn, message.text, after=message.after)
            self._on_growth()
        except (StoreError, msgspec.DecodeError) as error:
            gone = OwnerGone(f"The session {self._session} can't be followed any more: {error}", mend=gone.mend)
        finally:
            if self._writer is not None:
                self._writer.close()
            if not greeted.done():
                greeted.set_result(False)
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(gone)

    def _take(self, message: wire.Returned) -> None:
        waiting = self._waiting.pop(message.number, None)
        if waiting is None or waiting.done():
            return
        if (failure := message.failure) is None:
            waiting.set_result(message.value)
            return
        waiting.set_exception(failure.as_error())

    def _gone(self, what: str) -> OwnerGone:
        message = f"The process that ran the session {self._session} {what}."
        return OwnerGone(message, mend=f"Resume it by: nbagent resume {self._session}")
