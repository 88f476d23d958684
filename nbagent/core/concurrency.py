"""Runs blocking work in threads, also at the end of Python, and work to its end that must not be left half done."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
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


def _begin(work: Callable[..., T], arguments: tuple[Any, ...]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(None, functools.partial(work, *arguments))
    except RuntimeError:
        done: asyncio.Future[T] = loop.create_future()
        done.set_result(work(*arguments))
        return done
