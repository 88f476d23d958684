"""States as items of a LangGraph store, by their scopes; beside them, read-only, the states of `views`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nbagent.state.scopes import (
    ROOT,
    StateEntry,
    StateScope,
    check_name,
    from_json,
    has_expired,
    items,
    namespace,
    to_json,
)
from nbagent.state.views import ViewReader

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, Item

_UNNAMED = "state"
"""The key of a scope's unnamed state."""


class StateTable:
    """The states of one store."""

    def __init__(self, store: BaseStore, *, session_id: str, views: ViewReader) -> None:
        self._store = store
        self._session_id = session_id
        self._views = views

    async def set(
        self, scope: StateScope, key: str, *, agent_id: str, task_id: str, data: dict[str, Any], ttl: float | None
    ) -> None:
        where = self._namespace(scope, agent_id, task_id)
        check_name(agent_id, "agent_id")
        self._views.check_not_view(scope, key)
        now = time.time()
        value = {
            "data": to_json(data, what="The state"),
            "agent": agent_id,
            "task": task_id,
            "updated": now,
            "expires": None if ttl is None else now + ttl,
        }
        await self._store.aput(where, check_name(key or _UNNAMED, "key"), value)

    async def get(self, scope: StateScope, key: str, *, agent_id: str, task_id: str) -> dict[str, Any] | None:
        where = self._namespace(scope, agent_id, task_id)
        if (viewed := self._views.state(scope, key, session_id=self._session_id)) is not None:
            return viewed.data
        item = await self._store.aget(where, key or _UNNAMED)
        entry = _entry(scope, item) if item else None
        return None if entry is None or has_expired(entry.expires) else entry.data

    async def delete(self, scope: StateScope, key: str, *, agent_id: str, task_id: str) -> bool:
        self._views.check_not_view(scope, key)
        there = await self.get(scope, key, agent_id=agent_id, task_id=task_id) is not None
        await self._store.adelete(self._namespace(scope, agent_id, task_id), key or _UNNAMED)
        return there

    async def find_all(self, scope: StateScope, *, agent_id: str | None, task_id: str | None) -> list[StateEntry]:
        below = self._namespace(scope, "", "") if scope is StateScope.SESSION else (ROOT, "state", scope.value)
        found = self._views.states(scope, session_id=self._session_id)
        found += [_entry(scope, item) async for item in items(self._store, below)]
        wanted = [
            entry
            for entry in found
            if not has_expired(entry.expires)
            and agent_id in {None, entry.agent_id}
            and task_id in {None, entry.task_id}
        ]
        return sorted(wanted, key=lambda entry: entry.updated)

    def _namespace(self, scope: StateScope, agent_id: str, task_id: str) -> tuple[str, ...]:
        return namespace(scope, agent_id=agent_id, task_id=task_id, session_id=self._session_id)

    async def sweep(self) -> int:
        """Remove all items that have expired, artifacts included; returns how many."""
        expired = [item async for item in items(self._store, (ROOT,), wanted={"expires": {"$lt": time.time()}})]
        for item in expired:
            await self._store.adelete(item.namespace, item.key)
        return len(expired)


def _entry(scope: StateScope, item: Item) -> StateEntry:
    value = item.value
    return StateEntry(
        scope=scope,
        agent_id=str(value.get("agent", "")),
        task_id=str(value.get("task", "")),
        key="" if item.key == _UNNAMED else item.key,
        data=from_json(value.get("data"), what="A state"),
        updated=float(value.get("updated", 0.0)),
        expires=value.get("expires"),
    )
