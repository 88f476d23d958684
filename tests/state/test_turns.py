"""A conversation in two threads that take turns: nothing is lost, and nothing piles up."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from state.conversation import InTurns
from state.jobs import Job, converse_in_turns

from nbagent.core.errors import StoreError
from nbagent.state import StateManager, Turns
from nbagent.state.backends import Backend


async def test_a_conversation_goes_on_after_each_kill(url: str, tmp_path: Path) -> None:
    """Whichever thread's turn it was when the process was killed, in the middle of a turn."""
    for questions in (("one",), ("two", "three"), ("four",)):
        await Job(converse_in_turns, str(tmp_path), url, *questions).end(expected=-signal.SIGKILL)
    async with StateManager(tmp_path, url=url) as state:
        agent = InTurns(state.checkpointer)
        await agent.resume()
        assert await agent.ask("five") == "5 questions: one, two, three, four, five"


async def test_no_more_than_two_turns_are_kept(backend: Backend) -> None:
    """However long the conversation is; forgetting it leaves nothing."""
    agent = InTurns(backend.checkpointer)
    assert await agent.turns.newest() is None
    for number in range(7):
        answer = await agent.ask(f"q{number}")
    assert answer.startswith("7 questions")
    assert len([each async for each in backend.checkpointer.alist(None)]) == 2
    await agent.turns.forget()
    assert [each async for each in backend.checkpointer.alist(None)] == []
    assert await agent.turns.newest() is None


async def test_a_turn_that_left_nothing_does_not_cost_the_one_before(backend: Backend) -> None:
    """It is begun again in the same thread, as often as need be."""
    agent = InTurns(backend.checkpointer)
    await agent.ask("one")
    for _ in range(3):
        await agent.turns.begin()
    again = InTurns(backend.checkpointer)
    await again.resume()
    assert await again.ask("two") == "2 questions: one, two"


async def test_conversations_do_not_mix(backend: Backend) -> None:
    """Not even those whose names begin alike; one without a name is refused."""
    one, other = Turns(backend.checkpointer, "s"), Turns(backend.checkpointer, "s/a")
    agent = InTurns(backend.checkpointer)
    agent.turns = one
    await agent.ask("one")
    assert await other.newest() is None
    await other.forget()
    assert await one.newest() is not None
    with pytest.raises(StoreError, match="must be text"):
        Turns(backend.checkpointer, "")
