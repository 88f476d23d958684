"""Numbers as texts write them: what each says, how precisely, and what else it may mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

MAX_DIGITS = 400
"""Digits of a number that is read: for more, a float is infinite, and Python's decimals take time and then raise."""
REMEMBERED = 4096
"""Characters of a text up to which its numbers are remembered."""

_NUMBER = re.compile(
    r"""
    (?<![\w.,])                          # not in the middle of a word, a version or another number
    (?P<bound>[<>≤≥]=?\s?)?
    (?P<sign>[-−+]?)
    (?P<digits>
        (?P<comma>\d{1,3}(?:[.\u202f\u00a0]\d{3}){1,6},\d+                       # 1.234,56
          | 0,\d+ | \d+,(?:\d{1,2}|\d{4,})(?!\d)                               # 0,125 and 12,3
          | \d{1,3}(?:\.\d{3}){2,6})                                            # 1.234.567
      | \d{1,3}(?:[,_\u202f\u00a0']\d{3}){1,6}(?:\.\d+)?                         # 1,234.5 and 1_234.5
      | \d+(?:\.\d+)?                                                            # 1234.5
      | \.\d+
    )
    (?P<exponent>[eE][-+]?\d{1,3})?
    (?P<power>\s?[×x·*]\s?10(?:(?:\^|\*\*)[({]?[-+−]?\d{1,3}[)}]?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?   # × 10⁻¹²
    (?P<unit>\s?%|\s?percent\b|\s?‰|\s?(?:thousand|million|billion|trillion|[kKMB]|bn|mn|Tsd\.|Mio\.?|Mrd\.?)\b)?
    (?![\w]|\.\d)
    (?P<kilo>(?=\s?(?:k(?:g|m|W|Wh|J|B|Pa|Hz|V|N|€|EUR)|T€|TEUR)(?!\w)))?
    """,
    re.VERBOSE,
)
_SCALES = {
    **dict.fromkeys(("thousand", "k", "K", "Tsd."), Decimal(1000)),
    **dict.fromkeys(("million", "M", "mn", "Mio", "Mio."), Decimal(10**6)),
    **dict.fromkeys(("billion", "B", "bn", "Mrd", "Mrd."), Decimal(10**9)),
    "trillion": Decimal(10**12),
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_PERCENT = {"%": Decimal(100), "percent": Decimal(100), "‰": Decimal(1000)}
_JOINED = re.compile(r"\s?(?:to|and|or|bis|und|oder|[-\u2013\u2014,/])\s?")
"""Between numbers that share the unit of the last one."""
_EITHER = re.compile(r"(\d{1,3})([.,])(\d{3})")
"""Thousands in one language, thousandths in another."""


@dataclass(frozen=True)
class Numeral:
    """A number as it is written.

    Attributes:
        text: The number as the text has it, for example `1.2 million`.
        value: Its value; 45 for `45 %`.
        step: The value of one in its last digit: 100,000 for `1.2 million`.
        percent: The value that is one whole: 1, or 100 for per cent.
    """

    text: str
    value: Decimal
    step: Decimal
    percent: Decimal = Decimal(1)


def numerals(text: str) -> Iterable[Numeral]:
    """The numbers in a text, in order. Those of short texts are remembered: each answer is held against all of them."""
    return _read_short(text) if len(text) <= REMEMBERED else _read(text)


def _read(text: str) -> Iterator[Numeral]:
    return (each for match in _NUMBER.finditer(text) if (each := _number(match)) is not None)


@lru_cache(maxsize=1024)
def _read_short(text: str) -> tuple[Numeral, ...]:
    return tuple(_read(text))


def quantities(text: str) -> list[list[Numeral]]:
    """The numbers in a text that say how much something is, each with all its readings, the likeliest first.

    A bound such as `p < 0.05` is left out. In `33 to 52 %` the 33 is per cent too.
    """
    found: list[list[Numeral]] = []
    unit, start = "", -1
    for match in reversed(list(_NUMBER.finditer(text))):
        is_joined = start >= 0 and _JOINED.fullmatch(text, match.end(), start)
        unit, start = match["unit"] or (unit if is_joined else ""), match.start()
        if not match["bound"] and (readings := _readings(match, unit=unit.strip())):
            found.append(readings)
    return found[::-1]


def _readings(match: re.Match[str], *, unit: str) -> list[Numeral]:
    """The readings of a number: `1.234` is another number in German, and 5.1 kg are 5,100 g."""
    found = [_number(match)]
    if unit and not match["unit"]:
        found.append(_number(match, unit=unit))
    if either := _EITHER.fullmatch(match["digits"]):
        # A point was read as one, and a comma as nothing.
        found.append(_number(match, f"{either[1]}{'' if either[2] == '.' else '.'}{either[3]}"))
    if match["kilo"] is not None:
        found += [replace(each, value=each.value * 1000, step=each.step * 1000) for each in found if each is not None]
    return [each for each in found if each is not None]


def _number(match: re.Match[str], digits: str = "", *, unit: str = "") -> Numeral | None:
    """A number as it is written, or as if it were written with these digits or this unit; None if it isn't read."""
    if not digits:
        digits = match["digits"]
        if match["comma"]:
            digits = digits.replace(".", "").replace(",", ".")
    digits = re.sub(r"[,_\u202f\u00a0']", "", digits)
    if len(digits) > MAX_DIGITS:
        return None
    unit = unit or (match["unit"] or "").strip()
    exponent = match["exponent"] or ""
    if match["power"] and not exponent:
        exponent = "e" + re.sub(r"^.*10[\^*({]*|[)}]$", "", match["power"].strip().translate(_RAISED), flags=re.DOTALL)
    try:
        value = Decimal(digits + exponent) * _SCALES.get(unit, Decimal(1))
    except InvalidOperation:
        return None
    _, _, decimals = digits.partition(".")
    step = Decimal(1).scaleb(int((exponent or "e0")[1:]) - len(decimals)) * _SCALES.get(unit, Decimal(1))
    sign = -1 if match["sign"] in ("-", "−") else 1
    written = match[0].removeprefix(match["bound"] or "").strip()
    return Numeral(written, sign * value, step, _PERCENT.get(unit, Decimal(1)))
