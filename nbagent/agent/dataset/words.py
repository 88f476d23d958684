"""Which files, columns and values the words of a question touch. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from nbagent.agent.dataset.groups import Family, Group, base_name
from nbagent.kernel.profile import Column

_WORD = re.compile(r"[^\W_]{2,}")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z]{3})(?=\d)")
"""Where a word begins in the middle of a name: MASchools, yearOfBirth, Amsterdam0624."""
_PARTS = re.compile(r"[^\W_]+")
TOGETHER = 4
"""Words of a question that may be one in a file's name."""
_INITIALS = range(3, 6)
"""Letters of an abbreviation by which a file may be named after words of a question."""
_COMMON = frozenset(
    "the of and in to is are was were what which how many much for with by on from per all each at an or as that this "
    "does do did have has between than its it be number average mean total give list show file files data value values "
    "highest lowest high low most least best worst largest smallest greatest biggest more less fewer among where there "
    "year month day date time one two three all both together over after before "
    "der die das und in von wie viele welche ist sind im den mit für".split()
)
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


def calls(question: str) -> set[str]:
    """What a question may call a file: its words, and several of them in a row as one, without an s at the end."""
    parts = [each.lower() for each in _PARTS.findall(question[:20_000])]
    rows = (parts[at : at + size] for size in range(1, TOGETHER + 1) for at in range(len(parts) - size + 1))
    return {"".join(row).removesuffix("s") for row in rows if not _COMMON.issuperset(row)}


def is_named(called: Collection[str], family: Family) -> bool:
    """Whether files are called by their whole name, with their ending or, if that says something, without it."""
    own = base_name(family.files[0].path).lower()
    stem = own.partition(".")[0].rstrip("0123456789_-. ") if len(family.files) > 1 else own.partition(".")[0]
    names = ["".join(_PARTS.findall(each)).removesuffix("s") for each in (own, stem)]
    return names[0] in called or (len(names[1]) > 2 and names[1] in called)


def touches(
    question: set[str],
    groups: Sequence[Group],
    notes: Mapping[str, str] = {},
    proper: Collection[str] = (),
    short: Collection[str] = (),
) -> dict[int, float]:
    """How much a question's words touch each group of tables, by the group's id.

    Files' names count most, then columns, then values. A word that many groups have says little about each of them, and
    one in another form half as much.

    Args:
        question: Its words.
        groups: The groups.
        notes: What notes say, by the names of the tables that they explain.
        proper: Those of the words that are names; they count more.
        short: What others may be abbreviated to in the names of files and tables.
    """
    found = {}
    root = min((family.folder for group in groups for family in group.families[:1]), key=len, default="")
    for group in groups:
        names = [f"{family.folder} {family.name}" for family in group.families[:50]]
        tables = [table.name for _, table in group.tables[:50]]
        columns = [column.name for column in group.columns]
        labels = [column.label for column in group.columns]
        values = [
            " ".join([*column.values, *column.top, *map(str, column.sample), *_years(column)])
            for column in group.columns
        ]
        told = [" ".join([file.note[:500], table.note[:500], *table.raw]) for file, table in group.tables[:3]]
        explained = [
            notes.get(each, "")
            for family in group.families[:3]
            for each in (stem(family), *((family.folder.rpartition("/")[2].lower(),) if family.folder != root else ()))
        ]
        years = [each for each in columns if each.isdigit()]
        columns = [each for each in columns if not each.isdigit()]
        parts = (
            (3.0, [*names, *tables]),
            (2.0, columns),
            (1.5, values),
            (1.5, explained),
            (1.0, labels),
            (1.0, told),
            (0.5, years),
        )
        found[id(group)] = [each for weight, texts in parts for each in _weighed(question, texts, weight, proper)]
        found[id(group)].append((3.0, words(" ".join([*names, *tables])).intersection(short) - question))
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
    near = common(question, there) - exact
    short = {word for word in near if any(word.startswith(each) for each in there if len(each) > STEM)}
    return [(PROPER * weight, named), (weight, (exact - named) | short), (weight / 2, near - short)]


def common(question: set[str], there: set[str]) -> set[str]:
    """The words of a question that are there, also in a longer or shorter form, or as a long part of a word."""
    stems = {each[:STEM] for each in there if len(each) >= STEM}
    near = {each for each in question - there if each[:STEM] in stems and len(each) >= STEM}
    long = [each for each in there if len(each) >= STEM]
    forms = {word for word in near if any(_is_form(word, each) for each in long)}
    joined = " ".join(long)
    return (question & there) | forms | {word for word in question if len(word) >= SAME_LETTERS and word in joined}


def _is_form(one: str, other: str) -> bool:
    """Whether two words are forms of one: rain and rainfall, substitute and substitution."""
    alike = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return alike >= min(len(one), len(other), max(SAME_LETTERS, 0.7 * max(len(one), len(other))))


def asked_values(column: Column, asked: Collection[str]) -> list[str]:
    """A column's values that contain two or more words of the question, or consist mostly of them; the most first."""
    known = dict.fromkeys([*column.values, *column.names, *column.top]) if asked else {}
    text = "\n".join(known).lower()
    likely = [each for each in asked if each in text]
    parts = {each: words(each) for each in known if likely}
    found = {each: len(own.intersection(likely)) for each, own in parts.items()}
    fitting = (each for each, count in found.items() if count > 1 or 2 * count > len(parts[each]))
    return sorted(fitting, key=lambda each: -found[each])


def touch_file(question: set[str], family: Family) -> float:
    """How much a question's words touch the names and the text of files."""
    text = words(" ".join(f"{each.path} {each.text[:2000]}" for each in family.files[:20]))
    return float(len(common(question, text)))
