"""Tables whose columns stand at places, which a note beside them tells or their gaps: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.frames_inside import profiled
from nbagent.kernel.inside.table_layout_inside import COMMENTS
from nbagent.kernel.inside.text_forms_inside import encoding_of
from nbagent.kernel.inside.text_tables_inside import RAW_WIDTH
from nbagent.kernel.inside.value_forms_inside import MISSING

NOTE_SIZE = 256 * 1024
"""Bytes of a note that are read."""
FEWEST_FIELDS, MOST_FIELDS = 3, 400
MOST_BETWEEN = 3
"""Characters between a column and the next one, where this has only one."""
MOST_HEADS = 3
"""Lines of a header above a rule: names, and units or more of the names."""
SLOW, SLOW_ROWS = 2_000_000, 10_000
"""Bytes from which not all rows are read where each is cut into columns, and those that are."""
TRIED_LINES = 60
"""Lines of a file by which a layout is tried."""
FITS = 0.9
"""The part of a column's values that must be as its note says."""
_ENTRY = re.compile(
    r"^\s*(?:(?P<name>[A-Za-z_][\w/-]*)\s+)?(?P<begin>\d{1,4})(?:\s*(?:-|\u2013|to)\s*(?P<end>\d{1,4}))?\s+"
    r"(?P<form>[AIFEDGS]\d{1,3}(?:[. ]\d{1,2})?|character|char|string|integer|int|real|float|numeric)(?!\w)"
    r"(?P<rest>.*)$",
    re.IGNORECASE,
)
"""A line that says where a column stands, of what form it is, and before that or behind it, what it is."""
_PLACE = re.compile(
    r"^\s*(?:(?:col(?:umn)?s?|bytes?|char(?:acter)?s?|pos(?:ition)?s?)\.?\s+)?(?P<begin>\d{1,4})"
    r"(?:\s*+(?:-|\u2013|to)\s*+(?P<end>\d{1,4}))?(?>(?:\s*[:.)])?)\s++(?P<rest>[^\W\d].*|---?\s.*)$",
    re.IGNORECASE,
)
"""A line that says where a column stands and what it is, but not of what form."""
_FILL = re.compile(r"(?<!\s)\s+(-?9{1,9}(?:\.9{0,4})?)(?=\s)")
"""What fills empty places, between the form and the name."""
_HEADER = re.compile(r"(?>.*?\bbytes?\b)(?>.*?\bformat\b).*\b(label|name)\b", re.IGNORECASE)
"""The header of such lines in a catalogue. Its first two words are looked for once, however often a line has them."""
_PLACED_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[EeDd][+-]?\d+)?")
_PARTING = re.compile(r"(?=.*[-=_~]{3})[-=_~+|\s]*")
"""A line that parts others."""
MOST_ABOVE, MOST_BELOW = 15, 5
"""Lines above and below a table that may be none of its rows."""
FEWEST_ROWS = 6
"""Rows from which it is no chance that all have gaps at the same places."""


class Field(NamedTuple):
    """A column by its place: its first and last character from 1, or, of words parted by spaces, its number twice.

    `is_text` is None where the note doesn't say; `fill` is the number that stands where there is no value, if the note
    says which.
    """

    name: str
    begin: int
    end: int
    is_text: bool | None
    fill: str


def laid_out(path: str, size: int, start: bytes, notes: list[str]) -> dict[str, Any]:
    """The table of a text whose columns a note tells by their places; nothing if none does, or none fits.

    Args:
        path: Where the text is.
        size: Its bytes.
        start: Its first bytes.
        notes: The paths of notes that may tell of it.
    """
    lines = start.decode(encoding_of(start), "replace").splitlines()[: TRIED_LINES + 100]
    skipped = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(COMMENTS)), len(lines))
    rows = [line.rstrip() for line in lines[skipped : skipped + TRIED_LINES] if line.strip()]
    for note in notes if len(rows) > 1 else ():
        if note == path:
            continue
        for fields in layouts(note):
            for call in _calls(path, fields, rows, skipped):
                if found := _read(call, fields, size, os.path.basename(note)):
                    return found
    return {}


def gapped_table(path: str, size: int, start: bytes, whole: int) -> dict[str, Any]:
    """The table of a text whose rows have gaps at the same places, though not all have the same number of words.

    Args:
        path: Where the text is.
        size: Its bytes.
        start: Its first bytes.
        whole: Bytes up to which all of it is looked at.
    """
    if size <= whole:
        with open(path, "rb") as file:
            start = file.read()
    encoding = encoding_of(start)
    # No other signs, such as a form feed, end a line for pandas.
    lines = re.split("\r\n|\n|\r", start.decode(encoding, "replace"))[: None if size <= len(start) else -1]
    rows = [at for at, line in enumerate(lines) if line.strip() and not line.startswith(COMMENTS)]
    rows = [at for at in rows if not _PARTING.fullmatch(lines[at])]
    count = len(rows)
    inner = rows[min(MOST_ABOVE, count // 4) : count - min(MOST_BELOW, count // 4)]
    if len(inner) < FEWEST_ROWS or "\t" in "".join(lines[inner[0] : inner[-1] + 1]):
        return {}
    if len({len(lines[at].split()) for at in inner}) == 1 or inner[-1] - inner[0] >= len(inner):
        return {}
    first, last = rows.index(inner[0]), rows.index(inner[-1])
    taken = _taken(lines[at] for at in inner)
    count = len(_places(taken))
    while first and len(_places(taken | _taken([lines[rows[first - 1]]]))) == count:
        first -= 1
        taken |= _taken([lines[rows[first]]])
    while (
        last + 1 < len(rows)
        and rows[last + 1] == rows[last] + 1
        and len(_places(taken | _taken([lines[rows[last + 1]]]))) == count
    ):
        last += 1
        taken |= _taken([lines[rows[last]]])
    places = _places(taken)
    return _by_gaps(path, lines, rows, (first, last), places, encoding) if 1 < count <= MOST_FIELDS else {}


def _by_gaps(
    path: str, lines: list[str], rows: list[int], ends: tuple[int, int], places: list[tuple[int, int]], encoding: str
) -> dict[str, Any]:
    """The table whose rows, from the first to the last, have columns at these places; nothing if none has numbers."""
    first, last = ends
    body = [[lines[at][begin:end].strip() for begin, end in places] for at in rows[first : last + 1]]
    numbers = [_are_numbers(each) for each in zip(*body[MOST_HEADS:], strict=True)]
    head = next(iter(body), [])
    if not any(numbers) or len(body) <= FEWEST_ROWS:
        return {}
    words = [_is_head(each, numbers) for each in body[:MOST_HEADS]]
    has_header = words[0]
    # Lines between the names and a rule are no rows: they have units.
    behind = range(first + 1, first + 1 + len(list(itertools.takewhile(bool, words))))
    ruled = [at - first for at in behind if any(map(_PARTING.fullmatch, lines[rows[at - 1] + 1 : rows[at]]))]
    heads = max(ruled, default=int(has_header))
    # A gap in a text is one by chance, if nothing is above it and it is no wider than between words.
    for at in range(len(places) - 1, 0, -1):
        is_narrow = places[at][0] - places[at - 1][1] == 1
        if not numbers[at] and not numbers[at - 1] and is_narrow and not (has_header and head[at]):
            places[at - 1 : at + 1] = [(places[at - 1][0], places[at][1])]
            del numbers[at]
            head = [lines[rows[first]][begin:end].strip() for begin, end in places]
    names = [each or f"column_{at}" for at, each in enumerate(head)] if has_header else []
    names = [each if each not in names[:at] else f"{each} ({at + 1})" for at, each in enumerate(names)]
    names = names or [f"column_{at}" for at in range(len(places))]
    begin = rows[first + heads]
    options = [repr(path), f"colspecs={places!r}", "header=None", f"names={names!r}"]
    options += [f"skiprows={begin}"] if begin else []
    options += [f"encoding={encoding!r}"] if encoding != "utf-8" else []
    codes = {name: "str" for name, place, each in zip(names, places, zip(*body[heads:], strict=True), strict=False)
             if place[1] - place[0] > 2 and any(text.isdigit() and text.startswith("0") for text in each)}  # fmt: skip
    options += [f"dtype={codes!r}"] if codes else []
    below = len(lines) - (not lines[-1]) - rows[last] - 1
    count = last + 1 - first - heads
    is_followed = any(map(str.strip, lines[rows[last] + 1 :]))
    import pandas as pd  # type: ignore[import-untyped]

    for end in (
        (f", skipfooter={below}", f", nrows={count}") if is_followed else ("",)
    ):  # what is left out below is as many lines in files that are alike
        call = f"pl.from_pandas(pd.read_fwf({', '.join(options)}{end}))"
        try:
            frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
        except Exception:
            return {}
        if frame.height == count:
            break
    shown = [*range(max(0, begin - 4), begin), *rows[first + heads :][:2]]
    found = profiled([frame], call=call) | {"raw": [lines[at][:RAW_WIDTH] for at in shown]}
    for column, (left, right) in zip(found["columns"], places, strict=False):
        if label := " ".join(filter(None, (lines[at][left:right].strip() for at in rows[first + 1 : first + heads]))):
            column["label"] = brief(label)
    return found


def _is_head(row: list[str], numbers: list[bool]) -> bool:
    """Whether a row has words, and no number, where the rows below have numbers."""
    there = [text for is_number, text in zip(numbers, row, strict=True) if is_number and text]
    return bool(there) and not any(map(_PLACED_NUMBER.fullmatch, there))


def _taken(lines: Iterable[str]) -> int:
    """The places at which any of the lines has a character, as bits."""
    taken = 0
    for line in set(lines):
        taken |= int("".join("0" if each.isspace() else "1" for each in reversed(line.rstrip())) or "0", 2)
    return taken


def _places(taken: int) -> list[tuple[int, int]]:
    """The runs of bits, each with its begin and its end."""
    return [each.span() for each in re.finditer("1+", f"{taken:b}"[::-1])]


def _are_numbers(values: Iterable[str]) -> bool:
    there = [each for each in values if each and each.lower() not in MISSING]
    return bool(there) and sum(bool(_PLACED_NUMBER.fullmatch(each)) for each in there) >= FITS * len(there)


def _calls(path: str, fields: list[Field], rows: list[str], skipped: int) -> list[str]:
    """The calls by which fields may read the rows, if they fit these."""
    skip = f", skiprows={skipped}" if skipped else ""
    names = [each.name for each in fields]
    calls = []
    if all(each.begin == each.end == at for at, each in enumerate(fields, 1)):
        parts = [row.split() for row in rows]
        if {len(each) for each in parts} == {len(fields)} and _fit(fields, parts):
            calls.append(f"pd.read_csv({path!r}, sep=r'\\s+', header=None{skip}, names={names!r})")
    widest = max(map(len, rows))
    if fields[-1].begin <= widest <= fields[-1].end + 1:
        parts = [[row[each.begin - 1 : each.end].strip() for each in fields] for row in rows]
        # What stands between the fields would be left out.
        gaps = "".join(_between(row, fields) for row in rows)
        if not gaps.strip() and _fit(fields, parts):
            places = [(each.begin - 1, each.end) for each in fields]
            texts = {each.name: "str" for at, each in enumerate(fields) if _is_code(each, parts, at)}
            typed = f", dtype={texts!r}" if texts else ""
            calls.append(f"pd.read_fwf({path!r}, colspecs={places!r}, header=None{skip}, names={names!r}{typed})")
    return [f"pl.from_pandas({each})" for each in calls]


def _between(row: str, fields: list[Field]) -> str:
    ends = [0, *(each.end for each in fields)]
    return "".join(row[end : each.begin - 1] for end, each in zip(ends, fields, strict=False))


def _is_code(field: Field, parts: list[list[str]], at: int) -> bool:
    """Whether a column of text has digits with zeros before them, which a number would lose; two may be a month."""
    is_long = field.is_text or field.end - field.begin > 1
    return (
        field.is_text is not False and is_long and any(row[at].isdigit() and row[at].startswith("0") for row in parts)
    )


def _fit(fields: list[Field], parts: list[list[str]]) -> bool:
    """Whether there is a number, or nothing, wherever a note says that there is one."""
    there = [row[at] for at, each in enumerate(fields) if each.is_text is False for row in parts if row[at]]
    filled = sum(any(row[at] for row in parts) for at in range(len(fields)))
    # Where no form is told, each column has numbers or has none, and some have.
    unsaid = [_share([row[at] for row in parts if row[at]]) for at, each in enumerate(fields) if each.is_text is None]
    if unsaid and not (any(each >= FITS for each in unsaid) and all(not 1 - FITS < each < FITS for each in unsaid)):
        return False
    return 2 * filled > len(fields) and _share(there) >= FITS


def _share(values: list[str]) -> float:
    """The part of values that are numbers; 1 of none."""
    return sum(bool(_PLACED_NUMBER.fullmatch(each)) for each in values) / len(values) if values else 1.0


def _read(call: str, fields: list[Field], size: int, note: str) -> dict[str, Any]:
    """The profile of a table by its call, in which what fills empty places counts as missing; nothing if it fails."""
    import pandas as pd

    is_slow = "read_fwf" in call and size > SLOW
    tried = call.replace(", header=None", f", header=None, nrows={SLOW_ROWS}", 1) if is_slow else call
    try:
        frame = eval(tried, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
    except Exception:
        return {}
    fills: dict[str, tuple[str, int]] = {}
    for each in fields:
        if each.fill and frame[each.name].dtype.is_numeric():
            is_fill = frame[each.name] == float(each.fill)
            if count := int(is_fill.sum()):
                fills[brief(each.name)] = each.fill, count
                frame = frame.with_columns(pl.when(~is_fill).then(pl.col(each.name)).alias(each.name))
    found = profiled([frame], call=call) | {"note": f"its columns are those that {brief(note)} tells"}
    for column in found["columns"]:
        if column["name"] in fills:
            fill, count = fills[column["name"]]
            column["sentinels"] = {fill: count}
            column["empty"] = column.get("empty", 0) - count
    if is_slow:
        found |= {"rows": size // (fields[-1].end + 1), "sampled": True}
        found["note"] += f"; values are of the first {SLOW_ROWS:,} rows"
    return found


@lru_cache(maxsize=64)
def layouts(note: str) -> tuple[list[Field], ...]:
    """The tables of columns with their places that a note has, with forms if it tells any; none if it can't be read."""
    try:
        with open(note, "rb") as file:
            start = file.read(NOTE_SIZE)
    except OSError:
        return ()
    lines = start.decode(encoding_of(start), "replace").splitlines()
    return tuple(_listed(lines, _ENTRY)) or tuple(_listed(lines, _PLACE))


def _listed(lines: list[str], form: re.Pattern[str]) -> Iterator[list[Field]]:
    """The tables of columns of which each has a line of this form."""
    found: list[list[Field]] = [[]]
    labels: list[int] = []
    for line in lines:
        if not (entry := form.match(line)):
            labels = _label_places(line) or labels
            continue
        begin, end = int(entry["begin"]), int(entry["end"] or entry["begin"])
        if (found[-1] and begin <= found[-1][-1].end) or len(found[-1]) >= MOST_FIELDS:
            found.append([])
        told = entry.groupdict()
        if "form" not in told and not entry["end"] and (not found[-1] or begin - found[-1][-1].end > MOST_BETWEEN):
            continue  # a number alone begins many a sentence
        name = told.get("name") or _name(_FILL.sub("  ", entry["rest"], count=1), labels)
        if begin <= end and begin > 0 and name:
            taken = {each.name for each in found[-1]}
            unique = name if name not in taken else f"{name} ({begin})"
            fill = _FILL.match(entry["rest"])
            is_text = told["form"][0].upper() in "ACS" if "form" in told else None
            found[-1].append(Field(unique, begin, end, is_text, fill[1] if fill else ""))
    yield from (each for each in found if len(each) >= FEWEST_FIELDS)


def _label_places(line: str) -> list[int]:
    """Where a header has the column of names, if there is one that names each in one word: as catalogues have it."""
    found = _HEADER.match(line)
    return [len(line[: found.start(1)].split())] if found else []


def _name(rest: str, labels: list[int]) -> str:
    """What an entry calls its column: the word below the header's label, or the first words that are no number."""
    if labels:  # bytes, format, units, label
        words = rest.split()
        at = labels[0] - 2
        return words[at][:60] if at < len(words) else ""
    parts = [each for each in re.split(r"\s{2,}|\t", rest.strip()) if any(map(str.isalpha, each))]
    parts = [each for each in parts if not _PLACED_NUMBER.fullmatch(each)]
    return parts[0][:60] if parts else ""
