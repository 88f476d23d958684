"""The event log in SQLite. A publisher rings a `Bell` after its transaction, which wakes other processes."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import aiosqlite

from nbagent.state.bell import Bell
from nbagent.state.bus import BusEvent, event_of
from nbagent.state.guarded import Translate, store_errors

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


class SqliteLog:
    """An `EventLog` in a table. AUTOINCREMENT never gives a number twice, nor leaves one out.

    Args:
        connection: A connection of its own, in autocommit mode.
        bell: The file beside the database that is touched after each event.
        translate: Makes a `StoreError` of an exception of SQLite's.
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
        """See `EventLog`."""
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
        """See `EventLog`."""
        with store_errors(self._translate):
            query = "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?"
            rows = await self._connection.execute_fetchall(query, (after, limit))
        return [event_of(dict(row)) for row in rows]

    async def last(self) -> int:
        """See `EventLog`."""
        with store_errors(self._translate):
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
            rows = list(await self._connection.execute_fetchall(query))
        return int(rows[0][0]) if rows else 0

    async def grown(self, seconds: float) -> None:
        """See `EventLog`."""
        await self._bell.wait(seconds)

    async def _version(self) -> object:
        """A number that counts the commits of other connections; SQLite keeps it in shared memory."""
        with store_errors(self._translate):
            return next(iter(await self._connection.execute_fetchall("PRAGMA data_version")))[0]

    async def trim(self, *, keep: int, before: float) -> None:
        """See `EventLog`."""
        most = await self.last() - keep
        with store_errors(self._translate):
            query = "DELETE FROM events WHERE id <= max(?, (SELECT coalesce(max(id), 0) FROM events WHERE created < ?))"
            cursor = await self._connection.execute(query, (most, before))
            await cursor.close()

    def close(self) -> None:
        """Stop listening."""
        self._bell.close()
