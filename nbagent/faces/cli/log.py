"""`nbagent log`: the story of a notebook."""

from __future__ import annotations

from pathlib import Path

from nbagent.core.text import safe
from nbagent.faces.cli.verify import read
from nbagent.notebook.story import story


def show(path: Path) -> int:
    """Print how a notebook came about.

    Raises:
        UsageError: It is none.
    """
    for line in story(read(path)):
        print(safe(line))
    return 0
