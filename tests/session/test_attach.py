"""One session, seen and steered from another process."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
import shutil
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nbagent import Session, attach
from nbagent.core.errors import InstallError, StoreError, TransferLimit, UsageError
from nbagent.core.events import ApprovalAsked, ApprovalGiven, CellFinished, CellStarted, Event, OutputAdded, Record
from nbagent.core.session_log import SENT_PREFIX, SessionLog
from nbagent.session.files.sandbox_files import MAX_BYTES_IN_MEMORY
from nbagent.session.sharing.attach import Attached
from nbagent.session.sharing.server import MAX_WAITING_CALLS
from nbagent.session.sharing.wire import address

OWNER = """
import asyncio, sys
from nbagent import Session

async def main():
    async with Session(engine="bubblewrap", state_dir=sys.argv[1], session="owned", mcp=False) as session:
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
REPLIES = """
{"tool_calls": [{"name": "python", "args": {"code": "print(6 * 7)"}}]}
{"content": "It is 42."}
{"tool_calls": [{"name": "python", "args": {"code": "print(6 * 7)"}}]}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owned(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """A session of this process whose approvals somebody else may give."""
    folder = tmp_path_factory.mktemp("owned")
    (folder / "replies.jsonl").write_text(REPLIES.strip())
    model = f"replay:{folder / 'replies.jsonl'}"
    options = {"engine": "bubblewrap", "mcp": False, "state_dir": folder, "approvals": "ask", "attended": True}
    async with Session(model=model, **options) as session:  # type: ignore[arg-type]
        yield session


@pytest_asyncio.fixture(loop_scope="module")
async def attached(owned: Session) -> AsyncIterator[Attached]:
    """The same session, by its server."""
    async with attach(owned.id, state_dir=owned.options.state_dir) as session:
        yield session


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_cell_runs_in_the_owners_kernel(owned: Session, attached: Attached) -> None:
    """Both have the same variables, and the cell is whole on this side."""
    await owned.run("x = 41")
    cell = await attached.run("print('é'); x + 1")
    assert (cell.status, cell.text) == ("ok", "é\n42")
    assert next(
        r.event.outputs for r in attached.since() if isinstance(r.event, CellFinished) and r.event.cell == cell.cell
    )


async def test_an_error_of_the_owner_is_the_same_error_here(attached: Attached) -> None:
    """Class, sentence and mend come over."""
    with pytest.raises(UsageError, match="question is empty"):
        await attached.ask("  ")


async def test_one_asks_and_another_one_watches_and_approves(owned: Session, attached: Attached) -> None:
    """The question of one face is answered by another one, and both see all of it."""
    seen: list[Record] = []

    async def approve(record: Record) -> None:
        if isinstance(record.event, ApprovalAsked):
            assert await attached.approve(record.event.id)

    tasks = []

    def hear(record: Record) -> None:
        seen.append(record)
        tasks.append(asyncio.create_task(approve(record)))

    stop = attached.follow(hear)
    first = attached.last
    answer = await owned.ask("What is six times seven?")
    while attached.last < owned.last:
        await asyncio.sleep(0.01)
    stop()
    await asyncio.gather(*tasks)
    assert answer.text == "It is 42."
    assert [each.seq for each in seen] == list(range(first + 1, owned.last + 1))


async def test_files_go_both_ways(attached: Attached, tmp_path: Path) -> None:
    """By content, by path, and as a list."""
    uploaded = await attached.upload(b"abc", "a.txt")
    assert await attached.download(uploaded.path) == b"abc"
    assert (await attached.download(uploaded.path, tmp_path / "here.txt")).read_text() == "abc"
    assert uploaded.path in [each.path for each in await attached.files("/workspace")]
    assert (await attached.export(tmp_path / "a.ipynb")).is_file()


async def test_the_owner_bounds_what_is_handed_over_in_memory(attached: Attached, tmp_path: Path) -> None:
    """As in its own process: nothing larger comes to the session's folder; into a file all comes that there is."""
    await attached.run(f"open('/workspace/large', 'wb').truncate({MAX_BYTES_IN_MEMORY + 1})")
    try:
        with pytest.raises(TransferLimit, match="268,435,456 is the limit here"):
            await attached.download("/workspace/large")
        assert [each for each in attached.folder.iterdir() if each.name.startswith(SENT_PREFIX)] == []
        fetched = await attached.download("/workspace/large", tmp_path / "large")
        assert fetched.stat().st_size == MAX_BYTES_IN_MEMORY + 1
    finally:
        await attached.run("import os; os.unlink('/workspace/large')")


FIGURE = """
from IPython.display import SVG, display
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'/>"))
open("/tmp/output/kept.csv", "w").write("a,b\\n")
"""


async def test_files_and_figures_are_artifacts(owned: Session, attached: Attached) -> None:
    """Each face lists them alike, by the log alone, and loads them."""
    cell = await owned.run(FIGURE)
    found = [each for each in await attached.artifacts() if each.cell == cell.cell]
    assert found == [each for each in await owned.artifacts() if each.cell == cell.cell]
    assert [(each.name, each.content_type, each.size) for each in found] == [
        (f"cell-{cell.cell}-figure-1.svg", "image/svg+xml", 41),
        ("kept.csv", "text/csv", 4),
    ]
    assert [(await attached.load_artifact(each.id))[:4] for each in found] == [b"<svg", b"a,b\n"]


async def test_files_and_logs_are_read_and_written_beside_the_event_loop(
    owned: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be large, and a server has other sessions to serve."""
    await owned.run(FIGURE)
    opened: list[object] = []
    loops, really_open = threading.get_ident(), io.open

    def noting(file: Any, *arguments: Any, **more: Any) -> Any:
        if threading.get_ident() == loops:
            opened.append(file)
        return really_open(file, *arguments, **more)

    monkeypatch.setattr(io, "open", noting)
    monkeypatch.setattr(builtins, "open", noting)
    found = await owned.artifacts()
    await owned.load_artifact(found[-1].id)
    await owned.check_export(tmp_path / "n.ipynb")
    await owned.export(tmp_path / "n.ipynb")
    await owned.ledger()
    assert opened == []


async def test_each_face_keeps_figures(owned: Session, attached: Attached) -> None:
    """The owner in the session's folder and within its quota, anybody else in a folder of their own.

    A figure that is written again counts once.
    """
    kept = owned.keep_figure("a.png", b"PNG")
    assert kept == owned.folder / "figures" / "a.png"
    other = attached.keep_figure("a.png", b"PNG")
    assert other is not None
    assert (other.read_bytes(), other.is_relative_to(owned.folder)) == (b"PNG", False)
    shutil.rmtree(other.parent)
    quota = owned._started().log.quota
    used = quota.used
    assert owned.keep_figure("a.png", b"PNG again") == kept
    assert quota.used == used + len(b" again")
    left = quota.limit - quota.used
    quota.add(left)
    try:
        assert owned.keep_figure("b.png", b"PNG") is None
    finally:
        quota.add(-left)


async def test_another_agent_runs_cells_by_the_server(owned: Session, attached: Attached) -> None:
    """As in the owner's process; the log names its tool, and packages are its own wish, not the person's."""
    since = owned.last
    cell = await attached.runs.run_cell("open('/tmp/output/n.txt', 'w').write('aab'); 6 * 7", tool="theirs")
    assert cell.text == "42"
    begun = next(each.event for each in attached.since(since) if isinstance(each.event, CellStarted))
    assert begun.tool == "theirs"
    names, total = await attached.runs.output_files(limit=100)
    assert ("n.txt" in names, total >= 1) == (True, True)
    assert await attached.runs.count_in_file("/tmp/output/n.txt", "a") == 2
    with pytest.raises(InstallError, match="no-such-module-of-nbagents"):
        await attached.runs.install_module("no_such_module_of_nbagents")
    assert "/tmp/data" in await attached.system_prompt()


async def test_what_a_face_knows_is_what_the_owner_knows(owned: Session, attached: Attached) -> None:
    """Data, hosts, engine and trust level come from the log."""
    assert (attached.data, attached.hosts) == (owned.data, owned.hosts) == ([], ())
    assert (attached.engine, attached.trust, attached.turns) == (owned.engine, owned.trust, owned.turns)


async def test_who_interrupts_stops_what_the_other_one_started(owned: Session, attached: Attached) -> None:
    """Stop works from any face."""
    running = asyncio.create_task(owned.run("import time; print('on', flush=True); time.sleep(60)"))
    while not any(isinstance(each.event, OutputAdded) and "on" in str(each.event.output) for each in attached.since()):
        await asyncio.sleep(0.05)
    attached.interrupt()
    assert (await running).status == "interrupted"


async def happened(session: Attached, event: Callable[[Event], bool], *, since: int) -> None:
    """Wait for an event."""
    while not any(event(each.event) for each in session.since(since)):
        await asyncio.sleep(0.02)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel who waits for a call."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_cancelled_stops_nothing_but_its_own_cell(owned: Session, attached: Attached) -> None:
    """Another face's cell goes on; a cell that waits for its turn never runs, and one that runs is stopped."""
    since = owned.last
    running = asyncio.create_task(owned.run("import time; print('on', flush=True); time.sleep(2); print('end')"))
    await happened(attached, lambda event: isinstance(event, OutputAdded), since=since)
    waiting = asyncio.create_task(attached.run("print('never')"))
    await asyncio.sleep(0.2)
    await cancelled(waiting)
    cell = await running
    assert (cell.status, cell.text) == ("ok", "on\nend")
    own = asyncio.create_task(attached.run("import time; time.sleep(60)"))
    await happened(attached, lambda event: isinstance(event, CellStarted) and event.cell == cell.cell + 1, since=since)
    await cancelled(own)
    await happened(attached, lambda event: isinstance(event, CellFinished) and event.cell > cell.cell, since=since)
    ends = [each.event for each in attached.since(since) if isinstance(each.event, CellFinished)]
    assert [(each.cell, each.status) for each in ends] == [(cell.cell, "ok"), (cell.cell + 1, "interrupted")]
    assert owned.server is not None
    while owned.server._begun:
        await asyncio.sleep(0.02)


async def test_who_is_cancelled_stops_its_question_and_no_cell_of_others(owned: Session, attached: Attached) -> None:
    """What it had asked a person for ends as rejected, and the cell of another face goes on."""
    since = owned.last
    asking = asyncio.create_task(attached.ask("What is six times seven?"))
    await happened(attached, lambda event: isinstance(event, ApprovalAsked), since=since)
    running = asyncio.create_task(owned.run("import time; print('on', flush=True); time.sleep(2)"))
    await happened(attached, lambda event: isinstance(event, OutputAdded), since=since)
    await cancelled(asking)
    assert (await running).status == "ok"
    await happened(attached, lambda event: isinstance(event, ApprovalGiven), since=since)


async def test_a_slow_reader_costs_the_owner_nothing(owned: Session) -> None:
    """Somebody connects and never reads: the owner's cells run as ever, and nothing piles up for them."""
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        lazy.connect(str(owned.folder / "socket"))
        for _ in range(3):
            assert (await owned.run("for i in range(300): print(i, flush=True)")).status == "ok"
        assert owned.server is not None
        assert all(each.transport.get_write_buffer_size() < 100_000 for each in owned.server._writers)


async def test_of_ten_readers_each_gets_all_once(owned: Session) -> None:
    """However late one comes or how long it sleeps; whoever comes with a number goes on behind it without a gap."""
    async with contextlib.AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(attach(owned.id, state_dir=owned.options.state_dir)) for _ in range(10)
        ]
        seen: list[list[Record]] = [[] for _ in readers]
        for number, (reader, found) in enumerate(zip(readers, seen, strict=True)):
            await reader.follow_since(found.append, number)
            await owned.run(f"print({number})")
        assert readers[0]._owner._hearing is not None
        readers[0]._owner._hearing.cancel()  # it sleeps from here on
        await owned.run("for i in range(300): print(i, flush=True)")
        for number, (reader, found) in list(enumerate(zip(readers, seen, strict=True)))[1:]:
            while reader.last < owned.last:
                await asyncio.sleep(0.01)
            assert [each.seq for each in found] == list(range(number + 1, owned.last + 1))
        own: list[Record] = []
        (await owned.follow_since(own.append, 3))()
        assert [each.seq for each in own] == list(range(4, owned.last + 1))


async def test_a_folder_that_is_a_link_is_not_served(owned: Session, tmp_path: Path) -> None:
    """Neither to attach to nor to own: it may be somebody else's."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "linked").symlink_to(owned.folder)
    with pytest.raises(UsageError, match="no session"):
        attach("linked", state_dir=tmp_path)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"), address(tmp_path / "sessions" / "linked"):
        pass
    with pytest.raises(StoreError, match="it is a link"):
        SessionLog(tmp_path, "linked")


async def test_many_calls_never_keep_an_interrupt_waiting(attached: Attached) -> None:
    """What waits for its turn is bounded: too many are refused, and a stop is heard."""
    cells = [asyncio.create_task(attached.run("import time; time.sleep(60)")) for _ in range(MAX_WAITING_CALLS + 1)]
    with pytest.raises(UsageError, match="wait already"):
        await cells[-1]
    while not all(each.done() for each in cells):
        attached.interrupt()
        await asyncio.sleep(0.05)
    assert {each.result().status for each in cells[:-1]} == {"interrupted"}


async def output_of(code: str, *, cwd: Path) -> str:
    """What a Python of its own prints."""
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await ran.communicate())[0].decode()


async def test_the_socket_is_the_persons_own(owned: Session) -> None:
    """Nobody else can open the folder or the socket; another user who comes by anyway is turned away."""
    assert stat.S_IMODE(owned.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((owned.folder / "socket").stat().st_mode) == 0o600
    code = (
        "import os, socket; folder = os.open('.', os.O_PATH); os.setresuid(64399, 64399, 64399)\n"
        "socket.socket(socket.AF_UNIX).connect(f'/proc/self/fd/{folder}/socket')"
    )
    told = await output_of(code, cwd=owned.folder)
    assert "PermissionError" in told


async def test_calls_that_are_none_are_refused(attached: Attached) -> None:
    """Only the listed methods can be reached, with their own arguments."""
    with pytest.raises(UsageError, match="no call 'detach'"):
        await attached.call("detach")
    with pytest.raises(UsageError, match="run is wrong"):
        await attached.call("run", nothing=1)


async def test_a_dead_owner_is_told_and_its_session_taken_over(tmp_path: Path) -> None:
    """Whoever waits learns it at once, has read all that was written, and can go on with the variables."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    owner = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"ready\n"
    async with attach("owned", state_dir=tmp_path) as session:
        await session.run("x = 5")
        since = session.last
        waiting = asyncio.create_task(session.run("import time; time.sleep(5)"))  # whoever comes next waits for its end
        await happened(session, lambda event: isinstance(event, CellStarted), since=since)
        owner.kill()
        with pytest.raises(StoreError, match="has ended"):
            await waiting
        assert not session.is_running
        with pytest.raises(StoreError, match="isn't there"):
            await session.run("1")
    await owner.wait()
    with pytest.raises(UsageError, match="No process runs"):
        await attach("owned", state_dir=tmp_path).start()
    async with await Session.connect("owned", state_dir=tmp_path) as session:
        assert (await session.run("x")).text == "5"


async def test_a_socket_that_outlives_its_owner_serves_nobody(tmp_path: Path) -> None:
    """Of a killed process, threads still end: meanwhile its socket takes connections, and its lock is held."""
    log = SessionLog(tmp_path, "dying")
    dying = socket.socket(socket.AF_UNIX)
    with address(log.folder) as path:
        dying.bind(path)
    dying.listen()
    coming = asyncio.create_task(attach("dying", state_dir=tmp_path).start())
    await asyncio.sleep(0.2)
    assert not coming.done()
    dying.close()
    with pytest.raises(UsageError, match="Try again in a moment"):
        await coming
    log.close()


async def test_attaching_imports_nothing_heavy() -> None:
    """A server may have a hundred sessions to show."""
    code = "import sys, nbagent; nbagent.attach; print(*sys.modules)"
    found = (await output_of(code, cwd=Path())).split()
    heavy = "jupyter_client zmq traitlets nbformat pydantic langchain langchain_core docker rich structlog packaging"
    assert set(found) & set(heavy.split()) == set()


async def test_an_owner_that_hangs_holds_up_nobody_who_attaches(tmp_path: Path) -> None:
    """Its queue is full after a hundred tries, and who tries once more would wait for ever: a Jupyter server does."""
    log = SessionLog(tmp_path, "one")
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with address(log.folder) as path:
            listening.bind(path)
            listening.listen(0)
            for _ in range(3):
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                waiting.setblocking(False)
                waiting.connect_ex(path)
        started = time.monotonic()
        with pytest.raises(UsageError, match="attached to now"):
            await asyncio.wait_for(attach("one", state_dir=tmp_path).start(), 30)
        assert time.monotonic() - started < 30
    log.close()
