"""Numbers as texts write them: what each says, how precisely, and what else it may mean. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

MAX_DIGITS = 400
"""Digits of a number that is read: for more, a float is infinite, and Python's decimals take time and then raise."""
SHORT = 18
"""Digits of a number below the modulus of Python's hash of numbers: of longer ones, code can choose many with the same.
"""
REMEMBERED = 4096
"""Characters of a text up to which its numbers are remembered."""

_UNITS = (
    "kg|mg|µg|g|t|lbs?|oz|km|cm|mm|nm|µm|m|mi|ft|ha|l|ml|kWh?|MWh?|GWh?|TWh|W|V|A|[kMG]?Hz|ms|s|h|hrs?|d|min|yrs?|mph|px|"
    "[KMGT]i?B|€|EUR|USD|GBP|CHF|°C?|°?F|C|k?Pa|hPa|k?J|dB|mmol|ppm|ppb|x|b"
)
"""Units that may follow a number without a space."""
_NUMBER = re.compile(
    rf"""
    (?<![\w.,])                          # not in the middle of a word, a version or another number
    (?P<bound>[<>≤≥]=?\s?)?
    (?P<sign>[-−+]?)
    (?P<digits>
        (?P<comma>\d{{1,3}}(?:[.\u202f\u00a0]\d{{3}}){{1,6}},\d+                 # 1.234,56
          | 0,\d+ | \d+,(?:\d{{1,2}}|\d{{4,}})(?!\d)                             # 0,125 and 12,3
          | \d{{1,3}}(?:\.\d{{3}}){{2,6}})                                       # 1.234.567
      | \d{{1,3}}(?:[,_\u202f\u00a0'\u2019]\d{{3}}){{1,6}}(?:\.\d+)?                  # 1,234.5 and 1_234.5
      | \d+(?:\.\d+)?                                                            # 1234.5
      | \.\d+
    )
    (?P<part>[\u00bc-\u00be\u2150-\u215e])?                                        # 66\u2154
    (?P<exponent>[eE][-+]?\d{{1,3}})?
    (?P<power>\s?(?:[×x·*]|\\times|\\cdot)\s?10(?:(?:\^|\*\*)[({{]?[-+−]?\d{{1,3}}[)}}]?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{{1,3}})
      | (?<=10)(?:(?:\^|\*\*)[({{]?[-+−]?\d{{1,3}}[)}}]?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{{1,3}}))?                 # × 10⁻¹²
    (?P<unit>\s?\\?%|\s?(?:per\s?cent|percentage\spoints?|pct|pp|Prozent(?:punkten?)?|basis\spoints?|bps|per\smille|Promille)\b|\s?‰
      | \s?(?:thousand|million|billion|trillion|[kKMB]|bn|mn|Tsd\.|Mio\.?|Mrd\.?)(?!\w)
      | \sm(?=\s(?:€|\$|£|EUR|USD|GBP|CHF)))?
    (?:(?=\s?(?P<prefix>T(?=(?P<thousands>€|EUR)(?!\w))|t(?!\w)|[kMGT](?=(?:g|m|t|W|Wh|J|B|Pa|Hz|V|N|€|EUR)(?!\w))
        |(?:kilo|mega|giga|tera)(?=(?:byte|watt|joule|met(?:er|re)|gram|tonne)s?(?!\w))|[mµ](?=(?:s|g|m|V|A|W)(?!\w)))))?
    (?: (?P<glued>{_UNITS})(?!\w) | (?!\w|\.\d) )
    """,
    re.VERBOSE,
)
_STATES = re.compile(
    r"(?:\b(?:is|was|are|were|equals?|totals?|ist|war|sind|waren|beträgt|betrug)|\w[*_`)]*\s?[=:])"
    r"\s(?:exactly |only )?[*_`]*$"
)
_ENDS = re.compile(r"[*_`]*\s*(?:[.;!?)](?!\d)|\n|$)")
_COUNTS = re.compile(r"\b(?:[Tt]here (?:are|were)|[Ee]s gibt|[Ee]s gab) (?:exactly |only )?[*_`]*$")
_OF_WORDS = re.compile(
    r"[*_`]*\s(?:\w+\s)?(?:caveat|reading|reason|way|interpretation|option|thing|point|note|step|definition|case|question|more)"
)
_MEASURED = re.compile(rf"[*_`]*\s(?:{_UNITS}|days?|hours?|years?|minutes?|seconds?|dollars?|euros?|degrees?)(?!\w)")
"""By what stands around a small whole number it is known to be a result, and no word: before it, behind it."""
_HEDGES = re.compile(
    r"(?:(?P<over>over|more than|at least|above|über|mehr als|mindestens|[>≥]=?)|"
    r"(?P<under>under|less than|fewer than|at most|up to|below|unter|weniger als|höchstens|[<≤]=?)|"
    r"about|around|roughly|approximately|approx\.|nearly|almost|some|circa|ca\.|etwa|rund|ungefähr|knapp|fast|environ|[~≈])"
    r"\s?[*_`]*[$€£]?$",
    re.IGNORECASE,
)
"""Words before a number that is rounded to its last digit that isn't zero, or that lies beside it."""
_SCALES = {
    **dict.fromkeys(("thousand", "k", "K", "Tsd."), Decimal(1000)),
    **dict.fromkeys(("million", "M", "m", "mn", "Mio", "Mio."), Decimal(10**6)),
    **dict.fromkeys(("billion", "B", "bn", "Mrd", "Mrd."), Decimal(10**9)),
    "trillion": Decimal(10**12),
}
_CURRENCY = re.compile(r"\s?(?:[€$£]|EUR|USD|GBP|CHF)")
_POWER = re.compile(
    r"(?P<times>(?:[×x·*]|\\times|\\cdot)\s?10)?(?:\^|\*\*)?[({]?(?P<by>[-+−⁻⁺]?[\d⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})[)}]?"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_PREFIXES = {"t": 3, "k": 3, "M": 6, "G": 9, "T": 12, "kilo": 3, "mega": 6, "giga": 9, "tera": 12, "m": -3, "µ": -6}
"""The powers of ten that are before units; a `t` is a thousand kg."""
_OTHERS = re.compile(
    r"\b(?:[Oo]thers?|[Rr]emain\w{2,5}|[Rr]est|[Üü]brigen?|[Rr]estlichen)\s(?:of\s\w+\s|are\s|is\s)?[*_`(]*$"
)
"""Before a share that is what others leave of the whole."""
_PERCENT = {
    **dict.fromkeys(("‰", "per mille", "Promille"), Decimal(1000)),
    **dict.fromkeys(("bps", "basis point", "basis points"), Decimal(10_000)),
}
"""The value that is one whole, by a unit that is neither per cent nor a scale."""
_JOINED = re.compile(r"\s?(?:to|and|or|bis|und|oder|[-\u2013\u2014,/])\s?")
"""Between numbers that share the unit of the last one."""
_POINTS = re.compile(r"\s(?:points?|Punkten?)\b")
"""Behind a number that may be a difference of shares."""
_EITHER = re.compile(r"(\d{1,3})([.,])(\d{3})")
"""Thousands in one language, thousandths in another."""


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SAID = {
    **{word: number for number, word in enumerate(_ONES)},
    **{word: 10 * number for number, word in enumerate(_TENS, start=2)},
}
_POWERS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORDS = re.compile(
    rf"\b(?:{'|'.join(_SAID)})\b(?>(?:(?:\s|-|\sand\s)(?:{'|'.join((*_SAID, *_POWERS))})\b)*)", re.IGNORECASE
)
_GOES_ON = re.compile(r"-?(?:first|second|third|\w{3,8}th\b|[a-z])", re.IGNORECASE)
"""Behind words that are part of a longer one, or of another number: twenty-first, two-thirds, one-sided."""
_LAST = re.compile(r"(?:\sand)?\s\S+\Z", re.IGNORECASE)
"""The last of several words, with the others that a hyphen joins with it."""
MOST_WORDS = 12
"""What is said in one word up to this number is mostly no result."""


def in_digits(text: str) -> str:
    """A text whose English numbers in words stand in digits, if they are larger than `MOST_WORDS`."""

    def whole(found: re.Match[str]) -> str:
        words = found[0]
        if _GOES_ON.match(text, found.end()):
            cut = _LAST.search(words)
            words = words[: cut.start()] if cut else ""
        return (_in_digits(words) if words else "") + found[0][len(words) :]

    return _WORDS.sub(whole, text)


def _in_digits(words: str) -> str:
    whole = part = last = 0
    for word in re.split(r"[\s-]+(?:and\s+)?", words.lower()):
        power = _POWERS.get(word, 0)
        if not power and word not in _SAID:
            return words  # with a letter of others that only looks like one of ours
        if not power and last and not (_SAID[word] < 10 and last % 10 == 0 and last > 10):
            return words  # nineteen ninety-five, fifty-fifty
        if power == 100:
            part *= power
        elif power:
            whole, part = whole + part * power, 0
        else:
            part += _SAID[word]
        last = 0 if power else _SAID[word]
    value = whole + part
    if value <= MOST_WORDS:
        return words
    return f"about {value}" if value % 100 == 0 else str(value)


class LongNumber(Decimal):
    """A number of many digits that is found among others by its text, of which nobody can choose the hash.

    Sets of numbers with the same hash would take time as their size squared.
    """

    def __hash__(self) -> int:
        return hash(str(self.normalize()))

    def __abs__(self) -> LongNumber:
        return LongNumber(super().__abs__())


def findable(value: Decimal) -> Decimal:
    """A number as it can be put into sets, whoever chose it."""
    return LongNumber(value) if len(value.normalize().as_tuple().digits) > SHORT else value


_LISTED = re.compile(r"(?:\S|^),\d")
_FIELDS, _THOUSANDS = re.compile(r"[^\s\d],\S|\S,[^\s\d]"), re.compile(r"(?<![\d.,])\d{1,3},\d{3}(?![\d,])")
"""Commas between fields; and numbers that are none of two fields where no other comma is between such."""
SPACED = re.compile(r"(?<![\w.,])(?<![^\W\d]-)(?!0)\d{1,3}(?: \d{3})+(?![\w]|[.,]\d{3})")
"""A number whose thousands are parted by spaces, or several numbers; none that begins as the end of a code, `B-02`."""


_COMPACT = re.compile(r"(?<![\w.,-])((?:19|20)\d\d)(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?![\w,]|\.\d)")
"""A date of eight digits."""
_NEXT = re.compile(
    r"(?<=\d)(?=\s(?:per\s?cent|percentage|pct|pp|Prozent|bps|basis|thousand|million|billion|[kKMB]|[mb]n|Mio|Mrd|Tsd)\b[^\d\n]{1,20}\d)"
)
"""Where what may be a unit begins, or names the next number: `loss 1871 percent 18.72`."""


def ways(text: str) -> list[str]:
    """A text as it is; without commas and spaces in or between numbers; with units as names; with years of dates."""
    found = [text]
    if _LISTED.search(text):
        whole = text if _FIELDS.search(text) else _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
        found.append(whole.replace(",", " "))
    if _NEXT.search(text):
        found.append(_NEXT.sub(" |", text))
    if SPACED.search(text):
        found.append(SPACED.sub(lambda number: number[0].replace(" ", ""), text))
    if _COMPACT.search(text):
        found.append(_COMPACT.sub(r"\1", text))
    return found


@dataclass(frozen=True)
class Numeral:
    """A number as it is written.

    Attributes:
        text: The number as the text has it, for example `1.2 million`.
        value: Its value; 45 for `45 %`.
        step: The value of one in its last digit: 100,000 for `1.2 million`.
        percent: The value that is one whole: 1, or 100 for per cent.
        is_scaled: Whether it is read as one of a column that is in thousands or millions.
        is_result: Whether the words around it say that it was found out, so that a small one is no mere word.
    """

    text: str
    value: Decimal
    step: Decimal
    percent: Decimal = Decimal(1)
    is_result: bool = False
    is_scaled: bool = False


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

    A bound of a probability such as `p < 0.05` is left out. In `33 to 52 %` the 33 is per cent too.
    """
    found: list[list[Numeral]] = []
    unit, start = "", -1
    for match in reversed(list(_NUMBER.finditer(text))):
        is_joined = start >= 0 and _JOINED.fullmatch(text, match.end(), start)
        unit, start = match["unit"] or (unit if is_joined else ""), match.start()
        readings = _readings(match, unit=unit.strip())
        if readings and not (match["bound"] and abs(readings[0].value) <= readings[0].percent):
            found.append([replace(each, is_result=_is_result(match)) for each in readings])
    return found[::-1]


def _is_result(match: re.Match[str]) -> bool:
    before, after = (
        match.string[max(0, match.start() - 30) : match.start()],
        match.string[match.end() : match.end() + 40],
    )
    if match["glued"] or before.endswith(("$", "€", "£")) or _MEASURED.match(after):
        return True
    if _COUNTS.search(before):
        return not _OF_WORDS.match(after)
    return bool(_STATES.search(before) and _ENDS.match(after))


def _readings(match: re.Match[str], *, unit: str) -> list[Numeral]:
    """The readings of a number: `1.234` is another number in German, 5.1 kg are 5,100 g, and 1.2m may be millions."""
    found = [_number(match)]
    if unit and not match["unit"]:
        found.append(_number(match, unit=unit))
    elif unit == "‰":
        found.append(_number(match, unit=" "))  # per 1,000, of which the rate may be shown
    elif not unit and _POINTS.match(match.string, match.end()):
        found.append(_number(match, unit="%"))
    if either := _EITHER.fullmatch(match["digits"]):
        # A point was read as one, and a comma as nothing.
        found.append(_number(match, f"{either[1]}{'' if either[2] == '.' else '.'}{either[3]}"))
    if match["glued"] in ("m", "b"):
        found.append(_number(match, unit={"m": "million", "b": "billion"}[match["glued"]]))
    readings = [each for each in found if each is not None]
    factors = _prefixed(match)
    readings += [replace(each, value=each.value * by, step=each.step * by) for by in factors for each in readings]
    scale = _SCALES.get((match["unit"] or "").strip())
    if scale and (_CURRENCY.match(match.string, match.end()) or _is_long(readings)):  # of a column in k€ or in millions
        readings += [
            replace(each, value=each.value / scale, step=each.step / scale, is_scaled=match["unit"] != " K")
            for each in readings  # 273 K are kelvins
        ]
    before = match.string[max(0, match.start() - 20) : match.start()] + (match["bound"] or "")
    if _OTHERS.search(before):
        readings += [replace(each, value=each.percent - each.value) for each in readings if each.percent > 1]
    if hedge := _HEDGES.search(before):
        side = 1 if hedge["over"] else -1 if hedge["under"] else 0
        readings += [_rough(each, side=side) for each in readings]
    return readings


def _prefixed(match: re.Match[str]) -> list[Decimal]:
    """By how much a number is larger in the units of which its own is made: 1.2 MB are 1,200 kB."""
    prefix = match["prefix"] or ""
    power = 3 if prefix == "T" and match["thousands"] is not None else _PREFIXES.get(prefix, 0)
    powers = range(3, power + 1, 3) if power > 0 else (power,) if power else ()
    return [Decimal(1).scaleb(each) for each in powers]


def _is_long(readings: Sequence[Numeral]) -> bool:
    """Whether a number has three significant digits, so that hardly another one is the same by chance."""
    return bool(readings) and len(readings[0].value.normalize().as_tuple().digits) > 2


def _rough(number: Numeral, *, side: int) -> Numeral:
    """A number that is rounded to its last digit that isn't zero; on one side of it, the middle of what it may be."""
    zeros = number.value.normalize().as_tuple().exponent
    if not number.value or not isinstance(zeros, int):
        return number
    step = max(number.step, min(Decimal(1).scaleb(zeros), abs(number.value) / 5))
    return replace(number, value=number.value + side * step / 2, step=step)


def _number(match: re.Match[str], digits: str = "", *, unit: str = "") -> Numeral | None:
    """A number as it is written, or as if it were written with these digits or this unit; None if it isn't read."""
    if not digits:
        digits = match["digits"]
        if match["comma"]:
            digits = digits.replace(".", "").replace(",", ".")
    digits = re.sub(r"[,_\u202f\u00a0'\u2019]", "", digits)
    if len(digits) > MAX_DIGITS:
        return None
    if match["part"] and digits.isdigit():
        digits = f"{Decimal(digits) + Decimal(unicodedata.numeric(match['part'])):.2f}"
    unit = " ".join((unit or match["unit"] or "").split())
    exponent = match["exponent"] or ""
    if match["power"] and not exponent and (power := _POWER.fullmatch(match["power"].strip())):
        by = f"e{power['by'].translate(_RAISED)}"
        if power["times"]:
            exponent = by
        elif digits == "10":
            digits, exponent = "1", by
    try:
        value = Decimal(digits + exponent) * _SCALES.get(unit, Decimal(1))
    except InvalidOperation:
        return None
    _, _, decimals = digits.partition(".")
    step = Decimal(1).scaleb(int((exponent or "e0")[1:]) - len(decimals)) * _SCALES.get(unit, Decimal(1))
    sign = -1 if match["sign"] in ("-", "−") else 1
    written = match[0].removeprefix(match["bound"] or "").strip()
    whole = Decimal(1) if not unit or unit in _SCALES else _PERCENT.get(unit, Decimal(100))
    return Numeral(written, findable(sign * value) if len(digits) > SHORT else sign * value, step, whole)
