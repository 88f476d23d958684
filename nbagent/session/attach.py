"""A session that another process owns: seen by its log, steered through its door.

    async with nbagent.attach("20261121-0645") as session:
        answer = await session.ask("Which region grew fastest?")

It has the calls of `Session` (`protocol.AnySession`), in any process of the same person, and imports nothing that runs
models or kernels.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast, overload

import msgspec

from nbagent.core import fileio, folders
from nbagent.core.errors import OwnerGone, StoreError, UsageError, contained
from nbagent.core.events import (
    Answer,
    Asked,
    Cell,
    CellFinished,
    CellStarted,
    Package,
    Record,
    SessionResumed,
    SessionStarted,
    from_json,
)
from nbagent.core.journal import Tail, read_log
from nbagent.session import index
from nbagent.session.listing import IN_MEMORY, Listing, Uploaded
from nbagent.session.stream import streamed
from nbagent.session.wire import FROM_OWNER, Call, Returned, address, framed, is_own, receive

if TYPE_CHECKING:
    from nbagent.kernel.transfer.ends import Source
    from nbagent.kernel.variables import Written
    from nbagent.safety.consent import Decision
    from nbagent.session.attachments import Given
    from nbagent.state import Artifact

T = TypeVar("T")
ENDS_WITH_CALLER = frozenset(["ask", "run"])
"""Calls that the owner stops when their caller here is cancelled."""


class Attached:
    """A session that another process owns.

    Use it as an asynchronous context manager; leaving it leaves the session running. When its owner has gone,
    `is_running` is false, calls raise `OwnerGone`, and all that was written can still be read. `start` may be called
    again once another process owns it: whoever follows then gets what happened meanwhile first.

    Args:
        session: Its id, or enough of its beginning.
        state_dir: Where sessions are kept; where the settings say by default.

    Attributes:
        id: The session's name.
        folder: Its folder on the host.
        last: The number of the log's last record that is known here.
        engine: The engine's name.
        trust: The trust level's name.
        is_replay: Whether the model's replies are recorded ones; False before the first question.
        turns: Questions asked so far.
        attended: Whether somebody at this face answers `ApprovalAsked`.
    """

    def __init__(self, session: str, *, state_dir: str | Path | None = None) -> None:
        self.folder = index.find(folders.state_root(state_dir or own_state_dir()), session)
        self.id = self.folder.name
        self.last = self.turns = 0
        self.engine = self.trust = ""
        self.is_replay = self.attended = False
        self._cell = 0
        self._tail = Tail(self.folder)
        self._readers: list[Callable[[Record], None]] = []
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._number = 0
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Attached:
        if not self.is_running:
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.detach()

    @property
    def is_running(self) -> bool:
        """Whether the process that owns the session is there."""
        return self._hearing is not None and not self._hearing.done()

    async def start(self) -> None:
        """Come to the session's door.

        Raises:
            UsageError: No process owns the session now, or its owner can't be attached to.
            StoreError: Its log can't be read.
        """
        if self.is_running:
            raise UsageError(f"This is attached to the session {self.id} already.")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address(self.folder) as path:
                connection.connect(path)
            if not is_own(connection):
                raise PermissionError("it is somebody else's")
        except OSError as error:
            connection.close()
            raise self._no_door() from error
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        try:
            await asyncio.to_thread(self._catch_up)
            self._read()
        except BaseException:
            self._writer.close()
            raise
        self._hearing = asyncio.create_task(self._hear(reader))
        if self.attended:
            await self.attend()

    def _no_door(self) -> UsageError:
        if index.is_running(self.folder):
            told = f"The process that runs the session {self.id} can't be attached to now."
            return UsageError(told, mend="Try again in a moment: it may be starting.")
        told = f"No process runs the session {self.id} now."
        return UsageError(told, mend=f"Go on with it by: nbagent resume {self.id}")

    async def detach(self) -> None:
        """Leave; the session goes on."""
        if self._writer is not None:
            self._writer.close()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def closed(self) -> None:
        """Wait until the process that owns the session lets go of it, or dies; all that it wrote was read by then.

        Raises:
            OSError: Of who follows, such as of a terminal that is gone.
        """
        if self._hearing is not None:
            await asyncio.wait([self._hearing])
            if not self._hearing.cancelled() and (error := self._hearing.exception()) is not None:
                raise error

    # -- what happens -------------------------------------------------------------------------------------------

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records of the log after number `seq`."""
        return read_log(self.folder, since=seq)

    def follow(self, reader: Callable[[Record], None], *, since: int | None = None) -> Callable[[], None]:
        """Call `reader` with each record, as it happens; returns what ends that.

        Args:
            reader: Gets the records.
            since: Begin with those of the log after this number; with what happens from now on by default.
        """
        if since is not None:
            for record in self.since(since):
                if record.seq > self.last:
                    break  # this one comes with the news
                reader(record)
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        gone = OwnerGone(
            f"The process that ran the session {self.id} has ended.", mend=f"Go on with it by: nbagent resume {self.id}"
        )
        try:
            while (data := await receive(reader)) is not None:
                message = FROM_OWNER.decode(data)
                # What a call has done stands in the log before it returns.
                self._read()
                if isinstance(message, Returned):
                    self._take(message)
            self._read()
        except (StoreError, msgspec.DecodeError) as error:
            gone = OwnerGone(f"The session {self.id} can't be followed any more: {error}", mend=gone.mend)
        finally:
            if self._writer is not None:
                self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(gone)

    def _catch_up(self) -> None:
        """Read what was written before anybody follows; in a thread, for a log may be long."""
        if not self._readers:
            for record in self._tail.new():
                self._note(record)

    def _read(self) -> None:
        for record in self._tail.new():
            self._note(record)
            for reader in list(self._readers):
                with contained(f"A reader of the session's events missed {type(record.event).__name__} {record.seq}"):
                    reader(record)

    def _note(self, record: Record) -> None:
        self.last = record.seq
        match record.event:
            case SessionStarted(engine=engine, trust=trust):
                self.engine, self.trust = engine, trust
            case Asked(turn=turn, replay=replay):
                self.turns, self.is_replay = turn, replay
            case CellStarted(cell=cell):
                self._cell = cell
            case CellFinished() | SessionResumed():
                self._cell = 0

    def _take(self, message: Returned) -> None:
        waiting = self._waiting.pop(message.number, None)
        if waiting is None or waiting.done():
            return
        if (failure := message.failure) is None:
            waiting.set_result(message.value)
            return
        waiting.set_exception(failure.as_error())

    def artifacts(self) -> list[Artifact]:
        """The files that reached the host, and the figures of its cells. See `Session.artifacts`."""
        from nbagent.state.views import Views

        return Views(self.folder.parent.parent).artifacts(self.id)

    def load_artifact(self, artifact_id: str) -> bytes:
        """The content of one of `artifacts()`. See `Session.load_artifact`."""
        from nbagent.state.views import Views

        return Views(self.folder.parent.parent).load(artifact_id)[1]

    # -- calls --------------------------------------------------------------------------------------------------

    async def _call(self, name: str, returns: type[T], /, **arguments: Any) -> T:
        """Have the owner call a method of its session.

        Raises:
            OwnerGone: The owner is gone.
            NbagentError: What the method raised.
        """
        if self._writer is None or not self.is_running:
            told = f"The process that ran the session {self.id} isn't there."
            raise OwnerGone(told, mend=f"Go on with it by: nbagent resume {self.id}")
        self._number += 1
        number, waiting = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._writer.write(framed(Call(number, name, arguments)))
            await self._writer.drain()
            value: msgspec.Raw = await waiting
        except OSError:
            value = await waiting  # the one who hears will say that the owner is gone
        except asyncio.CancelledError:
            if name in ENDS_WITH_CALLER:
                self._send("cancel", call=number)
            raise
        finally:
            self._waiting.pop(number, None)
        return from_json(value, returns)

    def _soon(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a call that is made whether or not somebody awaits it."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)

        def done(ended: asyncio.Task[T]) -> None:
            self._calls.discard(ended)
            if not ended.cancelled():
                ended.exception()  # raised where it is awaited, and of no interest to who doesn't

        task.add_done_callback(done)
        return task

    @contextlib.asynccontextmanager
    async def _lent(self) -> AsyncGenerator[Path, None]:
        """A folder for files on their way, which the owner sees too, wherever it has its /tmp."""
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=".sent-", dir=self.folder)
        try:
            yield Path(folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def ask(self, question: str, *, files: Sequence[Given] = ()) -> Answer:
        """Ask a question, and wait for the answer; who is cancelled stops it. See `Session.ask`."""
        async with self._lent() if files else contextlib.nullcontext(self.folder) as folder:
            pairs = [each if isinstance(each, tuple) else (None, each) for each in files]
            sent = [await _sent(source, name, folder / str(at)) for at, (name, source) in enumerate(pairs)]
            return await self._call("ask", Answer, question=question, files=sent)

    async def stream(self, question: str, *, files: Sequence[Given] = ()) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens; see `Session.stream`."""
        async with contextlib.aclosing(streamed(lambda: self.ask(question, files=files), follow=self.follow)) as events:
            async for record in events:
                yield record

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model; who is cancelled stops it, and no other one. See `Session.run`."""
        return await self._call("run", Cell, code=code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session; see `Session.install`."""
        return await self._call("install", list[Package], requirements=requirements)

    async def upload(
        self, source: Source, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """Put a file into the sandbox; see `Session.upload`."""
        async with self._lent() as folder:
            called, path = await _sent(source, name, folder / "file")
            return await self._call("upload", Uploaded, source=path, name=called, to=to, unpack=unpack)

    @overload
    async def download(self, path: str) -> bytes: ...

    @overload
    async def download(self, path: str, to: str | Path, *, overwrite: bool = False) -> Path: ...

    async def download(self, path: str, to: str | Path | None = None, *, overwrite: bool = False) -> bytes | Path:
        """Fetch a plain file from the sandbox; see `Session.download`."""
        if to is not None:
            place = os.path.abspath(to)  # noqa: PTH100 - what is named may be a link
            return await self._call("download", Path, path=path, to=place, overwrite=overwrite)
        async with self._lent() as folder:
            place = str(folder / "file")
            found = await self._call("download", Path, path=path, to=place, bound=IN_MEMORY)
            return await asyncio.to_thread(found.read_bytes)

    async def pull(self, name: str, to: str | Path) -> Written:
        """Fetch a variable of the kernel's as a file; see `Session.pull`."""
        from nbagent.kernel.variables import Written

        place = os.path.abspath(to)  # noqa: PTH100 - what is named may be a link
        return await self._call("pull", Written, name=name, to=place)

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is in the sandbox's folders; see `Session.files`."""
        return await self._call("files", Listing, folder=folder, limit=limit)

    async def deliver(self) -> dict[str, str]:
        """Have the owner collect what cells left; see `Session.deliver`."""
        return await self._call("deliver", dict[str, str])

    def export(self, path: str | Path, *, force: bool = False) -> asyncio.Task[Path]:
        """Write the session's notebook; see `Session.export`."""
        place = os.path.abspath(path)  # noqa: PTH100
        return self._soon(self._call("export", Path, path=place, force=force))

    def rename(self, title: str) -> asyncio.Task[None]:
        """Give the session another title; see `Session.rename`."""
        return self._soon(self._call("rename", type(None), title=title))

    def attend(self, answers: bool = True) -> asyncio.Task[None]:
        """Say whether somebody at this face answers `ApprovalAsked`; see `Session.attend`."""
        self.attended = answers
        return self._soon(self._call("attend", type(None), answers=answers))

    def approve(
        self, name: str, decision: Decision = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> asyncio.Task[bool]:
        """Answer an `ApprovalAsked`; see `Session.approve`."""
        more = {"decision": decision, "code": code, "reason": reason, "always": always}
        return self._soon(self._call("approve", bool, name=name, **more))

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> asyncio.Task[bool]:
        """Answer a `HostAsked`; see `Session.approve_host`."""
        return self._soon(self._call("approve_host", bool, name=name, allow=allow, remember=remember))

    def allow_host(self, entry: str) -> asyncio.Task[None]:
        """Let the code reach a host from now on; see `Session.allow_host`."""
        return self._soon(self._call("allow_host", type(None), entry=entry))

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for. Doesn't wait for it."""
        self._send("interrupt")

    def interrupt_cell(self) -> bool:
        """Stop the running cell only: the model is told, and goes on. Returns whether one was known to be running."""
        self._send("interrupt_cell")
        return self._cell > 0

    def _send(self, name: str, **arguments: Any) -> None:
        if self._writer is not None and self.is_running:
            self._number += 1
            self._writer.write(framed(Call(self._number, name, arguments)))

    async def stop(self, reason: str = "") -> None:
        """End the session and its sandbox, whoever owns it; its folder and log stay."""
        with contextlib.suppress(OwnerGone):
            await self._call("stop", type(None), reason=reason)


async def _sent(source: Source, name: str | None, place: Path) -> tuple[str, str]:
    """The name of what is to be sent, and the path by which the owner finds it: contents are written to a place."""
    from nbagent.kernel.transfer.ends import name_of

    called = name_of(source, name)
    if isinstance(source, str | Path):
        return called, os.path.abspath(source)  # noqa: PTH100 - what is named may be a link

    def work() -> None:
        with place.open("wb") as file:
            if isinstance(source, bytes | bytearray | memoryview):
                file.write(source)
            else:
                shutil.copyfileobj(cast(IO[bytes], source), file)

    try:
        await asyncio.to_thread(work)
    except OSError as error:
        raise fileio.cannot_write(place, error, mend="Make room, or give the path of a file.") from error
    return called, str(place)


def attach(session: str, *, state_dir: str | Path | None = None) -> Attached:
    """A session that another process owns, to be used as an asynchronous context manager.

    Args:
        session: Its id, or enough of its beginning.
        state_dir: Where sessions are kept; where the settings say by default.

    Raises:
        UsageError: There is no session of that name.
    """
    return Attached(session, state_dir=state_dir)


def own_state_dir() -> str | None:
    """Where this person's settings say that sessions are kept."""
    from nbagent.core import settings

    return settings.load().state_dir
