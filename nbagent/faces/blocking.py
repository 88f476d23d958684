"""A session for scripts, whose calls wait. The one place where nbagent blocks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from nbagent.core.errors import UsageError
from nbagent.session.protocol import AnySession, settled

if TYPE_CHECKING:
    from nbagent.core.events import Answer, Cell, Package, Record
    from nbagent.core.options import Keywords
    from nbagent.kernel.transfer.outside import UploadSource
    from nbagent.session.attachments import Given
    from nbagent.session.listing import Listing, Uploaded

T = TypeVar("T")
PATIENCE = 15.0
"""Seconds that something has to end once Ctrl-C was pressed, or its start has failed."""


class BlockingSession:
    """A `Session` for scripts: the same calls, each of which waits.

    with BlockingSession(model="openai:gpt-5.6", data="sales.csv") as session:
        print(session.ask("Which region grew fastest?").text)

    Ctrl-C during a call stops the cell and the question, and raises KeyboardInterrupt; the session goes on.
    Arguments are those of `Session`. `connect` goes on with a session whose process is gone, `attach` comes to one
    that another process owns.
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
        """See `nbagent.attach`; at the end of the `with` the session goes on."""
        from nbagent.session.attach import Attached

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
        """See `Session.start`."""
        try:
            self._wait(self._session.start())
        except BaseException:
            with contextlib.suppress(BaseException):
                asyncio.run_coroutine_threadsafe(self._session.stop(), self._loop).result(timeout=PATIENCE)
            self._end_loop()
            raise
        self._has_started = True

    def ask(self, question: str, *, files: Sequence[Given] = ()) -> Answer:
        """See `Session.ask`."""
        return self._wait(self._session.ask(question, files=files))

    def run(self, code: str, *, timeout: float | None = None) -> Cell:
        """See `Session.run`."""
        return self._wait(self._session.run(code, timeout=timeout))

    def stream(self, question: str, *, files: Sequence[Given] = ()) -> Iterator[Record]:
        """See `Session.stream`."""
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
        """See `Session.interrupt`; may be called from another thread."""
        self._loop.call_soon_threadsafe(self._session.interrupt)

    def install(self, requirements: list[str]) -> list[Package]:
        """See `Session.install`."""
        return self._wait(self._session.install(requirements))

    def upload(
        self, source: UploadSource, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """See `Session.upload`."""
        return self._wait(self._session.upload(source, name, to=to, unpack=unpack))

    @overload
    def download(self, path: str) -> bytes: ...

    @overload
    def download(self, path: str, to: str | Path, *, overwrite: bool = False) -> Path: ...

    def download(self, path: str, to: str | Path | None = None, *, overwrite: bool = False) -> bytes | Path:
        """See `Session.download`."""
        if to is None:
            return self._wait(self._session.download(path))
        return self._wait(self._session.download(path, to, overwrite=overwrite))

    def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """See `Session.files`."""
        return self._wait(self._session.files(folder, limit=limit))

    def export(self, path: str | Path, *, force: bool = False) -> Path:
        """See `Session.export`."""
        found: Path = self._call(self._session.export, path, force=force)
        return found

    def detach(self) -> None:
        """See `Session.detach`: the kernel is left to `connect`, or the session to its owner."""
        self._end(self._session.detach)

    def stop(self) -> None:
        """See `Session.stop`."""
        self._end(self._session.stop)

    def _end(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop.is_closed():
            return
        try:
            self._wait(how())
        finally:
            self._end_loop()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._session, name)
        return functools.partial(self._call, found) if callable(found) else found

    def _call(self, method: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the session where that lives, and wait for what it returns."""

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
                future.result(timeout=PATIENCE)
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
