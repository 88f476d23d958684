"""What a person waits for before anything happens: the import, and the program's help."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.conftest import Pair, at

Say = Callable[..., None]
PROGRAM = shutil.which("nbagent", path=str(Path(sys.executable).parent)) or "nbagent"
PYTHON = [sys.executable, "-c", "pass"]


def run(command: list[str]) -> float:
    """Seconds that a whole process takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def pairs(benchmark: Any, command: list[str]) -> Pair:
    """A command and an empty Python, in turn."""
    pair = Pair()
    run(command)
    benchmark.pedantic(lambda: pair.ours.append(run(command)), setup=lambda: pair.floor.append(run(PYTHON)), rounds=20)
    return pair


def test_help(benchmark: Any, say: Say) -> None:
    """`nbagent --help` answers within 0.3 s."""
    pair = pairs(benchmark, [PROGRAM, "--help"])
    say("nbagent --help, median", at(pair.ours, 0.5), limit=0.3, unit="s")
    say("nbagent --help, to an empty Python", pair.ratio(), limit=15)


def test_import(benchmark: Any, say: Say) -> None:
    """`import nbagent` takes at most 0.1 s."""
    pair = pairs(benchmark, [sys.executable, "-c", "import nbagent"])
    cost = at(pair.ours, 0.5) - at(pair.floor, 0.5)
    say("import nbagent, median, beyond an empty Python", cost, limit=0.1, unit="s")
