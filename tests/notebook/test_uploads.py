"""Uploads in a notebook: told, and done again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from nbagent.core.events import FileUploaded
from nbagent.notebook import nodes, uploads
from nbagent.notebook.uploads import upload_cells


def test_an_archive_stays_in_its_folder(beside: Path) -> None:
    """Such a notebook is run outside of sandboxes, too, where an archive of a stranger's could write anywhere."""
    with tarfile.open(beside / "all.tar", "w") as packed:
        packed.addfile(tarfile.TarInfo("../outside.txt"))
    with zipfile.ZipFile(beside / "all.zip", "w") as zipped:
        zipped.writestr("inside.txt", "x")
    digests = {name: hashlib.sha256((beside / name).read_bytes()).hexdigest() for name in ("all.tar", "all.zip")}
    (beside / "in").mkdir()
    for name, digest in digests.items():
        upload = FileUploaded(path=str(beside / "in" / "all"), name=name, size=1, sha256=digest, unpacked=1)
        with pytest.raises(tarfile.TarError) if name == "all.tar" else contextlib.nullcontext():
            run(upload, Shell())
    assert (beside / "in" / "all" / "inside.txt").read_text() == "x"
    assert not (beside / "in" / "outside.txt").exists()


class Shell:
    """As much of IPython as the cell asks for, in its fifth cell."""

    def __init__(self) -> None:
        self.execution_count = 5
        self.history_manager = SimpleNamespace(input_hist_raw=[*"012345"], input_hist_parsed=[*"012345"])


def run(upload: FileUploaded, shell: Shell) -> dict[str, Any]:
    """What running the code cell of an upload leaves in a namespace."""
    space: dict[str, Any] = {"get_ipython": lambda: shell}
    source = upload_cells(upload, 1)[1]["source"]
    shell.history_manager.input_hist_raw[-1] = source
    exec(source, space)  # noqa: S102 - that is what it is for
    return {name: value for name, value in space.items() if not name.startswith("__")}


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a notebook, from which it runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_is_put_there_again(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From beside the notebook, into folders that come to be; the cell leaves no name, and in a sandbox no number.

    Any other kernel has a history in which each number is there once, and complained in the next cell's output.
    """
    (beside / "it's.txt").write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    target = beside / "in" / "side.txt"
    shell = Shell()
    left = run(FileUploaded(path=str(target), name="it's.txt", size=7, sha256=digest), shell)
    assert target.read_bytes() == b"content"
    assert set(left) == {"get_ipython"}
    assert shell.execution_count == 5
    monkeypatch.setattr(uploads, "RUN", str(beside))
    run(FileUploaded(path=str(target), name="it's.txt", size=7, sha256=digest), shell)
    assert (shell.execution_count, len(shell.history_manager.input_hist_raw)) == (4, 5)


def test_another_file_of_that_name_is_none(beside: Path) -> None:
    """Only what was uploaded will do; the error says what is needed."""
    (beside / "a.txt").write_bytes(b"other")
    with pytest.raises(FileNotFoundError, match=r"Put a.txt beside this notebook, as it was uploaded: SHA-256 000"):
        run(FileUploaded(path=str(beside / "x"), name="a.txt", size=7, sha256="0" * 64), Shell())


def test_without_a_sandbox_no_folder_of_another_user_is_used(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can make /tmp/data and /tmp/output first, with other data and with links to a person's files."""
    monkeypatch.setattr(uploads, "OUTPUT", str(beside / "output"))
    (beside / "a.csv").touch()
    source = uploads.places_cell([str(beside / "data" / "a.csv")], plain=False)["source"]
    exec(source, {})  # noqa: S102 - that is what it is for
    assert (beside / "data" / "a.csv").is_symlink()
    assert (beside / "output").is_dir()
    shell = Shell()
    exec(source, {"get_ipython": lambda: shell})  # noqa: S102
    assert shell.execution_count == 5
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(PermissionError, match="is another user's"):
        exec(source, {})  # noqa: S102


def test_the_cells_are_a_notebooks(beside: Path) -> None:
    """Valid ones, whose text can't be steered by a name."""
    upload = FileUploaded(path=str(beside / "`x`"), name="a`**b**", size=1, sha256="0" * 64, source="/secret/a")
    text, code = upload_cells(upload, 2)
    nbformat.validate(nbformat.from_dict(nodes.new_notebook([text, code], {})))
    assert "`a'**b**`" in text["source"]
    assert "/secret" not in text["source"] + code["source"]
