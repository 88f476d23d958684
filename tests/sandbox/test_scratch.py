"""Scratch folders: private, and each says which lease it belongs to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nbagent.sandbox.leases import scratch


def test_a_scratch_folder_is_private() -> None:
    """Each sandbox gets one of its own that no other user may enter."""
    first, second = (scratch.make() for _ in range(2))
    assert first != second
    for each in (first, second):
        assert each.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(each)


def test_a_scratch_folder_says_whose_it_is(tmp_path: Path) -> None:
    """It is nobody's once its lease is gone from where that was; one that says nothing is doubtful."""
    lease = tmp_path / "line\nbreak"
    assert scratch.is_abandoned(tmp_path) is None
    scratch.settle(tmp_path, lease)
    assert scratch.is_abandoned(tmp_path) is True
    lease.mkdir()
    assert scratch.is_abandoned(tmp_path) is False


@pytest.mark.parametrize("text", ["", "/tmp/nbagent-0/kx", "a b c\n", "a b c\n/nowhere"])
def test_a_scratch_folder_of_elsewhere_is_nobody_elses(tmp_path: Path, text: str) -> None:
    """What another machine, or another nbagent, has written can't be judged here: it stays."""
    (tmp_path / "lease").write_text(text)
    assert scratch.is_abandoned(tmp_path) is False
