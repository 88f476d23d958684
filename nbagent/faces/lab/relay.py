"""Relays one session to one page: its log as it grows, and the page's calls to the session's owner.

Everything goes to the page through `_pump`, one batch at a time, and the next one is read when the page has taken it.
So a slow page costs this server one batch, and loses nothing. The end of a call comes after what the call has written.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core.errors import NbagentError, OwnerGone, UsageError
from nbagent.core.events import Answered, ModelFailed, ModelReplied, Record, to_json
from nbagent.core.folders import LOG_FILE
from nbagent.core.policy import Network
from nbagent.core.session_log import Tail
from nbagent.faces.lab import calls
from nbagent.faces.lab.channel_messages import Call, CallReturned, StateTold, Words, WordsSaid
from nbagent.faces.lab.contents import Contents
from nbagent.faces.lab.records import sent
from nbagent.session.catalog import lookup, saved_spec, session_list
from nbagent.session.host_process import host
from nbagent.session.sharing.attach import Attached
from nbagent.session.sharing.wire import Failure

log = logging.getLogger("nbagent")

BATCH_BYTES = 256 * 1024
"""Bytes after which a batch of records is sent; it has one record at least."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at whether a process has resumed the session."""
LOOKS_FOR_KERNEL = 10
"""Looks after which it is also looked whether a kernel that waits is still there."""
MAX_WAITING = 32
"""Calls of one page that may wait for their end, beside the urgent ones."""
MAX_UNSENT = 4 * MAX_WAITING
"""Messages for the page beside records, after which nothing more of it is read."""
_CALL = msgspec.json.Decoder(Call)
_HEAD = b'{"records":['


class Relay:
    """One session and one page, which has the records up to `since`.

    `send` is done when the page has taken a message. A page that may not call can only look. It can name the contents.
    """

    def __init__(
        self, folder: Path, *, since: int, send: Callable[[bytes], Awaitable[None]], may_call: bool, contents: Contents
    ) -> None:
        self._folder = folder
        self._root = folder.parent.parent
        self._sent = self._since = since
        self._send = send
        self._may_call = may_call
        self._contents = contents
        self._tail = Tail(folder)
        self._session: Attached | None = None
        self._attaching = asyncio.Lock()
        self._came = asyncio.Event()
        self._looked = asyncio.Event()
        self._woken = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._words: list[str] = []
        self._turn = 0
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._calls: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Relay until the session is deleted; to be cancelled when the page is gone."""
        tasks = [asyncio.create_task(self._pump()), asyncio.create_task(self._follow())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            # The connection first: whatever runs goes on without this page.
            if self._session is not None:
                await self._session.detach()
            for task in (*tasks, *self._calls.values()):
                task.cancel()

    # -- the session's life ---------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Attach whenever a process owns the session, and tell the page of its state, until the session is deleted."""
        told: StateTold | None = None
        looks, size = 0, -1
        while self._folder.is_dir():
            async with self._attaching:  # not beside a `resume`
                self._came.clear()
                if self._session is None and lookup.is_running(self._folder):
                    with contextlib.suppress(NbagentError):  # its owner is starting, or ending
                        await self._attach(Attached(self._folder.name, state_dir=self._root))
            self._looked.set()
            if (session := self._session) is not None:
                self._tell(StateTold("running", last=session.last))
                await session.closed()
                told = None
                if self._session is session:
                    self._session = None
                continue
            looks += 1
            # One that has ended stays so until a process owns it; a kernel that waits may end.
            if told is None or (told.state == "waiting" and looks % LOOKS_FOR_KERNEL == 0):
                state = await asyncio.to_thread(self._state)
                if state != told:  # a session that waits for its owner may come to wait with its kernel only
                    told = state
                    self._tell(state)
            if size != (now := self._log_size()):  # somebody has renamed it
                size = now
                self._woken.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), LOOK_SECONDS)

    async def _attach(self, session: Attached) -> None:
        if not session.is_running:
            await session.start()
        self._words.clear()
        session.follow(self._hear_record)
        self._session = session
        session.follow_words(self._hear_words)
        self._came.set()
        self._woken.set()

    def _hear_record(self, record: Record) -> None:
        if isinstance(record.event, ModelReplied | ModelFailed | Answered):
            self._words.clear()
        self._woken.set()

    def _hear_words(self, turn: int, text: str) -> None:
        self._words.append(text)
        self._turn = turn
        self._woken.set()

    def _log_size(self) -> int:
        try:
            return (self._folder / LOG_FILE).stat().st_size
        except OSError:
            return 0

    def _state(self) -> StateTold:
        try:
            state = session_list.info_of(self._root, self._folder.name).state
        except NbagentError as error:
            return StateTold("ended", mend=str(error))
        if state == "running":
            return StateTold("waiting", mend="Its process is starting or ending: wait a moment.")
        kernel = "its kernel waits, with its variables" if state == "waiting" else "it gets a new kernel"
        return StateTold(state, mend=f"Resume it: {kernel}.")

    # -- to the page ----------------------------------------------------------------------------------------------

    def _tell(self, message: StateTold | CallReturned) -> None:
        """Send a message after the records that are in the log by now."""
        after = 0 if self._session is None else self._session.last
        self._unsent.append((after, to_json(message)))
        if len(self._unsent) >= MAX_UNSENT:
            self._has_room.clear()
        self._woken.set()

    async def _pump(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            is_behind = True
            while is_behind:
                batch, count = b"", 0
                if self._session is None or self._session.last > self._sent:
                    batch, count = await asyncio.to_thread(self._batch)
                if is_behind := count > 0:
                    await self._send(batch)
                    self._sent += count
                elif self._words:
                    words = WordsSaid(Words(self._turn, "".join(self._words)))
                    self._words.clear()
                    await self._send(to_json(words))
                while self._unsent and (self._unsent[0][0] <= self._sent or not is_behind):
                    await self._send(self._unsent.popleft()[1])
                self._has_room.set()

    def _batch(self) -> tuple[bytes, int]:
        """The next records as a message, and how many they are."""
        lines: list[bytes] = []
        size = 0
        # No record that `_hear_record` hasn't heard: words of a reply must not come after the whole.
        most = None if self._session is None else max(0, self._session.last - self._sent)
        for line in itertools.islice(self._tail.lines(since=self._since), most):
            number = self._sent + len(lines) + 1
            lines.append(sent(line, whole=f"sessions/{self._folder.name}/records/{number}"))
            size += len(lines[-1])
            if size >= BATCH_BYTES:
                break
        self._since = 0
        return _HEAD + b",".join(lines) + b"]}", len(lines)

    # -- from the page --------------------------------------------------------------------------------------------

    async def hear(self, data: str | bytes) -> None:
        """Take a message of the page's; waits while there is too much that the page has not read."""
        await self._has_room.wait()
        try:
            call = _CALL.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            self._tell(CallReturned(0, failure=Failure("UsageError", f"This is no call: {error}.")))
            return
        if call.call in self._calls:
            self._fail(call.call, UsageError(f"There is a call {call.call} already.", mend="Count on."))
            return
        task = asyncio.create_task(self._answer(call, is_too_much=len(self._calls) >= MAX_WAITING))
        self._calls[call.call] = task
        task.add_done_callback(lambda _: self._calls.pop(call.call, None))

    def _fail(self, number: int, error: NbagentError) -> None:
        self._tell(CallReturned(number, failure=Failure.of(error)))

    async def _answer(self, call: Call, *, is_too_much: bool) -> None:
        try:
            if not self._may_call:
                raise UsageError("You may look at this session, and not use it.")
            if is_too_much and not calls.is_urgent(call.name):
                raise UsageError(f"{MAX_WAITING} calls of this page wait already.", mend="Wait for some of them.")
            self._tell(CallReturned(call.call, await self._make(call, calls.read(call))))
        except NbagentError as error:
            self._fail(call.call, error)
        except asyncio.CancelledError:
            self._fail(call.call, UsageError("It was stopped."))
        except Exception as error:  # a bug, of which the page, which waits for an end, must hear
            log.exception("nbagent: the call %s of a page failed", call.name[:80])
            failure = Failure("NbagentError", f"nbagent itself failed: {error!r}"[:500])
            self._tell(CallReturned(call.call, failure=failure))

    async def _make(self, call: Call, arguments: dict[str, Any]) -> Any:
        await self._looked.wait()
        match arguments:
            case {"model": str(name)} | {"name": str(name)}:
                arguments |= {each: self._contents.model(name) for each in ("model", "name") if each in arguments}
        match call.name:
            case "cancel":
                waiting = self._calls.get(arguments["call"])
                return waiting is not None and waiting.cancel()
            case "resume":
                given = {name: value for name, value in arguments.items() if value is not None}
                async with self._attaching:
                    if self._session is None or not self._session.is_running:
                        await self._attach(await _resumed(self._folder, given))
                return None
        if self._session is None:
            raise OwnerGone("No process runs this session now.", mend="Resume it.")
        if call.name == "stop":  # which ends the connection
            return await self._session.stop(**arguments)
        return calls.CALLS[call.name].value(await self._session.call(call.name, **arguments))


_RESUMING: set[asyncio.Task[Attached]] = set()
"""What must not be forgotten while it goes on."""


async def _resumed(folder: Path, given: dict[str, Any]) -> Attached:
    """Resume a session; if the page goes meanwhile, that goes on, since its kernel's variables would end with it."""
    root = folder.parent.parent
    spec = await asyncio.to_thread(lambda: saved_spec.read_spec(session_list.info_of(root, folder.name)))
    asks = spec.trust.network is Network.LISTED
    task = asyncio.create_task(host(folder.name, state_dir=root, attended=True, ask_hosts=asks, **given))
    _RESUMING.add(task)
    task.add_done_callback(_RESUMING.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_leave)
        raise


def _leave(resumed: asyncio.Task[Attached]) -> None:
    """Let go of a session whose page has gone."""
    if not resumed.cancelled() and resumed.exception() is None:
        leaving = asyncio.ensure_future(resumed.result().detach())
        _LEAVING.add(leaving)
        leaving.add_done_callback(_LEAVING.discard)


_LEAVING: set[asyncio.Future[None]] = set()
