"""What a person is asked, as values that any face renders and answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from nbagent.core.errors import UsageError
from nbagent.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    Event,
    HostAsked,
    HostDecided,
    Record,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    StateLost,
)
from nbagent.safety.questions import ASK_SECONDS, LABELS, Choice, Question, answer

CELL = ApprovalAsked(id="a1", turn=1, kind="cell", tool="python", what="1", code="1\n\x1b[2J", rules=["cell:*"])
INSTALL = ApprovalAsked(
    id="a2",
    turn=1,
    kind="install",
    tool="install",
    what="x==1\n\u202e",
    packages=["x==1"],
    rules=[f"install:x{each}" for each in range(40)],
)
BUDGET = ApprovalAsked(id="a3", turn=1, kind="budget", tool="model", what="$1 more", note="a\nb")
HOST = HostAsked(id="h1", host="example.org", port=443)


def asked(event: Event, *, at: float = 1000.0) -> Question:
    """The question of an event."""
    question = Question.of(Record(1, at, event))
    assert question is not None
    return question


def test_an_approval_is_a_value() -> None:
    """All that a face needs: what it is about, the code as it is, the answers, and which one stands for none."""
    question = asked(CELL)
    assert (question.id, question.kind, question.suffix) == ("a1", "cell", ".py")
    assert question.title == "the model wants to run a cell (python)"
    assert (question.text, question.choices) == ("May it?", ("approve", "session", "edit", "reject"))
    assert (question.default, question.deadline, question.rules) == ("reject", None, "every cell")
    assert question.code == CELL.code


def test_what_cannot_be_chosen_is_not_offered() -> None:
    """Packages can't be edited, and a budget can't be granted for the session, nor rules that nobody could read."""
    assert asked(msgspec.structs.replace(INSTALL, rules=["install:x"])).choices == ("approve", "session", "reject")
    assert asked(INSTALL).choices == ("approve", "reject")
    assert asked(BUDGET).choices == ("approve", "reject")


def test_nothing_is_hidden_in_a_question() -> None:
    """Its words are on one line each, whatever stands in the event."""
    question = asked(INSTALL)
    assert question.title == "the model wants to install packages (install): x==1\\x0a\\u202e"
    assert question.rules == ""
    assert asked(BUDGET).note == "a\\x0ab"


def test_a_host_is_asked_about_for_a_minute() -> None:
    """From when the event was written, whoever shows it and when."""
    question = asked(HOST, at=1000.0)
    assert (question.kind, question.text) == ("host", "Allow example.org:443?")
    assert question.title == "the code wants to reach example.org:443"
    assert (question.choices, question.default) == (("once", "session", "deny"), "deny")
    assert question.deadline == 1000.0 + ASK_SECONDS


def test_other_events_ask_nothing() -> None:
    """A fact that nobody need answer is no question."""
    assert Question.of(Record(1, 0.0, StateLost(cell=1, reason="It died."))) is None


def still_open(records: Iterable[Record], *, now: float) -> list[Question]:
    """The questions that wait for an answer, as a face finds them that joins late."""
    found: list[Question] = []
    for record in records:
        found = [each for each in found if not each.is_over(record.event)]
        if question := Question.of(record):
            found.append(question)
    return [each for each in found if each.deadline is None or each.deadline > now]


def test_who_comes_late_finds_what_is_still_open() -> None:
    """Answered questions are over, by whomever, and a host that nobody answered in time is too."""
    events: list[Event] = [
        HostAsked(id="h1", host="old.invalid", port=443),
        CELL,
        INSTALL,
        ApprovalGiven(id="a1", turn=1, decision="approve", by="person"),
        HostAsked(id="h2", host="new.invalid", port=443),
        HostAsked(id="h3", host="done.invalid", port=443),
        HostDecided(id="h3", host="done.invalid", port=443, allowed=False, by="person"),
    ]
    log = [Record(number, number * 10.0, event) for number, event in enumerate(events, start=1)]
    assert [each.id for each in still_open(log, now=75.0)] == ["a2", "h2"]
    assert [each.id for each in still_open(log, now=65.0)] == ["h1", "a2", "h2"]


STARTED = SessionStarted(
    session="s", engine="bubblewrap", trust="sandboxed", environment="sha256:0", python="3.12", nbagent="1"
)


@pytest.mark.parametrize("end", [STARTED, SessionResumed(kept=True, note=""), SessionEnded()])
def test_a_question_ends_with_who_asked_it(end: Event) -> None:
    """Nobody waits for the answer any more, even if who asked was killed and said nothing."""
    events = [CELL, HOST, end, INSTALL]
    log = [Record(number, 1000.0, event) for number, event in enumerate(events, start=1)]
    assert [each.id for each in still_open(log, now=1001.0)] == ["a2"]


class Owner:
    """Takes answers as a session does, and remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def approve(self, name: str, decision: str = "approve", **more: Any) -> bool:
        """As `Session.approve`."""
        self.calls.append({"name": name, "decision": decision, **{key: each for key, each in more.items() if each}})
        return True

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool:
        """As `Session.approve_host`."""
        self.calls.append({"name": name, "allow": allow, "remember": remember})
        return True


@pytest.mark.parametrize(
    ("event", "choice", "more", "call"),
    [
        (CELL, "approve", {}, {"name": "a1", "decision": "approve"}),
        (CELL, "session", {}, {"name": "a1", "decision": "approve", "always": True}),
        (CELL, "edit", {"code": "2"}, {"name": "a1", "decision": "edit", "code": "2"}),
        (CELL, "reject", {"reason": "No."}, {"name": "a1", "decision": "reject", "reason": "No."}),
        (HOST, "once", {}, {"name": "h1", "allow": True, "remember": False}),
        (HOST, "session", {}, {"name": "h1", "allow": True, "remember": True}),
        (HOST, "deny", {}, {"name": "h1", "allow": False, "remember": True}),
    ],
)
def test_a_choice_is_one_call_of_the_session(event: Event, choice: Choice, more: Any, call: dict[str, Any]) -> None:
    """Each answer that is offered is handed on as what it means."""
    owner = Owner()
    assert answer(owner, asked(event), choice, **more) is True
    assert owner.calls == [call]


def test_what_was_not_offered_is_no_answer() -> None:
    """A face can't grant for the session what may not be granted so."""
    with pytest.raises(UsageError, match="no answer to this"):
        answer(Owner(), asked(BUDGET), "session")


def test_every_choice_has_its_words() -> None:
    """The word by which it is chosen stands in them, so that a face can mark it; a question survives JSON."""
    assert all(choice in label for choice, label in LABELS.items())
    assert msgspec.json.decode(msgspec.json.encode(asked(CELL)), type=Question) == asked(CELL)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["cell:*", "shell:git", "shell:git *"], "every cell, the program git"),
        (["shell:git log | wc"], "the command git log | wc"),
        (["install:polars"], "the package polars"),
        (["edit:*"], "every change of a file"),
        (["mcp:time/now[*]"], "the MCP tool time/now*"),
        (["later:x"], "later x"),
        (
            ["cell:*", "shell:python: import subprocess", "shell:python: subprocess.run([[]'ls', '-l'])"],
            "every cell, the command ls -l",
        ),
        (["shell:python: import os, subprocess", "shell:python: os.system('make all')"], "the command make all"),
        (["shell:python: import subprocess"], "a cell that imports subprocess"),
        (["shell:python: subprocess.run(command)"], "every program that code starts by subprocess.run(command)"),
        (["shell:python: os.system"], "every program that code starts by os.system"),
        (["shell:python: get_ipython()"], "every program that code starts by get_ipython()"),
        (["shell:python: os.execv('/bin/ls', ['ls'])"], "the code os.execv('/bin/ls', ['ls'])"),
        (
            ["shell:python: subprocess.run('ls', cwd=run(x))", "shell:python: (run(x) or os).popen('ls')"],
            "every program that code starts by subprocess.run('ls', cwd=run(x)), "
            "every program that code starts by (run(x) or os).popen('ls')",
        ),
        (["shell:python: x = = 3\nfoo"], "the code x = = 3 …"),
        (
            ["shell:python: import subprocess as sp", "shell:python: from sh import ls"],
            "every program that code starts after import subprocess as sp, "
            "every program that code starts after from sh import ls",
        ),
    ],
)
def test_what_a_choice_would_allow_is_in_words(rules: list[str], words: str) -> None:
    """A person reads what is allowed; the rules themselves are for settings."""
    question = asked(ApprovalAsked(id="a1", turn=1, kind="cell", tool="python", what="1", code="1", rules=rules))
    assert question.rules == words


def test_the_widest_of_what_a_choice_would_allow_is_read_first_and_more_than_can_be_read_is_not_offered() -> None:
    """A choice that allows every program must not stand behind a long list of commands, or be cut off."""
    commands = [f"shell:ls -l /tmp/data/{number}; ls" for number in range(4)]
    every = "every program that code starts after from subprocess import run"

    def question(rules: list[str]) -> Question:
        return asked(ApprovalAsked(id="a1", turn=1, kind="shell", tool="python", what="1", code="1", rules=rules))

    wide = question([*commands, "shell:python: from subprocess import run"])
    assert wide.rules.startswith(f"{every}, the command ls")
    assert "session" in wide.choices
    long = question([*commands, *(f"shell:cat {'x' * 90}{number}; ls" for number in range(4))])
    assert (long.rules, "session" in long.choices, "approve" in long.choices) == ("", False, True)
