"""Where a notebook may be written, and what is never written over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nbagent.core.errors import StoreError, UsageError
from nbagent.core.events import SessionStarted
from nbagent.notebook import place
from nbagent.notebook.export import write
from nbagent.notebook.record import Recording


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A notebook that nbagent wrote."""
    started = SessionStarted(
        session="s", engine="bubblewrap", trust="isolated", environment="", python="3.11.2", nbagent="1", data=[]
    )
    return write(Recording(started=started), tmp_path / "ours.ipynb")


def foreign(path: Path) -> Path:
    """A notebook of the person's own."""
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), path)
    return path


def test_a_new_place_is_tried_before_the_work(tmp_path: Path) -> None:
    """Its folders are made, and nothing is left there."""
    assert place.check(tmp_path / "a" / "b" / "n.ipynb") == tmp_path / "a" / "b" / "n.ipynb"
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("name", [".", "old/n.ipynb", "n" * 300, os.fsdecode(b"caf\xe9.ipynb")])
def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, name: str) -> None:
    """A folder, a file in the way, a name too long and a name that is no text."""
    (tmp_path / "old").touch()
    with pytest.raises(StoreError):
        place.check(tmp_path / name)


@pytest.mark.parametrize("name", ["sales.csv", "notebook", "a.ipynb.csv", ".ipynb", "a.IPYNB"])
def test_only_what_is_called_a_notebook_becomes_one(tmp_path: Path, name: str) -> None:
    """Whether anything is there or not."""
    with pytest.raises(UsageError, match=r"can't be called.*End its name with \.ipynb"):
        place.check(tmp_path / name, force=True)


def test_a_notebook_of_ours_is_replaced_until_a_person_changes_it(ours: Path) -> None:
    """Run again it is still ours; with a cell that was edited it is theirs, unless they say otherwise."""
    assert place.check(ours) == ours
    notebook: Any = nbformat.read(ours, as_version=4)
    notebook.metadata.kernelspec.name = "python3"
    nbformat.write(notebook, ours)
    assert place.check(ours) == ours
    notebook.cells.append(nbformat.v4.new_markdown_cell("My own thoughts"))
    nbformat.write(notebook, ours)
    with pytest.raises(UsageError, match=r"was changed since nbagent wrote it.*--force"):
        place.check(ours)
    assert place.check(ours, force=True) == ours
    assert place.free(ours) == ours.with_name("ours-2.ipynb")


def test_a_notebook_of_somebody_elses_is_replaced_by_force_only(tmp_path: Path) -> None:
    """Also one that claims more than it can be."""
    path = foreign(tmp_path / "n.ipynb")
    with pytest.raises(UsageError, match=r"isn't nbagent's.*--force"):
        place.check(path)
    assert place.check(path, force=True) == path


NO_NOTEBOOK: dict[str, Callable[[Path], object]] = {
    "a table": lambda path: path.write_text("a,b\n1,2\n"),
    "other JSON": lambda path: path.write_text('{"metadata": {"nbagent": {"version": "1"}}}'),
    "no text": lambda path: path.write_bytes(b"\xff\x00"),
    "deep nesting": lambda path: path.write_text("[" * 100_000),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("made", NO_NOTEBOOK)
def test_what_is_no_notebook_stays(tmp_path: Path, made: str) -> None:
    """Nothing replaces it, not even by force, whatever it is called."""
    NO_NOTEBOOK[made](tmp_path / "n.ipynb")
    for force in (False, True):
        with pytest.raises(UsageError, match=r"is no notebook|is no plain file"):
            place.check(tmp_path / "n.ipynb", force=force)


SPELLINGS: dict[str, Callable[[Path, Path], object]] = {
    "itself": lambda _data, _other: None,
    "a symbolic link": lambda data, other: other.symlink_to(data),
    "a hard link": lambda data, other: other.hardlink_to(data),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("by", ["file", "folder"])
def test_data_is_never_written_over(tmp_path: Path, spelling: str, by: str) -> None:
    """By whatever name it is given, as a file or in a folder, with or without force."""
    (tmp_path / "data").mkdir()
    data, other = foreign(tmp_path / "data" / "n.ipynb"), tmp_path / "other.ipynb"
    SPELLINGS[spelling](data, other)
    wanted = other if other.exists() else tmp_path / "data" / ".." / "data" / "n.ipynb"
    for force in (False, True):
        with pytest.raises(UsageError, match="is data, and is not written over"):
            place.check(wanted, data=[data if by == "file" else data.parent], force=force)
    assert place.check(tmp_path / "data" / "new.ipynb", data=[data.parent])


def test_no_link_leads_to_a_notebook_elsewhere(ours: Path, tmp_path: Path) -> None:
    """A cloned repository would have a person's own one replaced. Within the folder a link is theirs."""
    cloned = tmp_path / "cloned"
    cloned.mkdir()
    for target in (ours, tmp_path / "new.ipynb", Path("..", ours.name)):
        link = cloned / f"{target.stem}-{len(target.parts)}.ipynb"
        link.symlink_to(target)
        for force in (False, True):
            with pytest.raises(UsageError, match=r"is a link to .*, outside of its folder"):
                place.check(link, force=force)
    (cloned / "inside.ipynb").symlink_to("other.ipynb")
    assert place.check(cloned / "inside.ipynb") == cloned / "other.ipynb"


def test_a_notebook_of_ours_is_data_if_it_is_given_as_such(ours: Path) -> None:
    """In a folder of data, where people keep their notebooks, it is replaced as anywhere."""
    with pytest.raises(UsageError, match="is data"):
        place.check(ours, data=[ours])
    assert place.check(ours, data=[ours.parent]) == ours
