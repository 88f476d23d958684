"""Which numbers of an output are there only because its code has them. Pure."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal

from nbagent.agent.numerals import Numeral

MAX_READ = 100_000
"""Characters of an output in which whole texts of the code are looked for."""
_SIGNS, _CELL = re.compile(r"[\W_]+"), re.compile("[\u2502\u2506]")
_NOISE = Decimal("1e-14")
"""The part of a float by which what is computed of one constant may be off."""


def in_texts(texts: Mapping[str, Sequence[Decimal]], output: str) -> Counter[Decimal]:
    """Count the numbers that an output shows only because it shows a whole text of the code."""
    found = Counter[Decimal]()
    output = output[:MAX_READ]
    # A table of Polars goes on below with what a column has no room for.
    columns: dict[int, list[str]] = {}
    for line in output.splitlines() if "\u2506" in output else ():
        for at, cell in enumerate(_CELL.split(line)):
            columns.setdefault(at, []).append(cell)
    letters, below = _letters(output), _letters("\n".join(map("".join, columns.values())))
    for text, numbers in texts.items():
        is_said = not (own := _letters(text)).isdecimal() and own
        count = max(letters.count(own), below.count(own)) if is_said else output.count(text)
        if numbers and count:
            found.update({n: count * often for n, often in Counter(numbers).items()})
    return found


def _letters(text: str) -> str:
    """A text's letters and digits alone: a table may break it, and code may write it in capitals."""
    return _SIGNS.sub("", text).casefold()


class Written:
    """Numbers that the code has written out, as often as an output may show them for that alone."""

    def __init__(self, counts: Mapping[Decimal, int]) -> None:
        self._counts = counts
        self._ordered = sorted(counts)
        self.begin()

    def begin(self) -> None:
        """From here on, another output may show them as often."""
        self._taken: Counter[int] = Counter()
        self._next: dict[int, int] = {}

    def take(self, number: Numeral) -> bool:
        """Whether a shown number is one of them, perhaps rounded or as per cent; it is then shown once less."""
        for scale in {Decimal(1), number.percent}:
            # What is computed of the same constant, such as its mean, may be off by the last digits of a float.
            value, half = number.value / scale, max(number.step / scale / 2, abs(number.value / scale) * _NOISE)
            at = self._left(bisect.bisect_left(self._ordered, value - half))
            if at < len(self._ordered) and self._ordered[at] <= value + half:
                self._taken[at] += 1
                if self._taken[at] >= self._counts[self._ordered[at]]:
                    self._next[at] = at + 1
                return True
        return False

    def _left(self, at: int) -> int:
        """The first one from a place on that is not used up."""
        passed = []
        while at in self._next:
            passed.append(at)
            at = self._next[at]
        self._next.update(dict.fromkeys(passed, at))
        return at
