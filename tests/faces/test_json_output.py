"""The objects that the command line prints."""

from __future__ import annotations

import json

import pytest
from program import ANSWER_KEYS

from nbagent.core.errors import UsageError
from nbagent.faces.cli import json_output


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
