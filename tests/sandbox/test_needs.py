"""The data of a notebook that is run again, found by its name and its hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbagent.core import fileio, folders
from nbagent.core.events import DataSeen
from nbagent.sandbox.data import locate as locate_module
from nbagent.sandbox.data import needs
from nbagent.sandbox.data.locate import DEMO, locate, packaged, packaged_for
from nbagent.sandbox.spec import size_of

PENGUINS = Path(DEMO) / "penguins.csv"


def notebook(path: Path, *data: dict[str, Any], **more: Any) -> Path:
    """A notebook that says it was made with this data."""
    path.write_text(json.dumps({"metadata": {"nbagent": {"version": "1", "data": data, **more}}}))
    return path


def of(path: Path, name: str = "") -> dict[str, Any]:
    """What a notebook says of a file."""
    return {"path": f"/tmp/data/{name or path.name}", "size": path.stat().st_size, "sha256": needs.digest(path)}


def test_data_is_found_beside_the_notebook_and_where_it_was(tmp_path: Path) -> None:
    """The file beside it, if it is the same; else where this machine has seen it, even if it changed since."""
    (tmp_path / "far").mkdir()
    far = tmp_path / "far" / "a.csv"
    far.write_text("1")
    path = notebook(tmp_path / "n.ipynb", of(far, "b.csv"))
    assert locate(path, tmp_path / "state").missing == ["b.csv"]
    folders.remember_export(tmp_path / "state", path, [DataSeen("/tmp/data/b.csv", str(far), 1)])
    assert locate(path, tmp_path / "state").places == {"/tmp/data/b.csv": far}
    (tmp_path / "b.csv").write_text("1")
    assert locate(path, tmp_path / "state").places == {"/tmp/data/b.csv": tmp_path / "b.csv"}
    (tmp_path / "b.csv").write_text("2")
    far.write_text("22")
    found = locate(path, tmp_path / "state")
    assert (found.places, found.changed) == ({"/tmp/data/b.csv": far}, ["b.csv"])


def test_the_demos_own_data_is_found_in_the_package(tmp_path: Path) -> None:
    """By name and hash; a file of the person's that is called so too comes first in their folder."""
    path = notebook(tmp_path / "n.ipynb", of(PENGUINS))
    assert locate(path, tmp_path / "state").places == {"/tmp/data/penguins.csv": PENGUINS}
    assert packaged_for(tmp_path) == {"/tmp/data/penguins.csv": PENGUINS}
    (tmp_path / "penguins.csv").write_text("mine")
    assert packaged_for(tmp_path) == {}
    assert packaged("penguins.csv", "0" * 64) is None


def test_an_upload_is_looked_for_by_its_own_name(tmp_path: Path) -> None:
    """As the cell that brings it back looks for it."""
    (tmp_path / "in.txt").write_text("x")
    upload = {"path": "/workspace/in/out.txt", "name": "in.txt", "size": 1, "sha256": needs.digest(tmp_path / "in.txt")}
    path = notebook(tmp_path / "n.ipynb", uploads=[upload])
    assert locate(path, tmp_path / "state").places == {"/tmp/data/in.txt": tmp_path / "in.txt"}


@pytest.mark.parametrize("name", [".ssh", "..", "../secret", "a/b", "", ".env", "linked", "folder", "other"])
def test_a_strangers_notebook_reaches_nothing_that_it_does_not_know(tmp_path: Path, name: str) -> None:
    """No hidden file, no link, no folder, nothing outside, and no file whose contents it can't name."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / ".ssh").mkdir()
    (here / ".env").write_text("x")
    (here / "other").write_text("y")
    (here / "linked").symlink_to(secret)
    known = of(secret) if name not in (".ssh", "folder") else {"sha256": ""}
    path = notebook(here / "n.ipynb", {**known, "path": f"/tmp/data/{name}", "size": 1})
    assert locate(path, tmp_path / "state").places == {}


def test_a_folder_of_large_notebooks_is_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that JupyterLab starts in a cloned repository read 6 GB of them, while the server waited."""
    heavy = '{"path":""},' * 200_000
    (tmp_path / "a.ipynb").write_text(f'{{"metadata":{{"nbagent":{{"version":"1","data":[{heavy[:-1]}]}}}}}}')
    assert needs.needed(tmp_path / "a.ipynb") == []
    read: list[Path] = []

    def look(path: Path) -> list[needs.Needed]:
        read.append(path)
        return []

    monkeypatch.setattr(locate_module, "needed", look)
    monkeypatch.setattr(locate_module, "MAX_READ", 10_000_000)
    for number in range(20):
        (tmp_path / f"{number}.ipynb").write_text("x" * 1_000_000)
    locate_module.packaged_for(tmp_path)
    assert 5 < len(read) <= 10


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"metadata": {"nbagent": {"data": 5}}}', "\ud800"])
def test_what_is_no_notebook_of_ours_needs_nothing(tmp_path: Path, text: str) -> None:
    """Whatever it holds."""
    (tmp_path / "n.ipynb").write_text(text, errors="surrogatepass")
    assert needs.needed(tmp_path / "n.ipynb") == []


def test_a_folder_of_many_levels_is_data_as_any_other(tmp_path: Path) -> None:
    """A repository may hold as many as Linux takes, where functions that call themselves fail."""
    here = top = tmp_path / "given"
    here.mkdir()
    for _ in range(1_500):
        here /= "d"
        here.mkdir()
    (here / "a.csv").write_text("a\n1\n")
    try:
        assert size_of(top) == 4
        before = needs.digest(top), needs.state(top)
        assert all(before)
        (here / "a.csv").write_text("a\n12\n")
        assert not {*before} & {needs.digest(top), needs.state(top)}
        assert needs.changed_at(top) > 0
    finally:
        fileio.remove(top)
