"""Data that changes while a session runs, or after it: which hash an export has, and what it tells."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import machine
import nbformat
import pytest

from nbagent import Session
from nbagent.core.errors import StoreError
from nbagent.core.events import CellFinished, CellStarted, DataHashed, DataSeen, Record, SessionStarted
from nbagent.core.session_log import SessionLog, read_log
from nbagent.notebook import document
from nbagent.notebook.data_changes import Read, read_by
from nbagent.notebook.export import export
from nbagent.notebook.record import Recording, record
from nbagent.notebook.verify import Verification
from nbagent.sandbox.data import needs
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.startup import hash_data

OLD, NEW = "a\n1\n", "a\n22\n"
NAMING, OTHER = "pl.read_csv('/tmp/data/a.csv')", "df.height"


def session(path: Path, cells: Sequence[str], *, hashed: bool = True) -> Recording:
    """A session that began at 1000 s, with a cell each 10 s; the data as it is now."""
    data = [DataSeen("/tmp/data/a.csv", str(path), path.stat().st_size, needs.state(path))]
    started = SessionStarted(
        session="s", engine="docker", trust="isolated", environment="", python="3.12", nbagent="1", data=data
    )
    records = [Record(1, 1000.0, started)]
    if hashed:
        records.append(Record(2, 1001.0, DataHashed(hashes={"/tmp/data/a.csv": needs.digest(path)})))
    for number, code in enumerate(cells, 1):
        at = 1000.0 + 10 * number
        records.append(Record(2 * number + 1, at, CellStarted(cell=number, turn=0, code=code)))
        records.append(Record(2 * number + 2, at + 1, CellFinished(cell=number, status="ok", duration=1.0)))
    return record(records)


def changed(path: Path, text: str, at: float) -> None:
    """Write to a file at a time."""
    path.write_text(text)
    os.utime(path, (at, at))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data, older than the session."""
    path = tmp_path / "a.csv"
    changed(path, OLD, 500)
    return path


def read(recording: Recording) -> Read:
    """What the session read of its one file."""
    return read_by(recording, recording.data[0])


@pytest.mark.parametrize("hashed", [True, False])
def test_what_did_not_change_has_its_hash(data: Path, hashed: bool) -> None:
    """Also if the session ended before it was hashed: its size, time and inode are the same."""
    assert read(session(data, [NAMING], hashed=hashed)) == Read(4, needs.digest(data))


@pytest.mark.parametrize(
    ("cells", "at", "told", "new", "mixed"),
    [
        ([NAMING, OTHER], 1100, "cells 1 to 2 ran before, no cell after", False, False),
        ([NAMING, OTHER], 1015, "cell 1 ran before, cell 2 after", False, False),
        ([OTHER, NAMING, NAMING], 1015, "cell 1 ran before, cells 2 to 3 after", True, False),
        ([NAMING, OTHER, NAMING], 1015, "cell 1 ran before, cells 2 to 3 after", False, True),
        ([OTHER, OTHER], 1015, "cell 1 ran before, cell 2 after", False, True),
        (["os.listdir('/tmp/data')", NAMING], 1015, "cell 1 ran before, cell 2 after", False, True),
    ],
)
def test_the_hash_is_that_of_what_cells_read(
    data: Path, cells: list[str], at: float, told: str, new: bool, mixed: bool
) -> None:
    """The data of the start, unless all cells that name it ran after the change; those on both sides are told."""
    recording, digest = session(data, cells), needs.digest(data)
    changed(data, NEW, at)
    found = read(recording)
    assert (found.sha256, found.size) == ((needs.digest(data), 5) if new else (digest, 4))
    assert told in found.told
    assert f"a.csv was changed at 1970-01-01 00:{at // 60}:{at % 60:02} UTC: " in found.told
    assert found.is_mixed is mixed


def test_what_changed_before_all_cells_is_not_told(data: Path) -> None:
    """They have all read what is there now."""
    recording = session(data, [NAMING])
    changed(data, NEW, 1005)
    assert read(recording) == Read(5, needs.digest(data))


def test_what_an_older_file_replaced_or_what_is_gone_is_told(data: Path) -> None:
    """Nobody knows when the one came; the other has the hash that it had."""
    recording, digest = session(data, [NAMING]), needs.digest(data)
    changed(data, NEW, 400)
    found = read(recording)
    assert (found.sha256, found.is_mixed) == (digest, True)
    assert "a.csv was changed at an unknown time" in found.told
    data.unlink()
    assert read(recording) == Read(4, digest, "a.csv is no longer where it was.")
    assert read(session_without_hash(data)).sha256 == ""


def session_without_hash(path: Path) -> Recording:
    """A session whose data was changed before it was hashed."""
    changed(path, OLD, 500)
    recording = session(path, [NAMING], hashed=False)
    changed(path, NEW, 1100)
    return recording


async def test_data_that_changes_between_two_cells_is_named(tmp_path: Path) -> None:
    """In the log, by the export, in the notebook and by verify, which finds no data that gives both cells' outputs."""
    engine, path = machine.works("bubblewrap"), tmp_path / "a.csv"
    path.write_text(OLD)
    digest = needs.digest(path)
    read_it = "print(open('/tmp/data/a.csv').read())"
    async with Session(engine="bubblewrap", data=str(path), state_dir=str(tmp_path / "state")) as made:
        await made.run(read_it)
        path.write_text(NEW)
        await made.run(read_it)
        whole = await made.export(tmp_path / "n.ipynb")
        log = [*read_log(made.folder)]
    assert [each.event.hashes for each in log if isinstance(each.event, DataHashed)] == [{"/tmp/data/a.csv": digest}]
    done = await export(record(log), tmp_path / "m.ipynb", spec=SandboxSpec)
    (told,) = done.changed
    assert told.endswith("cell 1 ran before, cell 2 after.")
    notebook = nbformat.read(whole, as_version=4)
    assert "cell 1 ran before, cell 2 after" in notebook.cells[0].source
    assert notebook.metadata.nbagent.lock.data[0].sha256 == digest
    found = document.parse(whole.read_text(), name="n.ipynb")
    spec = SandboxSpec(data=(Mount(path, "/tmp/data/a.csv"),))
    proof = await Verification(found, engine=engine, spec=spec).run()
    assert [each for each in proof.problems if told in each]


async def test_large_data_keeps_no_session_waiting(tmp_path: Path) -> None:
    """It is hashed while cells run; who ends the session before does not wait for the rest of it."""
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(900 * 1024 * 1024)
    async with Session(engine="bubblewrap", data=str(path), state_dir=str(tmp_path / "state")) as made:
        await made.run("1 + 1")
        folder = made.folder
    log = [each.event for each in read_log(folder)]
    kinds = [type(each) for each in log]
    assert DataHashed not in kinds[: kinds.index(CellFinished)]
    (seen,) = record(read_log(folder)).data
    assert seen.state == needs.state(path)


async def test_hashes_that_can_not_be_logged_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody awaits them: the next cell's events tell of a full disk."""
    path, log = tmp_path / "a.csv", SessionLog(tmp_path / "state", "full-disk")
    path.write_text(OLD)

    def full(_: object) -> None:
        raise StoreError("No space is left.")

    monkeypatch.setattr(log, "emit", full)
    seen = DataSeen("/tmp/data/a.csv", str(path), len(OLD), needs.state(path))
    await hash_data([seen], log, ended=threading.Event())
    log.close()
