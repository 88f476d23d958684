"""What the data looks like: names, types, rows and a sample of each file, read inside the sandbox.

The host never opens the data: a hostile file meets a parser only where it can't do harm. What comes back is untrusted.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from nbagent.kernel import probe
from nbagent.kernel.kernel import Kernel

SECONDS = 20.0
"""For all files together. A file that takes more than its share is named, and so are those for which none was left."""
MAX_HEARD = 100
"""Descriptions that are kept of a request that never ended; there are 60 at most."""
MAX_DESCRIPTION = 1024 * 1024
"""Bytes of one description; 500 columns have a tenth of that."""


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
    heard: dict[str, dict[str, Any]] = {}
    source = probe.source_of("describe_inside.py")
    arguments = [list(paths), SECONDS * 0.8]
    found = await kernel.evaluate(source, arguments, seconds=SECONDS, chunks=lambda each: _hear(heard, each))
    if not isinstance(found, list):
        # It never came to its end: what it had published until then is there all the same.
        late = [{"path": path, "note": "could not be read in time"} for path in _missing(paths, heard)]
        found = [*heard.values(), *late]
    return [each for each in found if isinstance(each, dict) and isinstance(each.get("path"), str)]


def _hear(heard: dict[str, dict[str, Any]], published: bytes) -> None:
    """Take a description that came ahead of the result, if it is one; a later one of the same file replaces it."""
    if len(published) > MAX_DESCRIPTION or len(heard) >= MAX_HEARD:
        return
    with contextlib.suppress(ValueError, RecursionError):
        described = json.loads(published)
        if isinstance(described, dict) and isinstance(described.get("path"), str):
            heard[described["path"]] = described


def _missing(paths: Sequence[str], heard: dict[str, dict[str, Any]]) -> list[str]:
    """Those of which, and of whose files, nothing was heard."""
    return [path for path in paths if not any(f"{each}/".startswith(f"{path}/") for each in heard)]
