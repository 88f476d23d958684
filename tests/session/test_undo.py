"""What a question did to the kernel is taken back, and that too, by running the other cells again in a new one."""

from __future__ import annotations

import asyncio
import hashlib
import io
from pathlib import Path

import nbformat
import numpy
import pytest
from program import call, replies

from nbagent import Session
from nbagent.core.errors import UsageError
from nbagent.core.events import FileLeft, FilesLeft, StateRestored
from nbagent.faces.magic.asking import give
from nbagent.faces.magic.variables import pack
from nbagent.kernel.transfer.transfer import Transfer

LOOK = "(names, globals().get('later'), globals().get('own'))"


async def test_a_question_is_undone_and_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is as if it had not been asked, with its uploads; the next cell's note and the notebook say so."""
    first = "text = open('/workspace/note.txt').read()\nnames = [text]"
    second = "names.append(open('/workspace/.variables/note').read())\nlater = 1"
    model = replies(tmp_path / "r.jsonl", call(first), "Read.", call(second), "Added.", call("names"), "So.")
    options = {"engine": "bubblewrap", "state_dir": str(tmp_path / "state"), "mcp": False}
    async with Session(model=model, **options) as session:
        await session.upload(b"noted", "note.txt")
        await session.upload(b"second", "note", to="/workspace/.variables")
        await session.ask("Read it")
        await session.ask("Add to it")
        assert (await session.run(LOOK)).text == "(['noted', 'second'], 1, None)"
        for name in ("big1", "big2"):
            await session.upload(b"", name)
        await session.run("import glob, os\nfor each in glob.glob('/workspace/big*'): os.truncate(each, 4_000_000)")
        with monkeypatch.context() as patch:
            patch.setattr(Transfer, "bound", property(lambda _: 7_000_000))
            await session.undo_turn(2)
        left = [each.event.files for each in session.since() if isinstance(each.event, FilesLeft)]
        assert left == [[FileLeft("/workspace/big2", "is too large to be kept")]], "all of them are bounded"
        cell = await session.run(LOOK)
        assert cell.text == "(['noted'], None, None)"
        assert "Question 2 was undone" in cell.note
        with pytest.raises(UsageError, match="no question 2 to undo"):
            await session.undo_turn(2)
        await session.run("own = 7")
        await session.ask("And now?")
        written = nbformat.read(await session.export(tmp_path / "undone.ipynb"), 4)
        assert "later = 1" not in str(written)
        assert "names = [text]" in str(written)
        await session.undo_turn(2, undo=False)
        assert (await session.run(LOOK)).text == "(['noted', 'second'], 1, 7)"
        with pytest.raises(UsageError, match="no question 9 to undo"):
            await session.undo_turn(9)
        await session.undo_turn(2)
        await session.detach()
    async with await Session.connect(session.id, state_dir=str(tmp_path / "state")) as again:
        await again.undo_turn(2, undo=False)
        assert (await again.run(LOOK)).text == "(['noted', 'second'], 1, 7)"
        # What is run again can be stopped.
        await again.run("import os, time; time.sleep(60 if os.path.exists('/workspace/slow') else 0)")
        await again.upload(b"", "slow")
        undoing = asyncio.create_task(again.undo_turn(2))
        while not undoing.done():
            again.interrupt_cell()
            await asyncio.sleep(0.2)
        restored = [each.event for each in again.since() if isinstance(each.event, StateRestored)][-1]
        assert "KeyboardInterrupt" in restored.reason
        assert restored.seconds < 55, "some seconds where nothing else runs"


async def test_cells_that_read_a_notebooks_variables_run_again(tmp_path: Path) -> None:
    """Each finds the value that it was given then, also after a crash; another process says which it lacks."""
    model = replies(tmp_path / "r.jsonl", call("x[0] = 9; small[0] = 9"), "Changed.")
    options = {"engine": "bubblewrap", "state_dir": str(tmp_path / "state"), "mcp": False, "restore": "replay"}
    look = "int(x.sum()), int(first.sum()), small[0]"
    async with Session(model=model, **options) as session:
        for size in (1_000_000, 1_500_000):
            await give(session, pack("x", numpy.ones(size)))  # type: ignore[arg-type]  # of an attached one's calls
            await session.run("first = globals().get('first', x)")
        await give(session, pack("small", list(range(2_000))))  # type: ignore[arg-type]
        await session.ask("Change them")
        assert (await session.run(look)).text == "(1500008, 1000000, 9)"
        await session.undo_turn(1)
        assert (await session.run(look)).text == "(1500000, 1000000, 0)"
        died = await session.run("import os; os._exit(1)")
        assert "Cells 1, 2, 3, 4, 5, 7 and 8 succeeded" in died.note
        assert (await session.run(look)).text == "(1500000, 1000000, 0)"
        written = nbformat.read(await session.export(tmp_path / "given.ipynb"), 4)
        uploads = {each["name"]: each["sha256"] for each in written.metadata.nbagent.uploads}
        assert uploads.keys() == {"x.npy", "x-2.npy", "small.txt"}
        buffer = io.BytesIO()
        numpy.save(buffer, numpy.ones(1_500_000))
        assert uploads["x-2.npy"] == hashlib.sha256(buffer.getvalue()).hexdigest()
        await session.detach()
    async with await Session.connect(session.id, state_dir=str(tmp_path / "state")) as again:
        with pytest.raises(UsageError, match="Cells 1, 3 can't run again"):
            await again.undo_turn(1, undo=False)
        assert (await again.run(look)).text == "(1500000, 1000000, 0)"


async def test_a_variable_that_can_not_be_kept_stops_no_export(tmp_path: Path) -> None:
    """It is told once, the room that it was to take is free again, and later it is kept if it can be."""
    async with Session(engine="bubblewrap", state_dir=str(tmp_path / "state"), mcp=False) as session:
        await give(session, pack("x", numpy.ones(1_000_000)))  # type: ignore[arg-type]  # of an attached one's calls
        await session.run("x.sum()")
        folder, quota = session.folder / "variables", session._parts.files._quota  # type: ignore[union-attr]
        folder.write_text("in the way")
        before = quota.used
        for _ in range(2):
            written = nbformat.read(await session.export(tmp_path / "n.ipynb"), 4)
        assert quota.used - before < 100_000
        told = [each.event.files for each in session.since() if isinstance(each.event, FilesLeft)]
        assert told == [[FileLeft("/workspace/.variables/x.npy", "it can't be kept for a re-run: File exists")]]
        assert "needs it as a file of this name" in next(
            each.source for each in written.cells if "Uploaded" in each.source
        )
        folder.unlink()
        await session.export(tmp_path / "n.ipynb")
        assert (folder / "x.npy").stat().st_size > 8_000_000
