"""Which files, columns and values the words of a question touch. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from nbagent.agent.dataset.groups import Family, Group
from nbagent.kernel.profile import Column

_WORD = re.compile(r"[^\W_]{2,}")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z]{3})(?=\d)")
"""Where a word begins in the middle of a name: MASchools, yearOfBirth, Amsterdam0624."""
_INITIALS = range(3, 6)
"""Letters of an abbreviation by which a file may be named after words of a question."""
_OTHERS_SAY = re.compile(
    r"(?i)permission is hereby granted|copyright (?:\(c\)|©|\d)|without warranty|software is provided|"
    r"redistribution and use|shall be included in all|issue tracker|pull requests"
)
"""What paragraphs have in them that are a licence, or for those who work on the software."""
_COMMON = frozenset(
    "the of and in to is are was were what which how many much for with by on from per all each at an or as that this "
    "does do did have has between than its it be number average mean total give list show file files data value values "
    "highest lowest high low most least best worst largest smallest greatest biggest more less fewer among where there "
    "year month day date time one two three all both together over after before "
    "der die das und in von wie viele welche ist sind im den mit für".split()
)
_ASIDE = re.compile(
    r"(?i)#+\s*(?:usage|examples?|references?|see also|licen[cs]es?|citations?|citing|acknowledge?ments?|contribut\w*|"
    r"authors?|install\w*|setup|build\w*|versions?|changelog|release\w*)\b"
)
"""Headings of what says little of the data."""
PROPER = 5
"""How many times as much a name says as another word."""
SAME_LETTERS = 6
"""Letters with which two forms of a word begin that end in different ways."""
STEM = 4
"""Letters by which two words are taken for forms of one: rain and rainfall."""


def words(text: str) -> set[str]:
    """The words of a text that say what it is about, without an s at their end."""
    found = {each.lower() for each in _WORD.findall(_CAPITAL.sub(" ", text[:20_000]))} - _COMMON
    return {each.removesuffix("s") if len(each) > 3 else each for each in found} - _COMMON


def initials(question: str) -> set[str]:
    """What words of a question in a row may be abbreviated to: HPV for a high production volume."""
    letters = "".join(each[0].lower() for each in _WORD.findall(question[:2000]) if len(each) > 2)
    return {letters[at : at + size] for size in _INITIALS for at in range(len(letters) - size + 1)}


def names(question: str) -> set[str]:
    """The words of a question that are written as names are, in capitals amid a sentence; they say most."""
    found = re.findall(r"(?<=[\w,:;)] )[^\W\da-z_][\w-]+", question[:20_000])
    return words(" ".join(found))


def stem(family: Family) -> str:
    """The name of files without their ending, by which a note and the table that it explains are found together."""
    return family.name.partition(".")[0].lower()


def touches(
    question: set[str], groups: Sequence[Group], notes: Mapping[str, str] = {}, proper: Collection[str] = ()
) -> dict[int, float]:
    """How much a question's words touch each group of tables, by the group's id.

    Files' names count most, then columns, then values. A word that many groups have says little about each of them, and
    one in another form half as much.

    Args:
        question: Its words.
        groups: The groups.
        notes: What notes say, by the names of the tables that they explain.
        proper: Those of the words that are names; they count more.
    """
    found = {}
    for group in groups:
        names = [f"{family.folder} {family.name}" for family in group.families[:50]]
        tables = [table.name for _, table in group.tables[:50]]
        columns = [column.name for column in group.columns]
        values = [
            " ".join([*column.values, *column.top, *map(str, column.sample), *_years(column)])
            for column in group.columns
        ]
        told = [" ".join([file.note[:500], table.note[:500], *table.raw]) for file, table in group.tables[:3]]
        explained = [notes.get(stem(family), "") for family in group.families[:3]]
        years = [each for each in columns if each.isdigit()]
        columns = [each for each in columns if not each.isdigit()]
        parts = (3.0, [*names, *tables]), (2.0, columns), (1.5, values), (1.5, explained), (1.0, told), (0.5, years)
        found[id(group)] = [each for weight, texts in parts for each in _weighed(question, texts, weight, proper)]
    # The tables of one file have its name's words in common, which say no less about it for that.
    by_file: dict[int, set[str]] = {}
    for group in groups:
        by_file.setdefault(id(group.families[0]), set()).update(*(each for _, each in found[id(group)]))
    spread = Counter(word for there in by_file.values() for word in there)
    return {
        group: sum(weight / math.sqrt(spread[word]) for weight, part in parts for word in part)
        for group, parts in found.items()
    }


def _years(column: Column) -> list[str]:
    """The years from the first of a column's dates to the last."""
    is_dated = column.dtype.startswith("Date") or "year" in column.name.lower()
    found = [re.match(r"[12]\d{3}(?!\d)", str(end)) for end in (column.low, column.high)]
    ends = [int(each[0]) for each in found if each and is_dated]
    return [str(year) for year in range(ends[0], min(ends[1], ends[0] + 300) + 1)] if len(ends) > 1 else []


def _weighed(
    question: set[str], texts: Sequence[str], weight: float, proper: Collection[str]
) -> list[tuple[float, set[str]]]:
    there = words(" ".join(texts))
    exact = question & there
    named = exact.intersection(proper)
    return [(PROPER * weight, named), (weight, exact - named), (weight / 2, common(question, there) - exact)]


def common(question: set[str], there: set[str]) -> set[str]:
    """The words of a question that are there, also in a longer or shorter form."""
    stems = {each[:STEM] for each in there if len(each) >= STEM}
    near = {each for each in question - there if each[:STEM] in stems and len(each) >= STEM}
    long = [each for each in there if len(each) >= STEM]
    return (question & there) | {word for word in near if any(_is_form(word, each) for each in long)}


def _is_form(one: str, other: str) -> bool:
    """Whether two words are forms of one: rain and rainfall, substitute and substitution."""
    alike = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return alike >= min(len(one), len(other), max(SAME_LETTERS, 0.7 * max(len(one), len(other))))


def touch_file(question: set[str], family: Family) -> float:
    """How much a question's words touch the names and the text of files."""
    text = words(" ".join(f"{each.path} {each.text[:2000]}" for each in family.files[:20]))
    return float(len(common(question, text)))


def passages(text: str, question: set[str], room: int) -> str:
    """A text that is longer than its room: how it begins, its headings, and the passages that a question touches."""
    text = "\n\n".join(each for each in re.split(r"\n\s*\n", text) if each.strip() and not _OTHERS_SAY.search(each))
    if len(text) <= room:
        return text
    parts = text.split("\n\n")
    if len(parts) < 3:
        return _lines(text, question, room)
    headings = {at for at, each in enumerate(parts) if each.startswith("#") and "\n" not in each.strip()}
    above = [max((each for each in headings if each <= at), default=-1) for at in range(len(parts))]
    asides = {at for at, heading in enumerate(above) if heading >= 0 and _ASIDE.match(parts[heading])}
    order = sorted(range(1, len(parts)), key=lambda at: (at in asides, -len(common(question, words(parts[at]))), at))
    headings -= asides
    first = _lines(parts[0], question, room // 3)
    kept, left = {0: first}, room - len(first)
    for at in [*sorted(headings - {0})[:20], *order]:
        part = _lines(parts[at], question, max(room // 2, 400))
        if at not in kept and len(part) + 3 <= left:
            kept[at] = part
            left -= len(part) + 3
    told = sorted(kept)
    return "\n".join(kept[at] if at == 0 or at - 1 in kept else f"…\n{kept[at]}" for at in told)


def _lines(text: str, question: set[str], room: int) -> str:
    """A passage that is longer than its room: how it begins, and the lines that a question touches."""
    if len(text) <= room:
        return text
    lines = text.splitlines()
    order = sorted(range(1, len(lines)), key=lambda at: (-len(common(question, words(lines[at]))), at))
    kept, left = {0}, room - len(lines[0])
    for at in order:
        if len(lines[at]) + 3 <= left:
            kept.add(at)
            left -= len(lines[at]) + 3
    return "\n".join(lines[at][:room] if at == 0 or at - 1 in kept else f"…\n{lines[at]}" for at in sorted(kept))
