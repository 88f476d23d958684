"""Events as they happen: of one question, and of the log from a number on; and words, before they are an event."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from nbagent.core.errors import contained
from nbagent.core.events import Answer, Answered, ModelFailed, ModelReplied, Record
from nbagent.core.session_log import Tail

RECORDS_AT_ONCE = 500
"""Records of the log that are read before other tasks of the event loop get their turn."""
Follow = Callable[[Callable[[Record], None]], Callable[[], None]]
"""Calls a reader with each record from now on; returns a function that ends this."""


class WordFeed:
    """The words of a reply while a model writes it, for whoever follows them; the log has only whole replies."""

    def __init__(self) -> None:
        self._readers: list[Callable[[int, str], None]] = []
        self._turn = self._whole = 0
        self._text = ""

    def say(self, turn: int, text: str, *, after: int | None = None) -> None:
        """Take the next words.

        Args:
            turn: The question's number.
            text: The words.
            after: The number of the log's last record when they were written, if that was in another process: words of
                a reply that has become whole meanwhile are late.
        """
        if after is not None and after < self._whole:
            return
        self._turn, self._text = turn, self._text + text
        for reader in list(self._readers):
            with contained("A reader missed words of the model's"):
                reader(turn, text)

    def hear(self, record: Record) -> None:
        """Take the log's next record: a whole reply, a failed one or an answer ends the words so far."""
        if isinstance(record.event, ModelReplied | ModelFailed | Answered):
            self._whole, self._text = record.seq, ""

    def follow(self, reader: Callable[[int, str], None]) -> Callable[[], None]:
        """See `AnySession.follow_words`."""
        if self._text:
            reader(self._turn, self._text)
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)


async def streamed(ask: Callable[[], Awaitable[Answer]], *, follow: Follow) -> AsyncGenerator[Record, None]:
    """Ask a question, and yield each event as it happens; closing the generator early stops the question."""
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
    """See `AnySession.follow_since`; the log is read in a thread, for it may be long."""
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
