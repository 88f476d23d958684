"""Kernels by their installed name, and a folder as a person works in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import pytest
from packages.index import Index

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", params=machine.ISOLATING)
def kernel_name(request: pytest.FixtureRequest) -> str:
    """The name of each installed kernelspec that isolates."""
    return machine.works(request.param).kernel_name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the client works in; code in the kernel sees it at /tmp/data."""
    made = tmp_path / "work here"
    made.mkdir()
    for each in (made, *made.parents):
        if str(each).startswith("/tmp/"):
            each.chmod(0o755)
    (made / "numbers.csv").write_text("a\n1\n2\n")
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that uv takes for the only one."""
    index = Index()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.url}/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield index
    index.close()


@pytest.fixture
def jupyter(folder: Path) -> Run:
    """Runs a module of this Python's as a program, in the person's folder."""

    def run(module: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(
            command, cwd=folder, input=given, capture_output=True, text=True, timeout=120, check=False
        )

    return run
