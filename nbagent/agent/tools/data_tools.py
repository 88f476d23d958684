"""The tools `describe` and `find`, by which a model asks what is known of the data instead of printing it."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

from langchain_core.tools import BaseTool, tool

from nbagent.agent.dataset.groups import Family, Group, base_name
from nbagent.agent.dataset.joins import key_lines
from nbagent.agent.dataset.section import DataView, fitted
from nbagent.agent.dataset.tables import FULL, MOST_COLUMNS, file_lines, table_lines, undescribed
from nbagent.agent.dataset.text_forms import quote
from nbagent.kernel.describe import Profiles, was_late
from nbagent.kernel.find_text import Hit, Hits

ROOM = 8_000
"""Characters of one answer."""
MATCHES = 15
"""Matches of each kind that are told."""
MIN_TEXT = 2

Search = Callable[[Sequence[str], str], Awaitable[Hits]]
"""Looks for a text in files inside the sandbox."""
Read = Callable[[Collection[str]], Awaitable[Profiles]]
"""Reads the data, as far as it is not known yet, these files first."""


def make_data_tools(view: DataView, search: Search, read: Read) -> list[BaseTool]:
    """The two tools.

    Args:
        view: What is known of the data.
        search: Looks into the files for what the profiles don't say.
        read: Reads the data again, of which only what is not known yet takes time.
    """
    tried: set[str] = set()

    @tool(response_format="content_and_artifact")
    async def describe(
        file: Annotated[str, "A file's name or path, or a part of it."],
        table: Annotated[str, "A sheet or table in it; empty for all."] = "",
    ) -> tuple[str, Any]:
        """See what is known of data files from a scan of all their rows, without running code.

        That is the call that reads each, its columns with types, values and missing words, and joins to other files.
        """
        nonlocal view
        late = {each.path for family in meant(view, file) for each in family.files if was_late(each)}
        if late - tried:
            tried.update(late)
            profiles = await read(late)
            view = await asyncio.to_thread(DataView, profiles, left_out=view.left_out)
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
    families = meant(view, file)
    if not families:
        names = [each.name for each in view.families]
        close = get_close_matches(file, names, 5, 0.4) or names[:10]
        return [f"No file's path has {quote(file)} in it. There are: {', '.join(map(quote, close))}."]
    lines: list[str] = []
    told: set[int] = set()
    for family in families:
        groups = [each for each in view.groups if family in each.families]
        if table:
            groups = [each for each in groups if _has_table(each, table.lower())] or groups
        for group in groups:
            if id(group) not in told:
                told.add(id(group))
                lines += table_lines(group, FULL, columns=5 * MOST_COLUMNS)
                lines += _keys(view, group)
        if not groups:
            lines += file_lines(family)
        lines += [] if table else undescribed(family)
        texts = {family.files[0].path, *(path for group in groups for path in group.notes)}
        lines += [
            f"    text of {quote(each.path, limit=200)}: {quote(each.text, limit=4000)}"
            for each in view.profiles.files
            if each.path in texts and each.text
        ]
    return lines


def _has_table(group: Group, wanted: str) -> bool:
    return any(wanted in table.name.lower() for _, table in group.tables)


def meant(view: DataView, file: str) -> list[Family]:
    """The files whose path has a text in it, or those that are called so."""
    wanted = file.strip().lower()
    families = [each for each in view.families if _is_meant(each, wanted)]
    return [each for each in families if wanted in (each.name.lower(), each.path.lower())] or families


def _is_meant(family: Family, wanted: str) -> bool:
    return wanted in family.path.lower() or any(wanted in each.path.lower() for each in family.files)


def _keys(view: DataView, group: Group) -> list[str]:
    number = view.groups.index(group)
    own = [each for each in view.keys if number in (each.left, each.right)]
    told = key_lines(view.groups, own)
    return [f"    common values: {each[2:]}" if each.startswith("- ") else f"    {each}" for each in told]


def found(view: DataView, text: str, hits: Hits) -> list[str]:
    """Where a text is: in names of files and columns, in the values that are known, and in the files themselves.

    Where it stands as whole words, the places where it is a part of one are only counted.
    """
    wanted, word = text.lower(), re.compile(rf"(?i)(?<![^\W_]){re.escape(text)}(?![^\W_])")

    def place(said: str, told: str) -> tuple[bool, str]:
        return word.search(said) is not None, told

    named = [place(each.path, quote(each.path, limit=200)) for each in view.families if _is_meant(each, wanted)]
    columns, values = [], []
    for group in view.groups:
        for column in group.columns:
            where = f"{quote(column.name)} of {quote(base_name(group.name), limit=100)}"
            if wanted in column.name.lower():
                columns.append(place(column.name, where))
            same = [each for each in column.values if wanted in each.lower()]
            values += [place(each, f"{where}: {quote(each)} ×{column.values[each]:,}") for each in same]
    tables = [
        place(table.name, quote(f"{base_name(file.path)}, {table.name}", limit=100))
        for file in view.profiles.files
        for table in file.tables
        if wanted in table.name.lower()
    ]
    parts = {
        "files named so": named,
        "tables named so": tables,
        "columns named so": columns,
        "values": values,
        "": [(each.words > 0, _hit(each)) for each in hits.found],
    }
    has_words = any(is_word for places in parts.values() for is_word, _ in places)
    lines, left = [], 0
    for what, places in parts.items():
        told = [where for is_word, where in places if is_word or not has_words]
        left += len(places) - len(told)
        if what and told:
            more = f" and {len(told) - MATCHES} more" if len(told) > MATCHES else ""
            lines.append(f"{what}: {'; '.join(told[:MATCHES])}{more}")
        elif not what:
            lines += told
    if left:
        lines.append(f"In {left} more of these it is only a part of a word.")
    scope = "all" if hits.is_all else "the first"
    lines.append(
        f"Searched: the contents of {scope} {hits.looked:,} files of text, workbooks and archives that could be read."
    )
    return lines


def _hit(hit: Hit) -> str:
    count = hit.words or hit.count
    return f"- {quote(hit.path, limit=200)}: {count:,} times, first in line {hit.line:,}: {quote(hit.text, limit=200)}"
