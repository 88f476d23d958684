"""A session that another process owns: seen by its log, steered through its server.

    async with nbagent.attach("20261121-0645") as session:
        answer = await session.ask("Which region grew fastest?")

It has the calls of every session (`protocol.AnySession`), in any process of the same person, and imports nothing that
runs models or kernels.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from nbagent.core import fileio
from nbagent.core.errors import OwnerGone, UsageError, contained
from nbagent.core.events import (
    Answer,
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    Record,
    SessionResumed,
    SessionStarted,
)
from nbagent.core.session_log import SENT_PREFIX, Tail
from nbagent.session.catalog import lookup
from nbagent.session.files.sandbox_files import MAX_BYTES_IN_MEMORY, Uploaded
from nbagent.session.protocol import AnySession
from nbagent.session.sharing.owner_connection import OwnerConnection
from nbagent.session.stream import WordFeed

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort
    from nbagent.kernel.transfer.outside import UploadSource
    from nbagent.session.files.session_files import Attachment
    from nbagent.state import Artifact

T = TypeVar("T")
P = ParamSpec("P")


def _awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Attached, P], Coroutine[Any, Any, T]]:
    """A method that has the owner call its own of this name, and is awaited as that is."""

    @functools.wraps(method)
    async def call(self: Attached, /, *positional: P.args, **named: P.kwargs) -> T:
        found: T = await self.call(method.__name__, **_by_name(method, positional, named))
        return found

    return call


def _begun(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Attached, P], asyncio.Task[Any]]:
    """The same for a method that returns at once where the session is: it is called whether or not it is awaited."""

    @functools.wraps(method)
    def call(self: Attached, /, *positional: P.args, **named: P.kwargs) -> asyncio.Task[Any]:
        return self._owner.soon(self.call(method.__name__, **_by_name(method, positional, named)))

    return call


def _by_name(method: Callable[..., Any], positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method by their names, as they go over the socket: the owner has another working folder."""
    bound = inspect.signature(method).bind(None, *positional, **named).arguments
    bound.pop("self")
    place = _PLACES.get(method.__name__)
    return {key: _absolute(value) if key == place else value for key, value in bound.items()}


_PLACES = {"check_export": "path", "export": "path", "pull": "to"}
"""Arguments that are paths on the host."""


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - the path may be of a link, which stays one


class Attached:
    """A session that another process owns.

    Use it as an asynchronous context manager; leaving it leaves the session running. When its owner has gone,
    `is_running` is false, calls raise `OwnerGone`, and all that was written can still be read. `start` may be called
    again once another process owns it: whoever follows then gets what happened meanwhile first.

    What is known of the session comes from its log, such as `engine`, `is_replay` (false before the first question) and
    `unfinished` (without its cells).
    """

    outlasts_login = True

    def __init__(self, session: str, *, state_dir: str | Path | None = None) -> None:
        from nbagent.core import settings

        self.folder = lookup.find(settings.state_root(state_dir), session)
        self.id = self.folder.name
        self.last = self.turns = 0
        self.engine = self.trust = self.isolation = ""
        self.is_replay = self.attended = False
        self.data: list[str] = []
        self.hosts: tuple[str, ...] | None = ()
        self.news: list[Record] = []
        self.unfinished: Answer | None = None
        self._answered: Answer | None = None
        self._cell = 0
        self._figures: Path | None = None
        self._tail = Tail(self.folder)
        self._readers: list[Callable[[Record], None]] = []
        self._words = WordFeed()
        self._owner = OwnerConnection(self.folder, on_growth=self._read, on_words=self._words.say)

    async def __aenter__(self) -> Attached:
        if not self.is_running:
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.detach()

    @property
    def is_running(self) -> bool:
        """Whether the process that owns the session is there."""
        return self._owner.is_there

    async def start(self) -> None:
        if self.is_running:
            raise UsageError(f"This is attached to the session {self.id} already.")
        async with self._owner.connecting():
            await asyncio.to_thread(self._catch_up)
            self._read()
        if self.attended:
            await self.attend()

    async def detach(self) -> None:
        await self._owner.leave()

    async def closed(self) -> None:
        """See `AnySession.closed`; all that the owner wrote was read by then."""
        await self._owner.closed()

    # -- what happens -------------------------------------------------------------------------------------------

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)

    def follow_words(self, reader: Callable[[int, str], None]) -> Callable[[], None]:
        return self._words.follow(reader)

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
        self._words.hear(record)
        match record.event:
            case SessionStarted(engine=engine, trust=trust, data=data, security=security, isolation=isolation):
                self.engine, self.trust, self.data = engine, trust, [each.path for each in data]
                self.isolation = isolation
                hosts = security.get("allowed_hosts", ())
                self.hosts = () if not security.get("network_enabled") else None if hosts is None else tuple(hosts)
            case Answered() as answer:
                self._answered = answer
            case Asked(turn=turn, replay=replay):
                self.turns, self.is_replay = turn, replay
            case CellStarted(cell=cell):
                self._cell = cell
            case CellFinished() | SessionResumed():
                self._cell = 0

    async def open_artifact(self, artifact_id: str) -> tuple[Artifact, IO[bytes]]:
        """One of `artifacts()` and its content as a file, which may be larger than memory.

        Raises:
            StoreError: As for `load_artifact`.
        """
        from nbagent.state.views import ViewReader

        return await asyncio.to_thread(ViewReader(self.folder.parent.parent).open, artifact_id)

    def keep_figure(self, name: str, content: bytes) -> Path | None:
        """See `AnySession.keep_figure`; into a temporary folder, since the session's own is its owner's."""
        with contextlib.suppress(OSError):
            self._figures = self._figures or Path(tempfile.mkdtemp(prefix=f"nbagent-{self.id}-"))
            path = self._figures / name
            path.write_bytes(content)
            return path
        return None

    # -- calls --------------------------------------------------------------------------------------------------

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Have the owner make one of the calls in `wire.CALLS`, for a face that relays calls of another program.

        Raises:
            OwnerGone: The owner has ended.
            NbagentError: The call raised it.
        """
        return await self._owner.call(name, **arguments)

    @contextlib.asynccontextmanager
    async def _shared_folder(self) -> AsyncGenerator[Path, None]:
        """A folder for files on their way, which the owner sees too, wherever it has its /tmp."""
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=SENT_PREFIX, dir=self.folder)
        try:
            yield Path(folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def ask(self, question: str, *, files: Sequence[Attachment] = (), uploaded: Sequence[str] = ()) -> Answer:
        before, self.unfinished = self._answered, None
        async with self._shared_folder() if files else contextlib.nullcontext(self.folder) as folder:
            pairs = [each if isinstance(each, tuple) else (None, each) for each in files]
            sent = [await _readable(source, name, folder / str(at)) for at, (name, source) in enumerate(pairs)]
            try:
                answer: Answer = await self.call("ask", question=question, files=sent, uploaded=[*uploaded])
            except BaseException:
                self.unfinished = self._answered if self._answered is not before else None
                raise
        return answer

    async def upload(
        self, source: UploadSource, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        async with self._shared_folder() as folder:
            called, path = await _readable(source, name, folder / "file")
            found: Uploaded = await self.call("upload", source=path, name=called, to=to, unpack=unpack)
            return found

    @overload
    async def download(self, path: str, *, bound: int | None = None) -> bytes: ...

    @overload
    async def download(
        self, path: str, to: str | Path, *, overwrite: bool = False, bound: int | None = None
    ) -> Path: ...

    async def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        if to is not None:
            found: Path = await self.call("download", path=path, to=_absolute(to), overwrite=overwrite, bound=bound)
            return found
        most = MAX_BYTES_IN_MEMORY if bound is None else min(bound, MAX_BYTES_IN_MEMORY)
        async with self._shared_folder() as folder:
            found = await self.call("download", path=path, to=str(folder / "file"), bound=most)
            return await asyncio.to_thread(found.read_bytes)

    def attend(self, answers: bool = True) -> asyncio.Task[None]:
        self.attended = answers
        return self._owner.soon(self.call("attend", answers=answers))

    def interrupt(self) -> None:
        self._owner.send("interrupt")

    def interrupt_cell(self) -> bool:
        """See `AnySession.interrupt_cell`; returns whether this process knew of a running cell."""
        self._owner.send("interrupt_cell")
        return self._cell > 0

    async def stop(self, reason: str = "") -> None:
        with contextlib.suppress(OwnerGone):
            await self.call("stop", reason=reason)

    @property
    def runs(self) -> KernelPort:
        return cast("KernelPort", _RemoteKernel(self.call))

    since = AnySession.since
    follow_since = AnySession.follow_since
    artifacts = AnySession.artifacts
    load_artifact = AnySession.load_artifact
    stream = AnySession.stream
    run = _awaited(AnySession.run)
    system_prompt = _awaited(AnySession.system_prompt)
    install = _awaited(AnySession.install)
    files = _awaited(AnySession.files)
    deliver = _awaited(AnySession.deliver)
    variables = _awaited(AnySession.variables)
    use_model = _awaited(AnySession.use_model)
    undo_turn = _awaited(AnySession.undo_turn)
    pull = _awaited(AnySession.pull)
    check_export = _awaited(AnySession.check_export)
    export = _awaited(AnySession.export)
    rename = _begun(AnySession.rename)
    set_approvals = _begun(AnySession.set_approvals)
    approve = _begun(AnySession.approve)
    approve_host = _begun(AnySession.approve_host)
    allow_host = _begun(AnySession.allow_host)


class _RemoteKernel:
    """The owner's kernel for an agent of this process: each method of `KernelPort` is a call that the owner makes."""

    def __init__(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        from nbagent.agent.ports import KernelPort

        method = getattr(KernelPort, name)
        return lambda *positional, **named: self._call(f"runs.{name}", **_by_name(method, positional, named))


async def _readable(source: UploadSource, name: str | None, place: Path) -> tuple[str, str]:
    """The name of a file, and a path where the owner can read it: contents are written to `place`."""
    from nbagent.kernel.transfer.outside import name_of

    called = name_of(source, name)
    if isinstance(source, str | Path):
        return called, _absolute(source)

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
        UsageError: There is no session of that id.
    """
    return Attached(session, state_dir=state_dir)
