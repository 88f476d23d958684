"""Numbers of an answer that follow from two others beside them in a sentence: `54 of 186 rows (29.0 %)`. Pure.

Nobody needs a cell for what a reader reckons in the head. Only the nearest numbers that outputs show are tried, and
only what the words ask for, so that hardly a number that was made up comes out by chance.
"""

from __future__ import annotations

import bisect
import re
import string
from collections.abc import Iterator, Mapping
from decimal import Decimal

from nbagent.agent.numerals import Numeral, quantities

MAX_TRIED = 1_000
"""Numbers that are tried for one answer."""
_SENTENCE = re.compile(r"\n|[;!?]\s|(?<![\s.(]\w)\.\s")
_RATIO = re.compile(r"[*_`]*\s?(?:times|fold|-fold|x\b|×|-mal|mal\b|: ?1\b)")
"""Behind a number that may be a ratio."""
_FACTOR = re.compile(r"(?:factor of|ratio of|ratio is|Faktor|Verhältnis)\s[*_`]*$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800, "mo": 2_629_800, "y": 31_557_600}
"""Of a unit of time, by how it begins."""
_TIME = re.compile(
    r"(?<![\w.,])(\d[\d,]{0,12}(?:\.\d{1,6})?)[\s-]?((?:s|m|h|d|w|mo|y)(?:ec|in|r|onth|inute|econd|our|ay|eek|ear)?s?)\b[*_`]*"
)
"""A number with a unit of time."""
_AND = re.compile(r",?\s?(?:and\s)?[*_`]*")
_CALENDAR = {"mo": Decimal("0.015"), "y": Decimal("0.002")}
"""By which part a month or a year may be taken for longer or shorter."""
_NOISE = Decimal("1e-9")


def reckoned(prose: str, shown: Mapping[str, Decimal], missing: set[str]) -> set[str]:
    """Those of the missing numbers that are the difference, sum, share, change or ratio of two that are shown.

    Args:
        prose: The answer, without what claims nothing.
        shown: The value that an output shows for each number of the answer.
        missing: The texts of numbers that no output shows.
    """
    found: set[str] = set()
    tried = 0
    for sentence in _SENTENCE.split(prose) if missing and shown else ():
        read = quantities(sentence) if any(each in sentence for each in missing) else []
        numbers = [[each for each in readings if not each.is_scaled] for readings in read]
        if numbers and tried < MAX_TRIED:
            tried += 1
            found |= _spans(sentence, shown) & missing
        operands = [at for at, each in enumerate(numbers) if each[0].text in shown]
        for at, readings in enumerate(numbers):
            if readings[0].text not in missing or tried >= MAX_TRIED:
                continue
            tried += 1
            behind = bisect.bisect(operands, at)
            before, after = operands[max(0, behind - 2) : behind], operands[behind : behind + 2]
            pairs = [each for each in (before, after, [*before[-1:], *after[:1]]) if len(each) == 2]
            is_ratio = _is_ratio(sentence, readings[0].text)
            for one, other in ((numbers[pair[0]][0], numbers[pair[1]][0]) for pair in pairs):
                stated = one.value, other.value
                exact = shown[one.text], shown[other.text]
                units = {one.percent, other.percent}
                if any(_follows(each, two, units, is_ratio=is_ratio) for each in readings for two in (stated, exact)):
                    found.add(readings[0].text)
    return found


def _spans(sentence: str, shown: Mapping[str, Decimal]) -> set[str]:
    """The numbers of a sentence that say a span of time, such as `2 h 43 min`, of which it also says a shown one."""
    spans: list[list[tuple[str, Decimal, Decimal]]] = []  # of each number its seconds, and by what it may be off
    end = -1
    for match in _TIME.finditer(sentence):
        unit = "mo" if match[2].startswith("mo") else match[2][0]
        size = Decimal(_SECONDS[unit])
        value = Decimal(match[1].replace(",", ""))
        off = size * Decimal(1).scaleb(-len(match[1].partition(".")[2])) / 2
        off += size * value * _CALENDAR.get(unit, Decimal(0))
        goes_on = spans and spans[-1][-1][1] >= size and _AND.fullmatch(sentence, end, match.start())
        if match[2] == "ms" or (match[2] == "m" and not goes_on):
            continue  # milliseconds, and perhaps metres
        if not goes_on:
            spans.append([])
        spans[-1].append((match[0].rstrip("*_`"), value * size, off))
        end = match.end()
    whole = [(each, sum((size for _, size, _ in each), Decimal(0)), each[-1][2]) for each in spans[:20]]
    said = [(each, size) for each, size, _ in whole if all(_told(text) & shown.keys() for text, _, _ in each)]
    return {
        number
        for span, size, step in whole
        for other, known in said
        if span is not other and abs(size - known) <= step
        for text, _, _ in span
        for number in _told(text)
    }


def _told(text: str) -> set[str]:
    """A number with a unit of time, as an answer's numbers are written: with the unit or without it."""
    return {text, *(each[0].text for each in quantities(text)), text.rstrip(string.ascii_lowercase).rstrip(" -")}


def _is_ratio(sentence: str, text: str) -> bool:
    """Whether the words around a number say that it is one of two others' ratio."""
    before, _, after = sentence.partition(text)
    is_told = _RATIO.match(after) is not None or _FACTOR.search(before[-30:]) is not None
    return is_told or text.endswith(("x", "×"))


def _follows(claimed: Numeral, two: tuple[Decimal, Decimal], units: set[Decimal], *, is_ratio: bool) -> bool:
    """Whether a number comes out of two others, rounded to its digits."""
    if abs(claimed.value) < 10 * claimed.step:
        return False  # one digit comes out by chance
    wanted, near = abs(claimed.value), claimed.step / 2 + abs(claimed.value) * _NOISE
    return any(abs(each - wanted) <= near for each in _results(claimed, two, units, is_ratio=is_ratio))


def _results(
    claimed: Numeral, two: tuple[Decimal, Decimal], units: set[Decimal], *, is_ratio: bool
) -> Iterator[Decimal]:
    small, large = sorted(map(abs, two))
    if claimed.percent > 1:
        if units != {Decimal(1)}:
            yield large - small
        if small:
            yield from (
                claimed.percent * each for each in (small / large, (large - small) / small, (large - small) / large)
            )
    elif is_ratio:
        if small:
            yield large / small
    elif len(units) == 1:
        yield from (large - small, abs(two[0] + two[1]))
