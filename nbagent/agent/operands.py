"""The numbers that outputs show as an answer may reckon with them: in rows and columns, with their names. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from nbagent.agent.numerals import Numeral, numerals

MAX_OUTPUTS, MAX_TEXT, MAX_OPERANDS = 30, 20_000, 4_000
"""Outputs that are read, characters of each, and numbers of all, of the first ones first."""
MAX_ALONE = 12
"""Numbers that are alone in their outputs."""
MAX_NAME = 60
"""Characters of a name in an output."""
YEARS = 1500, 2199
"""Whole numbers that are years rather than numbers of things, beside others."""
MAX_WORDS = 5
"""Words of such a name."""
_PARTS = re.compile(r"[^\w\s.&/+-]|\s{2,}|\t")
"""What stands between the names in a row."""
_NESTED = re.compile(r"""(?=['"][^"'{}]{1,60}['"]:\s?[{\[])|(?<=[}\]])""")
"""Where what is in a dictionary or a list begins and ends."""
_WORDS = re.compile(r"\w+")
_KEY = re.compile(r"""['"]?\s?[:=]\s?['"]?""")
"""Between a number that is a name, and its value."""
_SHARE = re.compile(r"[\s│|]*\d{1,2}(?:\.\d+)?%[\s┆|]+")
"""The name of a quantile, which begins its row."""


def words_of(text: str) -> str:
    """A text as nothing but words."""
    return " ".join(_WORDS.findall(text.casefold()))


def phrases_of(text: str) -> set[str]:
    """All that up to `MAX_WORDS` words of a text say, one after the other, as `words_of` has it."""
    words = words_of(text).split()
    return {" ".join(words[at : at + size]) for size in range(1, MAX_WORDS + 1) for at in range(len(words) - size + 1)}


class Operand(NamedTuple):
    """A number with which an answer may reckon.

    Attributes:
        number: The number as an output shows it.
        cell: The output's cell.
        names: What stands before it in its row, each as `words_of` has it.
    """

    number: Numeral
    cell: int
    names: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """Its value, to reckon with."""
        return float(self.number.value)

    @property
    def text(self) -> str:
        """It as a formula has it."""
        return " ".join(self.number.text.split())[:MAX_NAME]


class Group:
    """The numbers of a column or a row: those that are counted, added up and compared.

    Attributes:
        operands: The numbers, two or more.
        are_alike: Whether they may be numbers of one kind, which can be added up: so they are in a column.
        total: Their sum.
        extremes: The largest and the smallest of them.
    """

    def __init__(self, operands: Sequence[Operand], *, is_row: bool = False) -> None:
        self.operands = operands
        self.are_alike = not is_row or _are_alike([each.number for each in operands])
        self.total = sum(each.value for each in operands)
        self.extremes = [pick(operands, key=lambda each: each.value) for pick in (max, min)]

    def named(self, phrases: Container[str]) -> list[Operand]:
        """Those whose rows a sentence names."""
        return [each for each in self.operands if any(name in phrases for name in each.names)]


class Shown:
    """The numbers of one output.

    Attributes:
        groups: Its columns and rows.
        operands: All of them.
    """

    def __init__(self, groups: Sequence[Group], operands: Sequence[Operand]) -> None:
        self.groups, self.operands = groups, operands
        self._by_name: dict[str, dict[Group, None]] = {}
        for group in groups:
            for name in {name for each in group.operands for name in each.names}:
                self._by_name.setdefault(name, {})[group] = None

    def naming(self, phrases: Iterable[str]) -> list[Group]:
        """The columns and rows of which a sentence names some numbers."""
        return list({group: None for each in phrases for group in self._by_name.get(each, ())})


class Derivation(NamedTuple):
    """How a number follows from others: `45.2 / 40.2 − 1`, and the cells that show these."""

    formula: str
    cells: tuple[int, ...]


class Result(NamedTuple):
    """What comes out of shown numbers; each `{}` in the form stands for one of them."""

    value: float
    form: str
    operands: Sequence[Operand]

    def told(self) -> Derivation:
        """How it came out."""
        formula = self.form.format(*(each.text for each in self.operands))
        return Derivation(formula, tuple(sorted({each.cell for each in self.operands})))


def single(operand: Operand) -> Result:
    """A number as it is."""
    return Result(abs(operand.value), "{}", [operand])


def total_of(group: Group) -> Result:
    """The sum of a column or row."""
    form = {2: "{} + {}", 3: "{} + {} + {}"}.get(len(group.operands), "{} + … + {}")
    operands = group.operands if len(group.operands) == 3 else [group.operands[0], group.operands[-1]]
    return Result(abs(group.total), form, operands)


def read(outputs: Iterable[tuple[int, str, Callable[[Decimal], bool]]]) -> Iterator[Shown]:
    """The numbers of outputs, by rows and columns; in the end, those that stand alone in their outputs.

    Args:
        outputs: The cell and the text of each, and what of its numbers counts.
    """
    room, alone = MAX_OPERANDS, list[Operand]()
    for cell, text, counts in itertools.islice(outputs, MAX_OUTPUTS):
        rows: list[list[Operand]] = []
        for line in (part for each in text[:MAX_TEXT].splitlines() for part in _NESTED.split(each)):
            row = _row(line, cell)[:room]
            room -= len(row)
            rows.append(row)
        groups = [([each for each in group if counts(each.number.value)], is_row) for group, is_row in _groups(rows)]
        operands = [each for row in rows for each in row if counts(each.number.value)]
        yield Shown([Group(each, is_row=is_row) for each, is_row in groups if len(each) > 1], operands)
        alone += operands if len(operands) == 1 else []
        if room <= 0:
            break
    if len(alone) > 1:
        yield Shown([Group(alone[:MAX_ALONE], is_row=True)], [])


def _row(line: str, cell: int) -> list[Operand]:
    """The numbers of a line, each with the names before it; what is only a key of the next one is one of its names."""
    found: list[Operand] = []
    names: tuple[str, ...] = ()
    at, key = 0, ""
    numbers = list(numerals(line))
    for index, number in enumerate(numbers):
        start = line.find(number.text, at)
        between = line[at:start] if start >= 0 else ""
        named = tuple(
            words_of(each) for each in _PARTS.split(between) if len(each) <= MAX_NAME and any(map(str.isalpha, each))
        )
        if found and (
            _KEY.fullmatch(between) or (index == 1 and (share := _SHARE.match(line)) and start == share.end())
        ):
            key = found.pop().text  # {2001: 17}
            named = (*named, words_of(key))
        names = named or names
        first = (words_of(numbers[0].text),) if index else ()
        found.append(Operand(number, cell, (*names, *first)))
        at = start + len(number.text) if start >= 0 else at
    return found


def _are_alike(numbers: Sequence[Numeral]) -> bool:
    """Whether numbers of a row may be of one kind: with as many digits behind the point, and no year before others."""
    years = [*map(is_year, numbers)]
    return len({(each.step, each.percent) for each in numbers}) == 1 and not (years[0] and not all(years))


def is_year(number: Numeral) -> bool:
    """Whether a number may be a year."""
    return number.step == 1 and YEARS[0] <= number.value <= YEARS[1]


def _groups(rows: Sequence[Sequence[Operand]]) -> Iterator[tuple[Sequence[Operand], bool]]:
    """The columns of rows with as many numbers, without one that only counts the rows or orders them, and the rows.

    Each with whether it is a row.
    """
    for count, several in itertools.groupby(rows, key=len):
        block = list(several) if count else []
        columns = list(zip(*block, strict=True)) if len(block) > 1 else []
        has_keys = len(columns) > 1 and all(
            one.number.value + 1 == other.number.value for one, other in itertools.pairwise(columns[0])
        )
        yield from ((column, False) for column in columns[has_keys:])
        yield from ((row[has_keys:], True) for row in block)
