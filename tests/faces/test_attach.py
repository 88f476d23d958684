"""A session of a process of its own, steered from terminals, as a person does it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from program import PROGRAM, Terminal, call, environment, nbagent, replies, slowly

from nbagent.sandbox.leases import lease as leases

WORDS = " ".join(f"[bold]word{number}" for number in range(40))
REPLIES = [call("print(6 * 7)"), "It is 42.", slowly(WORDS, seconds=4)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for state, and to run in."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def owned(state: Path) -> Iterator[str]:
    """A session that a process of its own owns; its id."""
    model = replies(state / "replies.jsonl", *REPLIES)
    done = nbagent(
        "host", "-e", "bubblewrap", "--model", model, "--approvals", "ask", cwd=state, NBAGENT_STATE_DIR=str(state)
    )
    assert done.code == 0, done.err
    name = done.out.strip()
    assert f"nbagent attach {name}" in done.err
    yield name
    folder = leases.find(name, prefix=leases.HOST)
    assert folder is None


def own(folder: Path) -> dict[str, str]:
    """Variables for a terminal."""
    return {"NBAGENT_STATE_DIR": str(folder)}


def test_a_question_is_typed_approved_and_seen_elsewhere(owned: str, state: Path) -> None:
    """The one who asks is asked for approval; another terminal shows all of it, and leaving ends nothing."""
    watching = Terminal("attach", owned, "--since", "0", cwd=state, **own(state))
    watching.wait_for("> ")
    asking = Terminal("attach", owned, cwd=state, **own(state))
    asking.wait_for("> ")
    asking.type("What is six times seven?\r")
    asking.wait_for("May it?")
    watching.wait_for("> What is six times seven?")
    watching.wait_for("May it?")
    asking.type("a\r")
    for each in (asking, watching):
        each.wait_for("It is 42.")
        each.type("\x04")
        assert each.done() == 0
        assert f"nbagent attach {owned}" in each.shown


def test_words_are_seen_while_the_model_writes(owned: str, state: Path) -> None:
    """Beside the spinner, as text; the whole answer comes below."""
    terminal = Terminal("attach", owned, cwd=state, **own(state))
    terminal.wait_for("> ")
    terminal.type("And in words?\r")
    terminal.wait_for("[bold]word19")
    assert "word39" not in terminal.shown
    terminal.wait_for(" ".join(WORDS.split()[:8]))  # more than the line of the spinner has room for
    terminal.type("\x04")
    assert terminal.done() == 0


def test_ctrl_c_stops_what_another_process_started(owned: str, state: Path) -> None:
    """The cell first; pressed where nothing runs, it leaves."""
    terminal = Terminal("attach", owned, cwd=state, **own(state))
    terminal.wait_for("> ")
    command = [PROGRAM, "attach", owned, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(**own(state)), cwd=state) as cell:
        terminal.wait_for("begun")
        terminal.type("\x03")
        assert "begun" in cell.communicate(timeout=60)[0]
    assert cell.returncode == 130
    terminal.wait_for("was stopped")
    terminal.type("\x03")
    assert terminal.done() == 0


def test_a_session_that_runs_is_attached_to_by_resume(owned: str, state: Path) -> None:
    """Instead of being refused; what can't be changed there is named."""
    assert nbagent("exec", "-c", "1", "-e", "bubblewrap", cwd=state).code == 0
    done = nbagent("resume", owned, "-c", "y = 5; y", cwd=state, **own(state))
    assert (done.code, done.out.strip()) == (0, "5"), done.err
    done = nbagent("resume", owned[:-1], "-c", "y + 1", "--json", cwd=state, **own(state))
    assert json.loads(done.out)["outputs"][0]["data"]["text/plain"] == "6"
    done = nbagent("resume", owned, "-c", "1", "--model", "openai:x", cwd=state, **own(state))
    assert (done.code, "model can't be changed" in done.err) == (2, True)
    done = nbagent("attach", owned, "-c", "1 / 0", "--out", "n.ipynb", cwd=state, **own(state))
    assert (done.code, (state / "n.ipynb").exists()) == (1, True)


def test_sessions_are_named_found_and_removed(owned: str, state: Path) -> None:
    """By the commands of the manager; one that runs needs force."""
    assert nbagent("sessions", "--rename", owned, "Six times seven", cwd=state, **own(state)).code == 0
    listed = nbagent("sessions", cwd=state, **own(state)).out
    assert any(owned in line and "running" in line and "Six times seven" in line for line in listed.splitlines())
    found = json.loads(nbagent("sessions", "--search", "42", "--json", cwd=state, **own(state)).out)
    assert [(each["session"], each["where"]) for each in found["hits"]] == [(owned, "answer")]
    done = nbagent("sessions", "--delete", owned, cwd=state, **own(state))
    assert (done.code, "is running" in done.err) == (2, True)


def test_files_and_figures_are_listed_and_fetched(owned: str, state: Path, tmp_path: Path) -> None:
    """By any process, by their names; nothing here is written over."""
    code = "open('/tmp/output/t.csv', 'w').write('a,b')"
    assert nbagent("attach", owned, "-c", code, cwd=state, **own(state)).code == 0
    found = json.loads(nbagent("files", owned, "--json", cwd=state, **own(state)).out)
    assert [(each["name"], each["size"], each["content_type"]) for each in found if each["cell"]] == [
        ("t.csv", 3, "text/csv")
    ]
    assert "text/csv" in nbagent("files", owned, cwd=state, **own(state)).out
    done = nbagent("files", cwd=state, **own(state))  # of the latest session, which it names
    assert ("text/csv" in done.out, done.err) == (True, f"session: {owned}\n")
    done = nbagent("files", owned, "--save", "t.csv", cwd=tmp_path, **own(state))
    assert (done.code, done.out, (tmp_path / "t.csv").read_text()) == (0, "t.csv\n", "a,b")
    done = nbagent("files", owned, "--save", "t.csv", cwd=tmp_path, **own(state))
    assert (done.code, "is here already" in done.err) == (2, True)
    done = nbagent("files", owned, "--save", "none.csv", cwd=tmp_path, **own(state))
    assert (done.code, "no file or figure 'none.csv'" in done.err) == (2, True)


def test_the_death_of_the_owner_is_told(owned: str, state: Path) -> None:
    """To whoever looks on, with the way to go on; that finds the variables."""
    terminal = Terminal("attach", owned, cwd=state, **own(state))
    terminal.wait_for("> ")
    folder = leases.find(owned, prefix=leases.HOST)
    assert folder is not None
    terms = leases.read_terms(folder)
    assert terms is not None
    psutil.Process(terms.parts["pid"]).send_signal(signal.SIGKILL)
    terminal.wait_for(f"nbagent resume {owned}")
    assert terminal.done() == 2
    done = nbagent("resume", owned, "-c", "y", cwd=state, **own(state))
    assert (done.code, done.out.strip()) == (0, "5"), done.err
    assert nbagent("sessions", "--delete", owned, cwd=state, **own(state)).code == 0
    end = time.monotonic() + 60
    while leases.find(owned, prefix=leases.HOST) and time.monotonic() < end:
        nbagent("clean", cwd=state, **own(state))
