"""A cell's outputs against those it had before: pairs them, and says what differs and why. Pure.

Text to standard output is one piece, and so is text to standard error: into how many parts a kernel cuts them, and how
the two mix, is a matter of time. All other outputs are paired in their order, and each representation of one by its
MIME type.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nbagent.core.events import Output
from nbagent.notebook.compare import tables
from nbagent.notebook.compare.masks import Mask, masked
from nbagent.notebook.compare.tokens import TOLERANCE, Change, Token, changes, tokens
from nbagent.notebook.compare.volatile import Moments, Reads, is_clock, is_duration, is_id, is_now
from nbagent.safety.sanitize.outputs import IMAGES, VIEW_MIME

HTML = "text/html"
MOST = 20
"""Findings of a cell that are kept."""
LONGEST = 80
"""Characters of a text in a finding."""
EVERY_RUN = "it changes with every run"
NO_SEED = "it changes with every run, as random numbers without a seed do"
_DRAWN = re.compile(r"<(?:svg|canvas|img|style|script|iframe)\b", re.I)
_NOT_DELIVERED = re.compile(r"(?m)^nbagent: .* was not delivered: .*\n?")


class Difference(NamedTuple):
    """Something that differs.

    Attributes:
        what: Of the outputs, such as `stdout` or `output 2, text/html`.
        where: In there, such as `line 3` or `row 2, column mass`; may be empty.
        stored: What was shown before.
        fresh: What is shown now.
        cause: Why, as far as that is known; may be empty.
    """

    what: str
    where: str
    stored: str
    fresh: str
    cause: str = ""

    def __str__(self) -> str:
        where = f"{self.what}, {self.where}" if self.where else self.what
        return f"{where}: {self.stored} → {self.fresh}" if self.stored or self.fresh else where


class Pair(NamedTuple):
    """Two pictures whose files differ, in base64.

    `differs_again` says whether a second fresh run drew another one than the first, `random` whether code so far draws
    random numbers.
    """

    what: str
    mime: str
    stored: str
    fresh: str
    differs_again: bool | None
    random: bool = False


@dataclass
class Comparison:
    """What came of it.

    Attributes:
        differences: What differs.
        pictures: What must be decoded to tell.
        excused: Kinds of what differs and is no change, such as `date` and `timing`.
    """

    differences: list[Difference] = field(default_factory=list)
    pictures: list[Pair] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class Strictness:
    """How outputs are compared.

    Attributes:
        masks: A person's own rules.
        tolerance: The relative difference up to which numbers with a decimal point are the same.
    """

    masks: Sequence[Mask] = ()
    tolerance: float = TOLERANCE


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is known of a cell beside its outputs: what its code reads, and when it ran."""

    moments: Moments
    reads: Reads = field(default_factory=Reads)
    strictness: Strictness = field(default_factory=Strictness)


def compare(
    stored: Iterable[Output], fresh: Iterable[Output], context: Context, *, again: Iterable[Output] | None = None
) -> Comparison:
    """Compare.

    Args:
        stored: The outputs that a notebook has.
        fresh: Those of a fresh run.
        context: What is known of the cell.
        again: Those of a second fresh run, if there was one; where both differ, the notebook can't agree with either.
    """
    one, other = _pieces(stored), _pieces(fresh)
    second = None if again is None else _pieces(again)
    found = Comparison()
    for key in dict.fromkeys((*one, *other)):
        if one.get(key, "") == other.get(key, ""):
            continue
        if len(found.differences) >= MOST:
            break  # nobody is told of more
        what, mime = key
        third = None if second is None else second.get(key)
        if key not in one or key not in other:
            cause = EVERY_RUN if second is not None and (key in second) != (key in other) else ""
            lost, new = ("missing", "") if key not in other else ("", "new")
            found.differences.append(Difference(_label(*key), lost or new, "", "", cause))
        elif mime in IMAGES:
            differs = None if third is None else third != other[key]
            found.pictures.append(Pair(what, mime, one[key], other[key], differs, context.reads.random))
        else:
            _compare_text(key, one[key], other[key], third, context, found)
    found.differences = found.differences[:MOST]
    return found


def _label(what: str, mime: str) -> str:
    return f"{what}, {mime}" if mime else what


def _pieces(outputs: Iterable[Output]) -> dict[tuple[str, str], str]:
    """What a cell shows, by what it is and its MIME type."""
    found: dict[tuple[str, str], str] = {}
    number = 0
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            name = str(output.get("name", "stdout"))
            found[name, ""] = found.get((name, ""), "") + _text(output.get("text", ""))
            continue
        number += 1
        if kind == "error":
            found["error", ""] = f"{output.get('ename')}: {output.get('evalue')}"
        for mime, value in output.get("data", {}).items():
            if mime != VIEW_MIME:
                found[f"output {number}", mime] = _text(value)
    if ("stderr", "") in found:
        found["stderr", ""] = _NOT_DELIVERED.sub("", found["stderr", ""])
    return {key: text for key, text in found.items() if text or key[1]}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return json.dumps(value, indent=0, sort_keys=True)


def _compare_text(
    key: tuple[str, str], stored: str, fresh: str, again: str | None, context: Context, found: Comparison
) -> None:
    if key[1] != HTML or max(len(stored), len(fresh)) > tables.MOST:
        found.differences += _texts(key, stored, fresh, again, context, found.excused)
        return
    shown = [None if each is None else tables.content(each) for each in (stored, fresh, again)]
    assert shown[0] is not None  # noqa: S101 - for the type checker
    assert shown[1] is not None  # noqa: S101
    differences = list(_texts(key, shown[0], shown[1], shown[2], context, found.excused))
    if not differences and (_DRAWN.search(stored) or _DRAWN.search(fresh)):
        # What is drawn stands in the markup. Names that a library makes up in there differ with every run.
        differences = [
            each._replace(where="markup")
            for each in _texts(key, stored, fresh, again, context, found.excused, markup=True)
        ][:1]
    found.differences += differences


def _texts(
    key: tuple[str, str],
    stored: str,
    fresh: str,
    again: str | None,
    context: Context,
    excused: set[str],
    *,
    markup: bool = False,
) -> Iterator[Difference]:
    """What differs in two texts."""
    strictness = context.strictness
    one, other = (tokens(masked(each, strictness.masks)) for each in (stored, fresh))
    unstable: list[tuple[int, int]] | None = None
    if again is not None:
        second = tokens(masked(again, strictness.masks))
        unstable = [each.place for each in changes(second, other, tolerance=strictness.tolerance)]
    spots, told = _spots(key[1], stored, fresh), 0
    for change in changes(one, other, tolerance=strictness.tolerance):
        differs_again = None if unstable is None else _overlaps(change.place, unstable)
        excuse, cause = _judge(change, differs_again, context, markup=markup)
        if excuse:
            excused.add(excuse)
            continue
        spot = next((each for each in spots if _is_at(change, each)), None)
        line = (change.stored or change.fresh)[0].line
        where = str(spot).split(":")[0] if spot else f"line {line}"
        yield Difference(_label(*key), where, _show(change.stored), _show(change.fresh), cause)
        if (told := told + 1) == MOST:
            return  # nobody is told of more


def _is_at(change: Change, spot: tables.Spot) -> bool:
    """Whether a cell of a table holds a change."""
    return all(each.text in spot.stored for each in change.stored) and all(
        each.text in spot.fresh for each in change.fresh
    )


def _overlaps(place: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether a place shares a token with one of others, which are in order; an empty one stands for the next token."""
    begin, end = place[0], max(place[1], place[0] + 1)
    after = bisect.bisect_left(others, (end, end))
    return any(max(other[1], other[0] + 1) > begin for other in others[max(0, after - 2) : after])


def _judge(change: Change, differs_again: bool | None, context: Context, *, markup: bool) -> tuple[str, str]:
    """Why a change is none, in a word; else its cause, as far as that is known."""
    again = bool(differs_again)
    reads = context.reads
    pairs = list(zip(change.stored, change.fresh, strict=False))
    if len(change.stored) != len(change.fresh):
        both = [*change.stored, *change.fresh]
        if reads.clock and all(each.kind in ("quantity", "time") for each in both):
            return "timing", ""
    elif all((excuse := _excuse(*pair, again, context, markup=markup)) for pair in pairs):
        return str(excuse), ""
    if not again:
        return "", ""
    numbers = any(each.kind == "number" for each in (*change.stored, *change.fresh))
    return "", NO_SEED if reads.random and numbers else EVERY_RUN


def _excuse(stored: Token, fresh: Token, again: bool, context: Context, *, markup: bool) -> str:
    reads, moments = context.reads, context.moments
    if is_clock(stored, fresh, moments):
        return "date"
    if is_duration(stored, fresh, moments, reads_clock=reads.clock, differs_again=again):
        return "timing"
    if reads.clock and is_now(fresh, moments.fresh) and (moments.stored is None or is_now(stored, moments.stored)):
        return "date"
    if again and (markup or reads.ident or is_id(stored) or is_id(fresh)):
        return "id"
    if again and reads.clock and fresh.kind in ("number", "quantity", "rate", "time", "date"):
        return "timing"
    return ""


def _spots(mime: str, stored: str, fresh: str) -> list[tables.Spot]:
    rows = tables.html_rows if mime == HTML else tables.text_rows
    return tables.spots(rows(stored), rows(fresh))


def _show(found: Sequence[Token]) -> str:
    text = " ".join(each.text for each in found[:30])
    return repr(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…") if text else "nothing"
