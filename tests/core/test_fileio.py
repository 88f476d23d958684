"""Files are written whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.core.fileio import PRIVATE, staged, write


@pytest.fixture
def umask() -> Iterator[None]:
    """A umask that takes all from others."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def names(folder: Path) -> list[str]:
    """What there is in a folder."""
    return sorted(each.name for each in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A reader sees the old contents or the new ones, never a part, and nothing else is left in the folder."""
    path = tmp_path / "file"
    contents = [bytes([number]) * 200_000 for number in range(20)]
    write(path, contents[0])
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for each in contents:
        write(path, each)
    done.set()
    reader.join()
    assert seen <= set(contents)
    assert names(tmp_path) == ["file"]


@pytest.mark.usefixtures("umask")
def test_a_file_has_the_mode_that_is_wanted(tmp_path: Path) -> None:
    """That of the umask if nothing is said, that of the file which is there, or the one that is named."""

    def mode(name: str) -> str:
        return oct((tmp_path / name).stat().st_mode & 0o777)

    write(tmp_path / "new", b"")
    write(tmp_path / "private", b"", mode=PRIVATE)
    (tmp_path / "old").touch(mode=0o600)
    (tmp_path / "old").chmod(0o755)
    write(tmp_path / "old", b"x")
    assert [mode(name) for name in ("new", "private", "old")] == ["0o640", "0o600", "0o755"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """What can't be put in place is gone; a folder is no file that could be replaced."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / "folder", b"x")
    with pytest.raises(OSError, match="nothing"):
        write(tmp_path / "nothing" / "file", b"x")
    assert names(tmp_path) == ["folder"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What it leads to stays as it was."""
    (tmp_path / "secret").write_bytes(b"old")
    (tmp_path / "link").symlink_to("secret")
    write(tmp_path / "link", b"new")
    assert ((tmp_path / "secret").read_bytes(), (tmp_path / "link").is_symlink()) == (b"old", False)


def test_what_gets_no_place_goes(tmp_path: Path) -> None:
    """A file that was begun, and whose writer failed, leaves nothing; one is private until it has its place."""

    def fail() -> None:
        with staged(tmp_path) as (file, path):
            file.write(b"half")
            assert oct(path.stat().st_mode & 0o777) == "0o600"
            raise RuntimeError("The writer failed.")

    with pytest.raises(RuntimeError, match="The writer failed"):
        fail()
    assert names(tmp_path) == []
