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
QUARTER = 900
"""Seconds: time zones are whole quarters of an hour apart."""
ZONES = tuple(sorted(range(-12 * 3600, 14 * 3600 + 1, QUARTER), key=abs))
"""The seconds that time zones are ahead of UTC."""
_WEEK = "monday tuesday wednesday thursday friday saturday sunday".split()
_YEAR = "january february march april may june july august september october november december".split()
_NAMES = frozenset(name for each in (*_WEEK, *_YEAR) for name in (each, each[:3]))
_DAYS = frozenset(each[:3] for each in _WEEK)
EPOCH = date(1970, 1, 1).toordinal()
_YEAR_FIRST = re.compile(r"\D{0,20}((?:19|20|21)\d\d)(?:\D{1,2}(\d\d?)\D{1,2}(\d\d?)(?!\d)|(\d\d)(\d\d)(?=\D|\d{4}|$))")
_REPR = re.compile(r"datetime\(\d+, \d+, \d+, (\d\d?), (\d\d?)(?:, (\d\d?)(?!\d))?")
_AHEAD = re.compile(r":\d\d(?:[.,]\d+)? ?([+-])(\d\d):?(\d\d)\Z")
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
    if moments.stored is None:
        return True
    if stored.kind != "date" or fresh.kind != "date":
        if stored.kind != fresh.kind or not is_moment(stored, moments.stored, moments.zones):
            return False
        was, now = (number(each) or 0.0 for each in (stored, fresh))
        was, now = (each / _unit(now, moments.fresh) for each in (was, now))
        return _are_as_far(was, now, moments, room=0.0 if was % QUARTER or now % QUARTER else DAY)
    one, other = _days(stored.text, moments.stored), _days(fresh.text, moments.fresh)
    return any(_day(moments.stored, zone) in one and _day(moments.fresh, zone) in other for zone in moments.zones)


def is_moment(token: Token, moment: float, zones: Sequence[int]) -> bool:
    """Whether a token shows a moment: as a date in one of these time zones, or in seconds since the epoch."""
    value = number(token)
    if value is not None and token.kind == "number" and abs(value / _unit(value, moment) - moment) < DAY:
        return True
    return token.kind == "date" and not _days(token.text, moment).isdisjoint(_day(moment, zone) for zone in zones)


def _unit(value: float, moment: float) -> float:
    """How many of its unit a second has, if a number is near a moment since the epoch: however it is written."""
    return next((unit for unit in (1e3, 1e6, 1e9) if abs(value / unit - moment) < DAY), 1.0)


def is_in_step(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether the times of the day in two dates are the same, or as far apart as the runs; or there are none."""
    shown = [_TIME.search(each.text) or _REPR.search(each.text) for each in (stored, fresh)]
    ahead = [found.groups() if (found := _AHEAD.search(each.text)) else None for each in (stored, fresh)]
    if not is_real(stored.text) or (None not in ahead and ahead[0] != ahead[1] and not _is_here(stored, moments)):
        return False
    if moments.stored is None or not (shown[0] and shown[1]):
        return True
    at = [int(each[1]) * 3600 + int(each[2]) * 60 for each in (shown[0], shown[1])]
    apart, room = at[1] - at[0] - (moments.fresh - moments.stored), moments.early + 1.5 * moments.elapsed + 120
    room += HOUR if not any(each % HOUR for each in at) else 0  # as where code leaves out the minutes
    return at[0] == at[1] or any(is_off(apart - step, room, 12 * HOUR) for step in _steps(moments.zones))


@functools.lru_cache(maxsize=64)
def _steps(zones: tuple[int, ...]) -> frozenset[int]:
    """By how many seconds clocks change where it may be either of two times."""
    apart = (one - other for one, other in itertools.permutations(zones, 2))
    return frozenset({0, *(each for each in apart if abs(each) == HOUR)})


def _is_here(stored: Token, moments: Moments) -> bool:
    """Whether a time says that it is as far ahead of UTC as the zone of its notebook may be."""
    found = _AHEAD.search(stored.text)
    return found is None or int(f"{found[1]}1") * (int(found[2]) * HOUR + int(found[3]) * 60) in moments.zones


def is_real(text: str) -> bool:
    """Whether a clock can show the hour, the minute and the second of a text, if it has any."""
    found = _TIME.search(text) or _REPR.search(text)
    if zone := _AHEAD.search(text):
        hours, minutes = int(zone[2]), int(zone[3])
        if hours * HOUR + minutes * 60 > max(ZONES) or minutes % 15:
            return False
    return found is None or (int(found[1]) < 24 and int(found[2]) < 60 and int(found[3] or 0) < 60)


def is_as_far(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether two dates with a time, of which the year comes first, are as far apart as their runs."""
    at = []
    for text in (stored.text, fresh.text):
        time = _TIME.search(text) or _REPR.search(text)
        day = _YEAR_FIRST.match(text)
        if not (day and time):
            return False
        with contextlib.suppress(ValueError):
            ordinal = date(*(int(each) for each in day.groups() if each)).toordinal()
            at.append(ordinal * 86_400.0 + int(time[1]) * 3600 + int(time[2]) * 60 + int(time[3] or 0))
    return len(at) > 1 and _are_as_far(at[0], at[1], moments)


def _are_as_far(stored: float, fresh: float, moments: Moments, room: float = 0.0) -> bool:
    """Whether two moments are as far apart as their runs, but for an hour of daylight saving."""
    if moments.stored is None:
        return False
    apart = fresh - stored - (moments.fresh - moments.stored)
    room = max(room, moments.early + 1.5 * moments.elapsed + 120)
    return any(abs(apart - step) <= room for step in (0, HOUR, -HOUR))


def _day(moment: float, zone: int) -> int:
    """The number of a moment's day, in a time zone that is so many seconds ahead of UTC."""
    return int((moment + zone) // 86_400)


def _days(text: str, moment: float) -> set[int]:
    """The numbers of the days that a text may mean, from the one before a moment to that after it, in whatever order.

    A text that begins with a year in four digits means one day or, if there is no such day, none.
    """
    at = _day(moment, 0)
    if found := _YEAR_FIRST.match(text):
        with contextlib.suppress(ValueError):
            day = date(*(int(each) for each in found.groups() if each)).toordinal() - EPOCH
            return {day} & {at - 1, at, at + 1}
        return set()
    numbers = [int(each) for each in re.findall(r"\d+", _TIME.sub(" ", text))[:8]]
    if len(numbers) and len(first := str(numbers[0])) == 6:
        numbers = [int(first[:2]), int(first[2:4]), int(first[4:]), *numbers[1:]]
    words = [each[:3].lower() for each in re.findall(r"[A-Za-z]{3,}", text)]
    with contextlib.suppress(OverflowError):  # a moment at the end of time
        today = datetime.fromtimestamp(moment, UTC)
        return {at + days for days in (-1, 0, 1) if _renders(numbers, words, today + timedelta(days=days))}
    return set()


def _renders(numbers: list[int], words: list[str], day: datetime) -> bool:
    """Whether numbers and words have a day's year, month and day."""
    if day.day not in numbers:
        return False
    rest = list(numbers)
    if not _DAYS.intersection(words) <= {f"{day:%a}".lower()}:
        return False
    for each in (day.day, *(() if _YEAR[day.month - 1][:3] in words else (day.month,))):
        if each not in rest:
            return False
        rest.remove(each)
    if not rest and _YEAR[day.month - 1][:3] in words:
        return True  # as in a list of files, which leaves out the year of what is new
    # Beside a year in four digits, that in two would be an hour, a minute or a second.
    return day.year in rest or (day.year % 100 in rest and not any(1900 <= each < 2200 for each in rest))


def is_named(token: Token) -> bool:
    """Whether a word is the name of a day or a month, whole or its first three letters."""
    return token.text.lower() in _NAMES


def is_off(apart: float, most: float, step: int) -> bool:
    """Whether two times differ by some steps, and no more: by days, or by the quarters of an hour of time zones."""
    return abs((apart + step / 2) % step - step / 2) <= most
