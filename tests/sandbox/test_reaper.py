"""The reaper, on both engines: what the dead left goes, what lives or may be somebody's stays."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import machine
import pytest
from sandbox.controller import abandoned_sandbox, controller
from sandbox.inner import sandbox_of
from sandbox.test_supervisor import ended, run, take_over

from nbagent.core.errors import SandboxError
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.engines import bubblewrap
from nbagent.sandbox.engines.docker import LABEL, LEASE_LABEL, ORIGIN_LABEL, USER_LABEL
from nbagent.sandbox.engines.image import default_tag
from nbagent.sandbox.leases import lease, scratch
from nbagent.sandbox.leases.origin import PathOrigin
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.limits.cgroup.cgroupfs import OwnGroups
from nbagent.sandbox.machine import reaper, supervisor
from nbagent.sandbox.machine.reaper import sweep

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def before(leftovers: Callable[[], list[str]]) -> Iterator[list[str]]:
    """What there was; each test leaves no more."""
    found = leftovers()
    yield found
    end = time.monotonic() + 60
    while leftovers() != found and time.monotonic() < end:
        time.sleep(0.1)
    assert leftovers() == found


async def test_what_the_dead_left_goes(engine: Engine) -> None:
    """Sandbox, folders, container and control group of a controller that was killed."""
    folder = abandoned_sandbox(engine.name, keep=0)
    removed = await asyncio.to_thread(sweep)
    (one,) = [each for each in removed if each.kind == "sandbox"]
    assert (one.name, one.session) == (folder.name, "of-the-dead")
    assert 0 < one.age < 60
    assert not folder.exists()


async def test_who_waits_to_be_taken_over_stays(engine: Engine) -> None:
    """Every start sweeps, and must not end what somebody may want back; `nbagent clean` may."""
    folder = abandoned_sandbox(engine.name, keep=300)
    async with Kernel(engine):
        await machine.swept()
    assert await asyncio.to_thread(sweep) == []
    assert supervisor.is_alive(folder)
    assert await asyncio.to_thread(lambda: sweep(waiting=True, max_age=3600)) == []
    assert supervisor.is_alive(folder)
    assert len(await asyncio.to_thread(lambda: sweep(waiting=True))) == 1
    assert not supervisor.is_alive(folder)


async def test_what_lives_is_not_touched(engine: Engine) -> None:
    """Sandboxes of this process and of others go on, variables and all, whatever is asked for."""
    with controller(engine.name, keep=0) as (_, folder):
        async with Kernel(engine) as kernel:
            await kernel.run("x = 7")
            assert await asyncio.to_thread(lambda: sweep(waiting=True)) == []
            assert (await kernel.run("x")).text == "7"
        assert supervisor.is_alive(folder)
    assert ended(folder, within=5)
    await asyncio.to_thread(sweep)


async def test_two_at_once_remove_each_thing_once(engine: Engine) -> None:
    """Of several that sweep at the same time, one removes a sandbox, and none of them fails."""
    folders = [abandoned_sandbox(engine.name, keep=300) for _ in range(2)]
    removed: list[reaper.Removed] = []
    threads = [threading.Thread(target=lambda: removed.extend(sweep(waiting=True))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        await asyncio.to_thread(each.join)
    assert sorted(each.name for each in removed if each.kind == "sandbox") == sorted(each.name for each in folders)


class Sweeping:
    """Sweeps again and again in a thread."""

    def __init__(self, **options: bool) -> None:
        self.options = options
        self.stop = threading.Event()
        self.removed: list[reaper.Removed] = []
        self.thread = threading.Thread(target=self.work)

    def work(self) -> None:
        """Until told to stop."""
        while not self.stop.is_set():
            self.removed += sweep(**self.options)  # type: ignore[arg-type]

    def __enter__(self) -> Sweeping:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


async def test_starts_are_not_swept_up(engine: Engine) -> None:
    """A sandbox in the making, restarting or ending is nobody's prey, however often somebody sweeps."""
    with Sweeping(waiting=True) as sweeping:
        for _ in range(2):
            async with Kernel(engine) as kernel:
                await kernel.restart()
                assert (await kernel.run("1 + 1")).text == "2"
    assert sweeping.removed == []


async def test_take_overs_are_not_swept_up(engine: Engine) -> None:
    """Who takes over gets it, though others look at it all the time; then it is held."""
    folder = abandoned_sandbox(engine.name, keep=300)
    with Sweeping() as sweeping:
        sandbox = await take_over(engine, folder)
        assert await run(sandbox, "x") == "42"
    assert sweeping.removed == []
    await sandbox.end()
    await sandbox.close()


async def test_terms_that_nobody_can_read(engine: Engine) -> None:
    """What runs under a lease of another nbagent's is ended with it; its folder on disk goes, too."""
    folder = abandoned_sandbox(engine.name, keep=300)
    (folder / "lease.json").write_bytes(b'{"from": "the future"}')
    assert {each.kind for each in await asyncio.to_thread(sweep)} >= {"folder"}
    assert not folder.exists()


async def test_half_of_a_removal(engine: Engine) -> None:
    """Who was killed while removing its own folder has left the rest to the next sweep."""
    folder = abandoned_sandbox(engine.name, keep=300)
    (folder / "lock").unlink()
    with pytest.raises(SandboxError, match="is gone"):
        lease.Lease.take_over(folder)
    await asyncio.to_thread(sweep)
    assert not folder.exists()


@pytest.mark.needs("docker")
@pytest.mark.parametrize("stopped", [False, True])
async def test_a_container_whose_lease_is_gone(stopped: bool) -> None:
    """After a restart of the machine the runtime folder is gone: containers that are left go, running or not."""
    folder = abandoned_sandbox("docker", keep=300)
    client = docker.APIClient()
    (container,) = client.containers(filters={"label": f"{LABEL}={folder.name}"})
    if stopped:
        client.kill(container["Id"])
    shutil.rmtree(folder)
    await asyncio.to_thread(sweep)
    # Not what this sweep tells: where a neighbour starts a sandbox just now, that one's has taken the container.
    end = time.monotonic() + machine.WAIT
    while client.containers(all=True, filters={"id": container["Id"]}) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert client.containers(all=True, filters={"id": container["Id"]}) == []
    client.close()


OTHERS = {
    "another user's": {USER_LABEL: "4711"},
    "another machine's": {ORIGIN_LABEL: str(replace(PathOrigin.here(), machine="another", boot="another"))},
    "of another mount namespace": {ORIGIN_LABEL: str(replace(PathOrigin.here(), mounts="mnt:[1]"))},
    "of another nbagent": {ORIGIN_LABEL: ""},
    "one that lives": {LEASE_LABEL: "/tmp"},
}


@pytest.mark.needs("docker")
@pytest.mark.parametrize("whose", OTHERS)
async def test_containers_of_others_stay(whose: str) -> None:
    """A daemon may serve other users, containers and machines, whose leases can't be seen from here."""
    labels = {
        LABEL: "k1",
        USER_LABEL: str(os.getuid()),
        LEASE_LABEL: "/nowhere/k1",
        ORIGIN_LABEL: str(PathOrigin.here()),
    }
    client = docker.APIClient()
    made = client.create_container(default_tag(), labels=labels | OTHERS[whose])["Id"]
    try:
        assert made[:12] not in {each.name for each in await asyncio.to_thread(lambda: sweep(waiting=True))}
        assert client.inspect_container(made)["Id"] == made
    finally:
        client.remove_container(made)
        client.close()


async def test_a_folder_on_disk_whose_lease_is_gone(tmp_path: Path) -> None:
    """It goes; that of a lease that is there, of another machine with the same home, and a nameless new one stay."""
    gone, there, elsewhere, nameless, old = (scratch.make() for _ in range(5))
    scratch.settle(gone, tmp_path / "gone")
    scratch.settle(there, tmp_path)
    (elsewhere / "lease").write_text(f"{replace(PathOrigin.here(), machine='another')}\n{tmp_path / 'gone'}")
    os.utime(old, (0, 0))
    removed = {each.name for each in await asyncio.to_thread(sweep)}
    assert removed == {gone.name, old.name}
    for each in (there, elsewhere, nameless):
        shutil.rmtree(each)


async def test_a_control_group_whose_sandbox_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one goes; one with a process in it, which another runtime folder may know of, and a young one stay."""
    hierarchy = cgroup.find()
    assert isinstance(hierarchy, OwnGroups)
    empty, used = "kempty00", "kused000"
    groups = [hierarchy.folders["memory"] / name for name in (empty, used)]
    for each in groups:
        each.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            (groups[1] / "cgroup.procs").write_text(str(process.pid))
            assert not {each.name for each in await asyncio.to_thread(sweep)} & {empty, used}
            monkeypatch.setattr(bubblewrap, "YOUNG", -1)
            removed = {each.name for each in bubblewrap.ENGINE.strays()}
            assert empty in removed
            assert used not in removed
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
            for each in groups:
                each.rmdir()


async def test_a_runtime_folder_that_goes_under_us(engine: Engine) -> None:
    """The end of a login removes it: what runs goes on, and a new kernel gets a new one, packages and all."""
    async with Kernel(engine) as kernel:
        await kernel.run("x = 1")
        site = sandbox_of(kernel).site
        (site / "kept.py").write_text("y = 5")
        shutil.rmtree(lease.runtime_root())
        assert (await kernel.run("x")).text == "1"
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert (await kernel.run("import kept; kept.y")).text == "5"
        assert sandbox_of(kernel).site == site
