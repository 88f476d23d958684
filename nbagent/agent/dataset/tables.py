"""Tells a file or a table of the data in lines of the prompt. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from nbagent.agent.dataset.columns import column_line, is_trap, named
from nbagent.agent.dataset.groups import Family, Group, base_name, folded, is_nameless, names_together, pattern
from nbagent.agent.dataset.keys import ROW_NUMBERS
from nbagent.agent.dataset.read_calls import call_lines
from nbagent.agent.dataset.text_forms import NAME, VALUE, clipped, plain, quote, size_of, times
from nbagent.agent.dataset.words import asked_values, common, words
from nbagent.core.text import share
from nbagent.kernel.profile import LEADING_ZEROS, Column

NOTE = 300
"""Characters of a note."""
MOST_COLUMNS, TOUCHED = 60, 6
"""Columns of a table that are told, and those of a table that is told briefly whose names the question touches."""
LISTED = 24
"""Columns of a table of very many that is told briefly of which the names are told."""
UNDESCRIBED = 20
"""Sheets or files of an archive that are named without their columns."""
WIDE = 8
"""Columns up to which a table of few rows is told row by row."""
LABELS = 700
"""Characters of the labels of a table that is told briefly up to which all are told; else those of touched columns."""
BESIDE, STACKED_TOUCHED = 3, 1
"""Columns that are named of a table that stands in a file with others, and those of the first that are told briefly."""
NOTES = 2
"""Notes on a table that are named."""
SHOWN = 3
"""Lines that are shown of a table without names that is told briefly."""
HEADS, HEAD_LINES, HEAD_WIDTH, MOST_HEADS = 2, 4, 400, 40
"""Lines with what stands above the tables of a family, lines of each that are looked at, their characters, and such
tables."""
FULL, BRIEF = 2, 1
COMMENTS = ("#", "//", "%", "--", "!")
"""How comments begin."""
COLUMNS = "    columns: "
"""How the line of a table's names begins."""
ASKED = 3
"""Columns whose values have the question's words that are told of a table."""
SCALED = 3
"""Columns with other scales that are told."""
SCALE, FAR = 8, 50
"""How many times as great the greatest value of some files is where another unit is likely, if their least one is, too;
and where that is 0."""
BEGIN = 400
"""Characters of how a text begins."""
FIRST_LINES, LEAST_LINE, ROW = 900, 60, 100
"""Characters of the first lines of a table, of each at least, and of its header and rows at most."""
_CODE = re.compile(r"(?i)(?:^|[\W_])(?:codes?|ids?|nr|no|num|number|key|fips)(?:[\W_]|$)")
"""What is in the name of a column of codes."""
_PARTS = re.compile(r"[\s,;|]+")
_GAP = re.compile(r"\s{2,}|\t|\s*[|;]\s*")
"""What parts the words above a table."""
_NAME = re.compile(r"[^\W\d_]{4,}")
_PLACE = re.compile(r"(?:skip_lines=\d+, )?n_rows=\d+|no call")
"""Where in its file a call reads a table."""


def file_lines(family: Family) -> list[str]:
    """A file that has no table."""
    file = family.files[0]
    facts = ", ".join(each for each in (quote(file.kind).strip('"'), size_of(file.size) if file.size else "") if each)
    lines = [f"- {quote(family.path, limit=200)}{times(len(family.files))}" + (f" ({facts})" if facts else "")]
    if file.note:
        lines.append(f"    note: {quote(clipped(file.note, NOTE), limit=NOTE + 1)}")
    if file.text and not file.is_note:
        lines.append(f"    begins with: {quote(clipped(file.text, BEGIN), limit=BEGIN + 1)}")
    return lines


def undescribed(family: Family) -> list[str]:
    """The sheets of a workbook or files of an archive of which no columns are known."""
    file = family.files[0]
    several = [each for each in file.tables if each.name and not each.columns]
    named = [quote(each.name, limit=NAME) for each in several[:UNDESCRIBED]]
    if file.kind.startswith("zip"):
        named = [f"{name} ({quote(each.note, limit=VALUE)[1:-1]})" for name, each in zip(named, several, strict=False)]
    more = f" and {len(several) - UNDESCRIBED} more" if len(several) > UNDESCRIBED else ""
    return [f"- {quote(family.path, limit=200)} also has {', '.join(named)}{more}"] if several else []


def is_stacked(group: Group) -> bool:
    """Whether its tables stand in one text file, below or above others."""
    file = group.tables[0][0]
    return file.kind == "CSV" and len(file.tables) > 1 and all(each is file for each, _ in group.tables)


def _stacked(group: Group) -> list[str]:
    """The other tables of a text file, each with its place and its first columns."""
    if not is_stacked(group):
        return []
    file, told = group.tables[0]
    others = [
        f"{quote(each.name, limit=NAME)} ({_PLACE.findall(each.call or 'no call')[-1]}): "
        + ", ".join(quote(column.name, limit=VALUE) for column in each.columns[:BESIDE])
        + ", …" * (len(each.columns) > BESIDE)
        for each in file.tables
        if each is not told
    ]
    return [f"    also in the file: {'; '.join(others)}"]


def table_lines(
    group: Group, level: int, *, columns: int = MOST_COLUMNS, asked: Collection[str] = frozenset()
) -> list[str]:
    """A table, or several with the same columns; if it is told briefly, of those columns more that are asked for."""
    file, table = group.tables[0]
    most = 4 if len(group.families) <= 4 else 2
    names = [f"{quote(each.path, limit=200)}{_within(group, each)}" for each in group.families[:most]]
    more = f" and {len(group.families) - most} more" if len(group.families) > most else ""
    width = max(table.width, len(group.columns))
    facts = [quote(file.kind).strip('"')] if file.kind else []
    if table.name:
        facts.append(quote(group.table_name))
    if table.rows is not None:
        facts.append(f"{'about ' if table.sampled else ''}{group.rows:,} rows")
    facts.append(f"{width:,} columns")
    lines = [f"- {', '.join(names)}{more}{times(len(group.tables))} ({', '.join(facts)})"]
    if group.notes:
        lines.append(f"    explained in: {', '.join(quote(base_name(each), limit=90) for each in group.notes[:NOTES])}")
    told, rows = folded(group.columns), 0 if table.sampled else group.rows
    left_out = width - len(group.columns) + len(told[columns:])
    if level == BRIEF:
        shares = {each.name: _asked_part(each.name, set(asked)) for each in told}
        by_name = [each for each in told if shares[each.name] or is_trap(each)]
        by_name.sort(key=lambda each: -shares[each.name])  # what the question names whole, before what has a word of it
        by_value = [each for each in told if each not in by_name and asked_values(each, asked)]
        known = [*by_name, *by_value[:ASKED]]
        touched = [*known, *(each for each in told if each not in known and common(set(asked), words(each.label)))]
        touched = touched[: STACKED_TOUCHED if is_stacked(group) else TOUCHED]
        several = [each for each in told if each.label or each.name.lower() not in ROW_NUMBERS] or told
        if len(several) > MOST_COLUMNS:
            several = sorted(several, key=lambda each: each not in touched)[:LISTED]
            left_out = width - len(group.columns) + len(told) - len(several)
        is_labelled = sum(len(each.label[:VALUE]) for each in several) <= LABELS
        listed = ", ".join(named(several, touched, is_labelled=is_labelled))
        more = f" and {left_out:,} more" if left_out else ""
        shown = [column_line(each, rows, asked) for each in touched]
        lines += [*call_lines(group), f"{COLUMNS}{listed}{more}", *shown, *_scales(group)]
        beside = _stacked(group)
        lines += first_lines(group, SHOWN) if all(map(is_nameless, group.columns)) else []
        lines += (each for each in _heads(group) if common(set(asked), words(each)))
        note = quote(clipped(file.note, NOTE // 2), limit=NOTE // 2 + 1)
        return [*lines, *beside, *(f"    note: {note}" for _ in beside if file.note)]
    lines += [*call_lines(group), *_stacked(group)]
    by_row = _rows(group)
    lines += [column_line(_without_values(each) if by_row else each, rows, asked) for each in told[:columns]]
    if left_out:
        lines.append(f"    … and {left_out:,} more columns")
    lines += by_row
    lines += _scales(group)
    return [*lines, *_notes(group), *first_lines(group), *_heads(group)]


def _asked_part(name: str, asked: set[str]) -> float:
    """The part of the words of a column's name that a question has."""
    there = words(name)
    return min(1.0, len(common(asked, there)) / max(1, len(there)))


def _without_values(column: Column) -> Column:
    return replace(column, values={}, sample=[], distinct=0, low=None, high=None)


def _within(group: Group, family: Family) -> str:
    """The names of an archive's files, which are of one kind with others that lie beside it."""
    file = family.files[0]
    names = [table.name for each, table in group.tables if each is file]
    return f" ({quote(names_together(names), limit=NAME)})" if any(names) and not group.tables[0][1].name else ""


def _notes(group: Group) -> list[str]:
    """What there is to say of files and tables, once of what differs in numbers only."""
    notes: dict[str, list[str]] = {}
    for each in dict.fromkeys(each for file, table in group.tables for each in (file.note, table.note) if each):
        notes.setdefault(pattern(each), []).append(each)
    return [
        f"    note: {quote(clipped(several[0], NOTE), limit=NOTE + 1)}"
        + (f", with other numbers in {len(several) - 1} more" if len(several) > 1 else "")
        for several in list(notes.values())[:3]
    ]


def _heads(group: Group) -> list[str]:
    """What stands above the tables of a family that differs in words, such as of which station each is."""
    raws = [[line[:HEAD_WIDTH] for line in table.raw[:-1][:HEAD_LINES]] for _, table in group.tables[:MOST_HEADS]]
    called = {word for each in group.columns for word in each.name.split()}
    lines: list[str] = []
    files = [posixpath.basename(file.path).casefold() for file, _ in group.tables[:MOST_HEADS]]
    for number, several in enumerate(zip(*raws, strict=False), start=1):
        parts = [_GAP.split(each.strip()) for each in several]
        if any(_is_header(each, called) for each in several):
            break
        for names in zip(*parts, strict=False):
            begin = posixpath.commonprefix(names)
            begin = begin[: max(begin.rfind(sign) for sign in " :=#") + 1]
            is_named = 2 * sum(any(word in file for word in _NAME.findall(name.casefold()))
                               for name, file in zip(names, files, strict=True)) > len(names)  # fmt: skip
            if 2 * len({*map(pattern, names)}) > len(names) > 1 and all(map(_NAME.search, names)) and not is_named:
                told = [quote(each[len(begin) :].strip()) for each in names]
                ends = itertools.accumulate(map(len, told))
                kept = told[: sum(end <= NOTE for end in ends)]
                left = len(group.tables) - len(kept)
                behind = f" behind {quote(begin.strip())}" if begin.strip() else ""
                lines.append(f"    line {number} of each{behind}: {', '.join(kept)}" + f" and {left} more" * (left > 0))
    return lines[:HEADS] if not all(map(is_nameless, group.columns)) else []


def _is_header(line: str, called: set[str]) -> bool:
    """Whether a line has most words of the columns' names."""
    return 2 * len(called.intersection(_PARTS.split(line[:HEAD_WIDTH]))) > len(called)


def first_lines(group: Group, last: int = 0) -> list[str]:
    """The lines with which a table begins, where they are odd or say something of it; only the last ones if asked."""
    raw = group.tables[0][1].raw[-last:]
    called = {word for each in group.columns for word in each.name.split()}
    # What stands in the header and the rows is told by the columns.
    header = next((at for at, line in enumerate(raw) if _is_header(line, called)), len(raw))
    lines = (line if at < header or len(line) <= ROW else f"{line[:ROW]}…" for at, line in enumerate(raw))
    return _quoted_lines(list(lines), FIRST_LINES)


def comments(group: Group, room: int) -> list[str]:
    """The comments with which a table begins, as far as there is room."""
    raw = group.tables[0][1].raw
    return _quoted_lines([each for each in raw if each.startswith(COMMENTS)], room)


def _quoted_lines(raw: Sequence[str], room: int) -> list[str]:
    most = max(share(map(len, raw), room - 4 * len(raw)), LEAST_LINE)  # short lines leave their room to a long one
    return [f"    first lines: {' '.join(quote(each, limit=most) for each in raw)}"] if raw else []


def _rows(group: Group) -> list[str]:
    """A small table row by row, since from each column's values nobody knows which belong together."""
    table = group.tables[0][1]
    whole = [each.rows for each in table.columns]
    if len(group.tables) > 1 or not 1 < table.width <= WIDE or any(len(each) != table.rows for each in whole):
        return []
    return [f"    row: {', '.join(quote(value, limit=NAME) for value in each)}" for each in zip(*whole, strict=True)]


def _scales(group: Group) -> list[str]:
    """Columns whose values are far greater in some files than in others, as they are in another unit."""
    lines = []
    # Tables of one file, such as sheets, differ in what they are of.
    by_file = len(group.tables) == len(max(group.sides, key=len, default=[])) == len({id(f) for f, _ in group.tables})
    for side in group.sides if by_file else ():
        if any(LEADING_ZEROS in each.form for each in side):
            continue  # a code has no unit
        ends = [
            (float(each.high), float(each.low), quote(base_name(file.path), limit=80))
            for each, (file, _) in zip(side, group.tables, strict=False)
            if isinstance(each.high, int | float) and each.high > 0 and isinstance(each.low, int | float)
            if each.low < each.high and not _CODE.search(each.name)  # codes of places are others in each file
        ]
        ends.sort(key=lambda each: each[0])
        gap = max(range(1, len(ends)), key=lambda at: ends[at][0] / ends[at - 1][0], default=0)
        if gap and _are_scaled(ends[:gap], ends[gap:]):
            parts = [
                f"{part[0][2]}{f' and {len(part) - 1} more' if len(part) > 1 else ''}: "
                f"{plain(min(low for _, low, _ in part))} to {plain(part[-1][0])}"
                for part in (ends[:gap], ends[gap:])
            ]
            lines.append(f"    {quote(side[0].name, limit=NAME)} may be in two units: {'; '.join(parts)}")
    return lines if len(lines) <= SCALED else [*lines[:1], f"    and {len(lines) - 1} more columns in these files, too"]


def _are_scaled(small: Sequence[tuple[float, float, str]], large: Sequence[tuple[float, float, str]]) -> bool:
    """Whether values of some files, by their greatest and least, may be those of others in a smaller unit."""
    ratio = large[0][0] / small[-1][0]
    lows = [min(abs(low) for _, low, _ in part) for part in (small, large)]
    # In smaller units the least value is a larger number, too. Where some are 0, that can't be seen.
    return ratio > FAR if 0 in lows else ratio > SCALE and lows[1] > SCALE / 2 * lows[0]
