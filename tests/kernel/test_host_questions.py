"""Questions and decisions on their way from the proxy's thread to the kernel's loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from nbagent.core.errors import StoreError
from nbagent.core.events import Event, HostAsked, HostDecided, Record
from nbagent.egress.gate import HostAnswer
from nbagent.kernel.host_questions import MAX_DECISIONS, HostAsker
from nbagent.safety.questions import Question
from nbagent.safety.wait_timer import WaitTimer


async def away(work: Callable[[], object]) -> None:
    """Do something as the proxy does, on another thread, and let what it told arrive."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    await asyncio.sleep(0.01)


def ids(events: list[Event]) -> list[str]:
    """The ids of the questions among events."""
    return [each.id for each in events if isinstance(each, HostAsked)]


def denied(host: str, *, port: int = 443) -> HostDecided:
    """A decision."""
    return HostDecided(host=host, port=port, allowed=False, by="policy", reason="No.")


@pytest.mark.parametrize(
    ("allow", "remember", "expected"),
    [
        (True, True, HostAnswer.SESSION),
        (True, False, HostAnswer.ONCE),
        (False, True, HostAnswer.DENY),
        (False, False, HostAnswer.DENY),
    ],
)
async def test_a_question_is_asked_and_answered(allow: bool, remember: bool, expected: HostAnswer) -> None:
    """It comes as an event on the loop; its id takes one answer."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=WaitTimer())
    questions = []
    await away(lambda: questions.append(hosts.ask("example.org", 443)))
    (asked,) = events
    assert isinstance(asked, HostAsked)
    assert asked == HostAsked(id=asked.id, host="example.org", port=443)
    assert questions[0] is not None
    assert hosts.answer(asked.id, allow=allow, remember=remember)
    assert questions[0].result() is expected
    assert not hosts.answer(asked.id, allow=True, remember=True)


async def test_an_answer_may_be_too_late() -> None:
    """What the proxy waits for no longer takes none."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=WaitTimer())
    question = hosts.ask("example.org", 443)
    assert question is not None
    question.cancel()
    await asyncio.sleep(0.01)
    assert not hosts.answer(ids(events)[0], allow=True, remember=True)


async def test_no_id_is_given_twice() -> None:
    """An answer to a question of a kernel that is gone is none to one of the next kernel."""
    events: list[Event] = []
    for host in ("a.com", "b.com"):
        hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=WaitTimer())
        question = hosts.ask(host, 443)
    await asyncio.sleep(0.01)
    old, new = ids(events)
    assert not hosts.answer(old, allow=True, remember=True)
    assert question is not None
    assert not question.done()
    assert hosts.answer(new, allow=False, remember=True)


async def test_the_time_of_questions_is_known() -> None:
    """Questions that overlap count once, and only what lies after the moment that is asked about."""
    events: list[Event] = []
    wait_timer = WaitTimer()
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=wait_timer)
    start = time.monotonic()
    hosts.ask("a.org", 443)
    await asyncio.sleep(0.1)
    hosts.ask("b.org", 443)
    middle = time.monotonic()
    await asyncio.sleep(0.1)
    first, second = ids(events)
    hosts.answer(first, allow=True, remember=True)
    assert 0.2 <= wait_timer.seconds(start) <= time.monotonic() - start
    hosts.answer(second, allow=True, remember=True)
    waited = wait_timer.seconds(start)
    await asyncio.sleep(0.05)
    assert wait_timer.seconds(start) == waited
    assert 0.1 <= wait_timer.seconds(middle) < waited
    assert wait_timer.seconds(time.monotonic()) == 0


async def test_where_nobody_answers_nobody_is_asked() -> None:
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=False, wait_timer=WaitTimer())
    assert hosts.ask("example.org", 443) is None
    await asyncio.sleep(0.01)
    assert events == []


async def test_a_decision_is_told_once() -> None:
    """However often the same is decided; another answer, port or host is another one."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=False, wait_timer=WaitTimer())
    allowed = HostDecided(host="a.org", port=443, allowed=True, by="person", address="93.184.216.34")
    for decision in (denied("a.org"), denied("a.org"), allowed, allowed, denied("a.org", port=80), denied("b.org")):
        await away(lambda told=decision: hosts.observe(told))  # type: ignore[misc]
    told = [(each.host, each.port, each.allowed) for each in events if isinstance(each, HostDecided)]
    assert told == [("a.org", 443, False), ("a.org", 443, True), ("a.org", 80, False), ("b.org", 443, False)]


@pytest.mark.parametrize("before", [0, MAX_DECISIONS])
async def test_every_question_has_an_end_in_the_log(before: int) -> None:
    """Who is asked a second time gives the same answer, however much was told before; late requests add nothing."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=WaitTimer())
    await away(lambda: [hosts.observe(denied(f"h{number}.org")) for number in range(before)])
    once = HostDecided(host="a.org", port=443, allowed=True, by="person", address="93.184.216.34")
    for _ in range(2):
        await away(lambda: hosts.ask("a.org", 443))
        assert hosts.answer(ids(events)[-1], allow=True, remember=False)
        await away(lambda: [hosts.observe(once) for _ in range(3)])
        question = Question.of(Record(1, 0.0, events[-2]))
        assert question is not None
        assert question.is_over(events[-1])
    assert len(events) == before + 4


async def test_a_decision_names_its_question() -> None:
    """Of two that are open at once, also of the same host; an answer for 443 is one for 80, whichever is told first."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=True, wait_timer=WaitTimer())
    await away(lambda: [hosts.ask("a.org", 443), hosts.ask("a.org", 8443)])
    web, other = ids(events)
    for name, port in ((other, 8443), (web, 80)):
        assert hosts.answer(name, allow=False, remember=True)
        await away(lambda port=port: hosts.observe(denied("a.org", port=port)))  # type: ignore[misc]
    await away(lambda: hosts.observe(denied("a.org", port=443)))
    decided = [(each.id, each.port) for each in events if isinstance(each, HostDecided)]
    assert decided == [(other, 8443), (web, 80), ("", 443)]
    questions = [Question.of(Record(1, 0.0, each)) for each in events[:2]]
    assert [[bool(one and one.is_over(each)) for each in events[2:4]] for one in questions] == [
        [False, True],
        [True, False],
    ]


async def test_the_log_is_not_filled() -> None:
    """Code that invents hosts is told of only so often."""
    events: list[Event] = []
    hosts = HostAsker(asyncio.get_running_loop(), events.append, asking=False, wait_timer=WaitTimer())
    await away(lambda: [hosts.observe(denied(f"h{number}.org")) for number in range(MAX_DECISIONS + 50)])
    await asyncio.sleep(0.05)
    assert len(events) == MAX_DECISIONS


async def test_a_log_that_cannot_be_written_ends_nothing_here() -> None:
    events: list[Event] = []

    def full(event: Event) -> None:
        events.append(event)
        raise StoreError("The disk is full.")

    hosts = HostAsker(asyncio.get_running_loop(), full, asking=True, wait_timer=WaitTimer())
    await away(lambda: (hosts.observe(denied("a.org")), hosts.ask("a.org", 443)))
    assert hosts.answer(ids(events)[0], allow=True, remember=True)


def test_a_loop_that_is_gone_is_no_trouble() -> None:
    loop = asyncio.new_event_loop()
    hosts = HostAsker(loop, lambda _: None, asking=True, wait_timer=WaitTimer())
    loop.close()
    hosts.observe(denied("a.org"))
    assert hosts.ask("a.org", 443) is not None
