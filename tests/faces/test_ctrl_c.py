"""Ctrl-C in the program `nbagent`: it stops the cell, then all, and nothing is left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from program import PROGRAM, Done, call, environment, nbagent, replies

ENGINE = ("--engine", "bubblewrap")
STUBBORN = """
import time
print('begun', flush=True)
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""


class Pressed:
    """The program in a process group of its own, to be stopped by Ctrl-C once a cell has said that it runs."""

    def __init__(self, *words: str, cwd: Path, state: Path) -> None:
        self.state = state
        self.process = subprocess.Popen(
            [PROGRAM, *words, *ENGINE],
            cwd=cwd,
            env=environment(NBAGENT_STATE_DIR=str(state)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_for(self, text: str, *, seconds: float = 60) -> None:
        """Wait until the session's log has this text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(text in log.read_text() for log in self.state.glob("sessions/*/log.jsonl")):
                return
            time.sleep(0.02)
        raise AssertionError(f"{text!r} never came")

    def press(self) -> None:
        """As a terminal does it: to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def done(self, *, seconds: float = 30) -> Done:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=seconds)
        return Done(self.process.returncode, out.decode(), err.decode())


def test_ctrl_c_once_stops_the_cell_and_the_model_is_told(here: Path, leftovers: Callable[[], list[str]]) -> None:
    """The session goes on with its variables, and the answer comes."""
    code = "kept = 5\nprint('beg' + 'un', flush=True)\nimport time\ntime.sleep(60)"
    model = replies(here / "f.jsonl", call(code), call("kept"), "Done.")
    program = Pressed("run", "?", "-m", model, "--json", cwd=here, state=here / "state")
    program.wait_for("begun")
    program.press()
    done = program.done()
    assert done.code == 0
    assert [cell["status"] for cell in done.json["cells"]] == ["interrupted", "ok"]
    assert done.json["cells"][1]["outputs"][0]["data"]["text/plain"] == "5"
    assert leftovers() == []


@pytest.mark.parametrize("presses", [2, 20])
def test_ctrl_c_twice_ends_all(here: Path, presses: int, leftovers: Callable[[], list[str]]) -> None:
    """Whatever the cell does, in seconds: exit code 130, one JSON object, the notebook, and nothing of the sandbox."""
    model = replies(here / "f.jsonl", call("first = 1"), call(STUBBORN), "Done.")
    program = Pressed("run", "?", "-m", model, "--json", "-o", "n.ipynb", cwd=here, state=here / "state")
    program.wait_for("begun\\n")
    pressed = time.monotonic()
    for _ in range(presses):
        if program.process.poll() is None:
            program.press()
        time.sleep(0.15)
    done = program.done()
    assert time.monotonic() - pressed < 30
    assert done.code == 130
    assert (done.json["success"], done.json["error"]) == (False, "It was stopped.")
    assert done.json["cells"][0]["code"] == "first = 1"
    assert "Traceback" not in done.err
    assert "first = 1" in (here / "n.ipynb").read_text()
    assert leftovers() == []


def test_ctrl_c_in_exec_stops_it(here: Path, leftovers: Callable[[], list[str]]) -> None:
    """The cell is interrupted, what it said is kept, and the exit code is 130."""
    code = "print('beg' + 'un', flush=True)\nimport time\ntime.sleep(60)"
    program = Pressed("exec", "-c", code, "--json", cwd=here, state=here / "state")
    program.wait_for("begun")
    program.press()
    done = program.done()
    assert (done.code, done.json["status"]) == (130, "interrupted")
    assert done.json["outputs"][0]["text"] == "begun\n"
    assert leftovers() == []


@pytest.mark.parametrize("after", [0.2, 0.5, 0.8])
def test_ctrl_c_while_all_starts_ends_it(here: Path, after: float, leftovers: Callable[[], list[str]]) -> None:
    """Before the first cell there is nothing to stop but all: no traceback, and nothing stays."""
    started = time.monotonic()
    nbagent("--version", cwd=here)
    until_it_listens = 2 * (time.monotonic() - started)  # before that, Python itself answers Ctrl-C
    program = Pressed("exec", "-c", "import time; time.sleep(60)", cwd=here, state=here / "state")
    time.sleep(until_it_listens + after)
    program.press()
    time.sleep(0.3)
    if program.process.poll() is None:
        program.press()
    done = program.done()
    assert done.code == 130
    assert done.err.strip()  # it says that it stopped, and not in a traceback
    assert "asyncio" not in done.err
    assert "nbagent/" not in done.err
    assert leftovers() == []


def test_a_terminal_sees_colours_and_its_ctrl_c_works(here: Path, leftovers: Callable[[], list[str]]) -> None:
    """On a real terminal output is coloured, hostile escapes are not there, and the key itself stops the cell."""
    code = "print('\\x1b[32mgreen\\x1b[0m \\x1b]0;evil\\x07\\x1b[2Jend', flush=True)\nimport time\ntime.sleep(60)"
    variables = environment(NBAGENT_STATE_DIR=str(here / "state"), TERM="xterm")
    del variables["NO_COLOR"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(here)
        os.execve(PROGRAM, [str(PROGRAM), "exec", "-c", code, *ENGINE], variables)  # noqa: S606
    shown = b""
    end = time.monotonic() + 60
    while b"green" not in shown and time.monotonic() < end:
        shown += os.read(terminal, 65536)
    time.sleep(0.3)
    os.write(terminal, b"\x03")
    try:
        while time.monotonic() < end:
            shown += os.read(terminal, 65536)
    except OSError:
        pass  # the program has ended
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"\x1b[32mgreen\x1b[0m end" in shown
    assert b"\x1b]0;evil" not in shown
    assert b"KeyboardInterrupt" in shown
    assert leftovers() == []
