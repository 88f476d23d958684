"""Has files with the same columns read in one way, where one alone doesn't say what its values are. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from nbagent.kernel.profile import Column, FileProfile, Table

GROUPED = "written with thousands points"
"""The form of a column whose call takes the points out, as `read_calls_inside.py` names it."""
QUOTED = re.compile(r"""(?:'(?:[^'\\]|\\.){0,400}'|"(?:[^"\\]|\\.){0,400}")""")
"""A text as Python writes it. The bound keeps quotes that nothing closes from taking the square of their number."""
NULLS = re.compile(rf", null_values=\[{QUOTED.pattern}(?:, {QUOTED.pattern})*\]")
"""The words that a call reads as null."""
TYPED = 12
"""Columns up to which each is named that is read as text only since it is one in another file."""
AS_TEXT, UNBOUNDED, RAGGED = ", infer_schema=False", ", infer_schema_length=None", ", truncate_ragged_lines=True"
"""The options of a call that reads all as text, of one that takes types from all rows, and of one for rows too long."""
_OWN_NULLS = re.compile(rf", null_values=\{{{QUOTED.pattern}: [^{{}}]*\}}")
"""The words that a call reads as null in single columns."""
_TEXTS = re.compile(rf", schema_overrides=\{{{QUOTED.pattern}: pl\.String(?:, {QUOTED.pattern}: pl\.String)*\}}")
"""The columns that a call reads as text."""
_MADE = re.compile(rf"pl\.col\(({QUOTED.pattern}(?:, {QUOTED.pattern})*)\)(\.(?:(?!pl\.col).)*?)\.cast\(pl\.(\w+)\)")
"""Columns of text, and how a call makes numbers of them."""
_APART = ", schema={", ").cast({", ".exclude("
"""What calls have in them that are left as they are."""
_CONVERTS = re.compile(r", schema_overrides=\{[^{}]*\}|\.with_columns\(.*\)$")
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
                each.dtype, each.form = "Int64", GROUPED
                each.low, each.high = each.pointed or (each.low, each.high)


def _has_numbers(column: Column, words: Collection[str]) -> bool:
    """Whether a column of text has nothing but whole numbers and words for missing ones."""
    return column.dtype == "String" and bool(column.values) and all(map(str.isdecimal, column.values.keys() - words))


def _grouped(table: Table) -> list[str]:
    return [each.name for each in table.columns if each.form == GROUPED]


def _bare(file: FileProfile, table: Table) -> str:
    """A call without its path, its words for null, and what takes points out."""
    return _CONVERTS.sub("", NULLS.sub("", table.call.replace(repr(file.path), "path")))


def read_as_one(tables: Sequence[tuple[FileProfile, Table]]) -> None:
    """Give the tables of a group in text files calls by which a column has the same type in all of them.

    In some files only, codes have zeros before them, numbers have thousands, or nothing has a value.
    """
    there = [table for _, table in tables if table.call.startswith("pl.read_csv(")]
    made = _made(there)
    if len(there) < 2 or any(mark in each.call for each in there for mark in _APART):
        return
    if any(_making(_made([each])) != each.call[_end(each.call) :] for each in there):
        return  # it makes something else of its columns, too
    own = {"".join(_OWN_NULLS.findall(each.call)) for each in there}
    if len(own) > 1:  # where a word is null in one file and a value in another, it is text in all
        for each in there:
            each.call = _OWN_NULLS.sub("", each.call)
    nulls = {name for words in own if len(own) > 1 for name in re.findall(rf"({QUOTED.pattern}): ", words)}
    told = {name for each in there for texts in _TEXTS.findall(each.call) for name in QUOTED.findall(texts)}
    types = _types(there, told - made.keys(), nulls)
    if any("'.', ''" in how and types.get(name) == "Float64" for name, (how, _) in made.items()):
        return  # fractions, where others have points of thousands
    several = {name for name, (how, _) in made.items() if not how or types.get(name) == "String"}
    types |= dict.fromkeys(several, "String")  # in some they have words, or are written in another way
    made = {name: (_fractional(how[0]), "Float64") if types.get(name) == "Float64" else how
            for name, how in made.items() if name not in several}  # fmt: skip
    texts = [name for name, kind in types.items() if kind == "String" and name not in told]
    is_text = len(texts) > TYPED or any(AS_TEXT in each.call for each in there)
    if not is_text:
        types = {name: kind for name, kind in types.items() if name not in made} | dict.fromkeys(made, "String")
    option = AS_TEXT if is_text else UNBOUNDED if any(UNBOUNDED in each.call for each in there) else ""
    option += RAGGED if any(RAGGED in each.call for each in there) else ""
    if types and not is_text:
        option = f", schema_overrides={{{', '.join(f'{name}: pl.{kind}' for name, kind in types.items())}}}{option}"
    for each in there:
        bare = _TEXTS.sub("", each.call[: _end(each.call) - 1])
        for other in (UNBOUNDED, AS_TEXT, RAGGED):
            bare = bare.replace(other, "")
        each.call = f"{bare}{option}){_making(made)}"
        for column in filter(_is_typed, each.columns):
            name = repr(column.name)
            kind = made[name][1] if name in made else "String" if is_text else types.get(name, column.dtype)
            if kind == "String" and column.dtype.startswith(("Int", "Float")):
                column.form = column.form or "numbers"
            column.dtype = kind


def _end(call: str) -> int:
    """Where a call ends that something may follow which makes numbers of its columns."""
    at = call.find(").with_columns(")
    return at + 1 if at >= 0 else len(call)


def _made(tables: Sequence[Table]) -> dict[str, tuple[str, str]]:
    """The columns of text of which calls make numbers, each with how, if all do it in one way, and of what type."""
    made: dict[str, tuple[str, str]] = {}
    for names, how, kind in (found for each in tables for found in _MADE.findall(each.call)):
        for name in QUOTED.findall(names):
            known = made.setdefault(name, (how, kind))
            made[name] = how if known[0] == how else "", kind if known[1] == kind else "Float64"
    return made


def _fractional(how: str) -> str:
    """How texts are made numbers of which some have fractions, if only in other tables."""
    return how if "','" in how else f"{how}.str.replace(',', '.', literal=True)"


def _making(made: dict[str, tuple[str, str]]) -> str:
    """What follows a call that reads columns as text, to make numbers of them."""
    parts: dict[str, list[str]] = {}
    for name, (how, kind) in made.items():
        parts.setdefault(f"{how}.cast(pl.{kind})", []).append(name)
    told = ", ".join(f"pl.col({', '.join(names)}){how}" for how, names in parts.items())
    return f".with_columns({told})" if told else ""


def _types(tables: Sequence[Table], told: Collection[str], nulls: Collection[str]) -> dict[str, str]:
    """The types of columns that calls must name for them to be the same in all tables.

    Args:
        tables: The tables.
        told: The columns that a call reads as text.
        nulls: Those in which words are no longer null.
    """
    words = {word[1:-1] for each in tables for found in NULLS.findall(each.call) for word in QUOTED.findall(found)}
    sides: dict[str, list[Column]] = {}
    for column in (column for each in tables for column in each.columns):
        sides.setdefault(repr(column.name), []).append(column)
    types: dict[str, str] = {}
    for name, side in sides.items():
        kinds = {each.dtype.partition("(")[0] for each in side if _is_typed(each)}
        empty = [each for each in side if not _is_typed(each)]
        if (
            name in told
            or (len(kinds) > 1 and kinds != {"Int64", "Float64"})
            or (name in nulls and kinds != {"String"})
        ):
            types[name] = "String"
        elif len(kinds) > 1:
            types[name] = "Float64"
        elif empty and kinds and kinds != {"String"} and all(each.missing.keys() <= words for each in empty):
            types[name] = kinds.pop()
    return types


def _is_typed(column: Column) -> bool:
    """Whether a column has values, which say of what type it is."""
    return column.dtype != "String" or bool(column.distinct or column.values or column.sample)
