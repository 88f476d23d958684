"""What the data looks like: names, types, rows and a sample of each file, read inside the sandbox.

The host never opens the data: a hostile file meets a parser only where it can't do harm. What comes back is untrusted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.untrusted import UnreadableError, parse

SECONDS = 20.0
"""For all files together. A file that takes more than its share is named, and so are those for which none was left."""
MAX_FILES, MAX_COLUMNS, MAX_SAMPLE = 60, 500, 3
"""Bounds of what is kept: files in all, columns of a file, sample values of a column; as `describe` inside has them."""
MAX_DESCRIPTION = MIB
"""Bytes of one description; 500 columns have a tenth of that."""
MAX_ALL = 8 * MIB
"""Bytes that are read; each file is told of when it is begun and when it is there."""


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
    heard = _Heard()
    source = inside_calls.source_of("describe_inside.py")
    arguments = [list(paths), SECONDS * 0.8]
    ended = await kernel.evaluate(source, arguments, seconds=SECONDS, chunks=heard.take)
    found = list(heard.by_path.values())
    if ended is None:
        # It never came to its end: what it had published until then is there all the same.
        found += [Described(path=path, note="could not be read in time") for path in heard.missing(paths)]
    return [msgspec.to_builtins(each) for each in found]


Sample = bool | int | float | str | None


class Column(msgspec.Struct):
    """A column: its name, its type and what is odd about it, and some of its values."""

    name: str
    dtype: str = ""
    sample: list[Sample] = []


class Described(msgspec.Struct, omit_defaults=True):
    """What is known of one file."""

    path: str
    kind: str = ""
    rows: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    columns: list[Column] = []
    note: str = ""


class _Heard:
    """The descriptions that were published, by file, within bounds; a later one of the same file replaces it."""

    def __init__(self) -> None:
        self.by_path: dict[str, Described] = {}
        self._left = MAX_ALL

    def take(self, published: bytes) -> None:
        """Take one, if it is one."""
        self._left -= len(published)
        if self._left < 0:
            return
        with contextlib.suppress(UnreadableError):
            described = parse(published, Described, limit=MAX_DESCRIPTION)
            described.columns = described.columns[:MAX_COLUMNS]
            for column in described.columns:
                column.sample = column.sample[:MAX_SAMPLE]
            if described.path in self.by_path or len(self.by_path) < MAX_FILES:
                self.by_path[described.path] = described

    def missing(self, paths: Sequence[str]) -> list[str]:
        """The paths that no description came of, and of folders, of no file in them."""
        return [path for path in paths if not any(f"{each}/".startswith(f"{path}/") for each in self.by_path)]
