"""What other processes do in these tests. They are forked from one that has imported everything: seconds each saved."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

from state.conversation import Conversation

from nbagent.state import EventType, StateManager

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["nbagent.state.sqlite", "nbagent.state.postgres", "nbagent.state.redis", "langchain.agents"]
)


class Job:
    """A process of its own that does one of the jobs below.

    Args:
        job: Which.
        words: Its arguments.
    """

    def __init__(self, job: Callable[..., Any], *words: Any) -> None:
        self._process = _FORKS.Process(target=_run, args=(job, *words))
        self._process.start()

    async def end(self, *, expected: int = 0) -> None:
        """Wait until it is done, and check how it ended."""
        async with asyncio.timeout(60):
            while self._process.is_alive():
                await asyncio.sleep(0.01)
        self._process.join()
        assert self._process.exitcode == expected
        self._process.close()


def _run(job: Callable[..., Any], *words: Any) -> None:
    asyncio.run(job(*words))


async def write_states(folder: str, url: str, agent: str, count: int) -> None:
    """Set and read many states, one after the other."""
    async with StateManager(folder, url=url) as state:
        for number in range(count):
            await state.set_state(agent_id=agent, task_id=f"t{number}", data={"n": number})
            known = await state.get_state(agent, f"t{number}")
            assert known == {"n": number}, known


async def answer(folder: str, url: str, count: int) -> None:
    """Say hello to `parent`, then answer each event with its own payload."""
    async with StateManager(folder, url=url) as state, await state.subscribe_events("child") as queue:
        await state.publish_event(EventType.TASK_STARTED, source_agent="child", target_agent="parent")
        for _ in range(count):
            event = await queue.get()
            await state.publish_event(
                EventType.TASK_COMPLETED, source_agent="child", target_agent="parent", payload=event.payload
            )


async def talk(folder: str, url: str, agent: str, count: int) -> None:
    """Publish many events."""
    async with StateManager(folder, url=url) as state:
        for number in range(count):
            await state.publish_event(EventType.MESSAGE, source_agent=agent, payload={"n": number})


async def converse(folder: str, url: str, *questions: str) -> None:
    """Go on with a conversation, and be killed in the middle of the one after the last."""
    async with StateManager(folder, url=url) as state:
        agent = Conversation(state.checkpointer)
        await agent.resume()
        for question in questions:
            await agent.ask(question)
        await agent.threads.begin()
        os.kill(os.getpid(), signal.SIGKILL)
