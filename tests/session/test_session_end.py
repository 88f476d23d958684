"""The end of a session: it has one, however it comes, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import call, replies

from nbagent import Session
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import (
    CellStarted,
    SessionEnded,
)
from nbagent.core.session_log import SessionLog, read_log

ENGINE = "bubblewrap"


async def ended_well(session: Session, folder: Path, reason: str, more: Callable[[], list[str]]) -> None:
    """Check that a session's end stands in its log, once, as its last word, and that nothing of its sandbox is left."""
    await asyncio.wait_for(session.closed(), 60)
    told = [each.event for each in read_log(folder)]
    assert [each for each in told if isinstance(each, SessionEnded)] == [told[-1]] == [SessionEnded(reason=reason)]
    assert more() == []


async def test_all_who_stop_a_session_wait_for_its_one_end(more: Callable[[], list[str]]) -> None:
    """Nobody gets past the first one, whose reason stands in the log, also when that one is cancelled halfway."""
    session = Session(engine=ENGINE)
    await session.start()
    folder = session.folder
    first = asyncio.create_task(session.stop("It was enough."))
    await asyncio.sleep(0)
    second = asyncio.create_task(session.stop("Me too."))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    await ended_well(session, folder, "It was enough.", more)


async def test_a_stop_that_is_cancelled_goes_on(more: Callable[[], list[str]]) -> None:
    """Though nobody waits for it any more."""
    session = Session(engine=ENGINE)
    await session.start()
    folder = session.folder
    stopping = asyncio.create_task(session.stop("It was enough."))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await ended_well(session, folder, "It was enough.", more)


async def test_an_owner_whose_question_is_stopped_with_the_session(
    tmp_path: Path, leftovers: Callable[[], list[str]], more: Callable[[], list[str]]
) -> None:
    """The owner leaves by the cancellation, and its own stop and the other one's wait for the same end."""
    model = replies(tmp_path / "r.jsonl", call("import time\ntime.sleep(60)"))
    session, before = Session(model=model, engine=ENGINE), leftovers()

    async def own() -> None:
        async with session:
            await session.ask("Wait")

    owning = asyncio.create_task(own())
    while not (session.is_running and any(isinstance(each.event, CellStarted) for each in session.since())):
        await asyncio.sleep(0.05)
    folder = session.folder
    stopping = asyncio.create_task(session.stop("Somebody else wanted it."))
    await asyncio.wait([owning, stopping], return_when=asyncio.FIRST_COMPLETED)
    assert [each for each in leftovers() if each not in before] == []
    with pytest.raises(asyncio.CancelledError):
        await owning
    await stopping
    await ended_well(session, folder, "Somebody else wanted it.", more)


async def test_a_turn_that_stops_its_own_session_goes_on(tmp_path: Path, more: Callable[[], list[str]]) -> None:
    """It waits for the end, which neither cancels it nor waits for it."""
    async with Session(model=replies(tmp_path / "r.jsonl", "Done."), engine=ENGINE) as session:
        conversation, folder = session._ready(session._started().conversation), session.folder
        went_on: list[Session] = []

        async def stop(*_: object) -> Any:
            await session.stop("The turn wanted it.")
            await asyncio.sleep(0.01)
            went_on.append(session)
            raise UsageError("That was all.")

        conversation._open_agent = stop
        with pytest.raises(UsageError, match="That was all"):
            await session.ask("Stop yourself")
        assert went_on == [session]
    await ended_well(session, folder, "The turn wanted it.", more)


async def test_what_cannot_be_closed_keeps_nothing_else_open(more: Callable[[], list[str]]) -> None:
    """The error is told, once the sandbox has ended and the log can be opened by somebody else."""

    class Stuck:
        async def close(self) -> None:
            raise RuntimeError("It can't be closed.")

    session = Session(engine=ENGINE)
    await session.start()
    work, folder = session._started(), session.folder
    work.tools = work._state = Stuck()  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="can't be closed"):
        await session.stop("It was enough.")
    await ended_well(session, folder, "It was enough.", more)
    SessionLog(folder.parent.parent, session.id).close()


async def test_a_start_that_is_cancelled_at_the_server_leaves_nothing(more: Callable[[], list[str]]) -> None:
    """All else runs by then, and is ended."""
    session = Session(engine=ENGINE)
    starting = asyncio.create_task(session.start())
    while not session.is_running:
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert (session.status, session.server is not None and session.server.is_open) == ("stopped", False)
    assert more() == []


async def test_a_session_that_is_stopped_while_it_starts(more: Callable[[], list[str]]) -> None:
    """It does not run afterwards, whatever the start had come to."""
    for seconds in (0, 0.005, 0.25):
        session = Session(engine=ENGINE)
        starting = asyncio.create_task(session.start())
        await asyncio.sleep(seconds)
        await session.stop()
        with pytest.raises(NbagentError):
            await starting
        assert session.status == "stopped"
    assert more() == []
