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


def test_a_date_that_is_counted_from_the_day_is_told() -> None:
    """A run with the clock of the notebook knows which it was; a time counted from now is as far from both."""
    late = datetime(2026, 11, 25, 21, 14, tzinfo=UTC).timestamp()
    night = Moments(stored=late, fresh=late + 4 * 3_600, elapsed=20.0, zones=(0,))
    code = "print(date.today() + timedelta(days=30))"
    assert compared("due 2026-12-25", "due 2026-12-26", "due 2026-12-26", code=code, moments=night).differences
    early = replace(night, early=5.0)
    fresh, again = "due 2026-12-26 01:14:09.5", "due 2026-12-26 01:14:39.1"
    assert compared("due 2026-12-25 21:14:12.25", fresh, again, code=code, moments=early).differences == []
    for wrong in ("due 2026-12-24 21:14:12.25", "due 2031-05-05 03:11:59.5", "due 1999-01-01 21:14:12.25"):
        assert compared(wrong, fresh, again, code=code, moments=early).differences
    eta = "print(f'ETA {datetime.now() + timedelta(minutes=5):%H:%M}')"
    assert compared("ETA 21:19", "ETA 01:19", code=eta, moments=night).differences == []
    assert compared("ETA 21:19", "ETA 01:24", code=eta, moments=night).differences


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
    for form in ("{:.9e}", "{:.6e}", "{:,.2f}"):
        shown = [form.format(at) for at in (THEN, NOW, NOW + 5)]
        assert compared(*shown, code="print(time.time())").differences == []
        assert compared(form.format(THEN - 30 * 86_400), *shown[1:], code="print(time.time())").differences


@pytest.mark.parametrize(
    ("stored", "fresh", "again", "same"),
    [
        ("Friday, 5 h in May", "Sunday, 14 h in November", "Wednesday, 8 h in Oct", True),
        ("busy: 5 h", "busy: 14 h", "busy: 14 h", False), ("n = 999", "n = 11", "n = 11", False),
        ("best day: bad", "best day: Monday", "best day: Tuesday", False), ("Marie", "Monday", "Tuesday", False),
        ("Sunlight", "Wednesday", "Friday", False), ("1999-01-01", "2026-11-23", "2026-11-23", False),
        ("1999-01-01", "2026-11-23", "2025-10-14", True), ("DEBIT", "EBIT", "EBIT", False),
    ],
)  # fmt: skip
def test_what_another_clock_changes_is_of_the_clock(stored: str, fresh: str, again: str, *, same: bool) -> None:
    """Where a notebook doesn't say when it ran: names of days for names of days, numbers for numbers."""
    unknown = replace(MOMENTS, stored=None)
    found = compared(stored, fresh, again, code="print(datetime.now())", moments=unknown)
    assert (found.differences == []) is same
    assert compared(stored, fresh, again, code="x", moments=unknown).differences or stored[:4].isdecimal()


@pytest.mark.parametrize("form", ["%H:%M:%S", "%H:%M", "%I:%M %p"])
def test_the_time_of_the_day_is_no_difference(form: str) -> None:
    """In any time zone, if it is that of both, also where two runs agree on it."""
    for after in (65.0, 3_600.0, 86_400.0 * 40):
        for shift in (0, 5.75 * 3_600, -8 * 3_600):
            then, now = (datetime.fromtimestamp(at + shift, UTC).strftime(form) for at in (NOW - after, NOW))
            moments = Moments(stored=NOW - after, fresh=NOW, elapsed=3.0)
            assert compared(f"at {then}", f"at {now}", f"at {now}", code=TIMED, moments=moments).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh", "code"),
    [
        ("busiest hour: 17", "busiest hour: 8", TIMED), ("minute: 75", "minute: 3", TIMED), ("n = 14", "n = 23", TIMED),
        (f"{THEN - 80_000:.2f}", f"{NOW:.2f}", TIMED), (f"{THEN - 7_000:.0f}", f"{NOW:.0f}", TIMED),
        (f"{datetime.fromtimestamp(THEN, UTC):%F %T}+7100", f"{datetime.fromtimestamp(NOW, UTC):%F %T}+0000", TIMED),
        (f"{datetime.fromtimestamp(THEN, UTC):%F %T}+09:00", f"{datetime.fromtimestamp(NOW, UTC):%F %T}+00:00", TIMED),
        ("Monday, 14 October 2026 at 14:03", "Monday, 23 November 2026 at 14:03", "print(datetime.now())"),
        ("Wednesday, 14 October 2026 at 13:03", "Monday, 23 November 2026 at 14:03", "print(datetime.now())"),
    ],
)  # fmt: skip
def test_what_fits_no_clock_is_a_difference_where_code_reads_one(stored: str, fresh: str, code: str) -> None:
    """Another hour or weekday beside the right date, a moment of another day, a zone that there is nowhere."""
    here = Moments(stored=THEN, fresh=NOW, elapsed=3.0, zones=(0,), early=60.0)
    assert compared(stored, fresh, fresh, code=code, moments=here).differences
    then = f"{datetime.fromtimestamp(THEN, UTC):%A, %d %B %Y at %H:%M %F %T+0000} {THEN:.2f}"
    assert (
        compared(
            then,
            *[f"{datetime.fromtimestamp(NOW, UTC):%A, %d %B %Y at %H:%M %F %T+0000} {NOW:.2f}"] * 2,
            code=code,
            moments=here,
        ).differences
        == []
    )
