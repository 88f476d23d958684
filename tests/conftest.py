"""Fixtures of all tests: a home that is nobody's, the engines, and the check that nothing is left at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import platformdirs
import psutil
import pytest

from nbagent.sandbox import cgroup
from nbagent.sandbox.base import Engine, engines
from nbagent.sandbox.docker import LABEL

pytest.register_assert_rewrite("sandbox.contract", "kernel.shared", "clients.shared")

ISOLATING = ("bubblewrap", "docker")


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """A home, state and runtime folder of this run's own; of the cache only what is costly to make is shared.

    At the end nothing of a sandbox may be left in them, nor with the daemon, nor among processes and control groups.
    """
    # A socket's path must be short, so it isn't below pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="nbt-", dir="/tmp"))
    # The sandbox's own user must get to what is mounted from there.
    folder.chmod(0o755)
    real = platformdirs.user_cache_path("nbagent")
    uv = Path(os.environ.get("UV_CACHE_DIR") or platformdirs.user_cache_path("uv"))
    before = {name: os.environ.get(name) for name in ("HOME", "UV_CACHE_DIR", "IPYTHONDIR", *XDG)}
    for name in ("home", "runtime", *XDG.values()):
        (folder / name).mkdir(mode=0o700)
    (folder / "cache" / "nbagent").mkdir()
    (folder / "cache" / "nbagent" / "environments").symlink_to(real / "environments")
    os.environ |= {name: str(folder / name_of) for name, name_of in XDG.items()}
    os.environ |= {"HOME": str(folder / "home"), "UV_CACHE_DIR": str(uv), "IPYTHONDIR": str(folder / "home" / "ipython")}
    try:
        yield folder
        left = _wait_for_nothing(folder)
        assert not left, f"this run left behind: {', '.join(left)}"
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


XDG = {
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_RUNTIME_DIR": "runtime",
    "XDG_STATE_HOME": "state",
}


def _wait_for_nothing(folder: Path) -> list[str]:
    """What is left of this run's sandboxes, once what is ending has had a moment to end."""
    end = time.monotonic() + 5
    while (left := leftovers(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def leftovers(folder: Path) -> list[str]:
    """All of sandboxes that this run made and that is still there, each with its kind.

    What other runs on this machine have at the same time is none of it: their runtime folder is another one.
    """
    runtime = folder / "runtime"
    folders = [*runtime.glob("nbagent-*/*"), *(folder / "cache" / "nbagent").glob("sandboxes/*")]
    return [
        *(f"folder {each}" for each in folders),
        *(f"process {each}" for each in _processes(str(runtime))),
        *(f"container {each}" for each in containers(runtime)),
        *(f"control group {each}" for each in groups() if each not in _BEFORE and not _of_others(each, runtime)),
    ]


def _processes(runtime: str) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        line = process.info["cmdline"] or []
        if process.info["name"] == "bwrap" and any(runtime in word for word in line):
            found.append(f"{process.info['pid']} bwrap")
    return found


def containers(runtime: Path) -> list[str]:
    """Containers, running or not, that were started from this runtime folder."""
    client = docker.APIClient()
    try:
        made = client.containers(all=True, filters={"label": LABEL})
        return [each["Id"] for each in made if any(str(runtime) in at.get("Source", "") for at in each["Mounts"])]
    finally:
        client.close()


def groups() -> set[str]:
    """Names of all sandboxes' control groups."""
    hierarchy = cgroup.find()
    if hierarchy is None:
        return set()
    return {each.name for folder in hierarchy.folders.values() for each in folder.iterdir() if each.is_dir()}


def _of_others(name: str, runtime: Path) -> bool:
    roots = (*Path(tempfile.gettempdir()).glob("nbagent-*"), *Path("/tmp").glob("nbt-*/runtime/nbagent-*"))
    return any((root / name).exists() for root in roots if runtime not in root.parents)


_BEFORE = groups()


def works(name: str) -> Engine:
    """The engine of that name; a test that needs one that doesn't work here fails with its report."""
    engine = engines()[name]
    report = engine.check()
    assert report.available, f"the engine {name} doesn't work here: {report.reason} {report.mend}"
    return engine


@pytest.fixture(scope="module", params=ISOLATING)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that isolates; never skipped."""
    return works(request.param)
