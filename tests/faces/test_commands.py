"""Where the command line's code comes from, and the objects that it prints."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from program import ANSWER_KEYS

from nbagent.errors import UsageError
from nbagent.faces.cli import commands
from nbagent.faces.cli.commands import read_sources


class _Stdin:
    """Standard input as `sys.stdin` has it."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def notebook(*cells: dict[str, Any], **more: Any) -> str:
    """A notebook of these cells."""
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})


def code(source: str | list[str], *tags: str) -> dict[str, Any]:
    """A code cell."""
    return {
        "cell_type": "code",
        "id": "x",
        "source": source,
        "metadata": {"tags": list(tags)},
        "outputs": [],
        "execution_count": None,
    }


def test_code_is_taken_as_it_is() -> None:
    """One cell, that may not fail."""
    assert read_sources(None, "1 +\t1\n") == [("1 +\t1\n", False)]
    assert read_sources(None, "") == [("", False)]


def test_a_script_is_read_as_utf8(tmp_path: Path) -> None:
    """With or without a byte order mark, whatever its name."""
    (tmp_path / "-odd name").write_bytes(b"\xef\xbb\xbfx = '\xc3\xa9'\n")
    assert read_sources(str(tmp_path / "-odd name"), None) == [("x = 'é'\n", False)]


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` means standard input, up to a bound."""
    monkeypatch.setattr("sys.stdin", _Stdin(b"1\n2\n"))
    assert read_sources("-", None) == [("1\n2\n", False)]
    monkeypatch.setattr("sys.stdin", _Stdin(b"#" * (commands.MAX_SOURCE + 1)))
    with pytest.raises(UsageError, match="20 MB"):
        read_sources("-", None)


def test_a_notebooks_code_cells_are_taken_in_order(tmp_path: Path) -> None:
    """Text and empty cells are passed over; a cell with `raises-exception` may fail; equal ids don't matter."""
    text = {"cell_type": "markdown", "id": "m", "source": "text", "metadata": {}}
    path = tmp_path / "n.ipynb"
    path.write_text(notebook(code(["a = 1\n", "a"]), text, code("  "), code("1/0", "raises-exception", "x")))
    assert read_sources(str(path), None) == [("a = 1\na", False), ("1/0", True)]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"cells": 1}', notebook({"cell_type": "code"}), notebook(nbformat=99), "null", "x = 1"]
)
def test_what_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    """A broken notebook is a sentence, not half of its cells."""
    (tmp_path / "n.ipynb").write_text(content)
    with pytest.raises(UsageError, match="is not a notebook"):
        read_sources(str(tmp_path / "n.ipynb"), None)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe that nobody writes to would keep the program for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        read_sources(str(tmp_path / "pipe"), None)


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("run", ANSWER_KEYS),
        ("demo", ANSWER_KEYS),
        ("exec", ["status", "outputs", "execution_time", "state"]),
        ("doctor", []),
        ("nothing", []),
    ],
)
def test_a_command_that_never_began_has_its_object(
    capsys: pytest.CaptureFixture[str], command: str, keys: list[str]
) -> None:
    """One line, the command's own keys and the error, whatever characters are in it."""
    commands.refused(command, UsageError("No file 'caf\udce9'.", mend="Look\nagain."))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert sorted(found) == sorted([*keys, "error"])
    assert found["error"] == "No file 'caf?'. Look\nagain."
