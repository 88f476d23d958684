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
from typing import TYPE_CHECKING, Any, TypeVar

from nbagent.core.errors import StoreError
from nbagent.core.folders import state_root
from nbagent.state import backends
from nbagent.state.artifacts import ARTIFACT_TTL, Artifact, Artifacts
from nbagent.state.bus import Bus, BusEvent, EventType, Subscription, end
from nbagent.state.scopes import DEFAULT_TTL, StateEntry, StateScope, check_name
from nbagent.state.states import States
from nbagent.state.views import SessionLog, Views

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

SWEEP_SECONDS = 300.0
Part = TypeVar("Part")


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
        root: nbagent's own state folder, whose sessions and tools are shown too; see `views`.

    Nothing is done before `initialize`.
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
        self.views = Views(root)
        self.session_id = check_name(session_id, "session_id")
        self.ttl = {**DEFAULT_TTL, **(ttl or {})}
        self._url = url
        self._backend: backends.Backend | None = None
        self._bus: Bus | None = None
        self._artifacts: Artifacts | None = None
        self._states: States | None = None
        self._sessions: dict[str, tuple[SessionLog, Bus]] = {}
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
        self._states = States(self._backend.store, session_id=self.session_id, views=self.views)
        self._sweeper = asyncio.create_task(self._sweep_on(), name="sweep of states")

    async def close(self) -> None:
        """End the subscriptions, and close what is open; again is without effect."""
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
        self._sweeper = self._bus = self._artifacts = self._states = self._backend = None

    async def __aenter__(self) -> StateManager:
        await self.initialize()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def checkpointer(self) -> BaseCheckpointSaver[Any]:
        """LangGraph's checkpointer, for conversations that go on after a restart."""
        return self._opened(self._backend).checkpointer

    @property
    def store(self) -> BaseStore:
        """LangGraph's store; the namespaces below `nbagent` are this manager's."""
        return self._opened(self._backend).store

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts that were saved, by themselves."""
        return self._opened(self._artifacts)

    @property
    def bus(self) -> Bus:
        """The events that were published, by themselves."""
        return self._opened(self._bus)

    def _opened(self, part: Part | None) -> Part:
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
        lives = self.ttl[scope] if isinstance(ttl, _Default) else ttl
        await self._opened(self._states).set(scope, key, agent_id=agent_id, task_id=task_id, data=data, ttl=lives)
        payload = {"scope": scope.value, "key": key, "session_id": self.session_id}
        await self._tell(EventType.STATE_CHANGED, agent_id, task_id, payload)

    async def get_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> dict[str, Any] | None:
        """A state, or None if there is none, or none any more.

        Raises:
            StoreError: It can't be read, or the scope needs a name that is empty.
        """
        return await self._opened(self._states).get(scope, key, agent_id=agent_id, task_id=task_id)

    async def delete_state(
        self, agent_id: str = "", task_id: str = "", scope: StateScope = StateScope.TASK, *, key: str = ""
    ) -> bool:
        """Delete a state; whether there was one.

        Raises:
            StoreError: It can't be written, or the scope needs a name that is empty.
        """
        there = await self._opened(self._states).delete(scope, key, agent_id=agent_id, task_id=task_id)
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
        return await self._opened(self._states).find_all(scope, agent_id=agent_id, task_id=task_id)

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
        """An artifact and its content, whose hash is checked; also one of a session's.

        Raises:
            StoreError: There is none of that id, or its content is gone or was changed.
        """
        if ":" in artifact_id:
            return await asyncio.to_thread(self.views.load, artifact_id)
        return await self.artifacts.load(artifact_id)

    async def list_artifacts(
        self, *, agent_id: str | None = None, task_id: str | None = None, session_id: str | None = None
    ) -> list[Artifact]:
        """The artifacts that were saved, the oldest first; of one agent or one task, if named.

        Args:
            agent_id: Who saved them.
            task_id: At which task.
            session_id: A session, whose files and figures are listed instead.

        Raises:
            StoreError: They can't be read, or there is no such session.
        """
        if session_id is not None:
            return await asyncio.to_thread(self.views.artifacts, session_id)
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

    async def subscribe_events(
        self, agent_id: str, *, since: int | None = None, session_id: str | None = None
    ) -> Subscription:
        """The queue of what an agent is told from now on, or after the event of number `since`; 0 is all that is kept.

        Args:
            agent_id: Who subscribes.
            since: The number of the last event that it knows.
            session_id: A session, what happens in which is told instead: questions and their answers
                (`TASK_STARTED`, `TASK_COMPLETED`, `TASK_FAILED`), what it waits for (`MESSAGE`), files and figures
                (`ARTIFACT_SAVED`), and what a person allowed for good (`STATE_CHANGED`).

        Raises:
            StoreError: The events can't be read, or there is no such session.
        """
        bus = self.bus
        if session_id is not None:
            if session_id not in self._sessions:
                log = SessionLog(self.views.folder(session_id), session_id)
                self._sessions[session_id] = log, Bus(log)
            bus = self._sessions[session_id][1]
        return await bus.subscribe(agent_id, since=since)

    async def _tell(self, type: EventType, agent_id: str, task_id: str, payload: dict[str, Any]) -> None:
        await self.publish_event(type, source_agent=agent_id, task_id=task_id or None, payload=payload)

    async def sweep(self) -> int:
        """Remove what has expired, files that nothing refers to, and old events; returns how many states and artifacts.

        Done by itself when the manager opens and every `SWEEP_SECONDS`. Nothing that has expired is returned meanwhile.

        Raises:
            StoreError: It can't be written.
        """
        removed = await self._opened(self._states).sweep()
        await self.artifacts.sweep()
        await self.bus.trim(now=time.time())
        return removed

    async def _sweep_on(self) -> None:
        while True:
            # Whoever uses the manager meets the same failure, and is told.
            with contextlib.suppress(StoreError):
                await self.sweep()
            await asyncio.sleep(SWEEP_SECONDS)
