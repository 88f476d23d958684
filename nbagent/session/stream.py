"""The answer to a question, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from nbagent.core.events import Answer, Record


async def streamed(
    ask: Callable[[], Awaitable[Answer]], *, follow: Callable[[Callable[[Record], None]], Callable[[], None]]
) -> AsyncGenerator[Record, None]:
    """Ask a question, and yield each event as it happens; closing the generator early stops the question.

    Args:
        ask: Asks the question.
        follow: Calls a reader with each event; returns a function that ends this.
    """
    queue: asyncio.Queue[Record | None] = asyncio.Queue()
    unfollow = follow(queue.put_nowait)
    asking = asyncio.ensure_future(ask())
    asking.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (record := await queue.get()) is not None:
            yield record
        await asking
    finally:
        unfollow()
        if not asking.done():
            asking.cancel()
        await asyncio.wait([asking])
        if not asking.cancelled():
            # Was raised above, or the caller has left early and doesn't want it.
            asking.exception()
