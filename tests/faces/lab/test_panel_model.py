"""The panel's own tests of what needs no browser; `make panel` has compiled what they import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PANEL = Path(__file__).parents[3] / "panel"


def test_the_conversation_that_records_make() -> None:
    """Node's own test runner finds every test good."""
    # Where the machine has no Node, it is in the environment of the tests.
    path = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
    files = sorted(map(str, PANEL.glob("tests/*.test.mjs")))
    command = ["node", "--experimental-detect-module", "--test", *files]
    done = subprocess.run(
        command, cwd=PANEL, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
