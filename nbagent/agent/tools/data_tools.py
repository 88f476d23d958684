"""The tools `describe` and `find`, by which a model asks what is known of the data instead of printing it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

from langchain_core.tools import BaseTool, tool

from nbagent.agent.dataset.groups import Family, Group, base_name
from nbagent.agent.dataset.section import DataView, fitted
from nbagent.agent.dataset.tables import COLUMNS, FULL, file_lines, quote, table_lines
from nbagent.kernel.find_text import Hits

ROOM = 8_000
"""Characters of one answer."""
MATCHES = 15
"""Matches of each kind that are told."""
MIN_TEXT = 2

Search = Callable[[Sequence[str], str], Awaitable[Hits]]
"""Looks for a text in files inside the sandbox."""


def make_data_tools(view: DataView, search: Search) -> list[BaseTool]:
    """The two tools.

    Args:
        view: What is known of the data.
        search: Looks into the files for what the profiles don't say.
    """

    @tool(response_format="content_and_artifact")
    async def describe(
        file: Annotated[str, "A file's name or path, or a part of it."],
        table: Annotated[str, "A sheet or table in it; empty for all."] = "",
    ) -> tuple[str, Any]:
        """See what is known of data files from a scan of all their rows, without running code.

        That is the call that reads each, its columns with types, values and missing words, and joins to other files.
        """
        return _fenced(described(view, file, table)), None

    @tool(response_format="content_and_artifact")
    async def find(text: Annotated[str, "A value, or a part of a column's or file's name."]) -> tuple[str, Any]:
        """Find out which data files have a value or a name in them, without running code."""
        if len(text.strip()) < MIN_TEXT:
            return f"Look for at least {MIN_TEXT} characters.", None
        hits = await search([each.path for each in view.profiles.files], text.strip())
        return _fenced(found(view, text.strip(), hits)), None

    for each in (describe, find):
        each.description = inspect.cleandoc(each.description)
    return [describe, find]


def _fenced(lines: Sequence[str]) -> str:
    kept, _ = fitted(lines, ROOM)
    if len(kept) < len(lines):
        kept.append(f"… and {len(lines) - len(kept):,} more lines; ask for less.")
    return "<data>\n" + "\n".join(kept) + "\n</data>"


def described(view: DataView, file: str, table: str = "") -> list[str]:
    """All that is known of the files whose path has a text in it, or of one table of them."""
    wanted = file.strip().lower()
    families = [each for each in view.families if _is_meant(each, wanted)]
    exact = [each for each in families if wanted in (each.name.lower(), each.path.lower())]
    if not families:
        names = [each.name for each in view.families]
        close = get_close_matches(file, names, 5, 0.4) or names[:10]
        return [f"No file's path has {quote(file)} in it. There are: {', '.join(map(quote, close))}."]
    families = exact or families
    lines: list[str] = []
    told: set[int] = set()
    for family in families:
        groups = [each for each in view.groups if family in each.families]
        if table:
            groups = [each for each in groups if table.lower() in each.tables[0][1].name.lower()] or groups
        for group in groups:
            if id(group) not in told:
                told.add(id(group))
                lines += table_lines(group, FULL, columns=5 * COLUMNS)
                lines += _keys(view, group)
        if not groups:
            lines += file_lines(family)
        if family.files[0].text:
            lines.append(f"    text: {quote(family.files[0].text, limit=4000)}")
    return lines


def _is_meant(family: Family, wanted: str) -> bool:
    return wanted in family.path.lower() or any(wanted in each.path.lower() for each in family.files)


def _keys(view: DataView, group: Group) -> list[str]:
    number = view.groups.index(group)
    own = [each for each in view.keys if number in (each.left, each.right)]
    return [f"    common values: {each[2:]}" for each in view.key_lines(own)]


def found(view: DataView, text: str, hits: Hits) -> list[str]:
    """Where a text is: in names of files and columns, in the values that are known, and in the files themselves."""
    wanted = text.lower()
    files = [quote(each.path, limit=200) for each in view.families if _is_meant(each, wanted)]
    columns, values = [], []
    for group in view.groups:
        for column in group.columns:
            place = f"{quote(column.name)} of {quote(base_name(group.name), limit=100)}"
            if wanted in column.name.lower():
                columns.append(place)
            same = [each for each in column.values if wanted in each.lower()]
            values += [f"{place}: {quote(each)} ×{column.values[each]:,}" for each in same]
    lines = []
    for what, places in (("files named so", files), ("columns named so", columns), ("values", values)):
        if places:
            more = f" and {len(places) - MATCHES} more" if len(places) > MATCHES else ""
            lines.append(f"{what}: {'; '.join(places[:MATCHES])}{more}")
    lines += [
        f"- {quote(each.path, limit=200)}: {each.count:,} times, first in line {each.line:,}: "
        f"{quote(each.text, limit=200)}"
        for each in hits.found
    ]
    scope = "all" if hits.is_all else "the first"
    lines.append(f"The contents of {scope} {hits.looked:,} text files were searched; of others, the known values.")
    return lines
