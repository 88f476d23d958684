"""How text is laid out and coloured, where its words are the same: both can hide a result, or give it to another. Pure.

A number of a table without lines belongs to the column below whose name it stands, and text in the colour of the page
isn't seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from nbagent.notebook.compare.tokens import Token, tokens

_SEQUENCE = re.compile(r"\x1b\[([\d;:]{0,200})m|\x1b\[[0-9;?]{0,40}[A-Za-ln-z]")
"""What sets colours, and what else begins so, which pages leave out."""
_ENDS = {39: ("front",), 49: ("back",), 27: ("inverse",), 28: ("hidden",), 0: ("front", "back", "inverse", "hidden")}
_SEEN = {"", *map(str, range(31, 37)), *map(str, range(91, 97))}
"""Colours of text that is seen on any page, which is white, black or grey."""
_LINES = re.compile(r"[\u2500-\u259f]")
"""What progress bars are drawn of."""
_Row = tuple[str, ...]
_Places = frozenset[tuple[int, int]]


def moved(stored: str, *fresh: str, wraps: bool) -> tuple[str, str] | None:
    """The first lines whose words stand below others than in any fresh run, of texts that say the same.

    A line in which a value differs that may, such as a time, is left out, as are those beside it: how wide they are may
    follow from it.

    Args:
        stored: The text that a notebook has.
        fresh: Those of fresh runs.
        wraps: Whether lines may end elsewhere, as where a terminal is wider.
    """
    known: dict[tuple[_Row, _Row], dict[_Places, str]] = {}
    for text in fresh:
        for rows, places, line in _neighbours(text):
            known.setdefault(rows, {})[places] = line
    lines = {each for rows in known for each in rows}
    wraps |= [each.text for each in tokens(stored)] not in ([each.text for each in tokens(text)] for text in fresh)
    found = [*_neighbours(stored)]
    differs = [not lines.issuperset(rows) for rows, _, _ in found]
    for at, (rows, places, line) in enumerate(found):
        if (seen := known.get(rows)) is None:
            if not wraps and lines and differs[at]:
                return line, ""
        elif places not in seen and not any(differs[max(0, at - 1) : at + 2]):
            return line, next(iter(seen.values()))
    return None


def _neighbours(text: str) -> Iterator[tuple[tuple[_Row, _Row], _Places, str]]:
    """The words of each two lines, which of them stand above each other, and the second line."""
    lines = [[*each] for _, each in groupby(tokens(text), key=lambda token: token.line)]
    for one, other in pairwise(lines):
        rows = tuple(each.text for each in one), tuple(each.text for each in other)
        yield rows, frozenset(_above(one, other)), other[0].row


def _above(one: list[Token], other: list[Token]) -> Iterator[tuple[int, int]]:
    """The numbers of the words that stand above each other; and first, which line begins further left."""
    yield -1, (one[0].start > other[0].start) - (one[0].start < other[0].start)
    at = below = 0
    while at < len(one) and below < len(other):
        ends = [each.start + len(each.text) for each in (one[at], other[below])]
        if one[at].start < ends[1] and other[below].start < ends[0]:
            yield at, below
        if ends[0] <= ends[1]:
            at += 1
        else:
            below += 1


def coloured(stored: str, *fresh: str) -> tuple[str, str] | None:
    """The first line of a text in colours in which no fresh run drew it, and that line of a run; none without colours.

    A line that no run has may have the colours that any line has there.
    """
    if "\x1b[" not in stored:
        return None
    known: dict[str, dict[tuple[str, ...], str]] = {}
    for text in fresh:
        for plain, colours, line in _lines(text):
            known.setdefault(plain, {})[colours] = line
    every = {colour for found in known.values() for colours in found for colour in colours}
    for plain, colours, line in _lines(stored):
        if plain in known:
            if colours not in known[plain]:
                return line, next(iter(known[plain].values()))
        elif not every.issuperset(colours):
            return line, ""
    return None


def _lines(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """The lines of a text: without colours, the colours of their signs, and as they stand there."""
    state: dict[str, str] = {}
    for line in text.splitlines():
        plain, colours, at = [], [], 0
        for found in [*_SEQUENCE.finditer(line), None]:
            part = "".join(line[at : found.start() if found else len(line)].split())
            plain.append(part)
            colours += ["" if _LINES.fullmatch(each) else _hiding(state) for each in part]
            if found is not None:
                at = found.end()
                _set(state, found[1])
        if plain := [each for each in plain if each]:
            yield "".join(plain), tuple(colours), line


def _hiding(state: dict[str, str]) -> str:
    """The colours that are set, if they may be those of a page; empty if text is seen in any."""
    if state.keys() <= {"front"} and state.get("front", "") in _SEEN:
        return ""
    return " ".join(f"{name}={state[name]}" for name in sorted(state))


def _set(state: dict[str, str], sequence: str | None) -> None:
    """Set colours as a sequence says, which is None if it sets none; all else changes only how letters look."""
    if sequence is None:
        return
    if ":" in sequence:  # pages know some of these, and leave the others out
        state["other"] = sequence
        return
    numbers = [int(each.lstrip("0")[:9] or 0) for each in sequence.split(";")]
    while numbers:
        number = numbers.pop(0)
        for name in _ENDS.get(number, ()):
            state.pop(name, None)
        if number in (38, 48):
            length = {5: 2, 2: 4}.get(numbers[0] if numbers else 0, 1)
            state["front" if number == 38 else "back"] = f"{number};{numbers[:length]}"
            del numbers[:length]
        elif 30 <= number <= 37 or 90 <= number <= 97:
            state["front"] = str(number)
        elif 40 <= number <= 47 or 100 <= number <= 107:
            state["back"] = str(number)
        elif number in (7, 8):
            state["inverse" if number == 7 else "hidden"] = "1"
