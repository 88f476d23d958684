"""What states, artifacts and events show of sessions and of the library of tools."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import run

import pytest

from nbagent.core.errors import StoreError
from nbagent.core.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    Event,
    FileSaved,
    HostAsked,
    HostDecided,
    SessionEnded,
)
from nbagent.core.session_log import SessionLog
from nbagent.forge.library import Library
from nbagent.forge.tool import Tool
from nbagent.state import EventType, StateManager, StateScope, bell
from nbagent.state.views import SessionBusLog, ViewReader, artifacts_of

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
ID = "20260101-000000-abc"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SessionLog]:
    """The log of a session."""
    log = SessionLog(tmp_path, ID)
    yield log
    log.close()


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateManager]:
    """The state of that session."""
    async with StateManager(session_id=ID, root=tmp_path) as state:
        yield state


def saved(path: Path, content: bytes, *, cell: int = 1) -> FileSaved:
    """A file that reached the host."""
    path.write_bytes(content)
    return FileSaved(path=str(path), size=len(content), sha256=hashlib.sha256(content).hexdigest(), cell=cell)


def shown(**data: str) -> CellFinished:
    """A cell that showed this, twice."""
    bundle = {name.replace("_", "/"): value for name, value in data.items()}
    output = {"output_type": "display_data", "data": bundle, "metadata": {}}
    return CellFinished(cell=2, status="ok", outputs=[output, output])


async def test_files_and_figures_are_artifacts(log: SessionLog, state: StateManager, tmp_path: Path) -> None:
    """With name, type, size, hash and cell; what was written again counts once, as it was last."""
    csv = tmp_path / "a.csv"
    log.emit(saved(csv, b"old"))
    log.emit(shown(image_png=base64.b64encode(PNG).decode(), text_plain="<Figure>"))
    log.emit(shown(text_plain="1"))
    log.emit(saved(csv, b"a,b", cell=3))
    figure, other, file = await state.list_artifacts(session_id=ID)
    assert (file.name, file.content_type, file.size, file.cell) == ("a.csv", "text/csv", 3, 3)
    assert (figure.name, other.name) == ("cell-2-figure-1.png", "cell-2-figure-2.png")
    assert (figure.content_type, figure.size, figure.sha256) == ("image/png", len(PNG), hashlib.sha256(PNG).hexdigest())
    assert await state.load_artifact(figure.id) == (figure, PNG)
    assert (await state.load_artifact(file.id))[1] == b"a,b"
    assert await state.list_artifacts() == []
    csv.write_bytes(b"mine")
    with pytest.raises(StoreError, match=r"a\.csv was changed"):
        await state.load_artifact(file.id)
    csv.unlink()
    with pytest.raises(StoreError, match="can't be read: No such file"):
        await state.load_artifact(file.id)


@pytest.mark.parametrize("wanted", [f"{ID}:99", "other:1", f"../sessions/{ID}:1", ":1"])
async def test_an_artifact_that_there_is_not(log: SessionLog, state: StateManager, wanted: str) -> None:
    """Neither of this session nor of another one."""
    log.emit(SessionEnded())
    with pytest.raises(StoreError, match="There is no"):
        await state.load_artifact(wanted)


def test_a_figure_that_is_none(log: SessionLog) -> None:
    """What can't be decoded is not listed."""
    log.emit(shown(image_png="x"))
    assert artifacts_of(log.since(), ID) == []


async def test_approvals_for_good_are_a_state_of_the_session(log: SessionLog, state: StateManager) -> None:
    """It is read of the log, and nobody sets it otherwise; it is no state of another session."""
    assert await state.get_state(scope=StateScope.SESSION, key="approvals") is None
    for rules in (["cell:*"], [], ["cell:*", "install:polars"]):
        log.emit(ApprovalGiven(id="a1", turn=1, decision="approve", by="person", rules=rules))
    assert await state.get_state(scope=StateScope.SESSION, key="approvals") == {"rules": ["cell:*", "install:polars"]}
    assert [each.key for each in await state.list_states(StateScope.SESSION)] == ["approvals"]
    with pytest.raises(StoreError, match="shows what nbagent keeps elsewhere"):
        await state.set_state(agent_id="a", scope=StateScope.SESSION, key="approvals", data={"rules": ["shell:*"]})
    with pytest.raises(StoreError, match="shows what nbagent keeps elsewhere"):
        await state.delete_state("a", scope=StateScope.SESSION, key="approvals")
    await state.set_state(agent_id="a", task_id="t", key="approvals", data={})  # of a task it is a name like any other
    assert await state.get_state("a", "t", key="approvals") == {}


async def test_the_library_is_a_state_of_everybody(state: StateManager, tmp_path: Path) -> None:
    """Each tool with its version and its hash."""
    assert await state.list_states(StateScope.GLOBAL) == []
    tool = Tool(
        name="add_one", version=1, description="Adds one.", code="", tests="", schema={}, python="", tested=(), made=5.0
    )
    Library(tmp_path).add(tool)
    found = await state.get_state(scope=StateScope.GLOBAL, key="tools")
    assert found is not None
    assert (found["add_one"]["version"], found["add_one"]["description"]) == (1, "Adds one.")
    assert [each.key for each in await state.list_states(StateScope.GLOBAL)] == ["tools"]


EVENTS: list[tuple[Event, EventType, str]] = [
    (Asked(turn=1, question="How much?"), EventType.TASK_STARTED, "question"),
    (ApprovalAsked(id="a1", turn=1, kind="cell", tool="python", what="1"), EventType.MESSAGE, "waits"),
    (ApprovalGiven(id="a1", turn=1, decision="approve", by="person"), EventType.MESSAGE, "answered"),
    (HostAsked(id="h1", host="a.test", port=443), EventType.MESSAGE, "waits"),
    (HostDecided(host="a.test", port=443, allowed=False, by="person"), EventType.MESSAGE, "allowed"),
    (FileSaved(path="/a/b.csv", size=1, sha256="0" * 64, cell=1), EventType.ARTIFACT_SAVED, "artifact_id"),
    (Answered(turn=1, text="42", success=True, attempts=1), EventType.TASK_COMPLETED, "text"),
    (Answered(turn=2, text="", success=False, attempts=1), EventType.TASK_FAILED, "text"),
    (SessionEnded(), EventType.MESSAGE, "ended"),
]


@pytest.mark.parametrize("watched", [True, False], ids=["inotify", "without inotify"])
async def test_what_happens_in_a_session_is_told(
    log: SessionLog, state: StateManager, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """What it is at, what it waits for, what it left: as it happens, and again from any place."""

    def none_left(*_: object, **__: object) -> None:
        raise OSError("no inotify instance is left")

    if not watched:
        monkeypatch.setattr(bell.inotify_simple, "INotify", none_left)
    first, *others = EVENTS
    log.emit(first[0])
    subscription = await state.subscribe_events("panel", since=0, session_id=ID)
    assert (await subscription.get()).type is EventType.TASK_STARTED
    for event, kind, key in others:
        log.emit(event)
        told = await asyncio.wait_for(subscription.get(), 30)
        assert (told.type, told.task_id) == (kind, ID)
        assert key in told.payload
    again = await state.subscribe_events("other", since=len(EVENTS) - 1, session_id=ID)
    assert (await again.get()).payload == {"ended": True, "reason": ""}
    log.emit(ApprovalGiven(id="a2", turn=1, decision="approve", by="person", rules=["cell:*"]))
    assert [(await again.get()).type for _ in range(2)] == [EventType.MESSAGE, EventType.STATE_CHANGED]


async def test_a_long_log_is_read_beside_the_event_loop(log: SessionLog) -> None:
    """Whoever shares the loop goes on meanwhile; who gives up waiting harms no later reading."""
    for turn in range(2000):
        log.emit(Asked(turn=turn, question="?"))
    log = SessionBusLog(log.folder, ID)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking, given_up = asyncio.create_task(tick()), asyncio.create_task(log.last())
    await asyncio.sleep(0)
    given_up.cancel()
    assert await log.last() == 2000
    ticking.cancel()
    assert ticks > 1
    assert [each.id for each in await log.read(1998, limit=9)] == [1999, 2000]
    log.close()


async def test_nothing_is_published_into_a_session(log: SessionLog, state: StateManager) -> None:
    """Its events are what happens; those of others go their own way."""
    log.emit(EVENTS[0][0])
    subscription = await state.subscribe_events("panel", session_id=ID)
    await state.publish_event(EventType.MESSAGE, source_agent="a")
    log.emit(EVENTS[-1][0])
    assert (await subscription.get()).payload["ended"] is True
    with pytest.raises(StoreError, match="There is no session 'none'"):
        await state.subscribe_events("panel", session_id="none")


def test_who_only_looks_imports_no_model(log: SessionLog, tmp_path: Path) -> None:
    """A panel's server lists and shows without LangChain, LangGraph, Jupyter's client or a database."""
    log.emit(shown(image_png=base64.b64encode(PNG).decode()))
    code = (
        "import sys\nfrom pathlib import Path\nfrom nbagent.state.views import ViewReader\n"
        f"print(len(ViewReader(Path(sys.argv[1])).artifacts({ID!r})))\n"
        "print({'langchain_core', 'langgraph', 'jupyter_client', 'aiosqlite', 'pydantic'} & set(sys.modules))"
    )
    done = run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2", "set()"]
    assert len(ViewReader(tmp_path).artifacts(ID)) == 2
