"""Work in threads whose caller may be cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nbagent.core.concurrency import to_the_end


async def test_however_often_it_is_cancelled_what_was_made_is_there() -> None:
    """Who is to remove it would find nothing, if it went on before the thread had ended."""
    may_end, made = threading.Event(), []

    def work() -> None:
        may_end.wait()
        made.append("it")

    task = asyncio.create_task(to_the_end(work))
    for _ in range(3):
        await asyncio.sleep(0.02)
        task.cancel()
    await asyncio.sleep(0.02)
    was_done = task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (was_done, made) == (False, ["it"])
