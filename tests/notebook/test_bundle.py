"""The zip of a notebook with all that it needs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from nbagent.core.errors import DataError, UsageError
from nbagent.core.events import DataSeen
from nbagent.notebook.bundle import bundle


def packed(*data: Path) -> zipfile.ZipFile:
    """The zip of a notebook with this data."""
    file = io.BytesIO()
    seen = [DataSeen(f"/tmp/data/{path.name}", str(path), 0) for path in data]
    bundle(file, name="n", texts={"n.ipynb": "{}"}, data=seen)
    return zipfile.ZipFile(file)


def test_data_lies_beside_the_notebook(tmp_path: Path) -> None:
    """Of a folder, what a sandbox sees: neither hidden files nor links; the same data makes the same zip."""
    folder = tmp_path / "many"
    (folder / "in").mkdir(parents=True)
    for name in ("a.csv", "in/b.csv", ".secret"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("/etc/passwd")
    (tmp_path / "one.csv").write_text("1")
    found = packed(tmp_path / "one.csv", folder)
    assert found.namelist() == ["n/README.txt", "n/n.ipynb", "n/one.csv", "n/many/a.csv", "n/many/in/b.csv"]
    assert found.read("n/many/in/b.csv") == b"in/b.csv"
    assert found.testzip() is None


@pytest.mark.parametrize("name", ["gone.csv", "link.csv", "n.ipynb"])
def test_what_cannot_lie_there_is_told(tmp_path: Path, name: str) -> None:
    """Data that is gone, that has become a link since, or that is called as the notebook is."""
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / "n.ipynb").write_text("{}")
    with pytest.raises((DataError, UsageError), match=name):
        packed(tmp_path / name)


@pytest.mark.parametrize("name", ["a\\..\\..\\evil.bat", "in/a\\..\\b"])
def test_no_name_leads_out_of_the_folder_on_windows(tmp_path: Path, name: str) -> None:
    """Where a backslash is the end of a folder's name; whoever made the data chose its names."""
    (tmp_path / "many" / "in").mkdir(parents=True)
    (tmp_path / "many" / name).write_text("x")
    with pytest.raises(DataError, match="Windows"):
        packed(tmp_path / "many")
