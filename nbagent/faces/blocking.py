"""A session for scripts, whose calls wait. The one place where nbagent blocks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from nbagent.core.errors import UsageError
from nbagent.session.protocol import AnySession, settled

if TYPE_CHECKING:
    from nbagent.core.events import Record
    from nbagent.core.options import Keywords
    from nbagent.session.files.session_files import Attachment

T = TypeVar("T")
P = ParamSpec("P")
END_SECONDS = 15.0
"""Seconds that something has to end once Ctrl-C was pressed, or its start has failed."""


def _awaited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingSession, P], T]:
    """A call of every session's, as one that waits."""

    @functools.wraps(method)
    def call(self: BlockingSession, /, *positional: P.args, **named: P.kwargs) -> T:
        found: T = self._wait(getattr(self._session, method.__name__)(*positional, **named))
        return found

    return call


def _settled(method: Callable[Concatenate[Any, P], T | Awaitable[T]]) -> Callable[Concatenate[BlockingSession, P], T]:
    """The same for a call that returns at once where the session is."""

    @functools.wraps(method)
    def call(self: BlockingSession, /, *positional: P.args, **named: P.kwargs) -> T:
        found: T = self._call(getattr(self._session, method.__name__), *positional, **named)
        return found

    return call


class BlockingSession:
    """A session for scripts: the calls of `AnySession`, each of which waits.

    with BlockingSession(model="openai:gpt-5.6", data="sales.csv") as session:
        print(session.ask("Which region grew fastest?").text)

    Ctrl-C during a call stops the cell and the question, and raises KeyboardInterrupt; the session goes on.
    Arguments are those of `Session`. `connect` resumes a session whose process is gone, `attach` attaches to one that
    another process owns.
    """

    def __init__(self, **arguments: Any) -> None:
        from nbagent.session.session import Session

        self._begin(lambda: Session(**arguments))
        self._is_guest = False

    @classmethod
    def connect(cls, session: str, **keywords: Unpack[Keywords]) -> BlockingSession:
        """See `Session.connect`."""
        from nbagent.session.session import Session

        return cls._of(lambda: Session.resumed(session, **keywords), is_guest=False)

    @classmethod
    def attach(cls, session: str, *, state_dir: str | Path | None = None) -> BlockingSession:
        """See `nbagent.attach`; at the end of `with` the session goes on."""
        from nbagent.session.sharing.attach import Attached

        return cls._of(lambda: Attached(session, state_dir=state_dir), is_guest=True)

    @classmethod
    def _of(cls, make: Callable[[], AnySession], *, is_guest: bool) -> BlockingSession:
        made = cls.__new__(cls)
        made._begin(make)
        made._is_guest = is_guest
        made.start()
        return made

    def _begin(self, make: Callable[[], AnySession]) -> None:
        self._session = make()
        self._has_started = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nbagent-session", daemon=True)
        self._thread.start()

    def __enter__(self) -> BlockingSession:
        if not self._has_started:
            self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_guest:
            self.detach()
        else:
            self.stop()

    def start(self) -> None:
        """See `AnySession.start`."""
        try:
            self._wait(self._session.start())
        except BaseException:
            with contextlib.suppress(BaseException):
                asyncio.run_coroutine_threadsafe(self._session.stop(), self._loop).result(timeout=END_SECONDS)
            self._end_loop()
            raise
        self._has_started = True

    def stream(self, question: str, *, files: Sequence[Attachment] = ()) -> Iterator[Record]:
        """See `AnySession.stream`."""
        events = self._session.stream(question, files=files)
        try:
            while True:
                try:
                    yield self._wait(anext(events))
                except StopAsyncIteration:
                    return
        finally:
            self._wait(events.aclose())

    def interrupt(self) -> None:
        """See `AnySession.interrupt`; may be called from another thread."""
        self._loop.call_soon_threadsafe(self._session.interrupt)

    @overload
    def download(self, path: str, *, bound: int | None = None) -> bytes: ...

    @overload
    def download(self, path: str, to: str | Path, *, overwrite: bool = False, bound: int | None = None) -> Path: ...

    def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        """See `AnySession.download`."""
        if to is None:
            return self._wait(self._session.download(path, bound=bound))
        return self._wait(self._session.download(path, to, overwrite=overwrite, bound=bound))

    ask = _awaited(AnySession.ask)
    run = _awaited(AnySession.run)
    install = _awaited(AnySession.install)
    upload = _awaited(AnySession.upload)
    files = _awaited(AnySession.files)
    deliver = _awaited(AnySession.deliver)
    variables = _awaited(AnySession.variables)
    closed = _awaited(AnySession.closed)
    system_prompt = _awaited(AnySession.system_prompt)
    follow_since = _awaited(AnySession.follow_since)
    artifacts = _awaited(AnySession.artifacts)
    load_artifact = _awaited(AnySession.load_artifact)
    check_export = _awaited(AnySession.check_export)
    export = _awaited(AnySession.export)
    pull = _awaited(AnySession.pull)
    use_model = _awaited(AnySession.use_model)
    undo_turn = _awaited(AnySession.undo_turn)
    since = _settled(AnySession.since)
    follow = _settled(AnySession.follow)
    follow_words = _settled(AnySession.follow_words)
    keep_figure = _settled(AnySession.keep_figure)
    interrupt_cell = _settled(AnySession.interrupt_cell)
    rename = _settled(AnySession.rename)
    set_approvals = _settled(AnySession.set_approvals)
    attend = _settled(AnySession.attend)
    approve = _settled(AnySession.approve)
    approve_host = _settled(AnySession.approve_host)
    allow_host = _settled(AnySession.allow_host)

    def detach(self) -> None:
        """See `AnySession.detach`."""
        self._end(self._session.detach)

    def stop(self, reason: str = "") -> None:
        """See `AnySession.stop`."""
        self._end(functools.partial(self._session.stop, reason))

    def _end(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop.is_closed():
            return
        try:
            self._wait(how())
        finally:
            self._end_loop()

    def __getattr__(self, name: str) -> Any:
        """What only a `Session` has, such as `history` and `metrics`; its calls wait too."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._session, name)
        return functools.partial(self._call, found) if callable(found) else found

    def _call(self, method: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the session on the loop's thread, and wait for what it returns."""

        async def work() -> Any:
            return await settled(method(*arguments, **keywords))

        return self._wait(work())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise UsageError("This session was stopped.", mend="Make a new one.")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._session.interrupt)
            with contextlib.suppress(BaseException):
                future.result(timeout=END_SECONDS)
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
