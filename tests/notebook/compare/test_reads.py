"""What a cell's code reads: clocks, ids, random numbers, unfilled memory, and what depends on them in later cells."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from notebook.compare.shared import MOMENTS, NOW, THEN, compared, stream

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import NO_SEED, UNSET, Context


def test_the_times_of_files_that_a_program_lists_are_clocks() -> None:
    """Whichever of its letters come with the one for the long form."""
    listed = "-rw-r--r-- 1 sandbox sandbox 8 {} out.csv"
    now, then = (listed.format(datetime.fromtimestamp(each, UTC).strftime("%b %d %H:%M")) for each in (NOW, THEN - 120))
    moments = Moments(stored=THEN - 120, fresh=NOW, elapsed=3.0)
    for code in ("!ls -la {d}", "!ls -tl", "!ls --color -l x | head", "!ls --full-time"):
        assert compared(then, now, now, code=code, moments=moments).differences == [], code
    assert not Code().take("!ls --color=always out-l").clock


def test_what_programs_say_of_the_machine_may_be_the_same_in_all_fresh_runs() -> None:
    """Of its disk or its memory, in a cell that shows nothing else."""
    told = "overlay  252G   {}G  163G  {}% /"
    now, then = told.format(61, 41), told.format(62, 40)
    assert compared(then, now, now, code="!df -h / | tail -1\n").excused == {"measure"}
    assert compared(then, now, now, code="!df -h / | tail -1\nprint(len(rows))").differences
    assert compared(then.replace("overlay", "tmpfs"), now, now, code="!df -h / | tail -1").differences


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


def test_what_a_clock_is_written_into_depends_on_it() -> None:
    """A figure whose axes show the time is shown again by another name."""
    code = Code()
    first = code.take("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.text(0, 0, time.ctime())")
    assert [first.clock, code.take("fig").clock, code.take("plt.plot([1])").clock] == [True, True, False]
    code.take("df['age'] = pd.Timestamp.now() - df.day")
    assert [code.take("df.head()").clock, code.take("other.head()").clock] == [True, False]


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\nprint(subprocess.run(['date', '+%s %N'], capture_output=True, text=True).stdout)",
        "out = subprocess.check_output('date +%N', shell=True)\nout",
        "from subprocess import run\nrun(['/bin/ls', '-la', d])",
        "subprocess.run(['bash', '-c', 'cd x && date'])",
        "import os\nos.system('echo; uptime')",
        "os.popen('date').read()",
        "p = subprocess.Popen(['date'], stdout=-1)\np.communicate()",
        "await asyncio.create_subprocess_exec('date', stdout=-1)",
        "import subprocess as sp\nsp.call('date')",
        "from subprocess import check_output as out, run as go\ngo('date'); out(['date'])",
        "from os import *\nsystem('date')",
        "get_ipython().system('date')",
        "print(get_ipython().getoutput('date'))",
        "await asyncio.subprocess.create_subprocess_exec('date', stdout=-1)",
    ],
)
def test_programs_that_code_starts_tell_the_time_too(code: str) -> None:
    """As those of a line of a shell."""
    assert compared("205598031", "641226774", "120331895", code=code).differences == []
    assert compared("205598031", "641226774", "120331895", code="run(['mydate', '--date'])").differences
    for other in (
        "from subprocess import run\nrun(['cal', 'date']); open('date')",
        "model.run('date')",
        "run('date')",
        "import subprocess as sp\nmodel.call('date')",
        "from subprocess import run as go\ndef go(x):\n    return 5\nrun('date')",
    ):
        assert compared("205598031", "641226774", "120331895", code=other).differences, other


def test_a_list_of_all_names_shows_what_they_hold() -> None:
    """Also what came of a clock."""
    code = Code()
    assert not code.take("x = 1\n%whos").clock
    code.take("t = time.time()")
    assert [code.take(each).clock for each in ("%whos", "%who", "print('%whos')")] == [True, False, False]
