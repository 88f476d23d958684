"""Code asks for a host, a model to do something, and a person at a real terminal answers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from program import Terminal, call, nbagent, replies

from nbagent.core.events import ApprovalAsked, Record
from nbagent.faces.terminal import editor
from nbagent.faces.terminal.editor import EDITORS
from nbagent.safety.questions import Question

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
    assert terminal.done() == 130
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
    assert "not an allowed host; list one.invalid in allow_hosts (--allow-host one.invalid," in done.err
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
    assert nbagent("clean", cwd=tmp_path, **state).code == 0


# -- what the model wants to do -----------------------------------------------------------------------------------

MAY_IT = "May it? [a]pprove, for the [s]ession, [e]dit, [r]eject"


def without_editors(here: Path) -> str:
    """A PATH that finds all programs but editors."""
    (here / "bin").mkdir(exist_ok=True)
    for folder in os.environ["PATH"].split(os.pathsep):
        for each in Path(folder).glob("*"):
            if each.name not in EDITORS and not (here / "bin" / each.name).exists():
                (here / "bin" / each.name).symlink_to(each)
    return str(here / "bin")


def asked_to(*found: Any, here: Path, options: tuple[str, ...] = ("--approvals", "ask"), editor: str = "") -> Terminal:
    """The program in a terminal, with a model that gives these replies."""
    model = replies(here / "r.jsonl", *found, "Done.")
    state = {"NBAGENT_STATE_DIR": str(here / "state"), "VISUAL": "", "EDITOR": editor, "PATH": without_editors(here)}
    return Terminal("run", "Go", "-m", model, "-e", "bubblewrap", *options, cwd=here, **state)


def told(here: Path, kind: str) -> list[dict[str, Any]]:
    """The session's events of a kind."""
    log = next(here.glob("state/sessions/*/log.jsonl")).read_text()
    events = [json.loads(line)["event"] for line in log.splitlines()]
    return [each for each in events if each["type"] == kind]


def given(here: Path) -> list[tuple[str, str]]:
    """What was decided, and by whom."""
    return [(each["decision"], each["by"]) for each in told(here, "ApprovalGiven")]


def test_a_person_approves_edits_and_rejects(tmp_path: Path) -> None:
    """Each question shows what it is about, and a cell that waits for one has not taken too long."""
    long = "\n".join(f"x{number} = {number}" for number in range(100))
    cells = ("6 * 7", "!echo hi", "!rm x", "!rm y", "%pip install humanize")
    options = ("--approvals", "ask", "--timeout", "2")
    terminal = asked_to(call(long), call(*cells), here=tmp_path, options=options)
    terminal.wait_for("── the model wants to run a cell (python)")
    terminal.wait_for("… 60 more lines …")
    terminal.wait_for("for the session would allow: every cell")
    terminal.wait_for(f"{MAY_IT}, show the [w]hole: ")
    terminal.type("w\r")
    terminal.wait_for("│ x55 = 55")
    terminal.wait_for(f"{MAY_IT}: ")
    terminal.type("perhaps\r")
    terminal.wait_for(f"Type a, s, e or r. {MAY_IT}: ")
    terminal.type("s\r")
    terminal.wait_for("── the model wants to start a program (python): echo hi")
    terminal.wait_for(MAY_IT)
    terminal.type("e\r")
    terminal.wait_for("Type the code")
    terminal.wait_for("… ")
    terminal.type("print('changed')\r")
    terminal.wait_for("… ")
    terminal.type("\x04")
    terminal.wait_for("(python): rm x")
    terminal.wait_for(MAY_IT)
    terminal.type("r\r")
    terminal.wait_for("Why not?")
    terminal.type("Leave it.\r")
    terminal.wait_for("not approved: rm x. Leave it.")
    terminal.wait_for("(python): rm y")
    terminal.wait_for(MAY_IT)
    terminal.type("\x04")
    terminal.wait_for("wants to install packages (install): humanize==")
    terminal.wait_for("May it? [a]pprove, for the [s]ession, [r]eject: ")
    time.sleep(2.5)
    terminal.type("a\r")
    assert terminal.done() == 0
    assert given(tmp_path) == [(each, "person") for each in ("approve", "edit", "reject", "reject", "approve")]
    ran = [(each["code"], each["approver"]) for each in told(tmp_path, "CellStarted")]
    listed = "policy:allow-list"
    assert ran[1:] == [("6 * 7", listed), ("print('changed')", "person"), ("%pip install humanize", listed)]
    assert [each["status"] for each in told(tmp_path, "CellFinished")] == ["ok"] * 4
    assert len(told(tmp_path, "PackagesInstalled")) == 1
    name = next(tmp_path.glob("state/sessions/*")).name
    shown = nbagent("audit", "show", name, cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "state")).out
    assert "approval asked  a3, shell by python: rm x" in shown
    assert "approval given  a3, reject by person: Leave it." in shown


def test_an_editor(tmp_path: Path) -> None:
    """It gets the code in a folder that nobody else sees; Ctrl-C is its own, and the question stands as it was."""
    script = tmp_path / "edit.sh"
    script.write_text(
        "[ -f tried ] || { touch tried; sleep 30; exit 1; }\n"
        "stat -c %a $(dirname $1) > mode; cat $1 > before; echo $1 > where; echo 'print(6 * 7)' > $1\n"
    )
    terminal = asked_to(call("# \u00e4\n1"), here=tmp_path, editor=f"sh {script}")
    terminal.wait_for(MAY_IT)
    terminal.type("e\r")
    while not (tmp_path / "tried").exists():
        time.sleep(0.1)
    terminal.type("\x03")
    terminal.wait_for("The editor 'sh' failed.")
    terminal.wait_for(MAY_IT)
    terminal.type("e\r")
    assert terminal.done() == 0
    assert [each["code"] for each in told(tmp_path, "CellStarted")] == ["print(6 * 7)"]
    assert ((tmp_path / "mode").read_text(), (tmp_path / "before").read_text()) == ("700\n", "# \u00e4\n1")
    where = (tmp_path / "where").read_text().strip()
    assert where.endswith(".py")
    assert not Path(where).parent.exists()


def test_a_question_cannot_be_forged(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """Nothing of the code begins a line, moves the cursor, or turns the direction of writing. Ctrl-C ends all."""
    code = f"print(1) # \x1b[2J\u202e\r\n{MAY_IT}: \n" + " " * 96 + MAY_IT
    terminal = asked_to(call(code), here=tmp_path)
    terminal.wait_for(f"{MAY_IT}: ")
    terminal.wait_for("for the session would allow")
    question = terminal.shown[terminal.shown.index("── the model wants") :]
    assert "\\x1b[2J\\u202e\\x0d" in question
    assert "\u202e" not in question
    assert [line for line in question.replace("\r", "").split("\n")[1:5] if not line.startswith(("  │ ", "  ┆ "))] == []
    terminal.type("\x03")
    assert terminal.done(seconds=30) == 130
    assert "Traceback" not in terminal.shown
    assert given(tmp_path) == [("reject", "person")]
    assert told(tmp_path, "CellStarted") == []
    assert leftovers() == []


def test_questions_come_one_after_the_other(tmp_path: Path) -> None:
    """Code of an earlier cell asks for a host while the next cell is asked about."""
    early = TRY + "import threading\nlater = threading.Timer(1, reach, ['one.invalid'])\nlater.start()"
    options = ("--approvals", "ask", "--ask-hosts")
    terminal = asked_to(call(early), call("later.join()"), here=tmp_path, options=options)
    terminal.wait_for(MAY_IT)
    terminal.type("a\r")
    terminal.wait_for("│ later.join()")
    terminal.wait_for("the code wants to reach one.invalid:443")
    terminal.wait_for(MAY_IT)
    terminal.type("a\r")
    terminal.wait_for(QUESTION)
    terminal.type("d\r")
    assert terminal.done() == 0
    assert given(tmp_path) == [("approve", "person")] * 2
    assert decisions(tmp_path) == [("one.invalid", False, "person")]


def test_where_nobody_can_be_asked_for_approval(tmp_path: Path) -> None:
    """It is said at the start, and the policy for that holds for what isn't allowed; who reads JSON is nobody."""
    model = replies(tmp_path / "r.jsonl", call("1", "!echo hi", "!rm x"), "Done.")
    done = nbagent(
        "run", "Go", "-m", model, "-e", "bubblewrap", "--json", "--unattended", "reject",
        "--approvals", "allow-list", "--allow", "cell", "--allow", "shell:echo *",
        cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "state"), NBAGENT_UNATTENDED="approve",
    )  # fmt: skip
    assert "Nobody is asked here: what needs approval is rejected." in done.err
    assert [each["code"] for each in done.json["cells"]] == ["1", "!echo hi"]
    assert given(tmp_path) == [("reject", "policy:unattended")]


def test_an_editor_that_is_installed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's choice first, else the first one on the PATH."""
    for each in ("vi", "nano"):
        (tmp_path / each).write_text("")
        (tmp_path / each).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "code --wait")
    assert editor.command() == ["code", "--wait"]
    monkeypatch.delenv("EDITOR")
    assert editor.command() == [str(tmp_path / "nano")]


def test_whoever_rejects_more_money_is_not_asked_why() -> None:
    """Of all else, the model is told the reason."""
    asked = ApprovalAsked(id="a1", kind="budget", tool="budget", what="30 steps are used", turn=1)
    for kind, wants in (("budget", False), ("cell", True)):
        question = Question.of(Record(1, 0.0, msgspec.structs.replace(asked, kind=kind)))
        assert question is not None
        assert question.wants_reason is wants
