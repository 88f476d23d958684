"""Where a table begins in a text file, and what its header is: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.value_forms_inside import MISSING, NUMBER

COMMENTS = ("#", "//", "%", "--", "* ", "!")
"""How lines begin that say something of the table and are no part of it."""
FEW = 8
"""Rows without words where numbers are, from which it is known that a table has begun."""
SENTENCE = 60
"""Characters from which a field is a sentence rather than a name, where there are hardly any others."""
HEADER = 4
"""Rows that a header has at most."""
_NUMERIC = re.compile(NUMBER + r"|^[$€£]?-?[\d.,]*\d%?$|^[+-]?[1-9]\d{0,2}(?:\s\d{3})+(?:[.,]\d+)?$")
_DIGITS, _PLAIN = re.compile(r"\d+"), re.compile(r"-?\d+(?:\.\d+)?")
_CAPITALS = re.compile(r"[A-Z]+")
_YEAR = re.compile(r"^(?:1[89]|20|21)\d\d$")


class Layout:
    """Where the table is among rows of fields: what comes before its header, and how many rows the header has."""

    def __init__(self, rows: list[list[str]]) -> None:
        rows = [[each.strip() for each in row] for row in rows]
        widths = Counter(_width(row) for row in rows if _width(row) > 1)
        self.width = max(widths, key=lambda each: (widths[each], each)) if widths else 1
        self.is_block = False
        self.skipped = self._begin(rows) if rows else 0
        self.header = rows[self.skipped] if rows else []
        body = rows[self.skipped + 1 :]
        numeric = _numeric_columns(self.header, body)
        self.has_numbers = bool(numeric)
        heads = [self.header[at] for at in numeric if self.header[at].lower() not in ("", *MISSING)]
        below = [row[at] for row in body for at in numeric if at < len(row)]
        self.has_header = (
            not all(_NUMERIC.match(each) for each in heads)
            or (len(heads) > 2 and self._names_steps(heads, body))
            or (
                # A single one above whole numbers may be one of them.
                (len(self.header) > len(heads) > 1 or any(re.search(r"-\d|\d\.\d", each) for each in below))
                and all(map(_YEAR.match, heads))
                and not any(map(_YEAR.match, below))
            )
            if heads
            else not (
                _is_like(self.header, body, by_value=False)
                or _begins_list(self.header, body)
                or _has_wordless(self.header, body)
            )
        )
        self.has_header &= not self.is_block and (not all(map(_DIGITS.search, heads)) or not self._is_row(body))
        if len(rows) == 1:
            self.has_header = not any(_NUMERIC.match(each) and not _YEAR.match(each) for each in self.header)
        self.more = 0
        if self.has_header:
            while self.more < min(HEADER - 1, len(body) - 2) and self._is_header(body[self.more], numeric):
                if _is_like(body[self.more], body[self.more + 1 :]):
                    break
                self.more += 1
            self.more = self.more or int(self._fills(body))
        self.labels = self._settle_names(rows) if self.has_header else self._named_above(rows)
        names = [each for each in self.header if each]
        self.is_odd = bool(self.skipped or self.more or not self.has_header or len(set(names)) < len(self.header))

    def _begin(self, rows: list[list[str]]) -> int:
        """The row that is the header: what comes before it are comments, or it has fewer fields."""
        full = [at for at, row in enumerate(rows) if self._is_full(row)]
        plain = [at for at, row in enumerate(rows) if row and not row[0].startswith(COMMENTS)]
        several = [at for at in plain if _width(rows[at]) > 1]  # what has one field is said of the table
        if 2 * sum(_width(rows[at]) == self.width for at in several) < len(several) and self.width > 1:
            return several[0]  # rows of any length: none of them is too short
        first = next((at for at in full if not rows[at][0].startswith(COMMENTS)), full[0] if full else 0)
        if (above := [at for at in several if at < first]) and self._are_rows(above, rows, first):
            self.is_block = True  # they have fewer fields than others, but are as many as no header has
            return above[0]
        before = rows[first - 1] if first else []
        # A header may be written as a comment too; then nothing else says what the values are.
        is_as_wide = _width(before) == self.width or len(before) == len(rows[first]) > 2
        if is_as_wide and before[0].startswith(COMMENTS) and ":" not in before[0]:
            return first if _names_numbers(rows, first) else first - 1
        whole = next((at for at in full if at > first and _width(rows[at]) == self.width), first)
        first = whole if _width(rows[first]) < self.width and _names_numbers(rows, whole) else first
        return self._below_preamble(rows, first)

    @staticmethod
    def _are_rows(above: list[int], rows: list[list[str]], first: int) -> bool:
        """Whether what stands above the first whole row are rows, too: many, and what names them is as in those below.

        What is said of a table as names and values in two columns is none of them.
        """
        if len(above) < FEW or min(_width(rows[at]) for at in above) < 3:
            return False
        forms = {_form(row[0], is_alone=True) for row in rows[first : first + FEW] if row}
        shapes = {re.sub(r"[^\w]", "", each) for each in forms}
        fitting = sum(re.sub(r"[^\w]", "", _form(rows[at][0], is_alone=True)) in shapes for at in above)
        return fitting > len(above) / 2

    def _below_preamble(self, rows: list[list[str]], first: int) -> int:
        """The row that is the header, if what was taken for it are words on the table, which has numbers further on."""
        numeric = _numeric_columns([""] * self.width, rows[len(rows) // 2 :])
        numbers = [sum(bool(_NUMERIC.match(row[at])) for at in numeric if at < len(row)) for row in rows]
        words = [any(self._is_header(row, [at]) for at in numeric) for row in rows]
        begin = next((at for at in range(first, len(rows)) if not any(words[at : at + FEW])), first)
        names = self._has_names(rows[first]) and not self._is_sentence(rows[first])
        widest = max(map(_width, rows[max(begin, first + 1) :]), default=self.width)
        if names and begin - first <= HEADER and max(map(_width, rows[first:begin]), default=0) <= widest:
            return first
        top = begin
        while top > first and not self._ends_preamble(rows[top - 1], is_last=top == begin):
            top -= 1
        while top < begin and not self._is_full(rows[top]):
            top += 1
        rest = range(first, top)
        is_table = any(_width(rows[at]) == self.width and 2 * numbers[at] > len(numeric) for at in rest)
        return first if is_table or not numeric else top

    def _ends_preamble(self, row: list[str], *, is_last: bool) -> bool:
        """Whether a row above those of a table is no part of its header: it is too short or too wide, or a sentence."""
        if is_last:
            return not self._is_full(row)
        is_off = not 0.6 * self.width <= _width(row) <= self.width
        return is_off or self._is_sentence(row) or row[0].startswith(COMMENTS)

    def _is_sentence(self, row: list[str]) -> bool:
        """Whether a row says something of the table in words: a long field where there are hardly any others."""
        return (self.width <= 3 or not self._is_full(row)) and max(map(len, row), default=0) > SENTENCE

    def _settle_names(self, rows: list[list[str]]) -> list[str]:
        """Choose the row of the header that names each column; returns what its other rows say of the columns."""
        several = rows[self.skipped : self.skipped + self.more + 1]
        named = [at for at, row in enumerate(several) if self._has_names(row)]
        at = named[-1] if named and named[0] else 0  # the names of a first row stand; else those next to the values
        self.header, self.skipped, self.more = several[at] if several else [], self.skipped + at, self.more - at
        above = rows[self.skipped - 1] if self.skipped and not at else []
        # A cell that goes over two rows stands in the upper one.
        tall = ["" if name else text for name, text in zip(self.header, above, strict=False)]
        return _joined([*several[:at], *several[at + 1 :], *([tall] if _width(above) > 1 else [])])

    def _named_above(self, rows: list[list[str]]) -> list[str]:
        """What rows above those of a table without a header say of its columns: parts of their names."""
        above = rows[max(self.skipped - HEADER, 0) : self.skipped]
        return _joined([row for row in above if len(row) == len(self.header) and not row[0].startswith(COMMENTS)])

    def _is_row(self, body: list[list[str]]) -> bool:
        """Whether what was taken for the header is the first row: it has digits as those below, or their values."""
        there = [each for each in self.header if each]
        words = ["" if _NUMERIC.match(each) else each for each in self.header]
        below = [row for row in body[HEADER - 1 :] if row != self.header]
        return 2 * sum(map(bool, map(_DIGITS.search, there))) >= len(there) > 0 and _is_like(words, below)

    def _has_names(self, row: list[str]) -> bool:
        there = row[: self.width]
        return all(there) and len(set(there)) == self.width and not all(map(_NUMERIC.match, there[1:]))

    def _names_steps(self, heads: list[str], body: list[list[str]]) -> bool:
        """Whether numbers in a header name columns: years, steps of one length, or others where keys have digits."""
        if len(set(heads)) < len(heads):
            return False
        first = [row[0] for row in body if row]
        is_key = not _DIGITS.search(self.header[0]) and all(map(_DIGITS.search, first))
        if all(map(_PLAIN.fullmatch, heads)) and heads == sorted(heads, key=float):
            steps = {round(float(after) - float(each), 9) for each, after in itertools.pairwise(heads)}
            if is_key or (len(heads) >= FEW and len(steps) == 1):
                return True
        return sum(bool(_YEAR.fullmatch(each)) for each in heads) > len(heads) / 2

    def _is_full(self, row: list[str]) -> bool:
        there = [each for each in row if each]
        is_without_first = _width(row) == self.width == len(there) + 1 > 1 and not row[0]  # it numbers the rows
        return is_without_first or len(there) >= max(1 if self.width == 1 else 2, 0.6 * self.width)

    def _is_header(self, row: list[str], numeric: list[int]) -> bool:
        """Whether a row goes on with the header: words where numbers follow."""
        there = [row[at] for at in numeric if at < len(row) and row[at] and row[at].lower() not in MISSING]
        return bool(there) and not any(_NUMERIC.match(each) for each in there)

    def _fills(self, body: list[list[str]]) -> bool:
        """Whether a row below the header has the names that it lacks, and nothing where its first column has values.

        So surveys name what can be ticked below a question.
        """
        blank = [at for at, each in enumerate(self.header) if not each]
        filled = sum(at < len(body[0]) and bool(body[0][at]) for at in blank) if body else 0
        is_below = len(blank) > 1 and filled > 0.8 * len(blank) and bool(self.header[0]) and not body[0][0]
        return is_below and sum(bool(row and row[0]) for row in body) > 0.8 * len(body)


def _is_like(row: list[str], below: list[list[str]], *, by_value: bool = True) -> bool:
    """Whether a row is one of those below it: a value comes again, or has the digits where most of these have them."""
    for at, each in enumerate(row):
        column = [other[at] for other in below if at < len(other)]
        if by_value and each and each in column:
            return True
        form = _form(each, is_alone=len(row) == 1)
        is_code = _DIGITS.search(each) is not None
        if is_code and sum(_form(other, is_alone=len(row) == 1) == form for other in column) > len(column) / 2:
            return True
    return False


def _has_wordless(row: list[str], below: list[list[str]]) -> bool:
    """Whether a row has digits without a letter where all below it have such, as coordinates are: it names nothing."""
    return any(
        _is_wordless(each) and all(_is_wordless(other[at]) for other in below if at < len(other) and other[at])
        for at, each in enumerate(row)
        if each and len(below) >= FEW and not _NUMERIC.match(each)
    )


def _is_wordless(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def _begins_list(row: list[str], below: list[list[str]]) -> bool:
    """Whether a row has the first of codes in order, each of as many letters: no word on a column comes before AAB."""
    for at, each in enumerate(row):
        codes = [each, *(other[at] for other in below if at < len(other))]
        is_code = each.isalpha() and (each.isupper() or each.islower()) and len(codes) > FEW
        if is_code and all(a < b and len(a) == len(b) and b.isalpha() for a, b in itertools.pairwise(codes)):
            return True
    return False


def _joined(rows: list[list[str]]) -> list[str]:
    """What rows say of each column together."""
    width = max(map(len, rows), default=0)
    return [" ".join(row[at] for row in rows if at < len(row) and row[at]) for at in range(width)]


def _form(text: str, *, is_alone: bool) -> str:
    """Where a text has digits and, in a list of codes, capitals."""
    form = _DIGITS.sub("0", text)
    return _CAPITALS.sub("A", form) if is_alone else form


def _width(row: list[str]) -> int:
    """The fields of a row, without empty ones at its end."""
    return max((at + 1 for at, each in enumerate(row) if each.strip()), default=0)


def _numeric_columns(header: list[str], body: list[list[str]]) -> list[int]:
    """The columns that have numbers below a header."""
    return [at for at in range(len(header)) if _is_numeric([row[at] for row in body if at < len(row)])]


def _names_numbers(rows: list[list[str]], at: int) -> bool:
    """Whether a row has words where numbers follow."""
    numeric = _numeric_columns(rows[at], rows[at + 1 :])
    return bool(numeric) and not any(_NUMERIC.match(rows[at][each]) for each in numeric)


def _is_numeric(values: list[str]) -> bool:
    there = [each for each in values if each and each.lower() not in MISSING]
    return bool(there) and sum(bool(_NUMERIC.match(each)) for each in there) > len(there) * 0.6


def labelled(columns: list[dict[str, Any]], layout: Layout) -> None:
    """Give columns what the further rows of their header say."""
    for column, label in zip(columns, layout.labels, strict=False):
        if label:
            column["label"] = brief(label)
