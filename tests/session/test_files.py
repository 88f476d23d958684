"""A session's files: put there, fetched, listed and noticed, in each engine and at each level of trust."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import resource
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from nbclient import NotebookClient

from nbagent import BlockingSession, Session
from nbagent.core.errors import DataError, StoreError, TransferError, TransferLimit, UsageError
from nbagent.core.events import CellFinished, FileDownloaded, FileSaved, FilesChanged, FileUploaded
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.session.files.sandbox_files import Pulled

ENGINE = "bubblewrap"
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """A session with data, for all tests that leave it working."""
    table = tmp_path_factory.mktemp("data") / "table.csv"
    table.write_text("a\n1\n")
    for each in (table.parent, *table.parents[1:3]):
        each.chmod(0o755)
    async with Session(engine=ENGINE, data=[table]) as session:
        yield session


@pytest.mark.parametrize(
    ("engine", "trust"),
    [
        ("bubblewrap", "sandboxed"),
        ("bubblewrap", "untrusted"),
        ("docker", "untrusted"),
        ("docker", "isolated"),
        ("local", "trusted"),
    ],
)
async def test_files_move_in_every_engine(engine: str, trust: str, tmp_path: Path) -> None:
    """Up, seen by code, changed by it, noticed, listed, down, and unpacked; the same at every level of trust."""
    content = os.urandom(5_000_001)
    (tmp_path / "in.bin").write_bytes(content)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("d/x.csv", "1")
    async with Session(engine=engine, trust=trust) as session:
        sent = await session.upload(tmp_path / "in.bin")
        assert (sent.path, sent.size) == ("/workspace/in.bin", len(content))
        cell = await session.run("import hashlib; print(hashlib.sha256(open('in.bin', 'rb').read()).hexdigest())")
        assert cell.text == sent.sha256 == hashlib.sha256(content).hexdigest()
        assert (cell.note, cell.changed) == ("", [])
        cell = await session.run("open('in.bin', 'r+b').write(b'changed')")
        assert (cell.files, cell.changed) == (["in.bin"], [])
        fetched = await session.download("/workspace/in.bin", tmp_path / "out.bin")
        assert fetched.read_bytes() == b"changed" + content[7:]
        assert (await session.upload(archive.getvalue(), "pack.zip", unpack=True)).path == "/workspace/pack"
        listed = [each.path for each in await session.files("/workspace")]
        assert listed == ["/workspace/in.bin", "/workspace/pack", "/workspace/pack/d", "/workspace/pack/d/x.csv"]
        assert await session.download("/workspace/pack/d/x.csv") == b"1"


# -- up -------------------------------------------------------------------------------------------------------------


@on_one_loop
async def test_bytes_paths_and_files_are_uploaded(session: Session, told: list[Any], tmp_path: Path) -> None:
    """Each under its own name or another one, into folders that come to be; and it is told."""
    source = tmp_path / "own name.txt"
    source.write_bytes(b"from a path")
    assert (await session.upload(source)).path == "/workspace/own name.txt"
    assert (await session.upload(str(source), "b.txt", to="/tmp/x/y")).path == "/tmp/x/y/b.txt"
    assert (await session.upload(b"", "empty")).size == 0
    assert (await session.upload(bytearray(b"12"), "sub/c")).path == "/workspace/sub/c"
    assert (await session.upload(io.BytesIO(b"123"), "d")).size == 3
    with source.open("rb") as file:
        file.seek(5)
        assert (await session.upload(file, "e")).size == 6
    both = await asyncio.gather(*(session.upload(each, "v", to="/workspace/.variables") for each in (b"1", b"2")))
    assert [each.path for each in both] == ["/workspace/.variables/v", "/workspace/.variables/v-2"]
    events = [event for event in told if isinstance(event, FileUploaded)]
    assert [each.name for each in events] == ["own name.txt", "b.txt", "empty", "c", "d", "e", "v", "v-2"]
    assert [each.source for each in events] == [str(source), str(source), *[""] * 6]
    assert (await session.run("open('/tmp/x/y/b.txt').read()")).text == "'from a path'"
    await session.run("import shutil; shutil.rmtree('/tmp/x')")


@on_one_loop
async def test_a_link_out_of_its_folder_is_not_uploaded(session: Session, tmp_path: Path) -> None:
    """Somebody else's folder may have links to the person's files; what it leads to can be named instead."""
    (tmp_path / "clone").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "clone" / "data.csv").symlink_to("../secret")
    with pytest.raises(DataError, match=r"is a link to '.*/secret', outside of its folder"):
        await session.upload(tmp_path / "clone" / "data.csv")
    assert (await session.upload(tmp_path / "secret")).size == 1


@pytest.mark.parametrize(
    ("name", "to"),
    [("../x", "/workspace"), ("a/../../x", "/workspace"), ("/etc/x", "/workspace"), ("x", "/home"), ("x", "/"),
     ("x", "workspace"), ("x", ""), ("x", "/workspace/../etc"), ("x\0", "/workspace"), (".", "/workspace"),
     ("a/", "/tmp")],
)  # fmt: skip
@on_one_loop
async def test_an_upload_stays_in_its_folders(session: Session, name: str, to: str) -> None:
    """In the words of the specification."""
    with pytest.raises(TransferLimit) as refused:
        await session.upload(b"x", name, to=to)
    assert str(refused.value) == "Invalid path: must be /tmp/* or /workspace/*"


@on_one_loop
async def test_the_data_is_read_only(session: Session) -> None:
    """An upload doesn't get into it."""
    with pytest.raises(TransferError, match=r"/tmp/data/(new|table).csv was not carried"):
        await session.upload(b"x", "new.csv", to="/tmp/data")
    with pytest.raises(TransferError, match=r"/tmp/data/table.csv was not carried"):
        await session.upload(b"x", "table.csv", to="/tmp/data")


@on_one_loop
async def test_what_cannot_be_uploaded_is_told(session: Session, tmp_path: Path) -> None:
    """A file that isn't there, a folder, a pipe that nobody writes to, text, and what is nothing of the kind."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="There is no file"):
        await session.upload(tmp_path / "none")
    for name in (".", "pipe"):
        with pytest.raises(DataError, match="is no plain file"):
            await asyncio.wait_for(session.upload(tmp_path / name, "x"), 60)
    (tmp_path / "open").write_text("x")
    with (tmp_path / "open").open("rb") as file, pytest.raises(DataError, match="is no plain file"):
        await session.upload(f"/proc/{os.getpid()}/fd/{file.fileno()}", "x")
    with pytest.raises(UsageError, match="has no name"):
        await session.upload(b"x")
    with pytest.raises(UsageError, match="open as text"):
        await session.upload(io.StringIO("x"), "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="int can't be uploaded"):
        await session.upload(5, "x")  # type: ignore[arg-type]


@on_one_loop
async def test_a_variable_comes_into_new_memory(session: Session, tmp_path: Path) -> None:
    """Which is sealed then; and into nothing else that a process has open."""
    await session.run("v = [1]")
    memory = SealedMemory()
    with contextlib.closing(memory):
        assert await session.pull("v", memory.path) == Pulled(kind="data", size=8)
        assert (memory.is_sealed, memory.path.read_bytes()) == (True, b'["l", 1]')
        with pytest.raises(StoreError):
            await session.pull("v", memory.path)
    with (tmp_path / "open").open("w+b") as file, pytest.raises(StoreError, match="no new memory"):
        await session.pull("v", f"/proc/{os.getpid()}/fd/{file.fileno()}")


@on_one_loop
async def test_a_file_that_changes_while_it_is_read_is_noticed(session: Session, tmp_path: Path) -> None:
    """What was sent was never in it; nothing stays inside."""
    source = tmp_path / "growing"
    source.write_bytes(bytes(30_000_000))

    async def grow() -> None:
        while True:
            with source.open("ab") as file:
                file.write(b"x")
            await asyncio.sleep(0.001)

    growing = asyncio.create_task(grow())
    with pytest.raises(TransferError, match="changed while it was sent"):
        await session.upload(source)
    growing.cancel()
    assert "/workspace/growing" not in [each.path for each in await session.files("/workspace")]


@on_one_loop
async def test_an_upload_waits_for_the_running_cell(session: Session) -> None:
    """As a cell would, and a cell waits for it."""
    running = asyncio.create_task(session.run("import os, time; time.sleep(1); print(os.path.exists('later'))"))
    await asyncio.sleep(0.2)
    sending = asyncio.create_task(session.upload(bytes(20_000_000), "later"))
    await asyncio.sleep(0.05)
    after = await session.run("print(os.path.getsize('later'))")
    assert (await running).text == "False"
    assert after.text == "20000000"
    assert after.changed == []
    await sending


@on_one_loop
async def test_a_transfer_can_be_stopped(session: Session) -> None:
    """By who waits for it, or by `interrupt`; nothing of it stays, and the session goes on."""
    before = [each.path for each in await session.files("/workspace")]

    class Slow:
        def read(self, size: int, /) -> bytes:
            time.sleep(0.05)
            return bytes(min(size, 1000))

    sending = asyncio.create_task(session.upload(Slow(), "slow"))
    await asyncio.sleep(0.5)
    session.interrupt()
    with pytest.raises(TransferError, match="was stopped"):
        await sending
    sending = asyncio.create_task(session.upload(Slow(), "slow"))
    await asyncio.sleep(0.5)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert [each.path for each in await session.files("/workspace")] == before
    assert (await session.run("import os; [n for n in os.listdir('.') if n.startswith('.nb')]")).text == "[]"


# -- down -----------------------------------------------------------------------------------------------------------


@on_one_loop
async def test_a_download_goes_to_memory_or_to_a_file(session: Session, told: list[Any], tmp_path: Path) -> None:
    """Into a folder under a name that is safe there; and it is told."""
    await session.run("open('/workspace/re\\nsult.csv', 'w').write('1,2')")
    assert await session.download("/workspace/re\nsult.csv") == b"1,2"
    assert await session.download("/workspace/re\nsult.csv", tmp_path) == tmp_path / "re_sult.csv"
    assert await session.download("/workspace/re\nsult.csv", str(tmp_path / "x")) == tmp_path / "x"
    assert (tmp_path / "x").read_bytes() == (tmp_path / "re_sult.csv").read_bytes() == b"1,2"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask
    events = [event for event in told if isinstance(event, FileDownloaded)]
    assert [each.to for each in events] == ["", str(tmp_path / "re_sult.csv"), str(tmp_path / "x")]
    assert {each.sha256 for each in events} == {hashlib.sha256(b"1,2").hexdigest()}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["re_sult.csv", "x"]


@on_one_loop
async def test_nothing_on_the_host_is_overwritten_unasked(session: Session, tmp_path: Path) -> None:
    """Nor written through a link, asked or not."""
    await session.run("open('/workspace/a', 'w').write('theirs')")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(TransferError, match=r"is there already.*overwrite=True"):
        await session.download("/workspace/a", tmp_path / "file")
    for name in ("link", "dangling"):
        for overwrite in (False, True):
            with pytest.raises(TransferError, match="is a link"):
                await session.download("/workspace/a", tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    await session.download("/workspace/a", tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "theirs"
    with pytest.raises(StoreError, match="can't be written"):
        await session.download("/workspace/a", tmp_path / "none" / "file")


@on_one_loop
async def test_a_download_that_fails_leaves_what_was_there(session: Session, tmp_path: Path) -> None:
    """The old file is intact, and there is no half one."""
    (tmp_path / "file").write_text("mine")
    await session.run("import os; os.symlink('/etc/passwd', '/workspace/leads')")
    for path in ("/workspace/none", "/workspace/leads", "/workspace"):
        with pytest.raises(TransferError):
            await session.download(path, tmp_path / "file", overwrite=True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "mine")]


@on_one_loop
async def test_too_much_for_memory_goes_to_a_file(session: Session, tmp_path: Path) -> None:
    """And that is the mend; the controller's memory stays as it was."""
    await session.run("import os; os.truncate(os.open('/workspace/large', os.O_CREAT | os.O_RDWR), 300_000_000)")
    with pytest.raises(TransferLimit, match=r"268,435,456 is the limit here. Name a file for it"):
        await session.download("/workspace/large")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = await session.download("/workspace/large", tmp_path / "large")
    assert got.stat().st_size == 300_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024
    await session.run("os.unlink('/workspace/large'); os.symlink('/etc/passwd', '/workspace/a-link')")
    with pytest.raises(TransferLimit, match="it is a link") as caught:
        await session.download("/workspace/a-link")
    assert caught.value.mend == ""
    await session.run("os.unlink('/workspace/a-link')")


# -- what there is, and what changed --------------------------------------------------------------------------------


@on_one_loop
async def test_files_are_listed_with_where_the_host_has_them(session: Session, tmp_path: Path) -> None:
    """Data, collected output, and an upload as long as it is what was uploaded."""
    (tmp_path / "up.txt").write_text("up")
    await session.upload(tmp_path / "up.txt")
    await session.run("open('/tmp/output/o.txt', 'w').write('123')")
    found = {each.path: each for each in await session.files()}
    assert found["/tmp/output/o.txt"].host == session.folder / "output" / "o.txt"
    assert found["/tmp/output/o.txt"].size == 3
    assert abs(found["/tmp/output/o.txt"].modified - time.time()) < 60
    assert found["/workspace/up.txt"].host == tmp_path / "up.txt"
    host = found["/tmp/data/table.csv"].host
    assert host is not None
    assert host.read_text() == "a\n1\n"
    assert (found["/tmp/data"].kind, found["/tmp/data/table.csv"].kind) == ("folder", "file")
    await session.run("open('up.txt', 'w').write('UP')")
    again = {each.path: each for each in await session.files()}["/workspace/up.txt"].host
    assert again == session.folder / "output" / "up.txt"
    assert again.read_text() == "UP"
    with pytest.raises(TransferError, match="There is no /workspace/none"):
        await session.files("/workspace/none")
    with pytest.raises(TransferLimit, match="Invalid path"):
        await session.files("/etc")
    assert len(await session.files(limit=1)) == 1
    assert (await session.files(limit=0)).total > 3


@on_one_loop
async def test_changed_files_are_offered(session: Session, told: list[Any]) -> None:
    """To the model in a short sentence, to the person as an event; what is a result is collected instead."""
    cell = await session.run(
        "open('/tmp/model.pkl', 'wb').write(bytes(2_100_000))\nopen('/tmp/output/p', 'w').close()\n"
        "open('w', 'w').close()"
    )
    offer = "fetch with session.download(path), or save to /tmp/output."
    assert cell.note == f"Changed: /tmp/model.pkl (2.1 MB); {offer}"
    assert [(each.path, each.size) for each in cell.changed] == [("/tmp/model.pkl", 2_100_000)]
    assert cell.files == ["p", "w"]
    assert cell.total_files >= 1
    (event,) = [event for event in told if isinstance(event, FilesChanged)]
    assert (event.cell, event.files, event.more) == (cell.cell, cell.changed, 0)
    assert [type(each) for each in told if isinstance(each, CellFinished | FileSaved | FilesChanged)] == [
        CellFinished, FileSaved, FileSaved, FilesChanged,
    ]  # fmt: skip
    assert (await session.run("1")).note == ""
    many = await session.run("for i in range(50): open(f'/tmp/n{i}', 'w').close()")
    assert many.note.count("/tmp/n") == 3
    assert "and 47 more" in many.note


@on_one_loop
async def test_a_kernel_that_was_replaced_has_no_uploads(session: Session) -> None:
    """What was uploaded is gone with the old one, as the note says; a new upload works."""
    await session.upload(b"x", "kept")
    await session.run("import os; os._exit(3)")
    assert "/workspace/kept" not in [each.path for each in await session.files()]
    await session.upload(b"y", "kept")
    assert await session.download("/workspace/kept") == b"y"
    assert (await session.run("open('kept').read()")).changed == []


LIE = """
kept = get_ipython().kernel.__dict__['_nbagent']
tree = {'files': [['a', 10**400, 10**400]], 'fresh': 1, 'total': 1, 'whole': True, 'odd': []}
row = ['a', 'file', 10**400, 10**400]
told = {'number': 10**6, 'trees': [tree] * 3, 'entries': [row], 'total': 10**400, 'whole': True, 'count': 10**400}
for key in kept: kept[key] = {'main': lambda *_: told}
get_ipython().kernel.finish_metadata = lambda *_: {'nbagent': 5}
"""


@on_one_loop
async def test_numbers_that_no_file_has_end_nothing(tmp_path: Path) -> None:
    """A sandbox claims sizes and times of hundreds of digits: cells run, and the notebook is written."""
    async with Session(engine=ENGINE) as session:
        await session.files()  # so that the kernel has what it is asked to lie with
        assert (await session.run(LIE)).success
        assert (await session.run("print(5)")).text == "5"
        with pytest.raises(TransferError):
            await session.files("/workspace")
        assert await session.deliver() == {}
        assert (await session.export(tmp_path / "n.ipynb")).is_file()


KILLED = """
import asyncio, os
from nbagent import Session

async def main():
    session = Session(engine="bubblewrap", session="killed")
    await session.start()
    await session.run("open('/workspace/told', 'w').close(); open('/tmp/output/told', 'w').close()")
    await session.run("import threading; threading.Timer(1, lambda: [open(n, 'w').close() for n in NEW]).start()\\n"
                      "NEW = '/workspace/new', '/tmp/output/new'")
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_a_session_that_goes_on_is_told_what_is_new_since() -> None:
    """No file twice that the process told which was killed, and each that came after it."""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED], check=False, timeout=60)
    await asyncio.sleep(1.5)
    session = await Session.connect("killed")
    try:
        cell = await session.run("1")
        # Of one name, from /tmp/output and from /workspace.
        assert (cell.files, cell.total_files, cell.changed) == (["new", "new-1"], 2, [])
    finally:
        await session.stop()


# -- the notebook, and scripts --------------------------------------------------------------------------------------


async def test_an_upload_is_part_of_a_notebook_that_runs_again(tmp_path: Path) -> None:
    """From where the file lay, or from beside the notebook; tracebacks keep their numbers. Without it, it says so."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "names.txt").write_text("Ann\n")
    here = tmp_path / "here"
    here.mkdir()
    for each in (tmp_path, *tmp_path.parents[:2], tmp_path / "far", here):
        each.chmod(0o755)
    async with Session(engine=ENGINE) as session:
        await session.upload(tmp_path / "far" / "names.txt", "n.txt", to="/workspace/in")
        await session.upload(b"raw", "raw.bin")
        await session.run("print(open('in/n.txt').read(), open('raw.bin').read())")
        await session.run("1 / 0")
        path = await session.export(here / "n.ipynb")
    first: Any = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in first.cells if cell.cell_type == "markdown")
    assert "**Uploaded** `n.txt` to `/workspace/in/n.txt` (4 bytes, SHA-256" in text
    assert "a re-run needs it as a file of this name beside this notebook" in text
    with pytest.raises(Exception, match=r"Put raw.bin beside this notebook"):
        await again(path)
    (here / "raw.bin").write_bytes(b"raw")
    (here / "raw.bin").chmod(0o644)
    second = await again(path)
    for before, after in zip(first.cells, second.cells, strict=True):
        if before.cell_type == "code" and before.metadata.nbagent.role == "cell":
            assert before.outputs == after.outputs


async def again(path: Path) -> Any:
    """The notebook after a plain re-run."""
    client = NotebookClient(
        nbformat.read(path, as_version=4), timeout=60, resources={"metadata": {"path": str(path.parent)}}
    )
    return await asyncio.wait_for(client.async_execute(), 120)


def test_a_script_moves_files_too(tmp_path: Path) -> None:
    """The same calls, each of which waits."""
    with BlockingSession(engine=ENGINE) as session:
        assert session.upload(b"1", "a").path == "/workspace/a"
        assert session.download("/workspace/a") == b"1"
        assert session.download("/workspace/a", tmp_path / "a") == tmp_path / "a"
        assert [each.path for each in session.files("/workspace")] == ["/workspace/a"]
        with pytest.raises(TransferLimit):
            session.upload(b"1", "../a")


async def test_files_before_the_start_are_refused() -> None:
    """As cells are."""
    session = Session(engine=ENGINE)
    with pytest.raises(UsageError, match="not started"):
        await session.upload(b"x", "x")
    with pytest.raises(UsageError, match="not started"):
        await session.files()
