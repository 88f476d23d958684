"""Gathers data files: by names that differ in numbers only, and by the same columns. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nbagent.agent.dataset.one_way import read_as_one, read_in_one_way
from nbagent.agent.dataset.sketches import distinct, with_alike
from nbagent.kernel.profile import MAX_NAMES, MAX_VALUES, Column, FileProfile, Table

FEW_NAMES = 3
"""Up to so many names are all told."""
NAMED, LEAST_ALIKE = 12, 3
"""Tables of one kind that are named, and columns from which sheets by other names are of one kind."""
RUN = 6
"""Columns in a row, of names that differ in a number, from which they are told as one."""
WRITTEN_NUMBERS = (
    "numbers",
    "thousands commas, 1,234.5",
    "decimal commas",
    "thousands points, 1.234 is 1234",
    "thousands blanks, 1 234",
)
"""The forms of a text that `columns_inside.py` knows as numbers."""
NESTED = ("List", "Array", "Struct", "Object", "Binary")
"""How the types begin whose values a profile doesn't list."""
OR = " or "
"""Stands between the types of a column of several tables."""
_NUMBER_OR_SIGN = re.compile(r"\d+(?:[.,]\d+)*|[^\w\s]{1,3}")
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
        return common_name(list(dict.fromkeys(str(PurePosixPath(each.path).parent) for each in self.files)))

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
        return names_together([table.name for _, table in self.tables])

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
        key = (pattern(each.path), each.kind, "records" if len(tables) < len(each.tables) else repr(tables))
        found.setdefault(key, []).append(each)
    gathered = []
    for several in found.values():
        if len(several) < 3:
            gathered += [Family(base_name(each.path), [each]) for each in several]
        else:
            gathered.append(Family(common_name([base_name(each.path) for each in several]), several))
    return gathered


def names_together(names: Sequence[str]) -> str:
    """The names of tables of one kind: as one, if they differ in numbers only, or one by one."""
    several = list(dict.fromkeys(filter(None, names)))
    if len(several) > 2 and len({*map(pattern, several)}) == 1:
        return common_name(several)
    more = f" and {len(several) - NAMED} more" if len(several) > NAMED else ""
    return (" and " if len(several) == 2 else ", ").join(several[:NAMED]) + more


def common_name(names: Sequence[str]) -> str:
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


def pattern(name: str) -> str:
    """What names have in common that differ in numbers only, and no other names."""
    return repr(_NUMBER.split(name))


def likeness(path: str) -> str:
    """What paths have in common that differ in numbers and endings only."""
    folder, _, name = path.rpartition("/")
    return pattern(f"{folder}/{name.partition('.')[0]}")


def _signature(table: Table, kind: str = "") -> tuple[str, ...]:
    """By what tables are the same; those of archives, workbooks and JSON may be called as they like, as files may."""
    is_file = kind.startswith(("zip", "Excel", "JSON")) and len(table.columns) >= LEAST_ALIKE and ", " not in table.name
    return (pattern("" if is_file else table.name), *(column.name for column in table.columns))


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
                key = _signature(table, file.kind), file.path if len(table.columns) < 2 else where
                if is_record(file, table):
                    key = (pattern(family.folder),), "records"
                group = found.setdefault(key, Group([], []))
                group.tables.append((file, table))
                if not group.families or group.families[-1] is not family:
                    group.families.append(family)
    for group in found.values():
        read_in_one_way(group.tables)
        read_as_one(group.tables)
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
    typed = (each.dtype for each in columns if "Null" not in each.dtype and not is_empty(each))
    named = [part for dtype in typed for part in dtype.split(OR)]
    types = list(dict.fromkeys(named)) or [first.dtype]
    whole = Column(name=first.name, dtype=OR.join(types[:3]))
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
        # Of a table that has only its most frequent values told, nobody knows how often others are in it.
        partial = [each.top for each in columns if each.distinct and not each.values]
        known = Counter(value for top in partial for value in top)
        several = [value for value in known if known[value] == len(partial)] if partial else whole.values
        top = {value: whole.values.get(value, 0) + sum(each[value] for each in partial) for value in several}
        ordered = sorted(top.items(), key=lambda each: (-each[1], each[0]))[:3]
        whole.top, whole.values = {value: count for value, count in ordered if count > 1}, {}
    # Where one has more than are remembered, those of the others are not all.
    if all(each.names or each.values or not each.distinct for each in columns):
        whole.names = sorted({name for each in columns for name in each.names or each.values})[:MAX_NAMES]
    whole.missing = dict(list(whole.missing.items())[:MAX_VALUES])
    whole.distinct, is_exact = (len(whole.values), True) if whole.values else distinct(columns)
    whole.about = not is_exact
    whole.sample, whole.unit = first.sample, first.unit
    whole.label = first.label if len({each.label for each in columns}) == 1 else ""
    whole.form = " or ".join(dict.fromkeys(each.form for each in columns if each.form))
    ends = [end for each in columns for end in (each.low, each.high) if end is not None]
    if ends and (all(isinstance(end, int | float) for end in ends) or all(isinstance(end, str) for end in ends)):
        whole.low, whole.high = min(ends), max(ends)
    return whole


def folded(columns: Sequence[Column]) -> list[Column]:
    """The columns of a table, those as one that stand in a row and whose names differ in a number: `{1964…2013}`."""
    found: list[Column] = []
    plain = [_NUMBER.search(each.name) is not None and not each.label for each in columns]
    patterns = [(pattern(e.name), _kind(e)) if is_plain else e for e, is_plain in zip(columns, plain, strict=True)]
    for _, run in itertools.groupby(range(len(columns)), key=patterns.__getitem__):
        several = [columns[at] for at in run]
        if len(several) < RUN:
            found += several
            continue
        whole = merged(several)
        empty = [each.name for each in several if is_empty(each)]
        some = f", all empty: {common_name(empty)}" if 0 < len(empty) < len(several) else ""
        whole.name = f"{common_name([each.name for each in several])} ({len(several)} columns{some})"
        whole.values = whole.top = {}
        whole.distinct = 0
        found.append(whole)
    return found


def _kind(column: Column) -> str:
    """What the values of a column are, as far as it matters for being told with others."""
    is_number = column.dtype.startswith(("Int", "UInt", "Float", "Null")) or column.form in WRITTEN_NUMBERS
    # Where most are missing, the sign for it makes a text of numbers.
    is_number |= bool(column.values) and not column.form and all(map(_NUMBER_OR_SIGN.fullmatch, column.values))
    return "numbers" if is_number or is_empty(column) else f"{column.dtype} {column.form}"


def is_empty(column: Column) -> bool:
    """Whether a column has no value at all, but perhaps words that mean a missing one."""
    has_any = column.values or column.distinct or column.sample or column.low is not None
    return not has_any and (column.empty > 0 or bool(column.missing)) and not column.dtype.startswith(NESTED)
