"""What a sandbox is to be, by a person's options and by what another client starts it for."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbagent import Session
from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits
from nbagent.core.options import Options
from nbagent.core.policy import TrustLevel
from nbagent.core.settings import override
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.spec import SandboxSpec, spec_for_client


def test_every_option_about_a_sandbox_is_in_its_spec(tmp_path: Path) -> None:
    """Sessions, pools, the forge and kernels of other clients have it from here."""
    (tmp_path / "x.csv").touch()
    data = [Mount(tmp_path / "x.csv", "/tmp/data/x.csv")]
    own = Options(trust="untrusted", timeout=7, memory_mb=700, image="mine:1", accept=["pids"], keep_minutes=2)
    spec = SandboxSpec.of(own, owner="s", data=data)
    assert spec.trust.level is TrustLevel.UNTRUSTED
    assert (spec.trust.limits.timeout, spec.trust.limits.memory_mb) == (7, 700)
    assert (spec.image, spec.accept, spec.data) == ("mine:1", {"pids"}, tuple(data))
    assert (spec.owner, spec.keep, SandboxSpec.of(own).keep) == ("s", 120, 0)
    assert SandboxSpec.of(override(own, start_timeout=99.5, install_mb=5)).trust.limits.start_timeout == 99.5
    assert SandboxSpec.of(override(own, install_mb=5)).install.install_mb == 5
    limits = Limits(memory_mb=300, unknown_names=3, install_mb=7)
    whole = SandboxSpec.of(override(own, limits=limits))
    assert (whole.trust.level, whole.trust.limits) == (TrustLevel.UNTRUSTED, limits)
    assert (whole.install.unknown_names, whole.install.install_mb) == (3, 7)


def test_a_limit_that_nobody_knows_can_not_be_accepted() -> None:
    """Who mistypes one is told, before anything starts."""
    with pytest.raises(UsageError, match="no limit 'memroy' to accept"):
        SandboxSpec(accept=frozenset({"memroy", "cpu"}))


def test_a_runtime_for_docker_is_a_setting_of_all_sandboxes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One session can't have its own: it is told that, and never started with a weaker one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="docker_runtime can't be given for one session") as caught:
        SandboxSpec.of(Options(docker_runtime="runsc"))
    assert "NBAGENT_DOCKER_RUNTIME=runsc" in caught.value.mend
    with pytest.raises(UsageError, match="docker_runtime"):
        Session(docker_runtime="runsc")
    monkeypatch.setenv("NBAGENT_DOCKER_RUNTIME", "runsc")
    assert SandboxSpec.of(Options(docker_runtime="runsc")) == SandboxSpec.of(Options())


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

    def test_image_and_accepted_limits_are_the_persons(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """What they set holds whoever starts the kernel."""
        monkeypatch.setenv("NBAGENT_IMAGE", "mine:1")
        monkeypatch.setenv("NBAGENT_ACCEPT", '["memory"]')
        spec = spec_for_client(str(tmp_path), config={})
        assert (spec.image, spec.accept) == ("mine:1", {"memory"})
