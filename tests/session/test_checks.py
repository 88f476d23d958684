"""What a person gives a session is checked before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nbagent import Session
from nbagent.core.errors import DataError, UsageError
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


def test_an_image_that_a_person_names_is_never_passed_over() -> None:
    """An engine that takes images is chosen for it, even where another is better; one that takes none is refused."""
    assert Session(image="mine:1").engine == "docker"
    assert Session(image="mine:1", engine="docker").engine == "docker"
    with pytest.raises(UsageError, match="The bubblewrap engine takes no image") as refused:
        Session(image="mine:1", engine="bubblewrap")
    assert "--engine docker" in refused.value.mend


def test_an_image_of_the_settings_is_for_the_engine_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBAGENT_IMAGE", "mine:1")
    assert Session(engine="bubblewrap").engine == "bubblewrap"
    assert Session().engine == ""
