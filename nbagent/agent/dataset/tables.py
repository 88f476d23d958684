"""Tells a file, a table or a column of the data in lines of the prompt.

Names and values are written as JSON strings, so that none can end the section or look like a heading. Pure.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from nbagent.agent.dataset.groups import WRITTEN_NUMBERS, Family, Group, base_name, folded, is_empty, is_nameless
from nbagent.agent.dataset.keys import ROW_NUMBERS
from nbagent.agent.dataset.one_way import NULLS, QUOTED
from nbagent.agent.dataset.words import asked_values, common, words
from nbagent.core.text import share, visible
from nbagent.kernel.profile import Column, FileProfile, Table

VALUE, NAME, TYPE, NOTE = 40, 100, 80, 300
"""Characters of a value, of a column's name, which code must have whole, of a type with what is odd about it, and of a
note."""
CALL, VALUES = 1_500, 240
"""Characters of a call, and of a column's values."""
MOST_COLUMNS, TOUCHED = 60, 6
"""Columns of a table that are told, and those of a table that is told briefly whose names the question touches."""
LISTED = 24
"""Columns of a table of very many that is told briefly of which the names are told."""
UNDESCRIBED = 20
"""Sheets or files of an archive that are named without their columns."""
LABEL = 60
"""Characters of what is said of a column."""
CHOICE = 40
"""Characters of the values of a column that is told by its name alone up to which they are told, too."""
ALIKE = 4
"""Columns beside each other of one type from which that is said once."""
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
FULL, BRIEF = 2, 1
COMMENTS = ("#", "//", "%", "--", "!")
"""How comments begin."""
COLUMNS = "    columns: "
"""How the line of a table's names begins."""
ASKED = 3
"""Columns whose values have the question's words that are told of a table, and such values of a column of many."""
NEARLY = 0.97
"""The part of all values that are different by an estimate, from which all of them may be."""
SCALED = 3
"""Columns with other scales that are told."""
SCALE, FAR = 8, 50
"""How many times as great the greatest value of some files is where another unit is likely, if their least one is, too;
and where that is 0."""
BEGIN = 400
"""Characters of how a text begins."""
FIRST_LINES, LEAST_LINE = 900, 60
"""Characters of the first lines of a table, and of each at least."""
_ENDS = re.compile(r"[.!?;](?=\s)|\n")
"""Where a sentence or a line ends."""
_NO_ZONE = re.compile(r"\(time_unit='\w+', time_zone=None\)")
_OWN_NULLS = re.compile(rf", null_values=\{{{QUOTED.pattern}: [^{{}}]*\}}")
"""The words that a call reads as null in single columns."""
_PLACE = re.compile(r"(?:skip_lines=\d+, )?n_rows=\d+|no call")
"""Where in its file a call reads a table."""


def many(family: Family) -> str:
    """How many files a family has, behind its name; nothing for one."""
    return f" ×{len(family.files):,}" if len(family.files) > 1 else ""


def file_lines(family: Family) -> list[str]:
    """A file that has no table."""
    file = family.files[0]
    facts = ", ".join(each for each in (quote(file.kind).strip('"'), size_of(file.size) if file.size else "") if each)
    lines = [f"- {quote(family.path, limit=200)}{many(family)}" + (f" ({facts})" if facts else "")]
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
    names = [quote(each.path, limit=200) for each in group.families[:most]]
    more = f" and {len(group.families) - most} more" if len(group.families) > most else ""
    width = max(table.width, len(group.columns))
    facts = [quote(file.kind).strip('"')] if file.kind else []
    if table.name:
        facts.append(quote(group.table_name))
    if table.rows is not None:
        facts.append(f"{'about ' if table.sampled else ''}{group.rows:,} rows")
    facts.append(f"{width:,} columns")
    many = f" ×{len(group.tables)}" if len(group.tables) > 1 else ""
    lines = [f"- {', '.join(names)}{more}{many} ({', '.join(facts)})"]
    if group.notes:
        lines.append(f"    explained in: {', '.join(quote(base_name(each), limit=90) for each in group.notes[:NOTES])}")
    told, rows = folded(group.columns), 0 if table.sampled else group.rows
    left_out = width - len(group.columns) + len(told[columns:])
    if level == BRIEF:
        by_name = [each for each in told if common(set(asked), words(each.name)) or _is_trap(each)]
        by_value = [each for each in told if each not in by_name and asked_values(each, asked)]
        known = [*by_name, *by_value[:ASKED]]
        touched = [*known, *(each for each in told if each not in known and common(set(asked), words(each.label)))]
        touched = touched[: STACKED_TOUCHED if is_stacked(group) else TOUCHED]
        named = [each for each in told if each.label or each.name.lower() not in ROW_NUMBERS] or told
        if len(named) > MOST_COLUMNS:
            named = sorted(named, key=lambda each: each not in touched)[:LISTED]
            left_out = width - len(group.columns) + len(told) - len(named)
        is_labelled = sum(len(each.label[:VALUE]) for each in named) <= LABELS
        listed = ", ".join(_named(named, touched, is_labelled=is_labelled))
        more = f" and {left_out:,} more" if left_out else ""
        shown = [column_line(each, rows, asked) for each in touched]
        lines += [*_calls(group), f"{COLUMNS}{listed}{more}", *shown, *_scales(group)]
        beside = _stacked(group)
        lines += first_lines(group, SHOWN) if all(map(is_nameless, group.columns)) else []
        note = quote(clipped(file.note, NOTE // 2), limit=NOTE // 2 + 1)
        return [*lines, *beside, *(f"    note: {note}" for _ in beside if file.note)]
    lines += [*_calls(group), *_stacked(group)]
    by_row = _rows(group)
    lines += [column_line(_without_values(each) if by_row else each, rows, asked) for each in told[:columns]]
    if left_out:
        lines.append(f"    … and {left_out:,} more columns")
    lines += by_row
    lines += _scales(group)
    notes = dict.fromkeys(each for file, table in group.tables for each in (file.note, table.note) if each)
    lines += [f"    note: {quote(clipped(each, NOTE), limit=NOTE + 1)}" for each in list(notes)[:3]]
    return [*lines, *first_lines(group)]


def first_lines(group: Group, last: int = 0) -> list[str]:
    """The lines with which a table begins, where they are odd or say something of it; only the last ones if asked."""
    return _quoted_lines(group.tables[0][1].raw[-last:], FIRST_LINES)


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
    for side in group.sides if len(group.tables) == len(max(group.sides, key=len, default=[])) else ():
        ends = [
            (float(each.high), float(each.low), quote(base_name(file.path), limit=80))
            for each, (file, _) in zip(side, group.tables, strict=False)
            if isinstance(each.high, int | float) and each.high > 0 and isinstance(each.low, int | float)
        ]
        ends.sort(key=lambda each: each[0])
        gap = max(range(1, len(ends)), key=lambda at: ends[at][0] / ends[at - 1][0], default=0)
        if gap and _are_scaled(ends[:gap], ends[gap:]):
            parts = [
                f"{part[0][2]}{f' and {len(part) - 1} more' if len(part) > 1 else ''}: "
                f"{_plain(min(low for _, low, _ in part))} to {_plain(part[-1][0])}"
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


def _without_values(column: Column) -> Column:
    return replace(column, values={}, sample=[], distinct=0, low=None, high=None)


def _calls(group: Group) -> list[str]:
    """The calls that read tables, without those that anybody would write."""
    found: dict[str, list[FileProfile]] = {}
    nulls: dict[str, set[str]] = {}
    places: dict[str, int] = {}
    for file, table in group.tables:
        call = table.call.replace(repr(file.path), "path")
        if (table.name and table.name != group.tables[0][1].name) or len({each.name for _, each in group.tables}) > 1:
            call = call.replace(repr(table.name), "name")
        # What means a missing value in one file may stand in the others, too: one call reads them all.
        if words := NULLS.search(call):
            call = NULLS.sub("", call)
            nulls.setdefault(call, set()).update(QUOTED.findall(words[0]))
            places[call] = words.start()
        found.setdefault(call, []).append(file)
    for call, together in nulls.items():
        at = places[call]
        found[f"{call[:at]}, null_values=[{', '.join(sorted(together))}]{call[at:]}"] = found.pop(call)
    # Columns in which a word is null in one file and a value in another are read as text from all.
    bare = Counter(_OWN_NULLS.sub("", call) for call in found)
    for call in [each for each in found if bare[_OWN_NULLS.sub("", each)] > 1]:
        found.setdefault(_OWN_NULLS.sub("", call), []).extend(found.pop(call))
    if all(is_plain(call, group.tables[0][1]) for call in found) and len({file.kind for file, _ in group.tables}) == 1:
        return []  # of several kinds, it is said which call reads which
    lines = []
    for call, files in sorted((each for each in found.items() if each[0]), key=lambda each: -len(each[1]))[:3]:
        where = "" if len(found) == 1 else f" of {quote(base_name(files[0].path), limit=80)}"
        many = f" and {len(files) - 1} more" if where and len(files) > 1 else ""
        lines.append(f"    read{where}{many}: {_code(call)}")
    return lines


def _code(call: str) -> str:
    """A call as code, if it can't end the section; else as text."""
    is_harmless = call.isprintable() and "<" not in call and len(call) <= CALL
    return call if is_harmless else quote(call, limit=CALL)


def is_plain(call: str, table: Table) -> bool:
    """Whether a call is what anybody would write first."""
    plain = ("pl.read_csv(path)", "pl.read_parquet(path)", "pl.read_ipc(path)", "")
    return call in plain and not table.raw


def _is_trap(column: Column) -> bool:
    """Whether its call misleads: values are a thousandth of what they are, or in two forms, or sums are among them."""
    return (
        bool(column.sums)
        or column.form.startswith("thousands points")
        or (bool(column.others) and (column.form == "numbers" or column.form.startswith("%")))
    )


def _named(columns: Sequence[Column], told: Collection[Column], *, is_labelled: bool) -> list[str]:
    """Columns by their names; those that are not told anyway with their types, which neighbours share."""
    named = []
    for kind, several in itertools.groupby(columns, key=lambda each: "" if each in told else _kind(each)):
        names = [_by_name(each, is_told=each in told, is_labelled=is_labelled) for each in several]
        if kind and len(names) >= ALIKE:
            named += [*names[:-1], f"{names[-1]} (these {len(names)} {kind})"]
        else:
            named += [f"{name} {kind}" if kind else name for name in names]
    return named


def _kind(column: Column) -> str:
    """A column's type, or its few values; nothing for a plain text of many."""
    if is_empty(column):
        return "all empty"
    values = [quote(each) for each in column.values if each not in column.missing]
    if column.dtype == "String" and not column.form and len("|".join(values)) <= CHOICE and values:
        return "|".join(values)
    kind = quote(column.form or _NO_ZONE.sub("", column.dtype), limit=VALUE)[1:-1]
    return "" if kind in ("String", "TEXT") else kind


def _by_name(column: Column, *, is_told: bool, is_labelled: bool) -> str:
    label = f" ({quote(column.label)})" if column.label and not is_told and is_labelled else ""
    return f"{quote(column.name, limit=NAME)}{label}"


def column_line(column: Column, rows: int = 0, asked: Collection[str] = frozenset()) -> str:
    """A column, with what is odd about its values.

    Args:
        column: The column.
        rows: The rows of its table, if they are known.
        asked: The words of a question, of which values are told first that have them.
    """
    if is_empty(column):
        return f"    {quote(column.name, limit=NAME)}: all empty" + (
            f", {_counted(column.missing)}" if column.missing else ""
        )
    facts = [quote(_NO_ZONE.sub("", column.dtype), limit=TYPE).strip('"') or "?"]
    if column.form:
        facts[0] += f" ({quote(column.form, limit=TYPE)[1:-1]})"
    if column.label:
        facts.append(f"label {quote(column.label, limit=LABEL)}")
    if column.unit and f"({column.unit})" not in column.name:
        facts.append(f"unit {quote(column.unit)}")
    is_number = column.dtype.startswith(("Int", "UInt"))
    spoken = {*column.missing, *column.others}
    values = {value: count for value, count in column.values.items() if value not in spoken}
    fitting = asked_values(column, asked)
    if values and not (is_number and len(values) > 5):
        facts.append(_counted({each: values[each] for each in fitting if each in values} | values))
    elif column.low is not None and (not column.dtype.startswith("String") or column.form in WRITTEN_NUMBERS):
        facts.append(f"{_plain(column.low)} to {_plain(column.high)}")
    if not column.values and column.distinct and not column.dtype.startswith(("Float", "Decimal", "Date")):
        if column.sample and (column.low is None or column.dtype.startswith(("String", "TEXT", "VARCHAR", "CHAR"))):
            most = [f"{quote(value)} ×{count:,}" for value, count in column.top.items()]
            facts.append(f"most {', '.join(most)}" if most else f"e.g. {', '.join(map(quote, column.sample[:2]))}")
        if not (is_number and column.about):
            facts.append(_different(column, rows))
            if column.alike:
                facts[-1] += f", {column.alike:,} without case and spaces"
        if fitting:
            facts.append(f"among them {', '.join(map(quote, fitting[:ASKED]))}")
    is_null = "read as null" if column.dtype in ("Int64", "Float64") else "also"
    others = {value: count for value, count in column.others.items() if value not in column.sums}
    for what, counts in ((is_null, others), ("missing", column.missing), ("missing?", column.sentinels)):
        if counts:
            facts.append(f"{what} {_counted(dict(list(counts.items())[:5]))}")
    if column.sums:
        facts.append(f"rows of sums? {_counted(column.sums)}")
    if column.empty:
        facts.append(f"{column.empty:,} empty")
    if column.padded:
        facts.append(f"{column.padded:,} with spaces around")
    return f"    {quote(column.name, limit=NAME)}: {', '.join(facts)}"


def _different(column: Column, rows: int) -> str:
    """How many different values a column has; of an estimate, its last digits say nothing."""
    filled = rows - column.empty - sum(column.missing.values())
    if not column.about:
        return "all different" if column.distinct == filled else f"{column.distinct:,} different"
    return "nearly all different" if column.distinct > NEARLY * filled > 0 else f"about {column.distinct:,} different"


def _counted(counts: dict[str, int]) -> str:
    told: list[str] = []
    size = 0
    limit = NAME if sum(map(len, counts)) <= VALUES else VALUE
    for value, count in counts.items():
        entry = f"{quote(value, limit=limit)} ×{count:,}" if count > 1 else quote(value, limit=limit)
        size += len(entry) + 2
        if size > VALUES and told:
            told.append(f"… {len(counts) - len(told)} more")
            break
        told.append(entry)
    return ", ".join(told)


def _plain(value: Any) -> str:
    short = float(f"{value:.7g}") if isinstance(value, float) and abs(value) < 1e15 else value
    return quote(short).strip('"')


def clipped(text: str, room: int) -> str:
    """A text that is longer than its room up to the last sentence or line that ends in it, or else its last word."""
    if len(text) <= room:
        return text
    ends = [each.end() for each in _ENDS.finditer(text[:room])]
    end = ends[-1] if ends and 2 * ends[-1] > room else max(text.rfind(" ", room // 2, room), 0) or room
    return f"{text[:end].rstrip()}…"


def size_of(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def quote(value: Any, *, limit: int = VALUE) -> str:
    """A value as JSON on one line: a number or a truth value as it is, anything else as a shortened string."""
    if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**limit):
        return json.dumps(value)
    text = str(value).encode("utf-8", "replace").decode()
    shortened = text if len(text) <= limit else f"{text[:limit]}…"
    # `<` could otherwise close the section.
    return visible(json.dumps(shortened, ensure_ascii=False).replace("<", "\\u003c"))
