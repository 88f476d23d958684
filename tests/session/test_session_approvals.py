"""Approvals of a whole session, with a real kernel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from program import call, replies

from nbagent import Session
from nbagent.core.events import ApprovalAsked, ApprovalGiven, ApprovalsSet, InstallFailed, PackagesInstalled
from nbagent.core.session_log import read_log
from nbagent.safety.approvals import Mode

LATER = (
    "import threading\n"
    "pip = get_ipython().find_line_magic('pip')\n"
    "threading.Timer(1, pip, ['install humanize']).start()"
)


async def test_code_that_is_left_behind_installs_nothing(tmp_path: Path) -> None:
    """A thread of the model's asks when its turn is over: that is asked about; a person's own install is not."""
    model = replies(tmp_path / "r.jsonl", call(LATER), "Done.")
    session = Session(
        model=model, engine="bubblewrap", approvals="ask", allow=["cell", "shell"], state_dir=tmp_path / "state"
    )
    events: list[Any] = []
    refused = asyncio.Event()

    def hear(record: Any) -> None:
        events.append(record.event)
        if isinstance(record.event, InstallFailed):
            refused.set()

    async with session:
        session.follow(hear)
        await session.ask("Go")
        await asyncio.wait_for(refused.wait(), 20)
        assert [(each.what.partition("==")[0], each.turn) for each in _of(events, ApprovalAsked)] == [("humanize", 1)]
        assert [each.by for each in _of(events, ApprovalGiven)] == ["policy:unattended"]
        await session.install(["humanize"])
        assert len(_of(events, ApprovalAsked)) == 1
        assert len(_of(events, PackagesInstalled)) == 1


async def test_the_end_of_a_turn_ends_its_questions(tmp_path: Path) -> None:
    """Also one of `%pip install`, for which the cell waits: a late answer installs nothing."""
    model = replies(tmp_path / "r.jsonl", call("%pip install humanize"), "Done.")
    session = Session(
        model=model, engine="bubblewrap", approvals="auto-edit", attended=True, state_dir=tmp_path / "state"
    )
    events: list[Any] = []
    waiting = asyncio.Event()

    def hear(record: Any) -> None:
        events.append(record.event)
        if isinstance(record.event, ApprovalAsked):
            waiting.set()

    async with session:
        session.follow(hear)
        asking = asyncio.create_task(session.ask("Go"))
        await asyncio.wait_for(waiting.wait(), 20)
        session.interrupt()
        await asyncio.wait([asking])
        assert [each.by for each in _of(events, ApprovalGiven)] == ["policy:stopped"]
        assert not session.approve("a1")
    assert _of(events, PackagesInstalled) == []


async def test_a_session_that_is_gone_on_with(tmp_path: Path) -> None:
    """Asks about what it asked before, under an id of its own, unless a person says otherwise."""
    model, state = replies(tmp_path / "r.jsonl", call("1"), "Not done."), tmp_path / "state"
    async with Session(model=model, engine="bubblewrap", approvals="auto-edit", state_dir=state) as first:
        first.consent.mode = Mode.ASK
        await first.ask("Go")
    async with Session.resumed(first.id, model=model, state_dir=state) as second:
        assert second.consent.mode is Mode.ASK
        await second.ask("Go on")
        events = [record.event for record in read_log(second.folder)]
    assert [each.id for each in _of(events, ApprovalAsked)] == ["a1", "a2"]
    assert [each.mode for each in _of(events, ApprovalsSet)] == ["auto-edit", "ask"]
    async with Session.resumed(first.id, model=model, approvals="never-ask", state_dir=state) as third:
        assert third.consent.mode is Mode.NEVER_ASK


def _of(events: list[Any], kind: type[Any]) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]
