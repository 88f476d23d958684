"""What stands below a table in a text file and is no row of it: a part of `text_tables_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nbagent.kernel.inside.columns_inside import brief

LAST_ROWS = 200
"""Rows at the end among which words may stand that are no part of the table."""
FOOTNOTE, FOOTERS = 40, 6
"""Characters of a sentence below a table, and sentences that are told."""
_SOURCE = re.compile(r"(?i)[\W_]*(?:notes?|sources?|footnotes?|remarks?|quellen?|anmerkung(?:en)?|hinweise?)\b")
"""How a line begins that says something of the table above."""


def with_last(frames: Iterator[Any], last: list[Any]) -> Iterator[Any]:
    """The same frames; the last rows of the last one come to be in `last`."""
    for frame in frames:
        last[:] = frame.tail(LAST_ROWS).rows()
        yield frame


def first_rows(frames: Iterator[Any], rows: int) -> Iterator[Any]:
    """As many rows as that."""
    for frame in frames:
        yield frame.head(rows)
        if (rows := rows - frame.height) <= 0:
            return


def without_footer(rows: list[list[str]], most: int) -> list[list[str]]:
    """The first rows without what stands below a table, if this has ended before so many."""
    return rows[: len(rows) - footer(rows)[0]] if 1 < len(rows) < most else rows


def footer(rows: list[Any]) -> tuple[int, str]:
    """How many of the last rows are no part of a table, and what these say: they have a first field, or a source.

    What a row before them that is empty doesn't part from the table, nor a sentence, may be a row of it without values.
    """
    count, said, is_parted = 0, list[str](), False
    width = max(map(len, rows), default=0)
    for row in reversed(rows):
        there = [each.strip() for each in row if each and each.strip()]
        is_cut_sentence = len(there) < width and (_SOURCE.match(there[0]) or there[-1].endswith(".")) if there else True
        if width < 2 or (len(there) > 1 and not is_cut_sentence):
            break
        is_parted |= not there and bool(said)
        count += 1
        said += [", ".join(there)] if there else []
    told = [each for each in said if " " in each][::-1]
    is_said = any(len(each) > FOOTNOTE or _SOURCE.match(each) for each in told)
    is_footer = (is_said or (is_parted and bool(told))) and count < len(rows)
    return count if is_footer else 0, " / ".join(map(brief, told[:FOOTERS]))
