"""`nbagent audit`: exit codes, and text that a person can read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import stories
from program import nbagent
from stories import Written, write_session

from nbagent.core.events import CommandRun, FileSaved, Piece, SentToModel, ToolStageEntered
from nbagent.faces.cli.audit import show, verify

KEY = b"k" * 32


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A whole session's log."""
    return write_session(tmp_path / "state", stories.whole())


def state(tmp_path: Path) -> dict[str, str]:
    """The variable that says where sessions are."""
    return {"NBAGENT_STATE_DIR": str(tmp_path / "state")}


Tell = Callable[..., tuple[int, str]]


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tell:
    """What a command returns and prints, without the program around it."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))

    def do(
        command: Callable[..., int], session: str | Path = "s", *, key_file: Path | None = None, **more: bool
    ) -> tuple[int, str]:
        code = command(str(session), key_file=key_file, **more)
        return code, capsys.readouterr().out

    return do


def test_a_whole_log_is_zero(written: Written, tell: Tell, tmp_path: Path) -> None:
    """By the session's id, its folder or the file."""
    whole = "Whole: the audit log of s (16 lines, 3 cells; SHA-256, no key).\n"
    for name in ("s", written.folder, written.path):
        assert tell(verify, name, as_json=False) == (0, whole)
    ran = nbagent("audit", "verify", "s", cwd=tmp_path, **state(tmp_path))
    assert (ran.code, ran.out) == (0, whole)


def test_a_broken_log_is_one(written: Written, tmp_path: Path) -> None:
    """With the first line that differs and what is wrong with it."""
    written.lines = [*written.lines[:6], written.lines[6].replace(b"humanize", b"humanise"), *written.lines[7:]]
    ran = nbagent("audit", "verify", "s", cwd=tmp_path, **state(tmp_path))
    assert (ran.code, ran.out) == (
        1,
        "BROKEN at line 7: the audit log of s (16 lines, 3 cells): its text is not what its hash was made of.\n",
    )
    ran = nbagent("audit", "verify", "s", "--json", cwd=tmp_path, **state(tmp_path))
    assert (ran.code, ran.json["whole"], ran.json["line"]) == (1, False, 7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "There is no audit log of 'nothing'."),
        (["s", "--key-file", "nothing"], "The audit key nothing can't be read"),
        ([], "needs SESSION"),
    ],
)
def test_wrong_use_is_two(written: Written, tmp_path: Path, words: list[str], message: str) -> None:
    """What is not there can't be whole or broken."""
    assert written.path.exists()
    ran = nbagent("audit", "verify", *words, cwd=tmp_path, **state(tmp_path))
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_a_key_is_given_or_set(tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the command line or as the setting; without it that is said."""
    write_session(tmp_path / "state", stories.whole(), key=KEY)
    key = tmp_path / "key"
    key.write_bytes(KEY + b"\n")
    whole = (0, "Whole: the audit log of s (16 lines, 3 cells; HMACs of your key).\n")
    assert tell(verify, key_file=key, as_json=False) == whole
    _, text = tell(verify, as_json=False)
    assert "Without it (--key-file) only chain and head were checked." in text
    assert "HMACs of your key" not in text
    monkeypatch.setenv("NBAGENT_AUDIT_KEY_FILE", str(key))
    assert tell(verify, as_json=False) == whole


def test_a_log_as_text(written: Written, tell: Tell) -> None:
    """Who asked what of whom, each cell with its code, who let it and how it ended; what was installed and refused."""
    code, text = tell(show, written.folder)
    assert code == 0
    for words in (
        "session start  bubblewrap, isolated, Python 3.11.7, nbagent 0.1.0",
        "data      /tmp/data/a.csv  1,234 bytes, from /home/p/a.csv",
        "NOT ENFORCED, accepted by name: memory",
        "question       1, to openai:gpt-5.1",
        "Say it in a word, naïvely 🐧.",
        "1, python (approved by policy:never-ask), ok, 0.50 s, peak 90 of 2,048 MB, packages: humanize==4.17.0, ",
        "| import humanize",
        "humanize==4.17.0  sha256:" + "a" * 64,
        "2, python (approved by policy:never-ask), died, KernelDied, SIGKILL, 0.75 s",
        "reason=Refused.  refused=yes  requirements=leftpad",
        "3, person (approved by person), timeout, 60.00 s",
        "argv=/bin/uname -a",
    ):
        assert words in text, words
    assert "cell begun" not in text
    assert text.endswith("Whole: the audit log of s (16 lines, 3 cells; SHA-256, no key).\n")
    assert str(os.getpid()) in text


def test_tools_as_text(tell: Tell, tmp_path: Path) -> None:
    """What was to run in the forge's sandbox stands there line by line, as cells do."""
    made = {"tool": "word_count", "version": 1}
    write_session(
        tmp_path / "state",
        [
            ToolStageEntered(**made, stage="creating", code="def word_count():\n    pass\n", dependencies=["humanize"]),
            ToolStageEntered(**made, stage="cleanup", reason="It failed."),
            ToolStageEntered(**made, stage="active", sha256="ab" * 32),
        ],
    )
    _, text = tell(show)
    assert "word_count 1, creating\n       dependencies  humanize\n       | def word_count():\n" in text
    assert "word_count 1, cleanup\n       reason  It failed.\n" in text
    assert f"word_count 1, active\n       sha256:{'ab' * 32}\n" in text


def test_what_was_sent_as_text(tell: Tell, tmp_path: Path) -> None:
    """A line for each piece, as in the ledger."""
    pieces = [Piece("cell 3", 1234, "ab" * 32, ["aws key", "aws key"]), Piece("question", 5, "cd" * 32, [])]
    sent = {"turn": 1, "model": "openai:gpt-4.1", "host": "api.openai.com", "size": 5000, "pieces": pieces, "resent": 4}
    write_session(tmp_path / "state", [SentToModel(**sent, purpose=why) for why in ("answer", "critique")])
    _, text = tell(show)
    assert "1, 5,000 bytes to api.openai.com (openai:gpt-4.1), 4 pieces of them again\n" in text
    assert f"\n       cell 3  1,234 bytes  sha256:{'ab' * 32}  hidden: aws key ×2\n" in text
    assert f"\n       question  5 bytes  sha256:{'cd' * 32}\n" in text
    assert "(openai:gpt-4.1), for a critique, 4 pieces" in text


def test_hostile_text_does_not_steer_the_terminal(tell: Tell, tmp_path: Path) -> None:
    """Neither what the code was, nor a garbled line that claims to be something else."""
    code = "print('\x1b]0;owned\x07')"
    begun = stories.CellStarted(cell=1, turn=0, code=code, tool="\x1b[2J")
    written = write_session(tmp_path / "state", [stories.started(), begun])
    written.lines = [*written.lines, b'{"type": "\\u001b[2J", "time": 5}\n', b"[]\n", b"\x1b[2J\n"]
    code, text = tell(show)
    assert code == 1
    assert "\x1b" not in text
    assert "can't be read" in text
    assert "BROKEN" in text
    assert "\x1b" not in tell(verify, as_json=False)[1]


def test_code_writes_no_lines_of_its_own(tell: Tell, tmp_path: Path) -> None:
    """Whatever a program or a file is called, an entry is one line of its own, and reads from left to right."""
    forged = "x\n   99  2027-01-15 08:00:00Z  cell           1, person (approved by person), ok\r\u2028\u202egnp.exe\t"
    events = [*stories.whole()[:5], CommandRun(cell=1, argv=[forged, forged], pid=2)]
    events += [FileSaved(path=forged, size=1, sha256="0" * 64, cell=1)]
    write_session(tmp_path / "state", events)
    _, text = tell(show)
    assert not any(line.startswith("   99") for line in text.splitlines())
    assert not set("\r\u2028\u202e\t") & set(text)
    assert text.count("gnp.exe") == 3


def test_a_verdict_as_json(written: Written, tell: Tell) -> None:
    """One object with all of it."""
    assert json.loads(tell(verify, as_json=True)[1]) == {
        "whole": True,
        "path": str(written.path),
        "session": "s",
        "lines": 16,
        "cells": 3,
        "line": None,
        "problem": "",
        "keyed": False,
        "unknown_event": None,
        "unchecked": False,
        "notes": [],
    }


def test_verbose_logs_to_standard_error(tmp_path: Path) -> None:
    """Standard output stays what it was; `log_format` makes the lines JSON."""
    words = ("exec", "-c", "print(6 * 7)", "--engine", "bubblewrap", "--quiet", "-vvv")
    ran = nbagent(*words, cwd=tmp_path, NBAGENT_LOG_FORMAT="json", **state(tmp_path))
    assert (ran.code, ran.out) == (0, "42\n")
    told = [json.loads(line)["event"] for line in ran.err.splitlines()]
    assert told == ["Sandbox created", "Sandbox execution started", "Execution complete", "Session ended"]


def test_the_setting_logs_too(tmp_path: Path) -> None:
    """`NBAGENT_LOG_LEVEL` for whoever can't say `-v`; a level that there is not is wrong use."""
    words = ("exec", "-c", "1/0", "--engine", "bubblewrap", "--quiet")
    ran = nbagent(*words, cwd=tmp_path, NBAGENT_LOG_LEVEL="info", **state(tmp_path))
    assert "exit_code=1" in ran.err
    assert 'error="ZeroDivisionError"' in ran.err
    assert nbagent(*words, cwd=tmp_path, NBAGENT_LOG_LEVEL="loud", **state(tmp_path)).code == 2
