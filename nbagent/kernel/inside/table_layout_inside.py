"""Where a table begins in a text file, and what its header is: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from collections import Counter

from nbagent.kernel.inside.value_forms_inside import MISSING, NUMBER

COMMENTS = ("#", "//", "%", "--", "* ")
"""How lines begin that say something of the table and are no part of it."""
_NUMERIC = re.compile(NUMBER + r"|^[$€£]?-?[\d.,]*\d%?$")
_DIGITS = re.compile(r"\d+")
_YEAR = re.compile(r"^(?:1[89]|20|21)\d\d$")


class Layout:
    """Where the table is among rows of fields: what comes before its header, and how many rows the header has."""

    def __init__(self, rows: list[list[str]]) -> None:
        rows = [[each.strip() for each in row] for row in rows]
        widths = Counter(_width(row) for row in rows if _width(row) > 1)
        self.width = max(widths, key=lambda each: (widths[each], each)) if widths else 1
        self.skipped = self._begin(rows)
        self.header = rows[self.skipped] if rows else []
        body = rows[self.skipped + 1 :]
        numeric = _numeric_columns(self.header, body)
        heads = [self.header[at] for at in numeric]
        years = sum(bool(_YEAR.fullmatch(each)) for each in heads) > len(heads) / 2 and len(set(heads)) == len(heads)
        self.has_header = not numeric or not all(_NUMERIC.match(each) for each in heads) or (len(heads) > 2 and years)
        if len(rows) == 1:
            self.has_header = not any(_NUMERIC.match(each) and not _YEAR.match(each) for each in self.header)
        self.more = 0
        if self.has_header:
            while self.more < min(3, len(body) - 2) and self._is_header(body[self.more], numeric):
                if _is_like(body[self.more], body[self.more + 1 :]):
                    break
                self.more += 1
        rest = body[: self.more]
        width = max(map(len, rest), default=0)
        self.labels = [" ".join(row[at] for row in rest if at < len(row) and row[at]) for at in range(width)]
        names = [each for each in self.header if each]
        self.is_odd = bool(self.skipped or self.more or not self.has_header or len(set(names)) < len(self.header))

    def _begin(self, rows: list[list[str]]) -> int:
        """The row that is the header: what comes before it are comments, or it has fewer fields."""
        full = [at for at, row in enumerate(rows) if self._is_full(row)]
        first = next((at for at in full if not rows[at][0].startswith(COMMENTS)), full[0] if full else 0)
        before = rows[first - 1] if first else []
        # A header may be written as a comment too; then nothing else says what the values are.
        if _width(before) == self.width and before[0].startswith(COMMENTS) and ":" not in before[0]:
            return first if _names_numbers(rows, first) else first - 1
        whole = next((at for at in full if at > first and _width(rows[at]) == self.width), first)
        return whole if _width(rows[first]) < self.width and _names_numbers(rows, whole) else first

    def _is_full(self, row: list[str]) -> bool:
        there = [each for each in row if each]
        return len(there) >= max(1 if self.width == 1 else 2, 0.6 * self.width)

    def _is_header(self, row: list[str], numeric: list[int]) -> bool:
        """Whether a row goes on with the header: words where numbers follow."""
        there = [row[at] for at in numeric if at < len(row) and row[at] and row[at].lower() not in MISSING]
        return bool(there) and not any(_NUMERIC.match(each) for each in there)


def _is_like(row: list[str], below: list[list[str]]) -> bool:
    """Whether a row is one of those below it: a value comes again, or has the digits where most of these have them."""
    for at, each in enumerate(row):
        column = [other[at] for other in below if at < len(other)]
        if each and each in column:
            return True
        form = _DIGITS.sub("0", each)
        if form != each and sum(_DIGITS.sub("0", other) == form for other in column) > len(column) / 2:
            return True
    return False


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
