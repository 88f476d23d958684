"""The choice of an engine, and the errors when there is none."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import EngineUnavailable, LimitUnenforceable, UsageError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox import registry
from nbagent.sandbox.engines import daemon
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.registry import candidate, choose, engines
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


@pytest.mark.needs("docker")
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
    assert len(caught.value.mend.splitlines()) == 2  # one could be read as a word of the other


@pytest.mark.usefixtures("no_docker")
async def test_a_named_engine_is_not_replaced() -> None:
    """Who asks for docker gets docker or an error, not another engine."""
    with pytest.raises(EngineUnavailable, match="docker doesn't work here: no Docker daemon") as caught:
        await choose("docker")
    assert "--engine bubblewrap" in caught.value.mend


def test_a_daemon_that_this_user_may_not_speak_to(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Most often a socket is there, and only members of a group may use it: then starting the daemon is no mend."""
    path, own = home / "theirs.sock", os.geteuid()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0)
        os.seteuid(own or 65534)
        try:
            with pytest.raises(EngineUnavailable, match="this user may not speak to") as caught:
                daemon.connect()
        finally:
            os.seteuid(own)
    assert "usermod" in caught.value.mend


@pytest.mark.usefixtures("dead_daemon")
async def test_a_daemon_that_doesn_t_answer_is_named() -> None:
    """A socket without a working daemon behind it is told from no socket."""
    with pytest.raises(EngineUnavailable, match="doesn't answer"):
        await choose("docker")


@pytest.mark.needs("docker")
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
    with pytest.raises(UsageError, match="'dokcer'") as caught:
        await choose("dokcer")
    assert caught.value.mend == f"Use one of: {', '.join(sorted(engines()))}."


@pytest.mark.needs("docker")
async def test_a_runtime_is_docker_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants a stronger wall than the host's kernel isn't given a weaker one in silence."""
    monkeypatch.setenv("NBAGENT_DOCKER_RUNTIME", "runsc")
    with pytest.raises(EngineUnavailable) as caught:
        await choose(None)
    assert "no runtime 'runsc'" in caught.value.mend
    assert "bubblewrap" not in caught.value.mend
    assert (await choose("bubblewrap")).name == "bubblewrap"


async def test_local_is_there_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine without isolation is never chosen by itself, even where it is the only one."""
    assert (await choose("local")).name == "local"
    monkeypatch.setattr(registry, "engines", lambda: {"local": engines()["local"]})
    with pytest.raises(EngineUnavailable):
        await choose(None)


def test_engines_come_from_entry_points() -> None:
    """Anybody can add one; each knows its name and whether it isolates."""
    found = engines()
    isolating = {name: each.isolates for name, each in found.items()}
    assert isolating.items() >= {"bubblewrap": True, "docker": True, "local": False}.items()
    assert all(each.name == name and each.kernel_name == f"nbagent-{name}" for name, each in found.items() if each.owns)


def needs(**changes: Any) -> SandboxSpec:
    """The default sandbox with changes."""
    return replace(SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, cpus=0.5)), **changes)


@pytest.fixture
def weak_docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A daemon on a machine without the controllers of CPU and processes: it would only warn of that."""
    asked = daemon.info
    monkeypatch.setattr(daemon, "info", lambda client: asked(client) | {"CpuCfsQuota": False, "PidsLimit": False})
    daemon.forget()
    yield
    daemon.forget()


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user for whom nobody makes control groups."""
    monkeypatch.setattr(cgroup, "find", lambda: None)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("weak_docker")
async def test_an_engine_that_would_not_start_is_not_chosen() -> None:
    """The next one is, and what the first one lacks is named, all at once."""
    assert (await choose(None, specs=[needs()])).name == "bubblewrap"
    found = candidate(engines()["docker"], specs=[needs()])
    assert found.report.available
    assert not found.starts
    assert {each.name for each in found.lacking} == {"cpu", "pids"}
    assert "--accept cpu --accept pids" in found.why_not
    assert candidate(engines()["docker"], specs=[needs(accept=frozenset({"cpu", "pids"}))]).starts


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("weak_docker")
async def test_docker_starts_nothing_unbounded() -> None:
    """A daemon that can't enforce a limit is refused by name, with every limit that it can't."""
    with pytest.raises(LimitUnenforceable, match="limit on cpu and pids here") as caught:
        await Kernel(engines()["docker"], needs()).start()
    assert "--accept cpu --accept pids" in caught.value.mend


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("weak_docker", "no_groups")
async def test_where_no_engine_would_start_each_says_why() -> None:
    """The mend has the options for the best one, and what the other one lacks."""
    with pytest.raises(LimitUnenforceable, match="docker engine can't enforce the limit on cpu and pids") as caught:
        await choose(None, specs=[needs()])
    assert "bubblewrap: The bubblewrap engine can't enforce the limit on memory and cpu" in caught.value.mend


async def test_code_that_is_not_trusted_needs_an_engine_that_isolates() -> None:
    """Local would not start it."""
    assert "trusted only" in candidate(engines()["local"], specs=[needs()]).why_not
    assert candidate(engines()["local"], specs=[needs(trust=trust_for(TrustLevel.TRUSTED))]).starts


@pytest.mark.needs("docker")
async def test_a_daemon_is_asked_once_what_it_is(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """It is asked anew when that may not hold any more: behind another socket, after a failure, after a while."""
    asked: list[object] = []
    info = daemon.info
    monkeypatch.setattr(daemon, "info", lambda client: asked.append(client) or info(client))
    docker = engines()["docker"]
    daemon.forget()
    assert docker.check() == docker.check()
    assert len(asked) == 1
    # An image is looked for each time, and what fails makes all of it unsure.
    assert not docker.check(image="nbagent-nothing:1").available
    assert docker.check().available
    assert len(asked) == 2
    link = home / "docker.sock"
    link.symlink_to("/var/run/docker.sock")
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{link}")
        assert docker.check().available
    assert len(asked) == 3
    link.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(daemon, "SURE_SECONDS", 0.0)
        assert docker.check().available
    assert len(asked) == 4


async def test_an_engine_that_cannot_be_imported_is_one_that_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("gone", "nbagent_gone.engine:ENGINE", "nbagent.engines")
    found = [*entry_points(group="nbagent.engines"), broken]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)  # noqa: ARG005
    engines.cache_clear()
    try:
        assert {"bubblewrap", "docker", "gone"} <= engines().keys()
        report = candidate(registry.find("gone"))
        assert not report.starts
        assert "nbagent_gone" in report.why_not
        with pytest.raises(EngineUnavailable, match="nbagent_gone"):
            await choose("gone")
        assert all(each.name != "gone" for each in registry.automatic())
    finally:
        engines.cache_clear()
