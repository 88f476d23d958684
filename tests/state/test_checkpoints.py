"""A conversation in two threads: nothing is lost, and nothing piles up."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from state.conversation import Conversation
from state.jobs import Job, converse

from nbagent.core.errors import StoreError
from nbagent.state import StateManager, ThreadMemory
from nbagent.state.backends import Backend


async def test_a_conversation_goes_on_after_each_kill(url: str, tmp_path: Path) -> None:
    """Whichever thread's turn it was when the process was killed, in the middle of a turn."""
    for questions in (("one",), ("two", "three"), ("four",)):
        await Job(converse, str(tmp_path), url, *questions).end(expected=-signal.SIGKILL)
    async with StateManager(tmp_path, url=url) as state:
        agent = Conversation(state.checkpointer)
        await agent.resume()
        assert await agent.ask("f\0ve") == "5 questions: one, two, three, four, f\0ve"


async def test_no_more_than_two_turns_are_kept(backend: Backend) -> None:
    """However long the conversation is; forgetting it leaves nothing."""
    agent = Conversation(backend.checkpointer)
    assert await agent.threads.newest() is None
    for number in range(7):
        answer = await agent.ask(f"q{number}")
    assert answer.startswith("7 questions")
    assert len([each async for each in backend.checkpointer.alist(None)]) == 2
    await agent.threads.forget()
    assert [each async for each in backend.checkpointer.alist(None)] == []
    assert await agent.threads.newest() is None


async def test_a_turn_that_left_nothing_does_not_cost_the_one_before(backend: Backend) -> None:
    """It is begun again in the same thread, as often as need be."""
    agent = Conversation(backend.checkpointer)
    await agent.ask("one")
    for _ in range(3):
        await agent.threads.begin()
    again = Conversation(backend.checkpointer)
    await again.resume()
    assert await again.ask("two") == "2 questions: one, two"


async def test_conversations_do_not_mix(backend: Backend) -> None:
    """Not even those whose names begin alike; one without a name is refused."""
    one, other = ThreadMemory(backend.checkpointer, "s"), ThreadMemory(backend.checkpointer, "s/a")
    agent = Conversation(backend.checkpointer)
    agent.threads = one
    await agent.ask("one")
    assert await other.newest() is None
    await other.forget()
    assert await one.newest() is not None
    with pytest.raises(StoreError, match="must be text"):
        ThreadMemory(backend.checkpointer, "")
