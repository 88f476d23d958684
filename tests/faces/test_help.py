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


@pytest.mark.parametrize(
    ("words", "wanted"), [("nbagent ver", "verify"), ("nbagent run --out", "--output-dir"), ("nbagent tools a", "add")]
)
def test_a_shell_completes(tmp_path: Path, words: str, wanted: str) -> None:
    """Commands, flags, and what is below a command."""
    place = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_NBAGENT_COMPLETE": "complete_bash"}
    assert wanted in nbagent(cwd=tmp_path, **place).out.split()
