"""One process owns a session and asks, another one watches, approves and asks too; the owner is killed, over and over.

`NBAGENT_TEST_OWNER_DEATHS=100` does it a hundred times; `make test` a few times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from program import call, replies

from nbagent import Session, attach
from nbagent.core.errors import OwnerGone, UsageError
from nbagent.core.events import (
    Answered,
    ApprovalAsked,
    Asked,
    CellFinished,
    CellStarted,
    Event,
    OutputAdded,
    Record,
    SessionResumed,
    StateLost,
)
from nbagent.core.session_log import read_log
from nbagent.observability.audit.verification import verify
from nbagent.sandbox.leases import lease
from nbagent.sandbox.machine import reaper
from nbagent.session.sharing.attach import Attached

DEATHS = int(os.environ.get("NBAGENT_TEST_OWNER_DEATHS", "16"))
SEED = int(os.environ.get("NBAGENT_TEST_SEED", "20261122"))
LONGEST = 1.0
"""How long an owner lives at most until somebody is attached, and again after that, as a multiple of a first start."""
KEEP = 0.2
"""Minutes that a kernel waits for another owner."""
COUNT = "n = globals().get('n', 0) + 1\nprint(f'n is {n}')"
OWNERS = """
import asyncio, json, os, signal, sys
import nbagent.agent.build, nbagent.agent.providers.replay
from nbagent import Session

async def own(name, state, model, is_new, asks):
    options = {"state_dir": state, "model": model, "approvals": "ask"}
    if is_new:
        session = Session(engine="bubblewrap", session=name, keep_minutes=float(sys.argv[1]), **options)
    else:
        session = Session.resumed(name, **options)
    await session.start()
    os.write(1, b"ready\\n")
    while asks:
        await session.ask("How far is it?")
        await session.run(sys.argv[2])
    await asyncio.Event().wait()

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    if not (child := os.fork()):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            asyncio.run(own(**json.loads(line)))
        finally:
            os._exit(1)
    os.write(1, b"%d\\n" % child)
"""


class Owners:
    """Processes that own the session, one after the other, forked from one that has imported all that they need."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = 0

    async def begin(self, **what: object) -> None:
        """Have another one take the session."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        while not (said := await self.said()).isdigit():
            pass
        self.pid = int(said)

    async def said(self) -> str:
        """The next line of theirs."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def kill(self) -> None:
        """Kill the present one, and wait until it is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            process.send_signal(signal.SIGKILL)
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def owners() -> AsyncIterator[Owners]:
    """None of them yet."""
    command = [sys.executable, "-c", OWNERS, str(KEEP), COUNT]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    found = Owners(process)
    yield found
    await found.kill()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


class Watcher:
    """Who is attached: sees all, approves what it is asked, asks too, and comes back after each death."""

    def __init__(self, session: Attached, chance: random.Random) -> None:
        self.session = session
        self.seen: list[Record] = []
        self.gone = 0
        self._chance = chance
        self._asking: asyncio.Task[None] | None = None
        session.follow(self._hear)

    def _hear(self, record: Record) -> None:
        self.seen.append(record)
        if isinstance(record.event, ApprovalAsked) and self._chance.random() < 0.9:
            self.session.approve(record.event.id, "approve" if self._chance.random() < 0.8 else "reject")

    async def come(self, *, asks: bool) -> None:
        """Attach as soon as the session is served; for ever, if it never is."""
        while True:
            try:
                await self.session.start()
                await self.session.attend()
                break
            except (UsageError, OwnerGone):  # nobody serves it yet, or whoever did was killed at once
                await asyncio.sleep(0.02)
        if asks:
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        try:
            while True:
                await self.session.ask("And how far now?")
                await self.session.run(COUNT)
        except OwnerGone:
            self.gone += 1

    async def told(self) -> None:
        """Learn that the owner is gone."""
        await self.session.closed()
        assert not self.session.is_running
        if self._asking is not None:
            await self._asking
            self._asking = None
        with pytest.raises(OwnerGone):
            await self.session.run("1")


async def test_whoever_watches_is_told_the_truth_and_goes_on(
    owners: Owners, tmp_path: Path, leftovers: Callable[[], list[str]]
) -> None:
    """After each death all that was logged was seen once, and another owner has the variables, or says what is lost."""
    chance = random.Random(SEED)  # noqa: S311 - it is to be the same again
    before = leftovers()
    turns = [each for _ in range(100) for each in (call(COUNT), call(COUNT), "Far.")]
    session = {"name": "dies", "state": str(tmp_path), "model": replies(tmp_path / "replies.jsonl", *turns)}
    await owners.begin(**session, is_new=True, asks=True)
    started = time.monotonic()
    assert await owners.said() == "ready"
    longest = LONGEST * (time.monotonic() - started)
    watcher = Watcher(attach("dies", state_dir=tmp_path), chance)
    folder = watcher.session.folder
    for death in range(DEATHS):
        asks = chance.random() < 0.5 and death > 0  # the first owner asks itself, and only one question runs at a time
        if death:
            await owners.begin(**session, is_new=False, asks=not asks)
        coming = asyncio.create_task(watcher.come(asks=asks))
        await asyncio.wait([coming], timeout=chance.uniform(0, longest))
        await asyncio.sleep(chance.uniform(0, longest) if coming.done() else 0)
        await owners.kill()
        if watcher.session.is_running or coming.done():
            await watcher.told()
            assert watcher.seen == list(read_log(folder)), f"seed {SEED}, death {death}"
        coming.cancel()
        await asyncio.wait([coming])
    async with await Session.connect("dies", state_dir=tmp_path) as last:
        await last.run(COUNT)
        assert last.last > watcher.session.last
        events = check_log([*last.since()])
        assert {type(each) for each in events} >= {Asked, Answered, ApprovalAsked, SessionResumed}
        await last.detach()
    assert verify(folder / "audit.jsonl").whole
    await wait_for_the_end("dies")
    assert [each for each in leftovers() if each not in before] == []


def check_log(records: list[Record]) -> list[Event]:
    """Check that a log tells of everything once, of each beginning an end, and of each loss; returns the events."""
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    events = [each.event for each in records]
    cells = [each.cell for each in events if isinstance(each, CellStarted)]
    assert cells == list(range(1, len(cells) + 1))
    assert sorted(each.cell for each in events if isinstance(each, CellFinished)) == cells
    turns = [each.turn for each in events if isinstance(each, Asked)]
    assert turns == list(range(1, len(turns) + 1))
    assert sorted(each.turn for each in events if isinstance(each, Answered)) == turns
    counted, unseen = 0, 0
    for event in events:
        match event:
            case CellStarted():
                unseen += 1
            case OutputAdded(output={"text": str(text)}) if text.startswith("n is"):
                now = int(text.split()[-1])
                assert counted < now <= counted + unseen
                counted, unseen = now, 0
            case StateLost():
                counted = unseen = 0
    return events


async def wait_for_the_end(session: str) -> None:
    """Wait until each kernel that nobody takes over has ended by itself, and what it left is swept up.

    An owner may have been killed while it made its lease: that one is swept up a minute later, at once here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "STALE_NEW", 0.0)
        while lease.find(session) is not None:
            await asyncio.sleep(0.2)
            await asyncio.to_thread(reaper.sweep)
