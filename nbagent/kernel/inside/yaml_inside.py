"""What YAML documents have in them: a part of `profile_inside.py`. Never imported on the host.

They are read by their lines alone, since the kernel has no parser of them from the start.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.column_values_inside import LISTED
from nbagent.kernel.inside.columns_inside import brief

MAX_PATHS, MAX_COUNTED = 2_000, 1_000
"""Places of keys that are told apart, and different values of one that are counted."""
MANY_KEYS = 12
"""Keys at the top from which they are names of things rather than fields."""
_ENTRY_LINE = re.compile(r"""( *)((?:- +)*)("[^"]*"|'[^']*'|[^\s#"'\[{&*!|>%@`-][^:#]*|-?\d[^:#]*):(?:[ \t]+(.*))?$""")
_ASIDE_LINE = re.compile(r"\s*#|(?:---|\.\.\.)$")
_NESTED_AFTER = ("|", ">", "{", "[", "&", "*")


def yaml_file(path: str, clock: Clock) -> dict[str, Any]:
    """The keys of a YAML document by their places, with their values, and how many records it has."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = [text for line in file if (text := line.rstrip()) and not _ASIDE_LINE.match(text)]
    places, read = _keys_of(lines, clock)
    records, is_list = sum(text.startswith("- ") for text in lines), bool(lines) and lines[0].startswith("- ")
    tops = list(dict.fromkeys(place[0] for place in places))
    if many := not is_list and len(tops) > MANY_KEYS:
        together: dict[tuple[str, ...], Counter[str]] = {}
        for place, counts in places.items():
            together.setdefault(("*", *place[1:]), Counter()).update(counts)
        places = together
    what = f"a list of {records:,} records" if is_list else f"an object of {len(tops):,} keys"
    what += f" ({', '.join(tops[:3])}, …), * in the names of columns" if many else ""
    columns = [_place(".".join(place), counts) for place, counts in places.items() if counts or len(places) < 2]
    note = f"{what}; yaml.safe_load(open(path)) reads it: PyYAML is installed when code imports it"
    table = {"rows": records or len(tops), "columns": columns, "width": len(columns)}
    table |= {"sampled": True} if read < len(lines) else {}
    return {"kind": "YAML", "tables": [table] if columns else [], "note": note}


def _keys_of(lines: list[str], clock: Clock) -> tuple[dict[tuple[str, ...], Counter[str]], int]:
    """The keys by their places, with the values that stand beside them; and how many lines there was time for."""
    places: dict[tuple[str, ...], Counter[str]] = {}
    above: list[tuple[int, str]] = []
    block = -1
    for number, text in enumerate(lines):
        if number % 1000 == 999 and clock.is_over():
            return places, number
        if -1 < block < len(text) - len(text.lstrip(" ")):
            continue
        block = -1
        if not (found := _ENTRY_LINE.match(text)):
            continue
        indent, value = len(found[1]) + len(found[2]), (found[4] or "").strip()
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, brief(found[3].strip("'\""))))
        block = indent if value.startswith(("|", ">")) else -1
        place = tuple(key for _, key in above)
        if place in places or len(places) < MAX_PATHS:
            counts = places.setdefault(place, Counter())
            if value and not value.startswith(_NESTED_AFTER) and (value in counts or len(counts) < MAX_COUNTED):
                counts[value.strip("'\"")] += 1
    return places, len(lines)


def _place(name: str, counts: Counter[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": brief(name), "dtype": ""}
    if 0 < len(counts) <= LISTED:
        found["values"] = {brief(each): count for each, count in counts.most_common()}
    return found | {"distinct": len(counts), "sample": [brief(each) for each in list(counts)[:3]]}
