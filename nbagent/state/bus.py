"""Events between agents, sessions and processes: an append-only log, and readers that follow it.

A publisher appends to the log of the back end (`EventLog`), which numbers the events without a gap. A subscriber is a
place in that log. It reads on when the log says that it has grown, and no further than its queue has room: what it
didn't read yet waits in the log, not in memory. Something is lost only when the log is cut before a slow reader got
there; the reader gets an `EVENTS_LOST` at that place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from nbagent.core.errors import StoreError
from nbagent.state.scopes import check_name, to_json

PAYLOAD_LIMIT = 64 * 1024
"""Bytes of an event's payload as JSON."""
QUEUE_SIZE = 256
"""Events that wait in memory for one subscriber."""
KEEP_EVENTS = 100_000
"""Events that the log keeps at least, unless they are older than `KEEP_SECONDS`."""
KEEP_SECONDS = 7 * 24 * 3600.0
GIVE_UP_SECONDS = 30.0
"""How long a subscriber tries to reach a log that is gone, before its reader is told."""
_BATCH = 100
_LOOK_AGAIN = 5.0
"""Seconds after which a log is read without having been told to: a publisher may be killed before it tells."""


class EventType(StrEnum):
    """What an event says."""

    TASK_STARTED = "task_started"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    STATE_CHANGED = "state_changed"
    ARTIFACT_SAVED = "artifact_saved"
    MESSAGE = "message"
    EVENTS_LOST = "events_lost"
    """Told by the bus alone: events were removed before this subscriber read them; `payload["count"]` is how many, or
    None if the server lost its log."""


@dataclass(frozen=True, kw_only=True)
class BusEvent:
    """Something that an agent told.

    Attributes:
        id: Its number in the log, from 1, without gaps; of `EVENTS_LOST` that of the last event that was lost.
        type: What it says.
        source_agent: Who told it.
        target_agent: To whom; None is everybody.
        task_id: Of which task, if of one.
        payload: What else there is to say.
        created: When, by the publisher's clock, seconds since the epoch.
    """

    id: int
    type: EventType
    source_agent: str
    target_agent: str | None = None
    task_id: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0


class EventLog(Protocol):
    """What a back end offers the bus. Every method may raise a `StoreError`."""

    async def append(self, event: BusEvent, *, payload: str) -> int:
        """Write an event, its payload as JSON text, and return its number; the event's own is ignored."""

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        """The events that follow a number, in order, at most `limit`."""

    async def last(self) -> int:
        """The number of the last event ever written, 0 before the first."""

    async def grown(self, seconds: float) -> None:
        """Wait until the log may have grown, at most so many seconds. Used by one task at a time."""

    async def trim(self, *, keep: int, before: float) -> None:
        """Remove events from before a time (seconds since the epoch), and all but the last `keep`."""


class Subscription:
    """A subscriber's queue: `await get()`, or `async for event in subscription`. Close it, or use it as a context.

    It gets what is addressed to its agent and what is addressed to everybody, its own events included.

    Args:
        log: Where to read.
        agent_id: For whom.
        after: The number of the event after which to begin.
        size: Events that may wait in memory.

    Attributes:
        position: The number of the last event that was looked at. `subscribe_events(agent, since=position)` continues.
    """

    def __init__(self, log: EventLog, agent_id: str, *, after: int, size: int = QUEUE_SIZE) -> None:
        self.agent_id = agent_id
        self.position = after
        self.wake = asyncio.Event()
        self.wake.set()
        self.closed = False
        self._log = log
        self._queue: asyncio.Queue[BusEvent | StoreError | None] = asyncio.Queue(size)
        self._read_to = after
        self._failure: StoreError | None = None
        self._task = asyncio.create_task(self._pump(), name=f"events of {agent_id}")

    async def get(self) -> BusEvent:
        """The next event, waited for.

        Raises:
            StoreError: The subscription was closed, or the log could not be reached for `GIVE_UP_SECONDS`.
        """
        return self._taken(await self._queue.get() if not (self.closed and self._queue.empty()) else None)

    def get_nowait(self) -> BusEvent:
        """The next event.

        Raises:
            asyncio.QueueEmpty: None has been read yet.
            StoreError: As in `get`.
        """
        return self._taken(self._queue.get_nowait())

    def qsize(self) -> int:
        """How many events wait in memory; more may wait in the log."""
        return self._queue.qsize()

    def empty(self) -> bool:
        """Whether no event waits in memory."""
        return self._queue.empty()

    def _taken(self, item: BusEvent | StoreError | None) -> BusEvent:
        if isinstance(item, StoreError):
            self._failure, self.closed = item, True
        if item is None or isinstance(item, StoreError):
            raise self._failure or StoreError(f"The subscription of {self.agent_id} is closed.")
        self.position = item.id
        return item

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> BusEvent:
        try:
            return await self.get()
        except StoreError:
            if self._failure is not None:
                raise
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the subscription; whoever waits in `get` is told, and an `async for` ends."""
        self.closed = True
        await end(self._task)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def _pump(self) -> None:
        """Carry events from the log to the queue, as far as there is room."""
        loop = asyncio.get_running_loop()
        pause, failing_since = 0.1, 0.0
        while True:
            await self.wake.wait()
            self.wake.clear()
            try:
                await self._read_on()
                pause, failing_since = 0.1, 0.0
            except StoreError as error:
                failing_since = failing_since or loop.time()
                if loop.time() - failing_since > GIVE_UP_SECONDS:
                    await self._queue.put(error)
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
                self.wake.set()

    async def _read_on(self) -> None:
        while True:
            events = await self._log.read(self._read_to, limit=_BATCH)
            if not events and not (events := await self._look_for_loss()):
                return
            for event in events:
                if (missing := event.id - self._read_to - 1) > 0:
                    await self._queue.put(_lost(missing, upto=event.id - 1))
                if event.target_agent is None or event.target_agent == self.agent_id:
                    await self._queue.put(event)
                self._read_to = event.id

    async def _look_for_loss(self) -> list[BusEvent]:
        """Nothing to read is either the end of the log, or the place of something that was removed."""
        last = await self._log.last()
        if last == self._read_to:
            return []
        if last < self._read_to:
            await self._queue.put(_lost(None, upto=0))
            self._read_to = 0
        if not (events := await self._log.read(self._read_to, limit=_BATCH)) and last > self._read_to:
            await self._queue.put(_lost(last - self._read_to, upto=last))
            self._read_to = last
        return events


def _lost(count: int | None, *, upto: int) -> BusEvent:
    return BusEvent(id=upto, type=EventType.EVENTS_LOST, source_agent="nbagent", payload={"count": count})


class Bus:
    """Publishing and subscribing over one log.

    Args:
        log: The back end's.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._subscriptions: set[Subscription] = set()
        self._follower: asyncio.Task[None] | None = None

    async def publish(self, event: BusEvent) -> int:
        """Write an event to the log, and return its number.

        Raises:
            StoreError: It can't be written, or isn't fit to be.
        """
        if event.type is EventType.EVENTS_LOST:
            raise StoreError("An event of type EVENTS_LOST is told by the bus alone.")
        check_name(event.source_agent, "source_agent")
        for name, what in ((event.target_agent, "target_agent"), (event.task_id, "task_id")):
            if name is not None:
                check_name(name, what)
        return await self._log.append(event, payload=to_json(event.payload, what="The payload", limit=PAYLOAD_LIMIT))

    async def subscribe(self, agent_id: str, *, since: int | None = None, size: int = QUEUE_SIZE) -> Subscription:
        """Follow the events from now on, or those after the number `since`.

        Raises:
            StoreError: The log can't be read.
        """
        check_name(agent_id, "agent_id")
        after = await self._log.last() if since is None else since
        subscription = Subscription(self._log, agent_id, after=after, size=size)
        self._subscriptions.add(subscription)
        if self._follower is None:
            self._follower = asyncio.create_task(self._follow(), name="events")
        return subscription

    async def _follow(self) -> None:
        """Wake the subscribers when the log has grown."""
        while True:
            try:
                await self._log.grown(_LOOK_AGAIN)
            except StoreError:
                await asyncio.sleep(0.2)  # the subscribers find out by themselves, and tell their readers
            for subscription in [*self._subscriptions]:
                if subscription.closed:
                    self._subscriptions.discard(subscription)
                subscription.wake.set()

    async def trim(self, *, now: float) -> None:
        """Forget what is too old or too much."""
        await self._log.trim(keep=KEEP_EVENTS, before=now - KEEP_SECONDS)

    async def close(self) -> None:
        """End every subscription."""
        if self._follower is not None:
            await end(self._follower)
            self._follower = None
        for subscription in [*self._subscriptions]:
            await subscription.close()
        self._subscriptions.clear()


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end. More than once if need be: redis-py may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)


def event_of(row: Mapping[str, Any], payload: dict[str, Any]) -> BusEvent:
    """A row of a log as an event. A type that a newer nbagent invented reads as `MESSAGE`."""
    try:
        kind = EventType(row["type"])
    except ValueError:
        kind = EventType.MESSAGE
    return BusEvent(
        id=int(row["id"]),
        type=kind,
        source_agent=row["source"],
        target_agent=row["target"] or None,
        task_id=row["task"] or None,
        payload=payload,
        created=float(row["created"]),
    )
