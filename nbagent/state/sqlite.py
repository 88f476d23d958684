"""The default back end: one SQLite file, which any number of processes of one machine use at once.

    DIR/state.sqlite     checkpoints, store and events; in WAL mode, so that readers don't wait for a writer
    DIR/state.lock       held while the tables are made
    DIR/state.bell       touched after each event, so that inotify wakes other processes

SQLite belongs on a local disk: it can't be shared between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.base import BaseStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.core.fileio import cannot_write
from nbagent.state.bell import Bell
from nbagent.state.bus import BusEvent, event_of
from nbagent.state.guarded import PlainSerializer, Translate, end_batches, guard, store_errors

BUSY_SECONDS = 10.0
"""Seconds for which a write waits for other processes' writes."""
_TABLE = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created REAL NOT NULL,
    type TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT,
    task TEXT,
    payload TEXT NOT NULL
)
"""


async def open_parts(stack: AsyncExitStack, path: Path) -> tuple[BaseCheckpointSaver[Any], BaseStore, SqliteLog]:
    """The checkpointer, the store and the event log in a file, which is made if it is missing."""

    def translate(error: BaseException) -> StoreError | None:
        return sentence(path, error) if isinstance(error, sqlite3.Error) else None

    _make(path)
    with store_errors(translate):
        # One process at a time makes the tables: LangGraph's migrations take no heed of each other.
        async with fileio.locked(path.with_suffix(".lock")):
            saver = guard(AsyncSqliteSaver, translate)(await _connect(stack, path), serde=PlainSerializer())
            await saver.setup()
            store = guard(AsyncSqliteStore, translate)(await _connect(stack, path, isolation_level=None))
            stack.callback(end_batches, store)
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
    except asyncio.CancelledError:  # the connection's thread would go on for ever
        await (await opening).close()
        raise
    stack.push_async_callback(connection.close)
    # NORMAL keeps the file whole whatever happens; a machine that loses power may lose the last transactions.
    await connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
    return connection


def _make(path: Path) -> None:
    """Make an empty file that only this user can read; SQLite gives the files beside it the same permissions."""
    try:
        fileio.make_folder(path.parent)
        for each in (path, path.with_suffix(".bell")):
            os.close(os.open(each, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise cannot_write(path, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error


class SqliteLog:
    """An `EventLog` in a table. AUTOINCREMENT never gives a number twice, nor leaves one out.

    It has a connection of its own, in autocommit mode; the bell is touched after each event.
    """

    def __init__(self, connection: aiosqlite.Connection, *, bell: Path, translate: Translate) -> None:
        self._connection = connection
        self._path = bell
        self._bell = Bell(bell, look=self._version)
        self._translate = translate

    async def setup(self) -> None:
        """Make the table."""
        self._connection.row_factory = aiosqlite.Row
        await self._connection.execute(_TABLE)

    async def append(self, event: BusEvent, *, payload: str) -> int:
        with store_errors(self._translate):
            cursor = await self._connection.execute(
                "INSERT INTO events (created, type, source, target, task, payload) VALUES (?, ?, ?, ?, ?, ?)",
                (time.time(), event.type.value, event.source_agent, event.target_agent, event.task_id, payload),
            )
            number = cursor.lastrowid
            await cursor.close()
        with contextlib.suppress(FileNotFoundError):  # somebody cleared the folder, but the event is written
            os.utime(self._path)
        self._bell.ring()
        return int(number or 0)

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        with store_errors(self._translate):
            query = "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?"
            rows = await self._connection.execute_fetchall(query, (after, limit))
        return [event_of(dict(row)) for row in rows]

    async def last(self) -> int:
        with store_errors(self._translate):
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
            rows = list(await self._connection.execute_fetchall(query))
        return int(rows[0][0]) if rows else 0

    async def grown(self, seconds: float) -> None:
        await self._bell.wait(seconds)

    async def _version(self) -> object:
        """A number that counts the commits of other connections; SQLite keeps it in shared memory."""
        with store_errors(self._translate):
            return next(iter(await self._connection.execute_fetchall("PRAGMA data_version")))[0]

    async def trim(self, *, keep: int, before: float) -> None:
        most = await self.last() - keep
        with store_errors(self._translate):
            query = "DELETE FROM events WHERE id <= max(?, (SELECT coalesce(max(id), 0) FROM events WHERE created < ?))"
            cursor = await self._connection.execute(query, (most, before))
            await cursor.close()

    def close(self) -> None:
        """Stop listening."""
        self._bell.close()


def sentence(path: Path, error: sqlite3.Error) -> StoreError:
    """The error that says what happened to the file."""
    name = getattr(error, "sqlite_errorname", None) or ""
    reasons = {
        "SQLITE_FULL": ("the disk is full", "Make room."),
        "SQLITE_IOERR": (f"the disk is full or fails ({name})", "Make room, or look at the disk."),
        "SQLITE_CORRUPT": ("it is damaged", "Move it away; nbagent makes a new one."),
        "SQLITE_NOTADB": ("it is no SQLite database", "Move it away; nbagent makes a new one."),
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
