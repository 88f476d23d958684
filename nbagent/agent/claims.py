"""Numbers that an answer claims, and the outputs in which they stand. Pure: no kernel, no LangChain, no model.

A number is supported where an output shows it, or one that rounds to it as the answer writes it: `12.3` by 12.3456,
`45 %` by 0.4512, `1.2 million` by 1,234,567. What the question, the code or the description of the data said is no
claim of the answer's. Where nothing supports a number, the answer is to be looked at again.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from nbagent.agent.view import start_of_json, text_of_html
from nbagent.core.events import Claim
from nbagent.core.text import plain

MAX_NUMBERS = 50_000
"""Numbers that are read of the outputs of a conversation, the latest first."""
MAX_CLAIMS = 500
MAX_LOOKED = 5_000
"""Different numbers of an answer that are looked for."""
MAX_DIGITS = 400
"""Of a number that is one: beyond that a float is infinite, and Python's decimals take time and then raise."""
REMEMBERED = 4096
"""Characters of a text whose numbers are remembered."""
MAX_NEAR = 1000
"""Numbers that are looked at for one claim."""
SMALL = 10
"""Whole numbers from -1 up to this are mostly words: the first, two of them, a top 10, a scale from -1 to 1."""

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
_PERCENT = {"%": Decimal(100), "percent": Decimal(100), "‰": Decimal(1000)}
_CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LABELS = re.compile(r"(?m)^\s{0,6}(?:#{1,6}\s+)?\d{1,3}[.)]\s")
"""The numbers of a list."""
_LISTED = re.compile(r"\d,\d")
_DATES = re.compile(r"\b\d{4}-\d{1,2}(?:-\d{1,2})?\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}:\d{2}(?::\d{2})?\b")
_LEVELS = re.compile(
    r"\b\d+(?:[.,]\d+)?[\s-]?%[\s-]{0,2}(?:(?:CI|KI|IC)\b|[Cc]onf|[Kk]onf|[Vv]ertrau|[Ss]ignif|level|[Nn]iveau)"
    r"|(?:\u03b1|\balpha|\blevel of|[Nn]iveau von)\s{0,2}=?\s{0,2}\d+(?:[.,]\d+)?(?:\s?%)?"
)
"""The levels of tests and intervals, which are agreed on, not found out."""
_JOINED = re.compile(r"\s?(?:to|and|or|bis|und|oder|[-\u2013\u2014,/])\s?")
"""Between numbers that share the unit of the last one."""
_EITHER = re.compile(r"(\d{1,3})([.,])(\d{3})")
"""Thousands in one language, thousandths in another."""
_NAMES = re.compile(
    r"/[\w./-]+|\b\w+\.(?:csv|json|png|py|parquet|xlsx|txt|ipynb)\b|\b[Cc]ells?\s+\d+|\bIn ?\[\d+\]"
    r"|\b(?:Python|[Vv]ersion|v\.?)\s?\d+(?:\.\d+)+"
)


@dataclass(frozen=True)
class Number:
    """A number as it is written.

    Attributes:
        text: As it stands there, for example `1.2 million`.
        value: What it means, per cent as written.
        step: The value of one in its last digit: 100,000 for `1.2 million`.
        percent: What stands for one whole: 1, or 100 for per cent.
    """

    text: str
    value: Decimal
    step: Decimal
    percent: Decimal = Decimal(1)


def numbers(text: str) -> Iterable[Number]:
    """The numbers in a text, in order. Short texts are remembered: each answer is held against all of them."""
    return _remembered(text) if len(text) <= REMEMBERED else _found(text)


def _found(text: str) -> Iterator[Number]:
    return (each for match in _NUMBER.finditer(text) if (each := _number(match)) is not None)


@lru_cache(maxsize=1024)
def _remembered(text: str) -> tuple[Number, ...]:
    return tuple(_found(text))


def _claimed(text: str) -> list[list[Number]]:
    """Those that say how much something is, each as all that it may mean.

    `p < 0.05` names a bound, which need not stand anywhere. In `33 to 52 %` the 33 is per cent too.
    """
    found: list[list[Number]] = []
    unit, start = "", -1
    for match in reversed(list(_NUMBER.finditer(text))):
        is_joined = start >= 0 and _JOINED.fullmatch(text, match.end(), start)
        unit, start = match["unit"] or (unit if is_joined else ""), match.start()
        if not match["bound"] and (readings := _readings(match, unit=unit.strip())):
            found.append(readings)
    return found[::-1]


def _readings(match: re.Match[str], *, unit: str) -> list[Number]:
    """What a number may mean, the likeliest first: `1.234` is another one in German, and 5.1 kg are 5,100 g.

    Args:
        match: The number.
        unit: Its own, or that of the number which it is joined with.
    """
    found = [_number(match)]
    if unit and not match["unit"]:
        found.append(_number(match, unit=unit))
    if either := _EITHER.fullmatch(match["digits"]):
        # A point was read as one, and a comma as nothing.
        found.append(_number(match, f"{either[1]}{'' if either[2] == '.' else '.'}{either[3]}"))
    if match["kilo"] is not None:
        found += [replace(each, value=each.value * 1000, step=each.step * 1000) for each in found if each is not None]
    return [each for each in found if each is not None]


def _number(match: re.Match[str], digits: str = "", *, unit: str = "") -> Number | None:
    """What a number says, or would if it were written with these digits, or with this unit."""
    if not digits:
        digits = match["digits"]
        if match["comma"]:
            digits = digits.replace(".", "").replace(",", ".")
    digits = re.sub(r"[,_\u202f\u00a0']", "", digits)
    if len(digits) > MAX_DIGITS:
        return None
    unit = unit or (match["unit"] or "").strip()
    try:
        value = Decimal(digits + (match["exponent"] or "")) * _SCALES.get(unit, Decimal(1))
    except InvalidOperation:
        return None
    _, _, decimals = digits.partition(".")
    step = Decimal(1).scaleb(int((match["exponent"] or "e0")[1:]) - len(decimals)) * _SCALES.get(unit, Decimal(1))
    sign = -1 if match["sign"] in ("-", "−") else 1
    written = match[0].removeprefix(match["bound"] or "").strip()
    return Number(written, sign * value, step, _PERCENT.get(unit, Decimal(1)))


def claims(
    answer: str, outputs: Mapping[int, Sequence[Mapping[str, Any]]], *, given: Iterable[str] = (), data: bool = True
) -> list[Claim]:
    """The numbers that an answer claims, each with the output in which it stands.

    Args:
        answer: The answer's text, which may be Markdown.
        outputs: nbformat outputs by the number of their cell.
        given: Texts whose numbers are nobody's claim: the question, the code that ran, what was said of the data.
        data: Whether there are any. An answer without data and without outputs tells what is generally known; there
            only numbers of more than two digits, which nobody knows by heart, are claims.

    Returns:
        One claim for each different number, in order; the latest cell that shows it is named.
    """
    told = _Shown((each, 0, -1) for text in given for each in numbers(text))
    shown = _Shown(_places(outputs))
    found: dict[str, Claim] = {}
    looked: set[str] = set()
    is_general = not data and not outputs
    for readings in _claimed(_prose(answer)):
        text = readings[0].text
        if text in looked:
            continue
        if len(found) >= MAX_CLAIMS or len(looked) >= MAX_LOOKED:
            break
        looked.add(text)
        place = shown.find_any(readings, exactly=True)
        if place is None and told.find_any(readings) is None:
            place = shown.find_any(readings)
            if place is None and not (_is_word(readings[0]) or (is_general and _is_short(readings[0]))):
                found[text] = Claim(text=text)
        if place is not None:
            found[text] = Claim(text=text, cell=place[1], output=place[2], shown=place[0].text)
    return list(found.values())


def _prose(answer: str) -> str:
    """An answer without what claims nothing by its numbers: code, dates, names of files, the numbers of a list."""
    text = plain(answer)
    for pattern in (_CODE, _LABELS, _DATES, _NAMES, _LEVELS):
        text = pattern.sub(" ", text)
    return text


def _is_word(number: Number) -> bool:
    """Whether it says no more than a word would."""
    return number.percent == 1 and number.step == 1 and -1 <= number.value <= SMALL


def _is_short(number: Number) -> bool:
    """Whether it has at most two digits that mean something, such as 0.05, 95 % or 1.2 million."""
    return len(number.value.normalize().as_tuple().digits) <= 2


_Place = tuple[Number, int, int]


class _Shown:
    """Numbers with their places, the most wanted first, to be found by what they round to."""

    def __init__(self, places: Iterable[_Place]) -> None:
        self._places = list(itertools.islice(places, MAX_NUMBERS))
        self._order = sorted(range(len(self._places)), key=self._size)
        self._sizes = [self._size(each) for each in self._order]

    def _size(self, index: int) -> float:
        return abs(float(self._places[index][0].value))

    def find_any(self, readings: Sequence[Number], *, exactly: bool = False) -> _Place | None:
        """The first that is what one of the readings says, the likeliest reading first."""
        places = (self.find(each, exactly=exactly) for each in readings)
        return next((place for place in places if place is not None), None)

    def find(self, claimed: Number, *, exactly: bool = False) -> _Place | None:
        """The first that is what a claim says: exactly, or as precise as it is shown."""
        # A share that is shown as 0.4512 is claimed as 45 %, and a column of percentages has no sign at each number.
        scales = {Decimal(1), Decimal(1) / claimed.percent, Decimal(100)}
        hits = [hit for scale in scales for hit in self._near(claimed, scale, exactly=exactly)]
        return self._places[min(hits)] if hits else None

    def _near(self, claimed: Number, scale: Decimal, *, exactly: bool) -> list[int]:
        """Those that a claim may be made of: its size times a scale. A fall is often told without its sign."""
        wanted, half = abs(claimed.value) * scale, Decimal(0) if exactly else claimed.step * scale / 2
        first = bisect.bisect_left(self._sizes, float(wanted - half) * (1 - 1e-12))
        last = bisect.bisect_right(self._sizes, float(wanted + half) * (1 + 1e-12))
        return [
            at
            for at in self._order[first : min(last, first + MAX_NEAR)]
            if _says(self._places[at][0], claimed, wanted=wanted, half=half, scale=scale)
        ]


def _says(shown: Number, claimed: Number, *, wanted: Decimal, half: Decimal, scale: Decimal) -> bool:
    # Other scales are for per cent only, on one of the two sides.
    if scale != 1 and scale * claimed.percent != shown.percent:
        return False
    # A fall may be told without its sign, but not a rise as a fall.
    if claimed.value < 0 < shown.value:
        return False
    size = abs(shown.value)
    other_sign = scale == 1 and shown.percent != claimed.percent
    # That 5.46, which has no sign, is meant by "5 %" takes more than one digit in common.
    if other_sign and (shown.percent != 1 or (size != wanted and wanted < 10 * claimed.step)):
        return False
    return abs(size - wanted) <= half if shown.step <= claimed.step * scale else size == wanted


def _places(outputs: Mapping[int, Sequence[Mapping[str, Any]]]) -> Iterator[_Place]:
    """The numbers of all outputs with their places, the latest first."""
    for cell in sorted(outputs, reverse=True):
        for index, output in reversed(list(enumerate(outputs[cell]))):
            text = _text(output)
            # A comma stands within a number, or between two.
            parts = numbers(text.replace(",", " ")) if _LISTED.search(text) else ()
            for number in itertools.chain(numbers(text), parts):
                yield number, cell, index


def _text(output: Mapping[str, Any]) -> str:
    """What an output says in words; an error's words are no result."""
    if output.get("output_type") == "stream":
        text = output.get("text", "")
        return plain("".join(text) if isinstance(text, list) else str(text))
    data = output.get("data", {})
    for mime in ("text/plain", "text/markdown", "text/latex", "text/html"):
        if mime in data:
            text = "".join(map(str, data[mime])) if isinstance(data[mime], list) else str(data[mime])
            return text_of_html(text) if mime == "text/html" else plain(text)
    return plain(start_of_json(data["application/json"])) if "application/json" in data else ""
