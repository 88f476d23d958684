"""The three back ends, on real servers, for every test of the state."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis.asyncio
from state.servers import Postgres, Redis, private_folder

from nbagent.state import StateManager
from nbagent.state.backends import Backend
from nbagent.state.backends import open as open_backend

BACKENDS = ["sqlite", "postgres", "redis"]


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets this process's clock forward by so many seconds: a slow machine changes nothing about that."""
    read, ahead = time.time, 0.0

    def later(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(time, "time", lambda: read() + ahead)
    return later


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A Postgres server for the whole run."""
    with private_folder() as folder:
        server = Postgres(folder)
        server.make()
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """A Redis server for the whole run."""
    with private_folder() as folder:
        server = Redis(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture(params=BACKENDS)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of each back end, empty at the beginning."""
    match request.param:
        case "sqlite":
            yield f"sqlite://{tmp_path}/made/state.sqlite"
        case "postgres":
            server: Postgres = request.getfixturevalue("postgres")
            async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
                await connection.execute("DROP SCHEMA public CASCADE")
                await connection.execute("CREATE SCHEMA public")
            yield server.url
        case "redis":
            address = request.getfixturevalue("redis_server").url
            async with redis.asyncio.Redis.from_url(address) as client:
                await client.flushall()
            yield address


@pytest.fixture
async def backend(url: str, tmp_path: Path) -> AsyncIterator[Backend]:
    """An opened back end."""
    opened = await open_backend(url, folder=tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def state(url: str, tmp_path: Path) -> AsyncIterator[StateManager]:
    """An open manager."""
    async with StateManager(tmp_path / "state", url=url) as manager:
        yield manager
