"""Which files, columns and values the words of a question touch. Pure."""

from __future__ import annotations

import re

from nbagent.agent.dataset.groups import Family, Group

_WORD = re.compile(r"[^\W_]{2,}")
_COMMON = frozenset(
    "the of and in to is are was were what which how many much for with by on from per all each at an or as that this "
    "does do did have has between than its it be number average mean total give list show file files data value values "
    "der die das und in von wie viele welche ist sind im den mit für".split()
)


def words(text: str) -> set[str]:
    """The words of a text that say what it is about, without an s at their end."""
    found = {each.lower() for each in _WORD.findall(text[:20_000])} - _COMMON
    return {each.removesuffix("s") if len(each) > 3 else each for each in found}


def touch(question: set[str], group: Group) -> float:
    """How much a question's words touch a group of tables: its files' names count most, then columns, then values."""
    if not question:
        return 0.0
    names = words(" ".join(f"{family.folder} {family.name}" for family in group.families[:50]))
    tables = words(" ".join(table.name for _, table in group.tables[:50]))
    columns = words(" ".join(column.name for column in group.columns))
    values = words(" ".join(" ".join([*column.values, *map(str, column.sample)]) for column in group.columns))
    return 3.0 * len(question & (names | tables)) + 2.0 * len(question & columns) + 1.5 * len(question & values)


def touch_file(question: set[str], family: Family) -> float:
    """How much a question's words touch the names and the text of files."""
    text = words(" ".join(f"{each.path} {each.text[:500]}" for each in family.files[:20]))
    return float(len(question & text))
