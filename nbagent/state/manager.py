"""The state manager: states, artifacts and events that outlive a session and that agents and processes share.

async with StateManager(data_dir="./state_data") as state:
await state.set_state(agent_id="planner", task_id="task-123", scope=StateScope.TASK, data={"step": 1})
await state.get_state("planner", "task-123")
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from nbagent.core.errors import StoreError
from nbagent.core.folders import state_root
from nbagent.state import backends
from nbagent.state.artifacts import ARTIFACT_TTL, Artifact, ArtifactStore
from nbagent.state.bus import Bus, BusEvent, EventType, Subscription, end
from nbagent.state.scopes import (
    DEFAULT_TTL,
    ROOT,
    StateEntry,
    StateScope,
    check_name,
    decode,
    encode,
    has_expired,
    items,
    namespace,
)
from nbagent.state.views import SessionBusLog, ViewReader

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore, Item

SWEEP_SECONDS = 300.0
"""Seconds between two sweeps."""
_UNNAMED = "state"
"""The key of a scope's unnamed state."""
_Part = TypeVar("_Part")


class StateManager:
    """States, artifacts and events in one back end, which any number of processes may use.

    Nothing is opened before `initialize`.

    Args:
        data_dir: The folder for artifacts, and for the database if the URL is empty; by default `shared` in nbagent's
            own state folder.
        url: The back end, see `backends`.
        session_id: The session whose states the scope SESSION means.
        ttl: Seconds that states live, by scope, in place of `DEFAULT_TTL`; None means until they are deleted.
        root: nbagent's own state folder, from whose sessions and tools the `views` are made.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        url: str = "",
        session_id: str = "default",
        ttl: Mapping[StateScope, float | None] | None = None,
        root: Path | None = None,
    ) -> None:
        root = root or state_root()
        self.folder = Path(data_dir).expanduser() if data_dir is not None else root / "shared"
        self.views = ViewReader(root)
        self.session_id = check_name(session_id, "session_id")
        self.ttl = {**DEFAULT_TTL, **(ttl or {})}
        self._url = url
        self._backend: backends.Backend | None = None
        self._bus: Bus | None = None
        self._artifacts: ArtifactStore | None = None
        self._sessions: dict[str, tuple[SessionBusLog, Bus]] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def initialize(self) -> None:
        """Open the back end; does nothing if it is open.

        Raises:
            StoreError: See `backends.open`.
        """
        if self._backend is not None:
            return
        self._backend = await backends.open(self._url, folder=self.folder)
        self._bus = Bus(self._backend.log)
        self._artifacts = ArtifactStore(self._backend.store, self.folder / "artifacts")
        self._sweeper = asyncio.create_task(self._sweep_on(), name="sweep of states")

    async def close(self) -> None:
        """End the subscriptions and close the back end; does nothing if it is closed."""
        if self._sweeper is not None:
            await end(self._sweeper)
        if self._bus is not None:
            await self._bus.close()
        for log, bus in self._sessions.values():
            await bus.close()
            log.close()
        self._sessions.clear()
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
        """LangGraph's checkpointer, which keeps conversations over restarts."""
        return self._require(self._backend).checkpointer

    @property
    def store(self) -> BaseStore:
        """LangGraph's store; this manager owns the namespaces below `nbagent`."""
        return self._require(self._backend).store

    @property
    def artifacts(self) -> ArtifactStore:
        """The artifacts that were saved, without those of sessions."""
        return self._require(self._artifacts)

    @property
    def bus(self) -> Bus:
        """The bus of the events that were published, without those of sessions."""
        return self._require(self._bus)

    def _require(self, part: _Part | None) -> _Part:
        if part is None:
            raise StoreError("The state manager is not open.", mend="Await its initialize() first.")
        return part

    async def set_state(
        self,
        *,
        agent_id: str,
        task_id: str = "",
        scope: StateScope = StateScope.TASK,
        data: dict[str, Any],
        ttl: float | Literal["default"] | None = "default",
        key: str = "",
    ) -> None:
        """Replace a state, and publish `STATE_CHANGED`.

        Args:
            agent_id: The agent that sets it; it owns states of the scopes TASK and AGENT.
            task_id: The task at which it is set; needed for the scope TASK.
            scope: Who shares it.
            data: JSON: text, numbers, lists, dictionaries with text as keys.
            ttl: Seconds that it lives; None means until it is deleted; by default as its scope says.
            key: Its name, if the scope holds more than one state.

        Raises:
            StoreError: The data is not JSON or too large, or it can't be written.
        """
        where = self._namespace(scope, agent_id, task_id)
        check_name(agent_id, "agent_id")
        self.views.check_not_view(scope, key)
        now, lives = time.time(), self.ttl[scope] if ttl == "default" else ttl
        value = {
            "data": encode(data, what="The state"),
            "agent": agent_id,
            "task": task_id,
            "updated": now,
            "expires": None if lives is None else now + lives,
        }
        await self.store.aput(where, check_name(key or _UNNAMED, "key"), value)
        payload = {"scope": scope.value, "key": key, "session_id": self.session_id}
        await self._publish(EventType.STATE_CHANGED, agent_id, task_id, payload)

    async def get_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> dict[str, Any] | None:
        """The data of a state; None if it was never set, was deleted, or has expired.

        Raises:
            StoreError: It can't be read, or the scope needs a name that is empty.
        """
        where, store = self._namespace(scope, agent_id, task_id), self.store
        if (viewed := self.views.state(scope, key, session_id=self.session_id)) is not None:
            return viewed.data
        item = await store.aget(where, key or _UNNAMED)
        entry = _entry(scope, item) if item else None
        return None if entry is None or has_expired(entry.expires) else entry.data

    async def delete_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> bool:
        """Delete a state, and publish `STATE_CHANGED`; returns whether there was one.

        Raises:
            StoreError: It can't be written, or the scope needs a name that is empty.
        """
        self.views.check_not_view(scope, key)
        there = await self.get_state(agent_id, task_id, scope, key=key) is not None
        await self.store.adelete(self._namespace(scope, agent_id, task_id), key or _UNNAMED)
        if there and agent_id:
            payload = {"scope": scope.value, "key": key, "session_id": self.session_id, "deleted": True}
            await self._publish(EventType.STATE_CHANGED, agent_id, task_id, payload)
        return there

    async def list_states(
        self, scope: StateScope, *, agent_id: str | None = None, task_id: str | None = None
    ) -> list[StateEntry]:
        """The states of a scope, the oldest first; those of one agent or one task, if named.

        Raises:
            StoreError: They can't be read.
        """
        below = self._namespace(scope, "", "") if scope is StateScope.SESSION else (ROOT, "state", scope.value)
        found = self.views.states(scope, session_id=self.session_id)
        found += [_entry(scope, item) async for item in items(self.store, below)]
        wanted = [
            entry
            for entry in found
            if not has_expired(entry.expires)
            and agent_id in {None, entry.agent_id}
            and task_id in {None, entry.task_id}
        ]
        return sorted(wanted, key=lambda entry: entry.updated)

    def _namespace(self, scope: StateScope, agent_id: str, task_id: str) -> tuple[str, ...]:
        return namespace(scope, agent_id=agent_id, task_id=task_id, session_id=self.session_id)

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
        """Save content as an artifact, and publish `ARTIFACT_SAVED`; returns the id to load it by.

        Args:
            agent_id: The agent that saves it.
            task_id: The task at which it is saved.
            name: A name for people; never used as a path.
            content: At most `ARTIFACT_LIMIT` bytes.
            content_type: Its MIME type.
            ttl: Seconds that it lives; None means until it is deleted.

        Raises:
            StoreError: It is too large, or can't be written.
        """
        artifact = await self.artifacts.save(
            content, agent_id=agent_id, task_id=task_id, name=name, content_type=content_type, ttl=ttl
        )
        payload = {"artifact_id": artifact.id, "name": name, "content_type": content_type, "size": artifact.size}
        await self._publish(EventType.ARTIFACT_SAVED, agent_id, task_id, payload)
        return artifact.id

    async def load_artifact(self, artifact_id: str) -> tuple[Artifact, bytes]:
        """An artifact, also one of a session, and its content, whose hash is checked.

        Raises:
            StoreError: There is no such artifact, or its content is gone or was changed.
        """
        if ":" in artifact_id:
            return await asyncio.to_thread(self.views.load, artifact_id)
        return await self.artifacts.load(artifact_id)

    async def list_artifacts(
        self, *, agent_id: str | None = None, task_id: str | None = None, session_id: str | None = None
    ) -> list[Artifact]:
        """The artifacts that were saved, or those of a session, the oldest first.

        Args:
            agent_id: Only those that this agent saved.
            task_id: Only those that were saved at this task.
            session_id: The session whose files and figures are listed instead.

        Raises:
            StoreError: They can't be read, or there is no such session.
        """
        if session_id is not None:
            return await asyncio.to_thread(self.views.artifacts, session_id)
        return await self.artifacts.find_all(agent_id=agent_id, task_id=task_id)

    async def delete_artifact(self, artifact_id: str) -> bool:
        """Delete an artifact, and its content if no other refers to it; returns whether there was one."""
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
        """Publish an event for one agent or for all, in this process and in others; returns its number.

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

    async def subscribe_events(
        self, agent_id: str, *, since: int | None = None, session_id: str | None = None
    ) -> Subscription:
        """Subscribe to the events for an agent and those for all.

        Args:
            agent_id: The agent that subscribes.
            since: The number of the last event that it knows; 0 for all that are kept, None for events from now on.
            session_id: A session to whose events it subscribes instead: questions and answers (`TASK_STARTED`,
                `TASK_COMPLETED`, `TASK_FAILED`), what the session waits for (`MESSAGE`), files and figures
                (`ARTIFACT_SAVED`), and what a person allowed for the rest of it (`STATE_CHANGED`).

        Raises:
            StoreError: The events can't be read, or there is no such session.
        """
        bus = self.bus
        if session_id is not None:
            if session_id not in self._sessions:
                log = SessionBusLog(self.views.folder(session_id), session_id)
                self._sessions[session_id] = log, Bus(log)
            bus = self._sessions[session_id][1]
        return await bus.subscribe(agent_id, since=since)

    async def _publish(self, type: EventType, agent_id: str, task_id: str, payload: dict[str, Any]) -> None:
        await self.publish_event(type, source_agent=agent_id, task_id=task_id or None, payload=payload)

    async def sweep(self) -> int:
        """Remove expired states and artifacts, and old events; returns the number of states and artifacts.

        An open manager does this by itself every `SWEEP_SECONDS`. Until then, expired states are not returned either.

        Raises:
            StoreError: It can't be written.
        """
        # Descriptions of artifacts expire as states do; `ArtifactStore.sweep` removes the files of those that are gone.
        expired = [item async for item in items(self.store, (ROOT,), wanted={"expires": {"$lt": time.time()}})]
        for item in expired:
            await self.store.adelete(item.namespace, item.key)
        await self.artifacts.sweep()
        await self.bus.trim(now=time.time())
        return len(expired)

    async def _sweep_on(self) -> None:
        while True:
            # The next call of the manager meets the same failure, and raises it.
            with contextlib.suppress(StoreError):
                await self.sweep()
            await asyncio.sleep(SWEEP_SECONDS)


def _entry(scope: StateScope, item: Item) -> StateEntry:
    value = item.value
    return StateEntry(
        scope=scope,
        agent_id=str(value.get("agent", "")),
        task_id=str(value.get("task", "")),
        key="" if item.key == _UNNAMED else item.key,
        data=decode(value.get("data"), what="A state"),
        updated=float(value.get("updated", 0.0)),
        expires=value.get("expires"),
    )
