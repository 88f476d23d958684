"""Events across sessions and processes: order, addresses, what a slow reader loses, and servers that go away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import machine
import pytest
import redis.asyncio
from state.jobs import Job, answer, talk
from state.servers import Redis, private_folder

from nbagent.core.errors import StoreError
from nbagent.state import BusEvent, EventType, StateManager, Subscription, bell, bus
from nbagent.state.bus import event_of


async def take(subscription: Subscription, count: int) -> list[BusEvent]:
    """The next events; fails if they don't come."""
    return [await asyncio.wait_for(subscription.get(), 15) for _ in range(count)]


async def say(state: StateManager, *numbers: int, target: str | None = None, source: str = "source") -> None:
    """Publish one message for each number."""
    for number in numbers:
        await state.publish_event(EventType.MESSAGE, source_agent=source, target_agent=target, payload={"n": number})


def numbers(events: list[BusEvent]) -> list[int]:
    """What `say` said."""
    return [event.payload["n"] for event in events]


async def test_an_event_reaches_whom_it_is_for(state: StateManager) -> None:
    """An agent gets what is addressed to it and to everybody, in order, and nothing that is another's."""
    async with await state.subscribe_events("ann") as ann, await state.subscribe_events("bob") as bob:
        await say(state, 1)
        await say(state, 2, target="ann")
        await say(state, 3, target="bob")
        await say(state, 4)
        assert numbers(await take(ann, 3)) == [1, 2, 4]
        assert numbers(await take(bob, 3)) == [1, 3, 4]
        await asyncio.sleep(0.1)
        assert ann.empty()
        assert bob.qsize() == 0


async def test_a_subscriber_gets_what_came_since(state: StateManager) -> None:
    """From now on, or from an event on; all that is kept if asked."""
    await say(state, 1, 2, 3)
    now, later, all_kept = [await state.subscribe_events("me", since=since) for since in (None, 2, 0)]
    await say(state, 4)
    assert numbers(await take(now, 1)) == [4]
    assert numbers(await take(later, 2)) == [3, 4]
    events = await take(all_kept, 4)
    assert numbers(events) == [1, 2, 3, 4]
    assert [event.id for event in events] == [1, 2, 3, 4]
    assert all(abs(event.created - time.time()) < 60 for event in events)
    assert all_kept.position == 4


async def test_a_loop_over_events_ends_with_the_subscription(state: StateManager) -> None:
    """`async for` stops when the subscription is closed, and who waits in `get` is told."""
    subscription = await state.subscribe_events("me")
    seen: list[int] = []

    async def read() -> None:
        async for event in subscription:
            seen.append(event.payload["n"])

    reader = asyncio.create_task(read())
    await say(state, 1, 2)
    while len(seen) < 2:
        await asyncio.sleep(0.01)
    await subscription.close()
    await asyncio.wait_for(reader, 60)
    assert seen == [1, 2]
    with pytest.raises(StoreError, match="closed"):
        await asyncio.wait_for(subscription.get(), 60)


async def test_two_processes_talk(url: str, tmp_path: Path) -> None:
    """What one says the other hears, in order; an answer is back within a fraction of a second."""
    rounds = 20
    child = Job(answer, str(tmp_path), url, rounds)
    async with StateManager(tmp_path, url=url) as state, await state.subscribe_events("parent", since=0) as queue:
        assert (await asyncio.wait_for(queue.get(), 30)).type is EventType.TASK_STARTED
        waits = []
        for number in range(rounds):
            start = time.monotonic()
            await say(state, number, target="child")
            assert numbers(await take(queue, 1)) == [number]
            waits.append(time.monotonic() - start)
    await child.end()
    assert sorted(waits)[rounds // 2] < 0.3, waits


async def test_many_publishers_at_once(url: str, tmp_path: Path) -> None:
    """A reader that follows meanwhile gets each event once, those of one source in their order."""
    async with StateManager(tmp_path, url=url) as state, await state.subscribe_events("me") as queue:
        talkers = [Job(talk, str(tmp_path), url, f"s{n}", 100) for n in range(3)]
        events = await take(queue, 300)
        for talker in talkers:
            await talker.end()
    assert [event.id for event in events] == list(range(1, 301))
    for name in ("s0", "s1", "s2"):
        assert numbers([event for event in events if event.source_agent == name]) == list(range(100))


async def test_a_slow_reader_does_not_fill_the_memory(state: StateManager) -> None:
    """What it hasn't read waits in the log, and nothing is lost."""
    subscription = await state.bus.subscribe("me", size=5)
    await say(state, *range(60))
    await asyncio.sleep(0.2)
    assert subscription.qsize() == 5
    assert numbers(await take(subscription, 60)) == list(range(60))


async def test_a_reader_is_told_what_it_lost(state: StateManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the log was cut, the reader gets the number of events that are gone, and then the rest."""
    monkeypatch.setattr(bus, "KEEP_EVENTS", 10)
    subscription = await state.bus.subscribe("me", size=5)
    # It reads a hundred at a time: the first are on their way already when the log is cut.
    await say(state, *range(300))
    await state.bus.trim(now=time.time())
    late = await state.subscribe_events("late", since=0)
    assert (await take(late, 1))[0].payload == {"count": 290}
    assert numbers(await take(late, 10)) == list(range(290, 300))
    got = [await asyncio.wait_for(subscription.get(), 15)]
    while got[-1].payload.get("n") != 299:
        got.append(await asyncio.wait_for(subscription.get(), 15))
    (lost,) = [event for event in got if event.type is EventType.EVENTS_LOST]
    assert len(got) - 1 + lost.payload["count"] == 300
    assert lost.id == lost.payload["count"] + got.index(lost)


async def test_old_events_are_forgotten(state: StateManager, go_on: Callable[[float], None]) -> None:
    """By age, all of them if need be; the numbers go on, and a reader from before is told."""
    await say(state, 1, 2)
    go_on(0.6 * bus.KEEP_SECONDS)
    await say(state, 3)
    go_on(0.6 * bus.KEEP_SECONDS)
    await state.sweep()
    late = await state.subscribe_events("me", since=0)
    assert (await take(late, 1))[0].payload == {"count": 2}
    assert numbers(await take(late, 1)) == [3]
    go_on(0.6 * bus.KEEP_SECONDS)
    await state.sweep()
    later = await state.subscribe_events("me", since=1)
    assert (await take(later, 1))[0].payload == {"count": 2}
    await say(state, 4)
    (event,) = await take(later, 1)
    assert (event.id, event.payload) == (4, {"n": 4})


@pytest.mark.parametrize("payload", [{"x": object()}, {"x": "y" * bus.PAYLOAD_LIMIT}], ids=["object", "large"])
async def test_what_is_no_payload_is_refused(tmp_path: Path, payload: dict[str, object]) -> None:
    """It never reaches the log."""
    async with StateManager(tmp_path) as state:
        with pytest.raises(StoreError, match="The payload"):
            await state.publish_event(EventType.MESSAGE, source_agent="a", payload=payload)
        with pytest.raises(StoreError, match="the bus alone makes them"):
            await state.publish_event(EventType.EVENTS_LOST, source_agent="a")
        await say(state, 1)
        assert (await take(await state.subscribe_events("me", since=0), 1))[0].id == 1


async def test_without_inotify_the_log_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which every inotify instance is taken is slower by some hundredths of a second."""

    def none_left(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(bell.inotify_simple, "INotify", none_left)
    async with StateManager(tmp_path) as one, StateManager(tmp_path) as two:
        queue = await one.subscribe_events("me")
        await say(two, 1)
        start = time.monotonic()
        assert numbers(await take(queue, 1)) == [1]
        assert time.monotonic() - start < 4
        await say(one, 2)
        assert numbers(await take(queue, 1)) == [2]


async def test_waiting_for_events_costs_nothing(url: str, tmp_path: Path) -> None:
    """Ten subscribers that wait use less than a hundredth of a core, in one of five looks."""
    async with StateManager(tmp_path, url=url) as state:
        for number in range(10):
            await state.subscribe_events(f"a{number}")
        await asyncio.sleep(0.5)
        for _ in range(5):
            before = time.process_time()
            await asyncio.sleep(1.5)
            if (used := time.process_time() - before) < machine.pace() / 2:
                break
        assert used < machine.pace() / 2


async def test_a_reader_outlives_its_server(tmp_path: Path) -> None:
    """A server that comes back with its data is read on; one that comes back empty tells the reader so."""
    with private_folder() as folder:
        server = Redis(folder, "--appendonly", "yes", "--appendfsync", "always")
        server.start()
        try:
            async with StateManager(tmp_path, url=server.url) as state, await state.subscribe_events("me") as queue:
                await say(state, 1)
                assert numbers(await take(queue, 1)) == [1]
                server.stop()
                with pytest.raises(StoreError, match=r"127\.0\.0\.1:\d+/0 doesn't answer"):
                    await say(state, 2)
                server.start()
                await say(state, 3)
                assert numbers(await take(queue, 1)) == [3]
                server.stop()
                server.options = ()
                server.start()
                await say(state, 4)
                lost, event = await take(queue, 2)
                assert (lost.type, lost.payload) == (EventType.EVENTS_LOST, {"count": None})
                assert event.payload == {"n": 4}
        finally:
            server.stop()


async def test_a_reader_is_told_that_its_server_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a while, and then every reader gets one sentence."""
    monkeypatch.setattr(bus, "GIVE_UP_SECONDS", 1.0)
    with private_folder() as folder:
        server = Redis(folder)
        server.start()
        async with StateManager(tmp_path, url=server.url) as state:
            queue = await state.subscribe_events("me")
            server.stop()
            with pytest.raises(StoreError, match="doesn't answer"):
                await asyncio.wait_for(queue.get(), 30)
            with pytest.raises(StoreError, match="doesn't answer"):
                await queue.get()


ROW = {"id": 1, "type": "message", "source": "a", "target": "", "task": "", "payload": "{}", "created": 1.0}


@pytest.mark.parametrize(
    "odd", [{"id": "x"}, {"created": "soon"}, {"created": None}, {"payload": "[]"}, {"payload": "[" * 9_999}]
)
def test_a_row_that_somebody_else_wrote_is_an_error_of_the_store(odd: dict[str, object]) -> None:
    """A subscriber hears of it: any other error ended its reading without a word, and it waited for ever."""
    assert event_of(ROW).id == 1
    assert event_of(ROW | {"type": "newer"}).type is EventType.MESSAGE
    for row in (ROW | odd, {name: value for name, value in ROW.items() if name not in odd}):
        with pytest.raises(StoreError, match="something other than nbagent"):
            event_of(row)


async def test_a_stream_that_somebody_else_wrote_ends_a_subscription(
    redis_server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an error, after the time in which a log may be away."""
    monkeypatch.setattr(bus, "GIVE_UP_SECONDS", 0.5)
    async with StateManager(url=redis_server.url, session_id="s", root=tmp_path) as state:
        events = await state.subscribe_events("reader", since=0)
        async with redis.asyncio.Redis.from_url(redis_server.url) as client:
            await client.flushall()
            await client.set("{nbagent}:events:last", 1)
            await client.xadd("{nbagent}:events", {b"type": b"\xff", b"id": b"\xff"}, id="1-0")
        with pytest.raises(StoreError, match="something other than nbagent"):
            await asyncio.wait_for(events.get(), 20)
