"""A session: questions in, events out, files and a notebook at the end, and nothing lost on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from program import TABLE, call, environment, replies

from nbagent import Limits, Session
from nbagent.core.errors import ModelError, ReplayError, StoreError, UsageError
from nbagent.core.events import (
    Answer,
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    Claim,
    DataDescribed,
    DataHashed,
    FileSaved,
    OutputAdded,
    SessionEnded,
    SessionStarted,
    Usage,
)
from nbagent.core.policy import TrustLevel
from nbagent.core.session_log import SessionLog, read_log
from nbagent.notebook.record import record
from nbagent.sandbox.machine import reaper
from nbagent.session.checks import MAX_QUESTION

ENGINE = "bubblewrap"
READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')\ndf.height"
WRONG = "df['speces']"
RIGHT = "df.write_csv('/tmp/output/all of it.csv')\ndf['bill'].max()"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table in a CSV file."""
    path = tmp_path_factory.mktemp("data") / "table.csv"
    path.write_text(TABLE)
    return path


class Story:
    """A session that answered one question, with all that it told on the way."""

    def __init__(self, session: Session, answer: Answer, seen: list[Any]) -> None:
        self.session = session
        self.answer = answer
        self.seen = seen


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(table: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    """One question whose first cell works, whose second fails and whose third mends it; the session runs on."""
    folder = tmp_path_factory.mktemp("story")
    model = replies(
        folder / "r.jsonl", call(READ, say="Let me look."), call(WRONG), call(RIGHT), "48.9 mm, a Chinstrap."
    )
    seen: list[Any] = []
    async with Session(model=model, data=[table], engine=ENGINE) as session:
        async for each in session.stream("Which penguin has the longest bill?"):
            seen.append((each, len(list(read_log(session.folder)))))
        yield Story(session, session.history[0], seen)


on_one_loop = pytest.mark.asyncio(loop_scope="module")


@on_one_loop
async def test_an_answer_has_its_text_cells_files_and_usage(story: Story) -> None:
    """Success is the model's own end and a last cell without an error; each failed cell is one more attempt."""
    answer = story.answer
    assert (answer.text, answer.success, answer.attempts, answer.turn) == ("48.9 mm, a Chinstrap.", True, 2, 1)
    assert [cell.status for cell in answer.cells] == ["ok", "error", "ok"]
    assert [cell.text for cell in answer.cells] == ["5", "", "48.9"]
    assert answer.usage == Usage(calls=4, cost=0.0)
    (file,) = answer.files
    assert (file.name, file.read_text()) == ("all of it.csv", TABLE)
    assert answer.cells[2].files == ["all of it.csv"]
    assert story.session.history == [answer]
    assert (answer.claims, answer.unsupported) == ([Claim("48.9", cell=3, output=0, shown="48.9")], [])


@on_one_loop
async def test_events_are_streamed_as_they_happen(story: Story) -> None:
    """Each event is in the log when it is shown, from the question to the answer, without gaps."""
    records = [each for each, _ in story.seen]
    assert all(written >= each.seq for each, written in story.seen)
    assert [each.seq for each in records] == list(range(records[0].seq, records[0].seq + len(records)))
    # The data is hashed beside all this, and the hashes come when they are known.
    kinds = [type(each.event) for each in records if not isinstance(each.event, DataHashed)]
    assert kinds[:2] == [DataDescribed, Asked]
    assert isinstance(records[-1].event, Answered)
    times = [each.at for each in records]
    assert times == sorted(times)
    assert kinds.count(CellStarted) == kinds.count(CellFinished) == 3
    assert kinds.count(FileSaved) == 1


@on_one_loop
async def test_the_log_tells_the_whole_session(story: Story) -> None:
    """The first record says what it runs on; the recording of the log is that of the session."""
    records = list(read_log(story.session.folder))
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    started = records[0].event
    assert isinstance(started, SessionStarted)
    assert (started.session, started.engine, started.trust) == (story.session.id, ENGINE, "isolated")
    assert started.environment.startswith("sha256:")
    assert [each.path for each in started.data] == ["/tmp/data/table.csv"]
    assert [cell.status for cell in record(records).cells][:3] == ["ok", "error", "ok"]


@on_one_loop
async def test_a_persons_own_cell_shares_the_variables(story: Story) -> None:
    """`run` sees what the answer's cells defined, and belongs to no turn."""
    cell = await story.session.run("df.head(1)['species'].item()")
    assert (cell.success, cell.text) == (True, "'Adelie'")
    events = [each.event for each in read_log(story.session.folder)]
    assert [event.turn for event in events if isinstance(event, CellStarted)][-1] == 0


@on_one_loop
async def test_data_is_there_and_read_only(story: Story) -> None:
    """Code can't change the person's files."""
    cell = await story.session.run("open('/tmp/data/table.csv', 'a')")
    assert cell.status == "error"
    assert cell.outputs[-1]["ename"] in ("OSError", "PermissionError")


@on_one_loop
@pytest.mark.parametrize(
    "code", ["def", "x = 'a", "", "   \n", "# only a comment", "\ud800", "print('\\ud800')", "'\\ud800'"]
)
async def test_code_of_any_kind_is_run_to_an_end(story: Story, code: str) -> None:
    """Nothing, half a statement and half a surrogate pair leave a session that goes on."""
    await story.session.run(code)
    assert (await story.session.run("1 + 1")).text == "2"


@on_one_loop
async def test_code_with_nul_characters_is_refused(story: Story) -> None:
    """What no Python takes is said before it is sent."""
    with pytest.raises(UsageError, match="NUL"):
        await story.session.run("x = '\0'")
    assert (await story.session.run("1 + 1")).text == "2"


@on_one_loop
async def test_a_cell_can_be_stopped(story: Story) -> None:
    """`interrupt_cell` stops what runs, keeps the variables, and says whether there was something."""
    assert not story.session.interrupt_cell()
    told = asyncio.Event()
    unfollow = story.session.follow(lambda record: told.set() if isinstance(record.event, OutputAdded) else None)
    running = asyncio.create_task(story.session.run("import time\nkept = 5\nprint(kept, flush=True)\ntime.sleep(60)"))
    await told.wait()
    unfollow()
    assert story.session.interrupt_cell()
    assert (await running).status == "interrupted"
    assert (await story.session.run("kept")).text == "5"


@on_one_loop
async def test_replies_that_ran_out_are_told_and_the_session_goes_on(story: Story) -> None:
    """The question fails with a sentence; what it did is kept, and so is the kernel."""
    with pytest.raises(ReplayError) as caught:
        await story.session.ask("And the heaviest?")
    assert str(caught.value)
    last = [each.event for each in read_log(story.session.folder)][-1]
    assert isinstance(last, Answered)
    assert not last.success
    assert story.session.unfinished is not None
    assert (await story.session.run("df.height")).text == "5"


@on_one_loop
@pytest.mark.parametrize(
    "question", ["", "  \n\t ", "\0", "x" * (MAX_QUESTION + 1)], ids=["none", "blank", "NUL", "long"]
)
async def test_a_question_of_nothing_or_too_much_is_refused(story: Story, question: str) -> None:
    """Neither costs a call of the model nor a turn."""
    turns = story.session.turns
    with pytest.raises(UsageError):
        await story.session.ask(question)
    assert story.session.turns == turns


@on_one_loop
async def test_a_notebook_can_be_exported_at_any_time(story: Story, tmp_path: Path) -> None:
    """It is valid, holds what ran, and its path is absolute; where it can't be written, that is said."""
    path = await story.session.export(tmp_path / "a.ipynb")
    assert path.is_absolute()
    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    (question,) = [cell for cell in notebook.cells if cell.id == "question-1"]
    assert "Which penguin" in question.source
    with pytest.raises(StoreError, match="is a folder"):
        await story.session.export(tmp_path)


@on_one_loop
async def test_a_running_session_cannot_be_started_or_opened_again(story: Story) -> None:
    """A session has one life and one owner."""
    with pytest.raises(UsageError, match="running"):
        await story.session.start()
    other = Session(session=story.session.id, engine=ENGINE)
    with pytest.raises(StoreError, match="in use by another process"):
        await other.start()
    assert other.status == "stopped"
    await other.stop()


async def test_a_session_that_is_not_running_says_so(more: Callable[[], list[str]]) -> None:
    """Before the start and after the stop each call is refused; stopping is allowed at any time, and ends all."""
    session = Session(engine=ENGINE)
    for call_ in (session.run("1"), session.ask("?")):
        with pytest.raises(UsageError, match="not started"):
            await call_
    with pytest.raises(UsageError, match="not started"):
        _ = session.folder
    await session.start()
    folder = session.folder
    await session.stop()
    await session.stop()
    assert isinstance(list(read_log(folder))[-1].event, SessionEnded)
    with pytest.raises(UsageError, match="was stopped"):
        await session.run("1")
    assert more() == []


async def test_a_second_question_waits_for_nobody(tmp_path: Path) -> None:
    """While one question is answered another is refused; a stopped one leaves a session that answers the next."""
    model = replies(tmp_path / "r.jsonl", call("x = 1\nimport time\ntime.sleep(60)"), call("x"), "One.")
    async with Session(model=model, engine=ENGINE) as session:
        asking = asyncio.create_task(session.ask("Wait"))
        while not any(isinstance(each.event, CellStarted) for each in read_log(session.folder)):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        with pytest.raises(UsageError, match="Another question"):
            await session.ask("And?")
        session.interrupt()
        with pytest.raises(asyncio.CancelledError):
            await asking
        stopped = [each.event for each in read_log(session.folder)][-1]
        assert isinstance(stopped, Answered)
        assert (stopped.text, stopped.success) == ("Stopped.", False)
        answer = await session.ask("Again")
        assert (answer.text, answer.cells[-1].text) == ("One.", "1")
        path = await session.export(tmp_path / "n.ipynb")
    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "Stopped." in "\n".join(cell.source for cell in notebook.cells)


async def test_leaving_a_stream_stops_the_question(tmp_path: Path, more: Callable[[], list[str]]) -> None:
    """Whoever stops reading events stops what makes them, and the session ends without waiting."""
    model = replies(tmp_path / "r.jsonl", call("import time\ntime.sleep(60)"), "Done.")
    started = time.monotonic()
    async with Session(model=model, engine=ENGINE) as session:
        events = session.stream("Wait")
        async for each in events:
            if isinstance(each.event, CellStarted):
                break
        await events.aclose()
    assert time.monotonic() - started < 30
    assert more() == []


async def test_data_of_every_kind_is_seen(tmp_path: Path) -> None:
    """Files and folders are at /tmp/data under their own names, whatever the names and the modes."""
    names = ["a b.csv", "quo'te\".csv", "new\nline.txt", "penguin 🐧.txt", "private.txt", "empty"]
    for name in names:
        (tmp_path / name).write_text(name if name != "empty" else "")
    (tmp_path / "private.txt").chmod(0o600)
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "x.txt").write_text("deep")
    (tmp_path / "link.txt").symlink_to("a b.csv")
    with (tmp_path / "sparse.bin").open("wb") as file:
        file.truncate(2 * 1024**3)
    given = [*(tmp_path / name for name in names), tmp_path / "folder", tmp_path / "sparse.bin"]
    async with Session(data=given, engine=ENGINE) as session:
        cell = await session.run(
            "import os\nos.chdir('/tmp/data')\n{name: open(name).read() for name in os.listdir() if name.endswith('t')}"
        )
        assert cell.success, cell.outputs
        assert "'private.txt': 'private.txt'" in cell.text
        cell = await session.run("print((sorted(os.listdir('/tmp/data')), open('/tmp/data/folder/sub/x.txt').read()))")
        assert cell.text == repr((sorted([*names, "folder", "sparse.bin"]), "deep"))
        assert (await session.run("os.path.getsize('/tmp/data/sparse.bin')")).text == "2147483648"


def test_what_a_session_is_asked_for_is_checked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown trust level or engine, and limits of nothing, are refused before anything is started."""
    for wrong in (
        {"trust": "root"},
        {"engine": "chroot"},
        {"timeout": 0},
        {"timeout": -1},
        {"memory_mb": 0},
        {"data": tmp_path / "nothing"},
    ):
        with pytest.raises(UsageError):
            Session(**wrong)  # type: ignore[arg-type]
    monkeypatch.setenv("NBAGENT_ENGINE", "chroot")
    with pytest.raises(UsageError, match="chroot"):
        Session()


def test_limits_given_whole_are_taken_whole() -> None:
    """`limits` replaces the trust level's, and the level stays what it is."""
    session = Session(trust="untrusted", limits=Limits(memory_mb=300))
    assert session._plan.spec.trust.limits == Limits(memory_mb=300)
    assert session._plan.spec.trust.level is TrustLevel.UNTRUSTED


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("nonsense", ModelError),
        ("nobody:x", ModelError),
        ("replay:/nowhere.jsonl", ReplayError),
        ("replay:", ModelError),
        ("openai:gpt-5", ModelError),
    ],
)
async def test_a_model_that_cannot_be_had_is_told(
    model: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch, more: Callable[[], list[str]]
) -> None:
    """Its name, its file or its key is what is wrong; no sandbox is left of the attempt."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    session = Session(model=model, engine=ENGINE)
    with pytest.raises(kind):
        await session.start()
    assert session.status == "stopped"
    assert more() == []


async def test_a_broken_line_of_a_replay_is_told_by_number(tmp_path: Path) -> None:
    """Whoever wrote the file finds the place."""
    (tmp_path / "r.jsonl").write_text('{"content": "a"}\n\n{"content": \n')
    with pytest.raises(ReplayError, match="line 3"):
        await Session(model=f"replay:{tmp_path}/r.jsonl", engine=ENGINE).start()


async def test_a_state_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The sentence names the folder and the setting, and no sandbox is started."""
    (tmp_path / "file").touch()
    session = Session(engine=ENGINE, state_dir=tmp_path / "file")
    with pytest.raises(StoreError, match="NBAGENT_STATE_DIR"):
        await session.start()


KILLED = """
import asyncio, sys
from nbagent import Session

async def main():
    async with Session(model=sys.argv[1], engine="bubblewrap", session="killed") as session:
        print("running", flush=True)
        await session.ask("Go on for long")

asyncio.run(main())
"""


@pytest.mark.parametrize("moment", ["SessionStarted", '"cell":1', "halfway", '"cell":3', "Answered"])
def test_a_killed_process_loses_at_most_the_running_cell(
    tmp_path: Path, home: Path, moment: str, leftovers: Callable[[], list[str]]
) -> None:
    """The log of a session that was killed is whole up to then, makes a notebook, and nothing of the sandbox stays."""
    before = set(leftovers())
    slow = "import time\nprint('halfway', flush=True)\ntime.sleep(0.5)"
    model = replies(tmp_path / "r.jsonl", call("1 + 1"), call(slow), call("2 + 2"), call("3 + 3"), "Done.")
    state = home / "state-of-killed" / tmp_path.name
    log = state / "sessions" / "killed" / "log.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, model],
        env=environment(NBAGENT_STATE_DIR=str(state)),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and not (log.exists() and moment in log.read_text()):
        time.sleep(0.002)
    seen = log.read_text().count("\n")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    records = list(read_log(log.parent))
    assert len(records) >= seen > 0
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    cells = record(records).cells
    assert all(cell.status == "ok" for cell in cells[:-1])
    log = SessionLog(state, "killed")
    assert log.emit(SessionEnded()).seq == len(records) + 1
    log.close()
    # Its kernel waits to be taken over, until somebody cleans up.
    reaper.sweep(waiting=True)
    assert set(leftovers()) <= before


HOSTILE = """
print("9" * 1_000_001, "1e999999999", "[" * 100_000, chr(0), "\\x1b]0;x\\x07", "\\u202e", "```" * 1000)
for data in ({"application/json": [1, 10**4000]}, {"text/plain": 5}, {"image/png": "no picture"},
             {"text/html": "<img " * 50_000}, {"image/svg+xml": "<svg>" * 50_000}, {"text/plain": "\\udcff"}):
    display(data, raw=True)
"""


async def test_whatever_a_cell_prints_the_turn_ends_well(tmp_path: Path) -> None:
    """Numbers of a million digits, bundles of wrong types and the like, in outputs and in the answer itself."""
    model = replies(tmp_path / "r.jsonl", call(HOSTILE), "It is 7777.5, 1e999999999 or " + "9" * 1_000_001)
    async with Session(model=model, engine=ENGINE) as session:
        answer = await session.ask("How many?")
        assert answer.success
        assert [cell.status for cell in answer.cells] == ["ok"]
        assert "7777.5" in answer.unsupported
        notebook = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
    nbformat.validate(notebook)
    assert "9" * 1_000_001 in str(notebook)
