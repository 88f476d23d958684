"""Files are written whole or not at all."""

from __future__ import annotations

import array
import os
import socket
import stat
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from machine import no_room

from nbagent.core.errors import StoreError, UsageError
from nbagent.core.fileio import (
    PRIVATE_MODE,
    check_not_data,
    lines,
    make_folder,
    refuse_files,
    remove,
    save,
    staged,
    walk,
    write,
)


@pytest.fixture
def umask() -> Iterator[None]:
    """A umask that takes all from others."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_all_folders_above_one_are_as_private_as_it(tmp_path: Path) -> None:
    """Whatever the umask leaves to others, who could otherwise rename what is in them."""
    before = os.umask(0)
    try:
        make_folder(tmp_path / "state/nbagent/sessions")
        make_folder(tmp_path / "cache/nbagent", mode=0o755)
        make_folder(tmp_path / "state/nbagent")
    finally:
        os.umask(before)
    made = ("state", "state/nbagent", "state/nbagent/sessions", "cache", "cache/nbagent")
    modes = [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in made]
    assert modes == [0o700, 0o700, 0o700, 0o755, 0o755]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_folder(tmp_path / "file/below")


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
    write(tmp_path / "private", b"", mode=PRIVATE_MODE)
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


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    """Missing folders are made, a new file has the usual mode, and nothing else is left there."""
    path = tmp_path / "a" / "b" / "c.txt"
    save(path, b"new")
    assert path.read_bytes() == b"new"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    """A private notebook stays private."""
    path = tmp_path / "x"
    path.touch(mode=0o600)
    save(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_room_the_old_file_stays(tmp_path: Path) -> None:
    """A write that fails in the middle leaves the old file as it was, and no piece of the new one."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with no_room(100), pytest.raises(StoreError, match="can't be written"):
        save(path, b"n" * 1000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file where a folder should be, a name that is too long, and no folder at all are sentences."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "x", tmp_path / ("n" * 300), Path("/proc/nowhere/x")):
        with pytest.raises(StoreError, match="can't be written"):
            save(path, b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_sent_files_are_refused_where_linux_can(tmp_path: Path) -> None:
    """Through a socket that listens, too; bytes go on as ever, and so do files in the other direction."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        refuse_files(server)
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        with server.accept()[0] as accepted:
            accepted.sendmsg([b"x"], rights)
            assert client.recv(1) == b"x"
            client.send(b"x")
            assert accepted.recv(1) == b"x"
            try:
                refuses = accepted.getsockopt(socket.SOL_SOCKET, 83) == 0
            except OSError:
                refuses = False  # a Linux before 6.16
            if refuses:
                with pytest.raises(PermissionError):
                    client.sendmsg([b"x"], rights)
            else:
                assert client.sendmsg([b"x"], rights) == 1


def make_deep(folder: Path, depth: int) -> None:
    """Folders in each other, with a file in the last one."""
    here = folder
    here.mkdir()
    for _ in range(depth):
        here /= "d"
        here.mkdir()
    (here / "file").write_bytes(b"abc")


def test_folders_are_walked_and_removed_however_deep(tmp_path: Path) -> None:
    """Python's own functions fail at a thousand; links are neither followed nor left."""
    kept = tmp_path / "kept"
    make_deep(kept, 2)
    deep = tmp_path / "deep"
    make_deep(deep, 1500)
    (deep / "to folder").symlink_to(kept)
    (deep / "to file").symlink_to(kept / "d" / "d" / "file")
    (deep / "nowhere").symlink_to(tmp_path / "nothing")
    found = list(walk(deep))
    assert len(found) == 1501
    assert sorted(found[0][1]) == ["d", "to folder"]
    assert sorted(found[0][2]) == ["nowhere", "to file"]
    assert found[-1][1:] == ([], ["file"])
    (tmp_path / "link").symlink_to(deep)
    remove(tmp_path / "link")
    assert deep.exists()
    remove(deep)
    assert not deep.exists()
    assert (kept / "d" / "d" / "file").read_bytes() == b"abc"
    remove(deep)


def test_walking_is_in_the_order_of_pythons_own(tmp_path: Path) -> None:
    """Which hashes of folders depend on; whoever walks may take folders away and sort them."""
    for name in ("b/x/1", "b/y/2", "a/3", "c/z/4"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def walked(how: Callable[[Path], Iterable[tuple[str, list[str], list[str]]]]) -> list[str]:
        seen = []
        for parent, below, names in how(tmp_path):
            below[:] = sorted(name for name in below if name != "c")
            seen += [parent, *sorted(names)]
        return seen

    assert walked(walk) == walked(os.walk)


def test_deep_data_is_looked_through(tmp_path: Path) -> None:
    """For a second name of a file that is to be written over."""
    make_deep(tmp_path / "data", 1500)
    (tmp_path / "data" / "a").write_bytes(b"x")
    os.link(tmp_path / "data" / "a", tmp_path / "b")
    with pytest.raises(UsageError, match="is data"):
        check_not_data(tmp_path / "b", [tmp_path / "data"])
    remove(tmp_path / "data")


def test_lines_of_others_are_read_within_bounds(tmp_path: Path) -> None:
    """A hole takes no memory, a long line is refused, and one that was cut is left out."""
    path = tmp_path / "text"
    path.write_bytes(b"a\n" + b"b" * 3_000_000 + b"\n\ncut")
    with path.open("rb") as file:
        assert [len(each) for each in lines(file)] == [2, 3_000_001, 1]
    with path.open("rb") as file, pytest.raises(OSError, match="more than 10 bytes"):
        list(lines(file, most=10))
    with path.open("ab") as file:
        file.truncate(2_000_000_000)
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(OSError, match="more than"):
            list(lines(file))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    path.write_bytes(b"a\n\0\n" + bytes(2_000_000) + b"\n")
    found: list[bytes] = []
    with path.open("rb") as file, pytest.raises(OSError, match="no text"):
        found.extend(lines(file))
    assert found == [b"a\n", b"\0\n"]
