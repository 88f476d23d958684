"""How many different values columns have together, by the hashes that are known of them. Pure."""

from __future__ import annotations

import base64
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nbagent.kernel.profile import Column, Sketch

SURELY_FEWER = 0.85
"""The part of a number of different values by which another estimate is less than it for certain."""
MERGED = 4096
"""Hashes by which the different values of several tables are counted."""


def distinct(columns: Sequence[Column]) -> tuple[int, bool]:
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
