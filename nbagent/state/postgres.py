"""Postgres: LangGraph's own checkpointer and store over one pool, and an event log with LISTEN and NOTIFY."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.base import BaseStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from nbagent.core.errors import StoreError
from nbagent.state.bus import BusEvent, event_of
from nbagent.state.guarded import PlainSerializer, Translate, end_batches, guard, store_errors

CONNECT_SECONDS = 5
WAIT_SECONDS = 10.0
"""Seconds for which a request waits for a connection of the pool, if all are in use or the server is gone."""
POOL_SIZE = 8
_CHANNEL = "nbagent_events"
_SETUP_LOCK = 0x6E626167
"""The advisory lock (`nbag`) under which tables are made."""

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS nbagent_events (
        id BIGINT PRIMARY KEY,
        created DOUBLE PRECISION NOT NULL,
        type TEXT NOT NULL,
        source TEXT NOT NULL,
        target TEXT,
        task TEXT,
        payload TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS nbagent_events_last (
        one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
        last BIGINT NOT NULL
    )
    """,
    "INSERT INTO nbagent_events_last (last) VALUES (0) ON CONFLICT DO NOTHING",
)
# The row with the last number is locked until the event is visible. With a sequence, a reader could see 7 before 6, go
# on from 7, and never see 6.
_APPEND = f"""
WITH next AS (UPDATE nbagent_events_last SET last = last + 1 RETURNING last),
     event AS (
        INSERT INTO nbagent_events (id, created, type, source, target, task, payload)
        SELECT last, %s, %s, %s, %s, %s, %s FROM next RETURNING id
     )
SELECT id, pg_notify('{_CHANNEL}', '') FROM event
"""  # noqa: S608 - a constant of this module

_Pool = AsyncConnectionPool[psycopg.AsyncConnection[DictRow]]
_OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


async def open_parts(
    stack: AsyncExitStack, url: str, *, place: str
) -> tuple[BaseCheckpointSaver[Any], BaseStore, PostgresLog]:
    """The checkpointer, the store and the event log in a database."""

    def translate(error: BaseException) -> StoreError | None:
        return sentence(place, error) if isinstance(error, psycopg.Error | PoolTimeout) else None

    # One connection first: a pool tries for long, and doesn't say why it failed.
    try:
        first = await psycopg.AsyncConnection.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True)
    except psycopg.Error as error:
        raise refused(place, error) from None  # the driver's own words may quote the address
    async with first:
        pool: _Pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=POOL_SIZE,
            timeout=WAIT_SECONDS,
            kwargs=_OPTIONS,
            open=False,
            check=AsyncConnectionPool.check_connection,  # replaces connections to a server that was restarted
        )
        stack.push_async_callback(pool.close)
        with store_errors(translate):
            await pool.open(wait=True, timeout=CONNECT_SECONDS)
            async with _alone(first):
                saver = guard(AsyncPostgresSaver, translate)(pool, serde=PlainSerializer())
                await saver.setup()
                store = guard(AsyncPostgresStore, translate)(pool)
                stack.callback(end_batches, store)
                await store.setup()
                log = PostgresLog(pool, url, translate=translate)
                await log.setup()
    stack.push_async_callback(log.close)
    return saver, store, log


@contextlib.asynccontextmanager
async def _alone(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """Hold the lock under which one process at a time makes the tables.

    It is tried again and again: LangGraph makes indexes CONCURRENTLY, which waits for every transaction, and waiting
    for a lock is a transaction too.
    """
    while True:
        row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (_SETUP_LOCK,))).fetchone()
        if row and row[0]:
            break
        await asyncio.sleep(0.05)
    yield  # the lock ends with the connection


class PostgresLog:
    """An `EventLog` in a table.

    Args:
        pool: Connections for reading and writing.
        url: The URL for a connection of its own, on which it listens.
        translate: Makes a `StoreError` of an exception of the driver's.
    """

    def __init__(self, pool: _Pool, url: str, *, translate: Translate) -> None:
        self._pool = pool
        self._url = url
        self._translate = translate
        self._listening: psycopg.AsyncConnection[Any] | None = None

    async def setup(self) -> None:
        """Make the tables."""
        async with self._pool.connection() as connection:
            for statement in _TABLES:
                await connection.execute(statement)

    async def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[DictRow]:
        with store_errors(self._translate):
            async with self._pool.connection() as connection:
                cursor = await connection.execute(query.encode(), values)
                return await cursor.fetchall() if cursor.description else []

    async def append(self, event: BusEvent, *, payload: str) -> int:
        values = (time.time(), event.type.value, event.source_agent, event.target_agent, event.task_id, payload)
        return int((await self._rows(_APPEND, values))[0]["id"])

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        rows = await self._rows("SELECT * FROM nbagent_events WHERE id > %s ORDER BY id LIMIT %s", (after, limit))
        return list(map(event_of, rows))

    async def last(self) -> int:
        return int((await self._rows("SELECT last FROM nbagent_events_last"))[0]["last"])

    async def grown(self, seconds: float) -> None:
        with store_errors(self._translate):
            if self._listening is None or self._listening.closed:
                self._listening = await psycopg.AsyncConnection.connect(
                    self._url, connect_timeout=CONNECT_SECONDS, autocommit=True
                )
                await self._listening.execute(f"LISTEN {_CHANNEL}".encode())
                return  # events may have come before it listened
            try:
                async for _ in self._listening.notifies(timeout=seconds, stop_after=1):
                    return
            except psycopg.Error:
                await self.close()
                raise

    async def trim(self, *, keep: int, before: float) -> None:
        query = (
            "DELETE FROM nbagent_events WHERE id <= greatest((SELECT last FROM nbagent_events_last) - %s, "
            "(SELECT coalesce(max(id), 0) FROM nbagent_events WHERE created < %s))"
        )
        await self._rows(query, (keep, before))

    async def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            await self._listening.close()
            self._listening = None


def refused(place: str, error: psycopg.Error) -> StoreError:
    """The error that says why there is no connection, without the driver's own words."""
    words = str(error)
    if "password" in words or "authentication" in words:
        return StoreError(f"{place} refuses the user or the password.", mend="Look at the URL of the state.")
    if "does not exist" in words:
        return StoreError(f"{place} has no such database or user.", mend="Look at the URL of the state.")
    return StoreError(f"{place} can't be reached ({type(error).__name__}).", mend="Is the server running?")


def sentence(place: str, error: BaseException) -> StoreError:
    """The error that says what the server answered."""
    match error:
        case psycopg.errors.DiskFull() | psycopg.errors.OutOfMemory():
            return StoreError(f"{place} has no room left.", mend="Make room on the server.")
        case psycopg.errors.InsufficientPrivilege() | psycopg.errors.ReadOnlySqlTransaction():
            return StoreError(f"{place} doesn't let this user write.", mend="Grant it CREATE and its tables.")
        case psycopg.OperationalError() | psycopg.InterfaceError() | PoolTimeout():
            return StoreError(f"{place} doesn't answer ({type(error).__name__}).", mend="Is the server running?")
        case psycopg.DataError():
            return StoreError(f"{place} doesn't take this data ({type(error).__name__}).")
        case _:
            return StoreError(f"{place} refused a request ({type(error).__name__}).")
