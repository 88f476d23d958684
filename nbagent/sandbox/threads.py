"""Work that takes a while, in a thread, even at the end of Python."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[..., Result], *arguments: Any) -> Result:
    """Like `asyncio.to_thread`; but at the end of Python, when no thread may begin, it is done at once.

    Some clients, `jupyter run` among them, end their kernels only then.
    """
    loop = asyncio.get_running_loop()
    try:
        done = loop.run_in_executor(None, functools.partial(work, *arguments))
    except RuntimeError:
        return work(*arguments)
    return await done


async def to_the_end(work: Callable[..., Result], *arguments: Any) -> Result:
    """Like `in_thread`, for work that makes something: a thread can't be cancelled, so each cancellation waits for it.

    What it made is there then, and can be removed.
    """
    return await finished(in_thread(work, *arguments))


async def finished(work: Awaitable[Result]) -> Result:
    """Await something that must not be left half done: who is cancelled waits for its end, and is cancelled then."""
    done = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        raise
