"""Which texts explain which tables, and what of them a question needs. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from nbagent.agent.dataset.groups import Family, Group, base_name
from nbagent.agent.dataset.text_forms import clipped, quote
from nbagent.agent.dataset.words import common, is_named, stem, words
from nbagent.kernel.inside.notes_inside import NAMES, is_note
from nbagent.kernel.profile import FileProfile

LEAST_NOTES = 6
"""Notes from which those are left out that explain other tables than the question touches."""
ONE_NOTE, ASIDE, ASIDE_SCORE = 1_800, 400, 0.6
"""Characters of a note that doesn't explain its folder, and of a page with tables that the question touches by less
than this part of the most."""
RARE, CLOSE = 4, 0.6
"""How much more a word says that one note alone has, and the part of one's score from which the next is
told as much."""
NAMED = 12
"""How many times as much a word says that a note is called by as one of its text."""
ALIKE = 20
"""Notes whose names differ in numbers only that are looked at."""
LABEL, LABEL_LINES, LEAST_LABELS = 60, 2_000, 2
"""Characters of what a note says of a column, lines of a note in which that is looked for, and columns of a table that
must be told of."""
OTHERS = 0.35
"""The part of a note's room that definitions leave to what the question touches."""
BROKEN = 50
"""Characters of a line from which it may be broken because it is full."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")
_COLUMNS = re.compile(r"\S(?:\s{2,}|\t|\s\|\s)\S|^[-*+|#]|^\d+[.)] ")
"""What stands in a line of a table or of a list."""
LINE = 2_000
"""Characters of a line in which that is looked for."""
_LABEL = re.compile(
    r"\s*+(?:\|\s*+([^|]{1,60}+)\|\s*+([^|]{2,300}+)(?:\|.*)?$"
    r"|(?:[-*+]\s++)?(?:`{1,2}|\*\*)([A-Za-z_][\w. ]{0,58})(?:`{1,2}|\*\*)"
    r"(?:\s*+\([^)]{0,60}\))?\s*+[:\u2013\u2014-]++\s*+(.{2,300})$"
    r"|(?:[-*+]\s++)?([A-Za-z_]\w{0,40})(?:\s*+[:=]|\s++-\s|[^\S\t]*+\t)\s*+(\S.{1,300})$)"
)
"""A line of a note that says of a column what it is: `| name | label |`, "* ``name``: label", `name: label`."""
_SPACES = re.compile(" ++")
_HEADS = frozenset("variable name column field".split())
_ADDRESS = re.compile(r"\]\(https?://[^)\s]{0,500}\)")
"""Where a link of Markdown leads."""
_OF_NOTES = re.compile(rf"(?:{'|'.join(map(re.escape, NAMES))})[a-z]*")
"""What is in the names of notes beside those of the tables that they explain."""
_OTHERS_SAY = re.compile(
    r"(?i)permission is hereby granted|copyright (?:\(c\)|©|\d)|without warranty|software is provided|"
    r"redistribution and use|shall be included in all|issue tracker|pull requests"
)
"""What paragraphs have in them that are a licence, or for those who work on the software."""
_ASIDE = re.compile(
    r"(?i)#+\s*(?:usage|examples?|references?|see also|licen[cs]es?|citations?|citing|acknowledge?ments?|contribut\w*|"
    r"authors?|install\w*|setup|build\w*|versions?|changelog|release\w*)\b"
)
"""Headings of what says little of the data."""


_RULE = re.compile(r"(?m)^[^\S\n]*([=_*~#.-])\1{3,}[^\S\n]*(?:\n|\Z)")
"""A line that only parts others."""
_DEFINES = re.compile(
    r"(?i)[#*\s]*(?:definitions?|notes?|terms|units?|missing values?|missing data|glossary|legend|abbreviations|"
    r"remarks|what the columns mean|variables|columns|caveats|"
    r"begriffe|definitionen|einheiten|fehlende werte|glossar|legende|"
    r"abkürzungen|hinweise|anmerkungen|spalten)\b[^\n]{0,30}?[*:]*\s*(?:\n|\Z)"
)
"""The heading of what a question needs most: what words mean, in which units values are, how missing ones are told."""


def explained_by(note: Family) -> set[str]:
    """The stems of the tables that a note may explain: README_ages.txt does so for ages.csv."""
    stems = {base_name(each.path).partition(".")[0].lower() for each in note.files[:ALIKE]}
    told = {_OF_NOTES.sub("", each).strip("_-. ") for each in stems}
    # What is called README alone explains the files beside it.
    folder = {note.folder.rpartition("/")[2].lower()} if any(map(_is_of_folder, stems)) else set[str]()
    return (stems | told | folder) - {""}


def labels(text: str) -> dict[str, str]:
    """What a note says of columns, by their names: in rows of a table that is drawn, or in a list of them."""
    found: dict[str, str] = {}
    for line in text.splitlines()[:LABEL_LINES]:
        if entry := _LABEL.match(_SPACES.sub(" ", line[:LINE])):
            name, label = (each.strip(" \t`*") for each in entry.groups() if each is not None)
            if label and name.lower() not in _HEADS and label.lower() != name.lower():
                found.setdefault(name, " ".join(label.split()))
    return found


def label_columns(families: Sequence[Family], groups: Sequence[Group]) -> None:
    """Put what the notes of tables say of columns beside those that have no label yet."""
    texts = {file.path: file.text for each in families for file in each.files if file.is_note}
    beside: dict[str, list[str]] = {}
    for each in texts:  # what is called README or the like alone, after no table
        if is_note(each) and _is_of_folder(base_name(each).partition(".")[0].lower()):
            beside.setdefault(each.rpartition("/")[0], []).append(each)
    for group in groups:
        told: dict[str, str] = {}
        folders = dict.fromkeys(family.folder for family in group.families)
        for each in [*group.notes, *(note for folder in folders for note in beside.get(folder, ()))]:
            for name, label in labels(texts.get(each, "")).items():
                told.setdefault(name, label)
        for column in group.columns if sum(each.name in told for each in group.columns) >= LEAST_LABELS else ():
            column.label = column.label or told.get(column.name, "")[:LABEL]


def _is_of_folder(stem: str) -> bool:
    return not _OF_NOTES.sub("", f"{stem}.me" if stem == "read" else stem).strip("_-. ")


def link_notes(families: Sequence[Family], groups: Sequence[Group]) -> None:
    """Give each group the notes that are called as its files or tables are, with or without a number."""
    notes: dict[str, str] = {}
    for each in families:
        if each.files[0].is_note and not each.files[0].tables:
            for file in each.files:
                notes.update(dict.fromkeys(explained_by(Family("", [file])), file.path))
    for group in groups:
        called = [base_name(file.path).partition(".")[0].lower() for file, _ in group.tables]
        called += [table.name.lower() for _, table in group.tables]
        stems = [called, [each.rstrip("0123456789-_ ") for each in called]]
        found = [dict.fromkeys(notes[each] for each in several if each in notes) for several in stems]
        group.notes = list(found[0] or found[1])


def note_lines(
    gathered: Sequence[Family],
    groups: Sequence[Group],
    scores: Mapping[int, float],
    called: Collection[str],
    asked: set[str],
    left: int,
) -> list[str]:
    """The texts that explain the data, the most fitting first: by their words, and as the tables of their names.

    Args:
        gathered: All files.
        groups: Their tables.
        scores: How much the question touches each table.
        called: What the question may call a file.
        asked: Its words.
        left: The room.
    """
    of_each = (file for family in gathered for file in family.files[:ALIKE] if file.is_note and file.text)
    notes = [Family(base_name(file.path), [file]) for file in of_each]
    named: dict[str, float] = {}
    for group in groups:
        for family in group.families:
            if not family.files[0].is_note:
                # A note may explain one table, all of a kind, or all that an instrument has measured.
                ending, folder = family.name.rpartition(".")[2].lower(), family.folder.rpartition("/")[2]
                tables = {table.name.lower() for _, table in group.tables}
                for each in {stem(family), ending, folder.lower(), *words(stem(family)), *tables}:
                    named[each] = max(scores[id(group)], named.get(each, 0.0))
    greatest = max(scores.values(), default=0.0)
    there = {id(each): common(asked, words(f"{each.files[0].path} {each.files[0].text[:2000]}")) for each in notes}
    spread = Counter(word for several in there.values() for word in several)
    fitting = {
        id(each): sum(RARE / spread[word] for word in there[id(each)])
        + len(there[id(each)])
        + NAMED * len(common(asked, words(_OF_NOTES.sub(" ", stem(each)))))
        + max((named.get(about, 0.0) for about in explained_by(each)), default=0.0)
        + 2 * greatest * is_named(called, each)
        for each in notes
    }
    most = max(fitting.values(), default=0.0)
    of_folder = [each for each in notes if _is_of_folder(stem(each))]
    # The one that explains the folder is told first, and whole: no word of a question says which of its rules it needs.
    whole = of_folder[0] if len(of_folder) == 1 and len(_plain(of_folder[0].files[0].text)) <= left else None
    notes.sort(key=lambda each: (each is not whole, -fitting[id(each)]))
    if len(notes) > LEAST_NOTES:
        # Pages on tables of which the question has hardly a word leave the room to what explains the whole folder.
        notes = [
            each
            for each in notes
            if fitting[id(each)] >= most / 2 or _is_of_folder(stem(each)) or not explained_by(each) & named.keys()
        ]
    lines: list[str] = []
    for at, family in enumerate(notes):
        if left < 200:
            break
        file = family.files[0]
        # A page whose tables the question hardly touches is data rather than what explains the data.
        touched = [scores[id(each)] for each in groups if any(file is each for each, _ in each.tables)]
        is_aside = file.kind == "HTML" and max(touched, default=greatest) < ASIDE_SCORE * greatest
        # The next one is told, too, if the question touches it hardly less.
        most = left if family is whole else min(ASIDE if is_aside else ONE_NOTE, left)
        following = notes[at + 1 :][:1]
        if following and family is not whole:
            is_close = fitting[id(following[0])] > CLOSE * fitting[id(family)]
            need = left // 2 if is_close else min(len(_plain(following[0].files[0].text)) + ASIDE // 2, left * 2 // 5)
            most = min(most, max(left - need, ASIDE))
        text = passages(_plain(file.text), asked, most)
        if not text:
            continue
        line = f"{quote(file.path, limit=200)} says: {quote(text, limit=most + 8)}"
        lines.append(line)
        left -= len(line.encode()) + 1
    return lines


def is_told_by(lines: Sequence[str], file: FileProfile) -> bool:
    """Whether lines on notes have said of a file all that there is to be said."""
    return not file.note and any(each.startswith(f"{quote(file.path, limit=200)} says: ") for each in lines)


def _plain(text: str) -> str:
    """A note without rules, and without where its links lead."""
    return _ADDRESS.sub("]", _RULE.sub("", text.replace("\r\n", "\n")).strip())


def passages(text: str, question: set[str], room: int) -> str:
    """A text that is longer than its room: how it begins, its headings, definitions, and what a question touches."""
    text = "\n\n".join(each for each in re.split(r"\n\s*\n", text) if each.strip() and not _OTHERS_SAY.search(each))
    if len(text) <= room:
        return text
    parts = text.split("\n\n")
    if len(parts) < 3:
        return _lines(text, question, room)
    headings = {at for at, each in enumerate(parts) if each.startswith("#") and "\n" not in each.strip()}
    above = [max((each for each in headings if each <= at), default=-1) for at in range(len(parts))]
    asides = {at for at, heading in enumerate(above) if heading >= 0 and _ASIDE.match(parts[heading])}
    begun = {at for at, each in enumerate(parts) if _DEFINES.match(each)}
    defined = {at for at in range(len(parts)) if {at, above[at]} & begun}
    defined |= {at + 1 for at in begun - headings if _DEFINES.fullmatch(parts[at])}
    defined -= {len(parts)}
    touch = [len(common(question, words(each))) for each in parts]
    order = sorted(range(1, len(parts)), key=lambda at: (at in asides, -touch[at], at))
    headings -= asides
    first = _lines(parts[0], question, room // 3)
    kept, left = {0: first}, room - len(first)
    for at in [*sorted(headings - {0})[:20], *sorted(defined - asides - {0}), *order]:
        # Definitions are told nearly whole, but what follows them leaves room to what the question touches.
        most = left - int(room * OTHERS) if at in defined and not touch[at] else max(room // 2, 400)
        part = _lines(parts[at], question, max(min(most, left - 3), 0))
        if at not in kept and part and len(part) + 3 <= left:
            kept[at] = part
            left -= len(part) + 3
    told = sorted(kept)
    return "\n".join(kept[at] if at == 0 or at - 1 in kept else f"…\n{kept[at]}" for at in told)


def sentences(text: str) -> list[str]:
    """The lines of a text; the sentences of prose whose lines are broken where they are full."""
    found: list[str] = []
    for part in re.split(r"\n[^\S\n]*\n", text):
        lines = part.splitlines()
        widest = max(map(len, lines), default=0)
        is_broken = len(lines) > 1 and widest > BROKEN and all(3 * len(each) > 2 * widest for each in lines[:-1])
        is_prose = is_broken and not any(_COLUMNS.search(each.strip()) for each in lines)
        found += _SENTENCE.split(" ".join(map(str.strip, lines))) if is_prose else lines
    return found or [""]


def _lines(text: str, question: set[str], room: int) -> str:
    """A passage that is longer than its room: how it begins, and the lines that a question touches."""
    if len(text) <= room:
        return text
    lines = sentences(text)
    order = sorted(range(1, len(lines)), key=lambda at: (-len(common(question, words(lines[at]))), at))
    kept, left = {0}, room - len(lines[0])
    for at in order:
        if len(lines[at]) + 3 <= left:
            kept.add(at)
            left -= len(lines[at]) + 3
    told = [clipped(lines[at], room) if at == 0 or at - 1 in kept else f"…\n{lines[at]}" for at in sorted(kept)]
    return "\n".join(told if len(lines) - 1 in kept or told[-1].endswith("…") else [*told, "…"])
