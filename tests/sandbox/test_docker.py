"""The full engine: the contract, and what is particular to Docker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import machine
import pytest
from machine import works
from sandbox.contract import Holds
from sandbox.inner import sandbox_of

from nbagent.core.errors import EngineUnavailable, EnvironmentMissing, SandboxError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.engines import daemon
from nbagent.sandbox.engines.image import default_tag
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.needs("docker")
OTHER_RUNC = "io.containerd.runc.v2"
"""Another name that every Docker daemon knows runc by."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Docker."""
    return works("docker")


class TestDocker(Holds):
    """The contract."""

    def process(self, kernel: Kernel) -> int:
        """The container's first process."""
        client = docker.APIClient()
        try:
            found = client.inspect_container(sandbox_of(kernel).instance.id)
            return int(found["State"]["Pid"])
        finally:
            client.close()


class Relay:
    """A socket in front of the daemon's own, behind which the daemon can go away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gone = False
        self.open: list[socket.socket] = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen()
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self) -> None:
        """Connect each caller to the daemon, as long as there is one."""
        while True:
            try:
                caller, _ = self.server.accept()
            except OSError:
                return
            if self.gone:
                caller.close()
                continue
            real = socket.socket(socket.AF_UNIX)
            real.connect("/var/run/docker.sock")
            self.open += [caller, real]
            for pair in ((caller, real), (real, caller)):
                self.threads.append(threading.Thread(target=self.pump, args=pair))
                self.threads[-1].start()

    @staticmethod
    def pump(source: socket.socket, target: socket.socket) -> None:
        """Hand on what comes."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def go_away(self) -> None:
        """Hang up on everybody, now and from now on."""
        self.gone = True
        for each in self.open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the threads and the sockets."""
        self.go_away()
        self.server.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in (self.server, *self.open):
            each.close()
        self.path.unlink()


@pytest.fixture
def relay(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """A daemon that the test can take away; all clients of the engine use it."""
    made = Relay(home / "relay.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    daemon._client.cache_clear()
    yield made
    daemon.shared().close()
    daemon._client.cache_clear()
    made.close()


def remove(names: list[str]) -> None:
    """Remove containers that nobody else can."""
    client = docker.APIClient()
    for each in names:
        client.remove_container(each, force=True)
    client.close()


async def test_a_daemon_that_goes_away_is_an_error(engine: Engine, relay: Relay, home: Path) -> None:
    """While a kernel runs, its container counts as lost; the error is typed, and names the daemon."""
    kernel = Kernel(engine)
    await kernel.start()
    assert (await kernel.run("1 + 1")).text == "2"
    relay.go_away()
    with pytest.raises(SandboxError, match="Docker"):
        await asyncio.wait_for(kernel.run("import time; time.sleep(100)"), 30)
    with pytest.raises(SandboxError, match="Docker"):
        await asyncio.wait_for(kernel.run("1"), 30)
    await asyncio.wait_for(kernel.stop(), 30)
    remove(machine.containers(str(home / "runtime")))


async def test_a_container_that_is_removed_is_a_death(engine: Engine) -> None:
    """Somebody who removes the container has killed the kernel: it is replaced by a new one."""
    async with Kernel(engine) as kernel:
        running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
        await asyncio.sleep(0.3)
        remove([sandbox_of(kernel).instance.id])
        cell = await asyncio.wait_for(running, 20)
        assert cell.status == "died"
        assert (await kernel.run("1 + 1")).text == "2"


async def test_an_image_that_is_none_of_ours_is_an_error(engine: Engine) -> None:
    """An image without the kernel is named, with the mend, and no container of it stays."""
    bases = [tag for each in _images() for tag in each["RepoTags"] or []]
    assert bases, "no base image is here; run: .ci/base-image"
    with pytest.raises(SandboxError):
        await Kernel(engine, SandboxSpec(image=bases[0])).start()


async def test_an_image_that_is_not_there_is_an_error(engine: Engine) -> None:
    """Its name and how to build one are told."""
    with pytest.raises(EnvironmentMissing, match="nbagent-nothing:1 isn't there") as caught:
        await Kernel(engine, SandboxSpec(image="nbagent-nothing:1")).start()
    assert "nbagent image build" in caught.value.mend


async def test_a_runtime_can_be_chosen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container has it, and it is called what it is, by its program and not by its name."""
    monkeypatch.setenv("NBAGENT_DOCKER_RUNTIME", OTHER_RUNC)
    assert engine.check().kernel == f"{OTHER_RUNC}: the host's kernel"
    async with Kernel(engine) as kernel:
        assert (await kernel.run("1 + 1")).text == "2"
        client = docker.APIClient()
        found = client.inspect_container(sandbox_of(kernel).instance.id)
        client.close()
    assert found["HostConfig"]["Runtime"] == OTHER_RUNC


async def test_a_runtime_that_is_not_there_is_an_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and those that the daemon has are told, before and at a start."""
    monkeypatch.setenv("NBAGENT_DOCKER_RUNTIME", "runsc")
    report = engine.check()
    assert not report.available
    assert report.reason == "the Docker daemon has no runtime 'runsc'."
    assert OTHER_RUNC in report.mend
    with pytest.raises(EngineUnavailable, match="no runtime 'runsc'"):
        await Kernel(engine).start()


@pytest.mark.parametrize(
    ("name", "path", "kernel", "is_host_s"),
    [
        ("runc", "runc", "the host's kernel", True),
        ("runsc", "/usr/sbin/runc", "the host's kernel", True),
        ("strong", "/usr/local/bin/runsc", "gVisor, a kernel of its own", False),
        ("kata", "/usr/bin/containerd-shim-kata-v2", "a virtual machine of its own (Kata)", False),
        ("nvidia", "nvidia-container-runtime", "whose kernel is unknown (nvidia-container-runtime)", False),
        ("bare", "", "whose kernel is unknown (?)", False),
    ],
)
def test_a_runtime_is_what_its_program_is(name: str, path: str, kernel: str, is_host_s: bool) -> None:
    """A name promises nothing: what another one is called by is no stronger for it."""
    known = {"Runtimes": {name: {"path": path}}, "DefaultRuntime": name}
    for wanted in (name, None):
        assert daemon.runtime(known, wanted) == daemon.Runtime(name, kernel, is_host_s)


def test_nothing_is_claimed_of_another_kernel() -> None:
    """That it heeds the outer filter, or tells which programs are executed."""
    runtime = daemon.Runtime("runsc", "gVisor, a kernel of its own", False)
    controls = {each.name: each for each in daemon.controls({}, runtime)}
    assert not controls["commands"].enforced
    assert "the runtime's own kernel" in controls["system calls"].how


async def test_a_limit_that_docker_refuses_is_an_error(engine: Engine) -> None:
    """Docker's reason is told, and no container stays."""
    trust = trust_for(TrustLevel.ISOLATED)
    object.__setattr__(trust.limits, "cpus", 0.00001)  # which policy would have refused before
    with pytest.raises(SandboxError, match=r"(?i)cpu|quota"):
        await Kernel(engine, SandboxSpec(trust=trust)).start()


async def test_no_client_is_left_open(engine: Engine) -> None:
    """Looking and starting again and again costs no more sockets than the SDK keeps for 25 addresses."""
    before = machine.descriptors()
    for _ in range(5):
        kernels = [Kernel(engine) for _ in range(3)]
        await asyncio.gather(*(each.start() for each in kernels))
        await asyncio.gather(*(each.stop() for each in kernels))
        engine.check()
    await asyncio.sleep(0.3)
    assert machine.descriptors() <= before + 25 + 10


def _images() -> list[dict[str, Any]]:
    client = docker.APIClient()
    try:
        found: list[dict[str, Any]] = client.images(name="nbagent-base")
        return found
    finally:
        client.close()


async def test_process_one_can_t_be_made_to_run_programs(engine: Engine) -> None:
    """It has no second filter, so code that may start nothing must not be able to write into it."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED))
    async with Kernel(engine, spec) as kernel:
        for name in ("mem", "environ", "maps"):
            opening = await kernel.run(f"open('/proc/1/{name}', 'rb').read(1)")
            assert [each["ename"] for each in opening.outputs] == ["PermissionError"], name
        # Its own process is its own to read.
        assert (await kernel.run("len(open('/proc/self/maps').read()) > 0")).text == "True"


@pytest.fixture
def with_volume() -> Iterator[str]:
    """A kernel image that asks for a folder of the host's disk, open to all, and is looked after by a program."""
    client, tag = docker.APIClient(), "nbagent-test-volume:1"
    made = client.create_container(default_tag())["Id"]
    check = 'HEALTHCHECK --interval=1s CMD ["touch", "/tmp/checked"]'
    client.commit(made, *tag.split(":"), changes=["VOLUME /var/tmp/", "VOLUME //workspace", check])
    client.remove_container(made, v=True)
    yield tag
    client.remove_image(tag)
    client.close()


async def test_an_image_gets_no_disk_of_the_host_and_runs_nothing_beside(engine: Engine, with_volume: str) -> None:
    """Code filled a volume that an image asks for, without a bound, and it stayed behind."""
    client = docker.APIClient()
    before = {each["Name"] for each in client.volumes()["Volumes"] or ()}
    async with Kernel(engine, SandboxSpec(image=with_volume)) as kernel:
        cell = await kernel.run("open('/workspace/a', 'w').close(); open('/var/tmp/a', 'w')")
        assert cell.outputs[-1].get("evalue") == "[Errno 30] Read-only file system: '/var/tmp/a'"
        known = client.inspect_container(sandbox_of(kernel).instance.id)
        await asyncio.sleep(2)
        assert "False" in (await kernel.run("import os; os.path.exists('/tmp/checked')")).text
    assert not [each for each in known["Mounts"] if each["Type"] == "volume"]
    assert {each["Name"] for each in client.volumes()["Volumes"] or ()} <= before
    client.close()
