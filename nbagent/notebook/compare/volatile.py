"""Why a difference between two runs is no change: a duration, an id, or something that differs with every run. Pure.

A shape alone proves little: a date may be a result. So a date must be that of the moment of both runs, a duration must
be shown by code that reads a clock, and an id must differ between two fresh runs, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nbagent.notebook.compare.dates import HOUR, QUARTER, Moments, is_off, is_real
from nbagent.notebook.compare.tokens import Token, number, seconds

EXACT = 6
"""Significant digits from which on a duration that two fresh runs agree on is a result and none."""
SURE = 3
"""Significant digits from which on a factor or a tiny number that two fresh runs agree on is none of a clock's."""
NEAR = 8
"""By how many the numbers of a sandbox's kernel may differ in two runs."""
TINY, TICK = 1e-4, 1e-9
"""Seconds; what clocks tell apart is no less."""
_STRONG = re.compile(r"(?:elapsed|took|eta|finished in|done in|total time)\W*$", re.IGNORECASE)
"""What stands before a duration whatever the code reads: libraries time themselves."""
_OF_MEMORY = re.compile(r"\s?(?:[kKMG]i?B|[bB]ytes|%)(?!\w)")
_MEMORY = re.compile(r"mem|ram\b|rss|swap|heap|\d\s?[kmg]i?b\b", re.IGNORECASE)
_OF_PROCESS = re.compile(r"(?:pid|proc|process|kernel)(?: ?id)?\W*$", re.I)
_OF_PARENT = re.compile(r"(?:ppid|parent(?:[ _]?p?id)?)\W*$", re.I)
_LABELS = re.compile(
    r"(?:elapsed|took|taken|time|duration|seconds|runtime|secs|msec|\bms|latency|finished in|done in|(?:user|system)=)"
    r"\W*$",
    re.I,
)


class Processes(NamedTuple):
    """The number of the kernel's process in a fresh run.

    Attributes:
        kernel: The number, if it surely is none of a result's; 0 if it is nearly the same in each run, or not known.
        own: The number in any case; 0 if it isn't known.
    """

    kernel: int = 0
    own: int = 0


def _is_time(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether both are the time of the day of their moments, in any time zone, or none is longer than a run took.

    Or a time as long before or after both, such as that at which something will be done.
    """
    longest = 1.5 * moments.elapsed + 1
    if min(_times(fresh)) <= longest:
        return True
    if not is_real(stored.text):
        return False
    pairs = [(stored, moments.stored), (fresh, moments.fresh)]
    off = [_times(token)[0] - at for token, at in pairs if at is not None]
    if all(is_off(each, longest + 60, QUARTER) for each in off):
        return True
    minutes = 60 if len(_times(fresh)) > 1 else 0
    return len(off) > 1 and is_off(off[1] - off[0], longest + minutes, 86_400)


def _times(token: Token) -> list[float]:
    """The seconds that a time means: `1 day, 2:03:04`; of `12:30`, hours and minutes, or minutes and seconds."""
    days = re.match(r"(\d+) days?", token.text)
    parts = [int(each) for each in re.findall(r"\d+", token.text[days.end() if days else 0 :].split(".")[0])[:3]]
    whole = [*parts, 0, 0][:3]
    seconds = (int(days[1]) * 86_400 if days else 0) + whole[0] * 3600 + whole[1] * 60 + whole[2]
    return [seconds, seconds / 60] if len(parts) == 2 else [seconds]


def is_duration(stored: Token, fresh: Token, moments: Moments, *, reads_clock: bool, differs_again: bool) -> bool:
    """Whether both show how long something took.

    Args:
        stored: What was shown before.
        fresh: What is shown now.
        moments: When the runs were; nothing in a run took longer than the run.
        reads_clock: Whether the cell reads a clock; else it has to differ again, or say what it is.
        differs_again: Whether a second fresh run shows something else.
    """
    if stored.kind == fresh.kind and fresh.kind in ("time", "rate", "factor"):
        if differs_again and fresh.kind != "factor":
            return True
        by_chance = fresh.kind == "rate" and "/m" not in fresh.text and _is_near(stored, fresh, 0.1)  # of a short time
        few = by_chance or _digits(fresh) < SURE
        if reads_clock and (_is_time(stored, fresh, moments) if fresh.kind == "time" else few):
            return True
    few = differs_again or _digits(fresh) < SURE
    by_chance = few or (_is_tick(stored) and _is_tick(fresh))
    if reads_clock and by_chance and _is_tiny(stored) and _is_tiny(fresh):
        return True
    taken = _taken(fresh)
    if not reads_clock and not (differs_again or (_STRONG.search(stored.before) and _STRONG.search(fresh.before))):
        return False
    if taken is None or _taken(stored) is None:
        return False
    few |= _digits(fresh) < EXACT and _is_near(stored, fresh, 0.1)
    return few and taken <= 1.5 * moments.elapsed + 1


def is_other_span(stored: Token, fresh: Token, moments: Moments, *, differs_again: bool) -> bool:
    """Whether both are spans of days that aren't as far apart as their runs, as an age is, or the time until a date.

    What a notebook doesn't say of its run can't tell against one that differs again.
    """
    if not (stored.kind == fresh.kind == "time" and any("day" in each.text for each in (stored, fresh))):
        return False
    room, one, other = 1.5 * moments.elapsed + 60, _times(stored)[0], _times(fresh)[0]
    if max(one, other) <= room:
        return False
    if moments.stored is None:
        return not differs_again
    apart = abs(other - one) - abs(moments.fresh - moments.stored)
    return all(abs(apart - step) > room + moments.early for step in (0, HOUR, -HOUR))


def is_memory(stored: Token, fresh: Token) -> bool:
    """Whether both are amounts of memory, or shares of it, that are near to each other: runs may agree by chance."""
    if not _is_near(stored, fresh, 0.25):
        return False
    units = [_OF_MEMORY.match(each.row, each.start + len(each.text)) for each in (stored, fresh)]
    return all(unit and ("%" not in unit[0] or _MEMORY.search(unit.string)) for unit in units)


def _is_near(stored: Token, fresh: Token, share: float) -> bool:
    """Whether two numbers differ by no more than a share of them."""
    one, other = (seconds(each) if each.kind == "quantity" else number(each) for each in (stored, fresh))
    return one is not None and other is not None and abs(one - other) <= share * abs(other)


def _is_tiny(token: Token) -> bool:
    """Whether a number is as small as what a clock tells apart, so that two runs may agree on it by chance."""
    return TICK <= (number(token) or 0) < TINY


def _is_tick(token: Token) -> bool:
    """Whether a number is a difference of two times as floats, such as 2.384185791015625e-07, which are few."""
    return _digits(token) > EXACT and ((number(token) or 0.0) * 2**43).is_integer()


def _taken(token: Token) -> float | None:
    """Seconds that a token may mean."""
    if (found := seconds(token)) is not None:
        return found
    value = number(token)
    return value if value is not None and _LABELS.search(token.before) else None


def _digits(token: Token) -> int:
    found = re.search(r"[\d.,]+", token.text)
    return len(re.sub(r"\D", "", found[0]).lstrip("0")) if found else 0


def is_process(stored: Token, fresh: Token, processes: Processes, *, own: bool, logged: bool) -> bool:
    """Whether both are the number of the kernel's process; those of others differ with every run.

    A sandbox numbers its processes from 1, so that it is nearly the same in each run. There a number is that of the
    kernel if the code asks for its `own`, and it is called so or is all of a line, or if it was `logged`.
    """
    if not (stored.text.isdecimal() and fresh.text.isdecimal()):
        return False
    one, other = int(stored.text[:20]), int(fresh.text[:20])
    if other == processes.kernel > 0:
        return True
    if abs(one - other) > NEAR or not 0 < other <= processes.own:
        return False
    both = (stored, fresh)
    if other < processes.own:
        return own and all(_OF_PARENT.search(each.before) for each in both)
    named = all(_OF_PROCESS.search(each.before) or each.row.strip() == each.text for each in both)
    return logged or (own and named)
