"""The packages of a lock as files for pip, uv and conda."""

from __future__ import annotations

import yaml

from nbagent.core.events import Package
from nbagent.notebook.lock import Lock
from nbagent.notebook.pins import environment, requirements

LOCK = Lock(
    python="3.11.2",
    machine={"platform": "x86_64-manylinux_2_36"},
    kernel=[Package("numpy", "2.1.0", "a" * 64), Package("cycler", "0.12", "b" * 64)],
    packages=[Package("cycler", "0.11", "c" * 64)],
)


def test_each_package_has_its_hash() -> None:
    lines = requirements(LOCK).splitlines()
    assert "Python 3.11.2 on x86_64-manylinux_2_36" in lines[0]
    assert lines[1:] == [
        "cycler==0.11 \\",
        f"    --hash=sha256:{'c' * 64}",
        "numpy==2.1.0 \\",
        f"    --hash=sha256:{'a' * 64}",
    ]


def test_with_an_unknown_hash_there_are_none() -> None:
    """An installer that sees one hash wants all."""
    unknown = Lock(kernel=[Package("own", "1", ""), *LOCK.kernel])
    assert "--hash" not in requirements(unknown)
    assert "no published wheel is known of own" in requirements(unknown)


def test_conda_gets_the_same() -> None:
    found = yaml.safe_load(environment(LOCK, name="my growth: 2"))
    assert found["name"] == "my-growth--2"
    assert found["dependencies"] == ["python=3.11.2", "pip", {"pip": ["cycler==0.11", "numpy==2.1.0"]}]
