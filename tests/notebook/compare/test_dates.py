"""Dates and parts of dates: those of the moment of a run are no difference, any others are results."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from notebook.compare.shared import MOMENTS, NOW, THEN, TIMED, compared

from nbagent.notebook.compare.dates import ZONES, Moments, zones
from nbagent.notebook.compare.reads import Code


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S+00:00", "%d.%m.%Y", "%m/%d/%y", "%d %B %Y",
        "%A, %d %B %Y at %H:%M", "%b %d, %Y", "%a %b %d %H:%M:%S %Y", "%Y%m%d_%H%M%S", "%Y/%m/%d %H:%M",
        "%a %b %d %H:%M:%S UTC %Y", "%y%m%d-%H%M", "%Y%m%d%H%M%S",
        "datetime.datetime(%Y, %m, %d, %H, %M)", "Timestamp('%Y-%m-%d %H:%M:%S')", "[%Y-%m-%d %H:%M:%S,123] INFO: x",
    ],
)  # fmt: skip
def test_the_date_of_the_run_is_no_difference_and_any_other_is(form: str) -> None:
    """In the forms in which dates are printed; one that neither run's clock showed is a result."""
    then, now = (datetime.fromtimestamp(each, UTC).strftime(form) for each in (THEN, NOW))
    other = (datetime.fromtimestamp(NOW, UTC) + timedelta(days=90)).strftime(form)
    assert compared(f"Report of {then}: 3 rows", f"Report of {now}: 3 rows").differences == []
    assert compared(f"Last sale {other}", f"Last sale {now}").differences
    assert compared(f"Last sale {then}", f"Last sale {other}").differences
    assert compared(f"Report of {then}: 3 rows", f"Report of {now}: 4 rows").differences


def test_dates_of_both_runs_are_those_of_one_time_zone() -> None:
    """Just before midnight in UTC it may be tomorrow or today; not the one in a run and the other in the next."""
    late = datetime(2026, 11, 23, 21, 0, tzinfo=UTC).timestamp()
    moments = Moments(stored=late, fresh=late + 3_600, elapsed=20.0)
    assert compared("Mon 23 Nov 2026", "Tue 24 Nov 2026", moments=moments).differences == []  # two hours to the east
    assert compared("Tue 24 Nov 2026", "Mon 23 Nov 2026", moments=moments).differences
    assert compared("2026-11-22", "2026-11-23", moments=moments).differences
    night = Moments(stored=late, fresh=late + 5 * 3_600, elapsed=20.0)
    assert compared("2026-11-23", "2026-11-24", moments=night).differences == []


def test_dates_counted_from_the_day_follow_it_over_midnight() -> None:
    """Those of last week or in a month; on the same day such a date is the same, and another one is a result."""
    late = datetime(2026, 11, 25, 21, 14, tzinfo=UTC).timestamp()
    night = Moments(stored=late, fresh=late + 4 * 3_600, elapsed=20.0, zones=(0,))
    code = "print(date.today() - timedelta(days=7), date.today() + timedelta(days=30))"
    assert compared("2026-11-18 2026-12-25", "2026-11-19 2026-12-26", code=code, moments=night).differences == []
    assert compared("2026-11-18 2026-12-25", "2026-11-19 2026-12-27", code=code, moments=night).differences
    index = "DatetimeIndex(['{}', '{}', '{}'])"
    code = "pandas.date_range(end=pandas.Timestamp.now().normalize(), periods=3)"
    shown = [index.format(*(f"2026-11-{day + more}" for more in range(3))) for day in (23, 24)]
    assert compared(*shown, code=code, moments=night).differences == []
    yesterday = "print(date.today() - timedelta(days=1))"
    assert compared("2026-10-13", "2026-11-22", code=yesterday).differences == []
    eta = "print(f'ETA {datetime.now() + timedelta(minutes=5):%H:%M}')"
    assert compared("ETA 21:19", "ETA 01:19", code=eta, moments=night).differences == []
    assert compared("ETA 21:19", "ETA 01:24", code=eta, moments=night).differences
    evening = Moments(stored=late, fresh=late + 3_600, elapsed=20.0, zones=(0,))
    assert compared("2026-11-18", "2026-11-19", code=yesterday, moments=evening).differences


def test_the_zone_of_the_lock_is_that_of_its_dates() -> None:
    """A day in a zone that nobody named isn't that of a run; an unknown name may be any."""
    noon = datetime(2026, 11, 23, 10, 0, tzinfo=UTC).timestamp()
    moments = Moments(stored=noon, fresh=noon + 1_200, elapsed=3.0)
    assert compared("Of 2026-11-23", "Of 2026-11-24", moments=moments).differences == []  # 14 hours to the east
    for zone in ("UTC", "Europe/Rome"):
        known = replace(moments, zones=zones(zone, [noon]))
        assert compared("Of 2026-11-23", "Of 2026-11-24", moments=known).differences
    assert zones("Europe/Rome", [noon]) == (0, 3_600)
    assert zones("../etc", [noon]) == zones(None, [noon]) == ZONES
    code = Code()
    assert [code.take(each).zoned for each in ("1", "import arrow", "now")] == [False, True, True]


@pytest.mark.parametrize(
    ("form", "real", "unreal"),
    [
        ("datetime.datetime(%Y, %m, %d, %H, %M, %S, 226776)", ", 26,", ", 36,"),
        ("datetime.datetime(%Y, %m, %d, %H, %M, %S)", ", 23,", ", 22,"),
        ("datetime.datetime(%Y, %m, %d, %H, %M, %S)", ", 10,", ", 62,"),
        ("Timestamp('%Y-%m-%d %H:%M:%S')", "-26", "-36"), ("%Y-%m-%dT%H:%M:%S", "-26", "-36"),
        ("%Y-%m-%d %H:%M:%S", "-11-", "-21-"), ("%Y%m%d_%H%M%S", "1126", "2126"), ("%Y/%m/%d %H:%M", "/11/", "/10/"),
        ("%d.%m.%Y %H:%M:%S", "26.", "36."), ("%d %b %Y %H:%M:%S", "23:", "33:"), ("%H:%M", "23:", "38:"),
    ],
)  # fmt: skip
def test_a_day_or_a_time_that_there_is_not_is_no_moment(form: str, real: str, unreal: str) -> None:
    """Numbers of the time are no day or month of a date that begins with its year, though they are those of a day."""
    at = datetime(2026, 11, 26, 23, 10, 35, tzinfo=UTC)
    moments = Moments(stored=at.timestamp(), fresh=at.timestamp() + 60, elapsed=9.0, early=9.0, zones=(0,))
    stored, *fresh = ((at + timedelta(seconds=each)).strftime(form) for each in (0, 61, 65))
    code = "now = datetime.now()\nprint(now)"
    assert compared(stored, *fresh, code=code, moments=moments).differences == []
    assert compared(stored.replace(real, unreal, 1), *fresh, code=code, moments=moments).differences


def test_a_minute_is_no_year() -> None:
    """Where it has the number that the last two digits of the year are."""
    shown = [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H}:26:26" for each in (THEN, NOW)]
    code = "print(datetime.now())"
    assert compared(*shown, code=code).differences == []
    assert compared(shown[0].replace("2026", "2025"), shown[1], shown[1], code=code).differences


def test_seconds_since_the_epoch_are_a_date() -> None:
    """Of the run; others are results."""
    assert compared(f"{THEN:.2f} {int(THEN * 1000)}", f"{NOW:.2f} {int(NOW * 1000)}").differences == []
    assert compared("1600000000", f"{NOW:.0f}").differences


def test_words_that_begin_as_those_of_dates_are_names() -> None:
    """Beside a clock, on another day; hours without their minutes are times all the same."""
    code, noon = "print(f'{date.today():%A}')", datetime.fromtimestamp(NOW, UTC)
    then = datetime.fromtimestamp(THEN, UTC)
    for one, other in ((then, noon), (then.replace(hour=13, minute=0), noon.replace(hour=14, minute=0))):
        shown = [f"{each:%A %B, %Y-%m-%d %H:%M}" for each in (one, other)]
        assert compared(*shown, shown[1], code=code).differences == []
    near = replace(MOMENTS, stored=NOW - 3 * 86_400)
    for old, new in (("Marie", "Martin"), ("Sunlight", "Wednesbury"), ("DEBIT", "EBIT"), ("Friday", "Sunday")):
        assert compared(old, new, new, code=code, moments=near).differences
    wrong = f"{then - timedelta(days=5):%A %B}, {then:%Y-%m-%d %H:%M}"
    assert compared(wrong, shown[1], shown[1], code=code).differences
    assert compared("Monday", "Tuesday", "Tuesday", code="x").differences


@pytest.mark.parametrize(
    "form", ["%H:%M:%S", "%H:%M", "%I:%M %p", "%A", "%B", "%j", "%U", "day %d of %m", "%H h", "%I", "%M past"]
)
def test_a_part_of_the_moment_is_no_difference(form: str) -> None:
    """In any time zone, if it is the same part of both, also where two runs agree on it."""
    for after in (65.0, 3_600.0, 86_400.0 * 40):
        for shift in (0, 5.75 * 3_600, -8 * 3_600):
            then, now = (datetime.fromtimestamp(at + shift, UTC).strftime(form) for at in (NOW - after, NOW))
            moments = Moments(stored=NOW - after, fresh=NOW, elapsed=3.0)
            assert compared(f"at {then}", f"at {now}", f"at {now}", code=TIMED, moments=moments).differences == []


def test_what_fits_no_clock_is_a_difference_where_code_reads_one() -> None:
    """Another hour or weekday beside the right date, parts of times in zones that are not the notebook's, counts."""
    here = Moments(stored=THEN, fresh=NOW, elapsed=3.0, zones=(0,), early=60.0)
    form, code = "%A, %d %B %Y at %H:%M", "print(now, datetime.now(), len(threads))"
    then, now = (datetime.fromtimestamp(each, UTC).strftime(form) for each in (THEN, NOW))
    again = now.replace("14:03", "14:04")
    assert compared(then, now, again, code=code, moments=here).differences == []
    assert compared(then.replace("14:03", "14:02"), now, again, code=code, moments=here).differences == []
    assert compared(then.replace("Wednesday", "Monday"), now, again, code=code, moments=here).differences
    assert compared(then.replace("14:03", "13:03"), now, again, code=code, moments=here).differences
    hour = Moments(stored=NOW - 600, fresh=NOW, elapsed=3.0, zones=(0,), early=60.0)  # 13:53 and 14:03
    assert compared("quarter 3", "quarter 4", "quarter 4", code=code, moments=hour).differences
    assert compared("13 o'clock", "14 o'clock", "14 o'clock", code=code, moments=hour).differences == []
