"""Which numbers of a cell its code has made up, and which of them are evidence all the same."""

from __future__ import annotations

import pytest
from agent.stub import printed

from nbagent.agent.claims import claims
from nbagent.core.events import doubts


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("In 2020 there were 41.57.", "print((df['day'].dt.year == 2020).mean())"),
        ("41.57 % are above 1500, others not.", "print((df['x'] > 1500).mean() * 100)"),
        ("Between 100 and 800 it is 41.57.", "print(df[df['x'].between(100, 800)]['x'].mean())"),
        ("The 0.9 quantile is 41.57; 10 % lie above.", "print(df['x'].quantile(0.9))"),
        ("In an 80/20 split 41.57", "a, b = train_test_split(df, test_size=0.2)\nprint(a['x'].mean())"),
    ],
)
def test_what_code_looks_at_is_a_parameter(answer: str, code: str) -> None:
    """A year that rows are chosen by, and what a share leaves of the whole."""
    assert [each for each in claims(answer, printed("41.5741"), code={1: code}) if not each.supported] == []


def test_what_is_added_to_data_is_shown_by_data() -> None:
    """A week 13 that a column has is none of the code that numbers weeks by `kw + 13`; `data * 0 + 13` is."""
    read = "d = pl.read_csv('/tmp/data/a.csv')\n"
    honest = f"{read}d = d.with_columns(at=pl.col('kw') + 13)\nprint(d.filter(pl.col('at') > 20))"
    assert [each.cell for each in claims("It is 13.", printed("13 26"), code={1: honest}, data=True)] == [1]
    for made in (f"{read}print(d['kw'].sum() * 0 + 13)", f"{read}print(d['kw'].sum() * 0 + 417)"):
        text = made[-4:-1].strip()
        found = claims(f"It is {text}.", printed(text), code={1: made}, data=True)
        assert [each.supported for each in found] == [False]


def test_a_cell_that_failed_has_no_parameters() -> None:
    """It has shown nothing that comes of them; of one that showed something before it failed they are."""
    code = {1: "total = 2146.86\nprint(df['x'].sum() / total)\nprint(df['missing'])"}
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'missing'", "traceback": []}
    assert [each.text for each in claims("The total is 2146.86.", {1: [error]}, code=code)] == ["2146.86"]
    assert claims("With a total of 2146.86", {1: [*printed("0.31")[1], error]}, code=code) == []
    code = {1: "T = 0.73\nhits = (df['x'] > T).sum()\nprint(hitz)", 2: "print(hits)"}
    found = claims("45 rows are above 0.73.", {1: [error], 2: printed("45")[1]}, code=code)
    assert [each.text for each in found if not each.supported] == []
    code[2] = "T = 0.5\nhits = (df['x'] > T).sum()\nprint(hits)"
    found = claims("45 rows are above 0.73.", {1: [error], 2: printed("45")[1]}, code=code)
    assert [each.text for each in found if not each.supported] == ["0.73"]


def test_what_is_computed_of_one_constant_may_be_off_by_a_float() -> None:
    """The mean of a column that is the same constant in each row is as made up as the constant."""
    code = {1: "print(df.assign(total=5264.38)['total'].mean())"}
    assert not claims("The total is 5264.38.", printed("5264.379999999999"), code=code)[0].supported


@pytest.mark.parametrize(
    ("answer", "question", "code", "shown", "data"),
    [
        ("94,608,000 seconds", "How many seconds have 3 years?", "print(3*365*24*3600)", "94608000", True),
        ("It is 160.9344 km.", "How far are 100 miles?", "print(100 * 1.609344)", "160.9344", False),
    ],
)
def test_what_is_reckoned_is_found_out(answer: str, question: str, code: str, shown: str, data: bool) -> None:
    """Without data all of it, with data what is reckoned with numbers of the question and those that anybody knows."""
    assert [each.cell for each in claims(answer, printed(shown), given=[question], code={1: code}, data=data)] == [1]


NAMES = "names = {'5411': 'Grocery', 5812: 'Eating'}\n"


@pytest.mark.parametrize(
    "code",
    [
        "print(df.filter(pl.col('mcc').is_in([5411, 5812])).group_by('mcc').len())",
        f"{NAMES}print(df.with_columns(name=pl.col('mcc').replace_strict(names)).group_by('mcc', 'name').len())",
        "print(con.execute('select mcc, count(*) from t where mcc in (5411, 5812) or id = 5411').fetchall())",
        "q = 'select mcc, name, n from t where mcc >= 5411'\nprint(con.execute(q).fetchall())",
        "print(df.query('mcc == 5411 or mcc == 5812').groupby('mcc').size())",
    ],
)
def test_what_data_is_only_compared_with_is_evidence_where_data_shows_it(code: str) -> None:
    """No code by which rows are chosen or named makes a number be shown that the data doesn't have."""
    assert [each.cell for each in claims("MCC 5411: 231", printed("5411 231"), code={1: code})] == [1, 1]


@pytest.mark.parametrize(
    "code",
    [
        f"{NAMES}print(list(names)[0], df.height)",
        f"{NAMES}for key in names: print(key, df.height)",
        f"{NAMES}print(dict(zip(names, df['x'])))",
        f"{NAMES}print(df.join(pl.DataFrame({{'k': list(names.keys())}}), how='cross'))",
        "print(df['x'].replace({1: 5411}))",
        "print(con.execute(\"select 'mcc = 5411' from t where x > 3\").fetchall())",
        "print(con.execute('select count(*) * 0 + 5411 from t where x = 1').fetchall())",
        "print('select where mcc = 5411', df.height)",
    ],
)
def test_what_looks_like_a_comparison_is_made_up_all_the_same(code: str) -> None:
    assert [each.cell for each in claims("MCC 5411", printed("5411 231"), code={1: code})] == [0]


@pytest.mark.parametrize(
    "code",
    [
        "print(142)",
        "142",
        "print('There are 142 rows')",
        "n = 142\nprint(f'{n} rows')",
        "n = 142\nn",
        "rows = [142, 3]\nprint(rows)",
        "print(str(142), 'rows')",
        "print('{} rows'.format(142))",
        "print({'rows': 142})",
        "print('rows: ' + str(142))",
        "pl.DataFrame({'rows': [142]})",
        "print(max(142, 0), f'{142.0:.0f}')",
        "ROWS = 142\nprint(ROWS)",
        "def rows():\n    return 142\nprint(rows())",
        "for each in [142]:\n    print(each)",
        "found = {}\nfound['rows'] = 142\nprint(found)",
        "found = []\nfound.append(142)\nprint(found, len(frame))",
        "frame.with_columns(rows=142)",
        "frame.select(pl.lit(142))",
        "print(141.8, round(141.8))",
        "print(abs(-142))",
        "print(len('x' * 142), len(frame))",
        "print(int('142'), len(frame))",
        "print(1 * 100 + 42, len(frame))",
        "print(sum([100, 42]), len(frame))",
        "import polars as pl\nprint(pl.Series([142]).max(), len(frame))",
        "parts = [100]\nparts.append(42)\nprint(sum(parts), len(frame))",
        "import numpy as np\nprint(int(np.sqrt(142**2)))",
        "from datetime import timedelta\nprint(timedelta(days=142).days, len(frame))",
        "print(ord('\x8e'), len(frame))",
        "import json\nprint(json.loads('{\"rows\": 142}')['rows'], len(frame))",
        "with open('x', 'w') as file:\n    file.write('142')\nprint(open('x').read(), len(frame))",
        "n = 0\nfor _ in range(142):\n    n += 1\nprint(n)",
        "def show(rows):\n    print(rows)\nshow(142)",
        "exec('print(142)')",
        "import base64\nprint(base64.b64decode('MTQy').decode())",
        "!echo 142",
    ],
)
def test_what_a_cell_merely_prints_is_no_evidence(code: str) -> None:
    """A number that stands in the code as it is shown was made up, however it is printed."""
    found = claims("There are 142 rows.", printed("There are 142 rows, 3"), code={1: code})
    assert [(each.text, each.supported, each.written) for each in found] == [("142", False, True)]


def test_what_only_the_code_says_is_told_from_what_no_output_shows() -> None:
    """A person who sees 5 below a cell is not told that no cell shows it; another number, nothing has."""
    found = claims(
        "It is 5.0 kg, -12 or 77, says a note: 63.", printed("5.0 -12"), code={1: "print(5.0, -12)"}, notes=["63"]
    )
    assert doubts(found) == [
        "Shown by no cell: 77.", "Only the code says: 5.0, -12.", "Only notes beside the data say: 63."
    ]  # fmt: skip


MADE_UP = [
    "print(frame.height * 0 + 1427)",
    "print(frame.height - frame.height + 1400 + 27)",
    "print(frame.height // frame.height * 1427)",
    "n = frame.height % 1\nn += 1400\nn += 27\nprint(n)",
    "print(str(frame.height)[:0] + '1427')",
    "print((frame.height > 0) * 1427)",
    "print(frame.height and 1427)",
    "print(frame.filter(pl.col('x') < 0).height + 1427)",
    "import base64\nprint(base64.b64decode('MTQyNw==').decode(), frame.height)",
    "print(bytes.fromhex('31343237').decode(), frame.height)",
    "print(''.join(chr(n) for n in [49, 52, 50, 55]), frame.height)",
    "print('7241'[::-1], frame.height)",
    "print('14x27'.replace('x', ''), frame.height)",
    "a = '14'\nprint(f'{a}27', frame.height)",
    "print((lambda data: 1427)(frame))",
    "print(frame['x'].map_elements(lambda each: 1427)[0])",
    "price, count = 203, 7\nprint(price * count + 6, frame.height)",
    "def cost(price, count):\n    return price * count\nprint(cost(203, 7) + 6, frame.height)",
    "class Found:\n    def __init__(self):\n        self.rows = 1427\nprint(Found().rows, frame.height)",
    "print(frame.select(pl.when(pl.col('x') > 0).then(1427).otherwise(0)))",
    "print(frame.select(pl.lit(None).fill_null(1427)))",
    "print(frame['x'].clip(1427, 1427).max())",
    "print(frame.join(pl.DataFrame({'rows': [1427]}), how='cross'))",
    "open('x', 'w').write('1400 27')\nprint(sum(map(int, open('x').read().split())), frame.height)",
    "def rows():\n    '1427 of them'\nprint(rows.__doc__, frame.height)",
]


@pytest.mark.parametrize("code", MADE_UP)
@pytest.mark.parametrize("short", [False, True])
def test_what_data_has_no_part_in_is_no_evidence(code: str, short: bool) -> None:
    """Whatever the code does with the number before it shows it, and however the data stands beside it."""
    number = "142" if short and "1427" in code else "1427"
    code = code.replace("1427", number)
    found = claims(f"There are {number} rows.", printed(f"{number} 3"), code={1: code})
    assert [(each.text, each.supported) for each in found] == [(number, False)]


READ_ALONG = [
    "s = ''\nfor c in [49, 52, 50, 55]:\n    s += chr(c)\nprint(s, frame.height)",
    "n = 0\nfor digit in [1, 4, 2, 7]:\n    n = n * 10 + digit\nprint(n, frame.height)",
    "print(''.join(str('abcdefgh'.index(c)) for c in 'bech'), frame.height)",
    "print('bech'.translate(str.maketrans('abcdefgh', '01234567')), frame.height)",
    "from functools import reduce\nprint(reduce(lambda a, b: a * 10 + b, [1, 4, 2, 7]), frame.height)",
    "import numpy as np\nprint(np.dot([1, 4, 2, 7], [1000, 100, 10, 1]), frame.height)",
    "text = 'north,1400;south,27'\nprint(sum(int(each.split(',')[1]) for each in text.split(';')), frame.height)",
    "print(int.from_bytes([5, 147], 'big'), frame.height)",
    "def pick(*given):\n    return given[0]\nprint(pick(1427), frame.height)",
    "def total(a, b=27):\n    return a + b\nprint(total(1400), frame.height)",
    "try:\n    raise ValueError(1400 + 27)\nexcept ValueError as e:\n    print(e.args[0], frame.height)",
    "import os\nos.environ['A'], os.environ['B'] = '1400', '27'\n"
    "print(int(os.environ['A']) + int(os.environ['B']), frame.height)",
    "open('x', 'w').write('14')\nopen('x', 'a').write('27')\nprint(open('x').read(), frame.height)",
    "print(con.execute('select 1400 + 27').fetchall(), frame.height)",
    "scope = {}\nexec('n = 1400 + 27', scope)\nprint(scope['n'], frame.height)",
    "F = 1427\nprint(frame.filter(pl.col('x') < 0).height + F)",
    "K = {'a': 1427}\nprint(frame.with_columns(pl.col('g').replace_strict(K)).head(1))",
    "class R:\n    def __repr__(self):\n        return f'{1400 + 27} rows'\nprint(R(), frame.height)",
    "import random\nrandom.seed(7)\nprint(random.randint(1000, 9999))",
    "print(frame.with_row_index('n', offset=1427)['n'][0])",
    "print(next((each for each in frame['x'] if each < 0), 1427))",
    "print(dict(zip(frame['g'], frame['x'])).get('all', 1427))",
    "told = frame.describe().to_dict()\ntold.update(n=1427)\nprint(told['n'], frame.height)",
    "def f(x: '1427'): pass\nprint(f.__annotations__, frame.height)",
]


@pytest.mark.parametrize("code", READ_ALONG)
def test_what_code_comes_to_without_data_is_no_evidence(code: str) -> None:
    """It is read as Python would run it."""
    found = claims("There are 1427 rows.", printed("1427" if "random" in code else "1427 3"), code={1: code})
    assert [(each.text, each.supported) for each in found] == [("1427", False)]


@pytest.mark.parametrize(
    ("answer", "output", "code"),
    [
        (
            "From 1,500 to 3,000: 290",
            "1500-3000: 290",
            "import numpy as np\nbins = np.array([1500, 3000, 4500])\nc, _ = np.histogram(x, bins)\n"
            "for lo, hi, n in zip(bins, bins[1:], c):\n    print(f'{lo}-{hi}: {n}')",
        ),
        ("Week 37 has 55 of them.", "37 55", "for w in range(52):\n    print(w + 1, totals[w])"),
        ("It is 55.2 per 100,000.", "55.2", "print(frame.height / people * 100_000)"),
        ("Each of the 365 days: 55.2", "55.2", "days = 365\nprint(frame.height / days)"),
        ("The 30-row mean: 55.2", "55.2", "print(frame['v'].rolling_mean(30).max())"),
        ("Highest: B-02 118.06", "118.06", "print(frame.filter(pl.col('berth') == 'B-02')['x'].max())"),
        (
            "For ships up to 120 m: 55.2",
            "up to 120 m 55.2",
            "DUES = {'up to 120 m': 1240.75, 'above': 2000.5}\nkind = pl.when(pl.col('m') <= 120)\n"
            "kind = kind.then(pl.lit('up to 120 m'))\n"
            "print(frame.with_columns(kind=kind.otherwise(pl.lit('above'))).group_by('kind').sum())",
        ),
        (
            "At 0.3048 m per ft: 55.2",
            "55.2",
            "M_PER_FT = 0.3048\ndef m(x, unit):\n    return x * (M_PER_FT if unit == 'ft' else 1)\n"
            "print(sum(m(each['x'], each['unit']) for each in frame.to_dicts()))",
        ),
        ("The 95 % quantile is 55.2.", "55.2", "print(frame['v'].quantile(0.95))"),
        ("In total 8,417,071", "8 417 071", "print(f'{frame.sum():,}'.replace(',', ' '))"),
        ("It is 3,765.66 t.", "3765661.26", "print(frame['kg'].sum())"),
        ("At 37.5 km/h: 55.2", "55.2", "V = {'car': 37.5}\nprint((frame['km'] / frame['by'].replace_strict(V)).sum())"),
        ("1,871 made a loss: 18.72 %", "with a loss 1871 percent 18.72", "print('with a loss', n, 'percent', p)"),
        ("55 are 1-29", "1-29 55", "k = pl.when(pl.col('a') <= 29).then(pl.lit('1-29'))\nprint(df.with_columns(k=k))"),
        ("55 are over 75", "55 over 75", "print(df.filter(pl.col('a') > 75).height, 'over 75')"),
        ("55 are over 75", "over_75 55", "print(sql('select count(*) as over_75 from t where a > 75').collect())"),
        ("55.2 \u00b0C, as (F - 32) * 5/9", "55.2", "print((frame['f'].mean() - 32) * 5 / 9)"),
        ("55.2 (seed 42)", "55.2", "rng = np.random.default_rng(42)\nprint(rng.choice(df['a'], 99).mean())"),
        ("In 5 years: 55.2", "55.2", "def rate(a, b, n):\n    return (b / a) ** (1 / n)\nprint(rate(df.a, df.b, 5))"),
    ],
)
def test_what_honest_code_names_or_shows_beside_data_is_not_sent_back(answer: str, output: str, code: str) -> None:
    """Labels of rows, parameters, units and the bases of rates."""
    assert [each.text for each in claims(answer, printed(output), code={1: code}) if not each.supported] == []


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("48,217", "print(48, 217, sep=',')"),
        ("48 217", "print(48, 217)"),
        ("48217", "print(48, end='')\nprint(217)"),
        ("48217", "for each in '48217':\n    print(each, end='')"),
        ("a 1 b 48217", "import io\nprint(pd.read_csv(io.StringIO('a,b\\n1,48217')))"),
    ],
)
def test_what_is_put_together_when_it_is_shown_or_read_is_no_evidence(output: str, code: str) -> None:
    """Whether a comma or a space stands within a number or between two, and whatever is printed one by one."""
    found = claims("They are 48,217.", printed(output), code={1: code})
    assert [each.supported for each in found] == [False]


def test_digits_of_which_some_are_known_make_no_known_number() -> None:
    """A cell that has shown a shape (5, 3) has not shown what is put together of these and other digits."""
    outputs = {1: printed("(5, 3)")[1], 2: printed("58431")[1]}
    for made in ("int('5' + '8' + '4' + '3' + '1')", "sum(d * 10**i for i, d in enumerate([1, 3, 4, 8, 5]))"):
        code = {1: "print(frame.shape)", 2: f"print({made})"}
        assert [each.supported for each in claims("It is 58,431.", outputs, code=code)] == [False]


def test_what_was_made_up_in_a_cell_that_is_no_python_is_no_evidence() -> None:
    """A script that a cell writes shows its numbers when another one runs it."""
    code = {1: "%%writefile x.txt\nthere are 5521 of them", 2: "print(open('x.txt').read(), frame.height)"}
    assert not claims("It is 5521.", {2: printed("there are 5521 of them 3")[1]}, code=code)[0].supported


@pytest.mark.parametrize(
    ("answer", "output", "code"),
    [
        ("104 CFU/100 ml", "per 100 ml: 104", "print(frame.select(share=pl.col('x').mean() * 100))"),
        ("There are 0 of them.", "0", "n = 0\nfor row in frame.rows():\n    if row[0] > 3:\n        n += 1\nprint(n)"),
        ("It is 5,521.", "5521", "assert frame.height == 5521\nprint(frame.height)"),
        ("It is 5,521.", "of 5521: 5521", "print('of 5521:', frame.height)"),
        ("It is 5,521.", "5521", "def rows(data):\n    '5521 of them'\n    return len(data)\nprint(rows(frame))"),
    ],
)
def test_what_data_has_a_part_in_is_evidence(answer: str, output: str, code: str) -> None:
    """Also where the code has the number too: it reckons or compares with it, or tells of it."""
    assert all(each.supported for each in claims(answer, printed(output), code={1: code}))


def test_what_an_output_has_shown_may_be_written_out_later() -> None:
    """A number that is known is none that code has made up."""
    code = {1: "print(frame.x.sum())", 2: "n = 5521\nprint(n, frame.height)"}
    assert claims("It is 5521.", printed("5521", "5521 3"), code=code)[0].supported


@pytest.mark.parametrize(
    "code",
    [
        "print(len(frame))",
        "print(len(frame), 100 + 41)",
        "n = 0\nfor row in frame.rows():\n    if row[0] > 3:\n        n += 1\nprint(n)",
        "def count(x):\n    return len(x) + 1\nprint(count([1]), count(frame))",
        "import numpy as np\nprint((np.random.default_rng(7).random(300) < 0.5).sum())",
        "with open('x', 'w') as file:\n    file.write(frame.to_csv())\nprint(len(open('x').readlines()))",
        "from pathlib import Path\nprint(len((Path('/tmp/data') / 'x.csv').read_text()))",
        "print('-' * 142)\nprint(len(frame))",
        "print(frame['miles'].sum() * 1.609)",
        "print(1642 - 1500)",
        "print('of 142:', len(frame))",
        "n = 0\nn += len(frame)\nprint(n)",
        "bad (",
        "least = 142\nprint(frame.filter(pl.col('x') > least).height)",
        "found = []\nfound.append(len(frame))\nprint(found)",
        "print(pl.DataFrame({'rows': [len(frame)]}))",
    ],
)
def test_what_a_cell_computes_is_evidence(code: str) -> None:
    """Also if it comes to a number that is printed beside it."""
    text = "of 142: 142" if "of" in code else "142"
    found = claims("There are 142 rows.", printed(text), given=["Of 1642 rows, leave out 1500."], code={1: code})
    assert [each.supported for each in found] == [True]


def test_what_is_reckoned_without_data_is_found_out() -> None:
    """Pure mathematics has no data; with data, its numbers are to be known: from the question, or outputs before."""
    code = {1: "import math\nprint(math.factorial(17) // math.factorial(13))"}
    for given, data, supported in ((["17! / 13!"], True, True), ([], False, True), ([], True, False)):
        found = claims("It is 57,120.", printed("57120"), given=given, code=code, data=data)
        assert [each.supported for each in found] == [supported]
    small = {1: "a, b = 0, 1\nfor _ in range(10):\n    a, b = b, a + b\nprint(a)"}
    assert claims("It is 55.", printed("55"), given=["The 10th Fibonacci number?"], code=small)[0].supported
    found = claims("134 fewer.", printed("1234 1100", "134"), code={1: "print(frame.rows)", 2: "print(1234 - 1100)"})
    assert [each.cell for each in found] == [2]


def test_what_an_earlier_cell_has_written_out_is_no_evidence() -> None:
    """A number that one cell gives a name and another one shows was made up as well."""
    code = {1: "rows = 142", 2: "print(rows)"}
    assert [each.supported for each in claims("142 rows", printed("", "142"), code=code)] == [False]


def test_of_code_only_parameters_are_given() -> None:
    """A named number may be told; one in a comment or in an expression is a claim."""
    code = {1: "ALPHA = 0.07\np < ALPHA\nleast = 77\ncut(x[y > least], bins=37)\n# 142 rows\ny = x * 255"}
    assert claims("With alpha 0.07, above 77, and 37 bins", {}, code=code) == []
    assert [each.text for each in claims("142 rows, 255 times", {}, code=code)] == ["142", "255"]


PARTS = "df = df.with_columns(part=pl.when(pl.col('y') < 99).then(pl.lit('%s')).otherwise(pl.lit('other')))\n"


SHOWS = "print(df.group_by('part').len())\nprint(df.sort('usd').row(0))"


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (
            "(2008, 99.67)",
            "parts = [pl.read_excel('p.xlsx', sheet_name=s).with_columns(sheet=pl.lit(s)) for s in ('x', '1-2008')]\n"
            "print(pl.concat(parts).group_by('year').agg(pl.col('usd').mean()).row(0))",
        ),
        ("1999-2008 12\n(2008, 99.67)", PARTS % "1999-2008" + SHOWS),
        ("up to 2008 12\n(2008, 99.67)", PARTS % "up to 2008" + SHOWS),
        ("up to 2008 12\n(2008, 99.67)", "import polars as pl\n" + PARTS % "up to 2008" + SHOWS),
        ("2008 99.67", "print(df.group_by('year').agg(pl.col('2008').mean()).sort('2008').row(0))"),
        ("2008 99.67", "print(df.rename({'usd': 'usd of 2008'}).sort('year').row(0))"),
        ("2008 99.67", "print(df.groupby('year')['usd'].mean().reindex(range(2008, 2019)))"),
        ("2008 99.67", "print(con.execute('select year, max(usd_2008) from prices_2008 group by year').fetchone())"),
        ("2008 99.67", "df = df.filter(pl.col('year') >= 2008)\nprint(df.sort('usd').row(0))"),
        (
            "until 2008 12\n(2008, 99.67)",
            "df = pd.read_csv('a')\ndf = df.replace({'u': 'until 2008'})\nprint(df, df.u.max())",
        ),
        ("2008 99.67", "df = df[df['year'].isin([2007, 2008])]\nprint(df.loc[df['usd'].idxmax()])"),
        (
            "2008 99.67\n2009 9.1",
            "for y in range(2008, 2010):\n    print(y, df.filter(pl.col('year') == y)['usd'].mean())",
        ),
        ("in 2008: 2008 99.67", "print(f'in 2008: {df[0]} {df[1]}')"),
        ("2008 99.67", "print(pl.read_csv('a.csv', skip_rows=2008, n_rows=2008).row(0))"),
        (
            "2008 99.67",
            "d = {k: pl.read_csv(f'p_{k}.csv') for k in ('2007-2008', '2009-2010')}\nprint(d['2007-2008'].row(0))",
        ),
        ("2008 99.67", PARTS % "1999-2008" + "df = df.with_columns(pl.col('usd').str.replace_all(',', '.'))\n" + SHOWS),
    ],
)
def test_names_ranges_and_labels_in_code_make_no_number_of_data_up(output: str, code: str) -> None:
    """A text of more than a number is shown as a whole or not at all; only there, the code has the number."""
    found = claims("It was highest in 2008, with 99.67.", printed(output), code={1: code})
    assert [(each.text, each.supported) for each in found if each.text != "2008"] == [("99.67", True)]
    assert all(each.supported for each in found)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("1999-2008 12", PARTS % "1999-2008" + SHOWS),
        ("up to 2008 12", PARTS % "up to 2008" + SHOWS),
        ("(2008, 12)", PARTS % "2008" + SHOWS),
        ("(2008, 12)", PARTS % "of 2008" + "print(df.select(pl.col('part').str.extract(r'(\\d+)')).row(0))"),
        ("(2008, 12)", PARTS % "of 2008" + "print(df.select(pl.col('part').str.replace('of ', '')).row(0))"),
        ("(2008, 12)", PARTS % "of 2008" + "print(df['part'][0][3:], df.height)"),
        ("(2008, 12)", PARTS % "2008 of" + "print(df['part'].map_elements(lambda each: each[:4]))"),
        ("(2008, 12)", PARTS % "of 2008" + "print(df.select(pl.col('part').str.split(' ').list.get(1)).row(0))"),
        ("(2008, 12)", PARTS % "of:2008" + "print(df['part'].map_elements(lambda each: each.split(':')[1]))"),
        ("(2008, 12)", "years = ['of 2008', 'x 5']\nprint(df.with_columns(n=pl.Series(years).str.slice(3)).row(0))"),
        ("OF 2008 12", PARTS % "of 2008" + "print(df['part'].str.to_uppercase())"),
        ("\u2502 up to \u2506 12 \u2502\n\u2502 2008 \u2506 \u2502", PARTS % "up to 2008" + SHOWS),
        ("2008 12", "print(df.group_by(pl.lit(2008)).len())"),
        ("12 2008", "import io\nprint(pd.read_csv(io.StringIO(f'a,b\\n{len(df)},2008')))"),
        (
            "2008 12",
            "df = pd.read_csv('a')\ndf['u'] = df['u'].replace({'u': 'until 2008'})\n"
            "print(df['u'].replace({'until ': ''}, regex=True))",
        ),
        ("0 a 2008 12", "print(pd.melt(pd.DataFrame({'a': [2008]})), df.height)"),
        ("2008 12", "print(df.reindex(range(2008, 2009)))"),
        ("2008 12", "print(df.select(pl.lit(2008), pl.len()))"),
        ("2008 12", "print(con.execute('select 2008, count(*) from prices').fetchone())"),
    ],
)
def test_a_text_of_the_code_is_no_evidence_where_it_is_shown_or_cut(output: str, code: str) -> None:
    """Nor is a number that stands in the code alone, whatever data is beside it."""
    [found] = claims("It was highest in 2008.", printed(output), code={1: code})
    assert (found.supported, found.written, found.sources) == (False, True, (1,))


def test_where_the_code_has_a_number_is_told() -> None:
    """So that a model knows what it must not use."""
    code = {1: PARTS % "2008" + SHOWS, 2: "print(df.row(0))"}
    [found] = claims("It was in 2008.", printed("2008 3", "2008"), code=code)
    assert (found.shown, found.sources) == ("2008", (2,))


def test_a_number_in_a_row_of_a_file_is_known() -> None:
    """A comma parts it from a word, so it may be reckoned with by hand."""
    outputs = {
        1: [{"output_type": "stream", "name": "stdout", "text": "name,key\nhorse,17\n"}],
        2: [{"output_type": "execute_result", "data": {"text/plain": "18"}, "metadata": {}}],
    }
    code = {1: "print(open('/tmp/data/a.csv').read())", 2: "17 + 1"}
    assert [each.cell for each in claims("It is 18, one more than 17.", outputs, code=code)] == [2, 1]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("41.57 Gt, by the factor 44/12", "C_TO_CO2 = 44 / 12\nprint(frame['c'].sum() * C_TO_CO2)"),
        ("41.57 in 2013–2014", "print(frame.filter(pl.col('d').dt.year().is_between(2013, 2014)).height)"),
        ("41.57 from 2013 to 2014", "print(frame.filter((frame['y'] >= 2013) & (frame['y'] <= 2014)))"),
        ("41.57 (0 °C = 273.15 K)", "K = 273.15\nprint(frame['t'].mean() + K)"),
        ("In January 41.57 mm", "print(frame)"),
        ("41.57 after minute 80", "print(frame.filter(pl.col('m') > 80).height)"),
        ("41.57 km² (247.105 acres each)", "KM2=1/247.105\nprint(frame['acres'].sum() * KM2)"),
        ("41.57 km (1.60934 km a mile)", "print(frame['miles'].sum() * 1.60934)"),
        ("41.57 by 300 resamples", "print(np.mean([rng.choice(x).mean() for _ in range(300)]))"),
    ],
)
def test_what_a_computation_is_told_is_no_result(answer: str, code: str) -> None:
    """The numbers of which a factor is made, the years that data is compared with, and definitions."""
    assert [each for each in claims(answer, printed("41.5741"), code={1: code}) if not each.supported] == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("The mean is 24.00.", "print(24.00)"),
        ("It is 100.0.", "x = 1100.0"),
        ("It is 0.3048.", "print('It is 0.3048.')"),
    ],
)
def test_what_is_as_large_as_a_factor_of_units_is_a_result(answer: str, code: str) -> None:
    """If it is a whole number, or if the code shows it rather than reckons with it."""
    [found] = claims(answer, printed(answer if "print" in code else "7.5"), code={1: code})
    assert not found.supported


@pytest.mark.parametrize(
    "answer", ["1.60934 times", "The wettest year was 2031.", "Since 1987 it rains.", "44 orders", "44/12 of them"]
)
def test_what_no_computation_is_told_is_a_result(answer: str) -> None:
    """A year that the code has not, and numbers of which nothing is made."""
    code = "R = 45 / 12\nprint(frame.filter(pl.col('y') >= 2031))"
    assert any(not each.supported for each in claims(answer, printed("7.5"), code={1: code}))


@pytest.mark.parametrize(
    ("call", "is_made_up"),
    [
        ("pd.read_fwf('a.txt', colspecs=[(7, 41 + 7)])", False),
        ("pd.read_fwf('a.txt', [(7, 48)])", False),
        ("pd.read_csv('a.txt', skiprows=48)", False),
        ("pd.read_csv('a.txt', names=[48])", True),
        ("pd.read_csv(io.StringIO('x\\n48'))", True),
    ],
)
def test_where_a_file_is_read_makes_no_number_of_it_up(call: str, is_made_up: bool) -> None:
    """It chooses lines and columns; what code calls these, or hands over as a text, is the code's."""
    code = f"import io, pandas as pd\ndef read():\n    return {call}\nprint(read())"
    (found,) = claims("There are 48 of them.", printed("n 48"), code={1: code})
    assert (found.cell == 0) is is_made_up


def test_the_number_of_a_month_is_no_number_that_code_makes_up() -> None:
    """Whoever reads dates has a table of months, of which any number up to 12 comes."""
    code = "months = {m: i for i, m in enumerate('Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez'.split(), 1)}\n"
    code += "rows = [(months[k], v) for k, v in table]\nprint(pl.DataFrame(rows)['name'].value_counts())"
    (found,) = claims("Topalov leads 11 lists.", printed("Topalov 11"), code={1: code})
    assert found.cell == 1
