"""Tells a column of the data: by its name in a list, or on a line of its own. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

from nbagent.agent.dataset.groups import WRITTEN_NUMBERS, is_empty
from nbagent.agent.dataset.text_forms import NAME, VALUE, plain, quote
from nbagent.agent.dataset.words import asked_values
from nbagent.kernel.profile import Column

TYPE, VALUES = 80, 240
"""Characters of a type with what is odd about it, and of a column's values."""
ASKED = 3
"""Values of a column of many that are told since they have the question's words."""
LABEL = 60
"""Characters of what is said of a column."""
CHOICE = 40
"""Characters of the values of a column that is told by its name alone up to which they are told, too."""
ALIKE = 4
"""Columns beside each other of one type from which that is said once."""
NEARLY = 0.97
"""The part of all values that are different by an estimate, from which all of them may be."""
_NO_ZONE = re.compile(r"\(time_unit='\w+', time_zone=None\)")


def is_trap(column: Column) -> bool:
    """Whether its call misleads: values are a thousandth of what they are, or in two forms, or sums are among them."""
    return (
        bool(column.sums)
        or column.form.startswith("thousands points")
        or (bool(column.others) and (column.form == "numbers" or column.form.startswith("%")))
    )


def named(columns: Sequence[Column], told: Collection[Column], *, is_labelled: bool) -> list[str]:
    """Columns by their names; those that are not told anyway with their types, which neighbours share."""
    listed = []
    for kind, several in itertools.groupby(columns, key=lambda each: "" if each in told else _kind(each)):
        names = [_by_name(each, is_told=each in told, is_labelled=is_labelled) for each in several]
        if kind and len(names) >= ALIKE:
            listed += [*names[:-1], f"{names[-1]} (these {len(names)} {kind})"]
        else:
            listed += [f"{name} {kind}" if kind else name for name in names]
    return listed


def _kind(column: Column) -> str:
    """A column's type, or its few values; nothing for a plain text of many."""
    if is_empty(column):
        return "all empty"
    values = [quote(each) for each in column.values if each not in column.missing]
    if column.dtype == "String" and not column.form and len("|".join(values)) <= CHOICE and values:
        return "|".join(values)
    kind = quote(column.form or _NO_ZONE.sub("", column.dtype), limit=VALUE)[1:-1]
    kind = "" if kind in ("String", "TEXT") else kind
    # Whoever reads only this must know that they are texts, and of what.
    is_text = column.form == "numbers" and bool(column.missing)
    return f"{kind} as text, missing {', '.join(map(quote, [*column.missing][:2]))}" if is_text else kind


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
        facts[0] += f" ({quote(column.form, limit=TYPE)[1:-1]}{_cast(column)})"
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
        facts.append(f"{plain(column.low)} to {plain(column.high)}")
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


def _cast(column: Column) -> str:
    """What makes numbers of a text that has nothing else but blanks in them and words for missing ones."""
    has_blanks = column.form.startswith("thousands blanks")
    if column.others or not (has_blanks or (column.form == "numbers" and column.missing)):
        return ""
    is_whole = isinstance(column.low, int) and isinstance(column.high, int)
    without = r".str.replace_all(r'\s', '')" if has_blanks else ""
    return f": {without}.cast(pl.{'Int64' if is_whole else 'Float64'}, strict=False)"


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
    each = f", each ×{next(iter(counts.values())):,}" if len(counts) > 2 and len({*counts.values()}) == 1 else ""
    each = "" if each.endswith("×1") else each
    for value, count in counts.items():
        entry = f"{quote(value, limit=limit)} ×{count:,}" if count > 1 and not each else quote(value, limit=limit)
        size += len(entry) + 2
        if size > VALUES and told:
            told.append(f"… {len(counts) - len(told)} more")
            break
        told.append(entry)
    return ", ".join(told) + each
