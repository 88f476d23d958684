"""LangGraph's store in a plain Redis: a string for each item, and one sorted set of their names to search by prefix.

    items                   sorted set, all of one score: NAMESPACE NUL KEY, its labels joined by dots
    item:NAMESPACE NUL KEY  string: value and times as JSON

LangGraph allows no dot in a label, so a prefix of labels is a prefix of names. There are no vectors, so a search with a
`query` raises an error.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import redis.asyncio
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from nbagent.state.redis_saver import PREFIX

_NAMES = f"{PREFIX}items"
_ITEM = f"{PREFIX}item:"
_NAMES_AT_ONCE = 500
_OPERATORS = {
    **{"$eq": operator.eq, "$ne": operator.ne, "$gt": operator.gt},
    **{"$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le},
}


class PlainRedisStore(BaseStore):
    """A store that uses Redis's core commands only."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        super().__init__()
        self.client = client

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Raise an error: this store is asynchronous."""
        raise NotImplementedError("This store is asynchronous; use its methods that begin with an a.")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer each request, in order."""
        return [await self._answer(op) for op in ops]

    async def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                found: Any = await self.client.get(_ITEM + _name(op.namespace, op.key))
                return _item(op.namespace, op.key, found) if found else None
            case PutOp():
                await self._put(op)
                return None
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._list(op)
        raise TypeError(f"This store doesn't know the request {op!r}.")

    async def _put(self, op: PutOp) -> None:
        name = _name(op.namespace, op.key)
        if op.value is None:
            async with self.client.pipeline(transaction=True) as pipe:
                pipe.unlink(_ITEM + name)
                pipe.zrem(_NAMES, name)
                await pipe.execute()
            return
        now = datetime.now(UTC).isoformat()
        old: Any = await self.client.get(_ITEM + name)
        created = json.loads(old)["created"] if old else now
        text = json.dumps({"value": dict(op.value), "created": created, "updated": now})
        async with self.client.pipeline(transaction=True) as pipe:
            pipe.set(_ITEM + name, text)
            pipe.zadd(_NAMES, {name: 0})
            await pipe.execute()

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query:
            raise NotImplementedError("This store has no vectors to search by meaning; leave `query` out.")
        found: list[SearchItem] = []
        names = await self._below(op.namespace_prefix)
        for start in range(0, len(names), _NAMES_AT_ONCE):
            chunk = names[start : start + _NAMES_AT_ONCE]
            texts: Any = await self.client.mget([_ITEM + name for name in chunk])
            for name, text in zip(chunk, texts, strict=True):
                if text is not None:
                    namespace, key = _parts(name)
                    item = _item(namespace, key, text)
                    if all(_compares(item.value.get(key), test) for key, test in (op.filter or {}).items()):
                        found.append(SearchItem(namespace, key, item.value, item.created_at, item.updated_at))
        found.sort(key=lambda item: item.updated_at, reverse=True)
        return found[op.offset : op.offset + op.limit]

    async def _below(self, prefix: Sequence[str]) -> list[str]:
        """The names of the items in a namespace and in those below it."""
        base = ".".join(prefix)
        # "/" is the character after ".", and \x01 the one after NUL.
        spans = [(f"[{base}\0", f"({base}\x01"), (f"[{base}.", f"({base}/")] if prefix else [("-", "+")]
        names: list[str] = []
        for low, high in spans:
            found: Any = await self.client.zrangebylex(_NAMES, low, high)
            names += [name.decode() for name in found]
        return names

    async def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        start: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix" and "*" not in condition.path:
                start = tuple(condition.path)
        spaces = {_parts(name)[0] for name in await self._below(start)}
        fitting = {space[: op.max_depth] for space in spaces if all(_fits(space, each) for each in conditions)}
        return sorted(fitting)[op.offset : op.offset + op.limit]


def _name(namespace: Sequence[str], key: str) -> str:
    return f"{'.'.join(namespace)}\0{key}"


def _parts(name: str) -> tuple[tuple[str, ...], str]:
    namespace, _, key = name.partition("\0")
    return tuple(namespace.split(".")), key


def _item(namespace: tuple[str, ...], key: str, text: bytes) -> Item:
    known = json.loads(text)
    times = {f"{name}_at": datetime.fromisoformat(known[name]) for name in ("created", "updated")}
    return Item(value=known["value"], key=key, namespace=namespace, **times)


def _fits(space: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(space) < len(path):
        return False
    part = space[: len(path)] if condition.match_type == "prefix" else space[len(space) - len(path) :]
    return all(wanted in {"*", label} for label, wanted in zip(part, path, strict=True))


def _compares(value: Any, test: Any) -> bool:
    if not (isinstance(test, dict) and any(key.startswith("$") for key in test)):
        return bool(value == test)
    return all(_holds(value, name, other) for name, other in test.items())


def _holds(value: Any, name: str, other: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {name}")
    if name in ("$eq", "$ne"):
        return bool(_OPERATORS[name](value, other))
    # As in Postgres, nothing is greater or less than a value that is missing.
    return value is not None and bool(_OPERATORS[name](float(value), float(other)))
