"""What a person gives a session is checked before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import DataError
from nbagent.session.checks import clean_question, resolve_data


def test_data_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """Missing, special, ambiguous and nameless data is refused in a sentence, before anything is started."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "x.csv", tmp_path / "a" / "x.csv"):
        path.write_text("1")
    (tmp_path / "a" / "link.csv").symlink_to("../x.csv")
    (tmp_path / "linked").symlink_to("/etc")
    cases: list[tuple[list[Any], str]] = [
        ([tmp_path / "nothing.csv"], "no file or folder"),
        ([tmp_path / "pipe"], "neither a file nor a folder"),
        (["/dev/null"], "neither a file nor a folder"),
        (["/"], "root of the file system"),
        ([tmp_path / "x.csv", tmp_path / "a" / "x.csv"], "same name"),
        ([tmp_path / ("n" * 300)], "can't be used"),
        ([tmp_path / "x.csv" / "y"], "can't be used"),
        (["a\0b"], "can't be used"),
        ([tmp_path / "a" / "link.csv"], f"is a link to '{tmp_path}/x.csv', outside of its folder"),
        ([tmp_path / "linked"], "is a link to '/etc', outside of its folder"),
        ([tmp_path / os.fsdecode(b"caf\xe9.csv")], "no file or folder"),
    ]
    for given, says in cases:
        with pytest.raises(DataError, match=says):
            resolve_data(given)
    (tmp_path / os.fsdecode(b"caf\xe9.csv")).touch()
    with pytest.raises(DataError, match="not UTF-8"):
        resolve_data([tmp_path / os.fsdecode(b"caf\xe9.csv")])


def test_the_same_data_twice_is_once(tmp_path: Path) -> None:
    """A file that is given by two ways is seen once."""
    (tmp_path / "x.csv").touch()
    (tmp_path / "link.csv").symlink_to("x.csv")
    assert len(resolve_data([tmp_path / "x.csv", str(tmp_path / "x.csv"), tmp_path / "link.csv"])) == 1


def test_a_question_is_cleaned() -> None:
    """What can't be sent or kept is replaced; the rest is to the letter."""
    assert clean_question("  Größe\0 🐧\ud800? \n") == "Größe 🐧??"
