"""Who decides on a host, and for how long."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from nbagent.egress.gate import MAX_QUESTIONS, OPEN_QUESTIONS, Gate, HostAnswer
from nbagent.egress.hosts import Denied, Rules


class Person:
    """Is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.futures: dict[str, Future[HostAnswer]] = {}

    def __call__(self, host: str, port: int) -> Future[HostAnswer]:
        """Ask."""
        self.asked.append((host, port))
        self.futures[host] = Future()
        return self.futures[host]

    async def answer(self, host: str, verdict: HostAnswer) -> None:
        """Answer, once asked."""
        async with asyncio.timeout(5):
            while host not in self.futures:
                await asyncio.sleep(0.001)
        self.futures.pop(host).set_result(verdict)


@pytest.fixture
def person() -> Person:
    """Somebody who is there."""
    return Person()


async def test_a_listed_host_is_allowed_without_a_question(person: Person) -> None:
    """What is listed is allowed without a question."""
    gate = Gate(Rules(["example.org"]), person)
    assert await gate.admit("example.org", 443) == "list"
    assert person.asked == []


async def test_without_a_person_it_is_denied_at_once() -> None:
    """The reason names the host, and how to allow it."""
    gate = Gate(Rules())
    with pytest.raises(Denied, match=r"example\.org is not an allowed host; .*--allow-host example\.org, ") as caught:
        await gate.admit("example.org", 443)
    assert caught.value.by == "policy"
    with pytest.raises(Denied, match=r"--allow-host example\.org:8080, "):
        await gate.admit("example.org", 8080)


async def test_an_answer_for_the_session_is_remembered(person: Person) -> None:
    """Yes or no, nobody is asked twice; one answer holds for both ports of the web, not for others."""
    gate = Gate(Rules(), person)
    _, by = await asyncio.gather(person.answer("good.org", HostAnswer.SESSION), gate.admit("good.org", 443))
    assert by == "person"
    assert await gate.admit("good.org", 80) == "person"
    with pytest.raises(Denied, match=r"A person denied bad\.org") as caught:
        await asyncio.gather(person.answer("bad.org", HostAnswer.DENY), gate.admit("bad.org", 80))
    assert caught.value.by == "person"
    for _ in range(3):
        with pytest.raises(Denied, match=r"A person denied bad\.org"):
            await gate.admit("bad.org", 443)
    assert person.asked == [("good.org", 443), ("bad.org", 80)]
    with pytest.raises(Denied):
        await asyncio.gather(person.answer("good.org", HostAnswer.DENY), gate.admit("good.org", 22))


async def test_an_answer_for_once_is_not_remembered(person: Person) -> None:
    gate = Gate(Rules(), person)
    for _ in range(2):
        await asyncio.gather(person.answer("a.org", HostAnswer.ONCE), gate.admit("a.org", 443))
    assert len(person.asked) == 2


async def test_requests_share_a_question(person: Person) -> None:
    """All that wait for the same host get the one answer, also if the first of them has left."""
    gate = Gate(Rules(), person)
    waiting = [asyncio.create_task(gate.admit("a.org", port)) for port in (443, 443, 80, 443)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    await person.answer("a.org", HostAnswer.ONCE)
    assert await asyncio.gather(*waiting[1:]) == ["person"] * 3
    assert len(person.asked) == 1


async def test_few_questions_are_open_at_a_time(person: Person) -> None:
    """Further ones wait until one is answered."""
    gate = Gate(Rules(), person)
    waiting = [asyncio.create_task(gate.admit(f"h{number}.org", 443)) for number in range(OPEN_QUESTIONS + 2)]
    await asyncio.sleep(0.02)
    assert len(person.asked) == OPEN_QUESTIONS
    for number in range(OPEN_QUESTIONS + 2):
        await person.answer(f"h{number}.org", HostAnswer.ONCE)
    assert await asyncio.gather(*waiting) == ["person"] * (OPEN_QUESTIONS + 2)


async def test_silence_is_a_denial(person: Person) -> None:
    """After its time the question is taken back, and not asked again."""
    gate = Gate(Rules(), person, ask_seconds=0.05)
    with pytest.raises(Denied, match=r"Nobody allowed a\.org within 0\.05 s"):
        await gate.admit("a.org", 443)
    assert person.futures["a.org"].cancelled()
    with pytest.raises(Denied, match="Nobody allowed"):
        await gate.admit("a.org", 443)
    assert len(person.asked) == 1


async def test_a_question_that_never_came_up_is_no_answer(person: Person) -> None:
    """Who waited in vain behind other questions is asked about at the next request."""
    gate = Gate(Rules(), person, ask_seconds=0.1)
    waiting = [gate.admit(f"h{number}.org", 443) for number in range(OPEN_QUESTIONS + 1)]
    assert all(isinstance(each, Denied) for each in await asyncio.gather(*waiting, return_exceptions=True))
    await asyncio.gather(person.answer("h3.org", HostAnswer.ONCE), gate.admit("h3.org", 443))


async def test_a_session_asks_only_so_much(person: Person) -> None:
    """Code that invents names is denied without a question in the end."""
    gate = Gate(Rules(), person)
    for number in range(MAX_QUESTIONS):
        name = f"h{number}.org"
        await asyncio.gather(person.answer(name, HostAnswer.ONCE), gate.admit(name, 443))
    with pytest.raises(Denied, match="too many"):
        await gate.admit("one-more.org", 443)
    assert len(person.asked) == MAX_QUESTIONS


async def test_who_can_not_be_asked_allows_nothing() -> None:
    """Whatever goes wrong with the question, the answer is no."""

    def broken(*_: object) -> Future[HostAnswer]:
        raise RuntimeError("the loop is closed")

    with pytest.raises(Denied, match=r"Nobody could be asked about a\.org"):
        await Gate(Rules(), broken).admit("a.org", 443)


async def test_a_person_may_come_later(person: Person) -> None:
    """As long as there is nobody to ask it is denied at once, and not remembered."""
    there = False
    gate = Gate(Rules(), lambda host, port: person(host, port) if there else None)
    for _ in range(MAX_QUESTIONS + 1):
        with pytest.raises(Denied, match="is not an allowed host; list "):
            await gate.admit("a.org", 443)
    there = True
    await asyncio.gather(person.answer("a.org", HostAnswer.ONCE), gate.admit("a.org", 443))


async def test_a_person_may_think_again(person: Person) -> None:
    """What was denied can be added to the list."""
    gate = Gate(Rules(), person)
    with pytest.raises(Denied):
        await asyncio.gather(person.answer("a.org", HostAnswer.DENY), gate.admit("a.org", 443))
    gate.allow("a.org")
    assert await gate.admit("a.org", 443) == "list"
