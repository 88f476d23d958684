"""What happens at the same time in a session, or in its middle: nothing is lost, mixed up or blamed on another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from program import call, replies

from nbagent import BlockingSession, Session
from nbagent.core.errors import ReplayError, UsageError
from nbagent.core.events import CellFinished, FileSaved, LateOutputAdded, StateLost

ENGINE = "bubblewrap"
STUBBORN = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass"
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session]:
    """A session without a model, for all tests that leave it working."""
    async with Session(engine=ENGINE) as session:
        yield session


@on_one_loop
async def test_what_a_thread_prints_later_belongs_to_its_cell(session: Session, told: list[Any]) -> None:
    """Files are collected behind each cell by silent requests, and what a thread prints is sent under their name."""
    printing = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.5), print('late'))).start()"
    cell = await session.run(printing)
    await asyncio.sleep(1)
    await session.run("1")
    late = [event for event in told if isinstance(event, LateOutputAdded)]
    assert [(each.cell, each.output["text"]) for each in late] == [(cell.cell, "late\n")]


@on_one_loop
async def test_files_belong_to_the_cell_that_wrote_them(session: Session, told: list[Any]) -> None:
    """Also when the next cell waits already, and each is saved once."""
    first, second = await asyncio.gather(
        session.run("open('/tmp/output/a.txt', 'w').write('a')"),
        session.run("open('/tmp/output/b.txt', 'w').write('b')"),
    )
    assert (first.files, second.files) == (["a.txt"], ["b.txt"])
    assert [event.cell for event in told if isinstance(event, FileSaved)] == [first.cell, second.cell]


@on_one_loop
async def test_a_cell_that_was_given_up_has_an_end(session: Session, told: list[Any]) -> None:
    """What it had shown is in the log, and the next cell is not blamed."""
    running = asyncio.create_task(session.run("print('part', flush=True)\nimport time\ntime.sleep(60)"))
    await asyncio.sleep(0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (ended,) = [event for event in told if isinstance(event, CellFinished)]
    assert ended.status == "interrupted"
    assert ended.outputs[0]["text"] == "part\n"
    assert (await session.run("print(5)")).text == "5"


@on_one_loop
async def test_a_kernel_that_ended_between_cells_is_replaced(session: Session, told: list[Any]) -> None:
    """The next cell runs, and hears of the loss."""
    await session.run("import os, threading\nthreading.Timer(0.3, os._exit, [9]).start()")
    await asyncio.sleep(1)
    cell = await session.run("print('innocent')")
    assert (cell.status, cell.text) == ("ok", "innocent")
    assert any(isinstance(event, StateLost) for event in told)


@on_one_loop
async def test_a_forged_count_does_not_spoil_the_notebook(session: Session, tmp_path: Path) -> None:
    """What a kernel claims to have counted may be anything."""
    await session.run("get_ipython().execution_count = -5")
    nbformat.validate(nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4))


async def test_a_cell_given_up_twice_costs_its_kernel_only() -> None:
    """Cancelled while it is being stopped, a cell that won't stop is left behind; the next one gets a new kernel."""
    async with Session(engine=ENGINE) as session:
        running = asyncio.create_task(session.run(STUBBORN))
        await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.sleep(0.5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await session.run("print(5)", timeout=60)).text == "5"


async def test_a_persons_cell_is_no_part_of_the_answer(tmp_path: Path) -> None:
    """While a question is answered, a cell that fails changes neither its success nor where its answer stands."""
    model = replies(tmp_path / "r.jsonl", call("import time\ntime.sleep(1)"), call("2"), "Two.")
    async with Session(engine=ENGINE, model=model) as session:
        asking = asyncio.create_task(session.ask("How many?"))
        while session.turns == 0:
            await asyncio.sleep(0.05)
        own = await session.run("1/0")
        answer = await asking
        assert own.status == "error"
        assert answer.success
        assert [cell.code for cell in answer.cells] == ["import time\ntime.sleep(1)", "2"]
    notebook = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
    assert notebook.cells[-1].source == "### Answer\n\nTwo."


async def test_leaving_a_stream_leaves_a_session_that_answers(tmp_path: Path) -> None:
    """Who closes the stream early can ask again."""
    model = replies(tmp_path / "r.jsonl", call("import time\ntime.sleep(2)"), "Again.")
    async with Session(engine=ENGINE, model=model) as session:
        async with contextlib.aclosing(session.stream("first")) as events:
            async for _ in events:
                if session.turns:
                    break
        # How far the first question came decides which reply is next; either way there is an end.
        with contextlib.suppress(ReplayError):
            await asyncio.wait_for(session.ask("second"), 60)


async def test_a_turn_that_failed_tells_what_it_used(tmp_path: Path) -> None:
    """Tokens that were paid for are counted, though there is no answer."""
    used = call("1") | {"usage": {"input_tokens": 10, "output_tokens": 5}}
    async with Session(engine=ENGINE, model=replies(tmp_path / "r.jsonl", used)) as session:
        with pytest.raises(ReplayError):
            await session.ask("How many?")
        assert session.unfinished is not None
        assert (session.unfinished.usage.input_tokens, session.unfinished.usage.output_tokens) == (10, 5)


async def test_a_cell_before_the_start_is_refused() -> None:
    """It doesn't get in the way of a kernel that is starting."""
    session = Session(engine=ENGINE)
    with pytest.raises(UsageError, match="not started"):
        await session.run("1")


def test_a_blocking_session_streams(tmp_path: Path) -> None:
    """Events come one by one, as with the other form."""
    model = replies(tmp_path / "r.jsonl", call("1+1"), "Two.")
    with BlockingSession(engine=ENGINE, model=model) as session:
        names = [type(record.event).__name__ for record in session.stream("How many?")]
    assert (names[0], names[-1]) == ("Asked", "Answered")
