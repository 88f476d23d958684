"""The panel's types are those of the events and the messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_types_of_the_panel_are_up_to_date() -> None:
    """If not: .venv/bin/python .ci/panel_types.py > panel/src/events.ts."""
    made = subprocess.run([sys.executable, ROOT / ".ci" / "panel_types.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "panel" / "src" / "events.ts").read_text()
