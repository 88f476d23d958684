"""What of a person's files a notebook sees that is verified: never what a link of a cloned repository leads to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from nbagent.core import folders
from nbagent.core.errors import DataError
from nbagent.core.events import DataSeen
from nbagent.notebook.inputs import beside, inputs
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.paths import DATA


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A cloned repository whose notebook needs `figures` and `table.csv`, with links out of it; a secret beside it."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("secret")
    folder = tmp_path / "clone"
    (folder / "inner").mkdir(parents=True)
    (folder / "figures").symlink_to("../.ssh")
    (folder / "table.csv").symlink_to("../.ssh/id")
    (folder / "data").symlink_to("..")
    (folder / "inner" / "table.csv").write_text("a\n1\n")
    (folder / "inner" / "figures").symlink_to(".")
    for name in ("figures", "table.csv"):
        facts = {"version": "1", "data": [{"path": f"{DATA}/{name}", "size": 1, "sha256": "0" * 64}]}
        (folder / f"{name}.ipynb").write_text(json.dumps({"metadata": {"nbagent": facts}, "cells": []}))
    return folder


@pytest.mark.parametrize("name", ["figures", "table.csv"])
@pytest.mark.parametrize("given", [".", "figures", "table.csv", "data"])
def test_a_link_of_a_repository_is_not_followed_out_of_it(clone: Path, given: str, name: str) -> None:
    """Be it the folder that a person names, or what the notebook asks for in there."""
    with pytest.raises(DataError):
        inputs(clone / f"{name}.ipynb", given=[clone / given], root=clone / "state", foreign=False)


@pytest.mark.parametrize("given", ["figures", "data", "table.csv"])
def test_anybodys_notebook_is_given_no_link_that_leads_out(clone: Path, given: str) -> None:
    """It sees a folder that a person names, unless that is a link of the repository's."""
    with pytest.raises(DataError, match="is a link to"):
        inputs(clone / "table.csv.ipynb", given=[clone / given], root=clone / "state", foreign=True)
    found = inputs(clone / "table.csv.ipynb", given=[clone / "inner"], root=clone / "state", foreign=True)
    assert found.mounts == [Mount(clone / "inner", DATA)]


def test_links_within_the_folder_and_what_a_person_names_are_data(clone: Path, tmp_path: Path) -> None:
    """By the name of the link, with what it leads to."""
    (clone / "inner" / "again.csv").symlink_to("table.csv")
    (clone / "inner" / "table.csv").rename(clone / "inner" / "first.csv")
    (clone / "inner" / "table.csv").symlink_to("first.csv")
    for given in (clone / "inner", clone / "inner" / "table.csv"):
        found = inputs(clone / "table.csv.ipynb", given=[given], root=tmp_path / "state", foreign=False)
        assert found.mounts == [Mount(clone / "inner" / "first.csv", f"{DATA}/table.csv")]


def test_data_that_an_export_remembered_is_not_looked_for_behind_a_link(clone: Path, tmp_path: Path) -> None:
    """An update of the repository can put a link where the data was."""
    (clone / "was").mkdir()
    (clone / "was" / "id").write_text("a\n1\n")
    seen = [DataSeen(f"{DATA}/table.csv", str(clone / "was" / "id"), 0)]
    folders.remember_export(tmp_path / "state", clone / "n.ipynb", seen)
    found = inputs(clone / "table.csv.ipynb", given=(), root=tmp_path / "state", foreign=False)
    assert [each.source for each in found.mounts] == [clone / "was" / "id"]
    (clone / "was" / "id").unlink()
    (clone / "was").rmdir()
    (clone / "was").symlink_to("../.ssh")
    with pytest.raises(DataError, match="isn't here as it was"):
        inputs(clone / "table.csv.ipynb", given=(), root=tmp_path / "state", foreign=False)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("pd.read_csv('sales.csv')", ["sales.csv"]),
        ("open('./sub/part.csv'); open('sub/../sales.csv')", ["sales.csv", "sub"]),
        ("pl.read_csv('*.csv')\npathlib.Path('sub').glob('*.txt')", ["sales.csv", "sub"]),
        ("import helpers\nfrom sub.inner import x", ["helpers.py", "sub"]),
        ("files = !ls sub\n!head -1 'sales.csv' | wc", ["sales.csv", "sub"]),
        ("%%bash\ncat sales.csv", ["sales.csv"]),
        ("open('other.ipynb'); open('nbagent-output/x.csv')", ["nbagent-output", "other.ipynb"]),
        ("os.listdir()", ["helpers.py", "sales.csv", "sub"]),
        ("glob.glob('*')", ["helpers.py", "sales.csv", "sub"]),
        ("sub = 3\nprint('sales', 'nothing.csv', '', '/etc/passwd', '../other/secret.txt')", []),
        ("open('.env'); open('link.csv'); open('out'); open('pipe'); open('n.ipynb')", []),
        ("%%javascript\nalert('x", []),
    ],
)
def test_code_sees_beside_it_what_it_names(tmp_path: Path, code: str, names: list[str]) -> None:
    """As paths, patterns, modules or words of commands; never hidden names, links, or what is elsewhere."""
    folder = tmp_path / "project"
    (folder / "sub" / "inner").mkdir(parents=True)
    (folder / "nbagent-output").mkdir()
    for name in ("sales.csv", "helpers.py", ".env", "n.ipynb", "other.ipynb"):
        (folder / name).write_text("x")
    (folder / "link.csv").symlink_to("sales.csv")
    (folder / "out").symlink_to("..")
    os.mkfifo(folder / "pipe")
    assert [each.name for each in beside(folder / "n.ipynb", [code])] == names


def test_of_a_private_folder_code_sees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder itself has what no notebook is about."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / "keys.txt").write_text("secret")
    assert beside(tmp_path / "n.ipynb", ["open('keys.txt')"]) == []


def test_code_of_thousands_of_patterns_takes_no_time(tmp_path: Path) -> None:
    """Who wrote it may want that each of a folder's names is held against each of them."""
    for number in range(2_000):
        (tmp_path / f"{number}.txt").touch()
    code = "\n".join(f"glob('{number}*.csv')" for number in range(20_000))
    begun = time.process_time()
    assert beside(tmp_path / "n.ipynb", [code]) == []
    assert time.process_time() - begun < 3


def test_nothing_is_beside_code_whose_folder_cannot_be_read(tmp_path: Path) -> None:
    """It may be gone by now, or closed to the person: the code runs all the same."""
    assert beside(tmp_path / "gone" / "n.ipynb", ["import os\nos.listdir()"]) == []
    (tmp_path / "file").touch()
    assert beside(tmp_path / "file" / "n.ipynb", ["open('a.csv')"]) == []
