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
OTHERS_ALONE = 5
"""Of so many rows one has a single field, where such rows are no words on the table."""
FOOTNOTE, FOOTERS = 40, 6
"""Characters of a sentence below a table, and sentences that are told."""
_SOURCE = re.compile(
    r"(?i)[\W_]*(?:notes?|sources?|footnotes?|remarks?|quellen?|anmerkung(?:en)?|hinweise?)\b(?:\s\d+)?\s?[:.=\u2013-]"
)
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

    A row of one word or number, like one of several fields, may be one of the table without values; so may be a
    sentence where the table has sentences, unless an empty row parts it from them.
    """
    sure, said, told, is_parted, is_said = 0, list[str](), list[str](), False, False
    width = max(map(len, rows), default=0)
    whole = [row for row in rows if len(row) == width and all(map(_text, row))]
    is_spaced = any(each.startswith(" ") for row in whole for each in row[1:])
    has_sentences = 4 * sum(_is_sentence(_text(row[0])) for row in whole) > len(whole)
    # Where many rows have nothing but a name, the last ones do so as others.
    has_names = OTHERS_ALONE * sum(sum(map(bool, map(_text, row))) == 1 for row in rows[:-FOOTERS]) > len(rows)
    for count, row in enumerate(reversed(rows) if width > 1 else (), start=1):
        there = [each for each in row if _text(each)]
        line = ", ".join(map(_text, there))
        is_source = _SOURCE.match(line) is not None
        # A comma of a sentence has a space behind it, one between fields has none.
        is_cut = line.endswith(".") and not is_spaced and all(each.startswith(" ") for each in there[1:])
        is_one_text = len(there) < 2 or (len(there) < width and (is_source or is_cut))
        if there and not (is_one_text and any(map(str.isalpha, _text(there[0])))):
            break
        is_parted |= not there and bool(said)
        said += [line] if there else []
        if not there or is_source or (_is_sentence(line) and not has_sentences and not has_names):
            sure, is_said = count, is_said or is_source or len(line) > FOOTNOTE
            told = [each for each in said if " " in each][::-1]
    is_footer = (is_said or (is_parted and bool(told))) and sure < len(rows)
    return sure if is_footer else 0, " / ".join(map(brief, told[:FOOTERS]))


def _text(field: Any) -> str:
    return field.strip() if field else ""


def _is_sentence(text: str) -> bool:
    return " " in text and (len(text) > FOOTNOTE or text.endswith("."))
