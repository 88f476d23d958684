"""The records of a log from a number on, and then those that come."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from nbagent.core.events import CellStarted, Record
from nbagent.core.session_log import SessionLog
from nbagent.session.stream import RECORDS_AT_ONCE, follow_since


async def test_a_long_log_is_given_to_a_reader_while_the_event_loop_goes_on(tmp_path: Path) -> None:
    with contextlib.closing(SessionLog(tmp_path, "s")) as log:
        for number in range(3 * RECORDS_AT_ONCE):
            log.emit(CellStarted(cell=number, turn=0, code="1"))
        turns, seen = 0, list[tuple[Record, int]]()

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                if turns == 2:  # meanwhile the session goes on
                    log.emit(CellStarted(cell=0, turn=0, code="2"))
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        unfollow = await follow_since(
            lambda record: seen.append((record, turns)), 10, folder=log.folder, follow=log.follow
        )
        counting.cancel()
        log.emit(CellStarted(cell=0, turn=0, code="3"))
        assert [record.seq for record, _ in seen] == list(range(11, log.last + 1))
        assert seen[-1][1] - seen[0][1] >= 2
        unfollow()
        log.emit(CellStarted(cell=0, turn=0, code="4"))
        assert len(seen) == log.last - 11
