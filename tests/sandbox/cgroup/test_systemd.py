"""Groups that systemd makes, as far as they can be tried without a systemd; the rest is `.ci/vm`'s."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from nbagent.core.limits import Limits
from nbagent.sandbox.limits.cgroup import CONTROLLERS, systemd
from nbagent.sandbox.limits.cgroup.systemd import KEEPER, Scopes


def keep(folder: Path, *command: str) -> int:
    """How a command ends under the keeper."""
    return subprocess.run(["/bin/sh", str(KEEPER), str(folder), *command], check=False).returncode


def test_the_keeper_ends_as_its_command_does(tmp_path: Path) -> None:
    """With its exit code, or as a shell tells a signal."""
    assert keep(tmp_path, "true") == 0
    assert keep(tmp_path, "sh", "-c", "exit 37") == 37
    assert keep(tmp_path, "sh", "-c", "kill -9 $$") == 128 + signal.SIGKILL
    assert keep(tmp_path, "/nothing") == 127


def test_the_keeper_takes_words_as_they_are(tmp_path: Path) -> None:
    """No word of the command is read as a shell would."""
    script = "import sys; open(sys.argv[1], 'w').write(repr(sys.argv[2:]))"
    assert keep(tmp_path, "python3", "-c", script, str(tmp_path / "said"), "a b", "$HOME", "") == 0
    assert (tmp_path / "said").read_text() == "['a b', '$HOME', '']"


def test_what_was_counted_is_known_when_the_scope_is_gone(tmp_path: Path) -> None:
    """Systemd removes it with its last process; the keeper has written down what there was."""
    lease = tmp_path / "kabc"
    lease.mkdir()
    made = Scopes(tmp_path / "slice", frozenset(CONTROLLERS), ())
    group = made.make(lease, Limits(memory_mb=300))
    assert (group.usage.oom_kills(), group.usage.memory_peak(), group.processes()) == (0, None, [])
    (lease / "counted" / "memory.events").write_text("oom 1\noom_kill 2\n")
    (lease / "counted" / "memory.peak").write_text("314572800\n")
    assert (group.usage.oom_kills(), group.usage.memory_peak()) == (2, 314_572_800)
    # The next kernel of the same sandbox begins anew.
    assert made.make(lease, Limits()).usage.oom_kills() == 0


def test_a_scope_has_every_limit_that_systemd_may_set(tmp_path: Path) -> None:
    """And none that it would only pretend to."""
    (tmp_path / "kabc").mkdir()
    limits = Limits(memory_mb=256, cpus=0.5, pids=64)
    words = Scopes(tmp_path, frozenset(CONTROLLERS), (systemd.SPARING,)).make(tmp_path / "kabc", limits).prefix
    wanted = {"MemoryMax=268435456", "MemorySwapMax=0", "CPUQuota=50%", "TasksMax=64", systemd.SPARING}
    assert wanted <= {word.removeprefix("--property=") for word in words}
    assert "--unit=nbagent-kabc.scope" in words
    words = Scopes(tmp_path, frozenset({"memory"}), ()).make(tmp_path / "kabc", limits).prefix
    assert not any("CPUQuota" in word or "TasksMax" in word for word in words)


def test_the_names_of_scopes_are_those_of_sandboxes(tmp_path: Path) -> None:
    """What else is in the slice is none of ours."""
    for name in ("nbagent-kabc.scope", "nbagent-probe-1-2.scope", "other.scope", "nbagent-x.service"):
        (tmp_path / name).mkdir()
    assert set(Scopes(tmp_path, frozenset(CONTROLLERS), ()).existing()) == {"kabc", "probe-1-2"}


def test_without_a_service_manager_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is missing is named: control groups of version 2, or a login."""
    monkeypatch.setattr("nbagent.sandbox.limits.cgroup.usage.ROOT", tmp_path)
    assert systemd.find() is None
    assert "cgroup v2" in systemd.why_not()
    (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert systemd.find() is None
    assert "loginctl enable-linger" in systemd.why_not()
    assert not systemd.lingers()
