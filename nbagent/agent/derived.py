"""Numbers of an answer that no output shows, but that follow from shown ones by one step of arithmetic. Pure.

`29.0 %` may be 54 / 186, of two numbers that the sentence has, that stand in rows which it names, or in one column or
row of one output. Whatever is found is marked as derived, with how and from what, and a person can see whether it is
meant so. By chance, too, something comes out if only enough is tried. So the likeliest is tried first, and what is
tried must stay so little that hardly any other number of as many digits would have come out of it.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from nbagent.agent.numerals import Numeral, quantities
from nbagent.agent.operands import Derivation, Group, Operand, Result, Shown, is_year, phrases_of, single, total_of
from nbagent.agent.prose import NEAR, contradicts_itself, sentences
from nbagent.agent.units import converted, is_unit_of_years, spans, unit_of

T = TypeVar("T")

MAX_TRIED, MAX_AGAIN = 100_000, 3
"""Results and pairs that are tried for one answer, and sentences in which one number is looked for."""
CHANCE, NAMED = 0.05, 0.2
"""The part of all numbers of about the same size and as many digits of which one may come out of what is tried: of
outputs as a whole, and of what the sentence states or names."""
AROUND = 3
"""By which factor numbers of about the same size are smaller or larger."""
MAX_STATED = 8
"""Numbers of a sentence that are added up."""
_RATIO = re.compile(r"[*_`]*\s?(?:times|fold|-fold|x\b|×|-mal|mal\b|: ?1\b)")
"""Behind a number that may be a ratio."""
_VARIES = re.compile(r"(?:coefficient of variation|Variationskoeffizient|\bCV)(?: is| of| von| beträgt)?:?\s[*_`]*$")
_FACTOR = re.compile(rf"(?:factor of|ratio of|ratio is|Faktor|Verhältnis)\s[*_`]*$|{_VARIES.pattern}")
_NOISE = 1e-9
_SQUARE = re.compile(r"\b[Rr](?:²|2|\^2)\s?[=:]?\s?[*_`]*$")
_FIRST = {"two": 2, "three": 3, "four": 4, "five": 5, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5}
_FIRST_OF = re.compile(rf"\b(?:first|top|leading|largest|biggest|ersten|größten) ({'|'.join(_FIRST)})\b")
"""So many at the begin of a column."""
ROUND = 2
"""Significant digits of a limit that somebody chooses."""
_LIMIT = re.compile(
    r"\b(?:(?P<above>more than|over|above|at least|mehr als|über|mindestens)|(?:less|fewer) than|under|below|at most|"
    r"weniger als|unter|höchstens)\s[*_`$€£]*$",
    re.IGNORECASE,
)
"""Before a number beyond which others lie."""
_EXTREMES = (
    re.compile(r"\b(?:larg|high|most|max|top|best|bigg|long|lead|peak|größt|höchst|meist)"),
    re.compile(r"\b(?:small|low|least|min|fewest|short|worst|bottom|kleinst|niedrigst|wenigst)"),
)
"""Words for the largest and the smallest number of a column."""
MAX_SENTENCES = 2_000
"""Sentences with numbers that are read."""
MAX_GROUP, MAX_NAMED = 60, 12
"""Numbers of a column or row of which pairs are made, and those of them that a sentence names."""

DOWN, UP, SHARE, POINTS, RATIO = "down", "up", "share", "points", "ratio"
DIFFERENCE, SUM, REST, MEAN, PER, UNIT = "difference", "sum", "rest", "mean", "per", "unit"
_ASKED = {
    DOWN: r"lower|less|fewer|below|under|f[ae]ll\w*|drop\w*|declin\w*|decreas\w*|down|shr[aiu]nk\w*|smaller|lost|loss|"
    r"reduc\w*|behind|niedriger|weniger|unter|sank|gesunken|gefallen|rückgang|kleiner",
    UP: r"higher|more|above|over|rose|ris[ei]\w*|gr[eo]w\w*|increas\w*|up|gain\w*|larger|greater|"
    r"exceed\w*|better|ahead|"
    r"mehr|höher|über|stieg|gestiegen|zuwachs|größer",
    SHARE: r"of|out|shares?|accounts?|makes?|belong\w*|parts?|portion|proportion|contribut\w*|anteile?|von",
    POINTS: r"points?|punkte?n?|pp",
    DIFFERENCE: r"differ\w*|gap|more|fewer|less|above|below|behind|ahead|apart|spread|range|span|iqr|"
    r"between|lead\w*|than|"
    r"higher|lower|f[ae]ll|rose|drop\w*|left|change[ds]?|removed|excess|remain\w*|mehr|weniger|unterschied\w*",
    SUM: r"together|combined|total\w*|sums?|all|altogether|add\w*|both|overall|plus|come|zusammen|insgesamt|summe",
    REST: r"without|excluding|except|rest|others?|remain\w*|ohne|übrige\w*",
    MEAN: r"mean|average[sd]?|averaging|midpoint|mittel\w*|durchschnitt\w*|schnitt",
    PER: r"per|each|every|apiece|pro|je",
}
_WORDED = {what: re.compile(rf"\b(?:{words})\b") for what, words in _ASKED.items()}
"""By which words a sentence says how a number comes out of others."""


class _Search:
    """What was tried for one number: whether it came out, and how many others of its size and digits would have."""

    def __init__(self, readings: Sequence[Numeral]) -> None:
        self.unit = next((each for each in readings if each.percent > 1), readings[0])
        same = [each for each in readings if each.percent == self.unit.percent and not each.is_scaled]
        sizes = [(abs(float(each.value)), float(each.step)) for each in same]
        # With few digits, whatever comes out is another one by chance.
        self._sizes = [each for each in sizes if 1e-200 < each[1] <= each[0] < 1e200 and _others(*each) * NAMED > 1]
        self._hit = set[tuple[int, int]]()
        self.chance = 0.0 if self._sizes else 1.0

    def take(self, value: float) -> bool:
        """Whether a result is the number, rounded to its digits."""
        is_found = False
        for at, (wanted, step) in enumerate(self._sizes):
            if wanted / AROUND <= value <= wanted * AROUND:
                is_found = is_found or abs(value - wanted) <= step / 2 + wanted * _NOISE
                if (hit := (at, round(value / step))) not in self._hit:
                    self._hit.add(hit)
                    self.chance += 1 / _others(wanted, step)
        return is_found


def _others(value: float, step: float) -> float:
    """How many numbers there are of about the same size and as many digits."""
    return value * (AROUND - 1 / AROUND) / step


def derived(
    prose: str, stated: Mapping[str, Operand], missing: set[str], shown: Sequence[Shown]
) -> dict[str, Derivation]:
    """How those of the missing numbers that follow from shown ones do.

    Args:
        prose: The answer, without what claims nothing.
        stated: What an output shows for each number of the answer that one does.
        missing: The texts of numbers that no output shows.
        shown: The numbers of the outputs, the likeliest first.
    """
    found: dict[str, Derivation] = {}
    budget = iter(range(MAX_TRIED))
    tried = Counter[str]()
    chances: dict[str, float] = {}
    for sentence, lead in itertools.islice(sentences(prose), MAX_SENTENCES):
        numbers = quantities(sentence)
        texts = [readings[0].text for readings in numbers]
        if missing.isdisjoint(texts):
            continue
        operands = [(at, numbers[at][0]) for at, each in enumerate(texts) if each in stated]
        whole = {text: (number, unit) for parts, number, unit in spans(sentence) for text in parts}
        for at, text in enumerate(texts):
            if text in missing and text not in found and tried[text] < MAX_AGAIN:
                tried[text] += 1
                if next(budget, None) is None:
                    return _unlikely(found, chances)
                number, unit = whole.get(text, (None, ""))
                start = sentence.find(text)
                near = sentence[max(0, start - NEAR) : start + NEAR]
                if contradicts_itself(near):
                    continue
                claim = _Claim(_Search([number] if number else numbers[at]), near, lead, text, unit, budget)
                close = itertools.chain([claim.near(operands, at, stated)], (claim.named(each) for each in shown))
                result = _first(claim.search, close, budget, NAMED)
                if result is None and claim.is_asked:
                    result = _first(claim.search, claim.in_outputs(shown), budget, CHANCE)
                before, said = sentence[max(0, start - 30) : start], numbers[max(0, at - 2) : at]
                result = result or _limited(before, float(numbers[at][0].value), said, shown, budget)
                if result is not None:
                    found[text] = result.told()
                chances[text] = min(claim.search.chance, chances.get(text, 1.0), CHANCE)
    return _unlikely(found, chances)


def _limited(
    before: str, value: float, said: Sequence[Sequence[Numeral]], shown: Sequence[Shown], budget: Iterator[int]
) -> Result | None:
    """How a round limit follows from a column of which as many numbers lie beyond it as is said right before.

    Of any other, some column of some output has as many beyond it by chance.
    """
    limit = _LIMIT.search(before)
    if limit is None or float(f"{value:.{ROUND}g}") != value:
        return None
    counts = {each.value for readings in said for each in readings if each.step == 1}
    groups = (group for each in shown for group in each.groups if counts and len(group.operands) <= MAX_GROUP)
    for group, _ in zip(groups, budget, strict=False):
        beyond = sum((each.value > value) is bool(limit["above"]) for each in group.operands)
        if group.are_alike and beyond in counts:
            form = f"a limit of {beyond} among {len(group.operands)} from {{}} to {{}}"
            return Result(value, form, [group.operands[0], group.operands[-1]])
    return None


def _unlikely(found: dict[str, Derivation], chances: Mapping[str, float]) -> dict[str, Derivation]:
    """The derivations that are hardly chance, as many as were tried; or all, if so many of them hardly are."""
    if len(found) * CHANCE >= sum(chances.values()):
        return found
    return {text: how for text, how in found.items() if chances[text] * len(chances) <= CHANCE}


def _first(search: _Search, levels: Iterable[Iterable[Result]], budget: Iterator[int], chance: float) -> Result | None:
    """The first result that is the number, if so little was tried by then that this is hardly chance."""
    for level in levels:
        tried = zip(itertools.takewhile(lambda _: search.chance <= chance, level), budget, strict=False)
        hits = [result for result, _ in tried if search.take(result.value)]
        if hits or search.chance > chance:
            return hits[0] if search.chance <= chance else None
    return None


class _Claim:
    """A number that no output shows, and what its sentence says of how it comes out of others.

    Attributes:
        search: What was tried for it.
        is_asked: Whether words say how it comes out of others, so that it may do so of whole outputs.
    """

    def __init__(self, search: _Search, near: str, lead: str, text: str, unit: str, budget: Iterator[int]) -> None:
        self.search, self._number, self._budget = search, search.unit, budget
        self._phrases, self.is_asked = phrases_of(near), True
        said = f"{lead} {near}".casefold()
        before, _, after = near.partition(text)
        self._extremes = [at for at, words in enumerate(_EXTREMES) if words.search(said)]
        is_ratio = _RATIO.match(after) is not None or _FACTOR.search(before[-40:]) is not None
        self._phrases |= {"std", "mean"} if _VARIES.search(before[-40:]) else set()
        self._is_square, self._beside = _SQUARE.search(before[-20:]) is not None, list[Operand]()
        self._first = _FIRST[found[1]] if (found := _FIRST_OF.search(said)) else 0
        self._unit = unit or unit_of(text, after)
        if self._number.percent > 1:
            asked = {what for what in (SHARE, UP, DOWN, POINTS) if _WORDED[what].search(said)}
            asked |= {UP} if text.startswith("+") else {DOWN} if self._number.value < 0 else set()
            self._asked = {POINTS} if POINTS in asked else asked or {SHARE, UP, DOWN}
        elif unit:
            self._asked = {UNIT}
        elif is_ratio or text.endswith(("x", "×")):
            self._asked = {RATIO}
        else:
            self._asked = {what for what in (DIFFERENCE, SUM, REST, MEAN, PER) if _WORDED[what].search(said)}
            self.is_asked = bool(self._asked or self._unit)
            self._asked = self._asked or {DIFFERENCE, SUM}
            self._asked |= {UNIT} if self._unit and PER not in self._asked else set()

    def near(self, operands: Sequence[tuple[int, Numeral]], at: int, stated: Mapping[str, Operand]) -> Iterator[Result]:
        """What comes out of the numbers that the sentence states: the nearest two, the nearest share, all of them."""
        behind = bisect.bisect([here for here, _ in operands], at)
        before, after = operands[max(0, behind - 2) : behind], operands[behind : behind + 2]
        self._beside = [stated[number.text] for _, number in [*before[-1:], *after[:1]]]
        for pair in (before, after, [*before[-1:], *after[:1]]):
            exact = [stated[number.text] for _, number in pair]
            for two in (exact, [each._replace(number=number) for each, (_, number) in zip(exact, pair, strict=True)]):
                if len(two) == 2:
                    yield from self._of_two(*two)
        if self._is_square:
            yield from (Result(each.value**2, "{}²", [each]) for each in self._beside)
        for _, number in [*before[-1:], *after[:1]]:
            whole = float(number.percent)
            if self._number.percent == number.percent > 1:
                yield Result(whole - abs(float(number.value)), f"{whole:g} % − {{}}", [stated[number.text]])
            if UNIT in self._asked:
                yield from self._in_units(stated[number.text], tens=True)
        several = list(dict.fromkeys(stated[number.text] for _, number in operands))
        if 2 < len(several) <= MAX_STATED and SUM in self._asked:
            yield total_of(Group(several))

    def named(self, shown: Shown) -> Iterator[Result]:
        """What comes out of the numbers of one output whose rows the sentence names."""
        for group in shown.groups if self._extremes or self._first else shown.naming(self._phrases):
            extremes = [group.extremes[at] for at in self._extremes]
            named = list(dict.fromkeys([*group.named(self._phrases), *extremes]))[:MAX_NAMED]
            if not self._first and not 0 < len(named) < len(group.operands) + (len(group.operands) == 2):
                continue
            for one, other in [*itertools.combinations(named, 2), *itertools.product(named, self._beside)]:
                yield from self._of_two(one, other)
            yield from self._parts([*map(single, named), *([total_of(Group(named))] if len(named) > 1 else [])], group)
            if len(named) > 2:
                yield from self._of_all(Group(named))
            if 1 < self._first < len(group.operands) and group.are_alike:
                yield from self._parts([total_of(Group(group.operands[: self._first]))], group)
                yield total_of(Group(group.operands[: self._first]))
        if UNIT in self._asked:
            for each in {each for group in shown.naming(self._phrases) for each in group.named(self._phrases)}:
                yield from self._in_units(each)

    def in_outputs(self, shown: Sequence[Shown]) -> Iterator[Iterator[Result]]:
        """What comes out of whole columns and rows; of single numbers in other units; of any two of a column or row."""
        for each in shown:
            yield itertools.chain.from_iterable(map(self._of_all, self._paid(each.groups)))
        for each in shown if UNIT in self._asked else ():
            yield itertools.chain.from_iterable(map(self._in_units, self._paid(each.operands)))
        for each in shown:
            groups = [group for group in each.groups if len(group.operands) <= MAX_GROUP]
            pairs = itertools.chain.from_iterable(itertools.combinations(group.operands, 2) for group in groups)
            yield itertools.chain(
                itertools.chain.from_iterable(itertools.starmap(self._of_two, self._paid(pairs))),
                itertools.chain.from_iterable(
                    self._parts(map(single, group.operands), group) for group in self._paid(groups)
                ),
            )

    def _paid(self, operands: Iterable[T]) -> Iterator[T]:
        """As many as may still be tried, whatever comes out of them."""
        return (each for each, _ in zip(operands, self._budget, strict=False))

    def _of_two(self, one: Operand, other: Operand) -> Iterator[Result]:
        small, large = sorted((one, other), key=lambda each: abs(each.value))
        low, high, whole = abs(small.value), abs(large.value), float(self._number.percent)
        if whole > 1:
            units = {one.number.percent, other.number.percent}
            if SHARE in self._asked and high:
                yield Result(whole * low / high, "{} / {}", [small, large])
            if UP in self._asked and low:
                yield Result(whole * (high - low) / low, "{} / {} − 1", [large, small])
            if DOWN in self._asked and high:
                yield Result(whole * (high - low) / high, "1 − {} / {}", [small, large])
            if POINTS in self._asked or units != {1}:
                scale = whole if high <= 1 and units == {1} else 1
                yield Result(abs(large.value - small.value) * scale, "{} − {}", [large, small])
        elif RATIO in self._asked or PER in self._asked:
            if low and (PER in self._asked or self._number.value >= 1):
                yield Result(high / low, "{} / {}", [large, small])
            if high and self._number.value < 1:
                yield Result(low / high, "{} / {}", [small, large])
        if whole == 1 and one.number.percent == other.number.percent:
            if is_unit_of_years(self._unit) and is_year(one.number) and is_year(other.number):
                yield Result(high - low + 1, "{} − {} + 1", [large, small])
            if DIFFERENCE in self._asked:
                yield Result(abs(large.value - small.value), "{} − {}", [large, small])
            if SUM in self._asked:
                yield Result(abs(one.value + other.value), "{} + {}", [one, other])
            if MEAN in self._asked:
                yield Result(abs(one.value + other.value) / 2, "({} + {}) / 2", [one, other])

    def _of_all(self, group: Group) -> Iterator[Result]:
        """What comes out of a whole column or row."""
        if self._number.percent > 1 or RATIO in self._asked or not group.are_alike:
            return
        total = total_of(group)
        if SUM in self._asked:
            yield total
        if MEAN in self._asked:
            count = len(group.operands)
            yield Result(total.value / count, f"({total.form}) / {count}", total.operands)
        if DIFFERENCE in self._asked:
            high, low = group.extremes
            yield Result(high.value - low.value, "{} − {}", [high, low])
        if self._number.step == 1:
            ends = [group.operands[0], group.operands[-1]]
            yield Result(len(group.operands), "the number of those from {} to {}", ends)

    def _parts(self, parts: Iterable[Result], group: Group) -> Iterator[Result]:
        """What parts of a whole are, and what they leave of it."""
        total = total_of(group)
        for part in parts if len(group.operands) > 2 and group.are_alike else ():
            if SHARE in self._asked and total.value:
                share, form = float(self._number.percent) * part.value / total.value, part.form
                form = f"({form})" if "+" in form else form
                yield Result(share, f"{form} / ({total.form})", [*part.operands, *total.operands])
            if REST in self._asked:
                form = f"{total.form} − {part.form.replace('+', '−')}"
                yield Result(abs(total.value - part.value), form, [*total.operands, *part.operands])

    def _in_units(self, operand: Operand, *, tens: bool = False) -> Iterator[Result]:
        """A number in the unit that stands behind the claim, if it is in another one."""
        if self._asked == {UNIT}:
            yield Result(abs(operand.value), f"{{}} {self._unit}", [operand])  # in several units, of one
        for value, form in converted(operand.value, self._unit, tens=tens):
            yield Result(abs(value), form, [operand])
