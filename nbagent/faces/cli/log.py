"""`nbagent log`: the provenance of a notebook."""

from __future__ import annotations

from pathlib import Path

from nbagent.core.errors import UsageError
from nbagent.core.text import printable, safe
from nbagent.faces.cli.verify import read
from nbagent.notebook.provenance import provenance


def show(path: Path) -> int:
    """Print how a notebook came about."""
    document = read(path)
    try:
        lines = list(provenance(document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"What {path} says of how it came about can't be read: {error!r:.200}.") from error
    for line in lines:
        print(printable(safe(line)))  # nothing in a notebook makes a line of ours
    return 0
