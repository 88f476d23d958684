"""The two threads of a conversation in a checkpointer: one checkpoint written a turn, none read, at most two kept.

LangGraph reads a thread's whole state before each turn, and building hundreds of messages anew takes longer than all
else. An agent that has the messages in memory needs none of that: each turn runs in an empty thread, with the messages
as its input. The turns use the two threads alternately, and a thread is emptied only when a turn begins in it. So a
process that is killed at any moment leaves the last turn that ended.

A checkpoint grows with the messages that the model is sent, not with the number of turns; compaction bounds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbagent.state.scopes import check_name

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver


class ThreadMemory:
    """The two threads of one conversation."""

    def __init__(self, checkpointer: BaseCheckpointSaver[Any], name: str) -> None:
        self._checkpointer = checkpointer
        check_name(name, "The conversation's name")
        self._threads = [f"{name}/{half}" for half in "ab"]
        self._next = 0

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any]:
        """The checkpointer that has the threads."""
        return self._checkpointer

    async def newest(self) -> RunnableConfig | None:
        """The thread of the last turn that ended, for `graph.aget_state` after a restart; None if no turn has ended.

        Raises:
            StoreError: The checkpoints can't be read.
        """
        found = []
        for index, thread in enumerate(self._threads):
            saved = await self._checkpointer.aget_tuple(_config(thread))
            if saved is not None:
                found.append((saved.checkpoint["id"], index))
        if not found:
            return None
        _, index = max(found)
        self._next = 1 - index
        return _config(self._threads[index])

    async def begin(self) -> RunnableConfig:
        """An empty thread for the next turn, to be run with all messages and `durability="exit"`.

        Raises:
            StoreError: The thread's older turn can't be deleted.
        """
        thread = self._threads[self._next]
        await self._checkpointer.adelete_thread(thread)
        return _config(thread)

    def ended(self) -> None:
        """Note that the present turn has its checkpoint, so that the next turn uses the other thread."""
        self._next = 1 - self._next

    async def forget(self) -> None:
        """Delete the conversation.

        Raises:
            StoreError: It can't be deleted.
        """
        for thread in self._threads:
            await self._checkpointer.adelete_thread(thread)


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}
