"""What the data looks like: names, types, rows and a sample of each file, read inside the sandbox.

The host never opens the data: a hostile file meets a parser only where it can't do harm. What comes back is untrusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbagent.kernel.kernel import Kernel

SECONDS = 20.0
"""For all files together; what is not described by then is only named."""
_PROBE = Path(__file__).with_name("describe_inside.py")


async def describe(kernel: Kernel, paths: Sequence[str]) -> list[dict[str, Any]]:
    """Describe data files.

    Args:
        kernel: A running kernel; its namespace is left as it was.
        paths: Files and folders as the sandbox sees them.

    Returns:
        A description a file, `{"path", "kind", "rows", "columns": [{"name", "dtype", "sample"}], "note"}`, whatever is
        unknown left out; at least the paths that were given.
    """
    if not paths:
        return []
    found = await kernel.evaluate(_PROBE.read_text(), [list(paths), SECONDS * 0.8], seconds=SECONDS)
    if not isinstance(found, list):
        return [{"path": path, "note": "could not be read in time"} for path in paths]
    return [each for each in found if isinstance(each, dict) and isinstance(each.get("path"), str)]
