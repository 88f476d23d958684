"""LangGraph's checkpoints in a plain Redis: strings, hashes and sorted sets.

    threads                 set: names of threads
    thread:T                set: namespaces in which a thread has checkpoints
    checkpoints:T:N         sorted set, all of one score: ids, which sort by time
    checkpoint:T:N:ID       hash: parent, type, checkpoint, metadata
    writes:T:N:ID           hash: task and index of a write → path, channel, type, value

T and N are quoted, so that no name contains a colon. What belongs together is written in one transaction.
There are asynchronous methods only.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote, unquote

import ormsgpack
import redis.asyncio
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

PREFIX = "{nbagent}:"
"""The beginning of each key; the braces keep all keys on one node of a cluster, as transactions need it."""
_THREADS = f"{PREFIX}threads"


class PlainRedisSaver(BaseCheckpointSaver[Any]):
    """A checkpointer that uses Redis's core commands only."""

    def __init__(self, client: redis.asyncio.Redis, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.client = client

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the configuration names, or the newest of its thread and namespace."""
        thread, namespace = _names(config)
        identifier = get_checkpoint_id(config)
        if identifier is None:
            newest: Any = await self.client.zrevrangebylex(_ids(thread, namespace), "+", "-", start=0, num=1)
            if not newest:
                return None
            identifier = newest[0].decode()
        return await self._tuple(thread, namespace, identifier)

    async def _tuple(self, thread: str, namespace: str, identifier: str) -> CheckpointTuple | None:
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.hgetall(_checkpoint(thread, namespace, identifier))
            pipe.hgetall(_writes(thread, namespace, identifier))
            found, writes = await pipe.execute()
        if not found:
            return None
        parent = found[b"parent"].decode()
        return CheckpointTuple(
            config=_config(thread, namespace, identifier),
            checkpoint=self.serde.loads_typed((found[b"type"].decode(), found[b"checkpoint"])),
            metadata=json.loads(found[b"metadata"]),
            parent_config=_config(thread, namespace, parent) if parent else None,
            pending_writes=self._pending(writes),
        )

    def _pending(self, writes: dict[bytes, bytes]) -> list[PendingWrite]:
        rows = []
        for key, packed in writes.items():
            task, _, index = key.decode().rpartition(":")
            path, channel, kind, value = ormsgpack.unpackb(packed)
            rows.append((writes_sort_key(path, task, int(index)), (task, channel, (kind, value))))
        rows.sort(key=lambda row: row[0])
        return [(task, channel, self.serde.loads_typed(typed)) for _, (task, channel, typed) in rows]

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints of a thread, or of all, the newest first."""
        wanted = get_checkpoint_id(config) if config else None
        border = get_checkpoint_id(before) if before else None
        places: list[tuple[str, str, str]] = []
        for thread, namespace in await self._places(config):
            found: Any = await self.client.zrevrangebylex(_ids(thread, namespace), f"({border}" if border else "+", "-")
            places += [(identifier.decode(), thread, namespace) for identifier in found]
        given = 0
        for identifier, thread, namespace in sorted(places, reverse=True):
            if limit is not None and given >= limit:
                return
            if wanted not in {None, identifier}:
                continue
            there = await self._tuple(thread, namespace, identifier)
            if there and all(there.metadata.get(key) == value for key, value in (filter or {}).items()):
                given += 1
                yield there

    async def _places(self, config: RunnableConfig | None) -> list[tuple[str, str]]:
        """The threads and namespaces that a configuration names; all namespaces if it names none."""
        if config is None:
            threads = [unquote(name.decode()) for name in await _members(self.client, _THREADS)]
        else:
            threads = [str(config["configurable"]["thread_id"])]
            if "checkpoint_ns" in config["configurable"]:
                return [(threads[0], config["configurable"]["checkpoint_ns"])]
        places: list[tuple[str, str]] = []
        for thread in threads:
            places += [(thread, unquote(name.decode())) for name in await _members(self.client, _thread(thread))]
        return places

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - a checkpoint is written with all of its values
    ) -> RunnableConfig:
        """Write a checkpoint, whole."""
        thread, namespace = _names(config)
        kind, value = self.serde.dumps_typed(checkpoint)
        fields: dict[Any, Any] = {
            "parent": get_checkpoint_id(config) or "",
            "type": kind,
            "checkpoint": value,
            "metadata": json.dumps(get_checkpoint_metadata(config, metadata)),
        }
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.sadd(_THREADS, quote(thread, safe=""))
            pipe.sadd(_thread(thread), quote(namespace, safe=""))
            pipe.zadd(_ids(thread, namespace), {checkpoint["id"]: 0})
            pipe.hset(_checkpoint(thread, namespace, checkpoint["id"]), mapping=fields)
            await pipe.execute()
        return _config(thread, namespace, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Write the results that a task has so far; only those of special channels replace earlier ones."""
        thread, namespace = _names(config)
        key = _writes(thread, namespace, str(config["configurable"]["checkpoint_id"]))
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        async with self.client.pipeline(transaction=True) as pipe:
            for index, (channel, value) in enumerate(writes):
                field = f"{task_id}:{WRITES_IDX_MAP.get(channel, index)}"
                packed = ormsgpack.packb([task_path, channel, *self.serde.dumps_typed(value)])
                if replace:
                    pipe.hset(key, field, packed)
                else:
                    pipe.hsetnx(key, field, packed)
            await pipe.execute()

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread."""
        thread = str(thread_id)
        for _, namespace in await self._places({"configurable": {"thread_id": thread}}):
            found: Any = await self.client.zrangebylex(_ids(thread, namespace), "-", "+")
            async with self.client.pipeline(transaction=True) as pipe:
                pipe.unlink(_ids(thread, namespace))
                for identifier in map(bytes.decode, found):
                    pipe.unlink(_checkpoint(thread, namespace, identifier), _writes(thread, namespace, identifier))
                await pipe.execute()
        await self.client.delete(_thread(thread))
        await self.client.srem(_THREADS, quote(thread, safe=""))


def _names(config: RunnableConfig) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), str(config["configurable"].get("checkpoint_ns", ""))


def _config(thread: str, namespace: str, identifier: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": identifier}}


def _thread(thread: str) -> str:
    return f"{PREFIX}thread:{quote(thread, safe='')}"


def _ids(thread: str, namespace: str) -> str:
    return f"{PREFIX}checkpoints:{quote(thread, safe='')}:{quote(namespace, safe='')}"


def _checkpoint(thread: str, namespace: str, identifier: str) -> str:
    return f"{PREFIX}checkpoint:{quote(thread, safe='')}:{quote(namespace, safe='')}:{identifier}"


def _writes(thread: str, namespace: str, identifier: str) -> str:
    return f"{PREFIX}writes:{quote(thread, safe='')}:{quote(namespace, safe='')}:{identifier}"


async def _members(client: redis.asyncio.Redis, key: str) -> list[bytes]:
    found: Any = await client.smembers(key)
    return sorted(found)
