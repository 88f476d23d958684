"""Sessions for scripts: each call waits, whoever owns the session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from program import TABLE, call, environment, replies

from nbagent import BlockingSession
from nbagent.core.errors import ModelError, UsageError
from nbagent.session.catalog import session_list

ENGINE = "bubblewrap"
READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')\ndf.height"


def test_a_session_is_left_and_gone_on_with(tmp_path: Path) -> None:
    """`detach` waits until the kernel is let go of; `connect` takes it over with its variables, and `stop` ends it."""
    session = BlockingSession(engine="bubblewrap", state_dir=tmp_path)
    with session:
        session.run("x = 41")
        session.detach()
    assert session_list.info_of(tmp_path, session.id).state == "waiting"
    with BlockingSession.connect(session.id, state_dir=tmp_path) as again:
        assert again.run("x + 1").text == "42"
        assert again.system_prompt().startswith("You")  # a coroutine without a form of its own here
        with BlockingSession.attach(session.id, state_dir=tmp_path) as guest:
            assert guest.run("x + 2").text == "43"
            assert guest.export(tmp_path / "n.ipynb").is_file()
            guest.rename("Mine")
            assert guest.approve("a1") is False
        assert again.run("x").text == "41"
        again.stop()
    assert [(each.state, each.title) for each in session_list.listed(tmp_path)] == [("ended", "Mine")]
    with pytest.raises(UsageError, match="was stopped"):
        again.run("x")
    with pytest.raises(UsageError, match="No process"):
        BlockingSession.attach(session.id, state_dir=tmp_path)


def test_a_blocking_session_does_the_same(tmp_path: Path) -> None:
    """Each call waits: a question, a cell, the notebook; what a session has is had through it."""
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    model = replies(tmp_path / "r.jsonl", call(READ), "Five rows.")
    with BlockingSession(model=model, data=str(table), engine=ENGINE) as session:
        answer = session.ask("How many?")
        assert (answer.text, answer.success, answer.cells[0].text) == ("Five rows.", True, "5")
        assert session.run("df.height * 2").text == "10"
        assert session.export(tmp_path / "n.ipynb").is_file()
        assert (session.engine, session.trust, session.history) == (ENGINE, "isolated", [answer])
    with pytest.raises(UsageError, match="was stopped"):
        session.run("1")
    session.stop()
    assert not [each for each in threading.enumerate() if each.name == "nbagent-session"]


def test_a_blocking_session_that_cannot_start_leaves_no_thread() -> None:
    """A wrong model's complaint comes through, and the loop's thread ends."""
    with pytest.raises(ModelError), BlockingSession(model="nonsense", engine=ENGINE):
        pass
    with pytest.raises(UsageError):
        BlockingSession(trust="root")
    assert not [each for each in threading.enumerate() if each.name == "nbagent-session"]


CTRL_C = """
import json, sys
from nbagent import BlockingSession

with BlockingSession(model=sys.argv[1], engine="bubblewrap") as session:
    for action in (lambda: session.run("kept = 7\\nimport time\\ntime.sleep(60)"), lambda: session.ask("Wait")):
        print("begun", flush=True)
        try:
            action()
        except KeyboardInterrupt:
            print(json.dumps(session.run("kept").text), flush=True)
"""


def test_ctrl_c_in_a_blocking_session_stops_the_call_only(tmp_path: Path, more: Callable[[], list[str]]) -> None:
    """KeyboardInterrupt is raised at once, the variables are kept and the session goes on."""
    model = replies(tmp_path / "r.jsonl", call("import time\ntime.sleep(60)"), "Done.")
    process = subprocess.Popen(
        [sys.executable, "-c", CTRL_C, model],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    for _ in range(2):
        lines.append(process.stdout.readline().strip())
        time.sleep(2.5)
        pressed = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        lines.append(json.loads(process.stdout.readline()))
        assert time.monotonic() - pressed < 30
    assert lines == ["begun", "7", "begun", "7"]
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert more() == []
