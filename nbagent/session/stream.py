"""Events as they happen: of one question, and of the log from a number on."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from nbagent.core.events import Answer, Record
from nbagent.core.journal import Tail

RECORDS_AT_ONCE = 500
"""Records of the log that are read before other tasks of the event loop get their turn."""
Follow = Callable[[Callable[[Record], None]], Callable[[], None]]
"""Calls a reader with each record from now on; returns a function that ends this."""


async def streamed(ask: Callable[[], Awaitable[Answer]], *, follow: Follow) -> AsyncGenerator[Record, None]:
    """Ask a question, and yield each event as it happens; closing the generator early stops the question.

    Args:
        ask: Asks the question.
        follow: The session's.
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


async def follow_since(
    reader: Callable[[Record], None], seq: int, *, folder: Path, follow: Follow
) -> Callable[[], None]:
    """See `AnySession.follow_since`; the log is read in a thread, for it may be long.

    Args:
        reader: Called with the records.
        seq: Begin with the records after this number.
        folder: The session's.
        follow: The session's.
    """
    tail, last, is_live = Tail(folder), seq, False
    lock = threading.RLock()  # some events come from other threads

    def take(record: Record) -> None:
        nonlocal last
        with lock:
            if is_live and record.seq > last:
                last = record.seq
                reader(record)

    def read(record: Record) -> None:
        nonlocal last
        last = record.seq
        reader(record)

    unfollow = follow(take)
    try:
        past = tail.new(since=seq)
        while records := await asyncio.to_thread(lambda: list(itertools.islice(past, RECORDS_AT_ONCE))):
            for record in records:
                read(record)
        with lock:
            for record in tail.new():  # the few that came while the last ones were given to the reader
                read(record)
            is_live = True
    except BaseException:
        unfollow()
        raise
    return unfollow
