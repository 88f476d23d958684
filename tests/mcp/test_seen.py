"""A tool that is no longer what it was is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbagent.core.errors import StoreError
from nbagent.mcp.seen import AcceptedTools, Changes


def test_the_first_look_is_taken_as_it_is() -> None:
    """There is nothing to compare with."""
    seen = AcceptedTools()
    assert seen.look("s", {"a": "1"}) == Changes()
    assert not seen.is_changed("s", "a", "1")


def test_changes_are_told_once_and_remembered_until_accepted(tmp_path: Path) -> None:
    """Another process knows too that nobody has accepted the change."""
    file = tmp_path / "deep" / "mcp-tools.json"
    AcceptedTools(file).look("s", {"a": "1", "b": "1"})
    seen = AcceptedTools(file)
    assert seen.look("s", {"a": "2", "c": "1"}) == Changes(added=("c",), removed=("b",), changed=("a",))
    assert seen.look("s", {"a": "2", "c": "1"}) == Changes()
    assert seen.is_changed("s", "a", "2")
    again = AcceptedTools(file)
    assert again.look("s", {"a": "2", "c": "1"}).changed == ("a",)
    again.accept("s", "a", "2")
    assert not AcceptedTools(file).is_changed("s", "a", "2")
    assert file.stat().st_mode & 0o077 == 0


def test_a_tool_that_goes_and_comes_back_changed_is_noticed() -> None:
    """Taking a tool away for a moment is no way around."""
    seen = AcceptedTools()
    seen.look("s", {"a": "1"})
    seen.look("s", {})
    changes = seen.look("s", {"a": "2"})
    assert (changes.added, changes.changed) == (("a",), ("a",))


def test_servers_are_kept_apart() -> None:
    """Two servers may have tools of the same name."""
    seen = AcceptedTools()
    seen.look("s", {"a": "1"})
    assert not seen.look("t", {"a": "2"})


def test_a_broken_file_is_told(tmp_path: Path) -> None:
    """It is not silently begun anew: that would accept every change."""
    (tmp_path / "f").write_text("[]")
    with pytest.raises(StoreError, match=r"can't be read .* Remove the file"):
        AcceptedTools(tmp_path / "f")
