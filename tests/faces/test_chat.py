"""`nbagent chat` on a real terminal: questions, commands, and an end that leaves the session running."""

from __future__ import annotations

import time
from pathlib import Path

from program import Terminal, call, nbagent, replies, sentence, slowly

from nbagent import BlockingSession


def test_questions_and_commands_are_taken_until_the_end_of_input(tmp_path: Path) -> None:
    slow = slowly("Never said.", seconds=600)
    model = replies(tmp_path / "r.jsonl", slow, call("print(6 * 7)"), "It is 42.")
    own = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "NBAGENT_ENGINE": "bubblewrap", "PROMPT_TOOLKIT_NO_CPR": "1"}
    terminal = Terminal("chat", "mine", "--model", model, cwd=tmp_path, **own)

    def enter(text: str) -> None:
        terminal.wait_for("\x1b[?2004h", seconds=200)  # the prompt takes what is typed
        time.sleep(0.5)
        terminal.type(text)

    enter("Wait\r")
    terminal.wait_for("thinking", seconds=200)
    terminal.type("\x03")
    terminal.wait_for("It was stopped.", seconds=200)
    time.sleep(1.2)  # by then, what still runs of the question is given up: not the conversation
    enter("How much?\r")
    terminal.wait_for("42", seconds=200)
    terminal.wait_for("It is 42.", seconds=200)
    enter("/status\r")
    terminal.wait_for("turns    2", seconds=200)
    assert "this kernel" not in terminal.shown  # a terminal has none
    enter("/nothing\r")
    terminal.wait_for("There is no command /nothing", seconds=200)
    enter("/help\r")
    terminal.wait_for("/quit, or Ctrl-D, leaves", seconds=200)
    enter("/quit\r")
    terminal.wait_for("nbagent chat mine", seconds=200)
    assert terminal.done(seconds=200) == 0
    with BlockingSession.attach("mine", state_dir=tmp_path / "state") as session:
        assert session.turns == 2
        session.stop()
    assert "needs a terminal" in sentence(nbagent("chat", cwd=tmp_path, **own))


def test_nbagent_alone_is_a_conversation(tmp_path: Path) -> None:
    """At a terminal, with the settings of the person."""
    model = replies(tmp_path / "r.jsonl", "Hello.")
    own = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "NBAGENT_ENGINE": "bubblewrap", "PROMPT_TOOLKIT_NO_CPR": "1"}
    terminal = Terminal(cwd=tmp_path, NBAGENT_MODEL=model, **own)
    terminal.wait_for("\x1b[?2004h", seconds=200)
    terminal.type("Hi\r")
    terminal.wait_for("Hello.", seconds=200)
    terminal.wait_for("\x1b[?2004h", seconds=200)
    terminal.type("\x04")
    terminal.wait_for("The session goes on: nbagent chat", seconds=200)
    assert terminal.done(seconds=200) == 0
    name = next((tmp_path / "state/sessions").iterdir()).name
    # The beginning of its id is enough, as for `resume`; a name that looks like an id makes no new session.
    again = Terminal("chat", name[:13], cwd=tmp_path, **own)
    again.wait_for("\x1b[?2004h", seconds=200)
    again.type("\x04")
    again.wait_for(f"The session goes on: nbagent chat {name}", seconds=200)
    assert again.done(seconds=200) == 0
    missed = Terminal("chat", "19990101-0000", cwd=tmp_path, **own)
    missed.wait_for("There is no session '19990101-0000'.", seconds=200)
    assert missed.done(seconds=200) == 2
    assert nbagent("sessions", "--delete", name, "--force", cwd=tmp_path, **own)
