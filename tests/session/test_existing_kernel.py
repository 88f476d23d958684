"""A session in a kernel that somebody else started: one client among others, which ends nothing but its own cells."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from jupyter_client import AsyncKernelManager
from program import call, replies

import nbagent
from nbagent import BlockingSession, Session
from nbagent.core.errors import InstallRefused, NbagentError, SandboxError, UsageError
from nbagent.core.events import CellFinished, CellStarted, CellWaits, SessionStarted, StateLost
from nbagent.core.session_log import read_log
from nbagent.faces.magic.subcommands import status
from nbagent.sandbox.engines.existing import BACK_SECONDS

IGNORES = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep({seconds})\nprint('through')"
HEEDS = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"


class Person:
    """Somebody who works in a kernel of their own, by Jupyter's own client."""

    def __init__(self, manager: AsyncKernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.file = manager.connection_file

    async def run(self, code: str) -> str:
        """Run a cell; returns what it printed, or its error's name."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text") or message["content"].get("ename") or "")

        await self.client.execute_interactive(code, output_hook=take, timeout=60, stop_on_error=True)
        return "".join(printed).strip()

    async def begin(self, code: str) -> asyncio.Task[str]:
        """Run a cell meanwhile; returns once it runs."""
        running = asyncio.create_task(self.run(f"open({str(self._mark)!r}, 'w').close()\n{code}"))
        while not await self._seen():
            await asyncio.sleep(0.02)
        return running

    _mark = Path()

    async def _seen(self) -> bool:
        if self._mark.exists():
            self._mark.unlink()
            return True
        return False


async def started(name: str, folder: Path) -> AsyncIterator[Person]:
    """A kernel of a kernelspec, and its person."""
    manager = AsyncKernelManager(kernel_name=name, connection_file=str(folder / f"kernel-{name}.json"))
    await manager.start_kernel(cwd=str(folder))
    person = Person(manager)
    person._mark = folder / "mark"
    person.client.start_channels()
    try:
        await person.client.wait_for_ready(timeout=60)
        yield person
    finally:
        person.client.stop_channels()
        await manager.shutdown_kernel(now=True)


@pytest_asyncio.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Person]:
    """An ipykernel that runs as the person."""
    async for each in started("python3", tmp_path):
        yield each


@pytest_asyncio.fixture
async def sandboxed(tmp_path: Path) -> AsyncIterator[Person]:
    """A kernel that Jupyter started in a sandbox, by nbagent's kernelspec."""
    async for each in started("nbagent-bubblewrap", tmp_path):
        yield each


def events(session: Session, kind: type) -> list[Any]:
    """The events of a kind so far."""
    return [each.event for each in read_log(session.folder) if isinstance(each.event, kind)]


# -- what it is -------------------------------------------------------------------------------------------------------


async def test_it_shares_the_persons_variables_and_leaves_the_kernel_running(plain: Person, tmp_path: Path) -> None:
    """What is there is used, what it makes stays, and the record and the export have its cells."""
    await plain.run("x = 41")
    async with Session(kernel=plain.file) as session:
        cell = await session.run("x += 1\nprint(x)")
        written = await session.export(tmp_path / "out.ipynb")
    assert (cell.status, cell.text) == ("ok", "42")
    assert await plain.run("print(x)") == "42"
    notebook = nbformat.read(written, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    assert any(each.source.endswith("print(x)") for each in notebook.cells)


async def test_what_an_export_tries_runs_in_no_kernel_of_the_persons(sandboxed: Person, tmp_path: Path) -> None:
    """What is left without the model's failures is tried in a sandbox of its own, and changes no variable of theirs."""
    model = replies(tmp_path / "model.jsonl", call("x += 1"), call("1/0"), call("print('hello')"), "Done.")
    await sandboxed.run("x = 1")
    async with Session(kernel=sandboxed.file, model=model, approvals="never-ask") as session:
        await session.ask("Count")
        await session.export(tmp_path / "out.ipynb", keep_attempts=False)
    assert await sandboxed.run("print(x)") == "2"


async def test_a_kernel_without_isolation_is_told_as_that(plain: Person, tmp_path: Path) -> None:
    """By the session, by what a face shows first, in the log, by `%agent status` and in the notebook."""
    words = "not isolated: this kernel runs as you"
    async with Session(kernel=Path(plain.file)) as session:
        assert (session.isolation, session.trust) == (words, "trusted")
        assert [each.event.isolation for each in session.news] == [words]  # type: ignore[union-attr]
        assert [each.isolation for each in events(session, SessionStarted)] == [words]
        attached = nbagent.attach(session.id)
        await attached.start()
        assert words in status(attached)
        await attached.detach()
        written = await session.export(tmp_path / "out.ipynb")
        assert words in await session.system_prompt()
    assert nbformat.read(written, as_version=4).metadata.nbagent.isolation == words


async def test_a_sandboxed_kernel_is_told_as_that(sandboxed: Person, tmp_path: Path) -> None:
    """With its engine and its trust level, and a notebook that runs in the same sandbox again."""
    async with Session(kernel=sandboxed.file) as session:
        assert session.isolation == "in a sandbox of the bubblewrap engine, isolated, which another program started"
        assert session.trust == "isolated"
        await session.run("import polars\nprint(6 * 7)")
        written = await session.export(tmp_path / "out.ipynb")
    metadata = nbformat.read(written, as_version=4).metadata
    assert metadata.kernelspec.name == "nbagent-bubblewrap"
    assert metadata.nbagent.environment.startswith("sha256:")
    assert all(each.sha256 for each in metadata.nbagent.lock.kernel)


async def test_the_model_is_told_of_the_persons_variables(plain: Person, tmp_path: Path) -> None:
    """By name and type, so that it needs no cell to find them; functions and modules are none."""
    await plain.run("import os\nsales = [1, 2, 3]\ndef f(): pass")
    model = replies(tmp_path / "r.jsonl", call("print(sum(sales))"), "The sum is 6.")
    async with Session(kernel=plain.file, model=model) as session:
        prompt = await session.system_prompt()
        assert '"sales: list of 3"' in prompt
        assert '"os' not in prompt
        assert '"f:' not in prompt
        answer = await session.ask("What is the sum of my sales?")
    assert answer.success
    assert answer.cells[0].text == "6"


async def test_agent_in_a_sandboxed_notebook_says_where_to_ask(sandboxed: Person) -> None:
    """As line and as cell, by the name under which the kernel is found; the extension needs no loading."""
    for code in ("%agent What is x?", "%%agent\nWhat is x?", "%load_ext nbagent\n%agent status"):
        assert f"nbagent chat --kernel {Path(sandboxed.file).name}" in await sandboxed.run(code)


# -- results and packages ---------------------------------------------------------------------------------------------


async def test_only_its_own_results_are_collected(sandboxed: Person) -> None:
    """What the person's cells have left in /tmp/output, before and in between, is no result of its cells."""
    await sandboxed.run("open('/tmp/output/theirs.txt', 'w').close()")
    async with Session(kernel=sandboxed.file) as session:
        first = await session.run("open('/tmp/output/ours.txt', 'w').close()")
        await sandboxed.run("open('/tmp/output/theirs too.txt', 'w').close()")
        await asyncio.sleep(0.1)  # Linux gives files that are made together the same time
        second = await session.run("open('/tmp/output/ours too.txt', 'w').close()")
    assert (first.files, second.files) == (["ours.txt"], ["ours too.txt"])


async def test_files_go_into_a_folder_of_its_own_where_there_is_no_sandbox(plain: Person) -> None:
    """Uploads and results, which no other program's files in /tmp are taken for; the folder goes with the session."""
    async with Session(kernel=plain.file) as session:
        uploaded = await session.upload(b"a,b\n1,2\n", "given.csv")
        assert await session.download(uploaded.path) == b"a,b\n1,2\n"
        output = (await session.system_prompt()).split("/output/ is for result files")[0].split("- ")[-1]
        assert (await session.run(f"open({output!r} + '/output/r.txt', 'w').close()")).files == ["r.txt"]
    assert not Path(output).exists()


async def test_packages_are_installed_where_it_is_a_sandbox(sandboxed: Person) -> None:
    """By the host's installer, as in a sandbox of the session's own."""
    async with Session(kernel=sandboxed.file) as session:
        cell = await session.run("import humanize\nprint(humanize.__name__)")
    assert (cell.status, cell.text, [each.name for each in cell.installed]) == ("ok", "humanize", ["humanize"])


async def test_nothing_is_installed_where_it_is_none(plain: Person) -> None:
    """Which is said, with the mend: by the call, and in the note of the cell that misses a module."""
    async with Session(kernel=plain.file) as session:
        with pytest.raises(InstallRefused, match="not in its sandbox") as caught:
            await session.install(["humanize"])
        cell = await session.run("import no_such_module_of_anybodys")
    assert caught.value.mend == "Install it where the kernel was started."
    assert cell.status == "error"
    assert "not in its sandbox" in cell.note


# -- other clients' cells ---------------------------------------------------------------------------------------------


async def test_it_waits_for_the_persons_cell_and_says_so(plain: Person) -> None:
    """Its time limit doesn't interrupt theirs, and what theirs prints is none of its outputs."""
    async with Session(kernel=plain.file) as session:
        running = await plain.begin("import time\nfor _ in range(15): time.sleep(0.2); print('theirs')")
        cell = await session.run("print('ours')", timeout=1)
        assert (cell.status, cell.text, cell.note) == ("ok", "ours", "")
        assert (await running).count("theirs") == 15
        assert [each.cell for each in events(session, CellWaits)] == [cell.cell]


async def test_it_can_be_stopped_while_it_waits(plain: Person) -> None:
    """Its code never runs, and the person's goes on."""
    async with Session(kernel=plain.file) as session:
        running = await plain.begin("import time\ntime.sleep(8)\nprint('theirs')")
        ours = asyncio.create_task(session.run("x = 'ran'"))
        await asyncio.sleep(0.8)
        began = time.monotonic()
        assert session.interrupt_cell()
        cell = await ours
        assert time.monotonic() - began < 6
        assert (cell.status, "before it began" in cell.note) == ("interrupted", True)
        assert await running == "theirs"
        assert await plain.run("print('x' in globals())") == "False"


async def test_a_cell_that_is_given_up_while_it_waits_has_an_end_in_the_log(plain: Person) -> None:
    """As when its question is stopped: whoever follows would take it for one that runs, for ever."""
    async with Session(kernel=plain.file) as session:
        running = await plain.begin("import time\ntime.sleep(2)\nprint('theirs')")
        ours = asyncio.create_task(session.run("x = 'ran'"))
        while not events(session, CellWaits):
            await asyncio.sleep(0.05)
        ours.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ours
        (ended,) = events(session, CellFinished)
        assert (ended.status, "before it began" in ended.note) == ("interrupted", True)
        assert await running == "theirs"
        assert (await session.run("print('x' in globals())")).text == "False"


async def test_a_session_that_ends_leaves_the_persons_cell_alone(plain: Person) -> None:
    """Also if a cell of its own waits for it."""
    async with Session(kernel=plain.file) as session:
        running = await plain.begin("import time\ntime.sleep(2)\nprint('theirs')")
        ours = asyncio.create_task(session.run("x = 'ran'"))
        await asyncio.sleep(0.3)
    with pytest.raises((NbagentError, asyncio.CancelledError)):
        await ours
    assert await running == "theirs"


async def test_its_failing_cell_takes_no_cell_of_the_persons_along(plain: Person) -> None:
    """Those that wait behind it run; by default a kernel drops them."""
    async with Session(kernel=plain.file) as session:
        ours = asyncio.create_task(session.run("import time\ntime.sleep(1)\n1 / 0"))
        while not events(session, CellStarted):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        assert await plain.run("print('theirs')") == "theirs"
        assert (await ours).status == "error"


async def test_a_failing_cell_of_the_persons_takes_none_of_its_own_along(plain: Person) -> None:
    """It runs once theirs has failed."""
    async with Session(kernel=plain.file) as session:
        running = await plain.begin("import time\ntime.sleep(1)\n1 / 0")
        cell = await session.run("print('ours')")
        assert (cell.status, cell.text) == ("ok", "ours")
        assert await running == "ZeroDivisionError"


async def test_a_kernel_that_is_busy_at_the_start_is_told(plain: Person) -> None:
    """It is not taken for dead, and its cell is not interrupted."""
    running = await plain.begin("import time\ntime.sleep(3)\nprint('theirs')")
    with pytest.raises(SandboxError, match="runs another client's cell") as caught:
        await Session(kernel=plain.file, start_timeout=1).start()
    assert caught.value.mend == "Wait for its end, or interrupt it there."
    assert await running == "theirs"


# -- limits, trouble and ends -----------------------------------------------------------------------------------------


async def test_a_cell_beyond_its_time_is_interrupted(plain: Person) -> None:
    """The kernel keeps its variables."""
    async with Session(kernel=plain.file) as session:
        cell = await session.run("x = 1\nimport time\ntime.sleep(60)", timeout=1)
        assert (cell.status, cell.duration < 4) == ("timeout", True)
        assert (await session.run("print(x)")).text == "1"


async def test_a_cell_that_ignores_the_interrupt_is_left_alone(plain: Person) -> None:
    """The kernel is not killed for it: the cell's note says that it goes on, and the next one waits for its end."""
    async with Session(kernel=plain.file, limits=nbagent.Limits(grace=1)) as session:
        cell = await session.run(IGNORES.format(seconds=6), timeout=1)
        assert cell.status == "timeout"
        assert "did not stop within 1 s of the interrupt, and goes on in the kernel" in cell.note
        assert (await session.run(f"{HEEDS}\nprint('next')")).text == "next"
        assert not events(session, StateLost)
    assert await plain.manager.is_alive()


async def test_a_kernel_that_died_is_told_and_so_is_one_that_is_back(plain: Person) -> None:
    """Nobody but its owner starts it again; until then each cell says that it doesn't run."""
    async with Session(kernel=plain.file) as session:
        await session.run("x = 1")
        with pytest.raises(SandboxError, match="doesn't run"):
            await session.run("import os\nos._exit(3)")
        assert "The kernel ended. Variables and imports are lost." in session_note(session)
        await plain.manager.restart_kernel(now=True)
        await plain.client.wait_for_ready(timeout=60)
        cell = await session.run("print('x' in globals())")
        assert (cell.status, cell.text) == ("ok", "False")
        assert "lost" in cell.note


async def test_a_kernel_that_was_shut_down_is_told_at_once(tmp_path: Path) -> None:
    """Its file is gone, so nobody restarts it: nothing is waited for, and a way on is named."""
    manager = AsyncKernelManager(kernel_name="python3", connection_file=str(tmp_path / "kernel-gone.json"))
    await manager.start_kernel()
    async with Session(kernel=manager.connection_file) as session:
        await session.run("x = 1")
        await manager.shutdown_kernel(now=True)
        began = time.monotonic()
        with pytest.raises(SandboxError, match="was shut down") as caught:
            await session.run("x")
        assert "new session" in caught.value.mend
        assert time.monotonic() - began < BACK_SECONDS / 2


def session_note(session: Session) -> str:
    """The note of the last cell in the log."""
    return [each.event.note for each in read_log(session.folder) if hasattr(each.event, "note")][-1]


async def test_a_kernel_that_jupyter_restarts_is_connected_to_again(sandboxed: Person) -> None:
    """With a note that the variables are lost."""
    async with Session(kernel=sandboxed.file) as session:
        await session.run("x = 1")
        await sandboxed.manager.restart_kernel(now=True)
        cell = await session.run("print('x' in globals())")
        assert (cell.status, cell.text) == ("ok", "False")
        assert [each.cell for each in events(session, StateLost)] == [cell.cell]


async def test_a_session_is_resumed_in_the_same_kernel(plain: Person) -> None:
    """With the variables that it has."""
    async with Session(kernel=plain.file) as session:
        await session.run("x = 5")
        await session.detach()
    async with Session.resumed(session.id) as again:
        assert (await again.run("print(x)")).text == "5"
        assert again.isolation.startswith("not isolated")


# -- what is refused --------------------------------------------------------------------------------------------------


async def test_nothing_less_strict_than_was_named_is_used(plain: Person, sandboxed: Person) -> None:
    """Whoever names a trust level gets it, or an error with the mend; a stricter sandbox than named is fine."""
    for person, trust in ((plain, "isolated"), (plain, "untrusted"), (sandboxed, "untrusted")):
        with pytest.raises(UsageError, match=f"You asked for the trust level {trust}") as caught:
            await Session(kernel=person.file, trust=trust).start()
        assert "--trust" in caught.value.mend
    with pytest.raises(UsageError, match="You asked for the trust level isolated"):
        await nbagent.host(kernel=plain.file, trust="isolated")
    async with Session(kernel=sandboxed.file, trust="trusted") as session:
        assert session.trust == "isolated"


async def test_options_that_make_no_sense_with_it_are_refused(plain: Person, tmp_path: Path) -> None:
    """An engine of another name, data, and an engine for running kernels without one."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    for options, why in (
        ({"engine": "bubblewrap"}, "needs no engine bubblewrap"),
        ({"data": str(tmp_path / "t.csv")}, "shown no more data"),
    ):
        with pytest.raises(UsageError, match=why):
            await Session(kernel=plain.file, **options).start()
    with pytest.raises(UsageError, match="needs a kernel that runs"):
        await Session(engine="existing").start()


async def test_a_kernel_that_is_about_to_listen_is_waited_for(tmp_path: Path) -> None:
    """A page may ask for one that its server has only just begun to start."""
    manager = AsyncKernelManager(kernel_name="python3", connection_file=str(tmp_path / "kernel-new.json"))
    await manager.start_kernel()
    try:
        async with Session(kernel=manager.connection_file) as session:
            assert (await session.run("6 * 7")).text == "42"
    finally:
        await manager.shutdown_kernel(now=True)


async def test_a_wrong_key_and_a_dead_kernel_are_told_apart(plain: Person, tmp_path: Path) -> None:
    """Messages that are not signed with the file's key count for nothing."""
    other = tmp_path / "other.json"
    other.touch(mode=0o600)
    other.write_text(json.dumps(json.loads(Path(plain.file).read_text()) | {"key": "wrong"}))
    with pytest.raises(SandboxError, match="is it still the file of a kernel that runs"):
        await Session(kernel=str(other), start_timeout=1).start()
    pid = int(await plain.run("import os\nprint(os.getpid())"))
    os.kill(pid, signal.SIGKILL)
    while await plain.manager.is_alive():
        await asyncio.sleep(0.05)
    with pytest.raises(SandboxError, match="doesn't run"):
        await Session(kernel=plain.file).start()


# -- every way to it --------------------------------------------------------------------------------------------------


async def test_a_host_process_and_its_json(plain: Person) -> None:
    """As the panel's server starts one, by an option that is JSON."""
    await plain.run("x = 7")
    session = await nbagent.host(kernel=plain.file)
    try:
        assert (await session.run("print(x)")).text == "7"
        assert session.isolation.startswith("not isolated")
    finally:
        await session.stop()
    assert await plain.run("print(x)") == "7"


async def test_python_without_async(plain: Person) -> None:
    """In a thread here, since this test's loop serves the person."""
    await plain.run("x = 8")

    def use() -> str:
        with BlockingSession(kernel=plain.file) as session:
            return session.run("print(x)").text

    assert await asyncio.to_thread(use) == "8"


async def test_the_command_line(plain: Person) -> None:
    """`nbagent exec --kernel FILE` says where the code runs, also where it is quiet."""
    await plain.run("x = 9")
    command = [sys.executable, "-m", "nbagent", "exec", "-q", "--kernel", plain.file, "-c", "print(x)"]
    pipe = asyncio.subprocess.PIPE
    ran = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await ran.communicate()
    assert out.decode().strip() == "9"
    assert "the kernel is not isolated: this kernel runs as you" in err.decode()


async def test_a_script_reads_the_files_of_the_kernel(plain: Person, tmp_path: Path) -> None:
    """What it names beside it is no data for the session, which such a kernel would be refused for."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    for place, content in ((tmp_path, "the kernel's"), (folder, "beside the script")):
        (place / "table.csv").write_text(content)
    script = folder / "read.py"
    script.write_text("print(open('table.csv').read())")
    command = [sys.executable, "-m", "nbagent", "exec", "-q", "--kernel", plain.file, str(script)]
    pipe = asyncio.subprocess.PIPE
    ran = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await ran.communicate()
    assert (ran.returncode, out.decode().strip()) == (0, "the kernel's"), err.decode()
