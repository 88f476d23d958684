"""What the checkpointers and stores of all back ends have in common: they read plain data only, and raise `StoreError`.

LangGraph calls the checkpointer in the middle of an agent's turn. So the drivers' exceptions are turned into
`StoreError` within it, not where nbagent calls it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore, Op, PutOp, Result

from nbagent.core import compat
from nbagent.core.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")
Translate = Callable[[BaseException], StoreError | None]
"""Makes a `StoreError` of a driver's exception; returns None for any other exception."""


class PlainSerializer(JsonPlusSerializer):
    """LangGraph's serializer, for data that somebody else may have written.

    It reads no pickle. Of msgpack extensions it builds only the types that LangGraph lists as safe (messages, dates and
    the like) and returns others as the dictionaries that they were written as. It refuses the older form "json", which
    builds more types.
    """

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read what `dumps_typed` wrote.

        Raises:
            ValueError: The data is of a kind that nbagent never writes.
        """
        if data[0] not in {"null", "bytes", "bytearray", "msgpack"}:
            raise ValueError(f"it is of the kind {data[0]!r}, which nbagent never writes")
        return super().loads_typed(data)


@contextlib.contextmanager
def store_errors(translate: Translate) -> Iterator[None]:
    """Turn a driver's exceptions into `StoreError`, also if a library has wrapped them in another."""
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
def _saving() -> Iterator[None]:
    try:
        yield
    except (TypeError, RecursionError) as error:  # ormsgpack's MsgpackEncodeError is a TypeError
        raise StoreError(f"The conversation holds something that can't be saved: {error}.") from error


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"The saved conversation can't be read: {error}.", mend="Begin a new one.") from error


def _guarded(name: str, *guards: Callable[[], AbstractContextManager[None]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A method that calls the one of its name in the class that does the work."""

    async def call(self: GuardedSaver, *arguments: Any, **keywords: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(store_errors(self.translate))
            for each in guards:
                stack.enter_context(each())
            return await getattr(super(GuardedSaver, self), name)(*arguments, **keywords)

    return call


class GuardedSaver(BaseCheckpointSaver[Any]):
    """A checkpointer whose failures are `StoreError`; to be inherited from before the class that does the work."""

    translate: Translate
    aget_tuple = _guarded("aget_tuple", _loading)
    aput = _guarded("aput", _saving)
    aput_writes = _guarded("aput_writes", _saving)
    adelete_thread = _guarded("adelete_thread")

    async def alist(self, config: RunnableConfig | None, **how: Any) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        with store_errors(self.translate), _loading():
            async for found in super().alist(config, **how):
                yield found


def end_batches(store: BaseStore) -> None:
    """End the task in which a store of LangGraph's puts requests together; it ends by itself only as garbage."""
    task = compat.BATCHES.of(store)
    if task is not None:
        task.cancel()


class GuardedStore(BaseStore):
    """A store whose failures are `StoreError`; to be inherited from before the class that does the work."""

    translate: Translate

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer each request, in order."""
        listed = list(ops)
        results: list[Result] = [None] * len(listed)
        # LangGraph puts simultaneous requests into one transaction. In SQLite, a transaction that has read may not
        # write once another process has written; so reads and writes get transactions of their own.
        for part in (
            [index for index, op in enumerate(listed) if not isinstance(op, PutOp)],
            [index for index, op in enumerate(listed) if isinstance(op, PutOp)],
        ):
            if part:
                with store_errors(self.translate):
                    answers = await super().abatch([listed[index] for index in part])  # type: ignore[safe-super]
                for index, answer in zip(part, answers, strict=True):
                    results[index] = answer
        return results


def guard(kind: Callable[P, T], translate: Translate) -> Callable[P, T]:
    """A checkpointer's or a store's class as one whose failures are `StoreError`."""
    works = cast(type, kind)
    guards = GuardedSaver if issubclass(works, BaseCheckpointSaver) else GuardedStore
    made = type(f"Guarded{works.__name__}", (guards, works), {"translate": staticmethod(translate)})
    return cast(Callable[P, T], made)
