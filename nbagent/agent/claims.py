"""Finds the numbers of an answer in the outputs. Pure: no kernel, no LangChain, no model.

An output supports a number that it shows, also if only more precisely: 12.3456 supports `12.3`, 0.4512 `45 %`, and
1,234,567 `1.2 million`. A number of the question, or one that the code names as a parameter, is no claim of the answer.
A number that a cell merely prints as it stands in its code supports nothing.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from nbagent.agent.derived import derived
from nbagent.agent.made_up.literals import Literals
from nbagent.agent.made_up.written import Written, in_texts
from nbagent.agent.names import read_by
from nbagent.agent.numerals import Numeral, findable, numerals, quantities, ways
from nbagent.agent.operands import Operand, Shown
from nbagent.agent.operands import read as read_operands
from nbagent.agent.prose import MAX_NAME, claiming, limits
from nbagent.agent.readable import text_of_bundle
from nbagent.agent.units import is_factor
from nbagent.core.events import Claim
from nbagent.core.text import joined, plain

MAX_NUMBERS, MAX_READ, MAX_TEXT = 50_000, 100_000, 10_000_000
"""Numbers that are kept, numbers and characters that are read of a conversation's outputs, the latest first."""
MAX_ANSWER = 100_000
"""Characters of an answer."""
UNCHECKED = Claim(text="the numbers, which could not be looked for")
"""Stands for all claims of an answer when looking for them has failed."""
REST = Claim(text="the rest of the numbers, which were not looked for")
"""Stands for what is beyond the bounds, so that nobody takes it for looked at."""
MAX_CLAIMS = 500
MAX_LOOKED = 5_000
"""Different numbers of an answer that are looked for."""
MAX_NEAR = 1000
"""Numbers of about the same size that are compared with one claim."""
SMALL = 10
"""Whole numbers from -1 to this one are mostly words: the first, two of them, a top 10, a scale from -1 to 1."""

_SCALED = re.compile(
    r"(?i:thousand|million|billion|trillion|tausend|milliard|tsd|mio|mrd)|\b(?:T|TE|[kKMm]E?)(?:€|UR)|[€$£]\s?[kKMmB](?:n|ln)?\b"
    r"|(?:USD|EUR|GBP|CHF)[ _]?[kKMmB](?:n|ln)?\b|(?:\b|_)(?:[mMbB][nN]|mln|MLN)(?:_|\b)|_[kKMmB]\b"
    r"|\b(?:[kKMB]|[mMbB]n)\s?[$£]|(?:\b|_)[kMG]t(?:\b|_)|(?<!\d)['\u2019]000\b|\b000s\b|\(000\)"
    r"|[01][,_]?000(?!\d)|10(?:\^|\*\*)[369]|(?<!\d)1?[eE][369](?!\d)"
)
"""By this a text may say that numbers are in thousands or millions."""
_DIGITS = re.compile(r"\d{1,30}(?:\.\d{1,30})?")
_YEAR_ALONE = re.compile(r"(?:19|20)\d\d")
"""A number without a date around it that is a year more likely than a result."""
_FIGURES = re.compile(r"(?<!\d)\d{1,6}(?!\d)")


def claims(
    answer: str,
    outputs: Mapping[int, Sequence[Mapping[str, Any]]],
    *,
    given: Sequence[str] = (),
    notes: Sequence[str] = (),
    code: Mapping[int, str] | None = None,
    data: bool = True,
    names: Collection[str] = (),
    within: Collection[int] | None = None,
    facts: Collection[str] = (),
) -> list[Claim]:
    """The numbers that an answer claims, each with the output in which it stands.

    Args:
        answer: The answer's text, which may be Markdown.
        outputs: nbformat outputs by the number of their cell.
        given: Texts whose numbers are no claims, such as the question.
        notes: Texts beside the data, whose numbers are claims that the notes make.
        code: The code of each cell. A number that it names as a parameter is no claim; one that it merely prints as it
            stands there is no evidence.
        data: Whether the session has data. An answer without data and without outputs is general knowledge; in it only
            numbers of more than two digits, which nobody knows by heart, are claims.
        names: Names of files, which may have spaces: `bracket-62` and `Area 1` claim nothing.
        facts: What is counted of the data beforehand, such as `37 columns`.
        within: The cells in which numbers are looked for; by default, all. Of others, only what they show is known.

    Returns:
        One claim for each different number, in order, with the latest cell that shows it.
    """
    prose = claiming(answer[:MAX_ANSWER], names, facts)
    claimed = quantities(prose)
    if not claimed and len(answer) <= MAX_ANSWER:
        return []  # what cells have shown need not be read
    if any(each.is_scaled for readings in claimed for each in readings) and not _is_scaled(
        (*given, *notes, *names, *(code or {}).values()), outputs
    ):
        claimed = [[each for each in readings if not each.is_scaled] for readings in claimed]
    room = _Room()
    told = [each for text in given for each in room.read(text)]
    said = _DIGITS.findall("\n".join((*given, *notes)))
    heard = {abs(each.value) for each in told} | {findable(Decimal(each)) for each in said}
    failed = {cell for cell, shown in outputs.items() if shown and all(map(_is_error, shown))}
    literals = Literals(code or {}, data=data, told=heard, failed=failed)
    noted = _Places(_Place(each, 0, -1) for text in notes for each in room.read(text))
    denied: set[Decimal] = set()
    made_up: list[_Place] = []
    places = _read(outputs, literals, heard, denied, made_up)
    shown = _Places(each for each in places if within is None or each.cell in within)
    bounded, ranged = limits(answer[:MAX_ANSWER])
    named = literals.parameters(denied, bounded)
    named |= _covered(ranged, names, code or {})
    # Of a quantile 0.9, 10 % are above.
    parameters = room.read("\n".join(map(str, named | {1 - each for each in named if 0 < each < 1})))
    known = _Places(_Place(each, 0, -1) for each in (*told, *parameters))
    written = _Places(reversed(made_up))
    found: dict[str, Claim] = {}
    looked: set[str] = set()
    stated: dict[str, Operand] = {}
    is_general = not data and not outputs
    for readings in claimed:
        text = readings[0].text
        if text in looked:
            continue
        if len(found) >= MAX_CLAIMS or len(looked) >= MAX_LOOKED:
            found[REST.text] = REST
            break
        looked.add(text)
        place = shown.find_any(readings, exactly=True)
        if place is None and known.find_any(readings) is None:
            place = shown.find_any(readings)
            is_reckoned_with = is_factor(readings[0]) and written.find_any(readings) is None
            if place is None and is_reckoned_with and any(text in each for each in (code or {}).values()):
                continue
            if place is None and "\u00a0" in text:
                place = _each(text, shown)
            if place is None and not (_is_word(readings[0]) or (is_general and _is_short(readings[0]))):
                is_noted = noted.find_any(readings) is not None
                if not (is_noted and _YEAR_ALONE.fullmatch(text)):
                    made = None if is_noted else written.find_any(readings)
                    found[text] = Claim(text=text, noted=is_noted)
                    if made is not None:
                        literal = literals.said(made.number.value)
                        found[text] = Claim(text=text, written=True, shown=literal, sources=(made.cell,))
        if place is not None:
            found[text] = Claim(text=text, cell=place.cell, output=place.output, shown=place.number.text)
            stated[text] = Operand(place.number, place.cell)
    missing = {text for text, each in found.items() if not each.supported and text != REST.text}
    if missing:
        linked = {(each.cell, each.output) for each in found.values()}
        for text, how in derived(prose, stated, missing, _operands(outputs, shown, linked)).items():
            found[text] = Claim(text=text, derived=how.formula, sources=how.cells)
    if len(answer) > MAX_ANSWER:
        found[REST.text] = REST
    return list(found.values())


def _each(text: str, shown: _Places) -> _Place | None:
    """The place of the last of several numbers that were taken for one, if all are shown."""
    places = [shown.find_any(each) for each in quantities(text.replace("\u00a0", " "))]
    return places[-1] if places and all(places) else None


def _is_word(number: Numeral) -> bool:
    """Whether a number says no more than a word would."""
    is_small = number.percent == 1 and number.step == 1 and -1 <= number.value <= SMALL
    return is_small and not number.is_result


def _is_short(number: Numeral) -> bool:
    """Whether a number has at most two significant digits, such as 0.05, 95 % or 1.2 million."""
    return len(number.value.normalize().as_tuple().digits) <= 2


def _covered(numbers: set[Decimal], names: Collection[str], code: Mapping[int, str]) -> set[Decimal]:
    """Those of some numbers that stand in the names of files that code reads: the years of registers, say."""
    inside = {name: set(map(Decimal, _FIGURES.findall(name))) & numbers for name in names if len(name) <= MAX_NAME}
    return {
        n for name in read_by([each for each, found in inside.items() if found], code.values()) for n in inside[name]
    }


def _operands(
    outputs: Mapping[int, Sequence[Mapping[str, Any]]], shown: _Places, linked: Container[tuple[int, int]]
) -> list[Shown]:
    """The numbers with which an answer may reckon: first those of outputs that it names others of, then the latest."""
    counted: dict[tuple[int, int], set[Decimal]] = {}
    for place in shown.places:
        counted.setdefault((place.cell, place.output), set()).add(place.number.value)
    wanted = sorted(counted, key=lambda each: (each in linked, each), reverse=True)
    return list(read_operands((at[0], _text(outputs[at[0]][at[1]]), counted[at].__contains__) for at in wanted))


class _Place(NamedTuple):
    """A number, and the cell and output in which it stands."""

    number: Numeral
    cell: int
    output: int


class _Places:
    """Numbers with their places, the most wanted first, to be found by the numbers to which they round."""

    def __init__(self, places: Iterable[_Place]) -> None:
        self.places = list(itertools.islice(places, MAX_NUMBERS))
        self._order = sorted(range(len(self.places)), key=self._size)
        self._sizes = [self._size(each) for each in self._order]

    def _size(self, index: int) -> float:
        return abs(float(self.places[index].number.value))

    def find_any(self, readings: Sequence[Numeral], *, exactly: bool = False) -> _Place | None:
        """The first place whose number supports one of the readings, the likeliest reading first."""
        places = (self.find(each, exactly=exactly) for each in readings)
        return next((place for place in places if place is not None), None)

    def find(self, claimed: Numeral, *, exactly: bool = False) -> _Place | None:
        """The first place whose number supports a claim: as it is, or, if not `exactly`, rounded."""
        # 45 % may be shown as 0.4512, or in a column of percentages as 45.12.
        scales = {Decimal(1), Decimal(1) / claimed.percent, Decimal(100) / claimed.percent, Decimal(100)}
        hits = [hit for scale in scales for hit in self._near(claimed, scale, exactly=exactly)]
        return self.places[min(hits)] if hits else None

    def _near(self, claimed: Numeral, scale: Decimal, *, exactly: bool) -> list[int]:
        """The places whose number supports a claim whose value is multiplied by a scale."""
        wanted, half = abs(claimed.value) * scale, Decimal(0) if exactly else claimed.step * scale / 2
        first = bisect.bisect_left(self._sizes, float(wanted - half) * (1 - 1e-12))
        last = bisect.bisect_right(self._sizes, float(wanted + half) * (1 + 1e-12))
        return [
            at
            for at in self._order[first : min(last, first + MAX_NEAR)]
            if _says(self.places[at].number, claimed, wanted=wanted, half=half, scale=scale)
        ]


def _says(shown: Numeral, claimed: Numeral, *, wanted: Decimal, half: Decimal, scale: Decimal) -> bool:
    """Whether a shown number supports a claimed one."""
    # Only if one of the two is per cent does another scale make sense.
    if scale != 1 and scale * claimed.percent != shown.percent:
        return False
    # A fall may be written without its sign, but a rise is no fall; and what has the same sign comes first.
    if claimed.value < 0 < shown.value or (not half and shown.value < 0 < claimed.value):
        return False
    size = abs(shown.value)
    other_unit = scale == 1 and shown.percent != claimed.percent
    # With one digit in common, 5.46 without a sign is no evidence for "5 %".
    if other_unit and (shown.percent != 1 or (size != wanted and wanted < 10 * claimed.step)):
        return False
    if shown.step <= claimed.step * scale:
        return abs(size - wanted) <= half
    # A 3 of anything is no "3.0 times", but nothing is none of anything.
    is_of_things = scale == claimed.percent == shown.percent
    return size == wanted and (size > SMALL or size == 0 or not is_of_things)


@dataclass
class _Room:
    """How many numbers, and characters, may still be read."""

    numbers: int = MAX_READ
    text: int = MAX_TEXT

    def read(self, text: str) -> Iterator[Numeral]:
        """The numbers in a text, as far as there is room."""
        part = text[: self.text]
        self.text -= len(part)
        for number in numerals(part) if self.numbers > 0 else ():
            self.numbers -= 1
            yield number
            if self.numbers <= 0:
                break


def _read(
    outputs: Mapping[int, Sequence[Mapping[str, Any]]],
    literals: Literals,
    known: set[Decimal],
    denied: set[Decimal],
    made_up: list[_Place],
) -> Iterator[_Place]:
    """The numbers of all outputs with their places, the latest first, without those that code has made up.

    Args:
        outputs: The outputs of each cell.
        literals: What cells show that was made up.
        known: The sizes of numbers that were told; those that are found out are added.
        denied: Gets the sizes of the numbers that are made up.
        made_up: Gets these numbers, and all of cells whose code shows nothing else.
    """
    room = _Room()
    read: list[tuple[int, int, list[list[Numeral]]]] = []
    for cell in sorted(outputs, reverse=True):
        for index, output in reversed(list(enumerate(outputs[cell]))):
            text = _text(output)
            read.append((cell, index, [list(room.read(each)) for each in ways(text)]))
    found: list[list[_Place]] = []
    for cell, several in itertools.groupby(reversed(read), key=lambda each: each[0]):
        counts, texts = literals.shown(cell), literals.texts(cell)
        written = Written(counts or {})
        for _, index, readings in several:
            places: list[_Place] = []
            whole = Written(in_texts(texts, _text(outputs[cell][index])) if texts else {})
            for numbers in readings:
                written.begin()
                whole.begin()
                # Each stands there once for having been written out; any more of them were found out.
                for place in (_Place(number, cell, index) for number in numbers):
                    if counts is None or written.take(place.number) or whole.take(place.number):
                        made_up.append(place)
                        denied.update(() if counts is None else (abs(place.number.value),))
                    else:
                        places.append(place)
            found.append(places)
            known.update(abs(place.number.value) for place in places)
    yield from itertools.chain.from_iterable(reversed(found))


def _is_scaled(texts: Iterable[str], outputs: Mapping[int, Sequence[Mapping[str, Any]]]) -> bool:
    """Whether anything says that there are numbers in thousands or millions."""
    shown = (_text(each)[:MAX_READ] for several in outputs.values() for each in several)
    return any(_SCALED.search(each) is not None for each in itertools.chain(texts, shown))


def _is_error(output: Mapping[str, Any]) -> bool:
    return bool(output.get("output_type") == "error")


def _text(output: Mapping[str, Any]) -> str:
    """The text of an output; empty for an error, which is no result."""
    if output.get("output_type") == "stream":
        return plain(joined(output.get("text", "")))
    return plain(text_of_bundle(output.get("data", {})) or "")
