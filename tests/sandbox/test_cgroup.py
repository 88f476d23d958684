"""Control groups on this machine, as the tests' own user may make them."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.policy import MIB, Limits
from nbagent.sandbox import cgroup
from nbagent.sandbox.cgroup import Group, Hierarchy

NAME = "test-of-cgroup"


@pytest.fixture
def hierarchy() -> Hierarchy:
    """Where groups are made here."""
    found = cgroup.find()
    assert found is not None, "this user may make no control groups: run the tests as root"
    return found


@pytest.fixture
def group(hierarchy: Hierarchy) -> Iterator[Group]:
    """A group with small limits."""
    made = Group(hierarchy, NAME, Limits(memory_mb=200, cpus=0.25, pids=20))
    yield made
    made.remove()


def folders(hierarchy: Hierarchy) -> list[Path]:
    """Where the group of these tests is."""
    return [folder / NAME for folder in hierarchy.folders.values()]


def start(group: Group, *command: str) -> subprocess.Popen[bytes]:
    """Start a program in the group."""
    join = "; ".join(f"echo 0 > {each}" for each in group.join_files)
    return subprocess.Popen(["/bin/sh", "-c", f'{join}; exec "$@"', "sh", *command], stderr=subprocess.DEVNULL)


def read(hierarchy: Hierarchy, controller: str, *names: str) -> str:
    """The first of these files of the group."""
    found = [hierarchy.folders[controller] / NAME / name for name in names]
    return next(path for path in found if path.exists()).read_text().strip()


def test_limits_are_written(hierarchy: Hierarchy, group: Group) -> None:
    """Memory in bytes, no swap beside it, the quota of a period, and processes."""
    assert group.join_files
    assert read(hierarchy, "memory", "memory.limit_in_bytes", "memory.max") == str(200 * MIB)
    assert read(hierarchy, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "25000"
    assert read(hierarchy, "pids", "pids.max") == "20"


def test_a_process_beyond_its_memory_is_counted(group: Group) -> None:
    """A kill for want of memory is told, with the peak; before it there is none."""
    assert group.usage.oom_kills() == 0
    hog = start(group, "python3", "-c", "x = bytearray(10**9)")
    assert hog.wait(timeout=30) == -9
    assert group.usage.oom_kills() == 1
    assert 150 * MIB < (group.usage.memory_peak() or 0) <= 200 * MIB


def test_removal_kills_what_is_in_it(hierarchy: Hierarchy, group: Group) -> None:
    """Nothing of a group outlives it, and removing it again does nothing."""
    sleeper = start(group, "sleep", "1000")
    while not any((each / "cgroup.procs").read_text() for each in folders(hierarchy)):
        pass
    group.remove()
    assert sleeper.wait(timeout=5) == -9
    assert not any(each.exists() for each in folders(hierarchy))
    group.remove()
    assert group.usage.memory_peak() is None
    assert group.usage.oom_kills() == 0


def test_what_linux_refuses_leaves_no_group(hierarchy: Hierarchy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A period below a millisecond is refused, and the folders that were made are gone."""
    monkeypatch.setattr(cgroup, "PERIOD", 50)
    with pytest.raises(OSError, match="Invalid argument"):
        Group(hierarchy, NAME, Limits(cpus=0.5))
    assert not any(each.exists() for each in folders(hierarchy))


def test_threads_find_it_at_the_same_time() -> None:
    """Looking from many threads at once gives each the same answer."""
    found: list[Hierarchy | None] = []
    threads = [threading.Thread(target=lambda: found.extend(cgroup.find() for _ in range(20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160
    assert None not in found


def test_no_group_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there are no control groups, that is said."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path / "nothing")
    assert cgroup.find() is None


def test_a_tree_of_version_two_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one tree of version 2 has all limits in one folder, with the names that they have there."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    one = tmp_path / "nbagent"
    made = Group(Hierarchy(2, dict.fromkeys(cgroup.CONTROLLERS, one)), _mkdir(one), Limits(memory_mb=200, cpus=0.5))
    assert (one / NAME / "memory.max").read_text() == str(200 * MIB)
    assert (one / NAME / "cpu.max").read_text() == "50000 100000"
    assert (one / NAME / "memory.swap.max").read_text() == "0"
    (one / NAME / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (one / NAME / "memory.peak").write_text("1234\n")
    assert made.join_files == [str(one / NAME / "cgroup.procs")]
    assert made.usage.oom_kills() == 1
    assert made.usage.memory_peak() == 1234


def _mkdir(folder: Path) -> str:
    folder.mkdir()
    return NAME
