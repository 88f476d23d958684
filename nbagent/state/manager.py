"""State, artifacts and events that outlive a session and that several share: the state manager.

async with StateManager(data_dir="./state_data") as state:
await state.set_state(agent_id="reasoning-agent", task_id="task-123", scope=StateScope.TASK, data={"step": 1})
await state.get_state("reasoning-agent", "task-123")
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.errors import StoreError
from nbagent.state import backends
from nbagent.state.artifacts import ARTIFACT_TTL, Artifact, Artifacts
from nbagent.state.bus import Bus, BusEvent, EventType, Subscription, end
from nbagent.state.scopes import DEFAULT_TTL, ROOT, StateEntry, StateScope, check_name, from_json, namespace, to_json
from nbagent.store import state_root

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore, Item

SWEEP_SECONDS = 300.0
_ONLY = "state"
"""The key of a scope's one state, if it has no other."""
_PAGE = 500


class _Default:
    """What stands for a time to live that wasn't given, as None is one."""


_DEFAULT = _Default()


class StateManager:
    """The state of agents, kept in one place by any number of processes.

    Args:
        data_dir: For the database, if the URL names none, and for the artifacts. Default: `shared` in nbagent's own
            state folder.
        url: Where the rest is kept; see `backends`.
        session_id: Whose states the scope SESSION means.
        ttl: Seconds that a state of a scope lives, where `DEFAULT_TTL` doesn't suit; None is until it is deleted.

    Nothing is done before `initialize`.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        url: str = "",
        session_id: str = "default",
        ttl: Mapping[StateScope, float | None] | None = None,
    ) -> None:
        self.folder = Path(data_dir).expanduser() if data_dir is not None else state_root() / "shared"
        self.session_id = check_name(session_id, "session_id")
        self.ttl = {**DEFAULT_TTL, **(ttl or {})}
        self._url = url
        self._backend: backends.Backend | None = None
        self._bus: Bus | None = None
        self._artifacts: Artifacts | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def initialize(self) -> None:
        """Open the back end; again is without effect.

        Raises:
            StoreError: See `backends.open`.
        """
        if self._backend is not None:
            return
        self._backend = await backends.open(self._url, folder=self.folder)
        self._bus = Bus(self._backend.log)
        self._artifacts = Artifacts(self._backend.store, self.folder / "artifacts")
        self._sweeper = asyncio.create_task(self._sweep_on(), name="sweep of states")

    async def close(self) -> None:
        """End the subscriptions, and close what is open; again is without effect."""
        if self._sweeper is not None:
            await end(self._sweeper)
        if self._bus is not None:
            await self._bus.close()
        if self._backend is not None:
            await self._backend.close()
        self._sweeper = self._bus = self._artifacts = self._backend = None

    async def __aenter__(self) -> StateManager:
        await self.initialize()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any]:
        """LangGraph's checkpointer, for conversations that go on after a restart."""
        return self._opened().checkpointer

    @property
    def store(self) -> BaseStore:
        """LangGraph's store; the namespaces below `nbagent` are this manager's."""
        return self._opened().store

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts by themselves."""
        self._opened()
        assert self._artifacts is not None  # noqa: S101 - for the type checker
        return self._artifacts

    @property
    def bus(self) -> Bus:
        """The events by themselves."""
        self._opened()
        assert self._bus is not None  # noqa: S101 - for the type checker
        return self._bus

    def _opened(self) -> backends.Backend:
        if self._backend is None:
            raise StoreError("The state manager is not open.", mend="Await its initialize() first.")
        return self._backend

    async def set_state(
        self,
        *,
        agent_id: str,
        task_id: str = "",
        scope: StateScope = StateScope.TASK,
        data: dict[str, Any],
        ttl: float | _Default | None = _DEFAULT,
        key: str = "",
    ) -> None:
        """Set a state whole; the last who sets it wins. Everybody is told that it changed (`STATE_CHANGED`).

        Args:
            agent_id: Who sets it, and in the scopes TASK and AGENT whose it is.
            task_id: At which task; the scope TASK needs it.
            scope: Who shares it.
            data: JSON: text, numbers, lists, dictionaries with text as keys.
            ttl: Seconds that it lives; None is until it is deleted. Default: the scope's.
            key: Its name, if the scope is to hold more than one.

        Raises:
            StoreError: The data is not JSON or too large, or it can't be written.
        """
        where = self._where(scope, agent_id, task_id)
        check_name(agent_id, "agent_id")
        now = time.time()
        lives = self.ttl[scope] if isinstance(ttl, _Default) else ttl
        value = {
            "data": to_json(data, what="The state"),
            "agent": agent_id,
            "task": task_id,
            "updated": now,
            "expires": None if lives is None else now + lives,
        }
        await self.store.aput(where, check_name(key or _ONLY, "key"), value)
        payload = {"scope": scope.value, "key": key, "session_id": self.session_id}
        await self._tell(EventType.STATE_CHANGED, agent_id, task_id, payload)

    async def get_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> dict[str, Any] | None:
        """A state, or None if there is none, or none any more.

        Raises:
            StoreError: It can't be read, or the scope needs a name that is empty.
        """
        item = await self.store.aget(self._where(scope, agent_id, task_id), key or _ONLY)
        entry = _entry(scope, item) if item else None
        return entry.data if entry and _lives(entry) else None

    async def delete_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> bool:
        """Delete a state; whether there was one.

        Raises:
            StoreError: It can't be written, or the scope needs a name that is empty.
        """
        there = await self.get_state(agent_id, task_id, scope, key=key) is not None
        await self.store.adelete(self._where(scope, agent_id, task_id), key or _ONLY)
        if there and agent_id:
            payload = {"scope": scope.value, "key": key, "session_id": self.session_id, "deleted": True}
            await self._tell(EventType.STATE_CHANGED, agent_id, task_id, payload)
        return there

    async def list_states(
        self, scope: StateScope, *, agent_id: str | None = None, task_id: str | None = None
    ) -> list[StateEntry]:
        """The states of a scope, the oldest first; those of one agent or one task, if named. SESSION is this session's.

        Raises:
            StoreError: They can't be read.
        """
        below = self._where(scope, "", "") if scope is StateScope.SESSION else (ROOT, "state", scope.value)
        found: list[StateEntry] = []
        offset = 0
        while page := await self.store.asearch(below, limit=_PAGE, offset=offset):
            # Postgres compares the beginnings of texts, and `tasks` begins with `task`.
            found += [_entry(scope, item) for item in page if item.namespace[: len(below)] == below]
            offset += len(page)
        entries = [
            entry
            for entry in found
            if _lives(entry) and agent_id in {None, entry.agent_id} and task_id in {None, entry.task_id}
        ]
        return sorted(entries, key=lambda entry: entry.updated)

    async def save_artifact(
        self,
        *,
        agent_id: str,
        task_id: str,
        name: str,
        content: bytes,
        content_type: str = "application/octet-stream",
        ttl: float | None = ARTIFACT_TTL,
    ) -> str:
        """Keep content, and return the id to load it by. Everybody is told (`ARTIFACT_SAVED`).

        Args:
            agent_id: Who saves it.
            task_id: At which task.
            name: What it is called; never used as a path.
            content: At most `ARTIFACT_LIMIT` bytes.
            content_type: Its MIME type.
            ttl: Seconds that it lives; None is until it is deleted.

        Raises:
            StoreError: It is too large, or can't be written.
        """
        artifact = await self.artifacts.save(
            content, agent_id=agent_id, task_id=task_id, name=name, content_type=content_type, ttl=ttl
        )
        payload = {"artifact_id": artifact.id, "name": name, "content_type": content_type, "size": artifact.size}
        await self._tell(EventType.ARTIFACT_SAVED, agent_id, task_id, payload)
        return artifact.id

    async def load_artifact(self, artifact_id: str) -> tuple[Artifact, bytes]:
        """An artifact and its content, whose hash is checked.

        Raises:
            StoreError: There is none of that id, or its content is gone or was changed.
        """
        return await self.artifacts.load(artifact_id)

    async def list_artifacts(self, *, agent_id: str | None = None, task_id: str | None = None) -> list[Artifact]:
        """The artifacts, the oldest first; of one agent or one task, if named."""
        return await self.artifacts.find_all(agent_id=agent_id, task_id=task_id)

    async def delete_artifact(self, artifact_id: str) -> bool:
        """Delete an artifact, and its content if nothing else refers to it; whether there was one."""
        return await self.artifacts.delete(artifact_id)

    async def publish_event(
        self,
        type: EventType,
        *,
        source_agent: str,
        target_agent: str | None = None,
        task_id: str | None = None,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Tell an agent, or everybody, in this process and in others; returns the event's number.

        Raises:
            StoreError: The payload is not JSON or too large, or it can't be written.
        """
        event = BusEvent(
            id=0,
            type=type,
            source_agent=source_agent,
            target_agent=target_agent,
            task_id=task_id,
            payload=payload or {},
        )
        return await self.bus.publish(event)

    async def subscribe_events(self, agent_id: str, *, since: int | None = None) -> Subscription:
        """The queue of what an agent is told from now on, or after the event of number `since`; 0 is all that is kept.

        Raises:
            StoreError: The events can't be read.
        """
        return await self.bus.subscribe(agent_id, since=since)

    async def _tell(self, type: EventType, agent_id: str, task_id: str, payload: dict[str, Any]) -> None:
        await self.publish_event(type, source_agent=agent_id, task_id=task_id or None, payload=payload)

    def _where(self, scope: StateScope, agent_id: str, task_id: str) -> tuple[str, ...]:
        return namespace(scope, agent_id=agent_id, task_id=task_id, session_id=self.session_id)

    async def sweep(self) -> int:
        """Remove what has expired, files that nothing refers to, and old events; returns how many states and artifacts.

        Done by itself when the manager opens and every `SWEEP_SECONDS`. Nothing that has expired is returned meanwhile.

        Raises:
            StoreError: It can't be written.
        """
        now, removed, others = time.time(), 0, 0
        expired = {"expires": {"$lt": now}}
        while page := await self.store.asearch((ROOT,), filter=expired, limit=_PAGE, offset=others):
            for item in page:
                if item.namespace[0] == ROOT:
                    await self.store.adelete(item.namespace, item.key)
                    removed += 1
                else:  # as in `list_states`: somebody else's, whose name begins like ours
                    others += 1
        await self.artifacts.sweep()
        await self.bus.trim(now=now)
        return removed

    async def _sweep_on(self) -> None:
        while True:
            # Whoever uses the manager meets the same failure, and is told.
            with contextlib.suppress(StoreError):
                await self.sweep()
            await asyncio.sleep(SWEEP_SECONDS)


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
