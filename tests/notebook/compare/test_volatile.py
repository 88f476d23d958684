"""What is no difference though it changed: durations, ids, numbers of processes, and what a run measures."""

from __future__ import annotations

from typing import Any

import pytest
from notebook.compare.shared import MOMENTS, NOW, THEN, TIMED, compared, stream

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.neighbours import is_id
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import Context
from nbagent.notebook.compare.tokens import tokens
from nbagent.notebook.compare.volatile import Processes


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


def test_a_duration_is_one_only_where_the_code_reads_a_clock() -> None:
    """And only if it is no longer than the run."""
    assert compared("done in 0.12 s", "done in 0.31 s", code=TIMED).differences == []
    assert compared("took 850 ms", "took 1.1 s", code=TIMED).differences == []
    assert compared("10ms/step, 2 s/it", "19ms/step, 1.1 s/it", code=TIMED).differences == []
    assert compared("10ms/step", "19ms/step").differences
    assert compared("10 s/m", "19 s/m", code=TIMED).differences
    assert compared("elapsed: 0.1", "elapsed: 0.2", code=TIMED).differences == []
    assert compared("0:00:00.123", "0:00:01.503", code=TIMED).differences == []
    assert compared("81,283,640 rows/s", "78,543,785 rows/s", "78,543,785 rows/s", code=TIMED).differences == []
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
        ("timeout 45.5 s", "timeout 12.5 s"),
        ("window 5 min 30 s", "window 5 min"),
        ("price 125,304 rows/s", "price 225,304 rows/s"),
    ],
)
def test_a_cell_that_reads_a_clock_shows_results_too(stored: str, fresh: str) -> None:
    """What runs agree on and the notebook doesn't is none of a clock's, unless it is what the clock said of each."""
    for after in (1.0, 120.0, 86_400.0 * 10):
        moments = Moments(stored=NOW - after, fresh=NOW, elapsed=20.0)
        assert compared(stored, fresh, fresh, code=TIMED, moments=moments).differences


def test_numbers_of_processes_are_ids_where_code_asks_for_them() -> None:
    """In a sandbox they are small, and each fresh run has others."""
    code = "def work(x):\n    return x, os.getpid()\nwith Pool(2) as pool:\n    print(pool.map(work, [1, 2]))"
    told = "[(1, {}), (2, {})]"

    def found(stored: str, fresh: str, code: str = code) -> list[Any]:
        context = Context(moments=MOMENTS, reads=Code().take(code), processes=Processes(8))
        again = fresh.replace("19", "108").replace("20", "109")
        return compare([stream(stored)], [stream(fresh)], context, again=[[stream(again)]]).differences

    assert found(told.format(20, 21), told.format(19, 20)) == []
    assert found("[(1, 20), (3, 21)]", told.format(19, 20))
    assert found("20 rows", "21 rows", "print(len(rows), 'rows')")
    assert found("[(9, 20)]", "[(10, 20)]")
    assert found(told.format(48_123, 48_124), told.format(19, 20)) == []


@pytest.mark.parametrize(
    ("cells", "stored", "fresh", "same"),
    [
        (["print('pid', os.getpid(), rows)"], "pid 6 3", "pid 7 3", True),
        (["pid = os.getpid()", "pid"], "6", "7", True),
        (
            ["print(f'process={os.getpid()}; parent={os.getppid()}')"],
            "process=6; parent=4",
            "process=7; parent=5",
            True,
        ),
        (["log.basicConfig(format='%(process)d %(message)s')", "log.info(rows)"], "6 3", "7 3", True),
        (["log.basicConfig(format='%(process)d %(message)s')", "print(rows)"], "6", "7", False),
        (["print('pid', os.getpid(), rows)"], "pid 7 6", "pid 7 7", False),
        (["print('pid', os.getpid(), rows)"], "pid 7 6", "pid 7 5", False),
        (["print('pid', os.getpid())"], "pid 6", "pid 8", False),
        (["print('pid', os.getpid())"], "pid 60", "pid 7", False),
        (["print('pid', rows)"], "pid 6", "pid 7", False),
    ],
)
def test_the_number_of_the_kernels_own_process_is_none_of_a_result(
    cells: list[str], stored: str, fresh: str, *, same: bool
) -> None:
    """A sandbox numbers it from 1, so that runs may agree on it by chance: what asks for it names it, or logs it."""
    code = Code()
    reads = [code.take(each) for each in cells][-1]
    context = Context(moments=MOMENTS, reads=reads, processes=Processes(0, 7))
    found = compare([stream(stored)], [stream(fresh)], context, again=[[stream(fresh)]])
    assert (found.differences == [], found.excused) == (same, {"id"} if same else set())


def test_a_column_called_pid_is_no_process() -> None:
    """Patients have such numbers: what differs with every run beside them is no id."""
    assert not Code().take("print(visits.merge(doses, on='pid').dose.sum())").ident
    assert Code().take("print(subprocess.Popen(['true']).pid)").ident
    code = Code()
    code.take("one = subprocess.Popen(['true'])\npid = one.pid")
    assert code.take("print(pid)").ident


def test_small_numbers_beside_threads_are_no_processes() -> None:
    """Only where the code asks for the numbers of processes or threads."""
    reads = Code().take("with ThreadPoolExecutor(4) as ex:\n    print(*ex.map(cube, range(6)))")
    context = Context(moments=MOMENTS, reads=reads, processes=Processes(7))
    assert compare([stream("64 126")], [stream("64 125")], context, again=[[stream("64 125")]]).differences


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


@pytest.mark.parametrize(
    ("code", "stored", "fresh", "again"),
    [
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


def test_the_number_of_a_process_may_be_the_same_in_all_fresh_runs() -> None:
    """It is one of few in a sandbox. A number that is not that of the fresh run's process is a result."""
    context = Context(moments=MOMENTS, reads=Code().take("print(os.getpid(), total)"), processes=Processes(7))
    same = [stream("7 42")]
    assert compare([stream("6 42")], same, context, again=[same]).excused == {"id"}
    assert compare([stream("6 41")], same, context, again=[same]).differences
    nothing = Context(moments=MOMENTS, reads=Code().take("print(total)"), processes=Processes(7))
    assert compare([stream("6")], [stream("7")], nothing, again=[[stream("7")]]).differences


@pytest.mark.parametrize("text", ["4.1234e-06", "-1.66533454e-16", "3e-12", "7.9134E+09"])
def test_numbers_with_an_exponent_are_no_ids(text: str) -> None:
    """They have a letter and digits; as ids, random ones and changed results would be the same."""
    (token,) = tokens(text)
    assert not is_id(token)


@pytest.mark.parametrize("text", ["1234e5678", "3f2a9c", "a3f2e9", "12e34567"])
def test_letters_and_digits_in_one_are_ids(text: str) -> None:
    """A hash may look like a number with an exponent, but has neither a point nor a sign."""
    (token,) = tokens(text)
    assert is_id(token)


def test_the_days_of_a_span_are_as_many_more_as_between_the_runs() -> None:
    """Its time of the day differs with every run, and excuses no other number of days."""
    code = "opened = pd.Timestamp('2010-02-28')\nprint(pd.Timestamp.now() - opened, t - pd.Timestamp.now())"
    moments = Moments(stored=THEN, fresh=NOW, elapsed=3.0, early=5.0)
    span = "{} days {}"
    fresh, again = span.format(6114, "23:28:41.612345"), span.format(6114, "23:28:49.012345")
    for days, differs in ((6074, False), (6154, False), (6144, True), (6044, True), (6113, True), (6114, True)):
        stored = span.format(days, "23:28:38.212345")
        assert bool(compared(stored, fresh, again, code=code, moments=moments).differences) is differs, days
    unknown = Moments(stored=None, fresh=NOW, elapsed=3.0)
    assert compared(span.format(6074, "23:28:38.2"), fresh, again, code=code, moments=unknown).differences == []
    assert compared(span.format(6074, "23:28:38.2"), fresh, fresh, code=code, moments=unknown).differences
    assert compared("0 days 00:00:01.21", "0 days 00:00:02.8", code=code, moments=moments).differences == []


def test_what_only_measures_shows_no_result() -> None:
    """Two runs may agree by chance; beside a result, or where a cell measures nothing, a number is one."""
    code = "print(resource.getrusage(0).ru_maxrss, 'KB', gc.collect())"
    assert compared("1054128 KB 139", "1054124 KB 98", "1054124 KB 98", code=code).excused == {"measure"}
    assert compared("3 rows 139", "9 rows 139", "9 rows 139", code="print(len(t), 'rows', gc.collect())").differences
    assert compared("3 rows 139", "9 rows 139", "9 rows 139", code="print(len(t), 'rows', f())").differences
    for code in ("print('9 rows', gc.collect())", "!echo 9 rows; free", "!echo 9 free"):
        assert compared("3 rows 139", "9 rows 139", "9 rows 139", code=code).differences


@pytest.mark.parametrize(
    "shows", ["model.fit(x, verbose=2)", "sys.stdout.write(f'{acc}')", "frame.info()", "report(acc)", "done = train(x)"]
)
def test_what_a_cell_shows_by_other_calls_is_a_result(shows: str) -> None:
    """Whatever it shows of the machine besides."""
    code = f"import gc, sys\n{shows}\nprint('left', gc.collect())"
    assert compared("acc 0.99\nleft 4", "acc 0.71\nleft 9", "acc 0.71\nleft 3", code=code).differences
