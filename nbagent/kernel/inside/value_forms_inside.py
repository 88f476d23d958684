"""How numbers, dates and missing values are written in tables: a part of `columns_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

MISSING = frozenset(
    "na n/a n.a. n.a nan null none nil - -- --- ? . .. … #n/a #na #value! #ref! #div/0! missing unknown tbd (null) "
    "<na> <null> not_available no_data n/v n.v. n.d. k.a. err error".split()
)
"""Words that mean a missing value, in lower case."""
FAULTS = frozenset("err error".split())
"""Those of them that are names among names, and mean a missing value among numbers only."""
CODE = r"^[A-Za-z0-9]{1,4}$"
"""A value that may be a code, as NA is of Namibia, Na of sodium and NAN of an airport."""
SENTINELS = frozenset((-999.0, -999.9, -9999.0, -99999.0, 9999.0, 99999.0, 999999.0))
"""Numbers that mean a missing value where all others are on one side of them."""
SENTINEL = r"^-?9{2,6}(?:\.0*|\.9{1,3})?$"
"""A number that may be one; any but those above must be far from all others, and stand in several rows."""
NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
INTEGER = r"^[+-]?\d{1,18}$"
LEADING_ZERO = r"^0\d"
THOUSANDS_POINTS = "thousands points, 1.234 is 1234"
POINTED = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
"""A number that may have a point for its thousands."""
THOUSANDS_COMMAS, DECIMAL_COMMAS = "thousands commas, 1,234.5", "decimal commas"
THOUSANDS_BLANKS = "thousands blanks, 1 234"
BLANK = r"[ \x{a0}\x{2009}\x{202f}]"
"""A space that may part thousands: plain, without a break, thin or narrow."""
DOUBTFUL_COMMAS = "1,234 may be 1234 or 1.234"
"""How numbers are written of which nothing in the table says what their comma is."""
NEGATIVES = "negatives in parentheses, (1.5)"
FORMS: list[tuple[str, str]] = [
    (THOUSANDS_COMMAS, r"^[+-]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}(?:\.\d+)?|,\d{3}\.\d+)$"),
    (DOUBTFUL_COMMAS, r"^[+-]?[1-9]\d{0,2},\d{3}$"),
    (
        DECIMAL_COMMAS,
        rf"^[+-]?(?:\d{{1,3}}(?:\.\d{{3}})+,\d+|[1-9]\d{{0,2}}(?:{BLANK}\d{{3}})+,\d+|"
        r"\d+,(?:\d{1,2}|\d{4,})|(?:0\d*|\d{4,}),\d{3})$",
    ),
    (THOUSANDS_BLANKS, rf"^[+-]?[1-9]\d{{0,2}}(?:{BLANK}\d{{3}})+(?:\.\d+)?$"),
    (THOUSANDS_POINTS, r"^[+-]?[1-9]\d{0,2}(?:\.\d{3}){2,}$"),
    (NEGATIVES, r"^\(\d[\d,]*(?:\.\d+)?\)$"),
    ("a sign of currency", r"^[-+(]?\s?[$€£¥]\s?[\d.,]+\)?$|^[\d.,]+\s?[$€£¥]$"),
    ("a sign of per cent", r"^[+-]?[\d.,]+\s?%$"),
]
"""How numbers are written that no parser takes as they are."""
DATES: list[tuple[str, str]] = [
    ("%Y-%m-%d", r"^\d{4}-\d{2}-\d{2}$"),
    ("%Y-%m-%d %H:%M:%S", r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?$"),
    ("%Y/%m/%d", r"^\d{4}/\d{1,2}/\d{1,2}$"),
    ("%d.%m.%Y", r"^\d{1,2}\.\d{1,2}\.\d{4}$"),
    ("%d.%m.%Y with a time", r"^\d{1,2}\.\d{1,2}\.\d{4} \d{1,2}:\d{2}(?::\d{2})?$"),
    ("%d/%m/%Y or %m/%d/%Y", r"^\d{1,2}/\d{1,2}/\d{4}$"),
    ("%d/%m/%Y or %m/%d/%Y with a time", r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?$"),
    ("%d/%m/%y or %m/%d/%y", r"^\d{1,2}/\d{1,2}/\d{2}$"),
    ("%d-%b-%Y", r"^\d{1,2}-[A-Za-z]{3}-\d{2,4}$"),
    ("%B %d, %Y", r"^[A-Za-z]{3,9}\.? \d{1,2}, \d{4}$"),
    ("%d %B %Y", r"^\d{1,2} [A-Za-z]{3,9} \d{4}$"),
    ("%H:%M", r"^\d{1,2}:\d{2}$"),
    ("%H:%M:%S", r"^\d{1,2}:\d{2}:\d{2}$"),
]
"""How dates and times are written."""
TIME = DATES[1][1]
"""A date with a time that sorts as it is written."""
SUMS = (
    r"(?i)^(?:grand[ -]|sub[ -]?|zwischen|end)?(?:totals?|totale[ns]?|totaal|totalt|sums?|summe|gesamt|"
    r"gesamtsumme|insgesamt|somme|ensemble|suma|soma|razem|celkem|toplam|\x{438}\x{442}\x{43e}\x{433}\x{43e}|"
    r"\x{432}\x{441}\x{435}\x{433}\x{43e}|\x{5408}\x{8ba1}|\x{5408}\x{8a08}|\x{603b}\x{8ba1})"
    r"(?:[ :,(/].{0,30}|-(?: .{0,30})?)?$"
)
"""What rows are called that have the sums of others, in the languages of most tables."""
UNIT = re.compile(
    r"[\[(]\s*([^\])]{1,20})\s*[\])]\s*$|_(km|kg|mg|usd|eur|pct|percent|celsius|mph|kmh|ms|sec|mm|cm)$", re.I
)
"""The unit in a column's name."""


def without_zeros(text: Any) -> Any:
    """An expression for digits without the zeros in front of them, as another file may have them."""
    return pl.when(text.str.contains(LEADING_ZERO)).then(text.str.strip_chars_start("0")).otherwise(text)


def moment(text: Any) -> Any:
    """An expression for dates and times as another file may have them: without `T`, a zone that is UTC, and zeros."""
    plain = text.str.replace(r"^(\d{4}-\d\d-\d\d)T", "$1 ").str.replace(r"(?:Z|[+-]00:?00)$", "")
    return plain.str.replace(r"( \d\d:\d\d):00(?:\.0+)?$", "$1").str.replace(" 00:00$", "")


def outline(text: Any) -> Any:
    """An expression for where a code has capitals, small letters and digits."""
    return text.str.replace_all("[A-Z]", "A").str.replace_all("[a-z]", "a").str.replace_all("[0-9]", "0")


_TEXT = pl.col("value").str.strip_chars()
_LOWER = _TEXT.str.to_lowercase()
LOOKS: dict[str, Any] = {
    "found": pl.col("value"),
    "text": _TEXT,
    "there": _TEXT.fill_null("") != "",
    "is_padded": pl.col("value") != _TEXT,
    "is_word": _LOWER.is_in(list(MISSING)),
    "is_code": _TEXT.str.contains(CODE),
    "is_sum": _TEXT.str.contains(SUMS),
    "is_number": _TEXT.str.contains(NUMBER),
    "is_integer": _TEXT.str.contains(INTEGER),
    "has_zero": _TEXT.str.contains(LEADING_ZERO),
    "is_sentinel": _TEXT.str.contains(SENTINEL),
    "hash": pl.col("value").hash(),
    "folded": without_zeros(_LOWER).hash(),
}
"""What is asked of each different value of a column of text."""
