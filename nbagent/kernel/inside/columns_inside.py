"""What is to be known of a column, from all of its values: a part of `profile_inside.py`. Never imported on the host.

A column is taken in pieces, so that a file of any size can be scanned. Each piece is reduced to its different values
and how often each occurs; all that follows looks at these.
"""

from __future__ import annotations

import base64
import re
from array import array
from collections import Counter
from typing import Any

import polars as pl

from nbagent.kernel.inside.value_forms_inside import (
    DATES,
    DECIMAL_COMMAS,
    FORMS,
    LEADING_ZERO,
    LOOKS,
    NEGATIVES,
    POINTED,
    SENTINEL,
    SENTINELS,
    THOUSANDS_COMMAS,
    THOUSANDS_POINTS,
    UNIT,
    outline,
    without_zeros,
)

LISTED = 15
"""Different values up to which all of them are told."""
KEPT_HASHES = 262_144
"""Hashes of different values that are kept of a column; beyond, only each second one is kept, then each fourth, …"""
SKETCHED = 2048
"""Hashes that leave the sandbox, by which columns of different files are compared."""
MIN_POINTED = 5
"""Different values with a point and three digits behind it, from which that may be one of thousands."""
FAR = 2
"""How many times as great as all other values a number is that means a missing one."""
YEARS = 1000, 2999
"""Whole numbers that are years where all other values are dates."""
CODES = 20
"""Different codes from which a word of their shape is rather one of them than a missing value."""
MAX_ROWS = 6
"""Rows up to which a table is told by its rows."""
_NO_NULL = re.compile(
    r"\d|\S+(?:\s+\S+){3}|^(?:grand )?(?:total|sum|summe|gesamt|insgesamt|somme|suma|totale|mean|average)\b",
    re.IGNORECASE,
)
"""What a word among numbers has in it if it is no missing value: below 10, a sentence, or the line of a sum."""
TOP = 20
"""The most frequent values of a piece that are remembered."""
OTHERS = 5
"""Values that a column of numbers or dates has beside these, that are told."""


class Tally:
    """The values of a column that were seen so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = ""
        self.filled = self.empty = self.numbers = self.integers = self.zeros = self.padded = 0
        self.forms: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.sentinels: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.values: Counter[str] | None = Counter()
        self.sample: list[Any] = []
        self.rows: list[Any] = []
        self.bounds: list[Any] = []
        self.written: list[float] = []
        self.top: Counter[str] = Counter()
        self.pointed = self.unpointed = 0
        self.first_over_12 = self.second_over_12 = False
        self.are_codes = True
        self.shapes: set[str] = set()
        self.hashes = pl.Series(dtype=pl.UInt64)
        self.folded = pl.Series(dtype=pl.UInt64)
        self.level = 0

    def add(self, values: Any) -> None:
        """Take a piece of the column, as text or in its own type."""
        values = values.alias("value")  # its own name may be that of the counts
        if values.dtype == pl.String and values.null_count() == len(values):
            self.empty += len(values)
            self.rows += [None] * min(len(values), MAX_ROWS + 1 - len(self.rows))
            return
        if len(self.rows) <= MAX_ROWS:  # one more tells that there are more
            self.rows += values.head(MAX_ROWS + 1 - len(self.rows)).to_list()
        if values.dtype.is_nested() or values.dtype in (pl.Object, pl.Binary, pl.Null):
            self.dtype = self.dtype or str(values.dtype)
            self.empty += values.null_count()
            self.filled += len(values) - values.null_count()
            if isinstance(values.dtype, pl.List) and not values.dtype.inner.is_nested():
                self._lists(values.drop_nulls())
            return
        is_text = values.dtype in (pl.String, pl.Categorical, pl.Enum)
        if len(self.sample) < 3:
            first = [each for each in values.drop_nulls().head(50).cast(pl.String) if each]
            self.sample = list(dict.fromkeys([*self.sample, *first]))[:3]
        if not is_text:
            self.dtype = str(values.dtype)
        counted = (values.cast(pl.String) if is_text else values).value_counts(name="n")
        counts = counted["n"].cast(pl.Int64)
        if is_text and counted.height < len(values):
            for value, count in counted.drop_nulls().top_k(TOP, by="n").rows():
                self.top[value] += count
        self._text(counted, counts) if is_text else self._typed(counted["value"], counts)

    def _lists(self, lists: Any) -> None:
        """Count what is in lists, and those that are empty."""
        if empty := int((lists.list.len() == 0).sum()):
            self.missing["[]"] += empty
        counted = lists.filter(lists.list.len() > 0).explode().cast(pl.String).value_counts(name="n").drop_nulls()
        self._list(counted[:, 0], counted["n"].cast(pl.Int64))

    def _typed(self, found: Any, counts: Any) -> None:
        there = found.is_not_null()
        self.empty += int(counts.filter(~there).sum())
        found, counts = found.filter(there), counts.filter(there)
        self.filled += int(counts.sum())
        if not len(found):
            return
        if found.dtype.is_float() and (odd := found.is_nan()).any():
            self.missing["NaN"] += int(counts.filter(odd).sum())
            found, counts = found.filter(~odd), counts.filter(~odd)
        if found.dtype.is_numeric() or found.dtype.is_temporal():
            special = found.cast(pl.String).str.contains(SENTINEL) if found.dtype.is_numeric() else pl.Series([False])
            for value, count in (
                zip(found.filter(special), counts.filter(special), strict=True) if special.any() else ()
            ):
                self.sentinels[str(value)] += count
            self._bound(found.filter(~special) if special.any() else found)
        text = found.cast(pl.String)
        self._list(text, counts)
        if not found.dtype.is_float() or self.level == 0:
            hashes = text.hash()
            self._thin(hashes, None if found.dtype.is_float() else hashes)

    def _bound(self, found: Any) -> None:
        low, high = found.min(), found.max()
        if low is not None:
            self.bounds = [low, high] if not self.bounds else [min(self.bounds[0], low), max(self.bounds[1], high)]

    def _text(self, counted: Any, counts: Any) -> None:
        numbers = counted["value"].cast(pl.Float64, strict=False)
        if numbers.null_count() == counted["value"].null_count() and numbers.is_finite().all():
            self._plain_numbers(counted["value"], numbers, counts)
            return
        # All in one request to Polars: one by one, they would cost more than what they do.
        looked = counted.select(**LOOKS)
        there = looked["there"]
        self.empty += int(counts.filter(~there).sum())
        looked, counts = looked.filter(there), counts.filter(there)
        found, is_word, is_number = looked["found"], looked["is_word"], looked["is_number"]
        self.padded += int(counts.filter(looked["is_padded"]).sum())
        for word, count in zip(looked["text"].filter(is_word), counts.filter(is_word), strict=True):
            self.missing[word] += count
        self.filled += int(counts.filter(~is_word).sum())
        if self.are_codes and (codes := looked.filter(~is_word)).height:
            self.are_codes = codes["is_code"].all()
            self.shapes.update(codes.select(outline(pl.col("text"))).to_series().unique() if self.are_codes else ())
        self._list(found, counts)
        self._thin(looked["hash"], looked["folded"])
        numbers = looked.filter(is_number)
        self._numbers(numbers, counts.filter(is_number), numbers["text"].cast(pl.Float64, strict=False))
        rest = ~(is_word | is_number)
        found, counts = looked["text"].filter(rest), counts.filter(rest)
        rest = self._forms(found, counts)
        for value, count in zip(found.filter(rest).head(50), counts.filter(rest).head(50), strict=True):
            if len(self.others) < 50 or value in self.others:
                self.others[value] += count

    def _plain_numbers(self, found: Any, numbers: Any, counts: Any) -> None:
        """Count values of which all are plain numbers; this takes a fifth of the time of looking at them as text."""
        there = numbers.is_not_null()
        self.empty += int(counts.filter(~there).sum())
        found, numbers, counts = found.filter(there), numbers.filter(there), counts.filter(there)
        if not len(found):
            return
        self.filled += int(counts.sum())
        looked = found.to_frame("text").with_columns(
            is_integer=pl.first().cast(pl.Int64, strict=False).is_not_null(),
            is_sentinel=pl.first().str.contains(SENTINEL),
            has_zero=pl.first().str.starts_with("0") & pl.first().str.contains(LEADING_ZERO),
        )
        self._list(found, counts)
        hashes = found.hash()
        folded = looked.select(without_zeros(pl.col("text")).hash()).to_series() if looked["has_zero"].any() else hashes
        self._thin(hashes, folded if looked["is_integer"].any() else None)
        self._numbers(looked, counts, numbers)

    def _numbers(self, looked: Any, counts: Any, values: Any) -> None:
        """Count the values that are numbers."""
        if not looked.height:
            return
        numbers = looked["text"]
        self.numbers += int(counts.sum())
        self.integers += int(counts.filter(looked["is_integer"]).sum())
        self.zeros += int(counts.filter(looked["has_zero"]).sum())
        points = numbers.str.contains(POINTED)
        self.pointed += int(points.sum())
        self.unpointed += int((~points & (~looked["is_integer"] | (numbers.str.len_bytes() > 4))).sum())
        special = looked["is_sentinel"]
        for value, count in zip(numbers.filter(special), counts.filter(special), strict=True):
            self.sentinels[value] += count
        self._bound(values.filter(~special).drop_nulls())

    def _forms(self, found: Any, counts: Any) -> Any:
        """Count those that are dates, or numbers in a form of their own; returns which are neither."""
        rest = pl.repeat(True, len(found), eager=True, dtype=pl.Boolean)
        if not len(found):
            return rest
        # What holds for none of the first values is looked for no further.
        patterns = [*FORMS, *DATES]
        first = pl.first().str
        heads = (
            found.head(200).to_frame().select(first.contains(pattern).any().alias(form) for form, pattern in patterns)
        )
        for form, pattern in patterns:
            if form not in self.forms and not heads[form].item():
                continue
            fits = found.str.contains(pattern) & rest
            self.forms[form] += int(counts.filter(fits).sum())
            if form in (THOUSANDS_COMMAS, DECIMAL_COMMAS):
                dropped, point = (".", ",") if form == DECIMAL_COMMAS else (",", "")
                plain = found.filter(fits).str.replace_all(dropped, "", literal=True)
                plain = plain.str.replace(point, ".", literal=True) if point else plain
                ends = plain.cast(pl.Float64, strict=False).drop_nulls()
                self.written = [*self.written, ends.min(), ends.max()] if len(ends) else self.written
            elif form == NEGATIVES and fits.any():
                self._bound(-found.filter(fits).str.replace_all("[(),]", "").cast(pl.Float64))
            elif form.startswith("%d/"):
                parts = found.filter(fits).str.extract_groups(r"^(\d+)/(\d+)/").struct.unnest()
                numbers = [parts[:, at].cast(pl.Int64).max() or 0 for at in (0, 1)] if parts.width == 2 else [0, 0]
                self.first_over_12 |= numbers[0] > 12
                self.second_over_12 |= numbers[1] > 12
            elif form.startswith("%Y-") and fits.any():
                dates = found.filter(fits)
                low, high = dates.min(), dates.max()
                known = [each for each in self.bounds if isinstance(each, str)]
                self.bounds = [min([low, *known]), max([high, *known])] if known or not self.bounds else self.bounds
            rest &= ~fits
        return rest

    def _list(self, found: Any, counts: Any) -> None:
        """Remember the values while they are few."""
        if self.values is not None:
            for value, count in zip(found.head(LISTED + 2), counts.head(LISTED + 2), strict=True):
                self.values[value] += count
            if len(found) > LISTED + 2 or len(self.values) > LISTED:
                self.values = None

    def _thin(self, hashes: Any, folded: Any) -> None:
        """Remember which different values there are, by their hashes."""
        self.hashes = self._thinned(self.hashes, hashes)
        if folded is not None:
            self.folded = self._thinned(self.folded, folded)

    def _thinned(self, known: Any, new: Any) -> Any:
        merged = pl.concat([known, new]).unique()
        if self.level:
            merged = merged.filter(merged % 2**self.level == 0)
        while len(merged) > KEPT_HASHES:
            self.level += 1
            merged = merged.filter(merged % 2**self.level == 0)
            self.hashes = self.hashes.filter(self.hashes % 2**self.level == 0)
            self.folded = self.folded.filter(self.folded % 2**self.level == 0)
        return merged

    # -- what comes of it ---------------------------------------------------------------------------------------

    def form(self) -> str:
        """How most values are written that are neither plain text nor plain numbers, if most are."""
        likely = [(count, form) for form, count in self.forms.items() if count * 2 > self.filled]
        form = max(likely)[1] if likely else ""
        if form.startswith("%d/") and self.first_over_12 != self.second_over_12:
            first, second = form.split(" with")[0].split(" or ")
            form = (first if self.first_over_12 else second) + (" with a time" if "with" in form else "")
        return form

    def words(self) -> dict[str, int]:
        """The few words among values that are numbers otherwise: a call can read these as null."""
        rest = self.filled - self.numbers - self.forms[DECIMAL_COMMAS]
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
            "missing": dict(self.missing.most_common(OTHERS)),
            "distinct": distinct,
            "about": self.level > 0,
            "sample": [shown(each, dtype) for each in self.sample],
            "rows": [shown(each) for each in self.rows] if len(self.rows) <= MAX_ROWS else [],
            "padded": self.padded,
        }
        if self.values is not None and self.values and not self.is_measure(dtype):
            found["values"] = {brief(value): count for value, count in ordered(self.values)}
        if dtype == "String" and self.values is None and self.top:
            found["top"] = {brief(value): count for value, count in ordered(self.top)[:3] if value and count > 1}
        if self.bounds and (dtype != "String" or self.numbers * 2 > self.filled):
            is_text = dtype == "String" and not any(isinstance(each, str) for each in self.bounds)
            commas = self.written if is_text and self.forms[THOUSANDS_COMMAS] else []
            whole = "Int64" if is_text and self.integers == self.numbers else dtype
            ends = [*self.bounds, *commas] if commas else self.bounds
            found["low"], found["high"] = (shown(each, whole) for each in (min(ends), max(ends)))
        elif self.written and self.form() in (THOUSANDS_COMMAS, DECIMAL_COMMAS) and self.integers == self.numbers:
            ends = [*self.written, *(self.bounds if self.numbers else [])]
            found["low"], found["high"] = min(ends), max(ends)
        if unit := UNIT.search(self.name):
            found["unit"] = unit[1] or unit[2]
        if dtype == "String":
            found |= self._oddities()
        # Among decimals, some would have less than three places, and some whole numbers more than three digits.
        if dtype == "Float64" and self.pointed > MIN_POINTED and not self.unpointed and self.integers:
            found["form"] = THOUSANDS_POINTS
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
        if len(self.hashes) and not self.is_measure(dtype) and dtype not in ("Boolean", "Date", "Datetime"):
            found["sketch"] = self.sketch(self.hashes)
            if (folded := self.sketch(self.folded)) != found["sketch"]:
                found["folded"] = folded
        return found

    def special(self) -> dict[str, int]:
        """The numbers that mean a missing value; what only looks so is among the least and the greatest from then on.

        Outside of all other values it is one of its own; between them, it is one like these.
        """
        ends = [*self.written, *(each for each in self.bounds if not isinstance(each, str))]
        found = {}
        for text, count in self.sentinels.most_common():
            value = float(text)
            low, high = (min(ends), max(ends)) if ends else (value, value)
            is_far = value > FAR * max(abs(low), abs(high)) if value > 0 else -value > FAR * abs(low)
            if ends and not low <= value <= high and (value in SENTINELS or (is_far and count > 1)):
                found[text] = count
            elif not any(isinstance(each, str) for each in self.bounds):
                whole = int(value) if value.is_integer() and all(isinstance(each, int) for each in ends) else value
                self.bounds = [min([whole, *self.bounds]), max([whole, *self.bounds])]
        return found

    def is_measure(self, dtype: str) -> bool:
        """Whether the values are amounts, which are neither listed nor compared."""
        return dtype.startswith(("Float", "Decimal"))

    def _oddities(self) -> dict[str, Any]:
        """What is odd about a column of text: a form of its own, or what else there is among numbers."""
        found: dict[str, Any] = {}
        if form := self.form():
            found["form"] = form
        counted = self.forms[next((each for each in self.forms if form and form in each), "")] if form else 0
        if self.zeros and self.numbers * 2 > self.filled:
            found["form"] = "digits with leading zeros"
        elif self.numbers * 2 > self.filled:
            found["form"] = "numbers"
            counted = self.numbers
        if found and counted < self.filled:
            rest = {form: count for form, count in self.forms.items() if count and form not in found["form"]}
            few = ordered(self.others)[:OTHERS]
            found["others"] = {brief(value): count for value, count in [*rest.items(), *few]}
        are_years = self.integers == self.numbers and all(
            YEARS[0] <= each <= YEARS[1] for each in self.bounds if not isinstance(each, str)
        )
        if are_years and list(found.get("others", ())) == ["%Y-%m-%d"]:
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


def tallied(frames: Any) -> list[Tally]:
    """The columns of a table, of which pieces come one after the other."""
    tallies: list[Tally] = []
    for frame in frames:
        if not tallies:
            tallies = [Tally(name) for name in frame.columns]
        for tally, column in zip(tallies, frame.get_columns(), strict=False):
            tally.add(column)
    return tallies
