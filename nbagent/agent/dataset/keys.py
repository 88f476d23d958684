"""Finds columns of different tables that have values in common, by the profiles alone. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbagent.agent.dataset.groups import OR, WRITTEN_NUMBERS, Group
from nbagent.agent.dataset.sketches import union
from nbagent.kernel.profile import LEADING_ZEROS, Column

LEAST_VALUES = 4
"""Different values that a column must have: yes and no are no key."""
LEAST_SHARE = 0.3
"""Of the smaller column's values, the part that the other one must have."""
LEAST_MANY = 0.7
"""The same where neither column names the rows of its table: what comes again in other years has fewer in common."""
SHORT, LEAST_SHORT = 3, 0.6
"""Letters of codes that others have by chance, and their share that columns of other names must have in common."""
WHOLE = 0.97
"""The share of its values that a code must have in common with the codes of a table whose name shares a word."""
LEAST_COMMON = 3
MOST_ALIKE = 0.9
"""The share of values that two columns of other names must have in common but for case, where none is the same."""
UNIQUE = 0.9
"""Different values of a table's rows from which a column names the rows."""
LOOKED, LEAST_LOOKED = 200_000, 8
"""Hashes that are looked at, in all and at least of one column: code under suspicion says what there are."""
COUNTED = 100_000
"""Pairs of columns whose common values are counted."""
PAIRS = 2_000
"""Pairs that are compared exactly, the likeliest first."""
KEYS = 24
"""Pairs or groups of columns that are told."""
FEW = 15
"""Different values up to which a profile lists all: where names say nothing of it, fewer ones are no key."""
SAME = 0.9
"""The share of common values from which columns are told together."""
_VAGUE = frozenset(
    "value values count counts total sum amount rank share rate size score percent mean id ids no nr num number key "
    "code index column year month day date quarter week".split()
)
"""Words of columns' names that don't make a key of two columns of numbers."""
ROW_NUMBERS = frozenset(("", "rownames", "row", "rownum", "row_number", "index", "unnamed: 0", "__unnamed__0", "#"))
"""What columns are called that number the rows, in lower case."""
_NAMES_KEY = re.compile(r"(?i)(?:id|nr|no|num|number|key|code|fips)s?$")
_REFERENCE = re.compile(r"(?:id|nr|no|num|number|key|code|fips|name)s?")
"""What makes of a thing's name that of its number: county and countyfips. It refers to it, also where none is a key."""
LARGE = 100_000
"""A number that is more likely a key than an amount or a time, if each row has its own."""
_NO_NAME = re.compile(r"(?:column_)?\d+")
"""What columns without a header are called."""
_TIMES = frozenset("year years month day week quarter hour".split())
_NUMBERS = ("INT", "UINT", "BIGINT", "FLOAT", "DOUBLE", "REAL", "DECIMAL", "NUMERIC")
"""How types of numbers begin, in capitals."""
_AMOUNTS = "thousands", "decimal commas", "a sign of", "may be", "written"
"""How no key is written: 1,234 or 5 %."""
SURPRISING = 0.5
"""The share of its values that a column of numbers must have in common with another, once what chance gives is off."""
REPEATED = 3
"""If random whole numbers of the same range would repeat this often in a table, a column without repeats is a key."""
_WORDS = re.compile(r"[a-z]{2,}|\d+")


@dataclass(frozen=True)
class Key:
    """Two columns with common values.

    Attributes:
        left, right: The tables, each as its group's number.
        left_column, right_column: The columns' names.
        exact: Of the different values of the column that has fewer, the share that the other has.
        folded: The same without regard to case, spaces and leading zeros.
        values: How many different values the column has that has fewer.
        is_mapping: Whether codes are told by their values, since their names say little of it.
    """

    left: int
    left_column: str
    right: int
    right_column: str
    exact: float
    folded: float
    values: int
    is_mapping: bool = False

    @property
    def ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Its columns, each with its table's number."""
        return (self.left, self.left_column), (self.right, self.right_column)


class _Values:
    """The hashes of a column's values, from all tables of its group."""

    def __init__(self, number: int, group: Group, column: Column, sides: Sequence[Column], most: int) -> None:
        self.group = number
        self.column = column
        self.rows = group.rows
        ends = [end for each in sides for end in (each.low, each.high)]
        whole = [end for end in ends if isinstance(end, int) and not isinstance(end, bool)]
        self.ends = whole if len(whole) == len(ends) else []
        self.distinct = max(column.distinct, *(each.distinct for each in sides))
        self.is_unique = max(each.distinct for each in sides) * len(group.tables) >= UNIQUE * group.rows
        self.level, self.exact = self.folded_level, self.folded = union((each.sketch for each in sides), most)
        if any(each.folded for each in sides):
            self.folded_level, self.folded = union((each.folded or each.sketch for each in sides), most)
        # In a file of many, a column of numbers may be empty, so that its type is another one.
        has_number_type = any(each.startswith(_NUMBERS) for each in column.dtype.upper().split(OR.upper()))
        self.is_short = all(len(str(each)) <= SHORT for each in column.sample)
        self.is_amount = any(each in column.form for each in _AMOUNTS)
        self.is_time = column.dtype.startswith("Date") or column.form.startswith(("%", "dates"))
        self.is_number = has_number_type or column.form in (LEADING_ZEROS, *WRITTEN_NUMBERS)
        self.is_number |= bool(self.ends)
        # Amounts of which each occurs once are so by chance, if they could be very many others.
        width = max(self.ends, default=0) - min(self.ends, default=0) + 1
        self.is_key = self.is_unique and self.distinct >= group.rows and self.rows**2 > 2 * REPEATED * width
        self.is_key &= bool(self.ends)

    def by_chance(self, other: _Values) -> float:
        """The share of values that are common by chance: as large as the larger column's share of its range.

        What is counted, such as rows, times and their squares, begins at 0 or 1, and there has all numbers or the same.
        """
        if not self.ends or not other.ends or _begin_alike(self, other):
            return 1.0
        more = max(self, other, key=lambda each: each.distinct)
        return min(1.0, more.distinct / (max(more.ends) - min(more.ends) + 1))

    def shares(self, other: _Values) -> tuple[float, float, int]:
        """Which share of the smaller one's values is common: exactly, and folded; and how many it has."""
        exact, count = _share(self.exact, self.level, other.exact, other.level)
        folded, _ = _share(self.folded, self.folded_level, other.folded, other.folded_level)
        return exact, folded, count


def _share(left: set[int], left_level: int, right: set[int], right_level: int) -> tuple[float, int]:
    level = max(left_level, right_level)
    if level > left_level:
        left = {each for each in left if each % 2**level == 0}
    if level > right_level:
        right = {each for each in right if each % 2**level == 0}
    fewer = min(len(left), len(right))
    common = len(left & right)
    return (common / fewer if common >= min(LEAST_COMMON, fewer) and fewer else 0.0), fewer << level


def keys(gathered: Sequence[Group]) -> list[Key]:
    """The pairs of columns by which tables of different groups can be joined, the most promising first."""
    wanted = []
    for number, group in enumerate(gathered):
        for column, same in zip(group.columns, group.sides, strict=True):
            if column.name.lower() in ROW_NUMBERS and column.dtype.startswith("Int"):
                continue
            if (
                any(each.sketch for each in same)
                and max(column.distinct, *(each.distinct for each in same)) >= LEAST_VALUES
            ):
                wanted.append((number, group, column, same))
    most = max(LEAST_LOOKED, LOOKED // max(1, len(wanted)))
    sides = [_Values(*each, most) for each in wanted]
    names = [{column.name for column in group.columns} for group in gathered]
    found = []
    for left, right in _candidates(sides):
        called = left.column.name, right.column.name
        is_akin = _akin(*called)
        exact, folded, count = left.shares(right)
        is_surprising = (exact - (chance := left.by_chance(right))) >= SURPRISING * (1 - chance) > 0
        is_known = (is_akin and _refer(left, right)) or _are_row_keys(left, right)
        is_mapping = not is_known and is_surprising and exact >= WHOLE and _is_code(left, right)
        if (left.is_number or right.is_number) and not (is_known or is_mapping):
            continue  # numbers from 1 to 400 stand in many columns
        if left.is_amount or right.is_amount:
            continue
        if left.is_time and right.is_time and not is_akin and not (left.is_unique and right.is_unique):
            continue  # of the days of a year, many columns have most
        if {each.lower() for each in called} <= ROW_NUMBERS:
            continue
        if _is_continued(*called, names[left.group], names[right.group]):
            continue
        if exact < LEAST_COMMON / count and folded < MOST_ALIKE and not is_akin:
            continue  # states and regions are called as fires are, by chance
        least = LEAST_SHARE if is_akin or not (left.is_short and right.is_short) else LEAST_SHORT
        least = least if left.is_unique or right.is_unique else max(least, LEAST_MANY)
        # A few values that stand in many rows of both tell what the rows are of, and not which.
        is_kind = count < FEW and not (left.is_unique or right.is_unique) and folded <= exact
        if is_akin and left.is_number and right.is_number and not _akin(*called, by_reference=False):
            least = least if is_surprising else 2.0  # many columns have most of the numbers from 1 to 50
        if max(exact, folded) >= least and count >= (LEAST_VALUES if is_akin else FEW) and not is_kind:
            found.append(
                Key(left.group, left.column.name, right.group, right.column.name, exact, folded, count, is_mapping)
            )
    found.sort(key=lambda each: -max(each.exact, each.folded) * math.log(each.values + 2))
    return found


def _refer(left: _Values, right: _Values) -> bool:
    """Whether numbers may refer to rows: ages and years of two tables don't, nor do the numbers of other rows."""
    names = left.column.name, right.column.name
    is_vague = _VAGUE.issuperset(_WORDS.findall(names[0].lower()))
    if left.is_unique and right.is_unique and (is_vague or _begin_alike(left, right)):
        # Each has its own rows' numbers, but if the rows are of the same things.
        return names[0] == names[1] and min(left.rows, right.rows) >= UNIQUE * max(left.rows, right.rows)
    return left.is_key or right.is_key or any(map(_NAMES_KEY.search, names))


def _begin_alike(left: _Values, right: _Values) -> bool:
    """Whether both columns begin at 0 or 1, as all do that count something."""
    return bool(left.ends and right.ends) and {min(left.ends), min(right.ends)} <= {0, 1}


def _is_code(left: _Values, right: _Values) -> bool:
    """Whether both columns have codes by a word of their names, and one has its own in each row."""
    words = (set(_WORDS.findall(each.column.name.lower())) for each in (left, right))
    return (
        (left.is_unique or right.is_unique)
        and bool(set.intersection(*words))
        and all(
            _NAMES_KEY.search(each.column.name) and each.column.name.lower() not in _TIMES for each in (left, right)
        )
    )


def _are_row_keys(left: _Values, right: _Values) -> bool:
    """Whether both are large whole numbers, different in each row, and one has no header that could say so."""
    sides = left, right
    is_nameless = any(_NO_NAME.fullmatch(each.column.name) for each in sides)
    is_key = all(each.is_unique and isinstance(each.column.high, int) and each.column.high > LARGE for each in sides)
    return is_nameless and is_key


def alike(found: Iterable[Key]) -> list[list[Key]]:
    """The pairs in their order, those together whose columns have nearly the same values."""
    gathered: list[list[Key]] = []
    places: dict[tuple[int, str], int] = {}
    for key in found:
        if key.is_mapping or max(key.exact, key.folded) < SAME:
            gathered.append([key])
            continue
        known = [places[end] for end in key.ends if end in places]
        if len(known) == 2 and known[0] == known[1]:
            continue
        at = min(known, default=len(gathered))
        together = [*(pair for each in sorted(known) for pair in gathered[each]), key]
        for each in known:
            gathered[each] = []
        gathered[at : at + 1] = [together]
        places.update((end, at) for pair in together for end in pair.ends)
    # Two columns with some values in common say nothing more where both have most of those of others.
    told = [{end for pair in each for end in pair.ends} for each in gathered if len(each) > 1]
    wanted = (
        each for each in gathered if each and (len(each) > 1 or not any(ends >= {*each[0].ends} for ends in told))
    )
    return list(wanted)[:KEYS]


def _candidates(sides: Sequence[_Values]) -> list[tuple[_Values, _Values]]:
    """The pairs of columns of different groups that have hashes in common, the most first."""
    places: dict[int, list[int]] = {}
    for number, side in enumerate(sides):
        for each in side.folded:
            places.setdefault(each, []).append(number)
    common: Counter[tuple[int, int]] = Counter()
    for numbers in places.values():
        if len(common) > COUNTED:
            break
        for at, left in enumerate(numbers[:40]):
            for right in numbers[at + 1 : 40]:
                if sides[left].group != sides[right].group:
                    common[left, right] += 1
    return [(sides[left], sides[right]) for (left, right), _ in common.most_common(PAIRS)]


def _akin(left: str, right: str, *, by_reference: bool = True) -> bool:
    """Whether two names have a word in common that may name a key, also as part of what refers to it."""
    words = [set(_WORDS.findall(each.lower())) for each in (left, right)]
    if bool(words[0] & words[1] - _VAGUE) or (words[0] == words[1] and not words[0] <= _TIMES):
        return True
    if not by_reference:
        return False
    parts = [(one, other) for pair in (words, words[::-1]) for one in pair[0] for other in pair[1] if one != other]
    return any(other.startswith(one) and _REFERENCE.fullmatch(other[len(one) :]) for one, other in parts)


def _is_continued(left: str, right: str, left_names: set[str], right_names: set[str]) -> bool:
    """Whether a table goes on in another one, which has most of its columns: what both have joins nothing."""
    common = left_names & right_names
    return 2 * len(common) > min(len(left_names), len(right_names)) > 2 and bool(common & {left, right})
