"""A session that another process owns: seen by its log, steered through its door.

    async with nbagent.attach("20261121-0645") as session:
        answer = await session.ask("Which region grew fastest?")

It has the calls of `Session`, in any process of the same person, and imports nothing that runs models or kernels.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from nbagent import errors, store
from nbagent.errors import NbagentError, StoreError, UsageError
from nbagent.events import Answer, Cell, Package, Record, from_json
from nbagent.session.listing import Listing, Uploaded
from nbagent.session.wire import FROM_OWNER, Call, Returned, address, framed, receive

T = TypeVar("T")


class Attached:
    """A session that another process owns.

    Use it as an asynchronous context manager; leaving it leaves the session running.

    Args:
        session: Its id, or enough of its beginning.
        state_dir: Where sessions are kept; where the settings say by default.

    Attributes:
        id: The session's name.
        folder: Its folder on the host.
        last: The number of the log's last record that is known here.
    """

    def __init__(self, session: str, *, state_dir: str | Path | None = None) -> None:
        self.id, self.folder = _find(store.state_root(state_dir or _own_state_dir()), session)
        self.last = 0
        self._tail = store.Tail(self.folder)
        self._readers: list[Callable[[Record], None]] = []
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._number = 0
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Attached:
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
            UsageError: No process owns the session now.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address(self.folder) as path:
                connection.connect(path)
        except OSError as error:
            connection.close()
            raise UsageError(
                f"No process runs the session {self.id} now.", mend=f"Go on with it by: nbagent resume {self.id}"
            ) from error
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        for record in self._tail.new():
            self.last = record.seq
        self._hearing = asyncio.create_task(self._hear(reader))

    async def detach(self) -> None:
        """Leave; the session goes on."""
        if self._writer is not None:
            self._writer.close()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def closed(self) -> None:
        """Wait until the process that owns the session lets go of it, or dies; all that it wrote was read by then."""
        if self._hearing is not None:
            await asyncio.wait([self._hearing])

    # -- what happens -------------------------------------------------------------------------------------------

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records of the log after number `seq`."""
        return store.read_log(self.folder, since=seq)

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        """Call `reader` with each event from now on, as it happens; returns what ends that."""
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        try:
            while (data := await receive(reader)) is not None:
                message = FROM_OWNER.decode(data)
                # What a call has done stands in the log before it returns.
                self._read()
                if isinstance(message, Returned):
                    self._take(message)
        finally:
            self._read()
            gone = StoreError(
                f"The process that ran the session {self.id} has ended.",
                mend=f"Go on with it by: nbagent resume {self.id}",
            )
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(gone)

    def _read(self) -> None:
        for record in self._tail.new():
            self.last = record.seq
            for reader in list(self._readers):
                reader(record)

    def _take(self, message: Returned) -> None:
        waiting = self._waiting.pop(message.number, None)
        if waiting is None or waiting.done():
            return
        if (failure := message.failure) is None:
            waiting.set_result(message.value)
            return
        kind = getattr(errors, failure.kind, NbagentError)
        kind = kind if isinstance(kind, type) and issubclass(kind, NbagentError) else NbagentError
        waiting.set_exception(kind(failure.message, mend=failure.mend))

    # -- calls --------------------------------------------------------------------------------------------------

    async def _call(self, name: str, returns: type[T], /, **arguments: Any) -> T:
        """Have the owner call a method of its session.

        Raises:
            StoreError: The owner is gone.
            NbagentError: What the method raised.
        """
        if self._writer is None or not self.is_running:
            raise StoreError(
                f"The process that ran the session {self.id} isn't there.", mend=f"nbagent resume {self.id}"
            )
        self._number += 1
        number, waiting = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._writer.write(framed(Call(number, name, arguments)))
            await self._writer.drain()
            value: msgspec.Raw = await waiting
        except OSError:
            value = await waiting  # the one who hears will say that the owner is gone
        finally:
            self._waiting.pop(number, None)
        return from_json(value, returns)

    async def ask(self, question: str, *, files: Sequence[str | Path] = ()) -> Answer:
        """Ask a question, and wait for the answer; who is cancelled stops it. See `Session.ask`."""
        paths = [os.path.abspath(each) for each in files]  # noqa: PTH100 - what is named may be a link
        try:
            return await self._call("ask", Answer, question=question, files=paths)
        except asyncio.CancelledError:
            self.interrupt()
            raise

    async def stream(self, question: str, *, files: Sequence[str | Path] = ()) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens; see `Session.stream`."""
        from nbagent.session.answer import streamed

        async with contextlib.aclosing(streamed(lambda: self.ask(question, files=files), follow=self.follow)) as events:
            async for record in events:
                yield record

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model; see `Session.run`."""
        return await self._call("run", Cell, code=code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session; see `Session.install`."""
        return await self._call("install", list[Package], requirements=requirements)

    async def upload(
        self, source: bytes | str | Path, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """Put a file into the sandbox; see `Session.upload`."""
        if not isinstance(source, bytes):
            path = os.path.abspath(source)  # noqa: PTH100
            return await self._call("upload", Uploaded, source=path, name=name, to=to, unpack=unpack)
        with tempfile.NamedTemporaryFile(prefix="nbagent-") as file:
            file.write(source)
            file.flush()
            return await self._call("upload", Uploaded, source=file.name, name=name, to=to, unpack=unpack)

    @overload
    async def download(self, path: str) -> bytes: ...

    @overload
    async def download(self, path: str, to: str | Path, *, overwrite: bool = False) -> Path: ...

    async def download(self, path: str, to: str | Path | None = None, *, overwrite: bool = False) -> bytes | Path:
        """Fetch a plain file from the sandbox; see `Session.download`."""
        if to is None:
            with tempfile.TemporaryDirectory(prefix="nbagent-") as folder:
                found = await self._call("download", Path, path=path, to=f"{folder}/file")
                return await asyncio.to_thread(found.read_bytes)
        place = os.path.abspath(to)  # noqa: PTH100
        return await self._call("download", Path, path=path, to=place, overwrite=overwrite)

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is in the sandbox's folders; see `Session.files`."""
        return await self._call("files", Listing, folder=folder, limit=limit)

    async def export(self, path: str | Path) -> Path:
        """Write the session's notebook; see `Session.export`."""
        return await self._call("export", Path, path=os.path.abspath(path))  # noqa: PTH100

    async def approve(
        self, name: str, decision: str = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> bool:
        """Answer an `ApprovalAsked`; see `Session.approve`."""
        more = {"decision": decision, "code": code, "reason": reason, "always": always}
        return await self._call("approve", bool, name=name, **more)

    async def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool:
        """Answer a `HostAsked`; see `Session.approve_host`."""
        return await self._call("approve_host", bool, name=name, allow=allow, remember=remember)

    async def allow_host(self, entry: str) -> None:
        """Let the code reach a host from now on; see `Session.allow_host`."""
        await self._call("allow_host", type(None), entry=entry)

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for. Doesn't wait for it."""
        self._send("interrupt")

    def interrupt_cell(self) -> None:
        """Stop the running cell only: the model is told, and goes on. Doesn't wait for it."""
        self._send("interrupt_cell")

    def _send(self, name: str) -> None:
        if self._writer is not None and self.is_running:
            self._number += 1
            self._writer.write(framed(Call(self._number, name, {})))

    async def stop(self, reason: str = "") -> None:
        """End the session and its sandbox, whoever owns it; its folder and log stay."""
        with contextlib.suppress(StoreError):
            await self._call("stop", type(None), reason=reason)


def attach(session: str, *, state_dir: str | Path | None = None) -> Attached:
    """A session that another process owns, to be used as an asynchronous context manager.

    Args:
        session: Its id, or enough of its beginning.
        state_dir: Where sessions are kept; where the settings say by default.

    Raises:
        UsageError: There is no session of that name.
    """
    return Attached(session, state_dir=state_dir)


def _find(root: Path, session: str) -> tuple[str, Path]:
    base = root / "sessions"
    names = [each.name for each in os.scandir(base)] if base.is_dir() else []
    found = [session] if session in names else [name for name in names if session and name.startswith(session)]
    if len(found) == 1:
        return found[0], base / found[0]
    if found:
        raise UsageError(f"{len(found)} sessions begin with {session!r}.", mend="Give more of the name.")
    raise UsageError(f"There is no session {session[:80]!r}.", mend="See them all with: nbagent sessions")


def _own_state_dir() -> str | None:
    from nbagent import settings

    return settings.load().state_dir
