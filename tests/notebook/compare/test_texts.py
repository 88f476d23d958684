"""Two texts of a cell: what differs in them, how it is shown, and what causes it."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import machine
import pytest
from notebook.compare.shared import NOW, THEN, compared

from nbagent.notebook.compare.masks import INSTALLED
from nbagent.notebook.compare.texts import EVERY_RUN, NO_SEED, ORDER, REORDERED

GATHERED = "print([each.result() for each in as_completed(futures)])"


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
    ("stored", "fresh", "again"),
    [
        ("run FAILED", "run 7f3a9c21", "run 8e4b0d32"), ("n 5", "n 7f3a9c21", "n 8e4b0d32"),
        ("run f00dfeed;score=99", "run 7f3a9c21", "run 8e4b0d32"), ("status excellent", "status 12345", "status 54321"),
        ("a 7f3a9c21\nb 8e4b0d32\nbest 8e4b0d32", "a 1f3a9c21\nb 2e4b0d32\nbest 1f3a9c21",
         "a 3f3a9c21\nb 4e4b0d32\nbest 3f3a9c21"),
        ("took nothing", "took 1.25 s", "took 1.31 s"), ("took 1.5 s 99 %", "took 1.25 s", "took 1.31 s"),
        ("took:", "took: 1.25 s", "took: 1.31 s"),
        ("a 1\nb 2", "a 1\n1.25 s\nb 2", "a 1\n1.31 s\nb 2"),
    ],
)  # fmt: skip
def test_what_changes_is_another_of_its_kind(stored: str, fresh: str, again: str) -> None:
    """No word for an id or a time, no other id than stood there before, and no time that is gone."""
    code = "import time, uuid\nprint(uuid.uuid4(), time.time() - t)"
    assert compared(stored, fresh, again, code=code).differences
    assert compared(again, fresh, again, code=code).differences == []


@pytest.mark.parametrize(
    ("stored", "fresh", "code"),
    [
        ("A: 0.8 B: 0.9", "A: 0.9 B: 0.8", GATHERED), ("{'a': 0.8, 'b': 0.9}", "{'a': 0.9, 'b': 0.8}", GATHERED),
        ("[{'m': 'a', 's': 2}, {'m': 'b', 's': 1}]", "[{'m': 'a', 's': 1}, {'m': 'b', 's': 2}]", GATHERED),
        ("a    2\nb    1\ndtype: int64", "a    1\nb    2\ndtype: int64", GATHERED),
        ("{(1, 'b'), (2, 'a')}", "{(1, 'a'), (2, 'b')}", ""),
        ("2019    66\n2020    55", "2019    55\n2020    66", GATHERED),
    ],
)  # fmt: skip
def test_another_order_gives_nothing_to_another(stored: str, fresh: str, code: str) -> None:
    """What stands beside a name stays there, however elements, lines and rows come."""
    assert compared(stored, fresh, fresh, code=code).differences
    for one, other in (
        ("   m  s\n0  b  2\n1  a  1", "   m  s\n0  a  1\n1  b  2"),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    ):
        assert compared(one, other, other, code=GATHERED).differences == []


def test_a_long_value_is_shown_where_it_differs() -> None:
    (found,) = compared(f"{'1' * 500}2{'3' * 500}", f"{'1' * 500}4{'3' * 500}").differences
    assert "12333" in found.stored
    assert "14333" in found.fresh
    assert len(found.stored) < 90


def test_no_id_has_a_point() -> None:
    """What a notebook writes to a temporary folder is none of it, and what it reads from there has results."""
    for code in ("d = tempfile.mkdtemp()\nt = pd.read_csv(d + '/a')\nt", "d = tempfile.mkdtemp()\nt.to_csv(d)\nt"):
        assert compared("Dinner 260.7", "Lunch 260.4", "Dinner 11.5", code=code).differences


def test_digits_that_changed_places_are_no_other_order() -> None:
    """Where threads print in whatever order, lines and words may change places, not parts of a number."""
    code = "with ThreadPoolExecutor() as pool:\n    list(pool.map(show, names))"
    one, other = "a 1\nprofit 1009", "profit 1009\na 1"
    assert compared(one, other, other, code=code).differences == []
    assert compared("a 1\nprofit 9001", one, other, code=code).differences


@pytest.mark.parametrize("texts", [
    [f"b'{chr(92)}x80{''.join(random.Random(n).choices('abcdefg,;:.', k=700))}'" for n in range(3)],  # noqa: S311
    [f"Successfully installed{' a-1-1' * 30} {end}" for end in "xyz"],
    [f"{{{f'{chr(92)}{chr(39)}' * 9_900}{order}}}" for order in ("a, b", "b, a")],
])  # fmt: skip
def test_short_texts_take_no_time(texts: list[str]) -> None:
    """Bytes whose every letter differs, names of packages that can be read in two ways, texts in a set without end."""
    machine.within(20, lambda: compared(*texts, code="import os\nos.urandom(8)", masks=[INSTALLED]))


def test_programs_of_a_pipe_print_in_any_order_that_differs_with_every_run() -> None:
    """Also in a cell of a shell; where runs agree on an order, it is the result."""
    early, late = "0.01user\nsh: no tqdm\n0\n", "sh: no tqdm\n0\n0.01user\n"
    for code in ("!time find . | tqdm | wc -l", "%%bash\ntime find . | tqdm | wc -l"):
        assert compared(late, early, late, code=code).differences == []
        assert compared(late, early, early, code=code).differences
        assert compared(late.replace("0\n", "1\n"), early, late, code=code).differences
    for code in ("!time find . || wc -l", "print(names)"):
        assert compared(late, early, late, code=code).differences
