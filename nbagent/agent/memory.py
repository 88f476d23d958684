"""Where a conversation is kept between its turns."""

from __future__ import annotations

from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

THREAD: RunnableConfig = {"configurable": {"thread_id": "session"}}
"""A graph has a checkpointer of its own in a process, so its one conversation needs no other name."""


class Memory(Protocol):
    """The threads of one conversation in a checkpointer; `state.Threads` outlives the process."""

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any]:
        """Where they are."""

    async def newest(self) -> RunnableConfig | None:
        """Where the last turn is, after a restart; None if there was none."""

    async def begin(self) -> RunnableConfig:
        """An empty thread for the next turn."""

    def ended(self) -> None:
        """The turn that began has its checkpoint."""


class InProcess:
    """A conversation that ends with its process."""

    def __init__(self) -> None:
        self.checkpointer: BaseCheckpointSaver[Any] = InMemorySaver()

    async def newest(self) -> RunnableConfig | None:
        """None: there is nothing before the process."""
        return None

    async def begin(self) -> RunnableConfig:
        """The same thread each time, empty."""
        await self.checkpointer.adelete_thread(THREAD["configurable"]["thread_id"])
        return THREAD

    def ended(self) -> None:
        """Nothing is to be kept of it."""
