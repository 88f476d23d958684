"""What a person waits for before anything happens: the import, and the program's help."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.conftest import Pair, at

Say = Callable[..., None]
PROGRAM = shutil.which("nbagent", path=str(Path(sys.executable).parent)) or "nbagent"
PYTHON = [sys.executable, "-c", "pass"]
JUPYTER = str(Path(sys.executable).parent / "jupyter")
LANGCHAIN = "from langchain.agents import create_agent; from langgraph.checkpoint.memory import InMemorySaver"
REPLIES = """\
{"tool_calls": [{"name": "python", "args": {"code": "1+1"}}]}
{"content": "It is 2."}
"""


def run(command: list[str]) -> float:
    """Seconds that a whole process takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def pairs(benchmark: Any, command: list[str], floor: list[str] = PYTHON, *, rounds: int = 20) -> Pair:
    """A command and its floor, by default an empty Python, in turn."""
    pair = Pair()
    run(command)
    run(floor)
    benchmark.pedantic(
        lambda: pair.ours.append(run(command)), setup=lambda: pair.floor.append(run(floor)), rounds=rounds
    )
    return pair


@pytest.mark.parametrize("name", ["Session", "attach"])
def test_import_of_a_door(name: str, benchmark: Any, compare: Say) -> None:
    """`from nbagent import Session` takes no longer than `import jupyter_client`."""
    floor = [sys.executable, "-c", "import jupyter_client"]
    pair = pairs(benchmark, [sys.executable, "-c", f"from nbagent import {name}"], floor)
    compare(f"from nbagent import {name}", pair, floor="import jupyter_client", limit=1.1)


def test_exec(benchmark: Any, compare: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nbagent exec` in a sandbox takes no longer than `jupyter run` in the same environment without one."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path))
    (tmp_path / "one.py").write_text("1\n")
    command = [PROGRAM, "exec", "--engine", "bubblewrap", "-c", "1"]
    pair = pairs(benchmark, command, [JUPYTER, "run", str(tmp_path / "one.py")], rounds=15)
    compare("nbagent exec -c 1, bubblewrap", pair, floor="jupyter run", limit=1.0)


def test_run_on_a_replay(benchmark: Any, compare: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question with a cell and a notebook takes little more than importing what answers it."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path))
    (tmp_path / "replies.jsonl").write_text(REPLIES)
    words = ["--engine", "bubblewrap", "--no-mcp", "--model", f"replay:{tmp_path / 'replies.jsonl'}", "--force"]
    command = [PROGRAM, "run", *words, "--out", str(tmp_path / "a.ipynb"), "What is 1 + 1?"]
    pair = pairs(benchmark, command, [sys.executable, "-c", f"{LANGCHAIN}; import nbformat"], rounds=9)
    compare("nbagent run on a replay, bubblewrap", pair, floor="importing LangChain's agents and nbformat", limit=1.15)


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
