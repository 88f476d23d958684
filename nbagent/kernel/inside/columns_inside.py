"""What is to be known of a column, from all of its values: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import base64
import re
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import polars as pl

from nbagent.kernel.inside.column_values_inside import MAX_ROWS, WRITTEN, ColumnValues
from nbagent.kernel.inside.value_forms_inside import (
    DECIMAL_COMMAS,
    DOUBTFUL_COMMAS,
    FAULTS,
    POINTED,
    SENTINELS,
    THOUSANDS_BLANKS,
    THOUSANDS_COMMAS,
    THOUSANDS_POINTS,
    UNIT,
    outline,
)

SKETCHED = 2048
"""Hashes that leave the sandbox, by which columns of different files are compared."""
MIN_POINTED = 5
"""Different values with a point and three digits behind it, from which that may be one of thousands."""
FAR = 2
"""How many times as great as all other values a number is that means a missing one."""
OFTEN = 10
"""Of so many values one is 99, where that means a missing one."""
SUMS_ROWS = 3
"""Of so many values one is called as a sum is, at most; where there are more, sums are a kind of rows."""
DENSE, LEAST_DENSE = 0.8, 16
"""The part of the whole numbers from the least to the greatest that a column has which has nearly all, if they are so
many: 99 is one of them, too."""
YEARS = 1000, 2999
"""Whole numbers that are years where all other values are dates."""
CODES = 20
"""Different codes from which a word of their shape is rather one of them than a missing value."""
_NO_NULL = re.compile(
    r"\d|\S+(?:\s+\S+){3}|^(?:grand )?(?:total|sum|summe|gesamt|insgesamt|somme|suma|totale|mean|average)\b",
    re.IGNORECASE,
)
"""What a word among numbers has in it if it is no missing value: below 10, a sentence, or the line of a sum."""
OTHERS = 5
"""Values that a column of numbers or dates has beside these, that are told."""


class Tally(ColumnValues):
    """What the values of a column say of it."""

    def form(self) -> str:
        """How most values are written that are neither plain text nor plain numbers, if most are."""
        if style := self.style():
            return style
        likely = [(count, form) for form, count in self.forms.items() if count * 2 > self.filled]
        form = max(likely)[1] if likely else ""
        if form.startswith("%d/") and self.first_over_12 != self.second_over_12:
            first, second = form.split(" with")[0].split(" or ")
            form = (first if self.first_over_12 else second) + (" with a time" if "with" in form else "")
        return form

    def style(self) -> str:
        """How those of its numbers are written that no parser takes, if all of its values are numbers or null words."""
        written = {form for form in WRITTEN if self.forms[form]}
        count = self.numbers + sum(self.forms[form] for form in written) + sum(self.words().values())
        if not written or count < self.filled or self.zeros or (THOUSANDS_BLANKS in written and not self.is_spaced):
            return ""
        if THOUSANDS_BLANKS in written and written != {THOUSANDS_BLANKS}:
            written.discard(THOUSANDS_BLANKS)  # commas are decimal ones
            return DECIMAL_COMMAS if written == {DECIMAL_COMMAS} and not self.fractions else ""
        if {DOUBTFUL_COMMAS, THOUSANDS_COMMAS, THOUSANDS_BLANKS} & written:
            return written.pop() if len(written) == 1 else ""
        return "" if self.fractions else DECIMAL_COMMAS if DECIMAL_COMMAS in written else THOUSANDS_POINTS

    def says(self) -> tuple[int, int]:
        """Whether its values say of its commas, and of its points, that they are decimal (1) or of thousands (-1)."""
        forms = self.forms
        if 2 * (self.numbers + sum(forms[form] for form in WRITTEN)) <= self.filled:
            return 0, 0
        return (
            (forms[DECIMAL_COMMAS] > forms[THOUSANDS_COMMAS]) - (forms[DECIMAL_COMMAS] < forms[THOUSANDS_COMMAS]),
            (self.fractions > forms[THOUSANDS_POINTS]) - (self.fractions < forms[THOUSANDS_POINTS]),
        )

    def settle(self, commas: int, points: int, *, is_quoted: bool = False) -> None:
        """Read what may be read in two ways, 1,234 and 1.234, as this column or else its table says.

        Args:
            commas: What the table says of its commas, as `says` does.
            points: The same of its points.
            is_quoted: Whether commas part the fields, so that one in a number is rather of thousands.
        """
        own_commas, own_points = self.says()
        commas, points = own_commas or -own_points or commas, own_points or -own_commas or points
        if self.is_spaced:
            commas, points = 1, 1
        # Among decimals, some would have less than three places, and some whole numbers more than three digits.
        if not points and self.pointed > MIN_POINTED and not self.unpointed and self.integers:
            points = -1
        if not commas and self.doubtful:
            commas = int(self.large > 0) or -int(self.integers > 0 and (is_quoted or self.doubtful > MIN_POINTED))
        if commas and (ends := self.written.pop(DOUBTFUL_COMMAS, None)):
            form = DECIMAL_COMMAS if commas > 0 else THOUSANDS_COMMAS
            self.forms[form] += self.forms.pop(DOUBTFUL_COMMAS)
            self.is_parted |= commas > 0
            self._write(form, pl.Series(ends) * (1 if commas > 0 else 1000))
        if ends := self.written.pop(POINTED, None):
            if points < 0 and not self.fractions:
                self.forms[THOUSANDS_POINTS] += self.in_thousands
                self.numbers, self.is_grouped = self.numbers - self.in_thousands, True
                self._write(THOUSANDS_POINTS, pl.Series(ends) * 1000)
            else:
                if not self.fractions and not any(isinstance(each, str) for each in self.bounds):
                    several = [*self.bounds, *(round(each * 1000) for each in ends)]
                    self.may_be_grouped = [min(several), max(several)]
                self._bound(pl.Series(ends))

    def words(self) -> dict[str, int]:
        """The few words among values that are numbers otherwise: a call can read these as null."""
        rest = self.filled - self.numbers - sum(self.forms[form] for form in WRITTEN)
        few = len(self.others) <= OTHERS and sum(self.others.values()) == rest and 4 * rest < self.filled
        return dict(ordered(self.others)) if few and not any(map(_NO_NULL.search, self.others)) else {}

    def type(self) -> str:
        """The type of which every value is that is there, but for a few words among numbers."""
        if self.dtype:
            return self.dtype
        if not self.filled:
            return "String"
        if self.numbers + sum(self.words().values()) == self.filled and not self.zeros:
            return "Int64" if self.integers == self.numbers else "Float64"
        if self.values is not None and self.values and {each.lower() for each in self.values} <= {"true", "false"}:
            return "Boolean"
        for form, dtype in (("%Y-%m-%d", "Date"), ("%Y-%m-%d %H:%M:%S", "Datetime")):
            if self.forms[form] == self.filled:
                return dtype
        return "String"

    def absent(self) -> Counter[str]:
        """The words that mean a missing value."""
        are_texts = 2 * self.numbers < self.filled
        return Counter({w: n for w, n in self.missing.items() if not (are_texts and w.lower() in FAULTS)})

    def codes(self) -> dict[str, int]:
        """The words that usually mean a missing value, but are of the shape of all values, which are codes."""
        if not self.are_codes or 10 * self.numbers > self.filled or len(self.hashes) << self.level < CODES:
            return {}
        shapes = pl.DataFrame({"text": list(self.missing)}, schema={"text": pl.String}).select(outline(pl.first()))
        several = zip(self.missing.items(), shapes.to_series(), strict=True)
        return {word: count for (word, count), each in several if word.isalpha() and each in self.shapes}

    def found(self) -> dict[str, Any]:
        """All that is known, as JSON has it."""
        dtype, distinct = self.type(), len(self.hashes) << self.level
        sentinels = self.special()
        found: dict[str, Any] = {
            "name": brief(self.name),
            "dtype": brief(dtype),
            "empty": self.empty,
            "missing": dict(self.absent().most_common(OTHERS)),
            "distinct": distinct,
            "about": self.level > 0,
            "sample": [shown(each, dtype) for each in self.sample],
            "rows": [shown(each) for each in self.rows] if len(self.rows) <= MAX_ROWS else [],
            "padded": self.padded,
            "pointed": [shown(each, "Int64") for each in self.may_be_grouped],
        }
        if self.values is not None and self.values and not self.is_measure(dtype):
            found["values"] = {brief(value): count for value, count in ordered(self.values)}
        if dtype == "String" and self.values is None and self.top:
            found["top"] = {brief(value): count for value, count in ordered(self.top)[:3] if value and count > 1}
        written = self.written.get(self.form(), []) if self.form() != DOUBTFUL_COMMAS else []
        if style := self.style():
            is_whole = not self.is_parted and self.integers == self.numbers
            found |= {"written": "Int64" if is_whole else "Float64", "grouped": self.is_grouped} if written else {}
            found |= {"spaced": True} if written and self.is_spaced else {}
            written = [end for ends in self.written.values() for end in ends] if written else []
        if style == DOUBTFUL_COMMAS:
            pass  # nobody knows its ends
        elif self.bounds and (dtype != "String" or style or self.numbers * 2 > self.filled):
            is_text = dtype == "String" and not any(isinstance(each, str) for each in self.bounds)
            commas = written or self.written.get(THOUSANDS_BLANKS if self.is_spaced else THOUSANDS_COMMAS, [])
            whole = "Int64" if is_text and self.integers == self.numbers else dtype
            ends = [*self.bounds, *commas] if is_text else self.bounds
            found["low"], found["high"] = (shown(each, whole) for each in (min(ends), max(ends)))
        elif written and self.integers == self.numbers:
            ends = [*written, *(self.bounds if self.numbers else [])]
            found["low"], found["high"] = (shown(each, "Int64") for each in (min(ends), max(ends)))
        if SUMS_ROWS * sum(self.sums.values()) <= self.filled:
            found["sums"] = dict(ordered(self.sums)[:3])
        if (
            self.names
            and dtype == "String"
            and self.values is None
            and not self.form()
            and 2 * self.numbers < self.filled
        ):
            found["names"] = sorted(self.names)
        if unit := UNIT.search(self.name):
            found["unit"] = unit[1] or unit[2]
        if dtype == "String":
            found |= self._oddities()
        if words := self.words():
            found["others"], found["words"] = {brief(word): count for word, count in words.items()}, True
        if sentinels:
            found["sentinels"] = dict(list(sentinels.items())[:3])
        if codes := self.codes():
            found["codes"] = list(codes)
            found["missing"] = {word: count for word, count in found["missing"].items() if word not in codes}
            # Where each row has its own code, it is one; else nobody knows.
            found["sentinels"] = codes if distinct < self.filled + sum(codes.values()) else {}
        found = {name: value for name, value in found.items() if value not in (0, {}, []) or name in ("low", "high")}
        if len(self.hashes) and not self.is_measure(dtype) and dtype != "Boolean" and not style:
            found["sketch"] = self.sketch(self.hashes)
            if (folded := self.sketch(self.folded)) != found["sketch"]:
                found["folded"] = folded
        return found

    def special(self) -> dict[str, int]:
        """The numbers that mean a missing value; what only looks so is among the least and the greatest from then on.

        Outside of all other values it is one of its own; between them, it is one like these.
        """
        ends = [end for several in self.written.values() for end in several]
        ends += [each for each in self.bounds if not isinstance(each, str)]
        found = {}
        is_dense = self._is_dense(ends)
        for text, count in self.sentinels.most_common():
            value = float(text)
            low, high = (min(ends), max(ends)) if ends else (value, value)
            is_far = value > FAR * max(abs(low), abs(high)) if value > 0 else -value > FAR * abs(low)
            # A few times, 99 is a number like others.
            is_far = (
                is_far
                and count > 1
                and (value < 0 or ((text.count("9") > 2 or OFTEN * count >= self.filled) and not is_dense))
            )
            if ends and not low <= value <= high and (value in SENTINELS or is_far):
                found[text] = count
            elif not any(isinstance(each, str) for each in self.bounds):
                whole = int(value) if value.is_integer() and all(isinstance(each, int) for each in ends) else value
                self.bounds = [min([whole, *self.bounds]), max([whole, *self.bounds])]
        return found

    def _is_dense(self, ends: list[Any]) -> bool:
        """Whether a column has nearly all whole numbers between its ends."""
        if not ends or not all(isinstance(each, (int, float)) and float(each).is_integer() for each in ends):
            return False
        distinct = len(self.hashes) << self.level
        is_whole = self.dtype.startswith(("Int", "UInt")) or self.integers == self.numbers > 0
        return is_whole and distinct >= max(LEAST_DENSE, DENSE * (max(ends) - min(ends) + 1))

    def is_measure(self, dtype: str) -> bool:
        """Whether the values are amounts, which are neither listed nor compared."""
        return dtype.startswith(("Float", "Decimal"))

    def _oddities(self) -> dict[str, Any]:
        """What is odd about a column of text: a form of its own, or what else there is among numbers."""
        found: dict[str, Any] = {}
        if form := self.form():
            found["form"] = form
        if self.style():
            return found
        own = next((each for each in self.forms if form and form in each), "")
        counted = self.forms[own] if own else 0
        if self.zeros and self.numbers * 2 > self.filled:
            found["form"] = "digits with leading zeros"
        elif self.numbers * 2 > self.filled:
            found["form"] = "numbers"
            counted = self.numbers
        if found and counted < self.filled:
            rest = {each: count for each, count in self.forms.items() if count and each != own}
            few = ordered(self.others)[:OTHERS]
            found["others"] = {brief(value): count for value, count in [*rest.items(), *few]}
        are_years = self.integers == self.numbers and all(
            YEARS[0] <= each <= YEARS[1] for each in self.bounds if not isinstance(each, str)
        )
        if found.get("form") == "numbers" and are_years and list(found.get("others", ())) == ["%Y-%m-%d"]:
            found |= {"form": "%Y or %Y-%m-%d", "others": {}}
        return found

    def sketch(self, hashes: Any) -> dict[str, Any]:
        """The hashes of a bounded number of different values, the same ones in each column that has them."""
        level = self.level
        while len(hashes) > SKETCHED:
            level += 1
            hashes = hashes.filter(hashes % 2**level == 0)
        packed = array("I", (hashes % 2**32).unique().sort().to_list()).tobytes()
        return {"level": level, "hashes": base64.b64encode(packed).decode()}


def shown(value: Any, dtype: str = "") -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return str(value)
        return int(value) if dtype.startswith("Int") and value.is_integer() else value
    return str(value)[:100]


def ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """Values with their rows, the most frequent first; always in the same order."""
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def brief(text: Any) -> str:
    """A name, a value or a reason that is short enough to be read."""
    return str(text) if len(str(text)) <= 200 else f"{str(text)[:200]}…"


def described(tallies: Iterable[Tally], separator: str = "") -> list[dict[str, Any]]:
    """What is known of a table's columns, whose commas and points are read in one way, if its values say in which.

    Args:
        tallies: The columns.
        separator: What parts the fields: a semicolon does so where commas are decimal ones.
    """
    tallies = list(tallies)
    if not tallies:
        return []
    commas, points = ({said for said in each if said} for each in zip(*(each.says() for each in tallies), strict=True))
    by_commas, by_points = (next(iter(each)) if len(each) == 1 else 0 for each in (commas, points))
    by_separator = int(separator == ";" and not commas and not points)
    for each in tallies:
        said_of_commas = by_commas or (0 if commas else by_separator or -by_points)
        said_of_points = by_points or (0 if points else -by_commas)
        each.settle(said_of_commas, said_of_points, is_quoted=separator == ",")
    return [each.found() for each in tallies]


def tallied(frames: Any) -> list[Tally]:
    """The columns of a table, of which pieces come one after the other."""
    tallies: list[Tally] = []
    for frame in frames:
        if not tallies:
            tallies = [Tally(name) for name in frame.columns]
        for tally, column in zip(tallies, frame.get_columns(), strict=False):
            tally.add(column)
    return tallies
