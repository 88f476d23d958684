"""What every back end's LangGraph parts have in common: plain data only, and failures that are told in a sentence.

LangGraph calls the checkpointer in the middle of an agent's turn, so the drivers' exceptions are turned into
`StoreError` here, and not at each call of ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore, Op, PutOp, Result

from nbagent.core import compat
from nbagent.core.errors import StoreError

Translate = Callable[[BaseException], StoreError | None]
"""A driver's exception as what to tell, or None if it isn't one of the driver's."""


class PlainSerializer(JsonPlusSerializer):
    """LangGraph's serializer, for data that somebody else may have written.

    No pickle. A msgpack extension builds none but LangGraph's list of safe types (messages, dates and the like; others
    come back as the dictionaries that they were written as), and the older form "json", which builds more, is not read.
    """

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What `dumps_typed` wrote.

        Raises:
            ValueError: It is of a kind that nbagent never writes.
        """
        if data[0] not in {"null", "bytes", "bytearray", "msgpack"}:
            raise ValueError(f"it is of the kind {data[0]!r}, which nbagent never writes")
        return super().loads_typed(data)


@contextlib.contextmanager
def told(translate: Translate) -> Iterator[None]:
    """Turn a driver's exceptions into `StoreError`; a library may have wrapped them in another."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if (message := translate(cause)) is not None:
                raise message from error
            cause = cause.__cause__ or cause.__context__
        raise


@contextlib.contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except (TypeError, RecursionError) as error:  # ormsgpack's MsgpackEncodeError is a TypeError
        raise StoreError(f"The conversation holds something that can't be saved: {error}.") from error


@contextlib.contextmanager
def _read() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"The saved conversation can't be read: {error}.", mend="Begin a new one.") from error


class Guarded(BaseCheckpointSaver[Any]):
    """A checkpointer whose failures are `StoreError`. Comes before the class that does the work."""

    translate: Translate

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint."""
        with told(self.translate), _read():
            return await super().aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        with told(self.translate), _read():
            async for found in super().alist(config, filter=filter, before=before, limit=limit):
                yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint."""
        with told(self.translate), _written():
            return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Write what a task has said so far."""
        with told(self.translate), _written():
            await super().aput_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        with told(self.translate):
            await super().adelete_thread(thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete older checkpoints."""
        with told(self.translate):
            await super().aprune(thread_ids, strategy=strategy)


def end_batches(store: BaseStore) -> None:
    """End the task in which LangGraph's stores put requests together; they end it themselves only when collected."""
    task = compat.BATCHES.of(store)
    if task is not None:
        task.cancel()


class GuardedStore(BaseStore):
    """A store whose failures are `StoreError`, and which reads before it writes."""

    translate: Translate

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer each request, in order."""
        listed = list(ops)
        results: list[Result] = [None] * len(listed)
        # LangGraph puts what is asked for at the same moment into one transaction, reads before writes. In SQLite a
        # transaction that has read may not write once another process has written.
        for part in (
            [index for index, op in enumerate(listed) if not isinstance(op, PutOp)],
            [index for index, op in enumerate(listed) if isinstance(op, PutOp)],
        ):
            if part:
                with told(self.translate):
                    answers = await super().abatch([listed[index] for index in part])  # type: ignore[safe-super]
                for index, answer in zip(part, answers, strict=True):
                    results[index] = answer
        return results
