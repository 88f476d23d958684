"""Data that is copied into a sandbox that runs already: what it sees is what it would see of a mount."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from nbagent.errors import DataError
from nbagent.sandbox import copies
from nbagent.sandbox.copies import copy, obstacle
from nbagent.sandbox.mounts import DATA, Mount

NOBODY = 64420


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """The folder that is filled."""
    folder = tmp_path / "to"
    folder.mkdir()
    return folder


def mount(source: Path) -> Mount:
    """A file or folder where a session shows it."""
    return Mount(source, f"{DATA}/{source.name}")


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every name below a folder, with its mode, its time in nanoseconds and its contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        what = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (stat.S_IMODE(status.st_mode), status.st_mtime_ns if what else 0, what)
    return found


def test_files_and_folders_are_copied_as_they_are(tmp_path: Path, to: Path) -> None:
    """Names, contents, times and modes, also of what is executable, empty, hidden or has an odd name."""
    data = tmp_path / "data set"
    (data / "a" / "b").mkdir(parents=True)
    (data / "empty").mkdir()
    (data / "a" / "table\n1.csv").write_bytes(os.urandom(100_000))
    (data / "a" / "b" / "übung.txt").write_text("x")
    (data / ".hidden").write_text("y")
    (data / "nothing").touch()
    (data / "run.sh").write_text("#!/bin/sh")
    (data / "run.sh").chmod(0o755)
    os.utime(data / ".hidden", ns=(10**18, 10**18 + 1))
    single = tmp_path / "single.csv"
    single.write_text("a,b")
    assert obstacle([mount(data), mount(single)]) == ""
    copy([mount(data), mount(single)], to, uid=os.getuid())
    assert tree(to / "data set") == tree(data)
    assert (to / "single.csv").read_text() == "a,b"


@pytest.mark.needs("root")
def test_what_is_private_in_an_open_folder_stays_so(tmp_path: Path, to: Path) -> None:
    """As with mounts: a file that a person named, or all of a closed folder, is opened; a secret beside data isn't."""
    opened, closed, named = tmp_path / "opened", tmp_path / "closed", tmp_path / "named.csv"
    for folder in (opened, closed):
        folder.mkdir()
        (folder / "secret").write_text("s")
        (folder / "secret").chmod(0o600)
    opened.chmod(0o755)
    closed.chmod(0o700)
    named.write_text("n")
    named.chmod(0o600)
    copy([mount(opened), mount(closed), mount(named)], to, uid=NOBODY)
    modes = {name: oct(mode) for name, (mode, _, _) in tree(to).items()}
    assert modes == {
        "opened": "0o755",
        "opened/secret": "0o600",
        "closed": "0o755",
        "closed/secret": "0o644",
        "named.csv": "0o644",
    }


@pytest.mark.parametrize("kind", ["link", "link to a folder", "dangling link", "pipe", "socket"])
def test_what_is_no_plain_file_is_an_obstacle(kind: str, tmp_path: Path, to: Path) -> None:
    """Links, pipes and sockets are neither followed, waited for, nor left out: such data is mounted."""
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    odd = data / "sub" / "odd"
    with socket.socket(socket.AF_UNIX) as server:
        match kind:
            case "link":
                odd.symlink_to("/etc/passwd")
            case "link to a folder":
                odd.symlink_to("/etc")
            case "dangling link":
                odd.symlink_to("nowhere")
            case "pipe":
                os.mkfifo(odd)
            case "socket":
                server.bind(str(odd))
        assert obstacle([mount(data)]) == "'sub/odd' is neither a file nor a folder"
        with pytest.raises(DataError, match="neither a file nor a folder"):
            copy([mount(data)], to, uid=os.getuid())


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path: Path, to: Path) -> None:
    """Between the look and the copy, somebody else may put a link in a file's place."""
    secret, data = tmp_path / "secret", tmp_path / "data.csv"
    secret.write_text("s")
    data.write_text("d")
    given = mount(data)
    assert obstacle([given]) == ""
    data.unlink()
    data.symlink_to(secret)
    with pytest.raises(DataError, match="neither a file nor a folder"):
        copy([given], to, uid=os.getuid())
    entry = copies._Entry(str(data), None, secret.lstat(), to, 0o644)  # type: ignore[arg-type]  # even later
    with pytest.raises(OSError, match="symbolic links"):
        copies._copy_file(entry, to / "copy", 100)
    assert list(to.iterdir()) == []


def test_much_data_is_an_obstacle(tmp_path: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes, by files and by depth; a file that grows while it is copied stops it."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(copies.MAX_BYTES + 1)
    assert obstacle([mount(large)]) == "it has more than 256 MB"
    large.unlink()
    many = tmp_path / "many"
    many.mkdir()
    for number in range(copies.MAX_FILES):
        (many / str(number)).touch()
    assert obstacle([mount(many)]) == "it has more than 1,000 files"
    deep = tmp_path / "deep"
    (deep / "/".join("d" * (copies.MAX_DEPTH + 3))).mkdir(parents=True)
    assert "deep" in obstacle([mount(deep)])
    small = tmp_path / "small"
    small.write_text("four")
    monkeypatch.setattr(copies, "MAX_BYTES", 3)
    with pytest.raises(DataError, match="more than"):
        copy([mount(small)], to, uid=os.getuid())


def test_data_that_is_gone_or_is_seen_elsewhere_is_an_obstacle(tmp_path: Path) -> None:
    """The reason is said, whatever it is."""
    assert "No such file" in obstacle([mount(tmp_path / "gone")])
    assert obstacle([Mount(tmp_path, "/tmp/data")]) == "it is to be seen at /tmp/data"
