"""The commands about sessions, run as a person runs them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import PROGRAM, call, environment, nbagent, replies

from nbagent.core.text import plain
from nbagent.faces.cli import sessions
from nbagent.sandbox.leases import lease as leases
from nbagent.session.catalog import summary


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for state, and to run in."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def waiting(request: pytest.FixtureRequest, state: Path) -> Iterator[str]:
    """A session whose kernel waits to be resumed; its id."""
    done = nbagent("exec", "-e", request.param, "--keep", "-c", "x = 7", cwd=state, NBAGENT_STATE_DIR=str(state))
    name = done.err.strip().rsplit(" ", 1)[-1]
    assert done.code == 0, done.err
    yield name
    nbagent("clean", cwd=state, NBAGENT_STATE_DIR=str(state))


@pytest.fixture
def run(state: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs the program; its code, stdout and stderr."""

    def work(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        done = nbagent(*words, cwd=state, stdin=stdin, NBAGENT_STATE_DIR=str(state))
        return done.code, done.out, done.err

    return work


Run = Callable[..., tuple[int, str, str]]


def test_what_waits_is_listed(waiting: str, run: Run) -> None:
    """As a table with the way to go on, and as JSON."""
    code, out, _ = run("sessions")
    assert code == 0
    assert any(waiting in line and "waiting" in line for line in out.splitlines())
    assert "nbagent resume" in out
    found = {each["id"]: each for each in json.loads(run("sessions", "--json")[1])}
    assert (found[waiting]["state"], found[waiting]["trust"]) == ("waiting", "isolated")


def test_a_shell_runs_inside(waiting: str, run: Run) -> None:
    """With the sandbox's user, files and limits, and with the exit code of the shell's."""
    code, out, _ = run("shell", waiting, stdin=b"id -u; ls /tmp /root/.ssh; echo left > /workspace/f; exit 3\n")
    assert code == 3
    lease = leases.find(waiting)
    assert lease is not None
    terms = leases.read_terms(lease)
    assert terms is not None
    assert out.splitlines()[0] == str(terms.uid)
    assert "data" in out
    again, out, _ = run("shell", waiting, stdin=b"cat /workspace/f; unshare -U true; grep Seccomp: /proc/self/status")
    assert "left" in out
    assert "Seccomp:\t2" in out
    assert again == 0


def test_a_shell_on_a_terminal_has_its_size(waiting: str, state: Path) -> None:
    """Keys go in one by one, the window's size is known inside, and what would do more than draw is taken out."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 97, 0, 0))
    process = subprocess.Popen(
        [PROGRAM, "shell", waiting], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=state,
        env=environment(NBAGENT_STATE_DIR=str(state)),
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    typed = False
    end = time.monotonic() + 60
    while time.monotonic() < end and (process.poll() is None or select.select([ours], [], [], 0.2)[0]):
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            seen += os.read(ours, 65536)
        except OSError:
            break
        if b"$ " in seen and not typed:
            typed = True
            os.write(ours, b"printf '\\033]52;c;aGk=\\007shown\\n'; stty size; exit 4\n")
    os.close(ours)
    assert process.wait(timeout=60) == 4
    assert b"41 97" in seen
    assert b"shown" in seen
    assert b"\x1b]52" not in seen


def test_variables_outlive_the_command(waiting: str, run: Run, state: Path) -> None:
    """Code and questions find what earlier commands left, until the kernel is removed; then the person is told."""
    code, out, err = run("resume", waiting, "--keep", "-c", "print(x); x += 1")
    assert (code, out.strip()) == (0, "7"), err
    assert "taken over" in err
    model = replies(state / "r.jsonl", call("print(x)"), "It is 8.")
    code, out, err = run("resume", waiting[:-1], "What is x?", "-m", model, "--keep")
    assert (code, out.strip()) == (0, "It is 8.")
    assert run("resume", waiting, "--json", "-c", "x")[0] == 0
    assert run("clean")[0] == 0
    code, out, err = run("resume", waiting, "-c", "'x' in globals()")
    assert (code, out.strip()) == (0, "False")
    assert "lost" in err
    assert run("shell", waiting)[0] == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("resume", "nope", "-c", "1"), "no session 'nope'"),
        (("resume", "nope"), "no session 'nope'"),
        (("shell", "nope"), "no session 'nope'"),
        (("clean", "--max-age", "soon"), "'soon' is no time"),
        (("clean", "--sessions", "old"), "'old' is no time"),
    ],
)
def test_what_isn_t_there_is_a_sentence(words: tuple[str, ...], complaint: str, run: Run) -> None:
    """With the code for wrong use."""
    code, _, err = run(*words)
    assert code == 2
    assert complaint in err


def test_clean_ends_what_waits_and_says_so(run: Run, state: Path) -> None:
    """What is younger than --max-age stays."""
    done = nbagent("exec", "-e", "bubblewrap", "--keep", "-c", "1", cwd=state, NBAGENT_STATE_DIR=str(state))
    name = done.err.strip().rsplit(" ", 1)[-1]
    listed = next(each for each in json.loads(run("sessions", "--json")[1]) if each["id"] == name)
    assert (listed["title"], listed["cells"], listed["state"]) == ("1", 1, "waiting")
    assert json.loads(run("clean", "--max-age", "1h", "--json")[1]) == []
    assert name in run("clean")[1]
    assert "Nothing" in run("clean")[1]
    assert "Nothing" in run("clean", "--sessions", "1h")[1]
    assert name in run("sessions")[1]
    assert f"removed session {name}" in run("clean", "--sessions", "0")[1]
    assert name not in run("sessions")[1]


def test_a_level_without_a_shell_has_none(run: Run, state: Path) -> None:
    """The trust level decides, before anything is asked of the sandbox."""
    done = nbagent(
        "exec", "-e", "bubblewrap", "--trust", "untrusted", "--keep", "-c", "1", cwd=state,
        NBAGENT_STATE_DIR=str(state),
    )  # fmt: skip
    name = done.err.strip().rsplit(" ", 1)[-1]
    code, _, err = run("shell", name)
    assert (code, "permits no shell" in err) == (2, True)
    run("clean")


async def test_a_narrow_terminal_shows_ids_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is cut of an id can't be typed; a title may be cut."""
    folder = tmp_path / "sessions" / "20261121-064512-3fa9"
    folder.mkdir(parents=True)
    summary.write(folder, summary.Summary(about="Which region grew fastest of all that there are?", started=1.0))
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    await sessions.show(as_json=False)
    lines = plain(capsys.readouterr().out).splitlines()
    assert lines[0].split() == ["session", "started", "state", "title"]
    assert lines[1].startswith(f"{folder.name}  ")
    assert max(map(len, lines)) <= 60
