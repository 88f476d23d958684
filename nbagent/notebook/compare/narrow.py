"""Of long texts, the parts in which they differ: these are taken apart word by word, which takes time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SHORT = 2_000
"""Characters of a line that is taken as a whole."""
BETWEEN = "¶\n"
"""Stands for what is the same in all texts."""
_PARTS = (re.compile(r"<[^<]*|[^<]+"), re.compile(r"[^\s,;]+[\s,;]*|[\s,;]+"))
"""The parts of a longer line: elements, and words of those that are long, too."""
_Places = Sequence[tuple[int, int]]


class Narrowed(NamedTuple):
    """A text without what others have, too.

    Attributes:
        text: The lines, or parts of lines, in which it differs.
        numbers: Of which line of the whole text each of its lines is.
    """

    text: str
    numbers: list[int]


def narrowed(texts: Sequence[str]) -> list[Narrowed]:
    """The parts of texts in which one differs from another, in a time that grows with their size and no faster.

    Texts with as many lines are compared line by line, and long lines with as many parts part by part; of others, what
    they have in common at the beginning and the end is left out.
    """
    lines = [each.splitlines(keepends=True) for each in texts]
    found, numbers, ended = [list[str]() for _ in texts], [list[int]() for _ in texts], None
    for places in _apart(lines):
        rows = [whole[begin:end] for whole, (begin, end) in zip(lines, places, strict=True)]
        if ended is not None and ended != places[0][0]:
            _add(found, numbers, [[BETWEEN]] * len(texts), places)
        is_long = all(len(row) == 1 for row in rows) and max(len(row[0]) for row in rows) > SHORT
        _add(found, numbers, _within([row[0] for row in rows], _PARTS) if is_long else rows, places)
        ended = places[0][1]
    return [Narrowed("".join(parts), of) for parts, of in zip(found, numbers, strict=True)]


def _add(found: list[list[str]], numbers: list[list[int]], rows: Sequence[Sequence[str]], places: _Places) -> None:
    """Add rows to each text; all of one line are of that."""
    for parts, of, row, (begin, end) in zip(found, numbers, rows, places, strict=True):
        parts += (each if each.splitlines()[0] != each else f"{each}\n" for each in row)
        of += (begin + 1 + (number if len(row) == end - begin else 0) for number in range(len(row)))


def _within(line: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> list[list[str]]:
    """The parts in which one line differs in several texts, with what stands for the rest between them."""
    pattern, *finer = patterns
    pieces = [pattern.findall(each) for each in line]
    found = [list[str]() for _ in line]
    for places in _apart(pieces):
        parts = ["".join(whole[begin:end]) for whole, (begin, end) in zip(pieces, places, strict=True)]
        rows = _within(parts, finer) if finer and max(map(len, parts)) > SHORT else [[each] for each in parts]
        for kept, row in zip(found, rows, strict=True):
            kept += [*([BETWEEN] if kept else []), *(each or "\n" for each in row)]
    return found


def _apart(texts: Sequence[Sequence[str]]) -> Iterator[_Places]:
    """The places at which texts differ: from the number of a piece to that of another, in each of them."""
    least = min(map(len, texts))
    if max(map(len, texts)) == least:
        for place, row in enumerate(zip(*texts, strict=True)):
            if any(each != row[0] for each in row[1:]):
                yield [(place, place + 1)] * len(texts)
        return
    begin = next((place for place in range(least) if _differ(texts, place)), least)
    end = next((back for back in range(least - begin) if _differ(texts, -1 - back)), least - begin)
    yield [(begin, len(each) - end) for each in texts]


def _differ(texts: Sequence[Sequence[str]], place: int) -> bool:
    return any(each[place] != texts[0][place] for each in texts[1:])
