"""Where npm reaches no registry, nbagent is installed without the JupyterLab panel, and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOOK = "import hatch_build as h; hook = h.PanelHook('..', {}, None, None, '', 'wheel'); hook.initialize('', {})"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What builds the panel, on a machine that has its Node but has never built it."""
    unbuilt = shutil.ignore_patterns("node_modules", "build", "lib", "__pycache__")
    for name in (".ci", "panel"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unbuilt)
    for name in ("Makefile", "LICENSE", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("nbagent", "kernels"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".venv/stamps").mkdir(parents=True)
    for name in ("uv", "pins", "tests"):
        (tmp_path / ".venv/stamps" / name).touch()
    return tmp_path


def _run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program for which there is no registry, and nothing in npm's cache."""
    # Where the machine has no Node, it is in the environment of the tests.
    path = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
    nowhere = {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_cache": str(cwd / "cache")}
    given = {**os.environ, **nowhere, "PATH": path}
    return subprocess.run(words, cwd=cwd, env=given, capture_output=True, text=True, check=False)


def test_make_goes_on_without_the_panel(checkout: Path) -> None:
    """Unless the panel itself is wanted, or what tests it."""
    done = _run("make", ".venv/stamps/panel", cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert "so there is none; all else works" in done.stderr
    assert not (checkout / ".venv/stamps/panel").exists(), "the next one tries again"
    wanted = _run("make", "panel", cwd=checkout)
    assert wanted.returncode != 0
    assert "ECONNREFUSED" in wanted.stderr


def test_a_wheel_is_built_without_the_panel(checkout: Path) -> None:
    """Also by other programs that build wheels, such as pip."""
    done = _run(sys.executable, "-c", HOOK, cwd=checkout / "panel")
    assert done.returncode == 0, done.stderr
    assert "has no JupyterLab panel, all else works" in done.stderr
