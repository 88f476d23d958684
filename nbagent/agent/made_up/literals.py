"""Numbers that code has made up: those that cells show without data. Pure; the code is read, never run.

A cell is read as Python would run it without its data. What it can show that way proves nothing: whoever wrote the code
made it up, or read it elsewhere. A number of four digits or more counts as made up if the code has it before any output
shows it, since data would hardly come to the same one by chance; a shorter one only if the code shows it, or makes of
it what it shows. What is reckoned with known numbers alone, of the question and of outputs before, is found out.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from nbagent.agent.made_up.interpreter import Interpreter
from nbagent.agent.made_up.scopes import AGAIN
from nbagent.agent.made_up.scopes import COMMON as COMMON_NAME
from nbagent.agent.made_up.steps import TooLongError
from nbagent.agent.made_up.values import CODE, CUT, DATA, NOWHERE, TOLD, VAGUE, Value, queried
from nbagent.agent.names import MAGICS, MAX_CODE, recent, reused
from nbagent.agent.numerals import numerals, ways
from nbagent.core.errors import contained
from nbagent.core.syntax import UNREADABLE, parse
from nbagent.core.text import plain

COMMON = frozenset(map(Decimal, (*range(13), 24, 60, 100, 365, 1000, 3600, 1_000_000)))
"""Numbers with which anybody may reckon, that alone make no number known."""
LEAST, WORK, MOST_WORK = 36_000, 7, 1_000_000
"""Steps for a cell, for each of its characters, and for all cells: hostile code has them grow squarely."""
_WORDED = re.compile(
    r"[^\W\d]\W*+\d[\d.,]*+\s?[^\W\d]|(?<![\d.,])\d[\d.,]*+\s[^\W\d]++ [^\W\d]"
    r"|^\d[\d.,]*\s?(?:[-\u2013]\s?\d[\d.,]*|\+)$"
    r"|(?:over|above|under|below|than|least|most|from|since|until|after|before|[<>\u2264\u2265]=?)[\s_]*(?:\w+ )?\d"
)
"""A number between words, before two or behind a bound, or a range: a label, if the text is no longer than `_LABEL`."""
_LABEL = 200
MOST_WHOLE, WHOLE = 40, 30
"""Texts that a cell shows as they stand in the code, and characters of one up to which no table cuts it."""
SAID = 40
"""Characters of what the code has, as a model is told of it."""
FEW = 3
"""Numbers of a range up to which they may be invented ones."""
_FACTOR = re.compile(
    r"(?m)^[ \t]*\w{1,60} ?= ?(\d{1,9}(?:\.\d{1,9})?) ?([*/]) ?([1-9]\d{0,8}(?:\.\d{1,9})?)[ \t]*(?:#.*)?$"
)
"""A number that gets a name and is made of two."""
_REPEATS = re.compile(r"\bfor _\w{0,20} in range\((\d{1,3}(?:_?000)?)\)")
"""How often something is done again."""
_SPELLED = re.compile(r"""(?<![\w.])(?:['"]?\d['"]?\s*[,+]\s*){3,60}['"]?\d(?![\w.])""")
"""Four digits or more, one after the other, of which code may make a number."""
_ECHOES = re.compile(r"\b(?:echo|printf)\b.*")
_MIRRORS = re.compile(
    r"__doc__|__annotations__|\b(?:help|getsource\w*|getdoc|In|_ih|_i\d*)\b|%(?:history|recall|rerun|macro)"
)
"""By these, code may show code, with its comments."""


class Literals:
    """What cells show that was made up.

    Args:
        code: The code of each cell.
        data: Whether there is data that numbers can come from; if not, what is reckoned of constants is found out.
        told: The sizes of the numbers that are known from the start; those that outputs show are added by `shown`.
        failed: The cells that failed before they showed anything: what they do with a number makes it no parameter,
            unless a later cell uses what they have bound.
    """

    def __init__(
        self, code: Mapping[int, str], *, data: bool = True, told: set[Decimal], failed: Container[int] = ()
    ) -> None:
        self._code, self._data, self._known, self._failed = code, data, told, failed
        self._written: set[Decimal] = set()
        self._planted: set[Decimal] = set()
        self._mixed: set[Decimal] = set()
        self._labels: set[Decimal] = set()
        self._texts: dict[int, dict[str, list[Decimal]]] = {}
        self._said: dict[Decimal, str] = {}
        self._worded: set[Decimal] = set()
        cells = sorted(code)
        self._waiting = cells[recent([code[each] for each in cells]) :]
        self._interpreter = Interpreter(self._source_of)
        self._steps, self._parsed = MOST_WORK, 0

    def shown(self, cell: int) -> Counter[Decimal] | None:
        """The numbers that a cell shows without data, and how often at most; None for all that it shows.

        Of a cell that can't be read, or not within its steps, or that is none of the recent ones, these are all numbers
        in it.

        Args:
            cell: The cell; of several, the first one is asked for first.
        """
        counts: Counter[Decimal] | None = Counter(dict.fromkeys(_numbers([self._code.get(cell, "")]), AGAIN))
        while self._waiting and self._waiting[0] <= cell:
            at = self._waiting.pop(0)
            read = self._read(at)
            counts = read if at == cell else counts
        return counts

    def texts(self, cell: int) -> Mapping[str, Sequence[Decimal]]:
        """Texts that a cell may show beside data, as they stand in the code, and numbers in them.

        Where an output shows the whole text, it is the code that has these numbers; anywhere else, it is the data.
        """
        texts = self._texts.get(cell, {})
        return {each: [n for n in numbers if abs(n) not in COMMON | self._known] for each, numbers in texts.items()}

    def said(self, number: Decimal) -> str:
        """What the code has that makes a number one of its own."""
        return self._said.get(abs(number), "")

    def parameters(self, denied: Container[Decimal], bounded: set[Decimal]) -> set[Decimal]:
        """The numbers that code gives a name, and uses with data: `ALPHA = 0.05`, `RATIO = 44 / 12`, `bins=20`.

        Args:
            denied: The sizes of the numbers that outputs show, but as made up: none of these is a parameter if it may
                be shown because data has no part in what is shown.
            bounded: Numbers from or to which an answer says that it looks, or how often it draws again: parameters, if
                code compares data with them, or does something so often.
        """
        for at in self._waiting:
            self._read(at)
        self._waiting = []
        found = {n for each in self._interpreter.parameters.values() for n in _numbers_of(each)}
        repeats = {each.replace("_", "") for code in self._code.values() for each in _REPEATS.findall(code)}
        bounds = {n for n in _numbers({*map(_text, self._interpreter.bounds)}) if not _is_long(n)}
        return (
            {
                each
                for each in found
                if abs(each) not in self._mixed or abs(each) not in denied or abs(each) in self._labels
            }
            | (bounds & (self._worded | bounded))
            | (bounded & set(map(Decimal, repeats)))
            | self._operands(found)
        )

    def _operands(self, found: Container[Decimal]) -> set[Decimal]:
        """The short numbers of which a parameter is made, and that of which it is one part."""
        numbers: set[Decimal] = set()
        for one, sign, other in (each for code in self._code.values() for each in _FACTOR.findall(code)):
            value = float(one) / float(other) if sign == "/" else float(one) * float(other)
            if Decimal(str(value)) in found:
                numbers |= {each for each in map(Decimal, (one, other)) if one == "1" or not _is_long(each)}
        return numbers

    def _read(self, cell: int) -> Counter[Decimal] | None:
        code, reader = self._code[cell], self._interpreter
        used, parameters, bounds = set(reader.used), dict(reader.parameters), len(reader.bounds)
        found: list[tuple[Counter[Decimal] | None, set[Decimal]]] = []
        with contained("A cell is not read, so that all of its numbers count as made up"):
            found.append(self._made_up(code, self._texts.setdefault(cell, {})))
        numbers = set() if found else set(_numbers([code]))
        counts, planted = found[0] if found else (Counter(dict.fromkeys(numbers, AGAIN)), numbers)
        self._planted |= planted
        if cell in self._failed and not self._lives_on(cell):
            reader.used, reader.parameters = used, parameters
            del reader.bounds[bounds:]
        return counts

    def _lives_on(self, cell: int) -> bool:
        """Whether a later cell uses a variable of a cell; where very much code would have to be read for it, none."""
        later = [self._code[each] for each in sorted(self._code) if each > cell]
        self._parsed += sum(map(len, later))
        return self._parsed <= MAX_CODE and bool(reused(later, [self._code[cell]]))

    def _made_up(self, code: str, texts: dict[str, list[Decimal]]) -> tuple[Counter[Decimal] | None, set[Decimal]]:
        """What a cell shows that it makes up, and what it says that may be shown again; gathers its `texts`."""
        reader, here, counts = self._interpreter, Counter[Decimal](), Counter[Decimal]()
        is_mirror = _MIRRORS.search(code) is not None
        is_all, is_read = False, False
        steps = min(LEAST + WORK * len(code), self._steps)
        reader.begin(steps)
        try:
            tree = parse(MAGICS.sub("", code), awaits=True)
            reader.run(tree)
        except (*UNREADABLE, TooLongError):
            counts = Counter(dict.fromkeys(_numbers([code]), AGAIN))
        else:
            is_read = True
            is_all = self._count(counts, texts) and not MAGICS.search(code)
        self._steps -= steps - max(0, reader.left)
        for value, times in reader.stated.values():
            stated = _numbers(_text(queried(each)) for each in value.constants)
            numbers = [each for each in stated if _is_long(each) and abs(each) not in self._known]
            if numbers and self._is_made_up(value):
                often = times if value.sources <= {CODE} else 1
                here.update(
                    {n: often * c for n, c in Counter(numbers).items() if value.sources <= {CODE} or not here[n]}
                )
        if is_mirror or not is_read:
            here.update(self._all if is_mirror else _numbers([code]))
        digits = [re.sub(r"\D", "", each) for each in _SPELLED.findall(code)]
        here.update(dict.fromkeys(_numbers([*digits, *(each[::-1] for each in digits)]), AGAIN))
        for echo in _ECHOES.findall(code):
            counts.update(dict.fromkeys(_numbers([echo]), AGAIN))
        # What is written out in a call that shows it stands there as often as that; else it may be shown again.
        counts.update(dict.fromkeys([*self._planted, *(n for n in here if counts[n] < here[n])], AGAIN))
        return None if is_all else counts, set(here)

    @cached_property
    def _all(self) -> list[Decimal]:
        """The numbers of all code."""
        return _numbers(self._code.values())

    def _count(self, counts: Counter[Decimal], wholes: dict[str, list[Decimal]]) -> bool:
        """Count what was shown without data; returns whether all of it was, and can't be told."""
        is_vague, has_data = False, False
        # What is reckoned with known numbers alone may stand in a sum with data, too.
        reckoned = (each for each, _ in self._interpreter.stated.values() if each.sources == {TOLD})
        found = {_nearly(number) for each in reckoned for number in _numbers_of(each)}
        # A sheet `1999-2008` is there, or reading it would fail.
        named = {abs(each) for each in _numbers(self._interpreter.tables) if not _is_long(abs(each))}
        for value, times in self._interpreter.shown.values():
            read = [(each, _numbers([_text(each)])) for each in value.constants]
            numbers = [n for _, several in read for n in several]
            texts = [each for each in map(_text, value.constants) if len(each) < _LABEL and _WORDED.search(each)]
            self._worded.update(_numbers(each.replace("_", " ") for each in texts))
            self._said.update((abs(n), _text(each)[:SAID]) for each, several in read for n in several)
            if DATA in value.sources:
                has_data = True
                mixed = {
                    n
                    for n in (numbers if CUT in value.sources else _without_texts(read, wholes))
                    if abs(n) not in COMMON | named
                    and abs(n) not in self._known
                    and found.isdisjoint((_nearly(n), _nearly(n / 100)))
                }
                counts.update(dict.fromkeys(mixed, AGAIN))
                self._mixed.update(map(abs, mixed))
            elif self._is_made_up(value):
                once = Counter(numbers).items()
                counts.update({n: AGAIN if VAGUE in value.sources else often * times for n, often in once})
                is_vague = is_vague or VAGUE in value.sources
            else:
                is_found = TOLD in value.sources or not self._data
                has_data = True
                if is_found:
                    counts.update({n: 1 for n in numbers if n in self._written})
                self._labels.update(map(abs, numbers))
        return is_vague and not has_data

    def _is_made_up(self, value: Value) -> bool:
        """Whether a value without data comes from numbers of the code that are no parameters, or from none at all."""
        names = {each for each in value.sources - {TOLD, VAGUE, CODE, DATA, CUT} if not each.endswith(COMMON_NAME)}
        if not self._data:
            return any(each in self._written for each in _numbers_of(value))
        if CODE in value.sources or names - self._interpreter.used:
            return True
        return TOLD not in value.sources and not names

    def _source_of(self, constant: Any) -> frozenset[str]:
        """From where a constant comes: a number that is known, or one that only the code has."""
        numbers = {abs(each) for each in _numbers([_text(constant)])}
        self._written.update(numbers - self._known)
        rare = [each for each in numbers if each not in COMMON or each in self._known]
        if not rare:
            return NOWHERE
        return frozenset((TOLD if all(map(self._is_known, rare)) else CODE,))

    def _is_known(self, number: Decimal) -> bool:
        """Whether a number is known, or the one behind it (for a range), or the share that so many per cent are."""
        return (
            number in self._known
            or number - 1 in self._known
            or (number < 2 and {number * 100, abs(number - 1) * 100} & self._known != set())
        )


def _without_texts(
    read: Iterable[tuple[Any, Sequence[Decimal]]], wholes: dict[str, list[Decimal]]
) -> Iterator[Decimal]:
    """The numbers of constants, but for those of ranges, and for short ones in texts of more, which are gathered."""
    for each, numbers in read:
        is_more = len(numbers) > 1 or (isinstance(each, str) and any(map(str.isalpha, each)) and not _is_float(each))
        if isinstance(each, str) and is_more and len(each) <= WHOLE and len(wholes) < MOST_WHOLE:
            wholes[each] = [n for n in numbers if not _is_long(abs(n))]
            yield from (n for n in numbers if _is_long(abs(n)))
        elif not isinstance(each, range) or len(each) < FEW:
            yield from numbers


def _is_float(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _numbers_of(value: Value) -> list[Decimal]:
    return [each for constant in value.constants for each in _numbers([_text(constant)])]


def _nearly(number: Decimal) -> str:
    return f"{number:.9g}"


def _is_long(number: Decimal) -> bool:
    """Whether a number has four significant digits, and is no year."""
    is_year = 1500 <= number < 2200 and number == int(number)
    return not is_year and len(number.normalize().as_tuple().digits) > 3


def _text(constant: Any) -> str:
    if isinstance(constant, bytes):
        return constant.decode("ascii", "replace")
    with contextlib.suppress(ValueError):  # Python writes no more than 4,300 digits
        return str(constant)
    return ""


def _numbers(texts: Iterable[str]) -> list[Decimal]:
    """The numbers in texts, each as often as in that way of reading its text in which it stands most often."""
    found: list[Decimal] = []
    for text in texts:
        first, *more = (Counter(number.value for number in numerals(each)) for each in ways(plain(text)))
        for counts in more:
            first |= counts
        found += first.elements()
    return found
