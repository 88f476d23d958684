"""Where a conversation is kept between its turns."""

from __future__ import annotations

from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

THREAD: RunnableConfig = {"configurable": {"thread_id": "session"}}
"""The thread of the only conversation in a checkpointer of its own."""


class Memory(Protocol):
    """Keeps one conversation in the threads of a checkpointer; that of `state.ThreadMemory` outlives the process."""

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any]:
        """The checkpointer that has the threads."""

    async def newest(self) -> RunnableConfig | None:
        """The thread of the last turn of an earlier process; None if there was none."""

    async def begin(self) -> RunnableConfig:
        """An empty thread for the next turn."""

    def ended(self) -> None:
        """Note that the turn which began has its checkpoint."""


class InProcess:
    """A conversation that ends with its process."""

    def __init__(self) -> None:
        self.checkpointer: BaseCheckpointSaver[Any] = InMemorySaver()

    async def newest(self) -> RunnableConfig | None:
        """None: no earlier process kept anything."""
        return None

    async def begin(self) -> RunnableConfig:
        """The one thread, emptied."""
        await self.checkpointer.adelete_thread(THREAD["configurable"]["thread_id"])
        return THREAD

    def ended(self) -> None:
        """Do nothing: the next turn begins with the agent's own history."""
