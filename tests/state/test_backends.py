"""Conversations in a checkpointer on every back end, and what is said when a back end can't be used."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from machine import no_room
from state.conversation import Conversation
from state.servers import PASSWORD, QUOTED, Postgres, Redis, free_port

from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.state import StateManager, backends
from nbagent.state.backends import Backend
from nbagent.state.guarded import PlainSerializer


async def opening(url: str, folder: Path) -> str:
    """What is said when a back end is opened that can't be."""
    with pytest.raises(StoreError) as caught:
        await backends.open(url, folder=folder)
    return str(caught.value)


async def test_langgraphs_own_tests_pass(backend: Backend) -> None:
    """The checkpointer does what LangGraph expects of one."""

    @checkpointer_test(name=type(backend.checkpointer).__name__)
    async def make() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        yield backend.checkpointer

    report = await validate(make)
    assert report.passed_all_base(), report.to_dict()["results"]


class Unsaveable:
    """Nothing that a checkpoint can hold."""


async def test_what_cannot_be_saved_is_told(backend: Backend) -> None:
    """One sentence, not a pickle of it."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"]["x"] = Unsaveable()
    checkpoint["channel_versions"]["x"] = "1"
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with pytest.raises(StoreError, match=r"holds something that can't be saved: .*Unsaveable"):
        await backend.checkpointer.aput(config, checkpoint, {}, {"x": "1"})
    assert await backend.checkpointer.aget_tuple(config) is None


def test_data_from_others_builds_nothing(tmp_path: Path) -> None:
    """A pickle and LangChain's older form are not read, and an extension that would run a program stays data."""
    serializer = PlainSerializer()
    trap = tmp_path / "trap"
    attack = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch {trap}"))))
    serializer.loads_typed(("msgpack", attack))
    call = ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(("subprocess", "check_call", [["touch", str(trap)]]))))
    serializer.loads_typed(("msgpack", call))
    assert not trap.exists()
    for kind in ("pickle", "json"):
        with pytest.raises(ValueError, match="nbagent never writes"):
            serializer.loads_typed((kind, b"{}"))


async def test_the_store_is_langgraphs(backend: Backend) -> None:
    """Tools and middleware find what LangGraph promises: namespaces, prefixes, filters and pages."""
    store = backend.store
    for number in range(5):
        await store.aput(("users", "ann"), f"k{number}", {"n": number, "kind": "even" if number % 2 == 0 else "odd"})
    await store.aput(("users", "anna"), "k", {"n": 9, "kind": "even"})
    await store.aput(("users", "ann", "below"), "k", {"n": 7, "kind": "odd"})
    await store.aput(("other",), "k", {"n": 1})
    item = await store.aget(("users", "ann"), "k3")
    assert item is not None
    assert (item.value, item.key, item.namespace) == ({"n": 3, "kind": "odd"}, "k3", ("users", "ann"))
    assert item.updated_at >= item.created_at
    assert await store.aget(("users", "ann"), "k9") is None
    even = await store.asearch(("users", "ann"), filter={"kind": "even"}, limit=10)
    assert {found.value["n"] for found in even if found.namespace == ("users", "ann")} == {0, 2, 4}
    high = await store.asearch(("users", "ann"), filter={"n": {"$gte": 3}, "kind": {"$ne": "even"}}, limit=10)
    assert {found.value["n"] for found in high} == {3, 7}
    pages = [await store.asearch(("users",), limit=3, offset=offset) for offset in (0, 3, 6)]
    assert sorted(found.value["n"] for page in pages for found in page) == [0, 1, 2, 3, 4, 7, 9]
    assert set(await store.alist_namespaces(prefix=("users",))) == {
        ("users", "ann"),
        ("users", "anna"),
        ("users", "ann", "below"),
    }
    assert await store.alist_namespaces(prefix=("users",), max_depth=1) == [("users",)]
    assert await store.alist_namespaces(suffix=("below",)) == [("users", "ann", "below")]
    await store.adelete(("users", "ann"), "k3")
    assert await store.aget(("users", "ann"), "k3") is None


SECRETS = [PASSWORD, QUOTED, "hunter2", "odd@characters"]


async def test_a_wrong_password_is_told_without_it(postgres: Postgres, redis_server: Redis, tmp_path: Path) -> None:
    """The server and the reason are named, the user and the password are not."""
    for server in (postgres, redis_server):
        for secret in ("wr0ng", "hunter2%2Fwrong"):
            said = await opening(server.url.replace(QUOTED, secret), tmp_path)
            assert "refuses the user or the password" in said
            assert f"127.0.0.1:{server.port}" in said
            assert not [word for word in (*SECRETS, "wr0ng", "nbagent:") if word in said]


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
async def test_a_server_that_is_not_there_is_told(scheme: str, tmp_path: Path) -> None:
    """Within seconds, and without the password."""
    url = f"{scheme}://user:{QUOTED}@127.0.0.1:{free_port()}/0"
    async with asyncio.timeout(15):
        said = await opening(url, tmp_path)
    assert "Is the server running?" in said
    assert not [word for word in (*SECRETS, "user:") if word in said]


async def test_a_server_that_goes_away_is_told(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a conversation too; it goes on when the server is back."""
    monkeypatch.setattr("nbagent.state.postgres.WAIT_SECONDS", 2.0)
    async with StateManager(tmp_path, url=postgres.url) as state:
        agent = Conversation(state.checkpointer)
        await agent.ask("one")
        postgres.stop()
        try:
            with pytest.raises(StoreError, match=r"127\.0\.0\.1:\d+/postgres doesn't answer") as caught:
                await agent.ask("two")
            assert not [word for word in SECRETS if word in str(caught.value)]
        finally:
            postgres.start()
        assert (await agent.ask("three")).endswith("three")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://user:hunter2@host/db", "at mysql: the scheme is not one of sqlite, postgresql, redis."),
        ("hunter2", "at such a URL: the scheme is not one of"),
        ("redis://:hunter2@host:port/0", "its host or its port is malformed"),
        ("redis://:hunter2@127.0.0.1:1/notanumber", ""),
        ("redis://:hunter2@127.0.0.1:1/0?max_connections=many", ""),
        ("redis://:hunter2@127.0.0.1:1/0?nosuchoption=1", "options that Redis's client doesn't know"),
        ("postgresql://u:hunter2@[::1/db", "its host or its port is malformed"),
        ("postgresql://u:hunter2@127.0.0.1:1/db?nosuchoption=1", ""),
        ("postgresql://u:hunter2@127.0.0.1:1/db?sslrootcert=/nowhere&sslmode=verify-full", ""),
        ("sqlite://relative.sqlite", "three slashes"),
        ("sqlite:///", "three slashes"),
    ],
)
async def test_a_url_that_is_none_is_told(url: str, said: str, tmp_path: Path) -> None:
    """A sentence, and never the password."""
    sentence = await opening(url, tmp_path)
    assert said in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize(("extra", "module"), [("postgres", "psycopg"), ("redis", "redis")])
async def test_a_missing_extra_is_a_sentence(
    extra: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names what to install."""
    for name in [name for name in sys.modules if name.startswith((f"nbagent.state.{extra}", f"{module}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    said = await opening(f"{extra if extra == 'redis' else 'postgresql'}://127.0.0.1/0", tmp_path)
    assert said == f"This state needs {module}, which is not installed. pip install 'nbagent[{extra}]'"


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    """It is named, and stays as it is."""
    (tmp_path / "state.sqlite").write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    said = await opening("", tmp_path)
    assert "no SQLite database" in said
    assert str(tmp_path) in said
    assert (tmp_path / "state.sqlite").read_bytes().startswith(b"not a database")


async def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    """When it is opened, or when the damaged page is read."""
    async with StateManager(tmp_path) as state:
        for number in range(300):
            await state.set_state(agent_id="a", task_id=f"t{number}", data={"x": "y" * 1000})
    file = tmp_path / "state.sqlite"
    content = bytearray(file.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    file.write_bytes(content)

    async def read() -> None:
        async with StateManager(tmp_path) as state:
            for number in range(300):
                await state.get_state("a", f"t{number}")

    with pytest.raises(StoreError, match=r"state\.sqlite can't be used: it is damaged"):
        await read()


async def test_a_checkpoint_that_was_changed_is_told(tmp_path: Path) -> None:
    """A conversation that can't be read says so in a sentence."""
    async with StateManager(tmp_path) as state:
        await Conversation(state.checkpointer).ask("one")
    with sqlite3.connect(tmp_path / "state.sqlite") as database:
        database.execute("UPDATE checkpoints SET checkpoint = x'c1c1c1'")
    database.close()
    async with StateManager(tmp_path) as state:
        with pytest.raises(StoreError, match="saved conversation can't be read"):
            await Conversation(state.checkpointer).resume()


async def test_a_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """The state that was there stays, and when there is room again, all goes on."""
    async with StateManager(tmp_path) as state:
        await state.set_state(agent_id="a", task_id="t", data={"x": 1})
        with no_room(300_000):
            with pytest.raises(StoreError, match="full"):
                await state.set_state(agent_id="a", task_id="big", data={"x": "y" * 400_000})
            with pytest.raises(StoreError, match="can't be written"):
                await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"x" * 400_000)
        assert await state.get_state("a", "t") == {"x": 1}
        await state.set_state(agent_id="a", task_id="t", data={"x": 2})
        assert await state.get_state("a", "t") == {"x": 2}
    assert not [path for path in (tmp_path / "artifacts").rglob("*") if path.name.startswith(fileio.STAGED_PREFIX)]


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file in its place."""
    (tmp_path / "file").write_text("")
    assert "can't be written" in await opening("", tmp_path / "file" / "state")


async def test_a_database_that_others_hold_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a write waits."""
    monkeypatch.setattr("nbagent.state.sqlite.BUSY_SECONDS", 0.3)
    async with StateManager(tmp_path) as state:
        other = sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="other processes kept it busy"):
            await state.set_state(agent_id="a", task_id="t", data={"x": 1})
        other.execute("COMMIT")
        other.close()
        await state.set_state(agent_id="a", task_id="t", data={"x": 1})
        assert await state.get_state("a", "t") == {"x": 1}


def test_importing_the_state_imports_no_back_end() -> None:
    """LangGraph and the drivers come with the back end that is opened."""
    report = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    code = f"from nbagent.state import StateManager; {report}"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"langgraph", "langchain_core", "pydantic", "psycopg", "redis", "aiosqlite"} & set(names) == set()
