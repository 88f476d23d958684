"""Gathers data files: by names that differ in numbers only, and by the same columns. Pure."""

from __future__ import annotations

import base64
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from nbagent.agent.dataset.one_way import read_in_one_way
from nbagent.kernel.profile import MAX_NAMES, MAX_VALUES, Column, FileProfile, Sketch, Table

SURELY_FEWER = 0.85
"""The part of a number of different values by which another estimate is less than it for certain."""
FEW_NAMES = 3
"""Up to so many names are all told."""
RUN = 6
"""Columns in a row, of names that differ in a number, from which they are told as one."""
WRITTEN_NUMBERS = ("numbers", "thousands commas, 1,234.5", "decimal commas", "thousands points, 1.234 is 1234")
"""The forms of a text that `columns_inside.py` knows as numbers."""
NESTED = ("List", "Array", "Struct", "Object", "Binary")
"""How the types begin whose values a profile doesn't list."""
MERGED = 4096
"""Hashes by which the different values of several tables are counted."""
_NAMELESS = re.compile(r"(?:column_)?\d+")
_NUMBER, _PARTS = re.compile(r"\d+"), re.compile(r"\d+|\D+")


@dataclass
class Family:
    """Files whose paths differ in numbers only, or one file.

    Attributes:
        name: Their name: `tests-{2002…2023}.csv`.
        files: The files.
    """

    name: str
    files: list[FileProfile]

    @property
    def folder(self) -> str:
        """The folder in which they are, or the common name of the folders."""
        return _common_name(list(dict.fromkeys(str(PurePosixPath(each.path).parent) for each in self.files)))

    @property
    def path(self) -> str:
        """Their path, by their common name."""
        return f"{self.folder}/{self.name}"

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return sum(each.size for each in self.files)


@dataclass
class Group:
    """Tables with the same columns, in one or several files.

    Attributes:
        families: The files.
        tables: Each table, with its file.
        columns: The columns, by the values of all tables.
        sides: Of each column, those of the tables.
        notes: The paths of texts that are called as its files or tables are.
    """

    families: list[Family]
    tables: list[tuple[FileProfile, Table]]
    columns: list[Column] = field(default_factory=list)
    sides: list[list[Column]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The first file's or family's path, with the table's name."""
        name = self.table_name
        return f"{self.families[0].path}, {name}" if name else self.families[0].path

    @property
    def table_name(self) -> str:
        """The name that its tables have in their files, as that of a family; empty if they need none."""
        names = list(dict.fromkeys(table.name for _, table in self.tables))
        return " and ".join(names) if len(names) < 3 else _common_name(names)

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows or 0 for _, table in self.tables)


def base_name(path: str) -> str:
    """The last part of a path in the sandbox."""
    return PurePosixPath(path).name


def families(files: Iterable[FileProfile]) -> list[Family]:
    """The files by names that differ in numbers only, and by the same tables."""
    found: dict[tuple[str, ...], list[FileProfile]] = {}
    for each in files:
        tables = [_signature(table) for table in each.tables if not is_record(each, table)]
        key = (_pattern(each.path), each.kind, "records" if len(tables) < len(each.tables) else repr(tables))
        found.setdefault(key, []).append(each)
    gathered = []
    for several in found.values():
        if len(several) < 3:
            gathered += [Family(base_name(each.path), [each]) for each in several]
        else:
            gathered.append(Family(_common_name([base_name(each.path) for each in several]), several))
    return gathered


def _common_name(names: Sequence[str]) -> str:
    """Names that differ in numbers only: the first and the last, `{2021-01…2022-12}.csv`; or all of a few."""
    split = [_PARTS.findall(name) for name in names]  # texts and numbers by turns
    differing = [at for at, same in enumerate(zip(*split, strict=True)) if len(set(same)) > 1]
    if not differing:
        return names[0]
    start, end = differing[0], differing[-1] + 1
    ordered = sorted(split, key=lambda parts: [(len(parts[at]), parts[at]) for at in differing])
    told = list(dict.fromkeys("".join(parts[start:end]) for parts in ordered))
    between = ",".join(told) if len(told) <= FEW_NAMES else f"{told[0]}…{told[-1]}"
    return f"{''.join(split[0][:start])}{{{between}}}{''.join(split[0][end:])}"


def _pattern(name: str) -> str:
    """What names have in common that differ in numbers only, and no other names."""
    return repr(_NUMBER.split(name))


def likeness(path: str) -> str:
    """What paths have in common that differ in numbers and endings only."""
    folder, _, name = path.rpartition("/")
    return _pattern(f"{folder}/{name.partition('.')[0]}")


def _signature(table: Table) -> tuple[str, ...]:
    return (_pattern(table.name), *(column.name for column in table.columns))


def groups(gathered: Iterable[Family]) -> list[Group]:
    """The tables by the same columns; records of which each has a file, by their folder."""
    found: dict[tuple[tuple[str, ...], str], Group] = {}
    for family in gathered:
        for file in family.files:
            for table in file.tables:
                if not table.columns:
                    continue
                # What no header names is the same only in one place.
                nameless = all(map(is_nameless, table.columns))
                where = family.folder if nameless else ""
                key = _signature(table), file.path if len(table.columns) < 2 else where
                if is_record(file, table):
                    key = (_pattern(family.folder),), "records"
                group = found.setdefault(key, Group([], []))
                group.tables.append((file, table))
                if not group.families or group.families[-1] is not family:
                    group.families.append(family)
    for group in found.values():
        read_in_one_way(group.tables)
        group.sides = _sides([table.columns for _, table in group.tables])
        group.columns = [with_alike(merged(columns), columns) for columns in group.sides]
        for column, side in zip(group.columns, group.sides, strict=True):
            column.empty += len(group.tables) - len(side)  # records without it
    return list(found.values())


def is_nameless(column: Column) -> bool:
    """Whether no header names a column, nor does anything above the table."""
    return _NAMELESS.fullmatch(column.name) is not None and not column.label


def is_record(file: FileProfile, table: Table) -> bool:
    """Whether a table is one record, which has a file of its own."""
    return file.kind == "JSON" and not table.name and table.rows == 1


def _sides(tables: Sequence[Sequence[Column]]) -> list[list[Column]]:
    """The columns of several tables by their places, or by their names if not all have the same."""
    if len({tuple(each.name for each in columns) for columns in tables}) == 1:
        return [list(side) for side in zip(*tables, strict=True)]
    sides: dict[str, list[Column]] = {}
    for columns in tables:
        for each in columns:
            sides.setdefault(each.name, []).append(each)
    return list(sides.values())


def merged(columns: Sequence[Column]) -> Column:
    """A column of several tables as one."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    types = list(dict.fromkeys(each.dtype for each in columns if "Null" not in each.dtype)) or [first.dtype]
    whole = Column(name=first.name, dtype=types[0] if len(types) == 1 else " or ".join(types[:3]))
    whole.empty = sum(each.empty for each in columns)
    whole.padded = sum(each.padded for each in columns)
    for name in ("missing", "values", "others", "sentinels", "sums"):
        counts: dict[str, int] = {}
        for each in columns:
            for value, count in getattr(each, name).items():
                counts[value] = counts.get(value, 0) + count
        if name in ("missing", "others"):  # where most values are missing, the word for it is one of the values
            for each in columns:
                told = each.missing.keys() | each.others.keys()
                counts |= {value: counts[value] + each.values.get(value, 0) for value in counts.keys() - told}
        setattr(whole, name, dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))))
    if len(whole.values) > MAX_VALUES or any(each.distinct and not each.values for each in columns):
        top = dict(whole.values)
        for each in columns:
            for value, count in each.top.items():
                top[value] = top.get(value, 0) + count
        ordered = sorted(top.items(), key=lambda each: (-each[1], each[0]))[:3]
        whole.top, whole.values = {value: count for value, count in ordered if count > 1}, {}
    # Where one has more than are remembered, those of the others are not all.
    if all(each.names or each.values or not each.distinct for each in columns):
        whole.names = sorted({name for each in columns for name in each.names or each.values})[:MAX_NAMES]
    whole.missing = dict(list(whole.missing.items())[:MAX_VALUES])
    whole.distinct, is_exact = (len(whole.values), True) if whole.values else _distinct(columns)
    whole.about = not is_exact
    whole.sample, whole.unit = first.sample, first.unit
    whole.label = first.label if len({each.label for each in columns}) == 1 else ""
    whole.form = " or ".join(dict.fromkeys(each.form for each in columns if each.form))
    ends = [end for each in columns for end in (each.low, each.high) if end is not None]
    if ends and (all(isinstance(end, int | float) for end in ends) or all(isinstance(end, str) for end in ends)):
        whole.low, whole.high = min(ends), max(ends)
    return whole


def _distinct(columns: Sequence[Column]) -> tuple[int, bool]:
    """How many different values several columns have together, and whether that is no estimate.

    Of many values, a part of the hashes is known: as many of these as are the same, are of all. Columns whose values
    lie behind those of the ones before have none in common. 0 if nobody knows.
    """
    there = [each for each in columns if each.distinct or each.sketch]
    total = sum(each.distinct for each in there)
    if not all(each.sketch for each in there):
        return 0, False
    is_exact = not any(each.about for each in there)
    bounded = [(each.low, each.high) for each in there if each.dtype != "String" and not each.sentinels]
    if is_exact and len(bounded) == len(there) and _are_apart(bounded):
        return total, True
    level, known = _counted(each.sketch for each in there)
    least = max((each.distinct for each in there), default=0)
    return max(least, round(total * len(known) / max(1, known.total()))), is_exact and level == 0


def _are_apart(ends: Sequence[tuple[Any, Any]]) -> bool:
    """Whether ranges of values, of which some may not be known, have none in common."""
    types = {type(end) for pair in ends for end in pair}
    return len(types) == 1 and None not in ends[0] and all(a < b for (_, a), (b, _) in itertools.pairwise(sorted(ends)))


def folded(columns: Sequence[Column]) -> list[Column]:
    """The columns of a table, those as one that stand in a row and whose names differ in a number: `{1964…2013}`."""
    found: list[Column] = []
    plain = [_NUMBER.search(each.name) is not None and not each.label for each in columns]
    patterns = [(_pattern(e.name), _kind(e)) if is_plain else e for e, is_plain in zip(columns, plain, strict=True)]
    for _, run in itertools.groupby(range(len(columns)), key=patterns.__getitem__):
        several = [columns[at] for at in run]
        if len(several) < RUN:
            found += several
            continue
        whole = merged(several)
        empty = [each.name for each in several if is_empty(each)]
        some = f", all empty: {_common_name(empty)}" if 0 < len(empty) < len(several) else ""
        whole.name = f"{_common_name([each.name for each in several])} ({len(several)} columns{some})"
        whole.values = whole.top = {}
        whole.distinct = 0
        found.append(whole)
    return found


def _kind(column: Column) -> str:
    """What the values of a column are, as far as it matters for being told with others."""
    is_number = column.dtype.startswith(("Int", "UInt", "Float", "Null")) or column.form in WRITTEN_NUMBERS
    return "numbers" if is_number or is_empty(column) else f"{column.dtype} {column.form}"


def is_empty(column: Column) -> bool:
    """Whether a column has no value at all, but perhaps words that mean a missing one."""
    has_any = column.values or column.distinct or column.sample or column.low is not None
    return not has_any and (column.empty > 0 or bool(column.missing)) and not column.dtype.startswith(NESTED)


def with_alike(column: Column, sides: Sequence[Column]) -> Column:
    """A column of several tables, with how many of its values differ by more than case, spaces and leading zeros."""
    if any(each.folded for each in sides):
        (level, exact), (folded_level, folded) = (
            union(each.sketch for each in sides),
            union(each.folded or each.sketch for each in sides),
        )
        # Of many values both numbers are estimates, which differ by a few per cent anyway.
        surely = 1 if level == folded_level == 0 else SURELY_FEWER
        alike = len(folded) << folded_level
        column.alike = alike if alike < surely * (len(exact) << level) else 0
    return column


def union(sketches: Iterable[Sketch | None], most: int = MERGED) -> tuple[int, set[int]]:
    """The hashes of several sketches together, `most` of them: of all values, each in 2 ** level, and that level."""
    level, found = _counted(sketches, most)
    return level, set(found)


def _counted(sketches: Iterable[Sketch | None], most: int = MERGED) -> tuple[int, Counter[int]]:
    """The same, each hash with the number of sketches that have it."""
    there = [each for each in sketches if each is not None]
    level = max((min(each.level, 31) for each in there), default=0)
    found = Counter[int]()
    for sketch in there:
        found.update(each for each in _hashes(sketch) if each % 2**level == 0)
        while len(found) > most:  # of four bytes, two are left at most
            level += 1
            found = Counter({each: count for each, count in found.items() if each % 2**level == 0})
    return level, found


def _hashes(sketch: Sketch) -> array[int]:
    """The hashes of a sketch; none if it can't be read."""
    try:
        packed = base64.b64decode(sketch.hashes, validate=True)
    except ValueError:  # of another letter than base64 has, too
        packed = b""
    found = array("I")
    found.frombytes(packed[: len(packed) // found.itemsize * found.itemsize])
    return found
