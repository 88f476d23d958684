"""Two runs of a cell: what is the same though it looks different, and what differs though it looks the same."""

from __future__ import annotations

import base64
import random
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import machine
import pytest

from nbagent.core.errors import UsageError
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.dates import ZONES, Moments, zones
from nbagent.notebook.compare.masks import INSTALLED, masked, read_masks
from nbagent.notebook.compare.reads import Code, Reads
from nbagent.notebook.compare.texts import EVERY_RUN, NO_SEED, ORDER, REORDERED, UNSET, Context, Strictness
from nbagent.notebook.compare.tokens import MOST, changes, tokens
from nbagent.notebook.compare.volatile import Processes
from nbagent.notebook.compare.widgets import WIDGET, with_state
from nbagent.safety.sanitize.outputs import VIEW_MIME

NOW = datetime(2026, 11, 23, 14, 3, 22, tzinfo=UTC).timestamp()
THEN = NOW - 40 * 86_400.0
MOMENTS = Moments(stored=THEN, fresh=NOW, elapsed=3.0)


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """Printed text."""
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: Any) -> dict[str, Any]:
    """A cell's value, by MIME type with `_` for `/`."""
    bundle = {name.replace("_", "/", 1): value for name, value in data.items()}
    return {"output_type": "execute_result", "data": bundle, "metadata": {}, "execution_count": 1}


def compared(
    stored: str, fresh: str, again: str | None = None, *, code: str = "", masks: Any = (), moments: Moments = MOMENTS
) -> Comparison:
    """What comes of two printed texts."""
    context = Context(moments=moments, reads=Code().take(code), strictness=Strictness(masks=masks))
    return compare([stream(stored)], [stream(fresh)], context, again=() if again is None else [[stream(again)]])


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("<object at 0x7f0011aabb00>", "<object at 0x7fe2>"),
        ("1.23 ms ± 45 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
         "980 µs ± 3.1 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)"),
        ("CPU times: user 3 µs, sys: 1 µs, total: 4 µs\nWall time: 5.01 µs",
         "CPU times: user 1.2 s, sys: 0 ns, total: 1.2 s\nWall time: 1min 3s"),
        ("100%|██████████| 10/10 [00:01<00:00,  9.8it/s]", "100%|█████████▉| 10/10 [00:00<00:00, 120.1it/s]"),
        ("/tmp/tmpab12_xyz/a.csv", "/tmp/tmpqqqqqqqq/a.csv"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("Cell In[3], line 1", "Cell In[17], line 1"),
        ("/tmp/ipykernel_77/123456.py:3: UserWarning: x", "/tmp/ipykernel/99.py:3: UserWarning: x"),
        ("0.1234567890123", "0.1234567890124"),
        ("a   b", "a b"),
        ("<Task pending name='Task-36'> ThreadPoolExecutor-0_0", "<Task pending name='Task-5'> ThreadPoolExecutor-0_1"),
        ("os.stat_result(st_ino=66, st_size=1)", "os.stat_result(st_ino=79, st_size=1)"),
        ("Device: 0,214\tInode: 6   Links: 1\nAccess: (0644/-rw-r--r--)  Uid: (88524/ sandbox)   Gid: (88524/ sandbox)",
         "Device: 0,49\tInode: 12  Links: 1\nAccess: (0644/-rw-r--r--)  Uid: ( 1001/ sandbox)   Gid: ( 1001/ sandbox)"),
        ("/home/x/lib/python3.9/site-packages/p/a.py:3: W", "/opt/lib/python3.11/site-packages/p/a.py:3: W"),
        ("   1    0.001    0.001    0.000    0.000 a:1(f)", "   1    0.000    0.000    0.000    0.000 a:1(f)"),
        ("dl \x1b[38;5;237m━━━━\x1b[0m━━━━ \x1b[35m 75%\x1b[0m \x1b[36m0:00:01\x1b[0m", "dl ━━━╸━━━━ 100% 0:00:00 "),
        (r'"dl <span style=\"a\">━━━</span><span style=\"b\">╺━</span> <span style=\"c\"> 75%</span>"',
         r'"dl <span style=\"a\">━━━━━</span> <span style=\"c\">100%</span> <span style=\"d\">0:00:00</span>"'),
        ("\u20073/3\u2007[00:00&lt;00:00,\u200738.63it/s]", "\u20073/3\u2007[00:00&lt;00:00,\u2007\u20072.06it/s]"),
        ("\x1b]8;id=712;file:///a.py\x1b\\a.py", "\x1b]8;id=49;file:///a.py\x1b\\a.py"),
        ("  0%|      | 0/3 [00:00<?, ?it/s]100%|##| 3/3 [00:00<00:00, 2.4it/s]", "100%|##| 3/3 [00:00<00:00, 9it/s]"),
        ("12it [00:00, 222.98it/s]", "12it [00:01, 9.1it/s]"),
        ("outer:  33%|██| 1/3 [00:00<?, ?it/s]\nouter: 100%|███| 3/3 [00:00<00:00, 3.9it/s]",
         "outer: 100%|███| 3/3 [00:00<00:00, 8.7it/s]"),
    ],
)  # fmt: skip
def test_what_is_never_a_result_is_not_compared(stored: str, fresh: str) -> None:
    """Addresses, IPython's timings, progress bars, temporary files, colours, numbers of cells, the last digits."""
    assert compared(stored, fresh).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("The slowest run took 5 times longer than the fastest. Revenue: 5 M.\n3 rows", "3 rows"),
        ("Wall time: revenue was 5,000,000 dollars", "Wall time: 3 ms"),
        ("CPU times: user 3 µs, sys: 1 µs, total: profits", "CPU times: user 3 µs, sys: 1 µs, total: 4 µs"),
        ("100%|Revenue 5,000,000 USD| 3/3 [00:01<00:00]", "100%|███| 3/3 [00:01<00:00]"),
        ("100%|███| 3/3 [00:01 revenue 5,000,000]", "100%|███| 3/3 [00:01<00:00]"),
        ("3/3 [00:01 revenue 5,000,000]", "3/3 [00:01]"),
        ("12 it [00:01, revenue 5000000 USD/year]", "12 it [00:01, 3it/s]"),
        ("Device: 5-million-dollars-of-revenue", "Device: 5"),
    ],
)
def test_nothing_can_be_said_within_what_is_masked(stored: str, fresh: str) -> None:
    """Else a notebook could show a result that its cells never gave, and be called the same."""
    assert compared(stored, fresh).differences


@pytest.mark.parametrize(
    ("code", "stored", "fresh", "again"),
    [
        ("os.times()", "posix.times_result(user=0.38, elapsed=9.5)", "posix.times_result(user=1.14, elapsed=8.1)",
         "posix.times_result(user=0.7, elapsed=8.8)"),
        ("from time import monotonic_ns as m\nmonotonic_ns()", "27216000123", "27316000456", "27416000789"),
        ("a.ctypes.data", "94024516888928", "93953551628144", "93825870698144"),
        ("os.getuid(), os.getgid()", "(88524, 88524)", "(57012, 57012)", "(61993, 61993)"),
    ],
)  # fmt: skip
def test_what_clocks_and_accounts_say_is_no_difference(code: str, stored: str, fresh: str, again: str) -> None:
    """Only where code asks them, and two fresh runs differ."""
    assert compared(stored, fresh, again, code=code).differences == []
    assert compared(stored, fresh, again, code="print(rows)").differences
    assert compared(stored, fresh, fresh, code=code).differences


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
    assert zones("Europe/Rome", [noon]) == [0, 3_600]
    assert zones("../etc", [noon]) == zones(None, [noon]) == ZONES
    code = Code()
    assert [code.take(each).zoned for each in ("1", "import arrow", "now")] == [False, True, True]


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


TIMED = "t = time.perf_counter()\nprint(time.perf_counter() - t)"


def test_a_duration_is_one_only_where_the_code_reads_a_clock() -> None:
    """And only if it is no longer than the run."""
    assert compared("done in 0.12 s", "done in 0.31 s", code=TIMED).differences == []
    assert compared("took 850 ms", "took 1.1 s", code=TIMED).differences == []
    assert compared("10ms/step, 2 s/it", "19ms/step, 1.1 s/it", code=TIMED).differences == []
    assert compared("10ms/step", "19ms/step").differences
    assert compared("10 s/m", "19 s/m", code=TIMED).differences
    assert compared("elapsed: 0.1", "elapsed: 0.2", code=TIMED).differences == []
    assert compared("0:00:00.123", "0:00:01.503", code=TIMED).differences == []
    assert compared("mean trip: 0.12 s", "mean trip: 0.31 s").differences
    assert compared("mean trip: 12.5 min", "mean trip: 12.7 min", code=TIMED).differences
    assert compared("rows: 12", "rows: 13", code=TIMED).differences


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("opens 09:30:00", "opens 09:31:00"),
        ("opens 09:30", "opens 17:45"),
        ("11 rows", "23 rows"),
        ("November", "Monday"),
        ("mean hours: 37", "mean hours: 38"),
        ("mean seconds: 37.5 of 50", "mean hour: 38.5 of 50"),
        ("5 rows", "6 rows"),
        ("5 rows", "305 rows"),
        ("ships at 352.5 orders/min", "ships at 353.5 orders/min"),
        ("grew 3.512x", "grew 3.514x"),
        ("f=1.035e-05", "f=9.035e-05"),
        ("residual 2e-14", "residual 2e-15"),
    ],
)
def test_a_cell_that_reads_a_clock_shows_results_too(stored: str, fresh: str) -> None:
    """What runs agree on and the notebook doesn't is none of a clock's, unless it is what the clock said of each."""
    for after in (1.0, 120.0, 86_400.0 * 10):
        moments = Moments(stored=NOW - after, fresh=NOW, elapsed=20.0)
        assert compared(stored, fresh, fresh, code=TIMED, moments=moments).differences


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


def test_numbers_of_processes_are_ids_where_code_asks_for_them() -> None:
    """In a sandbox they are small, and runs may agree on them by chance."""
    code = "def work(x):\n    return x, os.getpid()\nwith Pool(2) as pool:\n    print(pool.map(work, [1, 2]))"
    told = "[(1, {}), (2, {})]"

    def found(stored: str, fresh: str, code: str = code) -> list[Any]:
        context = Context(moments=MOMENTS, reads=Code().take(code), processes=Processes(8, range(15, 90)))
        return compare([stream(stored)], [stream(fresh)], context, again=[[stream(fresh)]]).differences

    assert found(told.format(20, 21), told.format(19, 20)) == []
    assert found("[(1, 20), (3, 21)]", told.format(19, 20))
    assert found(told.format(20, 61), told.format(19, 20))
    assert found("20 rows", "19 rows", "print(len(rows), 'rows')")
    assert found("[(9, 20)]", "[(10, 20)]")


def test_bytes_are_the_same_in_either_quotes() -> None:
    """Which ones Python takes depends on whether an apostrophe is in them, as it may be in random ones."""
    code = "import os\nos.urandom(4)"
    assert compared('b"\'\\x80\\x12a"', "b'\\x01\\xf1Zb'", "b'\\x9e\\x03qq'", code=code).excused == {"id"}
    assert compared('b"it\'s"', "b'its'", code="x").differences


def test_short_times_that_are_rounded_may_be_the_same_in_fresh_runs() -> None:
    """Not where they are called something, nor where they are long or among other numbers."""
    code = "print(f'{time.time() - t:8.3f} words')"
    assert compared("   0.003 words", "   0.000 words", "   0.000 words", code=code).differences == []
    for row in ("   {} 312 words", "│ load │ {} │ 1200 │"):
        assert compared(row.format("0.003"), *[row.format("0.000")] * 2, code=code).differences == []
    assert compared("error 0.003", "error 0.000", "error 0.000", code=code).differences
    assert compared("   0.300 words", "   0.200 words", "   0.200 words", code=code).differences
    assert compared("   0.300 words", "   0.002 words", "   0.002 words", code=code).differences
    assert compared("[1.2 0.004]", "[1.2 0.007]", "[1.2 0.007]", code=code).differences


def test_tasks_that_end_in_another_order_may_take_another_time() -> None:
    """Lines in another order are none beside durations that differ; a line that changed is one."""
    code = "t = time.time()\nfor each in asyncio.as_completed(tasks):\n    print(await each)\nprint(time.time() - t)"
    told = "{}\n{}\n{}\n{}s for 3 tasks"
    fresh = told.format(2, 0, 1, 0.07)
    assert compared(told.format(0, 1, 2, 0.05), fresh, fresh, code=code).differences == []
    assert compared(told.format(0, 1, 3, 0.05), fresh, fresh, code=code).differences
    assert compared(told.format(0, 1, 2, 0.05), fresh, fresh, code="t = time.time()").differences
    code = "for each in threads: each.start()\nfor each in [Thread(target=work)]: each.join()"
    assert compared("worker 1\nworker 5\n", "worker 2\nworker 1\n", "worker 1\nworker 2\n", code=code).differences
    assert compared("worker 1\nworker 2\n", "worker 2\nworker 1\n", "worker 1\nworker 2\n", code=code).excused


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


def test_small_numbers_beside_threads_are_no_processes() -> None:
    """Only where the code asks for the numbers of processes or threads."""
    reads = Code().take("with ThreadPoolExecutor(4) as ex:\n    print(*ex.map(cube, range(6)))")
    context = Context(moments=MOMENTS, reads=reads, processes=Processes(7, range(30, 300)))
    assert compare([stream("64 126")], [stream("64 125")], context, again=[[stream("64 125")]]).differences


def test_the_times_of_files_that_a_program_lists_are_clocks() -> None:
    """Whichever of its letters come with the one for the long form."""
    listed = "-rw-r--r-- 1 sandbox sandbox 8 Nov 24 {} out.csv"
    now, then = (listed.format(datetime.fromtimestamp(each, UTC).strftime("%H:%M")) for each in (NOW, THEN - 120))
    moments = Moments(stored=THEN - 120, fresh=NOW, elapsed=3.0)
    for code in ("!ls -la {d}", "!ls -tl", "!ls --color -l x | head", "!ls --full-time"):
        assert compared(then, now, now, code=code, moments=moments).differences == [], code
    assert compared(then, now, now, code="!ls --color=always out-l", moments=moments).differences


def test_what_programs_say_of_the_machine_may_be_the_same_in_all_fresh_runs() -> None:
    """Of its disk or its memory, in a cell that shows nothing else."""
    told = "overlay  252G   {}G  163G  {}% /"
    now, then = told.format(61, 41), told.format(62, 40)
    assert compared(then, now, now, code="!df -h / | tail -1\n").excused == {"measure"}
    assert compared(then, now, now, code="!df -h / | tail -1\nprint(len(rows))").differences
    assert compared(then.replace("overlay", "tmpfs"), now, now, code="!df -h / | tail -1").differences


def test_each_error_of_a_cell_is_compared() -> None:
    """Programs that IPython calls after a cell show theirs, too."""
    one, other, last = ({"output_type": "error", "ename": "E", "evalue": value, "traceback": []} for value in "abc")
    (found,) = compare([one, last], [other, last], Context(moments=MOMENTS)).differences
    assert str(found) == "error, line 1: 'a' → 'b'"


def test_rows_of_a_profile_come_in_the_order_of_their_times() -> None:
    """Which is none of a result's; of the longest few, others may be among them in each run. Counts are compared."""

    def row(count: int, name: str) -> str:
        return f"{count:9}    0.001    0.000    0.002    0.000 {name}\n"

    one, other, third = row(1, "a.py:3(f)"), row(20, "{built-in method builtins.exec}"), row(7, "b.py:9(g)")
    code = "%prun -l 2 f()"
    assert compared(one + other, other + one, other + one, code=code).differences == []
    assert compared(one + other, other + third, one + third, code=code).excused == {"timing"}
    assert compared(one + other, other + third, other + third, code=code).differences
    assert compared(one + other, other + row(2, "a.py:3(f)"), code=code).differences


def test_libraries_time_themselves() -> None:
    """Where the code reads no clock, a duration differs again, or what stands before it says what it is."""
    assert (
        compared("[Parallel]: Done 4 tasks | elapsed: 0.1s", "[Parallel]: Done 4 tasks | elapsed: 0.2s").differences
        == []
    )
    assert compared("fit 0.123 s", "fit 0.456 s", "fit 0.789 s").differences == []
    assert compared("14:03:22,1 INFO x", "14:03:29,5 INFO x", "14:03:31,2 INFO x").differences == []
    assert compared("opens 08:30", "opens 09:30", "opens 09:30").differences
    assert compared("fit 0.123 s", "fit 0.456 s", "fit 0.456 s").differences


def test_a_function_that_reads_a_clock_is_known_in_later_cells() -> None:
    """By its name, and by the names of what came of it."""
    code = Code()
    assert code.take("import time\ndef timed(f):\n    t = time.time(); f(); return time.time() - t").clock
    assert not code.take("x = 1\nprint(x)").clock
    assert code.take("took = timed(print)").clock
    assert code.take("print(took)").clock
    assert code.take("%%time\nx = 1").clock
    assert not code.take("import time, uuid").clock
    assert code.take("!echo $$").ident
    assert code.take("x = 1\nn = !python -c 'import time; print(time.time())'").clock
    assert not code.take("%matplotlib inline\nx = 1").is_volatile


@pytest.mark.parametrize(
    ("code", "stored", "fresh", "again"),
    [
        ("localtime()", "tm_hour=1, tm_yday=287", "tm_hour=14, tm_yday=327", "tm_hour=14, tm_yday=327"),
        ("now() - timedelta(days=7)", "since 2026-10-07", "since 2026-11-16", "since 2026-11-16 "),
        ("timeit.timeit(f)", "2.3x faster", "2.2x faster", "2.2x faster"),
        ("time.time()", "1.3e-03 0.001", "1.6e-03 0.002", "1.9e-03 0.002"),
        ("secrets.token_urlsafe()", "id ab-cd_e", "id abc-d-e", "id abcdefg"),
        ("psutil.virtual_memory()", "used 12.5 GB", "used 12.7 GB", "used 12.6 GB"),
        ("psutil.Process().memory_info().rss", "58 MB of 24%", "60 MB of 25%", "60 MB of 25%"),
        ("gc.collect()", "77", "66", "66"),
        ("{K(1), K(2)}", "{K1, K2, (3, 4)}", "{(3, 4), K2, K1}", "{(3, 4), K2, K1}"),
        ("ThreadPoolExecutor()", "job 1\njob 0\n", "job 0\njob 1\n", "job 0\njob 1\n"),
    ],
)
def test_what_a_run_measures_is_no_difference(code: str, stored: str, fresh: str, again: str) -> None:
    """Ages, parts of a time, ids with signs, memory, orders of sets and threads; without that code they are results."""
    code = f"import date\n{code}"
    assert compared(stored, fresh, again, code=code).differences == []
    assert compared(stored, fresh, again).differences or "{" in code


def test_a_line_with_what_changes_hides_no_other_change() -> None:
    """A date that neither run shows, a word beside a duration, another value in the line of an id."""
    code = "import time, uuid\ntime.time(); uuid.uuid4()"
    then, now = (datetime.fromtimestamp(each, UTC).strftime("%a %b %d %H:%M:%S UTC %Y") for each in (THEN, NOW))
    assert compared(then.replace("2026", "2526"), now, now.replace(":22", ":25"), code=code).differences
    then, now = (datetime.fromtimestamp(each, UTC).strftime("report_%Y%m%d_%H%M.csv") for each in (THEN, NOW))
    assert compared(then, now, now.replace("1403", "1404"), code=code).differences == []
    assert compared(then.replace("2026", "2025"), now, now.replace("1403", "1404"), code=code).differences
    assert compared("0.1 s on 2019-03-04", "0.2 s", "0.3 s", code=code).differences
    assert compared("run ab12cd3, 5 rows", "run ef45gh6, 6 rows", "run ij78kl9, 6 rows", code=code).differences
    assert compared(f"{THEN + 8e9:.0f}", f"{NOW:.0f}", f"{NOW + 1:.0f}", code=code).differences
    assert compared("{'montH': 11}", "{'month': 11}", "{'month': 11}", code=code).differences
    # A result of many digits is no tick of a clock, and only code that starts threads excuses another order.
    assert compared("p = 1.2345678901e-05", *["p = 4.567890123e-05"] * 2, code=code).differences
    code = "# Process the orders\ndf['Process'] = 1\nprint(df)"
    assert [
        each.cause for each in compared("1 Berlin\n2 Paris", *["1 Paris\n2 Berlin"] * 2, code=code).differences
    ] == [ORDER]
    # Any number may differ by as many days as there are between two runs: a run with the clock set back tells of ages.
    assert compared("rows 2000", "rows 2040", "rows 2040", code=code).differences


def test_a_name_within_an_expression_is_its_own() -> None:
    """Though another cell had times by that name."""
    code = Code()
    code.take("{name: v for name, v in taken(time.time())}")
    assert code.take("m = MLPClassifier().fit(x, y)\nprint([v for v in m.loss_curve_], time.time() - t)").shows_samples


@pytest.mark.parametrize(
    "code",
    [
        "t = time.time()\nw = np.random.randn(8)\nprint('weights', w.round(3), time.time() - t)",
        "%%time\nforest = RandomForestClassifier().fit(X, y)\nprint('score', forest.score(X, y))",
        "for n in tqdm(range(3)):\n    loss = random.random()\nloss",
        "with NamedTemporaryFile() as file:\n    pass\nprint(f'{np.random.rand():.3f}', file.name)",
        "t = time.time()\n{'mean': df.sample(3).x.mean(), 'took': time.time() - t}",
        "t = time.time()\nprint(np.random.rand())",
        "g = np.random.default_rng()\nfor n in y:\n    t = time.time()\n    e = pi(n, g)\n    print(e, t - 3)",
        "x = np.random.default_rng(time.time_ns()).integers(0, 99)\nprint(x)",
        "import random\nrandom.seed(os.getpid())\nprint(random.random(), time.time())",
        "pd.DataFrame(np.random.rand(3, 2)).assign(t=time.time())",
        "random.seed(4)\nprint(np.random.rand(), time.time())",
        "random.seed(4)\nprint(sum(random.SystemRandom().random() for _ in y), time.time())",
        "x = list(y)\nnp.random.shuffle(x)\nprint(time.ctime(), x)",
        "sns.stripplot(y)\nplt.title(time.ctime())",
        "with timer():\n    x = rand(3)\nif y:\n    print(time.time(), [each + 1 for each in x])",
    ],
)
def test_random_numbers_beside_times_and_ids_are_named(code: str) -> None:
    """Where no seed is set and they are shown; their count, and how long something took with them, are none."""
    for shown in ("weights {} 0.0123", "[{}]"):
        found = compared(*(shown.format(each) for each in ("0.531", "0.112", "0.907")), code=code).differences
        assert [each.cause for each in found] == [NO_SEED]
    chart = "<div id='viz-{0}'><script>draw('viz-{0}', {{'x': {1}}})</script></div>"
    drawn = [
        [result(text_html=chart.format(*each))] for each in (("0a1b2c", 0.531), ("9f8e7d", 0.112), ("d4c3a2", 0.907))
    ]
    context = Context(moments=MOMENTS, reads=Code().take(code))
    assert [each.cause for each in compare(*drawn[:2], context, again=drawn[2:]).differences] == [NO_SEED]
    texts = ["sorted 900 in 0.0123", "sorted 900 in 0.0211", "sorted 900 in 0.0109"]
    for honest in (
        "x = [random.random() for _ in y]\nt = time.time()\nsorted(x)\nprint('sorted', len(x), time.time() - t)",
        "np.random.seed(0)\nt = time.time()\nprint('sorted', np.random.randint(900), time.time() - t)",
        "for n in y:\n    x = np.random.rand(n)\n    t = time.time()\n    x.sort()\n    s += [time.time() - t]\ns",
        "def bench(f, x):\n    t = time.time()\n    f(x)\n    return time.time() - t\nbench(sorted, np.random.rand(9))",
        "for n, row in enumerate(np.random.rand(9)):\n    t = time.time()\n    sum(row)\n    print(n, time.time() - t)",
        "x = np.random.rand(9)\nx = range(3)\nt = time.time()\nprint(max(x), time.time() - t)",
        "g = np.random.default_rng(4)\nt = time.time()\nprint(pi(9, g), time.time() - t)",
        "print(timeit.timeit(lambda: np.random.rand(9), number=3))",
        "t = time.time()\nprint('sorted', df.sample(1, random_state=1), time.time() - t)",
        "t = time.time()\nrng = default_rng(0)\nprint('sorted', rng.normal(), time.time() - t)",
    ):
        assert compared(*texts, code=honest).differences == []


@pytest.mark.parametrize(("before", "after", "seeded"), [
    ("random.seed(4)", "", True), ("torch.manual_seed(seed)", "", True), ("np.random.seed(seed=4)", "", False),
    ("np.random.seed()", "", False), ("random.seed(time.time())", "", False),
    ("now = time.time()\nseed(now)", "", False),
    ("seed_it()", "", False), ("random.seed(None)", "", False), ("", "random.seed(4)", False),
])  # fmt: skip
def test_a_seed_is_one_that_is_the_same_in_each_run_and_comes_before(before: str, after: str, seeded: bool) -> None:
    """Whatever else is called so."""
    code = f"import random, time\n{before}\nx = random.random()\n{after}\nt = time.time()\nprint(x, time.time() - t)"
    assert Code().take(code).shows_samples is not seeded


@pytest.mark.parametrize(
    "told",
    ["/items/{}?page=3", '{{"key":"{}","n":3}}', "Bearer {};n=3", "{}/part-3.csv", "{}:3,{}:3", "<a id='{}'>3</a>",
     "s3://{}/3/report_2024.csv"],
)  # fmt: skip
def test_what_stands_beside_an_id_without_a_space_is_no_part_of_it(told: str) -> None:
    """In addresses, in JSON and in paths; an id goes over signs that it may have itself, and bytes over all."""
    code = "import secrets\nprint(secrets.token_urlsafe())"
    one, two, three = (told.format(*[each] * 3) for each in ("xY-cd_e", "9bc-d-e", "k_Cdefg"))
    assert compared(one, two, three, code=code).differences == []
    for old in ("3", "part", "report_2024", "page"):
        if old in one:
            assert compared(one.replace(old, "4"), two, three, code=code).differences, old
    one, two, three = (f"b'{each}'" for each in (r"\x8f?&=3\x77", r"\x33&?\x12", r"\x9a=4\x12"))
    assert compared(one, two, three, code="os.urandom(8)").differences == []


def test_many_branches_are_no_deep_ones() -> None:
    """Each `elif` is a branch of the one before."""
    code = (
        "if x == 0:\n    y = 0\n" + "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(1500)) + "random.random()"
    )
    assert compared("0.123", "0.541", "0.777", code=code).differences[0].cause == NO_SEED


def test_what_two_fresh_runs_do_not_agree_on_has_a_cause() -> None:
    """An id is no difference; a random number is one, with its cause; what both agree on was changed."""
    one, two, three = ("6f1c2a9e-1111-4222-8333-4444deadbeef", "0aa2f0c4-9e37-41b5-a1a1-5d3dbeefdead", "run 77ab01")
    assert compared(one, two, three).differences == []
    assert compared("run 77ab01", "run 81ff2c", "run 9910ee").differences == []
    assert compared("run 77ab01", "run 81ff2c", "run 81ff2c").differences[0].cause == ""
    found = compared("x = 0.123", "x = 0.541", "x = 0.777", code="print(random.random())").differences
    assert [each.cause for each in found] == [NO_SEED]
    assert compared("x = 1", "x = 2", "x = 3").differences[0].cause == EVERY_RUN
    assert compared("x = 1", "x = 2", "x = 2").differences[0].cause == ""
    assert compared("a 1\nb 2", "b 2\na 1", "b 2\na 1").differences[0].cause == ORDER
    assert compared("a 1\nb 2", "b 2\na 1", "a 1\nb 2").differences[0].cause == REORDERED


@pytest.mark.parametrize(
    "code",
    [
        "from numpy.random import exponential\nexponential()",
        "import random as r\nfrom random import gauss as draw\nx = draw(0, 1)\nx",
        "from scipy import stats\nd = stats.norm(1, 2)\nd.rvs(3)",
        "from sklearn.utils import resample\nresample([1, 2, 3])[0]",
    ],
)
def test_functions_of_random_modules_draw_without_a_seed(code: str) -> None:
    """Also by names of their own."""
    assert [each.cause for each in compared("0.1234", "0.2345", "0.3456", code=code).differences] == [NO_SEED]


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("12", "13"), ("1,234,567", "1,234,568"), ("0.500", "0.501"), ("1e-5", "2e-5"), ("a b", "a c"), ("x", ""),
        ("a\nb", "a\nb\nc"), ("-1", "1"), ("0x10", "0x11"), ("sha256 ab12cd34", "sha256 ab12cd35"), ("1 h", "2 h"),
        ("v1.2.3", "v1.2.4"), ("[1, 2]", "[2, 1]"), ("True", "False"), ("3 seconds", "4 seconds"),
        ("0.000", "-0.000"), ("-0.0", "0.0"),
    ],
)  # fmt: skip
def test_every_other_change_is_found(stored: str, fresh: str) -> None:
    """Whole numbers exactly; both ways; also with a second run that agrees with the first."""
    for left, right in ((stored, fresh), (fresh, stored)):
        assert compared(left, right).differences
        assert compared(left, right, right).differences


def test_a_long_value_is_shown_where_it_differs() -> None:
    (found,) = compared(f"{'1' * 500}2{'3' * 500}", f"{'1' * 500}4{'3' * 500}").differences
    assert "12333" in found.stored
    assert "14333" in found.fresh
    assert len(found.stored) < 90


def test_a_cell_of_a_table_is_named_by_row_and_column() -> None:
    """In HTML, and in a frame that is printed."""
    table = "<style>{}</style><table id='{}'><tr><th>bill</th><th>mass</th></tr><tr><td>{}</td><td>2</td></tr></table>"
    context = Context(moments=MOMENTS)
    old, new = result(text_html=table.format("", "T_a", "38.1")), result(text_html=table.format("", "T_b", "38.2"))
    (found,) = compare([old], [new], context, again=[[new]]).differences
    assert str(found) == "output 1, text/html, row 1, column bill: '38.1' → '38.2'"
    frame = "┌──────┬──────┐\n│ bill ┆ mass │\n│ 1    ┆ {} │\n└──────┴──────┘"
    (found,) = compare(
        [result(text_plain=frame.format("10"))], [result(text_plain=frame.format("1000"))], context
    ).differences
    assert found.where == "row 1, column mass"


def test_a_value_is_told_once_of_html_and_plain_text() -> None:
    """The plain text of the same output says the same; what only it shows is told, and each cell has its own name."""
    html = "<table><tr><th></th><th>id</th><th>x</th></tr><tr><td>{0}</td><td>{0}</td><td>{1}</td></tr></table>"
    context = Context(moments=MOMENTS)

    def shown(number: int, x: str, last: str = "") -> list[dict[str, Any]]:
        return [result(text_html=html.format(number, x), text_plain=f"{number} {number} {x} {last}")]

    found = compare(shown(7, "1.5"), shown(8, "1.5"), context).differences
    assert [(each.what, each.where) for each in found] == [
        ("output 1, text/html", "row 1, column 1"),
        ("output 1, text/html", "row 1, column id"),
    ]
    (found_x, only) = compare(shown(7, "1.5", "a"), shown(7, "2.5", "b"), context).differences
    assert (found_x.where, only.what, only.fresh) == ("row 1, column x", "output 1, text/plain", "'b'")


@pytest.mark.parametrize(
    ("cells", "random"),
    [
        (["import random\nx = random.random()", "print(x)"], [True, True]),
        (["random.seed(4)", "random.random()", "random.Random(4).random()"], [False, True, False]),
        (["rng = np.random.default_rng(seed)", "rng.normal()"], [False, False]),
        (
            ["rng = np.random.default_rng()", "x = rng.normal()\ny = 1", "print(x)", "print(y)"],
            [True, True, True, False],
        ),
        (["model = KMeans(3)", "model.fit(data)", "model.labels_", "len(data)"], [True, True, True, False]),
        (["model = KMeans(3, random_state=0)", "model.fit(data)"], [False, False]),
        (["df.sample(3)", "df.head()"], [True, False]),
        (["np.random.seed(1)", "sns.barplot(data)", "sns.barplot(data, seed=1)"], [False, True, False]),
        (["np.random.default_rng(5).random(3)", "np.random.normal()"], [False, True]),
        (["walk = []\nfor n in range(9):\n    at = randint(0, 1)\n    walk.append(at)", "plot(walk)"], [True, True]),
        (["random.seed(1)", "np.random.default_rng().normal()", "random.seed(); random.random()"], [False, True, True]),
    ],
)
def test_random_numbers_are_followed_by_name(cells: list[str], random: list[bool]) -> None:
    """From where they are drawn without a seed of their own: that of all does not hold for every library."""
    code = Code()
    assert [code.take(each).random for each in cells] == random


@pytest.mark.parametrize(
    ("code", "unset"),
    [
        ("np.empty((2, 3))", True),
        ("a = np.empty(3)\nprint(a)", True),
        ("a = np.empty(3)\na[:] = 1\na", False),
        ("a = np.empty(3)\na.fill(1)\na", False),
        ("queue.empty()", False),
        ("a = np.empty(3)", False),
    ],
)
def test_an_array_that_nobody_filled_is_a_cause(code: str, unset: bool) -> None:
    """It shows what was in memory, so runs may agree or not."""
    assert Code().take(code).unset is unset
    assert compared("[0.1]", "[0.]", "[0.]", code=code).differences[0].cause == (UNSET if unset else "")


def test_a_picture_that_is_drawn_on_depends_on_what_is_drawn() -> None:
    """As by Pillow, whose drawing is another object."""
    code = Code()
    code.take("im = Image.new('L', (9, 9))\nd = ImageDraw.Draw(im)\nd.text((0, 0), str(datetime.now()))")
    assert code.take("im").clock
    assert not code.take("other").clock


def test_what_threads_gather_comes_in_any_order() -> None:
    """In the list that they fill, too, also where runs agree by chance; in that of a pool's `map` it does not."""
    code = Code()
    code.take("out = []\ndef run(n):\n    out.append(n)\nfor n in range(3):\n    Thread(target=run, args=[n]).start()")
    for reads, same in (
        (code.take("out"), True),
        (code.take("other"), False),
        (Code().take("Pool().map(f, x)"), False),
    ):
        context = Context(moments=MOMENTS, reads=reads)
        runs = [[stream(each)] for each in ("[0, 2, 1]", "[0, 1, 2]", "[0, 1, 3]")]
        assert (compare(runs[0], runs[1], context, again=[runs[1]]).differences == []) is same
        assert compare(runs[2], runs[1], context, again=[runs[1]]).differences
    times = "posix.times_result(user={}, system=0.1, elapsed=1719.5)"
    assert compared(times.format(0.03), *[times.format(0.04)] * 2, code="import os; os.times()").differences == []


def test_packed_numbers_of_a_figure_are_compared_one_by_one() -> None:
    """Durations in it are those of the run; a result beside them is none."""

    def figure(*numbers: float, shape: str = "2") -> list[Any]:
        packed = base64.b64encode(array("d", numbers).tobytes()).decode()
        data = [{"y": {"dtype": "f8", "bdata": packed, "shape": shape}}]
        return [result(**{"application_vnd.plotly.v1+json": {"data": data}})]

    context = Context(moments=MOMENTS, reads=Code().take("fig = px.bar(y=[5, time.time() - t])"))
    runs = [figure(5, 0.01 + n / 1000) for n in range(3)]
    assert compare(runs[0], runs[1], context, again=[runs[2]]).excused == {"timing"}
    assert compare(figure(6, 0.01), runs[1], context, again=[runs[2]]).differences
    assert not compare(figure(0.1 + 0.2), figure(0.3), context).differences
    assert compare(figure(1, 2, shape="1, 2"), figure(1, 2, shape="2, 1"), context).differences


def test_json_that_is_nested_too_deep_for_python_to_write_is_compared() -> None:
    """By its values and its signs."""

    def nested(value: Any) -> list[Any]:
        for _ in range(2_000):
            value = [value, {"a": "["}]
        return [result(application_json=value)]

    for other, differs in ((5, False), (6, True), ([5], True), ("5", True), ({"a": 5}, True), ("[", True)):
        assert bool(compare(nested(5), nested(other), Context(moments=MOMENTS)).differences) is differs
    assert compare(nested("["), nested("{"), Context(moments=MOMENTS)).differences


@pytest.mark.parametrize(
    ("drawn", "other"),
    [('<g id="{}"/><use xlink:href="#{}"/><p style="clip-path: url(#{})"/>', False),
     ('<g id="{}"/><text>#{}</text>', True), ('<g id="{}"/><path fill="#{}"/>', True), ('<text>id="{}"</text>', True)],
)  # fmt: skip
def test_names_within_a_drawing_are_made_up(drawn: str, other: bool) -> None:
    """Not what it shows: its words and its colours, whatever has the same name."""
    runs = [[result(**{"image_svg+xml": f"<svg>{drawn.replace('{}', each)}</svg>"})] for each in ("d02020", "2020d0")]
    assert bool(compare(*runs, Context(moments=MOMENTS)).differences) is other


def test_what_a_clock_is_written_into_depends_on_it() -> None:
    """A figure whose axes show the time is shown again by another name."""
    code = Code()
    first = code.take("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.text(0, 0, time.ctime())")
    assert [first.clock, code.take("fig").clock, code.take("plt.plot([1])").clock] == [True, True, False]
    code.take("df['age'] = pd.Timestamp.now() - df.day")
    assert [code.take("df.head()").clock, code.take("other.head()").clock] == [True, False]


def test_markup_counts_only_where_something_is_drawn() -> None:
    """Names in it that a library makes up differ with every run; a drawing that differs is found."""
    context = Context(moments=MOMENTS)

    def html(text: str) -> list[dict[str, Any]]:
        return [result(text_html=text)]

    assert compare(html('<b class="a">1</b>'), html('<i id="7">1</i>'), context).differences == []
    one, two, three = (html(f"<svg><path id='p{name}' d='M 0 0 L 5 5'/></svg>") for name in ("ab12", "cd34", "ef56"))
    assert compare(one, two, context, again=[three]).differences == []
    other = html("<svg><path id='pab12' d='M 0 0 L 5 9'/></svg>")
    assert compare(other, two, context, again=[three]).differences
    red, blue = (html(f"<b id='a{colour}1' style='color: {colour}'>1</b>") for colour in ("red", "blue"))
    assert compare(red, blue, context).differences[0].where == "style or link"
    links = [result(text_html=f"<p><a href='https://example.org/{each}'>data</a></p>") for each in "ab"]
    assert compare(links[:1], links[1:], context).differences[0].where == "style or link"


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("10<sup>2</sup> rows", "102 rows"),
        ("<div>5</div><div>0</div>", "<div>50</div>"),
        ("1<br>2", "12"),
        ("<del>5</del> 7", "5 7"),
        ("<object data='data:text/html,7'></object>5", "5"),
        ("5<progress max='9'></progress>", "5<progress max='3'></progress>"),
    ],
)
def test_what_html_says_beside_its_words_is_compared(stored: str, fresh: str) -> None:
    """What is raised, struck out, drawn, or in another line."""
    pages = [result(text_html=each, text_plain="<HTML>") for each in (stored, fresh)]
    assert compare(pages[:1], pages[1:], Context(moments=MOMENTS)).differences


def test_errors_and_missing_outputs_are_found() -> None:
    """An error by its type and message, and by its traceback if the same programs ran; an output by its MIME type."""
    context = Context(moments=MOMENTS)

    def error(name: str, value: str, *trace: str) -> dict[str, Any]:
        return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(trace)}

    assert compare([error("E", "x", "a")], [error("E", "x", "b")], context).differences == []
    exact = replace(context, same_programs=True)
    assert compare([error("E", "x", "a")], [error("E", "x", "b")], exact).differences[0].what == "traceback"
    again = compare([error("E", "x", "a")], [error("E", "x", "b")], exact, again=[[error("E", "x", "c")]])
    assert (again.differences, again.excused) == ([], {"traceback"})
    assert compare([error("E", "y")], [error("E", "x", "b")], exact, again=[[error("E", "x", "c")]]).differences
    traces = [f"\x1b[31mCell \x1b[32mIn[{count}]\x1b[39m, line 2" for count in (3, 17)]
    assert compare([error("E", "x", traces[0])], [error("E", "x", traces[1])], exact).differences == []
    assert compare([error("E", "x")], [error("E", "y")], context).differences
    assert compare([error("E", "x")], [error("F", "x")], context).differences
    assert compare([result(text_plain="1")], [], context).differences[0].where == "missing"
    assert compare([], [result(text_plain="1")], context).differences[0].where == "new"
    two = [stream("a"), stream("w", "stderr"), stream("b")]
    assert compare(two, [stream("ab"), stream("w", "stderr")], context).differences == []
    (pair,) = compare([result(image_png="aa")], [result(image_png="bb")], context).pictures
    assert (pair.stored, pair.fresh, pair.again) == ("aa", "bb", ())


def test_digits_that_changed_places_are_no_other_order() -> None:
    """Where threads print in whatever order, lines and words may change places, not parts of a number."""
    code = "with ThreadPoolExecutor() as pool:\n    list(pool.map(show, names))"
    one, other = "a 1\nprofit 1009", "profit 1009\na 1"
    assert compared(one, other, other, code=code).differences == []
    assert compared("a 1\nprofit 9001", one, other, code=code).differences


def test_a_persons_masks_are_nbvals(tmp_path: Path) -> None:
    """Sections with `regex` and `replace`; a wrong one is told."""
    path = tmp_path / "masks.cfg"
    path.write_text("[runs]\nregex: run \\d+\nreplace: RUN\n")
    assert compared("run 7 of x", "run 12 of x", masks=read_masks(path)).differences == []
    for wrong in ("[a]\nregex: (\nreplace: x\n", "[a]\nregex: x\n", "no section"):
        path.write_text(wrong)
        with pytest.raises(UsageError):
            read_masks(path)


def test_long_texts_take_time_in_proportion() -> None:
    """Hostile or not: alignment, which takes the square, is bounded."""
    one, other = ("\n".join(f"{word} {number}" for number in range(20 * MOST)) for word in ("left", "right of"))
    assert len(machine.within(200, lambda: changes(tokens(one), tokens(other)))) == 1


@pytest.mark.parametrize("texts", [
    [f"b'{chr(92)}x80{''.join(random.Random(n).choices('abcdefg,;:.', k=700))}'" for n in range(3)],  # noqa: S311
    [f"Successfully installed{' a-1-1' * 30} {end}" for end in "xyz"],
    [f"{{{f'{chr(92)}{chr(39)}' * 9_900}{order}}}" for order in ("a, b", "b, a")],
])  # fmt: skip
def test_short_texts_take_no_time(texts: list[str]) -> None:
    """Bytes whose every letter differs, names of packages that can be read in two ways, texts in a set without end."""
    machine.within(20, lambda: compared(*texts, code="import os\nos.urandom(8)", masks=[INSTALLED]))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (masked, "%|BAR|" * 30_000),
        (masked, "<span a>━</span>" * 15_000),
        (Code().take, f"{'!df ' * 40}\nx"),
        (Code().take, f"!{'ls -x ' * 15_000}"),
        (Code().take, f"%%bash {'ls -x ' * 15_000}"),
    ],
)
def test_what_could_be_read_in_many_ways_is_read_in_one(read: Callable[[str], object], text: str) -> None:
    """Of bars, spans and programs: a cell of 160 characters took longer than anybody waits."""
    machine.within(20, lambda: read(text))


def test_what_was_installed_is_masked_by_whatever_name() -> None:
    """Names have hyphens, and versions have parts after them."""
    for name in ("scikit-learn-1.5", "a-1.0.post1", "b-1.0-2", "x-2.0rc1 ruamel.yaml-0.18-3"):
        assert INSTALLED.apply(f"Successfully installed {name}\nx") == "x"
    assert INSTALLED.apply("Successfully installed revenue") == "Successfully installed revenue"


HONEST = """
import datetime, time, uuid, os, random, tempfile, logging, sys, secrets
---
print('Report of', datetime.date.today(), 'at', datetime.datetime.now().strftime('%H:%M:%S'))
---
t = time.perf_counter()
x = sum(range(1000 * random.Random(time.time()).randint(1, 30)))
print(f'done in {time.perf_counter() - t:.3f} s')
---
print('run', uuid.uuid4(), uuid.uuid4().hex[:8], secrets.token_hex(4))
---
print(object(), tempfile.mkdtemp())
---
%timeit -n 2 -r 2 sum(range(100))
---
%%time
y = 1
---
datetime.datetime.now()
---
print(int(time.time()), time.ctime(), time.time())
---
logging.basicConfig(stream=sys.stdout, format='%(asctime)s %(process)d %(message)s', force=True)
logging.warning('hi')
---
def timed(f):
    t = time.time()
    f()
    return time.time() - t
---
took = timed(lambda: sum(range(5000)))
print('elapsed', round(took, 4), f'{took * 1e6:.1f} µs', f'{5000 / (took + 1e-9):,.0f} rows/s')
---
print(timed(lambda: None))
---
print(datetime.timedelta(seconds=time.perf_counter() - t))
---
print(id(x) % 10**9, hash('a') != 0, {'b', 'a'})
---
import warnings
warnings.warn(f'at {time.time()}')
""".split("---\n")


async def test_honest_cells_are_the_same_a_hundred_times() -> None:
    """With dates, ids, timings and addresses in their outputs: not one false alarm."""
    reads: list[Reads] = []
    code = Code()
    for each in HONEST:
        reads.append(code.take(each))
    runs: list[list[tuple[list[Any], float]]] = []
    async with Kernel(machine.works("bubblewrap")) as kernel:
        started = time.time()
        for _ in range(102):
            runs.append([])
            for each in HONEST:
                at = time.time()
                runs[-1].append(((await kernel.run(each)).outputs, at))
    alarms = []
    for stored, fresh, again in zip(runs, runs[1:], runs[2:], strict=False):
        for number, (one, two, three) in enumerate(zip(stored, fresh, again, strict=True)):
            moments = Moments(stored=one[1], fresh=two[1], elapsed=two[1] - started)
            found = compare(one[0], two[0], Context(moments=moments, reads=reads[number]), again=[three[0]])
            alarms += [f"{HONEST[number]!r}: {each} ({each.cause})" for each in found.differences]
    assert alarms == []


def test_the_number_of_a_process_may_be_the_same_in_all_fresh_runs() -> None:
    """It is one of few in a sandbox. A number that is not that of the fresh run's process is a result."""
    context = Context(moments=MOMENTS, reads=Code().take("print(os.getpid(), total)"), processes=Processes(7))
    same = [stream("7 42")]
    assert compare([stream("6 42")], same, context, again=[same]).excused == {"id"}
    assert compare([stream("6 41")], same, context, again=[same]).differences
    nothing = Context(moments=MOMENTS, reads=Code().take("print(total)"), processes=Processes(7))
    assert compare([stream("6")], [stream("7")], nothing, again=[[stream("7")]]).differences


def test_what_nbagent_says_of_outputs_is_no_output() -> None:
    """A re-run has other cells beside a late output; what stands beside such a sentence is compared in its place."""
    told = "[The widget that follows was changed while cell 3 ran, after this cell had ended.]"
    mark = {"output_type": "display_data", "data": {"text/plain": told}, "metadata": {}}
    more = {**mark, "data": {"text/plain": f"{told} 5"}}
    context = Context(moments=MOMENTS, reads=Code().take(""), strictness=Strictness())
    assert compare([mark, result(text_plain="5")], [result(text_plain="5")], context).differences == []
    assert [
        each.what for each in compare([mark, result(text_plain="5")], [result(text_plain="6")], context).differences
    ]
    assert compare([more], [], context).differences


def test_widgets_that_show_one_another_without_end_are_followed_once() -> None:
    """A widget that shows itself twice, fifty times over, would otherwise be more than there are atoms."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    state = {"w": {"state": {"children": ["IPY_MODEL_w", "IPY_MODEL_v"], "value": 1, "layout": "IPY_MODEL_w"}}}
    state["v"] = {"state": {"children": ["IPY_MODEL_w"] * 50, "value": 2}}
    other = {name: {"state": {**model["state"], "value": 3}} for name, model in state.items()}
    one, two = with_state(view, view, (state, other))
    assert one[0]["data"][WIDGET] != two[0]["data"][WIDGET]
    assert len(one[0]["data"][WIDGET]) < 2_000


def test_a_widget_that_no_run_leaves_there_is_told() -> None:
    """Code that closes its widget leaves the view alone, for which a notebook may have any state; or one more view."""
    context = Context(moments=MOMENTS)
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    forged = {"w": {"model_name": "HTMLModel", "state": {"value": "Revenue: 5,000,000"}}}
    assert WIDGET in compare(*with_state(view, view, (forged, {})), context).differences[0].what
    assert compare(*with_state(view, view, ({}, {})), context).differences == []
    assert compare(*with_state(view * 2, view, (forged, forged)), context).differences


def test_widgets_are_compared_by_their_state_and_not_by_their_names() -> None:
    """With the widgets in them; attributes that only one side saved don't count."""

    def shown(name: str) -> list[dict[str, Any]]:
        return [result() | {"data": {VIEW_MIME: {"model_id": name}}}]

    def state(name: str, value: int, **more: Any) -> dict[str, Any]:
        return {
            f"box{name}": {"state": {"children": [f"IPY_MODEL_{name}"], "_view_module_version": name}},
            name: {"state": {"value": value, **more}},
        }

    def apart(value: int) -> list[str]:
        both = with_state(shown("boxa1"), shown("boxb2"), (state("a1", 3), state("b2", value, max=10)))
        return [each.what for each in compare(*both, Context(moments=MOMENTS)).differences]

    assert (apart(3), apart(4)) == ([], ["output 1, widget"])
