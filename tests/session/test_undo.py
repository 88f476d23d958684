"""What a question did to the kernel is taken back, and that too, by running the other cells again in a new one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import machine
import nbformat
import pytest
from program import call, replies

from nbagent import Session
from nbagent.core.errors import UsageError
from nbagent.core.events import StateRestored
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.paths import VARIABLES

LOOK = "(names, globals().get('later'), globals().get('own'))"
GIVEN = f"given = len(open('{VARIABLES}/given.txt').read())"


async def test_a_question_is_undone_and_brought_back(tmp_path: Path) -> None:
    """The kernel is as if it had not been asked, with its uploads; the next cell's note and the notebook say so."""
    first = "text = open('/workspace/note.txt').read()\nnames = [text]"
    second = "names.append('second')\nlater = 1"
    model = replies(tmp_path / "r.jsonl", call(first), "Read.", call(second), "Added.", call("names"), "So.")
    options = {"engine": "bubblewrap", "state_dir": str(tmp_path / "state"), "mcp": False}
    memory = SealedMemory()
    memory.add(b"x" * 5 * 2**20)
    memory.seal()
    async with Session(model=model, **options) as session:
        await session.upload(memory.path, "given.txt", to=VARIABLES)
        await session.run(GIVEN)
        await session.upload(b"noted", "note.txt")
        await session.ask("Read it")
        await session.ask("Add to it")
        assert (await session.run(LOOK)).text == "(['noted', 'second'], 1, None)"
        await session.undo_turn(2)
        cell = await session.run(LOOK)
        assert cell.text == "(['noted'], None, None)"
        assert (await session.run("given")).text == "5242880", "its file was there for one cell only"
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
        await session.upload(memory.path, "given.txt", to=VARIABLES)
        await session.run(GIVEN)
        await session.detach()
    async with await Session.connect(session.id, state_dir=str(tmp_path / "state")) as again:
        with pytest.raises(UsageError, match="The variable given is needed"):
            await again.undo_turn(2, undo=False)
        assert (await again.run("(given, names)")).text == "(5242880, ['noted'])", "nothing was lost"
        await again.upload(memory.path, "given.txt", to=VARIABLES)
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
        assert restored.seconds < 600 * machine.pace(), "some seconds where nothing else runs"
