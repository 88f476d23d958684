"""Connection files of kernels that somebody else started: whose are taken, and which kernels can be reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.connect import write_connection_file

from nbagent.core.errors import UsageError
from nbagent.sandbox.connection_file import find, read


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A connection file as Jupyter writes it."""
    path, _ = write_connection_file(str(tmp_path / "kernel-7.json"), key=b"secret")
    return Path(path)


def changed(path: Path, **fields: Any) -> Path:
    """The file with other fields."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


def test_jupyters_own_file_is_read(written: Path) -> None:
    """With its key, which signs messages."""
    found = read(written)
    assert (found.transport, found.ip, found.key) == ("tcp", "127.0.0.1", b"secret")
    assert "secret" not in repr(found)


def test_a_kernel_is_named_as_jupyter_console_names_it(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path, by the file's name in Jupyter's runtime folder, or by the kernel's id."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(written.parent))
    assert {find(each) for each in (str(written), "kernel-7.json", "7")} == {written}


@pytest.mark.parametrize("name", ["kernel-8.json", "", "a\0b", "x" * 5000])
def test_a_name_without_a_file_says_where_they_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the name is."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="There is no connection file") as caught:
        find(name)
    assert "jupyter --runtime-dir" in caught.value.mend


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606])
def test_a_file_that_others_can_read_or_change_is_refused(written: Path, mode: int) -> None:
    """Who has its key can run code as the person."""
    written.chmod(mode)
    with pytest.raises(UsageError, match="by others than you") as caught:
        read(written)
    assert f"chmod 600 {written}" in caught.value.mend


def test_a_file_of_somebody_elses_is_refused(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its mode is right."""
    monkeypatch.setattr(os, "getuid", lambda: written.stat().st_uid + 1)
    with pytest.raises(UsageError, match="by others than you"):
        read(written)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"key": ""}, "doesn't sign its messages"),
        ({"signature_scheme": "hmac-md5"}, "doesn't sign its messages"),
        ({"curve_publickey": "abc", "curve_secretkey": "def"}, "encrypts its connection"),
        ({"ip": "192.0.2.7"}, "is not encrypted"),
        ({"ip": "example.org"}, "is not encrypted"),
        ({"ip": "0.0.0.0"}, "is not encrypted"),  # noqa: S104 - a kernel that listens to everybody
        ({"shell_port": 0}, "is no connection file"),
        ({"shell_port": "1"}, "is no connection file"),
        ({"transport": "inproc"}, "is no connection file"),
        ({"ip": None}, "is no connection file"),
    ],
)
def test_a_kernel_that_cannot_be_reached_safely_is_refused(written: Path, fields: dict[str, Any], why: str) -> None:
    """With the reason, before anything is sent to it."""
    with pytest.raises(UsageError, match=why) as caught:
        read(changed(written, **fields))
    assert caught.value.mend


def test_what_is_no_connection_file_is_refused(tmp_path: Path) -> None:
    """A text, a file of many bytes, a pipe that nobody writes to, a folder, nothing."""
    text, long, pipe = tmp_path / "text", tmp_path / "long", tmp_path / "pipe"
    text.write_text("[1, 2")
    long.write_bytes(b" " * 10_000_000)
    os.mkfifo(pipe, 0o600)
    for each in (text, long):
        each.chmod(0o600)
    for each in (text, long, pipe, tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError):
            read(each)
