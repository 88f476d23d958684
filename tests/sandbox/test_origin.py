"""Places: what a path that was written down means here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nbagent.sandbox.leases.origin import PathOrigin


def test_a_place_can_be_written_down() -> None:
    """As text and back it is the same; any other text is no place."""
    here = PathOrigin.here()
    assert PathOrigin.parse(str(here)) == here
    assert here.machine
    assert "mnt:" in here.mounts
    for text in ("", "one", "one two", "one two three four"):
        assert PathOrigin.parse(text) == PathOrigin()


def test_here_a_path_is_there_or_not(tmp_path: Path) -> None:
    """In this very place a look tells."""
    assert not PathOrigin.here().lacks(tmp_path)
    assert PathOrigin.here().lacks(tmp_path / "gone")
    assert not PathOrigin.here().is_over


def test_after_a_restart_of_the_machine_all_is_gone(tmp_path: Path) -> None:
    """What was written down before it belongs to nobody, even if a folder of that name is there."""
    before = replace(PathOrigin.here(), boot="another")
    assert before.is_over
    assert before.lacks(tmp_path)


@pytest.mark.parametrize("change", [{"machine": "another"}, {"machine": "another", "boot": "another"}, {"mounts": "x"}])
def test_elsewhere_nothing_is_known_to_be_gone(tmp_path: Path, change: dict[str, str]) -> None:
    """Another machine with the same home, or another mount namespace, has paths of its own."""
    assert not replace(PathOrigin.here(), **change).lacks(tmp_path / "gone")
    assert not PathOrigin().lacks(tmp_path / "gone")


@pytest.mark.needs("root")
def test_another_mount_namespace_is_another_place() -> None:
    """A process in one, with a /tmp of its own, says so."""
    code = "from nbagent.sandbox.leases.origin import PathOrigin; print(PathOrigin.here())"
    said = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    other, here = PathOrigin.parse(said.strip()), PathOrigin.here()
    assert (other.machine, other.boot) == (here.machine, here.boot)
    assert other.mounts != here.mounts
