"""A session for scripts, whose calls wait. The one place where nbagent blocks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, overload

from nbagent.errors import UsageError
from nbagent.events import Answer, Cell, Package, Record
from nbagent.kernel.transfer.ends import Source
from nbagent.session.attachments import Given
from nbagent.session.listing import Listing, Uploaded
from nbagent.session.session import Session

T = TypeVar("T")


class BlockingSession:
    """A `Session` for scripts: the same calls, each of which waits.

    with BlockingSession(model="openai:gpt-5", data="sales.csv") as session:
        print(session.ask("Which region grew fastest?").text)

    Ctrl-C during a call stops the cell and the question, and raises KeyboardInterrupt; the session goes on.
    Arguments are those of `Session`.
    """

    def __init__(self, **arguments: Any) -> None:
        self._session = Session(**arguments)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nbagent-session", daemon=True)
        self._thread.start()

    def __enter__(self) -> BlockingSession:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """See `Session.start`."""
        try:
            self._wait(self._session.start())
        except BaseException:
            with contextlib.suppress(BaseException):
                asyncio.run_coroutine_threadsafe(self._session.stop(), self._loop).result(timeout=15)
            self._end_loop()
            raise

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
        self, source: Source, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
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

        async def work() -> Path:
            return self._session.export(path, force=force)

        return self._wait(work())

    def stop(self) -> None:
        """See `Session.stop`."""
        if self._loop.is_closed():
            return
        try:
            self._wait(self._session.stop())
        finally:
            self._end_loop()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._session, name)

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
                future.result(timeout=self._session._spec.trust.limits.grace + 5)
            raise

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
