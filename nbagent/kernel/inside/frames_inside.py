"""Profiles of tables that a library reads as frames: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from nbagent.kernel.inside.columns_inside import brief, described, tallied
from nbagent.kernel.inside.table_layout_inside import COMMENTS
from nbagent.kernel.inside.text_forms_inside import MAX_COLUMNS, encoding_of
from nbagent.kernel.inside.text_tables_inside import RAW_WIDTH, RULES, head_of
from nbagent.kernel.inside.value_forms_inside import NUMBER

MAX_TABLES = 30
MIN_ROWS = 5


def profiled(frames: Any, *, is_typed: bool = True, **more: Any) -> dict[str, Any]:
    """The profile of a table that comes in pieces.

    Args:
        frames: The pieces.
        is_typed: Whether they have the types that whoever reads the table gets, so that a text of digits stays one.
        more: What else there is in it.
    """
    rows = 0
    texts: set[str] = set()

    def counted() -> Iterator[Any]:
        nonlocal rows
        for frame in frames:
            rows += frame.height
            texts.update(name for name, dtype in frame.schema.items() if is_typed and dtype == pl.String)
            yield frame

    tallies = tallied(counted())
    columns = described(tallies[:MAX_COLUMNS])
    for tally, column in zip(tallies, columns, strict=False):
        if tally.name in texts and column["dtype"] != "String":
            form = "dates" if column["dtype"].startswith("Date") else "numbers"
            column |= {"dtype": "String", **({"form": form} if column["dtype"] != "Boolean" else {})}
    return {"rows": rows, "columns": columns, "width": len(tallies), **more}


def works(call: str, **given: Any) -> str:
    """A call, if it works here."""
    if "pd." in call:
        import pandas as pd  # type: ignore[import-untyped]

        given |= {"pd": pd}
    try:
        exec(call if "\n" in call else f"_ = {call}", {"pl": pl, **given})  # noqa: S102 - made of reprs, in the sandbox
    except Exception:
        return ""
    return call


def spaced_table(path: str, start: bytes) -> dict[str, Any]:
    """The table of a text whose fields are parted by spaces, after comments; nothing if it is none.

    Args:
        path: Where it is.
        start: Its first bytes.
    """
    lines = start.decode(encoding_of(start), "replace").splitlines()[:60]
    widths = [len(line.split()) for line in lines]
    # What comes before the rows of the table says something of it: comments, or lines of other lengths.
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(COMMENTS)), len(lines))
    skipped = first
    while skipped < len(lines) and len({each for each in widths[skipped:] if each}) > 1:
        skipped += 1
    # Rows that end early are among those of the table, if the first ones with digits are as wide as the others.
    whole = widths[skipped] if skipped < len(lines) else 0
    digits = [at for at in range(first, skipped) if widths[at] > 1 and re.search(r"\d", lines[at])]
    is_ragged = len(digits) > 1 and widths[digits[0]] == whole == max(widths[digits[0] :])
    is_ragged &= not any(line.startswith(COMMENTS) for line in lines[first:])
    if is_ragged:
        skipped = digits[0] - (digits[0] > first and widths[digits[0] - 1] == whole)  # with its header
    rows = [line.split() for line in lines[skipped:] if line.strip()]
    # The last lines of a poem may have the same number of words by chance.
    is_most = 2 * len(rows) > sum(bool(line.strip()) for line in lines if not line.startswith(COMMENTS))
    has_digits = 2 * sum(bool(re.search(r"\d", " ".join(row))) for row in rows) > len(rows)
    if len(rows) <= MIN_ROWS or len(rows[0]) < 2 or not (is_most or has_digits):
        return {}
    has_header = not any(re.search(r"\d", each) for each in rows[0]) and any(map(re.compile(r"\d").search, rows[1]))
    header = "" if has_header else f", header=None, names=range({whole})" if is_ragged else ", header=None"
    # Names may stand above a line that parts them from the rows; without one, it may be a sentence of as many words.
    above = next((at for at in reversed(range(skipped)) if lines[at].strip(RULES)), skipped)
    is_ruled = any(map(str.strip, lines[above + 1 : skipped]))
    names = [] if has_header or is_ragged or not is_ruled else lines[above].lstrip("".join(COMMENTS)).split()
    if len(names) != len(rows[0]) or len({*names}) < len(names) or any(re.match(NUMBER, each) for each in names):
        names = []
    header = f", header=None, names={names!r}" if names else header
    skip = f", skiprows={skipped}" if skipped else ""
    named = "" if has_header or names else ".rename(columns=str)"
    call = f"pl.from_pandas(pd.read_csv({path!r}, sep=r'\\s+'{skip}{header}){named})"
    import pandas as pd

    try:
        frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
    except Exception:
        return {}
    found = profiled([frame], call=call)
    explained = {words[0]: " ".join(words[1:]) for words in map(str.split, lines[:above]) if len(words) > 1}
    if len(explained.keys() & {*names}) > len(names) / 2:
        for column in found["columns"]:
            column["label"] = brief(explained.get(column["name"], ""))
    return found | ({"raw": [line[:RAW_WIDTH] for line in head_of(lines[: skipped + 3])]} if skipped else {})
