"""Work that takes a while, in a thread, even at the end of Python."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
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
    """Like `in_thread`, for work that makes something: each cancellation waits for its end, see `uncancelled`."""
    return await uncancelled(in_thread(work, *arguments))


async def uncancelled(work: Coroutine[Any, Any, Result]) -> Result:
    """Await work that makes or removes something: each cancellation waits for its end, and is raised then.

    Whoever is cancelled so finds all that was to be made, to remove it, and nothing that was to be removed.
    """
    done = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        raise
