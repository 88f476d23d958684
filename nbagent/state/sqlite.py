"""The default back end: one SQLite file, which any number of processes of this machine use at once.

    DIR/state.sqlite     checkpoints, store and events; in WAL mode, so that readers don't wait for a writer
    DIR/state.lock       held while the tables are made
    DIR/state.bell       touched after each event: inotify tells the other processes

SQLite belongs on a local disk: it can't be shared between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.base import BaseStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from nbagent.core.errors import StoreError
from nbagent.core.fileio import cannot_write
from nbagent.state.guard import Guarded, GuardedStore, PlainSerializer, end_batches, told
from nbagent.state.sqlite_log import SqliteLog

BUSY_SECONDS = 10.0
"""How long a write waits for other processes' writes."""


async def open_parts(stack: AsyncExitStack, path: Path) -> tuple[BaseCheckpointSaver[Any], BaseStore, SqliteLog]:
    """The checkpointer, the store and the event log in a file, made if it isn't there.

    Raises:
        StoreError: It can't be written, is damaged, or isn't a database.
    """

    def translate(error: BaseException) -> StoreError | None:
        return sentence(path, error) if isinstance(error, sqlite3.Error) else None

    _make(path)
    with told(translate):
        async with _alone(path.with_suffix(".lock")):
            saver = SqliteSaver(await _connect(stack, path), serde=PlainSerializer())
            saver.translate = translate
            await saver.setup()
            store = SqliteStore(await _connect(stack, path, isolation_level=None))
            stack.callback(end_batches, store)
            store.translate = translate
            await store.setup()
            bell = path.with_suffix(".bell")
            log = SqliteLog(await _connect(stack, path, isolation_level=None), bell=bell, translate=translate)
            await log.setup()
            stack.callback(log.close)
    return saver, store, log


async def _connect(stack: AsyncExitStack, path: Path, **options: Any) -> aiosqlite.Connection:
    connection = aiosqlite.connect(path, timeout=BUSY_SECONDS, **options)
    opening = asyncio.ensure_future(connection)
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:  # its thread would go on for ever
        await (await opening).close()
        raise
    stack.push_async_callback(connection.close)
    # NORMAL keeps the file whole whatever happens; a machine that loses power may lose the last transactions.
    await connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
    return connection


def _make(path: Path) -> None:
    """Make an empty file that is this user's alone; SQLite gives the files beside it the same permissions."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in (path, path.with_suffix(".bell")):
            os.close(os.open(each, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise cannot_write(path, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error


@contextlib.asynccontextmanager
async def _alone(lock: Path) -> AsyncIterator[None]:
    """One process at a time makes the tables: LangGraph's migrations take no heed of each other."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


class _Pruning(AsyncSqliteSaver):
    """What LangGraph's saver for Postgres has, and the one for SQLite lacks."""

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads but the newest of each namespace, or all of them.

        Raises:
            NotImplementedError: A thread has a DeltaChannel, whose value is spread over its checkpoints.
            ValueError: The strategy is neither `keep_latest` nor `delete`.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"Unknown prune strategy: {strategy!r}")
        await self.setup()
        for thread in map(str, thread_ids):
            async with self.lock, self.conn.cursor() as cursor:
                try:
                    await cursor.execute("BEGIN IMMEDIATE")
                    await (_delete if strategy == "delete" else _keep_latest)(cursor, thread)
                    await self.conn.commit()
                except BaseException:
                    await self.conn.rollback()
                    raise


async def _delete(cursor: aiosqlite.Cursor, thread: str) -> None:
    await cursor.execute("DELETE FROM writes WHERE thread_id = ?", (thread,))
    await cursor.execute("DELETE FROM checkpoints WHERE thread_id = ?", (thread,))


async def _keep_latest(cursor: aiosqlite.Cursor, thread: str) -> None:
    await cursor.execute(
        "SELECT 1 FROM checkpoints WHERE thread_id = ? "
        "AND json_extract(metadata, '$.counters_since_delta_snapshot') IS NOT NULL LIMIT 1",
        (thread,),
    )
    if await cursor.fetchone():
        raise NotImplementedError(f"keep_latest can't prune a thread that uses a DeltaChannel: {thread}")
    query = "SELECT checkpoint_ns, MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
    await cursor.execute(query, (thread,))
    for newest in await cursor.fetchall():
        where = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id"
        await cursor.execute(f"DELETE FROM writes {where} < ?", (thread, *newest))  # noqa: S608 - three fixed words
        await cursor.execute(f"DELETE FROM checkpoints {where} < ?", (thread, *newest))  # noqa: S608
        await cursor.execute(
            f"UPDATE checkpoints SET parent_checkpoint_id = NULL {where} = ?",  # noqa: S608
            (thread, *newest),
        )


class SqliteSaver(Guarded, _Pruning):
    """LangGraph's checkpointer for SQLite, pruning and guarded."""


class SqliteStore(GuardedStore, AsyncSqliteStore):
    """LangGraph's store for SQLite, guarded."""


def sentence(path: Path, error: sqlite3.Error) -> StoreError:
    """What has happened to the file, in words."""
    name = getattr(error, "sqlite_errorname", None) or ""
    reasons = {
        "SQLITE_FULL": ("the disk is full", "Make room."),
        "SQLITE_IOERR": (f"the disk is full or fails ({name})", "Make room, or look at the disk."),
        "SQLITE_CORRUPT": ("it is damaged", "Move it away; a new one is made then."),
        "SQLITE_NOTADB": ("it is no SQLite database", "Move it away; a new one is made then."),
        "SQLITE_BUSY": (f"other processes kept it busy for {BUSY_SECONDS:.0f} seconds", "Try again."),
        "SQLITE_LOCKED": ("it is locked", "Try again."),
        "SQLITE_READONLY": ("it may not be written", "Look at its permissions."),
        "SQLITE_CANTOPEN": ("it can't be opened", "Look at its permissions."),
        "SQLITE_TOOBIG": ("something is too large for it", "Save it as an artifact."),
    }
    for code, (reason, mend) in reasons.items():
        if name == code or name.startswith(f"{code}_"):
            return StoreError(f"The state in {path} can't be used: {reason}.", mend=mend)
    return StoreError(f"The state in {path} can't be used: {error}.")
