"""The choice of an engine, the errors when there is none, and what other clients' kernels see."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.errors import EngineUnavailable, LimitUnenforceable, UsageError
from nbagent.kernel.kernel import Kernel
from nbagent.policy import TrustLevel, trust_for
from nbagent.sandbox import base, cgroup, environment, registry
from nbagent.sandbox.base import Engine, Exit, Report, spec_for_client
from nbagent.sandbox.mounts import Mount
from nbagent.sandbox.registry import choose, engines
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No daemon where it is looked for."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")


@pytest.fixture
def no_bwrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def dead_daemon(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[None]:
    """A socket that takes connections, and nobody who answers."""
    path = home / "dead.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    path.unlink()


async def test_docker_comes_first() -> None:
    """Where both work, the full engine is chosen."""
    assert (await choose(None)).name == "docker"


@pytest.mark.usefixtures("no_docker")
async def test_bubblewrap_is_next() -> None:
    """Without a daemon it is bubblewrap."""
    assert (await choose(None)).name == "bubblewrap"


@pytest.mark.usefixtures("no_docker", "no_bwrap")
async def test_without_an_engine_nothing_runs() -> None:
    """With neither, it is an error with both mends, and never the engine that isolates nothing."""
    with pytest.raises(EngineUnavailable, match="never runs it unisolated") as caught:
        await choose(None)
    assert "apt-get install bubblewrap" in caught.value.mend
    assert "systemctl start docker" in caught.value.mend


@pytest.mark.usefixtures("no_docker")
async def test_a_named_engine_is_not_replaced() -> None:
    """Who asks for docker gets docker or an error, not another engine."""
    with pytest.raises(EngineUnavailable, match="docker doesn't work here: no Docker daemon") as caught:
        await choose("docker")
    assert "--engine bubblewrap" in caught.value.mend


@pytest.mark.usefixtures("dead_daemon")
async def test_a_daemon_that_doesn_t_answer_is_named() -> None:
    """A socket without a working daemon behind it is told from no socket."""
    with pytest.raises(EngineUnavailable, match="doesn't answer"):
        await choose("docker")


async def test_a_missing_image_is_named() -> None:
    """A daemon without the kernel's image says how to build it."""
    with pytest.raises(EngineUnavailable, match="nbagent-nothing:1 isn't there") as caught:
        await choose("docker", image="nbagent-nothing:1")
    assert "nbagent image build" in caught.value.mend


@pytest.mark.usefixtures("no_bwrap")
async def test_a_missing_program_is_named() -> None:
    """Without bwrap the mend says how to install it, and a start is refused as well."""
    with pytest.raises(EngineUnavailable, match="bwrap isn't on the PATH") as caught:
        await choose("bubblewrap")
    assert "apt-get install bubblewrap" in caught.value.mend


async def test_an_unknown_engine_is_named() -> None:
    """The error lists the engines there are."""
    with pytest.raises(EngineUnavailable, match="'dokcer'") as caught:
        await choose("dokcer")
    assert "bubblewrap, docker, local" in caught.value.mend


async def test_local_is_there_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine without isolation is never chosen by itself, even where it is the only one."""
    assert (await choose("local")).name == "local"
    monkeypatch.setattr(registry, "engines", lambda: {"local": engines()["local"]})
    with pytest.raises(EngineUnavailable):
        await choose(None)


async def test_a_limit_that_can_t_be_enforced_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without control groups bubblewrap refuses, and each acceptance is for one limit."""
    monkeypatch.setattr(cgroup, "find", lambda: None)
    bubblewrap = engines()["bubblewrap"]
    report = bubblewrap.check()
    assert {each.name for each in report.controls if not each.enforced} == {"memory", "cpu"}
    with pytest.raises(LimitUnenforceable, match="memory") as caught:
        await Kernel(bubblewrap).start()
    assert "--accept memory" in caught.value.mend
    trust = trust_for(TrustLevel.ISOLATED, cpus=0.5)
    with pytest.raises(LimitUnenforceable, match="cpu"):
        await Kernel(bubblewrap, SandboxSpec(trust=trust, accept=frozenset({"memory"}))).start()


def test_engines_come_from_entry_points() -> None:
    """Anybody can add one; each knows its name and whether it isolates."""
    found = engines()
    assert {name: each.isolates for name, each in found.items()} == {"bubblewrap": True, "docker": True, "local": False}
    assert all(each.name == name and each.kernel_name == f"nbagent-{name}" for name, each in found.items())


def test_an_engine_of_somebody_elses_is_found() -> None:
    """A kernelspec that nbagent does not bring is made from the engine's name."""

    class Other(Engine):
        name = "other"

        def check(self, *, image: str | None = None) -> Report:
            return Report(available=bool(image))

    spec = base.kernel_specs(Other()).get_kernel_spec("nbagent-other")
    assert spec.metadata["kernel_provisioner"]["provisioner_name"] == "nbagent-other"
    assert spec.interrupt_mode == "message"


@pytest.mark.parametrize(
    ("exit_", "told"),
    [
        (Exit.told(0), "exited with code 0"),
        (Exit.told(3), "exited with code 3"),
        (Exit.told(128 + signal.SIGSEGV), "was killed by SIGSEGV"),
        (Exit.told(-signal.SIGKILL), "was killed by SIGKILL"),
        (Exit.told(137, killed=True), "ran out of memory"),
        (Exit.told(139, killed=True), "was killed by SIGSEGV"),
        (Exit.told(128 + 35), "was killed by signal 35"),
        (Exit.told(255), "exited with code 255"),
    ],
)
def test_an_end_is_told_in_words(exit_: Exit, told: str) -> None:
    """Signals by name, codes by number, and memory only if Linux killed for it."""
    assert str(exit_) == told


class TestClients:
    """What a kernel sees that another client starts."""

    def test_its_folder(self, tmp_path: Path) -> None:
        """The folder that it was started for lies at /tmp/data."""
        spec = spec_for_client(str(tmp_path), config={})
        assert spec.data == (Mount(tmp_path, "/tmp/data"),)
        assert spec.trust.level is TrustLevel.ISOLATED

    def test_a_link_to_it(self, tmp_path: Path) -> None:
        """Links are resolved before anything is decided."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert spec_for_client(str(tmp_path / "link"), config={}).data[0].source == tmp_path / "real"

    def test_the_current_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A client that names no folder means its own."""
        monkeypatch.chdir(tmp_path)
        assert spec_for_client(None, config={}).data[0].source == tmp_path

    @pytest.mark.parametrize("value", ["0", "false", "no"])
    def test_turned_off_by_the_environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
        """`NBAGENT_CLIENT_DATA=0` shows nothing."""
        monkeypatch.setenv("NBAGENT_CLIENT_DATA", value)
        assert spec_for_client(str(tmp_path), config={}).data == ()

    def test_turned_off_by_the_kernelspec(self, tmp_path: Path) -> None:
        """`data: false` shows nothing either."""
        assert spec_for_client(str(tmp_path), config={"data": False}).data == ()

    def test_a_folder_that_is_gone(self, tmp_path: Path) -> None:
        """A folder that isn't there is no reason not to start."""
        assert spec_for_client(str(tmp_path / "gone"), config={}).data == ()

    def test_trust_by_the_kernelspec_and_the_environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The kernelspec's configuration names the level, and the person's environment has the last word."""
        assert spec_for_client(str(tmp_path), config={"trust": "untrusted"}).trust.level is TrustLevel.UNTRUSTED
        monkeypatch.setenv("NBAGENT_TRUST", "sandboxed")
        assert spec_for_client(str(tmp_path), config={"trust": "untrusted"}).trust.level is TrustLevel.SANDBOXED
        monkeypatch.setenv("NBAGENT_TRUST", "anything")
        with pytest.raises(UsageError, match="anything"):
            spec_for_client(str(tmp_path), config={})


def test_proxies_are_for_the_network_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's address, which may hold a password, is inside only where there is a network to use it for."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:1")
    for level in TrustLevel:
        variables = base.inside_environment(shared_library=False, trust=trust_for(level))
        assert ("secret" in str(variables)) == (level is TrustLevel.TRUSTED)
        assert ("HTTPS_PROXY" in variables) == (level in (TrustLevel.TRUSTED, TrustLevel.SANDBOXED))


def test_cores_are_told_to_libraries() -> None:
    """Where cores are bounded, Polars and OpenMP start no more threads than that."""
    variables = base.inside_environment(shared_library=False, trust=trust_for(TrustLevel.UNTRUSTED))
    assert variables["POLARS_MAX_THREADS"] == variables["OMP_NUM_THREADS"] == "1"
    assert base.START[0] == f"{environment.KERNEL}/bin/python"
