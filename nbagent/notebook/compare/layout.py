"""Compares the layout, colours and order of texts of the same words: elsewhere a number means something else. Pure.

A number of a table without lines belongs to the column below whose name it stands, and text in the colour of the page
isn't seen.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from nbagent.notebook.compare.tokens import tokens

ABOVE = 3
"""Lines above another one, beside the first of a block, below whose words its own stand."""
_SEQUENCE = re.compile(r"\x1b\[([\d;:]{0,200})m|\x1b\[[0-9;?]{0,40}[A-Za-ln-z]")
"""What sets colours, and what else begins so, which pages leave out."""
_STYLES = {1: "weight", 2: "weight", 3: "italic", 4: "underline", 7: "inverse", 8: "hidden", 9: "strike"}
_COLOURS = {3: "front", 9: "front", 4: "back", 10: "back"}
"""What numbers set, of which 30 to 37 and 90 to 97 are colours of text."""
_ENDS = {
    39: "front",
    49: "back",
    22: "weight",
    23: "italic",
    24: "underline",
    27: "inverse",
    28: "hidden",
    29: "strike",
}
_SEEN = {*map(str, range(31, 37)), *map(str, range(91, 97))}
"""Colours of text that is seen on any page, which is white, black or grey."""
_HIDING = frozenset({"front", "back", "inverse", "hidden", "other"})
_NUMBER = re.compile(r"\b[^\W\d]*+\d\w*(?:[.,:]\w+)*")
"""A word with a digit and what follows it. It is looked for where words begin: from each letter of a long one, the rest
would be read again."""
_LINES = re.compile(r"([\u2500-\u259f]+)")
"""What progress bars are drawn of."""
_COLUMNS = re.compile(r"\S(?: {2}|\t)\s*\S")
_WORD = re.compile(r"\S+")
_NUMBERED = re.compile(r"^\s*(\d+)\s")
_ENDS_OF_LIST = re.compile(r"^[\[{]|[\]}]$")
_SET = re.compile(r"\{([^{}:]{1,20000})\}")
_ELEMENT = re.compile(
    # A text that never ends is one to the end: else each of many quotation marks would be followed to there.
    r"""(?:'(?>(?:[^'\\]|\\.)*)'?|"(?>(?:[^"\\]|\\.)*)"?|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>|[^,'"()\[\]{}<>])+"""
)
_Words = tuple[str, ...]
_Span = tuple[int, int]
_Colours = tuple[tuple[str, int], ...]
"""Colours, each with how many signs in a row have it."""


class _Line(NamedTuple):
    """A line with words: which, where each begins and ends, the whole, and the number of the first without a gap."""

    words: _Words
    spans: tuple[_Span, ...]
    row: str
    head: int


def moved(stored: str, *fresh: str, wraps: bool) -> tuple[str, str] | None:
    """The first lines whose words stand below others than in any fresh run, of texts that say the same.

    Args:
        stored: The text that a notebook has.
        fresh: Those of fresh runs.
        wraps: Whether lines may end elsewhere, as where a terminal is wider.
    """
    one, *runs = (_lines(_SEQUENCE.sub("", each).expandtabs()) for each in (stored, *fresh))
    words, *known = ([each.words for each in run] for run in (one, *runs))
    if not wraps and words not in known and [*chain(*words)] in ([*chain(*each)] for each in known):
        same = [pair[0] == pair[1] for pair in zip(words, known[0], strict=False)]
        return one[same.index(False) if False in same else -1].row, ""
    seen: list[list[tuple[bool, str]]] = [[] for _ in one]
    for run, others in zip(runs, known, strict=True):
        places = [*range(len(one))] if len(run) == len(one) else _places(words, others)
        limits = _limits(one, run, places)
        same = [place is not None and line.spans == run[place].spans for line, place in zip(one, places, strict=True)]
        for at, place in enumerate(places):
            if place is not None:
                seen[at].append((_stands_alike(at, one, run, places, limits, same), run[place].row))
    for at, pairs in enumerate(seen):
        if pairs and not any(same for same, _ in pairs):
            return one[at].row, pairs[0][1]
    return None


def _lines(text: str) -> list[_Line]:
    """The lines of a text that have words, but for those that are a table's rules."""
    found, head, last = list[_Line](), 0, 0
    for number, line in groupby(tokens(text), key=lambda token: token.line):
        head, last = head if number == last + 1 else len(found), number
        if words := [each for each in line if each.kind != "rule"]:
            spans = tuple((each.start, each.start + len(each.text)) for each in words)
            found.append(_Line(tuple(each.text for each in words), spans, words[0].row, head))
    return found


def _places(words: Sequence[_Words], others: Sequence[_Words]) -> list[int | None]:
    """Which of other lines each line is: the one that has its words for as many times."""
    found, count = dict[tuple[_Words, int], int](), Counter[_Words]()
    for at, each in enumerate(others):
        count[each] += 1
        found[each, count[each]] = at
    count = Counter()
    places = []
    for each in words:
        count[each] += 1
        places.append(found.get((each, count[each])))
    return places


def _limits(one: Sequence[_Line], other: Sequence[_Line], places: Sequence[int | None]) -> list[float]:
    """Up to where the place of words in each line counts: a value of another width pushes what is right of it.

    In a line of columns, it pushes that of all lines around.
    """
    own = [math.inf if place is None else _begin(line, other[place]) for line, place in zip(one, places, strict=True)]
    blocks = dict[int, float]()
    for line, place, begin in zip(one, places, own, strict=True):
        if place is not None and _COLUMNS.search(other[place].row):
            blocks[line.head] = min(begin, blocks.get(line.head, math.inf))
    return [min(begin, blocks.get(line.head, math.inf)) for line, begin in zip(one, own, strict=True)]


def _begin(one: _Line, other: _Line) -> float:
    """Where the first word stands of which one of two lines has another one, of another width."""
    least = min(len(one.words), len(other.words))
    same = next((at for at in range(least) if len(one.words[at]) != len(other.words[at])), least)
    return min((line.spans[same][0] for line in (one, other) if same < len(line.spans)), default=math.inf)


def _stands_alike(
    at: int,
    one: Sequence[_Line],
    other: Sequence[_Line],
    places: Sequence[int | None],
    limits: Sequence[float],
    same: Sequence[bool],
) -> bool:
    """Whether the words of a line stand below the same ones as in another text, of the lines before and the first.

    Lines of which each word stands at the `same` place in both texts are not looked at word by word.
    """
    for above in {one[at].head, *range(max(0, at - ABOVE), at)} - {at}:
        place, limit = places[above], min(limits[at], limits[above])
        if place is None or (same[above] and same[at]):
            continue
        both = ((one[above], one[at]), (other[place], other[places[at] or 0]))
        if all(line.spans[0][0] < limit for pair in both for line in pair):
            left, right = ([*_below(upper.spans, lower.spans, limit)] for upper, lower in both)
            if left != right:
                return False
    return True


def _below(above: Sequence[_Span], spans: Sequence[_Span], limit: float) -> Iterator[tuple[int, int, bool]]:
    """First, which of two lines begins further left; then the first and the last word above each, or the nearest.

    Of both lines only the words up to the limit count. Words above that are right of all others are not looked at:
    many short lines may stand below a long one.
    """
    yield -1, (above[0][0] > spans[0][0]) - (above[0][0] < spans[0][0]), False
    first, many = 0, bisect_left(above, (limit,))
    for begin, end in spans[: bisect_left(spans, (limit,))]:
        while first + 1 < many and above[first][1] <= begin and above[first + 1][0] < end:
            first += 1
        last = first
        while last + 1 < many and above[last + 1][0] < end:
            last += 1
        nearer = first + 1 < many and above[first + 1][0] - end < begin - above[first][1]
        place = (first + 1, first + 1) if nearer and last == first else (first, last)
        yield *place, above[first][1] > begin and above[first][0] < end


def coloured(stored: str, *fresh: str, exact: bool) -> tuple[str, str] | None:
    """The first line of a text in colours in which no fresh run drew it, and that line of a run; none without colours.

    A line that no run has, but for its numbers, may have the colours that any line has there.

    Args:
        stored: The text that a notebook has.
        fresh: Those of fresh runs.
        exact: Whether any other colour counts; else only one that may be a page's, in which nothing is seen.
    """
    if not any("\x1b[" in each for each in ((stored, *fresh) if exact else (stored,))):
        return None
    one, *runs = ([*_drawn(each, exact=exact)] for each in (stored, *fresh))
    known: dict[tuple[int, str], dict[_Colours, str]] = {}
    for run in runs:
        for at, (plain, colours, line) in enumerate(run):
            known.setdefault((at if len(run) == len(one) else -1, plain), {})[colours] = line
    every = {colour for run in runs for _, colours, _ in run for colour, _ in colours}
    for at, (plain, colours, line) in enumerate(one):
        seen = known.get((at, plain), known.get((-1, plain)))
        if seen is None and not every.issuperset(colour for colour, _ in colours):
            return line, ""
        if seen is not None and colours not in seen:
            return line, next(iter(seen.values()))
    return None


def _drawn(text: str, *, exact: bool) -> Iterator[tuple[str, _Colours, str]]:
    """The lines of a text: without colours and with one sign for each number, its signs' colours, and as they stand."""
    state: dict[str, str] = {}
    for line in text.splitlines():
        found, at = list[tuple[str, str]](), 0
        for sequence in [*_SEQUENCE.finditer(line), None]:
            part = "".join(_NUMBER.sub("0", line[at : sequence.start() if sequence else len(line)]).split())
            colour = _colours(state, exact=exact) if part else ""
            pieces = enumerate(_LINES.split(part))  # each second one is of a bar
            found += [(piece, "" if number % 2 else colour) for number, piece in pieces if piece]
            if sequence is not None:
                at = sequence.end()
                _set(state, sequence[1])
        if found:
            runs = groupby(found, key=itemgetter(1))
            colours = tuple((colour, sum(len(piece) for piece, _ in run)) for colour, run in runs)
            yield "".join(piece for piece, _ in found), colours, line


def _colours(state: dict[str, str], *, exact: bool) -> str:
    """What is set, in a word; if not exact, only what may be the colours of a page."""
    kept = state if exact else {name: value for name, value in state.items() if name in _HIDING}
    if not exact and kept.keys() <= {"front"} and kept.get("front", "31") in _SEEN:
        return ""
    return " ".join(f"{name}={kept[name]}" for name in sorted(kept))


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
        if number == 0:
            state.clear()
        elif number in _ENDS:
            state.pop(_ENDS[number], None)
        elif number in (38, 48):
            length = {5: 2, 2: 4}.get(numbers[0] if numbers else 0, 1)
            state["front" if number == 38 else "back"] = f"{number};{numbers[:length]}"
            del numbers[:length]
        elif number in _STYLES:
            state[_STYLES[number]] = str(number)
        elif number // 10 in _COLOURS and number % 10 < 8:
            state[_COLOURS[number // 10]] = str(number)


def is_reordered(stored: str, fresh: str) -> bool:
    """Whether two texts have the same words and numbers."""
    one, other = (sorted(re.findall(r"[^\W\d]+|\d+", each)) for each in (stored, fresh))
    return one == other


def elements(text: str) -> list[list[str]]:
    """What a text lists, in the order of the alphabet: lines without their numbers, if they are numbered; of lists."""
    lines = [_ENDS_OF_LIST.sub("", line) for line in text.splitlines()]
    numbers = [found[1] for line in lines if (found := _NUMBERED.match(line))]
    if numbers in ([*map(str, range(first, first + len(numbers)))] for first in (0, 1)):  # no years, say
        lines = [_NUMBERED.sub("", line) for line in lines]
    return sorted(sorted(map(str.strip, _element_of(line).findall(line))) for line in lines)


def _element_of(row: str) -> re.Pattern[str]:
    """Words, in a row that has nothing but numbers, or none; else what commas part: a word may say what a number is."""
    mixed = re.search(r"\d", row) and re.search(r"[^\W\d_]", row)
    return _ELEMENT if "," in row or mixed else _WORD


def sorted_sets(text: str) -> str:
    """A text in which the elements of each set come in the order of the alphabet."""
    return _SET.sub(lambda found: "{" + ", ".join(sorted(map(str.strip, _ELEMENT.findall(found[1])))) + "}", text)
