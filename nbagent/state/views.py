"""Read-only states, artifacts and events, made from sessions' logs and from the library of tools.

    what                                             is read from
    state `approvals` of the scope SESSION           the session's log: what a person allowed for the rest of it
    state `tools` of the scope GLOBAL                the index of the library of tools
    artifacts of a session                           its log: files that reached the host, and figures of its cells
    events of a session                              its log: questions, what it waits for, files, approvals

So nothing is stored twice, and nothing here can be set, saved, deleted or published. LangGraph is not imported.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import threading
from collections.abc import Iterable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Any, cast

from nbagent.core import events, fileio
from nbagent.core.errors import StoreError
from nbagent.core.folders import LOG_FILE
from nbagent.core.session_log import Tail, read_log
from nbagent.state.artifacts import Artifact
from nbagent.state.bell import Bell
from nbagent.state.bus import BusEvent, EventType
from nbagent.state.scopes import StateEntry, StateScope

APPROVALS, TOOLS = "approvals", "tools"
AGENT = "nbagent"
"""The agent that these states and artifacts name as their author."""


class ViewReader:
    """The views of one state folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, session_id: str) -> Path:
        """A session's folder."""
        folder = self._root / "sessions" / session_id
        if not session_id or folder.name != session_id or not (folder / LOG_FILE).is_file():
            raise StoreError(f"There is no session {session_id[:80]!r}.", mend="See them all with: nbagent sessions")
        return folder

    def states(self, scope: StateScope, *, session_id: str) -> list[StateEntry]:
        """The states of a scope that are not empty."""
        found = (self.state(scope, key, session_id=session_id) for key in (APPROVALS, TOOLS))
        return [each for each in found if each is not None]

    def state(self, scope: StateScope, key: str, *, session_id: str) -> StateEntry | None:
        """A state; None if there is no such view, or if it is empty."""
        if (scope, key) == (StateScope.SESSION, APPROVALS):
            log = self._root / "sessions" / session_id
            return _approvals(read_log(log) if (log / LOG_FILE).is_file() else ())
        if (scope, key) == (StateScope.GLOBAL, TOOLS):
            return _tools(self._root)
        return None

    def check_not_view(self, scope: StateScope, key: str) -> None:
        """Raise an error if a state is a view, which only nbagent changes."""
        if (scope, key) in {(StateScope.SESSION, APPROVALS), (StateScope.GLOBAL, TOOLS)}:
            raise StoreError(f"The state {key!r} shows what nbagent keeps elsewhere.", mend="Choose another key.")

    def artifacts(self, session_id: str) -> list[Artifact]:
        """See `artifacts_of`."""
        return artifacts_of(read_log(self.folder(session_id)), session_id)

    def load(self, artifact_id: str) -> tuple[Artifact, bytes]:
        """An artifact of a session and its content.

        Raises:
            StoreError: There is no such artifact, or its file is gone or was changed since.
        """
        artifact, file = self.open(artifact_id)
        with file:
            return artifact, file.read()

    def open(self, artifact_id: str) -> tuple[Artifact, IO[bytes]]:
        """An artifact of a session and its content as a file, at its beginning.

        Raises:
            StoreError: As for `load`.
        """
        session_id = artifact_id.partition(":")[0]
        for artifact, place in _contents(read_log(self.folder(session_id)), session_id):
            if artifact.id == artifact_id:
                return artifact, BytesIO(place) if isinstance(place, bytes) else _open(place, artifact)
        raise StoreError(f"There is no artifact {artifact_id[:80]!r}.")


def artifacts_of(records: Iterable[events.Record], session_id: str) -> list[Artifact]:
    """The files of a session that reached the host, and the figures of its cells, in order.

    A file that was written several times is listed once, as it was last.
    """
    latest: dict[Any, Artifact] = {}
    for artifact, place in _contents(records, session_id):
        key = place if isinstance(place, Path) else artifact.id
        latest.pop(key, None)
        latest[key] = artifact
    return list(latest.values())


def rules_of(records: Iterable[events.Record]) -> list[str]:
    """What a person allowed for the rest of a session, as rules of its consent, each once."""
    given = (record.event for record in records if isinstance(record.event, events.ApprovalGiven))
    return list(dict.fromkeys(rule for event in given for rule in event.rules))


def _approvals(records: Iterable[events.Record]) -> StateEntry | None:
    given = [each for each in records if isinstance(each.event, events.ApprovalGiven) and each.event.rules]
    data = {"rules": rules_of(given)}
    return _state(StateScope.SESSION, APPROVALS, data, given[-1].at) if given else None


def _tools(root: Path) -> StateEntry | None:
    from nbagent.forge.library import Library  # imports all that runs a kernel

    listed = Library(root).listed()
    data = {
        each.name: {"description": each.description, "version": each.version, "sha256": each.versions[each.version]}
        for each in listed
    }
    return _state(StateScope.GLOBAL, TOOLS, data, max(each.made for each in listed)) if listed else None


def _state(scope: StateScope, key: str, data: dict[str, Any], updated: float) -> StateEntry:
    return StateEntry(scope=scope, agent_id=AGENT, task_id="", key=key, data=data, updated=updated, expires=None)


def _contents(records: Iterable[events.Record], session_id: str) -> Iterator[tuple[Artifact, Path | bytes]]:
    """Artifacts with their places on the host, or their content."""
    for record in records:
        match record.event:
            case events.FileSaved(path=path, size=size, sha256=sha256, cell=cell):
                kind = "application/x-ipynb+json" if path.endswith(".ipynb") else mimetypes.guess_type(path)[0]
                what = (Path(path).name, kind or "application/octet-stream", size, sha256)
                yield _artifact(record, session_id, *what, cell=cell), Path(path)
            case events.CellFinished(cell=cell, outputs=outputs):
                yield from _figures(record, session_id, outputs, cell)
            case events.LateOutputAdded(cell=cell, output=output):
                yield from _figures(record, session_id, [output], cell)


def _figures(
    record: events.Record, session_id: str, outputs: list[events.Output], cell: int
) -> Iterator[tuple[Artifact, Path | bytes]]:
    for number, figure in enumerate(events.figures(cell, outputs), start=1):
        digest = hashlib.sha256(figure.content).hexdigest()
        what = (figure.name, figure.mime_type, len(figure.content), digest)
        yield _artifact(record, session_id, *what, cell=cell, part=f".{number}"), figure.content


def _artifact(
    record: events.Record, session_id: str, name: str, kind: str, size: int, sha256: str, *, cell: int, part: str = ""
) -> Artifact:
    return Artifact(
        id=f"{session_id}:{record.seq}{part}",
        agent_id=AGENT,
        task_id=session_id,
        name=name,
        content_type=kind,
        size=size,
        sha256=sha256,
        created=record.at,
        expires=None,
        cell=cell,
    )


def _open(path: Path, artifact: Artifact) -> IO[bytes]:
    try:
        file = fileio.opened(path)
        digest = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
        file.seek(0)
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror}.") from error
    if digest != artifact.sha256:
        file.close()
        raise StoreError(f"{path} was changed since the session wrote it.")
    return file


class SessionBusLog:
    """The events of a session as an `EventLog`, to be followed like any other."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder
        self._session_id = session_id
        self._tail = Tail(folder)
        self._lock = threading.Lock()  # a thread reads on though who waited for it was cancelled
        self._events: list[BusEvent] = []
        self._bell = Bell(folder / LOG_FILE, look=self.last)

    async def append(self, event: BusEvent, *, payload: str) -> int:  # noqa: ARG002 - an `EventLog`'s
        raise StoreError("The events of a session are what happens in it; none can be published.")

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        await self.last()
        return self._events[after : after + limit]

    async def last(self) -> int:
        return await asyncio.to_thread(self._read_on)

    def _read_on(self) -> int:
        """Read what was written since the last time, in a thread: a log may be long."""
        with self._lock:
            for record in self._tail.new():
                for kind, payload in _bus_events(record, self._session_id):
                    event = BusEvent(
                        id=len(self._events) + 1,
                        type=kind,
                        source_agent=AGENT,
                        task_id=self._session_id,
                        payload=payload,
                        created=record.at,
                    )
                    self._events.append(event)
            return len(self._events)

    async def grown(self, seconds: float) -> None:
        await self._bell.wait(seconds)

    async def trim(self, *, keep: int, before: float) -> None:
        """Do nothing: a session's events end with the session."""

    def close(self) -> None:
        """Stop listening."""
        self._bell.close()


def _bus_events(record: events.Record, session_id: str) -> Iterator[tuple[EventType, dict[str, Any]]]:
    """The types and payloads of the bus's events for an event of a session."""
    match record.event:
        case events.Asked(turn=turn, question=question):
            yield EventType.TASK_STARTED, {"turn": turn, "question": question[:1000]}
        case events.Answered(turn=turn, text=text, success=success):
            kind = EventType.TASK_COMPLETED if success else EventType.TASK_FAILED
            yield kind, {"turn": turn, "text": text[:1000]}
        case events.ApprovalAsked(id=id, kind=kind, what=what):
            yield EventType.MESSAGE, {"waits": id, "for": kind, "what": what}
        case events.HostAsked(id=id, host=host):
            yield EventType.MESSAGE, {"waits": id, "for": "host", "what": host}
        case events.ApprovalGiven(id=id, decision=decision, rules=rules):
            yield EventType.MESSAGE, {"answered": id, "decision": decision}
            if rules:
                yield EventType.STATE_CHANGED, {"scope": "session", "key": APPROVALS, "session_id": session_id}
        case events.HostDecided(id=id, host=host, allowed=allowed):
            yield EventType.MESSAGE, {"answered": id, "host": host, "allowed": allowed}
        case events.SessionEnded(reason=reason):
            yield EventType.MESSAGE, {"ended": True, "reason": reason}
        case _:
            for artifact, _ in _contents([record], session_id):
                yield (
                    EventType.ARTIFACT_SAVED,
                    {
                        "artifact_id": artifact.id,
                        "name": artifact.name,
                        "content_type": artifact.content_type,
                        "size": artifact.size,
                        "sha256": artifact.sha256,
                        "cell": artifact.cell,
                    },
                )
