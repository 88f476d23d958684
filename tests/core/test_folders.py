"""The state folder, names of sessions, and the data that exported notebooks need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbagent.core import folders
from nbagent.core.errors import UsageError
from nbagent.core.events import DataSeen
from nbagent.core.session_log import SessionLog


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "-x", ".x", "a b", "a\n", "é", "x" * 65, "a\0"])
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """A session's id is one plain folder name."""
    with pytest.raises(UsageError, match="can't be called"):
        SessionLog(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_new_ids_are_names_and_differ() -> None:
    """Ids that nbagent makes up are accepted, and two of one second are not the same."""
    made = {folders.new_session_id() for _ in range(20)}
    assert len(made) > 15
    assert all(folders._SESSION_ID.fullmatch(each) for each in made)


def test_a_home_sign_in_the_state_folder_is_understood(home: Path) -> None:
    """`~` in the settings means the person's home."""
    assert folders.state_root(Path("~/kept")) == home / "home" / "kept"


def test_exports_of_a_folder_are_remembered_together(tmp_path: Path) -> None:
    """Two notebooks in one folder have the data of both; another folder has none of it."""
    here, there = tmp_path / "here", tmp_path / "there"
    folders.remember_export(tmp_path, here / "a.ipynb", [DataSeen("/tmp/data/a", "/x/a", 1)])
    folders.remember_export(tmp_path, here / "b.ipynb", [DataSeen("/tmp/data/b", "/x/b", 1)])
    assert folders.recall_exports(tmp_path, here) == {"/tmp/data/a": "/x/a", "/tmp/data/b": "/x/b"}
    assert folders.recall_exports(tmp_path, there) == {}
    assert [each.stat().st_mode & 0o777 for each in (tmp_path / "exports").iterdir()] == [0o600]


@pytest.mark.parametrize("found", [b"", b"[1]", b"\xff", b'{"a": '])
def test_a_broken_memory_of_exports_is_an_empty_one(tmp_path: Path, found: bytes) -> None:
    """A damaged file costs a re-run its data, but no kernel its start, and is replaced by the next export."""
    folder = tmp_path / "here"
    folders.remember_export(tmp_path, folder / "a.ipynb", [DataSeen("/tmp/data/a", "/x/a", 1)])
    (kept,) = (tmp_path / "exports").iterdir()
    kept.write_bytes(found)
    assert folders.recall_exports(tmp_path, folder) == {}
    folders.remember_export(tmp_path, folder / "a.ipynb", [DataSeen("/tmp/data/a", "/x/a", 1)])
    value: Any = json.loads(kept.read_text())
    assert value == {"/tmp/data/a": "/x/a"}
