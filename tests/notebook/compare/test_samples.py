"""Random numbers that surely have no seed: they are named, also beside times and ids."""

from __future__ import annotations

import pytest
from notebook.compare.shared import MOMENTS, compared, result

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import BY_CHANCE, EVERY_RUN, NO_SEED, Context


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
        "g = np.random.default_rng()\nt = time.time()\nForest(random_state=int(g.integers(9))).fit(X).score(X)",
        "n = random.randrange(9)\nt = time.time()\nprint(np.random.default_rng(n).normal(), time.time() - t)",
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
        "x = df.select(pl.all().shuffle())\nt = time.time()\nprint('sorted', df.height, time.time() - t)",
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


def test_many_branches_are_no_deep_ones() -> None:
    """Each `elif` is a branch of the one before."""
    code = (
        "if x == 0:\n    y = 0\n" + "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(1100)) + "random.random()"
    )
    assert compared("0.123", "0.541", "0.777", code=code).differences[0].cause == NO_SEED


@pytest.mark.parametrize(
    "code",
    [
        "import random\nrandom.seed(4)\nr = random.SystemRandom()\nr.randint(1, 10**9)",
        "from random import SystemRandom as R, seed\nseed(4)\nr = R()\nprint(r.randrange(9))",
        "import secrets, random\nrandom.seed(4)\nsecrets.choice(range(10**9))",
        "import secrets as s\nprint(s.randbelow(10**9), s.token_hex(4))",
        "from secrets import choice, token_hex\nnp.random.seed(4)\nprint(choice(range(9)), token_hex(2))",
        "import os\nint.from_bytes(os.urandom(4), 'big')",
        "import uuid\nuuid.uuid4().int % 10**9",
        "import uuid\nu = uuid.uuid4()\nprint(u, u.int % 10**9)",
        "raw = os.urandom(8)\nx = np.frombuffer(raw, dtype='u4')\nx",
    ],
)
def test_numbers_that_the_machine_draws_are_no_ids(code: str) -> None:
    """Whatever generator has a seed; what is an id by its form is none of them."""
    found = compared("205598031", "641226774", "120331895", code=code).differences
    assert [each.cause for each in found] == [NO_SEED]
    for honest in ("print(secrets.token_hex(4))", "print(uuid.uuid4())", "from secrets import token_hex\ntoken_hex(4)"):
        assert compared("id 9f8e7d0a", "id 0a1b2c4e", "id d4c3a210", code=f"{code}\n{honest}").differences == []
        assert not Code().take(honest).shows_samples


def test_values_of_random_rows_on_which_two_runs_agree_have_a_cause_too() -> None:
    """A column with few values; in a cell that shows no random numbers the same is a change without one."""
    shown = ("268 woman", "100 man", "1271 man")
    found = compared(*shown, code="rows = np.random.permutation(len(df))[:1]\ndf.iloc[rows]").differences
    assert [each.cause for each in found] == [NO_SEED, BY_CHANCE]
    assert not found[1].is_unstable
    assert [each.cause for each in compared(*shown, code="df.head()").differences] == [EVERY_RUN, ""]


def test_a_question_in_sql_makes_no_numbers_of_its_connection_random() -> None:
    """What another sentence tells it is another matter."""
    code = Code()
    assert code.take("con.sql('select random(), now()').fetchall()").shows_samples
    assert not code.take("con.sql('select sum(tip) from tips')").shows_samples
    for told in (
        "con.execute('create table t as select random() as x').fetchall()",
        "con.execute('with a as (select random() as x) insert into t select * from a')",
        "con.execute('select 1; update t set x = random()')",
    ):
        code = Code()
        code.take(told)
        assert code.take("con.sql('select x from t')").shows_samples


def test_a_key_that_is_a_word_of_sql_is_no_question() -> None:
    """What is put under it may come of a clock."""
    code = Code()
    code.take("times.setdefault('select', time.perf_counter() - begun)")
    assert code.take("print(times)").clock
