"""The help of commands, and what a shell completes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program import nbagent


def test_flags_are_in_groups(tmp_path: Path) -> None:
    """By what they are about, each once, in the width of the terminal."""
    shown = nbagent("run", "--help", cwd=tmp_path, COLUMNS="60").out
    titles = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert titles == ["Arguments", "Asking", "Data", "Sandbox", "Network", "Approvals", "Output", "Options"]
    groups = dict(zip(titles, re.split(r"^\w+:$", shown, flags=re.MULTILINE)[1:], strict=True))
    for flag, group in {"--model": "Asking", "--data": "Data", "--trust": "Sandbox", "--out": "Output"}.items():
        assert [title for title, text in groups.items() if f"{flag} " in text] == [group]
    assert "--allow RULE" in groups["Approvals"]
    assert max(map(len, shown.splitlines())) <= 60


def test_commands_are_in_groups(tmp_path: Path) -> None:
    """By what they are for, each once, with the whole of what it does."""
    shown = nbagent("--help", cwd=tmp_path, COLUMNS="60").out
    assert re.findall(r"^([\w ]+):$", shown, re.MULTILINE) == [
        *("Options", "Asking", "Notebooks", "Sessions", "This machine"),
    ]
    assert re.findall(r"^  (resume|run|tools)  ", shown, re.MULTILINE) == ["run", "resume", "tools"]
    assert "..." not in shown.partition("Asking:")[2]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("nbagent ver", ["verify"]),
        ("nbagent run --output", ["--output-dir"]),
        ("nbagent tools a", ["add"]),
        ("nbagent exec --engine bub", ["bubblewrap"]),
        ("nbagent exec --trust u", ["untrusted"]),
        ("nbagent run x --redact p", ["pii"]),
        ("nbagent resume 2026", ["20261122-101010-bbbb", "20261121-101010-aaaa"]),
        ("nbagent verify gro", []),  # files are completed by the shell itself
    ],
)
def test_a_shell_completes(tmp_path: Path, words: str, wanted: list[str]) -> None:
    """Commands, flags, their values, sessions by their names, and what is below a command."""
    for name in ("20261121-101010-aaaa", "20261122-101010-bbbb"):
        (tmp_path / "state" / "sessions" / name).mkdir(parents=True)
    place = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_NBAGENT_COMPLETE": "complete_bash"}
    done = nbagent(cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "state"), **place)
    assert (done.out.split(), done.err) == (wanted, "")


def test_completion_is_silent_where_the_settings_are_wrong(tmp_path: Path) -> None:
    """Whoever presses Tab asked nothing."""
    place = {"COMP_WORDS": "nbagent attach 2", "COMP_CWORD": "2", "_NBAGENT_COMPLETE": "complete_bash"}
    done = nbagent(cwd=tmp_path, NBAGENT_TIMEOUT="soon", **place)
    assert (done.out.strip(), done.err) == ("", "")
