"""The library of tools: what outlives a process, and what of it is refused."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from forge.shared import made

from nbagent.core.errors import ForgeError, StoreError
from nbagent.forge import library as module
from nbagent.forge.library import Library


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """With one tool."""
    one = Library(tmp_path)
    one.add(made())
    return one


def test_a_tool_outlives_the_library_that_it_was_put_into(library: Library, tmp_path: Path) -> None:
    """Another one on the same folder has it, whole, and knows what comes next."""
    other = Library(tmp_path)
    assert other.load("word_count") == made()
    assert other.next_version("word_count") == 2
    assert other.next_version("another") == 1
    (entry,) = other.listed()
    assert (entry.name, entry.version, entry.description) == ("word_count", 1, "Counts the words of a text.")
    assert library.folder.stat().st_mode & 0o777 == 0o700


def test_an_empty_library(tmp_path: Path) -> None:
    """Has no tools, and makes no folder by being asked."""
    empty = Library(tmp_path)
    assert empty.listed() == []
    with pytest.raises(ForgeError, match=r"There is no tool 'word_count' in the library. There are: none yet."):
        empty.load("word_count")
    assert list(tmp_path.iterdir()) == []


def test_versions(library: Library) -> None:
    """The newest is used, older ones stay, as many as are kept; a number is given once."""
    for version in range(2, 13):
        library.add(made(version=version, description=f"The {version}th."))
    assert library.load("word_count").description == "The 12th."
    assert library.load("word_count", version=3).description == "The 3th."
    assert sorted(library.listed()[0].versions) == list(range(3, 13))
    assert len(list((library.folder / "word_count").iterdir())) == module.KEPT
    with pytest.raises(ForgeError, match="has no version 2"):
        library.load("word_count", version=2)
    with pytest.raises(ForgeError, match="was made elsewhere meanwhile, as version 12"):
        library.add(made(version=12))


def test_remove(library: Library) -> None:
    """All of its versions, and its files; the next one of that name begins anew."""
    library.add(made(version=2))
    library.remove("word_count")
    assert library.listed() == []
    assert not (library.folder / "word_count").exists()
    assert library.next_version("word_count") == 1
    with pytest.raises(ForgeError, match="There is no tool"):
        library.remove("word_count")


def test_age(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was used lately is not old, however long ago it was made."""
    library.add(made(name="other_tool", version=1))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1000)
    library.touch("word_count")
    library.touch("no_such_tool")
    assert library.unused(max_age=500) == ["other_tool"]
    assert [each.name for each in library.listed()] == ["word_count", "other_tool"]


@pytest.mark.parametrize("how", ["changed", "exchanged", "gone", "a link", "huge", "a pipe"])
def test_a_file_that_was_changed_is_refused(library: Library, tmp_path: Path, how: str) -> None:
    """With one sentence, and the mend; the other tools are not concerned."""
    library.add(made(name="other_tool", version=1))
    file = library.folder / "word_count" / "1.json"
    good = file.read_bytes()
    file.unlink()
    if how == "changed":
        file.write_bytes(good.replace(b"len(", b"sum("))
    elif how == "exchanged":
        file.write_bytes((library.folder / "other_tool" / "1.json").read_bytes())
    elif how == "a link":
        (tmp_path / "elsewhere").write_bytes(good)
        file.symlink_to(tmp_path / "elsewhere")
    elif how == "huge":
        with file.open("wb") as sparse:
            sparse.truncate(10**12)
    elif how == "a pipe":
        os.mkfifo(file)
    with pytest.raises(ForgeError, match="The tool word_count 1 is not what was put into the library") as caught:
        library.load("word_count")
    assert caught.value.mend.startswith("Have it made and tested again, or remove it")
    assert library.load("other_tool")


def test_what_somebody_else_could_have_written_is_refused(library: Library) -> None:
    """A file that others can write, or that is another user's; the tests run as root, or the second is not tried."""
    index = library.folder / "index.json"
    index.chmod(0o666)
    with pytest.raises(ForgeError, match="belongs to somebody else or can be written by others"):
        library.listed()
    index.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(index, 12345, 12345)
        with pytest.raises(ForgeError, match="belongs to somebody else"):
            library.load("word_count")
        os.chown(index, 0, 0)
    assert library.load("word_count")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"tools": {"word_count": {}}}', '{"tools": []}', "[" * 100_000],
)
def test_an_index_that_is_broken(library: Library, text: str) -> None:
    """Is an error with its path, never a traceback, and is not written over."""
    (library.folder / "index.json").write_text(text)
    with pytest.raises(StoreError, match=r"The tools' index .*index\.json can't be read"):
        library.listed()
    with pytest.raises(StoreError, match="can't be read"):
        library.add(made(version=2))
    assert (library.folder / "index.json").read_text() == text


def test_an_index_that_climbs(library: Library) -> None:
    """A name in it becomes a path and Python in a cell, so it is checked."""
    index = library.folder / "index.json"
    index.write_text(index.read_text().replace("word_count", "../secret"))
    with pytest.raises(ForgeError, match="A tool can't be called"):
        library.load("../secret")


def test_a_name_that_was_given_a_meaning_since(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another Python, for example: that tool is refused and can be removed, the others are not concerned."""
    library.add(made(name="other_tool"))
    monkeypatch.setattr(sys, "stdlib_module_names", sys.stdlib_module_names | {"word_count"})
    with pytest.raises(ForgeError, match="The name word_count is taken by something else"):
        library.load("word_count")
    assert library.load("other_tool")
    library.remove("word_count")
    assert [each.name for each in library.listed()] == ["other_tool"]


def test_a_library_that_is_full(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes no more, and is read and tidied as before: an index that is too large would be none any more."""
    monkeypatch.setattr(module, "MAX_FILE", 2000)
    library.add(made(name="other_tool", description="x" * 1000))
    with pytest.raises(StoreError, match="The library of tools is full"):
        library.add(made(name="more_tool", description="x" * 1000))
    assert library.load("word_count")
    library.remove("word_count")


def test_writers_take_turns(library: Library, tmp_path: Path) -> None:
    """Four that write at once, each with a lock of its own as a process has, lose nothing of each other's."""

    def write(writer: int) -> None:
        own = Library(tmp_path)
        for number in range(1, 11):
            own.add(made(name=f"tool_{writer}_{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(library.listed()) == 41
    assert all(library.load(each.name).name == each.name for each in library.listed())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Is said with its path."""
    (tmp_path / "tools").write_text("a file")
    with pytest.raises(StoreError, match="can't be written"):
        Library(tmp_path).add(made())
