"""Fixtures of the tests of `evals/`, which is no part of the package: it is found in the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from agent.conftest import _no_keys, provider  # noqa: F401 - fixtures
from task_files import LABELS, PENGUINS, QUESTIONS, ROOT, lines

# At the end, so that the nbagent that is tested is the one that is installed.
sys.path.append(str(ROOT))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with three questions of a real table, as a person has it."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "penguins.csv").write_bytes(PENGUINS.read_bytes())
    lines(tmp_path / "questions.jsonl", *QUESTIONS)
    lines(tmp_path / "labels.jsonl", *LABELS)
    return tmp_path
