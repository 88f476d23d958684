"""Code asks for a host, and a person at a real terminal answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Terminal, call, nbagent, replies

TRY = "import urllib.request as u\ndef reach(host):\n try: u.urlopen(f'https://{host}/')\n"
TRY += " except OSError as error: print(str(error)[-60:])\n"
ONE = TRY + "reach('one.invalid')\nreach('one.invalid')"
ALLOWED = "The name one.invalid is not known."
"""What becomes of a request that was let through: no resolver knows this name."""
QUESTION = "Allow one.invalid:443? [o]nce, for the [s]ession, [d]eny ("


def asked(*words: str, here: Path, engine: str = "bubblewrap") -> Terminal:
    """The program in a terminal, asking for hosts."""
    return Terminal("exec", "-e", engine, "--ask-hosts", *words, cwd=here, NBAGENT_STATE_DIR=str(here / "state"))


def decisions(here: Path) -> list[tuple[str, bool, str]]:
    """Host, whether it was allowed, and who decided, from the session's log."""
    log = next(here.glob("state/sessions/*/log.jsonl")).read_text()
    events = [json.loads(line)["event"] for line in log.splitlines()]
    return [(each["host"], each["allowed"], each["by"]) for each in events if each["type"] == "HostDecided"]


def test_a_person_allows_a_host_once_and_is_asked_again(tmp_path: Path) -> None:
    """The next request is a new question; what isn't an answer gets the answers that there are."""
    terminal = asked("-c", ONE, here=tmp_path)
    terminal.wait_for(QUESTION)
    terminal.type("perhaps\r")
    terminal.wait_for("Type o, s or d. " + QUESTION)
    terminal.type("once\r")
    terminal.wait_for(QUESTION)
    terminal.type("o\r")
    assert terminal.done() == 0
    assert terminal.shown.count(ALLOWED) >= 2
    assert "denied" not in terminal.shown


@pytest.mark.parametrize(
    ("engine", "typed", "said"),
    [
        ("bubblewrap", "s\r", ALLOWED),
        ("docker", "s\r", ALLOWED),
        ("docker", "d\r", "A person denied one.invalid"),
        ("bubblewrap", "\x04", "A person denied one.invalid"),
    ],
)
def test_what_holds_for_the_session_is_asked_once(engine: str, typed: str, said: str, tmp_path: Path) -> None:
    """An allowed host, a denied one, and the end of input, which is no consent."""
    terminal = asked("-c", ONE, here=tmp_path, engine=engine)
    terminal.wait_for(QUESTION)
    terminal.type(typed)
    assert terminal.done() == 0
    assert said in terminal.shown
    assert terminal.shown.count("the code wants to reach") == 1


def test_outputs_go_above_the_question(tmp_path: Path) -> None:
    """What other threads print meanwhile is shown whole, with the question below it; each host has its own."""
    code = TRY + (
        "import threading, time\n"
        "def talk():\n for i in range(3): time.sleep(0.5); print('tick', i, flush=True)\n"
        "all = [threading.Thread(target=reach, args=(each,)) for each in ('one.invalid', 'two.invalid')]\n"
        "all.append(threading.Thread(target=talk))\n"
        "[each.start() for each in all]; [each.join() for each in all]; None"
    )
    terminal = asked("-c", code, here=tmp_path)
    terminal.wait_for("tick 2")
    terminal.wait_for("Allow ")
    terminal.type("d\r")
    terminal.wait_for("Allow ")
    terminal.wait_for("): ")
    terminal.type("s\r")
    assert terminal.done() == 0
    assert sorted(allowed for _, allowed, _ in decisions(tmp_path)) == [False, False]
    assert sorted(by for _, _, by in decisions(tmp_path)) == ["person", "policy"]
    assert "\x1b[Jtick 2" in terminal.shown


def test_ctrl_c_at_a_question_stops_the_cell(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """It denies what is asked, interrupts the code, and leaves neither a traceback of ours nor a sandbox."""
    terminal = asked("-c", ONE + "\nimport time; time.sleep(60)", here=tmp_path)
    terminal.wait_for(QUESTION)
    terminal.type("\x03")
    assert terminal.done(seconds=30) == 130
    assert "cell 1 was stopped" in terminal.shown
    assert "nbagent/" not in terminal.shown
    assert decisions(tmp_path) == [("one.invalid", False, "person")]
    assert leftovers() == []


def test_without_a_terminal_nobody_is_asked(tmp_path: Path) -> None:
    """It is said before, and the denial names the option that allows the host; no level is weaker for it."""
    done = nbagent(
        "exec", "-e", "bubblewrap", "--trust", "trusted", "--ask-hosts", "-c", ONE, cwd=tmp_path,
        NBAGENT_STATE_DIR=str(tmp_path / "state"),
    )  # fmt: skip
    assert done.code == 0
    assert "There is no terminal to ask at" in done.err
    assert "not an allowed host; a person can allow it with --allow-host one.invalid" in done.err
    assert decisions(tmp_path) == [("one.invalid", False, "policy")]


def test_a_conversation_gives_way_to_a_question(tmp_path: Path) -> None:
    """Code in the background asks while the next question is typed for; then that goes on. Ctrl-C ends all."""
    model = replies(tmp_path / "r.jsonl", call(LATE), "Started.")
    state = {"NBAGENT_STATE_DIR": str(tmp_path / "state")}
    kept = nbagent("exec", "-e", "bubblewrap", "--ask-hosts", "--keep", "-c", "1", cwd=tmp_path, **state)
    name = kept.err.strip().rsplit(" ", 1)[-1]
    terminal = Terminal("resume", name, "--ask-hosts", "-m", model, cwd=tmp_path, **state)
    terminal.wait_for("> ")
    terminal.type("Begin\r")
    terminal.wait_for("Started.")
    terminal.wait_for("Allow late.invalid:443?")
    terminal.type("d\r")
    terminal.wait_for("A person denied late.invalid")
    terminal.wait_for("> ")
    terminal.type("\x03")
    assert terminal.done() == 130
    assert "Traceback" not in terminal.shown
    assert (tmp_path / "state" / "sessions" / name / "notebook.ipynb").is_file()


LATE = TRY + "import threading\nthreading.Timer(2, reach, ['late.invalid']).start()"


def test_a_session_without_hosts_cannot_be_asked_for_any(tmp_path: Path) -> None:
    """Who goes on with it and wants to be asked is told, and the session still waits."""
    state = {"NBAGENT_STATE_DIR": str(tmp_path / "state")}
    kept = nbagent("exec", "-e", "bubblewrap", "--keep", "-c", "x = 1", cwd=tmp_path, **state)
    name = kept.err.strip().rsplit(" ", 1)[-1]
    refused = nbagent("resume", name, "--ask-hosts", "-c", "x", cwd=tmp_path, **state)
    assert (refused.code, "reaches no hosts" in refused.err) == (2, True)
    assert nbagent("resume", name, "-c", "x", cwd=tmp_path, **state).out.strip() == "1"
