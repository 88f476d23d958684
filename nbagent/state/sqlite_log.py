"""The event log in SQLite, and the bell that tells other processes of a new event.

Nobody polls: a publisher touches the bell after its transaction, and inotify wakes whoever follows. Where the machine
has no inotify instance left, the log is looked at every `POLL_SECONDS`, by a pragma that reads one number in shared
memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import aiosqlite
import inotify_simple

from nbagent.state.bus import BusEvent, event_of
from nbagent.state.guard import Translate, told
from nbagent.state.scopes import from_json

POLL_SECONDS = 0.05

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
        connection: The log's own, in autocommit mode.
        bell: A file beside the database.
        translate: See `guard`.
    """

    def __init__(self, connection: aiosqlite.Connection, *, bell: Path, translate: Translate) -> None:
        self._connection = connection
        self._bell = bell
        self._translate = translate
        self._watch: inotify_simple.INotify | None = None
        self._rung = asyncio.Event()
        self._version = -1

    async def setup(self) -> None:
        """Make the table."""
        self._connection.row_factory = aiosqlite.Row
        await self._connection.execute(_TABLE)

    async def append(self, event: BusEvent, *, payload: str) -> int:
        """See `EventLog`."""
        with told(self._translate):
            cursor = await self._connection.execute(
                "INSERT INTO events (created, type, source, target, task, payload) VALUES (?, ?, ?, ?, ?, ?)",
                (time.time(), event.type.value, event.source_agent, event.target_agent, event.task_id, payload),
            )
            number = cursor.lastrowid
            await cursor.close()
        with contextlib.suppress(FileNotFoundError):  # somebody cleared the folder; the event is written all the same
            os.utime(self._bell)
        self._rung.set()
        return int(number or 0)

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        """See `EventLog`."""
        with told(self._translate):
            query = "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?"
            rows = await self._connection.execute_fetchall(query, (after, limit))
        return [event_of(dict(row), from_json(row["payload"], what="An event")) for row in rows]

    async def last(self) -> int:
        """See `EventLog`."""
        with told(self._translate):
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
            rows = list(await self._connection.execute_fetchall(query))
        return int(rows[0][0]) if rows else 0

    async def grown(self, seconds: float) -> None:
        """See `EventLog`."""
        if self._watch is None:
            if not self._listen():
                await self._poll(seconds)
            return  # what was told before it listened
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()

    def _listen(self) -> bool:
        try:
            self._watch = inotify_simple.INotify(nonblocking=True)
            self._watch.add_watch(self._bell, inotify_simple.flags.ATTRIB)
        except OSError:  # each user has a bounded number of them
            self.close()
            return False
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._hear)
        return True

    def _hear(self) -> None:
        assert self._watch is not None  # noqa: S101 - for the type checker
        list(self._watch.read(timeout=0))
        self._rung.set()

    async def _poll(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with told(self._translate):
                rows = list(await self._connection.execute_fetchall("PRAGMA data_version"))
            # It counts the commits of other connections; those of this one have rung already.
            if rows[0][0] != self._version or self._rung.is_set():
                self._version = rows[0][0]
                self._rung.clear()
                return
            await asyncio.sleep(POLL_SECONDS)

    async def trim(self, *, keep: int, before: float) -> None:
        """See `EventLog`."""
        most = await self.last() - keep
        with told(self._translate):
            query = "DELETE FROM events WHERE id <= max(?, (SELECT coalesce(max(id), 0) FROM events WHERE created < ?))"
            cursor = await self._connection.execute(query, (most, before))
            await cursor.close()

    def close(self) -> None:
        """Stop listening."""
        if self._watch is not None:
            if not self._watch.closed:
                asyncio.get_running_loop().remove_reader(self._watch.fileno())
                self._watch.close()
            self._watch = None
