"""States by scope with their times to live, on every back end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nbagent.errors import StoreError
from nbagent.state import EventType, StateManager, StateScope


async def test_the_example_of_the_seed(state: StateManager) -> None:
    """A state that an agent set at its task is what it gets back."""
    data = {"step": 1, "result": "...", "nested": {"a": [1, 2.5, None, True]}}
    await state.set_state(agent_id="reasoning-agent", task_id="task-123", scope=StateScope.TASK, data=data)
    assert await state.get_state("reasoning-agent", "task-123") == data
    assert await state.get_state("reasoning-agent", "task-124") is None


async def test_publish_and_follow(state: StateManager) -> None:
    q = await state.subscribe_events("me")
    n = await state.publish_event(EventType.MESSAGE, source_agent="x", payload={"a": 1})
    event = await asyncio.wait_for(q.get(), 5)
    assert event.id == n and event.payload == {"a": 1}
    await q.close()
