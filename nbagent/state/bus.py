"""The event bus between agents, sessions and processes: an append-only log, and subscribers that follow it.

A publisher appends to the back end's log (`EventLog`), which numbers the events without gaps. A subscriber has a
position in that log. It reads on when the log has grown and its queue has room, so unread events wait in the log, not
in memory. Events are lost only if the log is trimmed before a slow subscriber has read them; it gets an `EVENTS_LOST`
in their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from nbagent.core.errors import StoreError
from nbagent.state.scopes import check_name, decode, encode

PAYLOAD_LIMIT = 64 * 1024
"""Bytes of an event's payload as JSON."""
QUEUE_SIZE = 256
"""Events that wait in memory for one subscriber."""
KEEP_EVENTS = 100_000
"""Events that the log keeps at least, unless they are older than `KEEP_SECONDS`."""
KEEP_SECONDS = 7 * 24 * 3600.0
"""Seconds for which the log keeps events."""
GIVE_UP_SECONDS = 30.0
"""Seconds for which a subscriber tries to reach a log before `get` raises an error."""
_BATCH = 100
_LOOK_AGAIN = 5.0
"""Seconds after which a log is read without a notification: a publisher may be killed before it sends one."""


class EventType(StrEnum):
    """What an event is about."""

    TASK_STARTED = "task_started"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    STATE_CHANGED = "state_changed"
    ARTIFACT_SAVED = "artifact_saved"
    MESSAGE = "message"
    EVENTS_LOST = "events_lost"
    """Made by the bus: events were removed before this subscriber read them. `payload["count"]` is their number; None
    if the server lost its log."""


@dataclass(frozen=True, kw_only=True)
class BusEvent:
    """An event on the bus.

    Attributes:
        id: Its number in the log, from 1, without gaps; for `EVENTS_LOST`, the number of the last event that was lost.
        type: What it is about.
        source_agent: The agent that published it.
        target_agent: The agent that it is for; None for all.
        task_id: The task that it belongs to, if any.
        payload: Its data, as JSON has it.
        created: When it was published, by the publisher's clock, in seconds since the epoch.
    """

    id: int
    type: EventType
    source_agent: str
    target_agent: str | None = None
    task_id: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0


class EventLog(Protocol):
    """The log of a back end, which the bus reads and writes. Every method may raise a `StoreError`."""

    async def append(self, event: BusEvent, *, payload: str) -> int:
        """Write an event with this payload, which is JSON text, in place of its own; returns the event's number."""

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        """The events after a number, in order, at most `limit`."""

    async def last(self) -> int:
        """The number of the last event ever written, 0 before the first."""

    async def grown(self, seconds: float) -> None:
        """Wait until the log may have grown, or for so many seconds. One task at a time may call this."""

    async def trim(self, *, keep: int, before: float) -> None:
        """Remove events older than `before` (seconds since the epoch), and all but the last `keep`."""


class Subscription:
    """A subscriber's queue: `await get()`, or `async for event in subscription`. Close it, or use it as a context.

    It has the events for its agent and those for all, its agent's own included.

    Args:
        log: The log that it reads.
        after: The number of the event after which to begin.
        size: Events that may wait in memory.

    Attributes:
        position: The number of the last event that was taken. `subscribe_events(agent, since=position)` continues.
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
        """Wait for the next event.

        Raises:
            StoreError: The subscription was closed, or the log could not be reached for `GIVE_UP_SECONDS`.
        """
        return self._event(await self._queue.get() if not (self.closed and self._queue.empty()) else None)

    def qsize(self) -> int:
        """The number of events that wait in memory; more may wait in the log."""
        return self._queue.qsize()

    def empty(self) -> bool:
        """Whether no event waits in memory."""
        return self._queue.empty()

    def _event(self, item: BusEvent | StoreError | None) -> BusEvent:
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
        """End the subscription: a `get` that waits raises an error, and an `async for` ends."""
        self.closed = True
        await end(self._task)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def _pump(self) -> None:
        """Carry events from the log to the queue, as long as there is room."""
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
                    await self._queue.put(_loss(missing, upto=event.id - 1))
                if event.target_agent is None or event.target_agent == self.agent_id:
                    await self._queue.put(event)
                self._read_to = event.id

    async def _look_for_loss(self) -> list[BusEvent]:
        """Where nothing can be read, tell whether that is the end of the log or a place where events were removed."""
        last = await self._log.last()
        if last == self._read_to:
            return []
        if last < self._read_to:
            await self._queue.put(_loss(None, upto=0))
            self._read_to = 0
        if not (events := await self._log.read(self._read_to, limit=_BATCH)) and last > self._read_to:
            await self._queue.put(_loss(last - self._read_to, upto=last))
            self._read_to = last
        return events


def _loss(count: int | None, *, upto: int) -> BusEvent:
    return BusEvent(id=upto, type=EventType.EVENTS_LOST, source_agent="nbagent", payload={"count": count})


class Bus:
    """Publishes to one log, and subscribes to it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._subscriptions: set[Subscription] = set()
        self._follower: asyncio.Task[None] | None = None

    async def publish(self, event: BusEvent) -> int:
        """Write an event to the log, and return its number."""
        if event.type is EventType.EVENTS_LOST:
            raise StoreError("An event of type EVENTS_LOST can't be published: the bus alone makes them.")
        check_name(event.source_agent, "source_agent")
        for name, what in ((event.target_agent, "target_agent"), (event.task_id, "task_id")):
            if name is not None:
                check_name(name, what)
        return await self._log.append(event, payload=encode(event.payload, what="The payload", limit=PAYLOAD_LIMIT))

    async def subscribe(self, agent_id: str, *, since: int | None = None, size: int = QUEUE_SIZE) -> Subscription:
        """Follow the events from now on, or those after the number `since`."""
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
                await asyncio.sleep(0.2)  # each subscriber meets the same failure, and raises it
            for subscription in [*self._subscriptions]:
                if subscription.closed:
                    self._subscriptions.discard(subscription)
                subscription.wake.set()

    async def trim(self, *, now: float) -> None:
        """Remove events that are too old or too many."""
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
    """Cancel a task, and wait for its end; repeatedly, since redis-py may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)


def event_of(row: Mapping[str, Any]) -> BusEvent:
    """A row of a log as an event; a type that only a newer nbagent knows becomes `MESSAGE`.

    Raises:
        StoreError: Something other than nbagent wrote it.
    """
    try:
        known = row["type"] in [*EventType]
        return BusEvent(
            id=int(row["id"]),
            type=EventType(row["type"]) if known else EventType.MESSAGE,
            source_agent=str(row["source"]),
            target_agent=row["target"] or None,
            task_id=row["task"] or None,
            payload=decode(row["payload"], what="An event"),
            created=float(row["created"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError("An event can't be read: something other than nbagent wrote it.") from error
