"""What of the host's files a sandbox is given, and what a kernel that another client starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.core import folders
from nbagent.core.errors import DataError
from nbagent.core.events import DataSeen
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data.mounts import Mount, for_client, named
from nbagent.sandbox.paths import DATA
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder and a state folder of the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    return home


def test_a_folder_is_given_as_it_is(home: Path) -> None:
    """What of it is shown is decided where it is read, at every depth (`test_tree.py`)."""
    folder = home / "project"
    (folder / ".ssh").mkdir(parents=True)
    assert for_client(folder) == [Mount(folder, DATA)]


@pytest.mark.parametrize("name", [".", "..", ".ssh", ".config/nbagent", "project/.git"])
def test_private_folders_show_nothing(home: Path, name: str) -> None:
    """The home folder, those above it, and what is hidden below it."""
    folder = (home / name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key").touch()
    assert for_client(folder) == []


@pytest.mark.parametrize("folder", ["/proc/self", "/run", "/etc", "/dev/shm"])
def test_the_systems_own_folders_show_nothing(home: Path, folder: str) -> None:
    """No notebook lies there, but sockets and secrets do."""
    assert home
    assert for_client(Path(folder).resolve()) == []


def test_data_of_exported_notebooks_is_seen(home: Path, tmp_path: Path) -> None:
    """Where nbagent wrote a notebook, its data is there too, in place of a stranger of the same name."""
    folder = home / "project"
    folder.mkdir()
    (folder / "a.csv").write_text("another")
    source = tmp_path / "a.csv"
    source.touch()
    folders.remember_export(tmp_path / "state", folder / "n.ipynb", [DataSeen(f"{DATA}/a.csv", str(source), 0)])
    assert for_client(folder) == [Mount(folder, DATA), Mount(source, f"{DATA}/a.csv")]
    folders.remember_export(tmp_path / "state", home / "n.ipynb", [DataSeen(f"{DATA}/a.csv", str(source), 0)])
    assert for_client(home) == [Mount(source, f"{DATA}/a.csv")]


def test_data_of_an_exported_notebook_that_became_a_link_is_not_seen(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's update of a folder can put a link in the place of data that was exported there, or above it."""
    folder, secret = home / "clone", home / ".aws"
    (folder / "data").mkdir(parents=True)
    secret.mkdir()
    (secret / "credentials").touch()
    (folder / "a.csv").touch()
    (folder / "data" / "credentials").touch()
    seen = [
        DataSeen(f"{DATA}/x.csv", str(folder / "a.csv"), 0),
        DataSeen(f"{DATA}/y.csv", str(folder / "data" / "credentials"), 0),
    ]
    folders.remember_export(tmp_path / "state", folder / "n.ipynb", seen)
    assert len(for_client(folder)) == 3
    (folder / "a.csv").unlink()
    (folder / "a.csv").symlink_to("../.aws/credentials")
    shutil.rmtree(folder / "data")
    (folder / "data").symlink_to("../.aws")
    assert for_client(folder) == [Mount(folder, DATA)]
    assert sum("leads through a link now" in each.getMessage() for each in caplog.records) == 2


def test_a_link_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    """A glob over a cloned repository names its links; the error names what it leads to, which can be named instead."""
    folder = tmp_path / "clone"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").touch()
    (folder / ".env").touch()
    (folder / "a.csv").touch()
    for at, to in {"out": "../secret", "up": "..", "own": ".", "env": ".env", "chain": "out", "abs": "/etc"}.items():
        (folder / at).symlink_to(to)
        with pytest.raises(DataError, match="is a link to") as caught:
            named(folder / at)
        assert str((folder / at).resolve()) in caught.value.message
    for at, to in {"latest.csv": "a.csv", "inner": "sub", "again.csv": "latest.csv"}.items():
        (folder / at).symlink_to(to)
        assert named(str(folder / at)) == (folder / at).resolve()
    assert named(folder / ".env") == folder / ".env"
    (tmp_path / "mine").symlink_to(folder)
    assert named(tmp_path / "mine" / "a.csv") == folder / "a.csv"


@pytest.fixture
def below(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own in a data folder, writable for everybody."""
    below = tmp_path / "data" / "below"
    below.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "none", str(below)], check=True)
    yield below
    subprocess.run(["umount", str(below)], check=True)


async def test_what_is_mounted_below_data_can_t_be_written(engine: Engine, below: Path) -> None:
    """A file system that is mounted somewhere in a data folder is not writable through it."""
    async with Kernel(engine, SandboxSpec(data=(Mount(below.parent, f"{DATA}/data"),))) as kernel:
        await kernel.run(f"open('{DATA}/data/below/x', 'w').write('written')")
    assert list(below.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o700])
async def test_sockets_and_pipes_in_data_are_hidden(engine: Engine, tmp_path: Path, mode: int) -> None:
    """Read-only doesn't hold for them, so the sandbox doesn't get them, whatever the folder's mode."""
    data = tmp_path / "data"
    for folder in (data, data / "inner"):
        folder.mkdir()
        os.mkfifo(folder / "pipe")
        (folder / "pipe").chmod(0o666)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        (folder / "table.csv").write_text("a")
    data.chmod(mode)
    code = f"""
import os, stat
found = [os.path.join(at, name) for at, _, names in os.walk("{DATA}/data") for name in names]
print([[os.path.relpath(each, "{DATA}/data"), stat.S_ISREG(os.stat(each).st_mode)] for each in sorted(found)
       if os.path.getsize(each) or not stat.S_ISREG(os.stat(each).st_mode)])
"""
    async with Kernel(engine, SandboxSpec(data=(Mount(data, f"{DATA}/data"),))) as kernel:
        cell = await kernel.run(code)
    assert cell.text.strip() == "[['inner/table.csv', True], ['table.csv', True]]"
    assert (data / "pipe").is_fifo()
    assert (data / "inner" / "socket").is_socket()
