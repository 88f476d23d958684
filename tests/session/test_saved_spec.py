"""What is known of the sessions on this machine, and sessions that go on in another process."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from program import call, environment, replies

from nbagent import Session
from nbagent.core import session_log
from nbagent.core.errors import StoreError, UsageError
from nbagent.core.events import (
    Answered,
    CellFinished,
    CellStarted,
    Record,
    Renamed,
    SessionEnded,
    SessionResumed,
    StateLost,
)
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.core.session_log import SessionLog, read_log
from nbagent.notebook.record import Recording, record
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.machine import reaper
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session import startup
from nbagent.session.catalog import saved_spec, session_list

RUN = """
import asyncio, os, signal, sys
from nbagent import Session

async def main():
    session = Session(engine=sys.argv[1], session=sys.argv[2], state_dir=sys.argv[3], model=sys.argv[5] or None)
    await session.start()
    await session.run("x = 41")
    if sys.argv[5]:
        await session.ask("What is x?")
    running = asyncio.create_task(session.run(sys.argv[4])) if sys.argv[4] else None
    if running:
        while not session._started().recording.cells[-1].outputs:
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
DIE = "import os; os._exit(3)"
BUSY = "import time; print('begun', flush=True); time.sleep({seconds}); y = 5"


async def killed(engine: str, root: Path, *, busy: str = "", model: str = "") -> str:
    """A session whose process was killed with SIGKILL; returns its id."""
    name = f"killed-{time.monotonic_ns()}"
    arguments = [engine, name, str(root), busy, model]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", RUN, *arguments, env=environment())
    assert await process.wait() == -9
    return name


# -- going on -------------------------------------------------------------------------------------------------------


async def test_variables_are_kept_when_the_process_was_killed(engine: Engine, tmp_path: Path) -> None:
    """The kernel is taken over as it was; cells are counted on, and the notebook has those from before."""
    name = await killed(engine.name, tmp_path)
    async with await Session.connect(name, state_dir=tmp_path) as session:
        cell = await session.run("print(x + 1)")
        assert (cell.text, cell.cell, cell.execution_count) == ("42", 2, 2)
        resumed = [each.event for each in read_log(session.folder) if isinstance(each.event, SessionResumed)]
        assert [each.kept for each in resumed] == [True]
        assert session.news[0].event == resumed[0]
        notebook = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
    assert [each.source for each in notebook.cells if each.cell_type == "code"][-2:] == ["x = 41", "print(x + 1)"]


async def test_a_cell_that_still_runs_goes_on_to_its_end(engine: Engine, tmp_path: Path) -> None:
    """What it did is there; what it printed meanwhile is not, and the log says so."""
    name = await killed(engine.name, tmp_path, busy=BUSY.format(seconds=3))
    async with await Session.connect(name, state_dir=tmp_path) as session:
        assert (await session.run("print(y)")).text == "5"
        left = record(read_log(session.folder)).cells[1]
    assert (left.status, left.outputs[0]["text"]) == ("interrupted", "begun\n")
    assert left.note == startup.OWNER_GONE_NOTE


async def test_a_cell_that_runs_too_long_is_interrupted(tmp_path: Path) -> None:
    """Who takes over waits as long as the cell's own limit had let it run, and no longer."""
    name = await killed("bubblewrap", tmp_path, busy=BUSY.format(seconds=1000))
    known = session_list.info_of(tmp_path, name)
    spec = saved_spec.read_spec(known)
    saved_spec.write_spec(known.folder, SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, timeout=0.5), keep=spec.keep))
    async with await Session.connect(name, state_dir=tmp_path) as session:
        assert (await session.run("print(x, 'y' in globals())")).text == "41 False"
        assert "interrupted" in str(session.news[0].event)


async def test_what_is_lost_is_told(engine: Engine, tmp_path: Path) -> None:
    """Without its kernel the log is intact, a new kernel is there, and an event says what is gone."""
    name = await killed(engine.name, tmp_path)
    await asyncio.to_thread(reaper.sweep, waiting=True)
    async with await Session.connect(name, state_dir=tmp_path) as session:
        lost = session.news[-1].event
        assert isinstance(lost, StateLost)
        assert "Variables" in lost.reason
        cell = await session.run("'x' in globals()")
        assert (cell.text, cell.cell) == ("False", 2)
        assert [each.code for each in record(read_log(session.folder)).cells] == ["x = 41", "'x' in globals()"]


async def test_a_long_log_is_read_once_and_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who resumes a session holds up nobody who shares its loop: nearly all of the log is read in threads."""
    async with Session(engine="bubblewrap", state_dir=tmp_path) as session:
        await session.run("1")
    write_log(tmp_path, session.id, *(Renamed(title=f"Title {number}") for number in range(1000)))
    read_in: Counter[bool] = Counter()
    whole = session_log.Tail.new

    def new(self: session_log.Tail, *, since: int = 0) -> Iterator[Record]:
        for each in whole(self, since=since):
            read_in[threading.current_thread() is threading.main_thread()] += 1
            yield each

    monkeypatch.setattr(session_log.Tail, "new", new)
    async with await Session.connect(session.id, state_dir=tmp_path) as again:
        assert 1000 < read_in[False] < 1100
        assert read_in[True] < 100
        assert (await again.run("2")).cell == 2


async def test_who_gives_up_a_detach_has_let_go_or_has_the_session(tmp_path: Path) -> None:
    """While a cell runs nothing is let go of; later all of it is, and the log doesn't say that the session ended."""
    session = Session(engine="bubblewrap", state_dir=tmp_path)
    await session.start()
    kernel = session._started().kernel
    running = asyncio.create_task(session.run("import time; print('on', flush=True); time.sleep(1); x = 41"))
    while not session._started().recording.cells or not session._started().recording.cells[-1].outputs:
        await asyncio.sleep(0.01)
    early = asyncio.create_task(session.detach())
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.wait([early])
    assert (early.cancelled(), session.is_running, (await running).status) == (True, True, "ok")
    late = asyncio.create_task(session.detach())
    while kernel.is_alive:
        await asyncio.sleep(0)
    late.cancel()
    await asyncio.wait([late])
    assert (late.cancelled(), session.status) == (True, "stopped")
    assert not any(isinstance(each.event, SessionEnded) for each in read_log(tmp_path / "sessions" / session.id))
    assert session_list.info_of(tmp_path, session.id).state == "waiting"
    async with await Session.connect(session.id, state_dir=tmp_path) as again:
        assert (await again.run("x")).text == "41"


async def test_stop_ends_what_was_taken_over(
    engine: Engine, tmp_path: Path, leftovers: Callable[[], list[str]]
) -> None:
    """Nothing of a sandbox is left after `stop`, whoever started it."""
    before = set(leftovers())
    session = await Session.connect(await killed(engine.name, tmp_path), state_dir=tmp_path)
    await session.stop()
    assert set(leftovers()) <= before


async def test_a_session_is_left_and_gone_on_with(engine: Engine, tmp_path: Path) -> None:
    """`detach` leaves the kernel to whoever comes next, also in this process; one that dies there is replaced."""
    session = Session(engine=engine.name, state_dir=tmp_path)
    await session.start()
    await session.run("x = 1")
    await session.detach()
    assert session_list.info_of(tmp_path, session.id).state == "waiting"
    async with await Session.connect(session.id[:-1], state_dir=tmp_path) as again:
        assert again.id == session.id
        assert (await again.run("print(x)")).text == "1"
        assert (await again.run("import os; os._exit(3)")).status == "died"
        assert (await again.run("print('x' in globals())")).text == "False"
    assert session_list.info_of(tmp_path, session.id).state == "ended"


async def test_cells_from_before_are_run_again_after_a_later_loss(engine: Engine, tmp_path: Path) -> None:
    """With `restore="replay"` a kernel that was taken over is made of what succeeded in it, whoever ran that."""
    session = Session(engine=engine.name, restore="replay", state_dir=tmp_path)
    await session.start()
    for code in ("gone = 1", "kept = [1]", "kept.append(2); 1 / 0"):
        await session.run(code)
    assert (await session.run(DIE)).restored.startswith("Cells 1 and 2 succeeded before and were run again")
    await session.run("kept.append(3)")
    await session.detach()
    async with await Session.connect(session.id, restore="replay", state_dir=tmp_path) as again:
        await again.run("kept.append(4)")
        assert (await again.run(DIE)).restored.startswith("Cells 1, 2, 5 and 6 succeeded before and were run again")
        assert (await again.run("print(kept, gone)")).text == "[1, 3, 4] 1"


async def test_only_the_present_kernel_is_brought_back(tmp_path: Path) -> None:
    """What an earlier kernel knew was lost before the take-over, and a later loss doesn't bring it back."""
    session = Session(engine="bubblewrap", state_dir=tmp_path)
    await session.start()
    for code in ("x = 1", DIE, "y = 2"):
        await session.run(code)
    await session.detach()
    async with await Session.connect(session.id, restore="replay", state_dir=tmp_path) as again:
        assert (await again.run("print(y)")).text == "2"
        assert (await again.run(DIE)).restored.startswith("Cells 3 and 4 succeeded before")
        assert (await again.run("print(y, 'x' in globals())")).text == "2 False"


async def test_without_the_option_nothing_comes_back(tmp_path: Path) -> None:
    """Who takes a session over says anew whether cells are to be run again; an unknown way is named at once."""
    session = Session(engine="bubblewrap", restore="replay", state_dir=tmp_path)
    await session.start()
    await session.run("x = 1")
    await session.detach()
    with pytest.raises(UsageError, match="restore can't be 'rewind'"):
        Session.resumed(session.id, restore="rewind", state_dir=tmp_path)  # type: ignore[arg-type]
    async with await Session.connect(session.id, state_dir=tmp_path) as again:
        assert (await again.run(DIE)).restored == ""
        assert (await again.run("print('x' in globals())")).text == "False"


async def test_the_model_knows_what_was_said_before(tmp_path: Path) -> None:
    """Questions and answers of the first process stand before the next question, with what became of the kernel."""
    model = replies(tmp_path / "r.jsonl", call("x"), "It is 41.")
    name = await killed("bubblewrap", tmp_path, model=model)
    more = replies(tmp_path / "more.jsonl", "Still 41.")
    async with await Session.connect(name, model=more, state_dir=tmp_path) as session:
        answer = await session.ask("And now?")
        assert (answer.text, answer.turn) == ("Still 41.", 2)
        assert session._started().conversation is not None
        agent = session._started().conversation._agent
        assert agent is not None
        assert [each.text for each in agent.history[:1]] == ["What is x?"]
        assert "taken over" in agent.history[1].text


async def test_a_session_that_somebody_has_is_refused(tmp_path: Path) -> None:
    """Two processes never have one session; the one that has it goes on undisturbed."""
    async with Session(engine="bubblewrap", state_dir=tmp_path) as session:
        with pytest.raises(StoreError, match="in use"):
            await Session.connect(session.id, state_dir=tmp_path)
        assert (await session.run("1 + 1")).text == "2"


# -- what is kept -------------------------------------------------------------------------------------------------


def write_log(root: Path, name: str, *events: Any) -> None:
    """A session's log with these events."""
    log = SessionLog(root, name)
    for each in events:
        log.emit(each)
    log.close()


def test_what_a_sandbox_was_is_kept(tmp_path: Path) -> None:
    """All of it comes back as it was; what isn't there is a sentence."""
    trust = trust_for(TrustLevel.SANDBOXED, security={"allowed_hosts": ["example.org:8443"]}, memory_mb=300)
    spec = SandboxSpec(trust=trust, data=(Mount(Path("/a/ü.csv"), "/tmp/data/ü.csv"),), keep=600, owner="one")
    write_log(tmp_path, "one", CellStarted(cell=1, turn=0, code=""))
    known = session_list.info_of(tmp_path, "one")
    with pytest.raises(UsageError, match="can't be resumed"):
        saved_spec.read_spec(known)
    saved_spec.write_spec(known.folder, spec)
    assert saved_spec.read_spec(known) == spec


def test_loose_ends_are_tied() -> None:
    """A cell and a question that were open get their end, those that were not get none."""
    recording = Recording()
    assert startup.open_ends(recording) == []
    cut = [b'{"seq":1,"at":1,"event":{"type":"Asked","turn":1,"question":"?"}}']
    cut.append(b'{"seq":2,"at":1,"event":{"type":"CellStarted","cell":1,"turn":1,"code":"1"}}')
    for line in cut:
        recording.on_event(msgspec.json.decode(line, type=Record))
    cell, turn = startup.open_ends(recording)
    assert isinstance(cell, CellFinished)
    assert isinstance(turn, Answered)
    assert (cell.status, turn.success, turn.attempts) == ("interrupted", False, 2)
