"""Describes data files: names, types, rows and a sample of the values of each, all read inside the sandbox.

The host never parses data, since a file may be hostile to the parser. The descriptions are untrusted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from nbagent.core.events import ColumnType
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.untrusted import UnreadableError, parse

SECONDS = 20.0
"""Seconds for all files together; a file that got too little of them has a note that says so."""
MAX_FILES, MAX_COLUMNS, MAX_SAMPLE = 60, 500, 3
"""Files in all, columns of a file, and sample values of a column that are kept, as in `describe_inside.py`."""
MAX_SCHEMA = 2000
"""Columns of all files together that a lock names."""
_ODD = re.compile(r" \((?:no value in the first|numbers|not all can be read) ?")
"""What `describe_inside.py` says of a column behind its type."""
MAX_DESCRIPTION = MIB
"""Bytes of one description; 500 columns have a tenth of that."""
MAX_ALL = 8 * MIB
"""Bytes of all descriptions; there are two of each file, from the begin and the end of reading it."""


async def describe(kernel: Kernel, paths: Sequence[str]) -> list[dict[str, Any]]:
    """Describe data files.

    Args:
        kernel: A running kernel; its namespace is left as it was.
        paths: Files and folders as the sandbox sees them.

    Returns:
        For each file `{"path", "kind", "rows", "columns": [{"name", "dtype", "sample"}], "note"}`, without what is
        unknown. Paths that could not be read have a note only.
    """
    if not paths:
        return []
    described = _Descriptions()
    source = inside_calls.source_of("describe_inside.py")
    arguments = [list(paths), SECONDS * 0.8]
    ended = await kernel.evaluate(source, arguments, seconds=SECONDS, chunks=described.take)
    found = list(described.by_path.values())
    if ended is None:
        # It did not end in time, but published descriptions until then.
        found += [Description(path=path, note="could not be read in time") for path in described.missing(paths)]
    return [msgspec.to_builtins(each) for each in found]


def schemas(described: Sequence[Mapping[str, Any]]) -> dict[str, list[ColumnType]]:
    """The columns of those files that are tables, by path.

    Args:
        described: What `describe` returned.
    """
    found: dict[str, list[ColumnType]] = {}
    left = MAX_SCHEMA
    for each in described:
        given = each.get("columns", ())[:left]
        columns = [ColumnType(column["name"], _ODD.split(column["dtype"])[0]) for column in given]
        if columns:
            found[each["path"]] = columns
            left -= len(columns)
    return found


Sample = bool | int | float | str | None


class Column(msgspec.Struct):
    """A column: its name, its type with what is odd about it, and some of its values."""

    name: str
    dtype: str = ""
    sample: list[Sample] = []


class Description(msgspec.Struct, omit_defaults=True):
    """The description of one file."""

    path: str
    kind: str = ""
    rows: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    columns: list[Column] = []
    note: str = ""


class _Descriptions:
    """The published descriptions by path, within bounds; a later one of the same file replaces an earlier one."""

    def __init__(self) -> None:
        self.by_path: dict[str, Description] = {}
        self._left = MAX_ALL

    def take(self, published: bytes) -> None:
        """Take one published description; anything else is ignored."""
        self._left -= len(published)
        if self._left < 0:
            return
        with contextlib.suppress(UnreadableError):
            described = parse(published, Description, limit=MAX_DESCRIPTION)
            described.columns = described.columns[:MAX_COLUMNS]
            for column in described.columns:
                column.sample = column.sample[:MAX_SAMPLE]
            if described.path in self.by_path or len(self.by_path) < MAX_FILES:
                self.by_path[described.path] = described

    def missing(self, paths: Sequence[str]) -> list[str]:
        """The paths of which no description came; for a folder, of no file in it."""
        return [path for path in paths if not any(f"{each}/".startswith(f"{path}/") for each in self.by_path)]
