"""The objects that the command line prints."""

from __future__ import annotations

import json

import pytest
from program import ANSWER_KEYS

from nbagent.core.errors import UsageError
from nbagent.faces.cli import json_output
from nbagent.faces.cli.work import Ending
from nbagent.notebook.run import Run, Source


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
    json_output.refused(command, UsageError("No file 'caf\udce9'.", mend="Look\nagain."))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert sorted(found) == sorted([*keys, "error"])
    assert found["error"] == "No file 'caf?'. Look\nagain."


def test_exec_names_the_cells_that_did_not_run() -> None:
    """Those that a tag keeps from it; without any, there is no such field."""
    run = Run([Source("1"), Source("2", skipped="code cell 2")])
    assert json_output.executed(run, Ending(), seconds=0.1)["skipped"] == ["code cell 2"]
    assert "skipped" not in json_output.executed(Run([Source("1")]), Ending(), seconds=0.1)
