"""The notebooks of the repository that people run themselves: they run again, and give what they show."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import nbformat
import pytest
from program import nbagent

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def outputs(path: Path) -> list[Any]:
    """What each cell shows, without a picture's bytes: fonts differ from machine to machine.

    Text that follows on text is one: into how many pieces a kernel cuts it is a matter of time.
    """
    return [_shown(cell) for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def _shown(cell: Any) -> list[Any]:
    found: list[Any] = []
    for output in cell.outputs:
        if output.output_type == "stream" and found and found[-1][0] == output.name:
            found[-1] = (output.name, found[-1][1] + output.text)
        elif output.output_type == "stream":
            found.append((output.name, output.text))
        else:
            found.append((output.output_type, {**output.get("data", {}), "image/png": None}))
    return found


def pictures(path: Path) -> int:
    """How many pictures it has."""
    return sum(
        "image/png" in output.get("data", {})
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
    )


def test_an_agent_of_somebodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leftovers: Callable[[], list[str]]
) -> None:
    """`langchain-agent.py` runs without a key, and writes the notebook that is here, whatever its engine."""
    monkeypatch.setenv("NBAGENT_ENGINE", machine.works("bubblewrap").name)
    before = leftovers()
    shutil.copy(NOTEBOOKS / "langchain-agent.py", tmp_path)
    shutil.copytree(NOTEBOOKS / "replays", tmp_path / "replays")
    done = subprocess.run(
        [sys.executable, "langchain-agent.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Gentoos are the heaviest" in done.stdout
    assert outputs(tmp_path / "langchain-agent.ipynb") == outputs(NOTEBOOKS / "langchain-agent.ipynb")
    assert pictures(tmp_path / "langchain-agent.ipynb") == 1
    assert leftovers() == before


@pytest.mark.parametrize("way", ["nbconvert", "exec"])
def test_the_demos_notebook_finds_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """In a fresh clone, on a machine that never made it: in the sandboxed kernel of any client, and by `exec`."""
    machine.works("bubblewrap")
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("NBAGENT_CLIENT_DATA", raising=False)
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(NOTEBOOKS / "penguins.ipynb", folder)
    words = {
        "nbconvert": "-m nbconvert --to notebook --execute penguins.ipynb --output again.ipynb".split(),
        "exec": ["-c", "from nbagent.faces.cli.app import main; main()", *"exec penguins.ipynb -e bubblewrap".split()],
    }
    done = subprocess.run(
        [sys.executable, *words[way]], cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    if way == "exec":
        assert "(344, 7)" in done.stdout or "344" in done.stdout
    else:
        assert pictures(folder / "again.ipynb") == pictures(NOTEBOOKS / "penguins.ipynb")


def test_the_exported_examples_verify(tmp_path: Path) -> None:
    """`nbagent verify` finds each cell of the examples the same, in a clone that has no data beside them."""
    examples = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    assert len(examples) >= 7
    for name in examples:
        shutil.copy(NOTEBOOKS / name, tmp_path)
    words = ("verify", "-e", machine.works("bubblewrap").name, "--no-write", "--json", *examples)
    done = nbagent(*words, cwd=tmp_path, seconds=300, NBAGENT_STATE_DIR=str(tmp_path / "state"))
    assert done.code == 0, done.out + done.err
    assert [each["result"] for each in done.json["notebooks"]] == ["same"] * len(examples)


def test_every_notebook_is_whole() -> None:
    """Valid, and without a path of the machine that it ran on."""
    found = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert found
    for path in found:
        nbformat.validate(nbformat.read(path, as_version=4))
        text = path.read_text(encoding="utf-8")
        assert not [each for each in ("/home/", "/root/", "/Users/") if each in text], path.name
