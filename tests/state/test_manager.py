"""States by scope with their times to live, and artifacts, on every back end."""

from __future__ import annotations

import asyncio
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state.jobs import Job, write_states

from nbagent.core.errors import StoreError
from nbagent.state import EventType, StateManager, StateScope
from nbagent.state.scopes import STATE_LIMIT


async def test_the_example_of_the_seed(state: StateManager) -> None:
    """A state that an agent set at its task is what it gets back, an artifact too, and an event arrives."""
    data = {"step": 1, "result": "..."}
    queue = await state.subscribe_events("evaluation-agent")
    await state.set_state(agent_id="reasoning-agent", task_id="task-123", scope=StateScope.TASK, data=data)
    assert await state.get_state("reasoning-agent", "task-123") == data
    artifact = await state.save_artifact(
        agent_id="agent", task_id="task", name="output.json", content=b"...", content_type="application/json"
    )
    assert (await state.load_artifact(artifact))[1] == b"..."
    await state.publish_event(
        EventType.TASK_COMPLETED,
        source_agent="reasoning-agent",
        target_agent="evaluation-agent",
        task_id="task-123",
        payload={"result": "success"},
    )
    events = [await asyncio.wait_for(queue.get(), 10) for _ in range(3)]
    assert [event.type for event in events] == ["state_changed", "artifact_saved", "task_completed"]
    assert events[2].payload == {"result": "success"}
    assert (events[2].source_agent, events[2].task_id) == ("reasoning-agent", "task-123")


async def test_a_scope_says_who_shares_a_state(url: str, tmp_path: Path) -> None:
    """A task's is one agent's at one task, a session's every agent's there, an agent's its own at every task."""
    async with (
        StateManager(tmp_path / "a", url=url, session_id="one") as one,
        StateManager(tmp_path / "a", url=url, session_id="two") as two,
    ):
        for scope in StateScope:
            await one.set_state(agent_id="ann", task_id="t1", scope=scope, data={"scope": scope.value})
        seen = {
            scope: [
                await one.get_state("ann", "t1", scope) is not None,
                await one.get_state("ann", "t2", scope) is not None,
                await one.get_state("bob", "t1", scope) is not None,
                await two.get_state("ann", "t1", scope) is not None,
                await two.get_state("bob", "t2", scope) is not None,
            ]
            for scope in StateScope
        }
        assert seen == {
            StateScope.TASK: [True, False, False, True, False],
            StateScope.SESSION: [True, True, True, False, False],
            StateScope.AGENT: [True, True, False, True, False],
            StateScope.GLOBAL: [True, True, True, True, True],
        }


ODD_NAMES = ["a.b", "a", "a%2Eb", "ab", "a_b", "a%", "Ünï/cödé", "a b", "'; DROP TABLE store;--", '{"a":1}', "a:b"]


async def test_names_of_any_kind_are_kept_apart(state: StateManager) -> None:
    """No agent reads another's state because of how its name is written."""
    for name in ODD_NAMES:
        await state.set_state(agent_id=name, task_id=name, data={"name": name})
        await state.set_state(agent_id=name, scope=StateScope.AGENT, data={"name": name}, key=name)
    for name in ODD_NAMES:
        assert await state.get_state(name, name) == {"name": name}
        assert await state.get_state(name, scope=StateScope.AGENT, key=name) == {"name": name}
    assert sorted(entry.agent_id for entry in await state.list_states(StateScope.TASK)) == sorted(ODD_NAMES)
    assert [entry.data for entry in await state.list_states(StateScope.AGENT, agent_id="a")] == [{"name": "a"}]


async def test_data_comes_back_as_it_was(state: StateManager) -> None:
    """Characters, numbers and nesting that databases have trouble with are kept exactly."""
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"deep": [deep]}
    data = {
        "nul": "a\0b",
        "surrogate": "\ud800",
        "big": 2**200,
        "float": 0.1 + 0.2,
        "text": "ü\u2028𝄞",
        "empty": {},
        "": [None, True, -0.0],
        "lc": {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
        "deep": deep,
    }
    await state.set_state(agent_id="a", task_id="t", data=data)
    assert await state.get_state("a", "t") == data


async def test_a_state_ends_with_its_time_to_live(url: str, tmp_path: Path, go_on: Callable[[float], None]) -> None:
    """It is neither returned nor listed after that, and the sweep removes it for good; others stay."""
    async with StateManager(tmp_path, url=url, ttl={StateScope.TASK: 400}) as state:
        await state.set_state(agent_id="a", task_id="scope", data={"x": 1})
        await state.set_state(agent_id="a", task_id="own", data={"x": 1}, ttl=400)
        await state.set_state(agent_id="a", task_id="never", data={"x": 1}, ttl=None)
        await state.set_state(agent_id="a", task_id="later", data={"x": 1}, ttl=4000)
        assert await state.get_state("a", "scope") == {"x": 1}
        go_on(500)
        assert [await state.get_state("a", task) for task in ("scope", "own")] == [None, None]
        assert {entry.task_id for entry in await state.list_states(StateScope.TASK)} == {"never", "later"}
        assert len(await state.store.asearch(("nbagent", "state"), limit=10)) == 4
        await state.store.aput(("nbagents",), "theirs", {"expires": 1.0})
        assert await state.sweep() == 2
        assert await state.store.aget(("nbagents",), "theirs") is not None
        assert len(await state.store.asearch(("nbagent", "state"), limit=10)) == 2
        assert not await state.delete_state("a", "scope")
        assert await state.delete_state("a", "never")
        assert await state.get_state("a", "never") is None


async def test_every_scope_has_a_time_to_live(state: StateManager) -> None:
    """A task's state lives a day, a session's a week, and the others until they are deleted."""
    lives = {}
    for scope in StateScope:
        await state.set_state(agent_id="a", task_id="t", scope=scope, data={})
        (entry,) = await state.list_states(scope)
        lives[scope] = entry.expires and round(entry.expires - entry.updated)
        assert abs(entry.updated - time.time()) < 60
    assert lives == {"task": 86_400, "session": 604_800, "agent": None, "global": None}


async def test_many_states_are_all_listed(state: StateManager) -> None:
    """A list is not cut at a page of the database."""
    await asyncio.gather(
        *(state.store.aput(("nbagent", "state", "task", "a", f"t{n}"), "state", {"data": "{}"}) for n in range(1100))
    )
    assert len(await state.list_states(StateScope.TASK)) == 1100


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"x": object()}, "The state is not JSON: Object of type object is not JSON serializable."),
        ({"x": float("nan")}, "The state is not JSON: Out of range float values are not JSON compliant"),
        ({"x": {1: "a"}}, "The state is not JSON: the key '1' is a int, not text."),
        ({"x": {"y"}}, "The state is not JSON: Object of type set is not JSON serializable."),
        (["x"], "The state must be a dictionary, not a list."),
        ({"x": "y" * STATE_LIMIT}, "more than 1,000,000. Save it as an artifact."),
    ],
    ids=["object", "nan", "key", "set", "list", "large"],
)
async def test_what_is_no_state_is_refused(tmp_path: Path, data: Any, why: str) -> None:
    """A sentence says why, and what was there before stays."""
    async with StateManager(tmp_path) as state:
        await state.set_state(agent_id="a", task_id="t", data={"old": 1})
        with pytest.raises(StoreError) as caught:
            await state.set_state(agent_id="a", task_id="t", data=data)
        assert why in str(caught.value)
        assert await state.get_state("a", "t") == {"old": 1}


async def test_data_that_holds_itself_or_is_too_deep_is_refused(tmp_path: Path) -> None:
    """Neither ends in a traceback."""
    endless: dict[str, Any] = {}
    endless["self"] = endless
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"d": deep}
    async with StateManager(tmp_path) as state:
        for data in (endless, deep):
            with pytest.raises(StoreError, match="nested too deeply"):
                await state.set_state(agent_id="a", task_id="t", data=data)


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800", "a\0b"], ids=["empty", "long", "surrogate", "nul"])
async def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """In every place where an agent or a task is named."""
    async with StateManager(tmp_path) as state:
        with pytest.raises(StoreError, match="agent_id must"):
            await state.set_state(agent_id=name, task_id="t", data={})
        with pytest.raises(StoreError, match="task_id must"):
            await state.get_state("a", name)
        with pytest.raises(StoreError, match="agent_id must"):
            await state.subscribe_events(name)
        with pytest.raises(StoreError, match="source_agent must"):
            await state.publish_event(EventType.MESSAGE, source_agent=name)
        with pytest.raises(StoreError, match="must"):
            await state.save_artifact(agent_id="a", task_id="t", name=name, content=b"")


async def test_a_manager_that_is_not_open_says_so(tmp_path: Path) -> None:
    """Before it is opened and after it is closed; opening and closing twice does nothing."""
    state = StateManager(tmp_path)
    with pytest.raises(StoreError, match="not open"):
        await state.get_state("a", "t")
    await state.initialize()
    await state.initialize()
    await state.set_state(agent_id="a", task_id="t", data={"x": 1})
    await state.close()
    await state.close()
    with pytest.raises(StoreError, match="not open"):
        await state.load_artifact("x")
    async with state:
        assert await state.get_state("a", "t") == {"x": 1}


async def test_processes_write_at_once(url: str, tmp_path: Path) -> None:
    """Four processes that open a new place at the same moment and write as fast as they can lose nothing."""
    for writer in [Job(write_states, str(tmp_path), url, f"w{n}", 30) for n in range(4)]:
        await writer.end()
    async with StateManager(tmp_path, url=url) as state:
        assert len(await state.list_states(StateScope.TASK)) == 120
        events = await state.subscribe_events("me", since=0)
        ids = [(await asyncio.wait_for(events.get(), 10)).id for _ in range(120)]
        assert ids == list(range(1, 121))


async def test_everything_of_the_default_is_private(tmp_path: Path) -> None:
    """Other users of the machine read neither the database nor the artifacts, whatever the umask."""
    async with StateManager(tmp_path / "s") as state:
        await state.set_state(agent_id="a", task_id="t", data={"secret": 1})
        await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"secret")
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "s", *(tmp_path / "s").rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir() or len(modes) == 0} == {0o700}
    assert {mode for path, mode in modes.items() if path.suffix in {".sqlite", ".lock", ".bell"}} == {0o600}
    assert {mode for path, mode in modes.items() if len(path.name) == 64} == {0o600}
    assert any(path.name.endswith("-wal") and mode == 0o600 for path, mode in modes.items())


async def test_requests_that_are_cancelled_leave_no_trace(url: str, tmp_path: Path) -> None:
    """Neither an open transaction, nor a gap in the numbers of the events, nor a task, nor a thread."""
    before = asyncio.all_tasks()
    async with StateManager(tmp_path, url=url) as state:
        for number in range(40):
            task = asyncio.create_task(state.set_state(agent_id="a", task_id="t", data={"n": number}))
            await asyncio.sleep(0.0005 * (number % 7))
            task.cancel()
            await asyncio.wait({task})
        await asyncio.wait_for(state.set_state(agent_id="a", task_id="t", data={"n": "end"}), 15)
        assert await state.get_state("a", "t") == {"n": "end"}
        last = await state.publish_event(EventType.MESSAGE, source_agent="a")
        queue = await state.subscribe_events("me", since=0)
        assert [(await asyncio.wait_for(queue.get(), 15)).id for _ in range(last)] == list(range(1, last + 1))
    for pause in range(8):
        opening = StateManager(tmp_path, url=url)
        task = asyncio.create_task(opening.initialize())
        await asyncio.sleep(0.004 * pause)
        task.cancel()
        await asyncio.wait({task})
        await opening.close()
    await asyncio.sleep(0.2)
    assert asyncio.all_tasks() - before == set()
    assert [thread.name for thread in threading.enumerate() if "connection_worker" in thread.name] == []
