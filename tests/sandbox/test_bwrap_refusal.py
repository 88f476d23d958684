"""Why a machine forbids user namespaces, by the files in which Linux says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbagent.sandbox.engines.bwrap_refusal import SWITCHES, why


def machine(folder: Path, **changed: str) -> Path:
    """The settings of a machine that allows them, but for what is changed."""
    usual = {name: allows for name, _, allows, _ in SWITCHES}
    for name, value in (usual | {name.replace("__", "/"): value for name, value in changed.items()}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(
    ("name", "value", "command", "words"),
    [
        ("user__max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000", "no user namespaces"),
        ("kernel__unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1", "to root only"),
        (
            "kernel__apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            "AppArmor",
        ),
    ],
)
def test_the_cause_and_its_command_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, command: str, words: str
) -> None:
    """That of this machine, one command, and bwrap's own reason."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    error = why("No permissions to create new namespace", settings=machine(tmp_path, **{name: value}))
    assert "No permissions to create new namespace" in error.message
    assert words in error.message
    assert command in error.mend


def test_another_cause_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Linux allows them, or root needs none, or there are no such files, bwrap's reason is all there is."""
    for settings in (machine(tmp_path), tmp_path / "nothing"):
        monkeypatch.setattr(os, "getuid", lambda: 1000)
        assert "sysctl" not in why("Creating new namespace failed", settings=settings).mend
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "sysctl" not in why("x", settings=machine(tmp_path, user__max_user_namespaces="0")).mend
