"""Control groups on this machine, as the tests' own user may make them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.core.errors import SandboxError
from nbagent.core.limits import Limits
from nbagent.core.policy import MIB
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.limits.cgroup import cgroupfs, usage
from nbagent.sandbox.limits.cgroup.cgroupfs import LEAF, OwnGroup, OwnGroups

NAME = Path("test-of-cgroup")


@pytest.fixture
def hierarchy() -> OwnGroups:
    """Where groups are made here."""
    found = cgroupfs.find()
    assert found is not None, "this user may make no control groups: run the tests as root"
    return found


@pytest.fixture
def group(hierarchy: OwnGroups) -> Iterator[OwnGroup]:
    """A group with small limits."""
    made = hierarchy.make(NAME, Limits(memory_mb=200, cpus=0.25, pids=20))
    yield made
    made.remove()


def folders(hierarchy: OwnGroups) -> list[Path]:
    """Where the group of these tests is."""
    return [folder / NAME for folder in hierarchy.folders.values()]


def start(group: OwnGroup, *command: str) -> subprocess.Popen[bytes]:
    """Start a program in the group."""
    return subprocess.Popen([*group.prefix, *command], stderr=subprocess.DEVNULL)


def read(hierarchy: OwnGroups, controller: str, *names: str) -> str:
    """The first of these files of the group."""
    found = [hierarchy.folders[controller] / NAME / name for name in names]
    return next(path for path in found if path.exists()).read_text().strip()


def test_limits_are_written(hierarchy: OwnGroups, group: OwnGroup) -> None:
    """Memory in bytes, no swap beside it, the quota of a period, and processes."""
    assert NAME.name in hierarchy.existing()
    assert group.processes() == []
    assert read(hierarchy, "memory", "memory.limit_in_bytes", "memory.max") == str(200 * MIB)
    assert read(hierarchy, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "25000"
    assert read(hierarchy, "pids", "pids.max") == "20"


def test_a_process_beyond_its_memory_is_counted(group: OwnGroup) -> None:
    """A kill for want of memory is told, with the peak; before it there is none."""
    assert group.usage.oom_kills() == 0
    hog = start(group, "python3", "-c", "x = bytearray(10**9)")
    group.settle(hog)
    assert hog.wait(timeout=60) == -9
    assert group.usage.oom_kills() == 1
    assert 150 * MIB < (group.usage.memory_peak() or 0) <= 200 * MIB


def test_removal_kills_what_is_in_it(hierarchy: OwnGroups, group: OwnGroup) -> None:
    """Nothing of a group outlives it, and removing it again does nothing."""
    sleeper = start(group, "sleep", "1000")
    while not group.processes():
        pass
    assert group.remove()
    assert sleeper.wait(timeout=60) == -9
    assert not any(each.exists() for each in folders(hierarchy))
    assert group.remove()
    assert group.usage.memory_peak() is None
    assert group.usage.oom_kills() == 0


@pytest.mark.needs("root")
def test_processes_that_can_t_be_seen_are_not_ours_to_kill(group: OwnGroup) -> None:
    """As in a container that shares control groups: version 2 calls them 0, which would be one's own group."""
    sleeper = start(group, "sleep", "1000")
    group.settle(sleeper)
    code = f"""
import pathlib
from nbagent.sandbox.limits.cgroup import cgroupfs
group = cgroupfs.find().take(pathlib.Path({str(NAME)!r}))
group.kill()
print(group.processes())"""
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    assert (done.returncode, done.stdout.strip()) in {(0, "[]"), (0, "[0]")}, done.stderr
    assert sleeper.poll() is None
    assert group.remove()
    assert sleeper.wait(timeout=60) == -9


def test_what_linux_refuses_leaves_no_group(hierarchy: OwnGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """A period below a millisecond is refused, and the folders that were made are gone."""
    monkeypatch.setattr(cgroupfs, "PERIOD", 50)
    with pytest.raises(SandboxError, match="Invalid argument") as caught:
        hierarchy.make(NAME, Limits(cpus=0.5))
    assert "cpu_limit" in caught.value.mend
    assert not any(each.exists() for each in folders(hierarchy))


QUOTA = """
import sys
from pathlib import Path
from nbagent.core.limits import Limits
from nbagent.sandbox.limits.cgroup import cgroupfs
Path(sys.argv[1], "cgroup.procs").write_text("0")
found = cgroupfs.find()
group = found.make(Path("below-a-quota"), Limits(cpus=2.0))
folder = found.folders["cpu"] / "below-a-quota"
print([name for each in ("cpu.cfs_quota_us", "cpu.max") if (folder / each).exists()
       for name in (folder / each).read_text().split()])
group.remove()
for each in set(found.folders.values()):
    if str(each.parent) == sys.argv[1]:
        each.rmdir()
"""


def test_a_group_below_a_quota_has_no_more_than_that(hierarchy: OwnGroups) -> None:
    """A container, or a service, may have less cores than a sandbox asks for: it gets those, and starts."""
    around = hierarchy.folders["cpu"].with_name("test-of-a-quota")
    around.mkdir()
    try:
        bound = {1: ("cpu.cfs_quota_us", "50000"), 2: ("cpu.max", "50000 100000")}[hierarchy.version]
        (around / bound[0]).write_text(bound[1])
        done = subprocess.run([sys.executable, "-c", QUOTA, str(around)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        # Version 2 bounds it by the group around it, whatever its own says.
        assert done.stdout.strip() in ("['50000']", "['200000', '100000']")
    finally:
        around.rmdir()


@pytest.mark.needs("root")
def test_threads_find_it_at_the_same_time() -> None:
    """Looking from many threads at once gives each the same answer."""
    found: list[OwnGroups | None] = []
    threads = [threading.Thread(target=lambda: found.extend(cgroupfs.find() for _ in range(20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160
    assert None not in found


def test_no_group_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there are no control groups, that is said."""
    monkeypatch.setattr(usage, "ROOT", tmp_path / "nothing")
    assert cgroup.find() is None
    assert "may not make control groups" in cgroup.why_not()


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A tree of version 2, as files; this machine may have none with controllers."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids")
    (tmp_path / "cgroup.procs").write_text("")
    monkeypatch.setattr(usage, "ROOT", tmp_path)
    return tmp_path


def test_a_tree_of_version_two_is_understood(root: Path) -> None:
    """The one tree of version 2 has all limits in one folder, with the names that they have there."""
    one = root / "nbagent"
    one.mkdir()
    made = OwnGroups(2, dict.fromkeys(cgroup.CONTROLLERS, one)).make(NAME, Limits(memory_mb=200, cpus=0.5))
    assert (one / NAME / "memory.max").read_text() == str(200 * MIB)
    assert (one / NAME / "cpu.max").read_text() == "50000 100000"
    assert (one / NAME / "memory.swap.max").read_text() == "0"
    (one / NAME / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (one / NAME / "memory.peak").write_text("1234\n")
    assert made.prefix[4:] == [str(one / NAME / "cgroup.procs"), "--"]
    assert made.usage.oom_kills() == 1
    assert made.usage.memory_peak() == 1234


def delegated(group: Path, *processes: int) -> Path:
    """A group that systemd has delegated, with these processes."""
    group.mkdir()
    (group / "cgroup.type").write_text("domain")
    (group / "cgroup.controllers").write_text("cpu memory pids")
    (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
    (group / "cgroup.subtree_control").write_text("")
    os.setxattr(group, "user.delegate", b"1")
    return group


def test_a_delegated_group_without_processes_gives_its_controllers(root: Path) -> None:
    """Which Linux refuses, with EBUSY, as long as it has some. What was not delegated isn't asked."""
    group = delegated(root / "ours")
    cgroupfs._enable_controllers(group)
    assert (group / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    foreign = delegated(root / "theirs")
    os.removexattr(foreign, "user.delegate")
    assert not cgroupfs._enable_controllers(foreign)
    assert (foreign / "cgroup.subtree_control").read_text() == ""


def test_only_our_own_processes_are_moved(root: Path) -> None:
    """A shell that shares the group with us, or a process of an outer namespace, stays where it is."""
    for number, other in enumerate((1, 0, os.getppid())):
        group = delegated(root / f"shared-{number}", os.getpid(), other)
        assert not cgroupfs._enable_controllers(group)
        assert not (group / LEAF).exists()
    with subprocess.Popen(["sleep", "60"]) as child:
        assert cgroupfs._is_ours(child.pid)
        assert cgroupfs._is_ours(os.getpid())
        child.kill()
