"""Runs blocking work in threads, also while Python ends; and runs work to its end that must not be left half done."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Like `asyncio.to_thread`, but at the end of Python, when no thread can be started, the work is done at once.

    Some clients, such as `jupyter run`, end their kernels only then.
    """
    return await _begin(work, arguments)


async def to_the_end(work: Callable[..., T], *arguments: Any) -> T:
    """Like `in_thread`, but a cancellation waits for the end of the work, so that what it made can be removed."""
    # A future, not a task: an event loop that ends cancels even tasks that are shielded.
    return await finished(_begin(work, arguments))


async def finished(work: Awaitable[T]) -> T:
    """Await work that must not be left half done: each cancellation waits for its end, and is raised then."""
    done = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError as cancelled:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        if not done.cancelled():
            raise cancelled from done.exception()
        raise


class Piecewise:
    """Work on what comes piece by piece, done in order on a thread of its own while further pieces come.

    It must be closed. Only a few pieces wait at a time.
    """

    WAITING = 4
    SMALL = 64 * 1024

    def __init__(self, work: Callable[[bytes], object]) -> None:
        self._work = work
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[object]] = deque()

    def update(self, piece: bytes) -> None:
        """Take the next piece."""
        if self._thread is None:
            if len(piece) < self.SMALL:
                self._work(piece)
                return
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="nbagent-piece")
        if len(self._waiting) >= self.WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._work, piece))

    def close(self) -> None:
        """Wait until the pieces are done; raises what the work on one raised."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        while self._waiting:
            self._waiting.popleft().result()


class Hashing(Piecewise):
    """SHA-256 of what comes piece by piece; it must be closed, by `hexdigest` or `close`."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        super().__init__(self._digest.update)

    def hexdigest(self) -> str:
        """The hash of all pieces."""
        self.close()
        return self._digest.hexdigest()


def _begin(work: Callable[..., T], arguments: tuple[Any, ...]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(None, functools.partial(work, *arguments))
    except RuntimeError:
        done: asyncio.Future[T] = loop.create_future()
        done.set_result(work(*arguments))
        return done
