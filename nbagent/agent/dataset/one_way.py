"""Has files with the same columns read in one way, where one alone doesn't say what its points are. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from nbagent.kernel.profile import Column, FileProfile, Table

GROUPED = "written with thousands points", "written with thousands blanks"
"""The forms of columns whose call takes points or blanks out, as `read_calls_inside.py` names them."""
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
NULLS = re.compile(rf", null_values=\[{QUOTED.pattern}(?:, {QUOTED.pattern})*\]")
"""The words that a call reads as null."""
_CONVERTS = re.compile(r", schema_overrides=\{[^{}]*\}|, infer_schema_length=None|\.with_columns\(.*\)$")
"""What a call has in it by which it takes points out."""


def read_in_one_way(tables: Sequence[tuple[FileProfile, Table]]) -> None:
    """Give the tables of a group the call of one whose columns have points of thousands, if theirs may have such, too.

    A file of a year with few cases has `4.756` once, another one has it so often that it says what that is; and one
    where most values are missing has a text of the word for these.
    """
    there = [(file, table) for file, table in tables if file.kind == "CSV" and table.call]
    known = next(((file, table) for file, table in there if _grouped(table)), None)
    if known is None:
        return
    file, like = known
    bare, types = _bare(file, like), {each.name: each.dtype for each in like.columns}
    forms = {each.name: each.form for each in like.columns}
    words = {word[1:-1] for found in NULLS.finditer(like.call) for word in QUOTED.findall(found[0])}
    for other, table in there:
        columns = {each.name: each for each in table.columns}
        several = [columns[name] for name in _grouped(like) if name in columns]
        plain = [each for each in several if not each.form]
        texts = [each for each in table.columns if types.get(each.name) == "Int64" and _has_numbers(each, words)]
        is_one = all(each.dtype == "Int64" or len(each.pointed) == 2 or each in texts for each in several)
        if plain and is_one and _bare(other, table) == bare:
            own = NULLS.search(like.call if texts else table.call)
            call = NULLS.sub("", like.call).replace(repr(file.path), repr(other.path), 1)
            table.call = call.replace(", schema_overrides=", f"{own[0] if own else ''}, schema_overrides=", 1)
            for each in texts:
                each.dtype, each.others = "Int64", {word: each.values[word] for word in words & each.values.keys()}
            for each in plain:
                each.dtype, each.form = "Int64", forms[each.name]
                each.low, each.high = each.pointed or (each.low, each.high)


def _has_numbers(column: Column, words: Collection[str]) -> bool:
    """Whether a column of text has nothing but whole numbers and words for missing ones."""
    return column.dtype == "String" and bool(column.values) and all(map(str.isdecimal, column.values.keys() - words))


def _grouped(table: Table) -> list[str]:
    return [each.name for each in table.columns if each.form in GROUPED]


def _bare(file: FileProfile, table: Table) -> str:
    """A call without its path, its words for null, and what takes points out."""
    return _CONVERTS.sub("", NULLS.sub("", table.call.replace(repr(file.path), "path")))
