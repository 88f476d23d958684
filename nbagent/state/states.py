"""States as items of a LangGraph store, by their scopes; some show what is kept elsewhere (`views`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbagent.state.scopes import ROOT, StateEntry, StateScope, check_name, from_json, namespace, to_json
from nbagent.state.views import Views

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, Item

_ONLY = "state"
"""The key of a scope's one state, if it has no other."""
_PAGE = 500


class States:
    """The states of one store.

    Args:
        store: Where they are.
        session_id: Whose states the scope SESSION means.
        views: Shows those that are kept elsewhere.
    """

    def __init__(self, store: BaseStore, *, session_id: str, views: Views) -> None:
        self._store = store
        self._session_id = session_id
        self._views = views

    async def set(
        self, scope: StateScope, key: str, *, agent_id: str, task_id: str, data: dict[str, Any], ttl: float | None
    ) -> None:
        """See `StateManager.set_state`."""
        where = self._where(scope, agent_id, task_id)
        check_name(agent_id, "agent_id")
        self._views.refuse(scope, key)
        now = time.time()
        value = {
            "data": to_json(data, what="The state"),
            "agent": agent_id,
            "task": task_id,
            "updated": now,
            "expires": None if ttl is None else now + ttl,
        }
        await self._store.aput(where, check_name(key or _ONLY, "key"), value)

    async def get(self, scope: StateScope, key: str, *, agent_id: str, task_id: str) -> dict[str, Any] | None:
        """See `StateManager.get_state`."""
        where = self._where(scope, agent_id, task_id)
        if (shown := self._views.state(scope, key, session_id=self._session_id)) is not None:
            return shown.data
        item = await self._store.aget(where, key or _ONLY)
        entry = _entry(scope, item) if item else None
        return entry.data if entry and _lives(entry) else None

    async def delete(self, scope: StateScope, key: str, *, agent_id: str, task_id: str) -> bool:
        """See `StateManager.delete_state`."""
        self._views.refuse(scope, key)
        there = await self.get(scope, key, agent_id=agent_id, task_id=task_id) is not None
        await self._store.adelete(self._where(scope, agent_id, task_id), key or _ONLY)
        return there

    async def find_all(self, scope: StateScope, *, agent_id: str | None, task_id: str | None) -> list[StateEntry]:
        """See `StateManager.list_states`."""
        below = self._where(scope, "", "") if scope is StateScope.SESSION else (ROOT, "state", scope.value)
        found = self._views.states(scope, session_id=self._session_id)
        offset = 0
        while page := await self._store.asearch(below, limit=_PAGE, offset=offset):
            # Postgres compares the beginnings of texts, and `tasks` begins with `task`.
            found += [_entry(scope, item) for item in page if item.namespace[: len(below)] == below]
            offset += len(page)
        entries = [
            entry
            for entry in found
            if _lives(entry) and agent_id in {None, entry.agent_id} and task_id in {None, entry.task_id}
        ]
        return sorted(entries, key=lambda entry: entry.updated)

    def _where(self, scope: StateScope, agent_id: str, task_id: str) -> tuple[str, ...]:
        return namespace(scope, agent_id=agent_id, task_id=task_id, session_id=self._session_id)

    async def sweep(self) -> int:
        """Remove what has expired, artifacts too; returns how many items it was."""
        removed = others = 0
        expired: Mapping[str, Any] = {"expires": {"$lt": time.time()}}
        while page := await self._store.asearch((ROOT,), filter=dict(expired), limit=_PAGE, offset=others):
            for item in page:
                if item.namespace[0] == ROOT:
                    await self._store.adelete(item.namespace, item.key)
                    removed += 1
                else:  # as in `find_all`: somebody else's, whose name begins like ours
                    others += 1
        return removed


def _entry(scope: StateScope, item: Item) -> StateEntry:
    value = item.value
    return StateEntry(
        scope=scope,
        agent_id=str(value.get("agent", "")),
        task_id=str(value.get("task", "")),
        key="" if item.key == _ONLY else item.key,
        data=from_json(value.get("data"), what="A state"),
        updated=float(value.get("updated", 0.0)),
        expires=value.get("expires"),
    )


def _lives(entry: StateEntry) -> bool:
    return entry.expires is None or entry.expires > time.time()
