"""Serves a running session at a Unix socket, by which other processes of the same person see and steer it.

The session's owner opens it; `owner_connection.py` is the other side. A call goes on to its end when its caller is
gone: what it does is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import operator
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import to_json
from nbagent.session.protocol import settled
from nbagent.session.sharing import wire

if TYPE_CHECKING:
    from nbagent.core.events import Record
    from nbagent.safety.approvals import Consent
    from nbagent.session.protocol import AnySession

log = logging.getLogger("nbagent")

MAX_WAITING_CALLS = 32
"""Calls of one caller that may wait for their end, beside the urgent ones."""


class SessionServer:
    """Serves one session to whoever attaches to it.

    Args:
        session: Started, and owned by this process.
        consent: The session's; its `attended` is set while somebody attached answers questions.

    Attributes:
        visitors: Connections that are open.
    """

    def __init__(self, session: AnySession, *, consent: Consent) -> None:
        self._session = session
        self._consent = consent
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._begun: dict[tuple[asyncio.StreamWriter, int], asyncio.Task[None]] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._attending: set[asyncio.StreamWriter] = set()
        self._attended = False

    @property
    def visitors(self) -> int:
        """Connections that are open."""
        return len(self._writers)

    @property
    def is_open(self) -> bool:
        """Whether anybody can attach."""
        return self._server is not None

    @property
    def is_working(self) -> bool:
        """Whether a call has not ended."""
        return bool(self._calls)

    async def open(self) -> None:
        """Listen. If the folder's file system has no sockets, nobody can attach, and the session works all the same."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with wire.address(self._session.folder) as path:
                # This process holds the session's lock: a socket that is there was left by a process that was killed.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108 - the path leads through a descriptor
                listening.bind(path)
                os.chmod(path, 0o600)  # noqa: PTH101
        except OSError as error:
            listening.close()
            log.info("Nobody can attach to this session: %s", error)
            return
        # In two steps: after a cancellation in the second one, there is a server that `shut` closes.
        # Python would look for the socket by its name, which leads through a descriptor that is closed by then.
        keep: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, start_serving=False, **keep)
        await self._server.start_serving()

    def shut(self) -> None:
        """Let nobody attach any more; whoever is attached still sees how the session ends, and open calls go on."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError), wire.address(self._session.folder) as path:
                os.unlink(path)  # noqa: PTH108
            self._server = None

    def close(self) -> None:
        """End all connections; to be called when the last event is in the log."""
        self.shut()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not wire.is_own(writer.get_extra_info("socket")):
            writer.close()
            return
        self._writers.add(writer)
        grown = asyncio.Event()
        grown.set()
        loop = asyncio.get_running_loop()

        def hear(_: Record) -> None:
            loop.call_soon_threadsafe(grown.set)  # some events come from other threads

        said: list[wire.SpokenWords] = []

        def hear_words(turn: int, text: str) -> None:
            said.append(wire.SpokenWords(turn, text, self._session.last))
            grown.set()

        own: set[asyncio.Task[None]] = set()
        unfollow, unhear = self._session.follow(hear), self._session.follow_words(hear_words)
        telling = asyncio.create_task(self._tell(writer, grown, said))
        try:
            while (data := await wire.receive(reader)) is not None:
                # Calls that wait are bounded in number, and never keep an interrupt waiting.
                call = asyncio.create_task(self._answer(data, writer, is_too_much=len(own) >= MAX_WAITING_CALLS))
                for calls in (own, self._calls):
                    calls.add(call)
                    call.add_done_callback(calls.discard)
                if len(own) > 2 * MAX_WAITING_CALLS:
                    await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unfollow()
            unhear()
            telling.cancel()
            self._writers.discard(writer)
            self._attend(writer, answers=False)
            writer.close()

    def _attend(self, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        """Note whether a visitor answers approvals; when the last one leaves, `attended` is again as it was before."""
        consent, before = self._consent, bool(self._attending)
        (self._attending.add if answers else self._attending.discard)(writer)
        if self._attending and not before:
            self._attended, consent.attended = consent.attended, True
        elif before and not self._attending:
            consent.attended = self._attended

    async def _tell(self, writer: asyncio.StreamWriter, grown: asyncio.Event, said: list[wire.SpokenWords]) -> None:
        """Tell a visitor how far the log has come, once for all that was written since the last message, and words."""
        last = -1
        with contextlib.suppress(OSError):
            while True:
                await grown.wait()
                grown.clear()
                if last != self._session.last:
                    last = self._session.last
                    writer.write(wire.framed(wire.Grown(last)))
                for (turn, after), words in itertools.groupby(said, key=lambda each: (each.turn, each.after)):
                    writer.write(wire.framed(wire.SpokenWords(turn, "".join(each.text for each in words), after)))
                said.clear()
                await writer.drain()

    async def _answer(self, data: bytes, writer: asyncio.StreamWriter, *, is_too_much: bool) -> None:
        number, task = 0, asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs
        try:
            request = wire.FROM_CALLER.decode(data)
            number = request.number
            self._begun[writer, number] = task
            value = await self._call(request, writer, is_too_much=is_too_much)
            returned = wire.Returned(number, msgspec.Raw(to_json(value)))
        except asyncio.CancelledError:
            returned = wire.Returned(number, failure=wire.Failure("UsageError", "It was stopped."))
        except NbagentError as error:
            returned = wire.Returned(number, failure=wire.Failure.of(error))
        except Exception as error:
            log.exception("A call of somebody attached failed")
            returned = wire.Returned(number, failure=wire.Failure("NbagentError", f"nbagent itself failed: {error!r}"))
        finally:
            self._begun.pop((writer, number), None)
        with contextlib.suppress(OSError, RuntimeError):
            writer.write(wire.framed(returned))
            await writer.drain()

    async def _call(self, request: wire.RemoteCall, writer: asyncio.StreamWriter, *, is_too_much: bool) -> Any:
        name, arguments = request.name, request.arguments
        rule = wire.CALLS.get(name)
        if rule is None:
            raise UsageError(f"A session has no call {name[:80]!r}.")
        if is_too_much and not rule.is_urgent:
            raise UsageError(f"{MAX_WAITING_CALLS} calls of this face wait already.", mend="Wait for some of them.")
        match name:
            case "attend":  # which is about this face alone
                return self._attend(writer, answers=bool(arguments.get("answers")))
            case "cancel":
                begun = self._begun.get((writer, arguments.get("call", 0)))
                return begun is not None and begun.cancel()
            case "ask":  # JSON has no tuples for pairs of a name and a path
                arguments |= {"files": [tuple(each) for each in arguments.get("files", ())]}
        try:
            found = operator.attrgetter(name)(self._session)(**arguments)
        except TypeError as error:
            raise UsageError(f"The call {name} is wrong: {error}.") from error
        return await settled(found)
