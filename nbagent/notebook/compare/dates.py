"""Whether what differs between two runs is the moment at which each ran: as a date, or as a part of one. Pure."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from nbagent.notebook.compare.tokens import Token, number

DAY = 26 * 3600.0
"""Seconds: a day, and what time zones and daylight saving add."""
HOUR = 3600
"""Seconds: what daylight saving adds; a clock of twelve of them shows the same twice a day."""
FARTHEST = 400
"""Days before and after a run in which a date may be counted from it."""
QUARTER = 900
"""Seconds: time zones are whole quarters of an hour apart."""
ZONES = tuple(sorted(range(-12 * 3600, 14 * 3600 + 1, QUARTER), key=abs))
"""The seconds that time zones are ahead of UTC."""
_WEEK = "monday tuesday wednesday thursday friday saturday sunday".split()
_YEAR = "january february march april may june july august september october november december".split()
_DAYS = frozenset(each[:3] for each in _WEEK)
_PARTS = re.compile(
    r"(?:hour|minute|second|tm_hour|tm_min|tm_sec|((?:micros|nanos)econds?|relativeCreated))\W*$", re.IGNORECASE
)
"""What stands before a part of a time."""
EPOCH = date(1970, 1, 1).toordinal()
_YEAR_FIRST = re.compile(r"\D{0,20}((?:19|20|21)\d\d)(?:\D{1,2}(\d\d?)\D{1,2}(\d\d?)(?!\d)|(\d\d)(\d\d)(?=\D|\d{4}|$))")
_REPR = re.compile(r"datetime\(\d+, \d+, \d+, (\d\d?), (\d\d?)(?:, (\d\d?)(?!\d))?")
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(?: ?[+-]\d\d:?\d\d\b)?")


@dataclass(frozen=True)
class Moments:
    """When two runs were, in seconds since the epoch.

    Attributes:
        stored: The first; None if nothing says so.
        fresh: The second.
        elapsed: Seconds that the second has run so far.
        zones: The seconds that their time zone may have been ahead of UTC.
        early: Seconds that the first had run so far.
    """

    stored: float | None
    fresh: float
    elapsed: float
    zones: tuple[int, ...] = ZONES
    early: float = DAY


def zones(name: object, moments: Sequence[float]) -> tuple[int, ...]:
    """The seconds that a time zone and UTC are ahead of UTC at moments; those of all if there is none of that name."""
    try:
        ahead = [ZoneInfo(str(name)).utcoffset(datetime.fromtimestamp(each, UTC)) for each in moments]
    except (OSError, ValueError, KeyError):
        return ZONES
    return tuple(sorted({0, *(int(each.total_seconds()) for each in ahead if each is not None)}))


def is_clock(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether both show the moment at which they ran: as a date of one time zone, or in seconds since the epoch."""
    if not is_moment(fresh, moments.fresh, moments.zones):
        return False
    if moments.stored is None or stored.kind != "date":
        return moments.stored is None or is_moment(stored, moments.stored, moments.zones)
    one, other = _days(stored.text, moments.stored, 1), _days(fresh.text, moments.fresh, 1)
    return any(_day(moments.stored, zone) in one and _day(moments.fresh, zone) in other for zone in moments.zones)


def is_moment(token: Token, moment: float, zones: Sequence[int]) -> bool:
    """Whether a token shows a moment: as a date in one of these time zones, or in seconds since the epoch."""
    value = number(token)
    if value is not None and token.kind == "number" and value > 1e9:
        for unit in (1.0, 1e3, 1e6, 1e9):
            if abs(value / unit - moment) < DAY:
                return True
    return token.kind == "date" and not _days(token.text, moment, 1).isdisjoint(_day(moment, zone) for zone in zones)


def is_in_step(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether the times of the day in two dates are the same, or as far apart as the runs; or there are none."""
    shown = [_TIME.search(each.text) or _REPR.search(each.text) for each in (stored, fresh)]
    if not is_real(stored.text):
        return False
    if moments.stored is None or not (shown[0] and shown[1]):
        return True
    at = [int(each[1]) * 3600 + int(each[2]) * 60 for each in (shown[0], shown[1])]
    apart, room = at[1] - at[0] - (moments.fresh - moments.stored), moments.early + 1.5 * moments.elapsed + 120
    room += HOUR if not any(each % HOUR for each in at) else 0  # as where code leaves out the minutes
    steps = {0, *(one - other for one, other in itertools.permutations(moments.zones, 2) if abs(one - other) == HOUR)}
    return at[0] == at[1] or any(is_off(apart - step, room, 12 * HOUR) for step in steps)


def is_real(text: str) -> bool:
    """Whether a clock can show the hour, the minute and the second of a text, if it has any."""
    found = _TIME.search(text) or _REPR.search(text)
    return found is None or (int(found[1]) < 24 and int(found[2]) < 60 and int(found[3] or 0) < 60)


def is_shifted(stored: Token, fresh: Token, moments: Moments, *, again: bool) -> bool:
    """Whether both are dates as many days before or after their runs, such as that of last week.

    Args:
        stored: What was shown before.
        fresh: What is shown now.
        moments: When the runs were.
        again: Whether a further fresh run shows something else, as it does with the time of the day.
    """
    if moments.stored is None:
        return again
    one, other = _days(stored.text, moments.stored, FARTHEST), _days(fresh.text, moments.fresh, FARTHEST)
    apart = {_day(moments.fresh, zone) - _day(moments.stored, zone) for zone in moments.zones}
    if not again:
        apart.discard(0)
    soon = not again and abs(moments.fresh - moments.stored) < DAY
    # Months have as many days as they like; what is the day of the run, or was a moment ago, is that and no other.
    room = 0 if soon or is_moment(fresh, moments.fresh, moments.zones) else 1
    return any(days + more in other for days in one for step in apart for more in range(step - room, step + room + 1))


def _day(moment: float, zone: int) -> int:
    """The number of a moment's day, in a time zone that is so many seconds ahead of UTC."""
    return int((moment + zone) // 86_400)


def _days(text: str, moment: float, farthest: int) -> set[int]:
    """The numbers of the days that a text may mean, so many days from a moment: read in whatever order.

    A text that begins with a year in four digits means one day or, if there is no such day, none.
    """
    at = _day(moment, 0)
    if found := _YEAR_FIRST.match(text):
        with contextlib.suppress(ValueError):
            day = date(*(int(each) for each in found.groups() if each)).toordinal() - EPOCH
            return {day} & {*range(at - farthest, at + farthest + 1)}
        return set()
    numbers = [int(each) for each in re.findall(r"\d+", _TIME.sub(" ", text))[:8]]
    if len(numbers) and len(first := str(numbers[0])) == 6:
        numbers = [int(first[:2]), int(first[2:4]), int(first[4:]), *numbers[1:]]
    words = [each[:3].lower() for each in re.findall(r"[A-Za-z]{3,}", text)]
    near = range(-farthest, farthest + 1)
    with contextlib.suppress(OverflowError):  # a moment at the end of time
        today = datetime.fromtimestamp(moment, UTC)
        return {at + days for days in near if _renders(numbers, words, today + timedelta(days=days))}
    return set()


def _renders(numbers: list[int], words: list[str], day: datetime) -> bool:
    """Whether numbers and words have a day's year, month and day."""
    if day.day not in numbers:
        return False  # as most of hundreds of days: quickly
    rest = list(numbers)
    if not _DAYS.intersection(words) <= {f"{day:%a}".lower()}:
        return False
    for each in (day.day, *(() if _YEAR[day.month - 1][:3] in words else (day.month,))):
        if each not in rest:
            return False
        rest.remove(each)
    # Beside a year in four digits, that in two would be an hour, a minute or a second.
    return day.year in rest or (day.year % 100 in rest and not any(1900 <= each < 2200 for each in rest))


def is_now(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether both are the same part of their moments, such as the weekday, the day or the week; or say that they are.

    Args:
        stored: What was shown before.
        fresh: What is shown now.
        moments: When the runs were.
    """
    if label := _PARTS.search(fresh.before):
        same = _PARTS.search(stored.before) is not None and stored.text.isdecimal() and fresh.text.isdecimal()
        return same and (label[1] is not None or max(len(stored.text), len(fresh.text)) <= 2)
    if moments.stored is None:
        return any(_is_part(fresh, part) for parts in _parts(moments.fresh, moments.zones) for part in parts)
    return any(_is_part(stored, one) and _is_part(fresh, other) for one, other in _pairs(moments, moments.stored))


@functools.lru_cache(maxsize=64)
def _pairs(moments: Moments, stored: float) -> frozenset[tuple[int | str, int | str]]:
    """The same parts of both moments, in any time zone; `stored` is the first."""
    days = zip(_parts(stored, moments.zones), _parts(moments.fresh, moments.zones), strict=True)
    # What shows the time may have read the clock in a cell before.
    times = (
        [_time(at - early + zone) for at in (stored, moments.fresh)]
        for zone, early in itertools.product(moments.zones, (0.0, moments.elapsed))
    )
    both = itertools.chain(days, times)
    return frozenset(pair for before, after in both for pair in zip(before, after, strict=True))


def _time(moment: float) -> tuple[int, ...]:
    """The hour, of a day of 24 or 12, and the minute."""
    at = datetime.fromtimestamp(moment, UTC)
    return at.hour, at.hour % 12 or 12, at.minute


def _parts(moment: float, zones: Sequence[int]) -> list[tuple[int | str, ...]]:
    """The parts of a moment, in the time zones farthest to the west and to the east, and between."""
    ahead = sorted({min(zones), 0, max(zones)})
    days = (datetime.fromtimestamp(moment, UTC) + timedelta(seconds=each) for each in ahead)
    return [
        (
            *(day.year, day.month, day.day, day.timetuple().tm_yday, day.isocalendar().week, int(f"{day:%U}")),
            *(day.isoweekday(), f"{day:%A}".lower(), f"{day:%B}".lower(), day.year * 100 + day.month),
        )
        for day in days
    ]


def _is_part(token: Token, part: int | str) -> bool:
    if isinstance(part, str):
        return token.kind == "word" and token.text.lower() in (part, part[:3])
    return token.text[:1].isdecimal() and "." not in token.text and number(token) == part


def is_off(apart: float, most: float, step: int) -> bool:
    """Whether two times differ by some steps, and no more: by days, or by the quarters of an hour of time zones."""
    return abs((apart + step / 2) % step - step / 2) <= most
