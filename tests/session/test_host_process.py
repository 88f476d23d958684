"""A process that owns a session without a face."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from nbagent import Session, attach, host
from nbagent.core.errors import ModelError, NbagentError, SandboxError, UsageError
from nbagent.core.events import SessionEnded
from nbagent.core.session_log import read_log
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.machine import reaper
from nbagent.session import host_process
from nbagent.session.catalog import session_list

STARTER = """
import asyncio, os, signal, sys
from nbagent import host

async def main():
    session = await host(engine="bubblewrap", state_dir=sys.argv[1], install_deny=["a-secret"], keep_minutes=5)
    await session.run("x = 41")
    print(session.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
pytestmark = pytest.mark.asyncio(loop_scope="module")


def process_of(session: str) -> psutil.Process:
    """The host of a session, as its lease names it."""
    folder = leases.find(session, prefix=leases.HOST)
    assert folder is not None
    terms = leases.read_terms(folder)
    assert terms is not None
    return psutil.Process(terms.parts["pid"])


async def ended(process: psutil.Process) -> None:
    """Wait until a process is gone."""
    end = time.monotonic() + 60
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def orphan(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, Path, int]]:
    """A hosted session whose starter was killed: its id, the state folder, and what the starter's process was."""
    state = tmp_path_factory.mktemp("state")
    command = [sys.executable, "-W", "error", "-c", STARTER, str(state)]
    environment = {**os.environ, "OPENAI_API_KEY": "sk-of-the-starter"}
    starter = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert starter.stdout is not None
    name = (await starter.stdout.readline()).decode().strip()
    assert await starter.wait() == -signal.SIGKILL
    yield name, state, starter.pid
    async with attach(name, state_dir=state) as session:
        process = process_of(name)
        await session.stop()
    await ended(process)


async def test_a_session_outlives_its_starter(orphan: tuple[str, Path, int]) -> None:
    """Its variables are there for whoever comes; the list says that it runs."""
    name, state, _ = orphan
    async with attach(name, state_dir=state) as session:
        assert (await session.run("print(x + 1)")).text == "42"
    assert [(each.id, each.state) for each in session_list.listed(state)] == [(name, "running")]


async def test_a_host_belongs_to_nobodys_terminal(orphan: tuple[str, Path, int]) -> None:
    """A session of the system's own, no terminal, nobody's child that started it; what it prints is in the folder."""
    name, state, starter = orphan
    process = process_of(name)
    assert os.getsid(process.pid) not in (os.getsid(0), process.pid, starter)
    assert (process.terminal(), process.ppid()) != (psutil.Process().terminal(), starter)
    opened = {each: os.readlink(f"/proc/{process.pid}/fd/{each}") for each in range(3)}  # noqa: PTH115
    log = str(state / "sessions" / name / host_process.HOST_LOG_FILE)
    assert opened == {0: "/dev/null", 1: log, 2: log}


async def test_what_it_is_to_be_is_told_to_nobody_else(orphan: tuple[str, Path, int]) -> None:
    """Options stand in no argument and no variable; keys of models come with the environment, as to the starter."""
    process = process_of(orphan[0])
    assert "a-secret" not in f"{process.cmdline()}{process.environ()}"
    assert process.environ()["OPENAI_API_KEY"] == "sk-of-the-starter"


async def test_who_asks_for_a_host_of_a_running_session_gets_the_one_it_has(orphan: tuple[str, Path, int]) -> None:
    """By enough of its name."""
    name, state, _ = orphan
    before = process_of(name).pid
    async with await host(name[:-1], state_dir=state) as session:
        assert (session.id, process_of(name).pid) == (name, before)


async def test_two_who_go_on_with_one_session_share_its_host(tmp_path: Path) -> None:
    """Both start one, one of them gets the session, and the other one attaches; a later host takes the kernel over."""
    first = await host(engine="bubblewrap", state_dir=tmp_path, keep_minutes=5)
    await first.run("x = 5")
    process = process_of(first.id)
    process.kill()
    await ended(process)
    await first.closed()
    with pytest.raises(NbagentError, match="isn't there"):
        await first.run("1")
    one, two = await asyncio.gather(*(host(first.id, state_dir=tmp_path) for _ in range(2)))
    assert (await one.run("x")).text == (await two.run("x")).text == "5"
    process = process_of(first.id)
    await two.detach()
    await one.stop()
    await ended(process)
    assert [each.kind for each in await asyncio.to_thread(reaper.sweep)] in ([], ["host"])


async def test_a_host_ends_by_itself(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """Some time after the last face has left and the last work has ended; the log says why, and nothing is left.

    Its folder may lie deep: a socket's address has 107 bytes, a path has more.
    """
    before = leftovers()
    state = tmp_path / ("long" * 40) / ("folder" * 30)
    session = await host(engine="bubblewrap", state_dir=state, keep_minutes=0.02)
    process = process_of(session.id)
    running = asyncio.create_task(session.run("import time; time.sleep(4)"))
    await asyncio.sleep(0.5)
    running_since = time.monotonic()
    assert session._owner._writer is not None
    session._owner._writer.close()  # without a word, as who is killed
    with pytest.raises(NbagentError):
        await running
    await ended(process)
    assert time.monotonic() - running_since > 3
    last = [each.event for each in session.since()][-1]
    assert last == SessionEnded(reason="Nobody was attached for 0.02 minutes.")
    assert [each for each in leftovers() if each not in before] == []


async def test_two_faces_stop_one_session(tmp_path: Path) -> None:
    """Its end stands in the log whoever was first, and its process ends."""
    one = await host(engine="bubblewrap", state_dir=tmp_path, keep_minutes=5)
    process = process_of(one.id)
    two = attach(one.id, state_dir=tmp_path)
    await two.start()
    await asyncio.gather(one.stop("The first one."), two.stop("The second one."))
    await ended(process)
    last = [each.event for each in read_log(tmp_path / "sessions" / one.id)][-1]
    assert isinstance(last, SessionEnded)
    await asyncio.gather(one.detach(), two.detach())


async def test_a_host_waits_for_an_end_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than it is until its next look: it would cancel what ends the session otherwise."""
    monkeypatch.setattr(host_process, "LOOK_SECONDS", 0.01)
    session, last_word = Session(engine="bubblewrap", state_dir=tmp_path), asyncio.Event()

    class Slow:
        async def close(self) -> None:
            await last_word.wait()

    await session.start()
    session._started().tools = Slow()  # type: ignore[assignment]
    staying, stopping = asyncio.create_task(host_process._stay(session)), asyncio.create_task(session.stop("Enough."))
    await asyncio.sleep(0.1)
    assert not staying.done()
    last_word.set()
    await staying
    last = [each.event for each in read_log(tmp_path / "sessions" / session.id)][-1]
    assert last == SessionEnded(reason="Enough.")
    await stopping


async def test_what_is_wrong_comes_back_to_who_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the error that the session itself raises; nothing is left that looks like a session.

    What lies in the current folder is not run: a cloned repository may have modules of the names that a host imports.
    """
    for name in ("msgspec", "asyncio", "nbagent"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="no provider 'nonsense'"):
        await host(engine="bubblewrap", model="nonsense:x", state_dir=tmp_path)
    with pytest.raises(UsageError, match="no session 'never'"):
        await host("never", state_dir=tmp_path)
    with pytest.raises(UsageError, match="can't be called"):
        await host(new="../up", engine="bubblewrap", state_dir=tmp_path)
    assert session_list.listed(tmp_path) == []
    assert not (tmp_path / "up").exists()
    assert not (tmp_path / "ran").exists()


async def test_a_new_session_takes_nobodys_name(tmp_path: Path) -> None:
    """Neither by a process of its own nor in this one: the old log has no second beginning."""
    async with Session(engine="bubblewrap", mcp=False, state_dir=tmp_path, session="one") as first:
        log = first.folder / "log.jsonl"
    was = log.read_bytes()
    with pytest.raises(UsageError, match=r"a session one already.*choose another id"):
        await host(new="one", engine="bubblewrap", state_dir=tmp_path)
    with pytest.raises(UsageError, match=r"a session one already.*choose another id"):
        await Session(engine="bubblewrap", mcp=False, state_dir=tmp_path, session="one").start()
    assert log.read_bytes() == was
    async with await Session.connect("one", state_dir=tmp_path) as session:
        assert session.id == "one"


async def test_a_host_that_is_killed_at_its_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and the next start works."""
    was = host_process._REPORT.decode

    def kill(line: bytes) -> object:
        os.kill(was(line).pid, signal.SIGKILL)
        return was(line)

    class Killing:
        decode = staticmethod(kill)

    monkeypatch.setattr(host_process, "_REPORT", Killing)
    with pytest.raises(SandboxError, match="killed at its start"):
        await host(new="one", engine="bubblewrap", state_dir=tmp_path)
    monkeypatch.undo()
    async with await host(new="one", engine="bubblewrap", state_dir=tmp_path) as session:
        process = process_of("one")
        await session.stop()
    await ended(process)
    await asyncio.to_thread(reaper.sweep)


def processes_with(variable: str) -> list[psutil.Process]:
    """The processes, this one apart, that have a variable in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and variable in process.environ():
                found.append(process)
    return found


@pytest.mark.parametrize("moment", ["at once", "a process is there", "it has begun"])
async def test_who_is_cancelled_leaves_no_host(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever that is: nobody would know of it, and it has the keys of who started it."""
    mark = f"MARK_{tmp_path.name}".replace("-", "_")
    monkeypatch.setenv(mark, "1")
    begun = asyncio.Event()
    loop, was = asyncio.get_running_loop(), host_process._REPORT.decode

    class Heard:
        @staticmethod
        def decode(line: bytes) -> object:
            loop.call_soon_threadsafe(begun.set)
            return was(line)

    monkeypatch.setattr(host_process, "_REPORT", Heard)
    starting = asyncio.create_task(host(new="one", engine="bubblewrap", state_dir=tmp_path))
    if moment == "it has begun":
        await begun.wait()
    elif moment == "a process is there":
        while not await asyncio.to_thread(processes_with, mark):
            await asyncio.sleep(0.01)
    else:
        while not (tmp_path / "sessions").exists():  # its thread is at work
            await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    for process in await asyncio.to_thread(processes_with, mark):
        await ended(process)
    assert await asyncio.to_thread(processes_with, mark) == []
    assert session_list.listed(tmp_path) == []


async def test_a_host_that_hangs_at_its_start_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is cancelled meanwhile gets on at once, and the host ends as soon as it can."""
    was, stopped, released = host_process._REPORT.decode, threading.Event(), threading.Event()
    pids: list[int] = []

    class Stopping:
        @staticmethod
        def decode(line: bytes) -> object:
            message = was(line)
            if not pids:
                os.kill(message.pid, signal.SIGSTOP)
                pids.append(message.pid)
                stopped.set()
            return message

    def release() -> None:
        released.set()
        os.kill(pids[0], signal.SIGCONT)

    monkeypatch.setattr(host_process, "_REPORT", Stopping)
    starting = asyncio.create_task(host(new="one", engine="bubblewrap", state_dir=tmp_path))
    await asyncio.to_thread(stopped.wait)
    await asyncio.sleep(0.2)
    process = psutil.Process(pids[0])
    timer = threading.Timer(30, release)
    timer.start()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    was_held = released.is_set()
    timer.cancel()
    process.send_signal(signal.SIGCONT)
    await ended(process)
    assert not was_held


async def test_its_log_is_bounded(tmp_path: Path) -> None:
    """Of a long one the end is kept, and writing goes on behind it."""
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as file:
        file.write(b"x" * host_process.MAX_LOG_BYTES + b"the end")
        host_process._bound(log)
        file.write(b"!")
    assert log.stat().st_size == host_process.KEPT_LOG_BYTES + 1
    assert log.read_bytes().endswith(b"the end!")
