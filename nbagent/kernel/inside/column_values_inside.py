"""The values of a column, counted piece by piece: a part of `columns_inside.py`. Never imported on the host.

A column is taken in pieces, so that a file of any size can be scanned. Each piece is reduced to its different values
and how often each occurs; all that follows looks at these.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import polars as pl

from nbagent.kernel.inside.value_forms_inside import (
    DATES,
    DECIMAL_COMMAS,
    DOUBTFUL_COMMAS,
    FORMS,
    LEADING_ZERO,
    LOOKS,
    NEGATIVES,
    POINTED,
    SENTINEL,
    THOUSANDS_BLANKS,
    THOUSANDS_COMMAS,
    THOUSANDS_POINTS,
    TIME,
    moment,
    outline,
    without_zeros,
)

LISTED = 15
"""Different values up to which all of them are told."""
KEPT_NAMES, NAME_WIDTH = 300, 60
"""Different texts up to which all are remembered, so that those can be named which another table lacks; and of each,
characters."""
KEPT_HASHES = 262_144
"""Hashes of different values that are kept of a column; beyond, only each second one is kept, then each fourth, …"""
MAX_ROWS = 6
"""Rows up to which a table is told by its rows."""
WRITTEN = THOUSANDS_COMMAS, DOUBTFUL_COMMAS, DECIMAL_COMMAS, THOUSANDS_POINTS, THOUSANDS_BLANKS
"""Forms of numbers whose commas, points or spaces no parser takes as they are."""
TOP = 20
"""The most frequent values of a piece that are remembered."""


class ColumnValues:
    """The values of a column that were seen so far, and what they have in common."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = ""
        self.filled = self.empty = self.numbers = self.integers = self.zeros = self.padded = 0
        self.forms: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.sentinels: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.sums: Counter[str] = Counter()
        self.values: Counter[str] | None = Counter()
        self.names: set[str] | None = set()
        self.sample: list[Any] = []
        self.rows: list[Any] = []
        self.bounds: list[Any] = []
        self.written: dict[str, list[float]] = {}
        self.top: Counter[str] = Counter()
        self.pointed = self.unpointed = self.in_thousands = self.fractions = self.large = 0
        self.doubtful, self.is_grouped, self.is_parted, self.is_spaced = 0, False, False, False
        self.may_be_grouped: list[Any] = []
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
            folded = text.to_frame("text").select(moment(pl.col("text"))) if found.dtype.is_temporal() else None
            same = None if found.dtype.is_float() else hashes
            self._thin(hashes, same if folded is None else folded.to_series().hash())

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
        for word, count in zip(looked["text"].filter(looked["is_sum"]), counts.filter(looked["is_sum"]), strict=True):
            if len(self.sums) < LISTED or word in self.sums:
                self.sums[word] += count
        if self.are_codes and (codes := looked.filter(~is_word)).height:
            self.are_codes = codes["is_code"].all()
            self.shapes.update(codes.select(outline(pl.col("text"))).to_series().unique() if self.are_codes else ())
        self._list(found, counts)
        folded = looked["folded"]
        if looked.height and re.match(TIME, looked["text"][0]):
            folded = looked.select(moment(pl.col("text")).hash()).to_series()
        self._thin(looked["hash"], folded)
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
        points, whole = numbers.str.contains(POINTED), looked["is_integer"]
        self.pointed += int(points.sum())
        self.in_thousands += int(counts.filter(points).sum())
        self.fractions += int(counts.filter(~points & ~whole & numbers.str.contains(r"\.\d")).sum())
        self.large += int(counts.filter(whole & numbers.str.contains(r"\d{4}")).sum())
        self.unpointed += int((~points & (~whole | (numbers.str.len_bytes() > 4))).sum())
        special = looked["is_sentinel"]
        for value, count in zip(numbers.filter(special), counts.filter(special), strict=True):
            self.sentinels[value] += count
        self._write(POINTED, values.filter(points))
        self._bound(values.filter(~special & ~points).drop_nulls())

    def _forms(self, found: Any, counts: Any) -> Any:
        """Count those that are dates, or numbers in a form of their own; returns which are neither."""
        rest = pl.repeat(True, len(found), eager=True, dtype=pl.Boolean)
        if not len(found):
            return rest
        # What holds for none of the first values is looked for no further. But one form tells of another: of 98,670 and
        # a late -0,576, only the second one says what its comma is.
        patterns = [*FORMS, *DATES]
        first = pl.first().str
        heads = (
            found.head(200).to_frame().select(first.contains(pattern).any().alias(form) for form, pattern in patterns)
        )
        present = {form for form, _ in patterns if form in self.forms or heads[form].item()}
        present.update(WRITTEN if not present.isdisjoint(WRITTEN) else ())
        for form, pattern in patterns:
            if form not in present:
                continue
            fits = found.str.contains(pattern) & rest
            if not fits.any():
                continue
            self.forms[form] += int(counts.filter(fits).sum())
            if form in WRITTEN:
                dropped = "," if form == THOUSANDS_COMMAS else " " if form == THOUSANDS_BLANKS else "."
                plain = found.filter(fits).str.replace_all(r"\s", "")
                # Where all of them begin with three digits, they may be lists of codes.
                begin = r"^[+-]?\d{1,2}\s" if form == THOUSANDS_BLANKS else r"\s"
                self.is_spaced |= bool(found.filter(fits).str.contains(begin).any())
                pointed = bool(plain.str.contains(".", literal=True).any())
                self.is_grouped |= pointed and dropped == "."
                self.is_parted |= (pointed and dropped != ".") or form == DECIMAL_COMMAS
                plain = plain.str.replace_all(dropped, "", literal=True)
                self._write(form, plain.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False))
                self.doubtful += int(fits.sum()) if form == DOUBTFUL_COMMAS else 0
            elif form == NEGATIVES:
                self._bound(-found.filter(fits).str.replace_all("[(),]", "").cast(pl.Float64))
            elif form.startswith("%d/"):
                parts = found.filter(fits).str.extract_groups(r"^(\d+)/(\d+)/").struct.unnest()
                numbers = [parts[:, at].cast(pl.Int64).max() or 0 for at in (0, 1)] if parts.width == 2 else [0, 0]
                self.first_over_12 |= numbers[0] > 12
                self.second_over_12 |= numbers[1] > 12
            elif form.startswith("%Y-"):
                dates = found.filter(fits)
                low, high = dates.min(), dates.max()
                known = [each for each in self.bounds if isinstance(each, str)]
                self.bounds = [min([low, *known]), max([high, *known])] if known or not self.bounds else self.bounds
            rest &= ~fits
        return rest

    def _write(self, form: str, values: Any) -> None:
        """Remember the ends of numbers that are written in a form of their own."""
        if len(values := values.drop_nulls()):
            ends = [*self.written.get(form, ()), values.min(), values.max()]
            self.written[form] = [min(ends), max(ends)]

    def _list(self, found: Any, counts: Any) -> None:
        """Remember the values while they are few."""
        if self.names is not None:
            several = found if len(found) <= KEPT_NAMES else ["" for _ in range(KEPT_NAMES + 1)]
            self.names.update(str(each)[:NAME_WIDTH] for each in several if each is not None)
            if len(several) > KEPT_NAMES or len(self.names) > KEPT_NAMES:
                self.names = None
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
