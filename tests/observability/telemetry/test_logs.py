"""Structured logs: what is told, to whom, and that nothing hostile gets through."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import stories
import structlog
from structlog.testing import capture_logs

from nbagent.core.errors import UsageError
from nbagent.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    CodeGenerated,
    FileSaved,
    InstallFailed,
    Record,
    StateLost,
    ToolRefused,
    ToolStageEntered,
)
from nbagent.observability.telemetry import Telemetry
from nbagent.observability.telemetry.logs import Log, entries, shown


@pytest.fixture
def configured() -> Iterator[None]:
    """As in a program that configured structlog."""
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    yield
    structlog.reset_defaults()


def told(capsys: pytest.CaptureFixture[str], *, level: str = "info", format: str = "console") -> list[str]:
    """What a whole session logs to standard error."""
    log = Log("s-1", level=level, format=format)
    for record in stories.records(stories.whole()):
        log.on_event(record)
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_a_session_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    """Each significant operation is a line of time, level, what happened, and its particulars as `name=value`."""
    found = told(capsys)
    assert [re.sub(r"^\S+ (\[\w+\] [A-Z][a-z]+(?: [a-z]+)*) .*", r"\1", line) for line in found] == [
        "[info] Sandbox created",
        "[info] Agent workflow started",
        "[info] Code generated",
        "[info] Sandbox execution started",
        "[info] Packages installed",
        "[info] Execution complete",
        "[info] File saved",
        "[info] Code generated",
        "[info] Sandbox execution started",
        "[warning] Installation refused",
        "[warning] Kernel state lost",
        "[error] Execution complete",
        "[info] Agent workflow completed",
        "[info] Sandbox execution started",
        "[warning] Execution complete",
        "[info] Session ended",
    ]
    assert found[5] == (
        '2027-01-15T08:00:04Z [info] Execution complete exit_code=0 duration_ms=500 cell=1 memory_mb=90 session="s-1"'
    )
    assert found[3].endswith('Sandbox execution started container_id="box1" cell=1 session="s-1"')
    assert 'exit_code=-9 duration_ms=750 cell=2 status="died" error="KernelDied"' in found[11]
    assert "Agent workflow completed success=true attempts=2" in found[12]


def test_a_session_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line for a program to read, each with the session's id."""
    found = [json.loads(line) for line in told(capsys, format="json")]
    assert {each["session"] for each in found} == {"s-1"}
    assert found[5] == {
        "event": "Execution complete",
        "level": "info",
        "timestamp": "2027-01-15T08:00:04Z",
        "exit_code": 0,
        "duration_ms": 500,
        "cell": 1,
        "memory_mb": 90,
        "session": "s-1",
    }


def test_levels_choose(capsys: pytest.CaptureFixture[str]) -> None:
    """`warning` tells only what a person should look at, `debug` the model's replies and programs too."""
    assert len(told(capsys, level="error")) == 1
    assert len(told(capsys, level="warning")) == 4
    assert [line for line in told(capsys, level="debug") if "[debug]" in line][1].startswith(
        '2027-01-15T08:00:03Z [debug] Program executed program="/bin/uname" pid=12'
    )


def test_a_host_that_configured_structlog_gets_the_entries(
    configured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its processors and its output are used; ours is not, and its configuration stays as it was."""
    assert configured is None
    before = structlog.get_config()
    with capture_logs() as entries:
        log = Log("s-1", level="info")
        for record in stories.records(stories.whole()):
            log.on_event(record)
    assert entries[0]["event"] == "Sandbox created"
    assert (entries[5]["log_level"], entries[5]["session"], entries[5]["exit_code"]) == ("info", "s-1", 0)
    assert "timestamp" not in entries[5]
    assert structlog.get_config() == before
    assert capsys.readouterr() == ("", "")


def test_nothing_is_configured_for_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A logger of our own leaves structlog as it is on its first import."""
    told(capsys)
    assert not structlog.is_configured()


def test_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a level not a word is written."""
    session = Telemetry("s")
    for record in stories.records(stories.whole()):
        session.on_event(record)
    session.close()
    assert capsys.readouterr() == ("", "")


def test_without_a_level_nothing_is_imported() -> None:
    """Neither structlog nor OpenTelemetry."""
    code = (
        "import sys, stories; from nbagent.observability.telemetry import Telemetry; session = Telemetry('s')\n"
        "for record in stories.records(stories.whole()): session.on_event(record)\n"
        "print([name for name in ('structlog', 'opentelemetry') if name in sys.modules])"
    )
    tests = str(__import__("pathlib").Path(__file__).parents[2])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tests)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    "event",
    [
        Asked(turn=1, question="\x1b]0;owned\x07 \x9b31m \u202egnp.exe \x7f" + "q" * 900 + " sk-abcdefghijklmnopqrstu"),
        StateLost(cell=1, reason="\x1b[2J" + "r" * 900),
        InstallFailed(cell=1, requirements=["\x1b[31mx\n2027 [info] forged"] * 50, reason="\r\n\x1b]8;;x\x07"),
        FileSaved(path="/o/\x1b[31m\u2028a.csv", size=1, sha256=""),
        CellFinished(
            cell=1, status="error", outputs=[{**stories.ERROR, "ename": "\x1b[5mE\n"}], execution_count=1, duration=0.1
        ),
    ],
    ids=lambda event: type(event).__name__,
)
@pytest.mark.parametrize("format", ["console", "json"])
def test_hostile_text_is_one_harmless_short_line(capsys: pytest.CaptureFixture[str], event: Asked, format: str) -> None:
    """No escape sequence, no second line, nothing that turns the direction of writing, nothing long, no secret."""
    log = Log("s", level="debug", format=format)
    log.on_event(stories.records([event])[0])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert len(line) < 1200
    assert "sk-" not in line
    assert "qqqqqqqqqq" * 20 not in line


def test_no_outputs_and_no_code_are_told() -> None:
    """The log is about what happened, not what was in it."""
    text = repr([line for record in stories.records(stories.whole()) for line in entries(record)])
    assert "¿x?" not in text
    assert "import humanize" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [("a b", '"a b"'), (True, "true"), (None, "null"), (["x"], '["x"]'), ("é\x1b\u202e", '"é\\u001b\\u202e"')],
)
def test_values_are_json_without_what_steers_a_terminal(value: object, text: str) -> None:
    """Letters of any language stay, controls are spelt out."""
    assert shown(value) == text


@pytest.mark.parametrize(("level", "format"), [("loud", "console"), ("INFO", "console"), ("info", "xml")])
def test_a_level_or_format_that_there_is_not(level: str, format: str) -> None:
    """Wrong use, with what there is."""
    with pytest.raises(UsageError, match="Levels: debug, info, warning, error"):
        Log("s", level=level, format=format)


def test_a_log_that_can_not_be_written_ends_the_log_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A closed standard error is said once, and the session goes on being counted."""
    session = Telemetry("s", level="info")

    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stderr", Closed())
    for record in stories.records(stories.whole()):
        session.on_event(record)
    assert [entry.message for entry in caplog.records] == ["Telemetry failed and goes on without this part."]
    assert session.metrics.snapshot().cells["ok"] == 1


def test_approvals_are_logged_without_their_code() -> None:
    """What was asked, of what kind, and who decided; a no is a warning."""
    events = (
        ApprovalAsked(id="a1", turn=1, kind="shell", tool="python", what="rm secret", code="!rm secret"),
        ApprovalGiven(id="a1", turn=1, decision="approve", by="person"),
        ApprovalGiven(id="a2", turn=1, decision="reject", by="policy:unattended", reason="secret"),
    )
    found = [line for event in events for line in entries(Record(seq=1, at=0.0, event=event))]
    assert [(level, what) for level, what, _ in found] == [
        ("info", "Approval asked"), ("info", "Approval given"), ("warning", "Approval given"),
    ]  # fmt: skip
    assert found[0][2] == {"kind": "shell", "tool": "python", "id": "a1"}
    assert "secret" not in str(found)


def test_tools_are_logged_without_their_code() -> None:
    """Each stage, and one that is not used."""
    events = (
        ToolStageEntered(tool="word_count", version=1, stage="creating", code="secret()", tests="secret()"),
        ToolStageEntered(tool="word_count", version=1, stage="cleanup", reason="It failed.", seconds=1.5),
        ToolRefused(tool="word_count", reason="It was changed."),
    )
    found = [line for event in events for line in entries(Record(seq=1, at=0.0, event=event))]
    assert found == [
        ("info", "Tool stage", {"tool": "word_count", "version": 1, "stage": "creating", "duration_ms": 0}),
        (
            "info",
            "Tool stage",
            {"tool": "word_count", "version": 1, "stage": "cleanup", "duration_ms": 1500, "reason": "It failed."},
        ),
        ("warning", "Tool refused", {"tool": "word_count", "reason": "It was changed."}),
    ]


def test_generated_code_is_logged_with_its_confidence() -> None:
    """A low one is a warning; the code itself is not logged."""
    code = [CodeGenerated(turn=1, code="secret\n2", dependencies=["a"], confidence=each) for each in (0.95, 0.25)]
    found = [line for event in code for line in entries(Record(seq=1, at=0.0, event=event))]
    assert found == [
        ("info", "Code proposed", {"code_lines": 2, "dependencies": ["a"], "confidence": 0.95}),
        ("warning", "Code proposed", {"code_lines": 2, "dependencies": ["a"], "confidence": 0.25}),
    ]
