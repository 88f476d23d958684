"""Claims: which numbers of an answer stand in an output, and which stand nowhere."""

from __future__ import annotations

import ast
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from random import Random
from typing import Any

import machine
import pytest

from nbagent.agent.claims import MAX_ANSWER, MAX_CLAIMS, REST, claims
from nbagent.agent.made_up.interpreter import Interpreter
from nbagent.agent.names import MAX_CODE
from nbagent.agent.numerals import numerals
from nbagent.core.events import Claim, doubts


def printed(*texts: str) -> dict[int, list[dict[str, Any]]]:
    """A cell for each text, from 1."""
    return {at: [{"output_type": "stream", "name": "stdout", "text": text}] for at, text in enumerate(texts, start=1)}


@pytest.mark.parametrize(
    ("answer", "output", "shown"),
    [
        ("The mean is 12.3.", "mean 12.3456", "12.3456"),
        ("The maximum is 1,234.", "1234", "1234"),
        ("It has 1000 rows", "shape: (1_000, 5)", "1_000"),
        ("45 % of the users", "0.4512", "0.4512"),
        ("45 percent", "45.1", "45.1"),
        ("5 %", "0.0512", "0.0512"),
        ("66\u2154 percent", "0.66667", "0.66667"),
        ("12 rows", "12.4 12", "12"),
        ("100 %", "1.0", "1.0"),
        ("about 1.2 million rows", "1234567", "1234567"),
        ("1.5k, more or less", "1532", "1532"),
        ("2 bn", "1999999999", "1999999999"),
        ("It fell by 3.5%.", "-0.0351", "-0.0351"),
        ("-5 degrees", "-5", "-5"),
        ("between 20–30", "20 30", "20"),
        ("2.0", "2", "2"),
        ("1.234,56 €", "1234.56", "1234.56"),
        ("$48{,}213$", "48213", "48213"),
        ("$48\\,213$", "48213", "48213"),
        ("1.234 €", "1234.4", "1234.4"),
        ("1.234.567 €", "1234567.2", "1234567.2"),
        ("p = 0,905", "0.9050633", "0.9050633"),
        ("12,345 m", "12.3452", "12.3452"),
        ("2,71828", "2.718281", "2.718281"),
        ("5.08 kg", "5076.016", "5076.016"),
        ("59,97 T€", "59974.38", "59974.38"),
        ("12,3 %", "12.34", "12.34"),
        ("188 k€ in 2021", "sales (k€) 188", "188"),
        ("fifty-five thousand rows", "55123", "55123"),
        ("Three hundred and forty-four penguins", "344", "344"),
        ("two million five hundred thousand", "2512345", "2512345"),
        ("forty-five percent of them", "0.4512", "0.4512"),
        ("5,124 k€", "5124", "5124"),
        ("2.5 Mio. €", "Mio. € 2.52", "2.52"),
        ("12.3 million visitors", "visitors (millions) 12.34", "12.34"),
        ("1\u202f234.5", "1234.5", "1234.5"),
        ("150 rows", "100,150,200", "150"),
        ("150 rows", "100 150 200", "150"),
        ("3.2e-05", "3.21e-05", "3.21e-05"),
        ("**17**", "17", "17"),
        ("33 to 52 % of the variance", "0.331935", "0.331935"),
        ("33–52%", "0.331935", "0.331935"),
        ("33, 37 und 52 %", "0.331935", "0.331935"),
        ("1.2 to 3.4 million", "1234567", "1234567"),
        ("45,1 Prozent", "0.4512", "0.4512"),
        ("3.1 percentage points", "0.0312", "0.0312"),
        ("312 basis points", "3.12 percentage points", "3.12 percentage points"),
        ("3.1 points more", "3.12 percentage points", "3.12 percentage points"),
        ("451 ‰", "0.4512", "0.4512"),
        ("4512 basis points", "0.4512", "0.4512"),
        ("12 345 Personen", "12345", "12345"),
        ("12\u2019345", "12345", "12345"),
        ("350km away", "350", "350"),
        ("$1.2m", "1234567", "1234567"),
        ("2.5x as many", "2.512", "2.512"),
        ("`350` rows", "350", "350"),
        ("```\nmean  350\n```", "350", "350"),
        ("about 1,200", "1234", "1234"),
        ("more than 1,200", "1287", "1287"),
        ("rund 1.200", "1234", "1234"),
        ("10⁶ rows", "1234567", "1234567"),
        ("The answer is **7**.", "7", "7"),
    ],
)
def test_supported(answer: str, output: str, shown: str) -> None:
    """As it is shown, or rounded to the digits that the answer has."""
    found = claims(answer, printed(output))[0]
    assert (found.cell, found.output, found.shown) == (1, 0, shown)


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("The answer is 42.", ""),
        ("The answer is 42.", "41"),
        ("12.35", "12.3"),
        ("12.345", "12.3"),
        ("13", "12.3"),
        ("46 %", "0.4512"),
        ("66\u2154 percent", "0.66"),
        ("66\u2154", "66"),
        ("1.3 million", "1234567"),
        ("45 million", "45"),
        ("fifty-five thousand rows", "54000"),
        ("Three hundred and forty-four penguins", "345"),
        ("Twenty-three of them", "24"),
        ("189 k€", "188"),
        ("5 %", "5.46"),
        ("It changed by -3.5.", "3.5"),
        ("5.18 kg", "5076.016"),
        ("5.08 m", "5076.016"),
        ("1.234 €", "1240"),
        ("95 % of the users", "0.91"),
        ("In 1998", "1997"),
        ("33 and 5 penguins", "0.331935"),
        ("12 Marine beaches, 3. Mai", "x"),
        ("a level of 350 cfu", "x"),
        ("5/350 rows", "x"),
        ("350km away", "x"),
        ("`350` rows", "x"),
        ("```\nmean  350\n```", "x"),
        ("_350_", "x"),
        ("values > 350", "x"),
        ("more than 1,200", "1100"),
        ("about 1,200", "1300"),
        ("10⁶ rows", "234567"),
        ("There are 7 stations.", "x"),
        ("The answer is 7.", "x"),
        ("7 kg", "x"),
        ("It has pages 1,234", "x"),
    ],
)
def test_not_supported(answer: str, output: str) -> None:
    """Another number, or more digits than were ever seen."""
    assert [each.supported for each in claims(answer, printed(output))] == [False]


@pytest.mark.parametrize(
    "answer",
    [
        "There are two of them, and 3 more.",
        "1. First\n2. Second\n3. Third",
        "On 2024-01-05 at 12:30",
        "See data_2024.csv and /tmp/output/plot_300.png, cell 12",
        "Python 3.11.7, or Python 3.12 with version 2.14 of it",
        "`n = 99`, and\n```\nx = 100\n```",
        "p < 0.05, p ≤ 1 %",
        "the 95th percentile",
        "95-%-Konfidenzintervall, 95% CI, 99 % confidence",
        "\u03b1 = 0.05, at the 5 % level, ein Niveau von 5 %",
        "a scale from -1 to 1",
        "twelve months, the twenty-first century, a hundred times, one of them",
        "a fifty-fifty chance, nineteen ninety-five",
        "manual, section 4: as pages 12 and § 17.2 say, Abschnitt 31",
        "Nothing at all",
        "",
    ],
)
def test_no_claims(answer: str) -> None:
    """Small words, lists, dates, names, versions, bounds and code."""
    assert claims(answer, {}) == []


def test_what_is_counted_of_the_data_beforehand_is_no_claim() -> None:
    """Only as that: 37 is no number of rows."""
    found = claims(
        "None of 37 columns in 132 files has it, but 37 rows.", printed("5"), facts=["37 columns", "132 files"]
    )
    assert [each.text for each in found] == ["37"]
    for answer, are in (
        ("None of the 37 columns has it.", 0),
        ("The 12 columns are:", 0),
        ("12 columns are empty.", 1),
    ):
        assert len(claims(answer, printed("5"), facts=["37 columns", "12 columns"])) == are


def test_a_share_is_no_limit() -> None:
    """Though code compares something else with the same number."""
    code = {1: "print(frame.filter(pl.col('age') > 45).height)"}
    found = claims("Of 61, more than 45% answered.", printed("61"), code=code)
    assert [(each.text, each.supported) for each in found] == [("61", True), ("45%", False)]


def test_the_year_of_a_date_without_hyphens_is_shown() -> None:
    """Its month and day are no numbers."""
    found = claims("From 2000 to 2024, 26 of 17.", printed("dates 20000117 20240826"))
    assert [(each.text, each.supported) for each in found] == [
        ("2000", True),
        ("2024", True),
        ("26", False),
        ("17", False),
    ]


def test_a_name_of_a_file_claims_nothing() -> None:
    """A number in a word that is no file's name is one all the same."""
    text = "Kentucky led from bracket-00 to bracket-62, and total-5521 in 2015."
    found = claims(text, {}, names=["bracket-00", "bracket-62.tsv", "bracket-62", "2015"])
    assert [each.text for each in found] == ["5521", "2015"]


def test_a_unit_is_shared_by_joined_numbers_only() -> None:
    """Words between them part them."""
    found = claims("33 of them, that is 52 %", printed("0.331935 0.5171"))
    assert [(each.text, each.supported) for each in found] == [("33", False), ("52 %", True)]


def test_what_was_given_is_no_claim() -> None:
    """What the question or the code said is repeated, not found out; an output that has it is named all the same."""
    assert claims("With 12 clusters, seed 42", {}, given=["Use 12 clusters", "seed=42"]) == []
    found = claims("With 12 clusters", printed("12"), given=["Use 12 clusters"])
    assert [each.cell for each in found] == [1]
    assert claims("at the 5 % level", printed("5.46"), given=["alpha = 0.05"]) == []


def test_what_is_generally_known_is_no_claim() -> None:
    """Without data and outputs a short number is knowledge; a long one is not known by heart."""
    known = "Above 0.5 it is good, 95 % of 1.2 million; pi is 3.14159."
    assert [each.text for each in claims(known, {}, data=False)] == ["3.14159"]
    assert len(claims(known, {})) == 4
    assert len(claims(known, printed("nothing"), data=False)) == 4


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("EV is 19.3 % above BQ (23.15 against 19.4).", "23.15 19.4"),
        ("West has 54 of 186 rows (29.0 %).", "54 186"),
        ("It is 24.08, 21.00 there, so 3.08 more.", "24.08 21.00"),
        ("From 311 to 97, a factor of 3.2", "311 97"),
        ("311 against 97 is 3.2 times as many.", "311 97"),
        ("45.1 % against 37.3 % are 7.8 percentage points.", "0.4512 0.3731"),
        ("A has 50, B has 20, so the difference is **30**\n", "50 20"),
        ("A sold 300, B 120: 2.5x.", "300 120"),
        ("1092 days, i.e. 3.0 years", "1092 days 00:00:00"),
        ("9,800 s are 2 h 43 min 20 s, or **163.3 minutes**.", "9800"),
    ],
)
def test_what_a_sentence_reckons_of_shown_numbers_is_no_claim(answer: str, output: str) -> None:
    """A difference, a share, a change, a ratio, the same time in other units."""
    assert [each.text for each in claims(answer, printed(output)) if not each.supported] == []


@pytest.mark.parametrize(
    ("answer", "output", "missing"),
    [
        ("EV is 19.6 % above BQ (23.15 against 19.4).", "23.15 19.4", "19.6 %"),
        ("It is 24.08. There it is 21.00. So 3.19 more.", "24.08 21.00", "3.19"),
        ("From 311 to 97, mean 3.2", "311 97", "3.2"),
        ("A has 50, B has 20, and the mean is **2.5**\n", "50 20", "2.5"),
        ("The 311 have 97 of them, 208.5 million more.", "311 97 (million)", "208.5 million"),
        ("311 against 97, so 17.25 more", "311", "17.25"),
        ("9800 s are 163.4 minutes.", "9800", "163.4"),
        ("9800 s are 163.3 m.", "9800", "163.3"),
        ("40/60 tests of the 40 pass.", "40", "60"),
        ("1092 days, i.e. 2.9 years", "1092", "2.9"),
    ],
)
def test_what_a_sentence_reckons_wrong_is_missing(answer: str, output: str, missing: str) -> None:
    """Or from other sentences, or from numbers that are missing themselves."""
    assert missing in [each.text for each in claims(answer, printed(output)) if not each.supported]


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("Roughly 9,800 in all", "9792.93"),
        ("Nearly 89,000", "88603"),
        ("172.7 MB, or 172,653.5 kB, or 0.173 gigabytes", "172653510"),
        ("48.2 MWh", "48213"),
        ("3.2 ms", "0.00321"),
        ("The other 32.7 % are lower.", "0.673"),
        ("The remaining **32.7 %**", "67.3"),
        ("451 per mille", "0.4512"),
        ("121 out of 403 rows, 30 %", "121 403"),
    ],
)
def test_other_words_for_a_shown_number(answer: str, output: str) -> None:
    """A hedge that begins a sentence, units with prefixes, and what others leave of the whole."""
    assert [each.text for each in claims(answer, printed(output)) if not each.supported] == []


def test_a_unit_that_nothing_shows_is_no_scale() -> None:
    """470.7 are not 470.7 million, if nothing says that there are millions; 1.2 GB are not 1.2 MB."""
    for answer, output in (("470.7 million", "470.7"), ("€1.25M", "1.25"), ("1.23 MB", "1234567890")):
        assert not claims(answer, printed(output))[0].supported
    assert claims("470.7 million", printed("470.7"), notes=["Population in millions"])[0].supported
    for said in ("x / 1_000_000", "x / 10**6", "sales ('000)", "(000s)", "in Milliarden", "sales (M$)", "co2_Mt"):
        assert claims("470.7 million", printed("470.7"), notes=[said])[0].supported
    assert not claims("470.7 million", printed("470.7"), notes=["25,000 and 12'000 of them"])[0].supported


def test_the_first_day_of_a_range_is_a_part_of_a_date() -> None:
    """As with a dash, with a word between them."""
    assert not claims("It rose from 2 to 3 September 2007.", printed("7"))


def test_a_name_of_capitals_with_a_number_claims_nothing() -> None:
    assert claims("COVID-19 and SA-8000", {}) == []
    assert [each.text for each in claims("The total is EUR-450, RMSE-45", {})] == ["450", "45"]


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


def test_long_honest_code_is_read_to_its_end() -> None:
    """So that a prefix that data is compared with, `08`, makes no number of the data made up."""
    code = """import csv, glob, os, re, pandas as pd
from collections import Counter
def is_in(y, w): return (y == 2002 and w >= 40) or (y == 2003 and w <= 20)
total = {}
for f in glob.glob("/tmp/data/a/*.csv"):
    k = "0" + re.match(r"\\d+", os.path.basename(f)).group(); total[k] = 0
    with open(f, encoding="cp1252", newline="") as h:
        for r in csv.DictReader(h, delimiter=";"):
            if is_in(int(r["year"]), int(r["week"][3:5])): total[k] += int(r["cases"])
for f in glob.glob("/tmp/data/b/*.txt"):
    k = "0" + re.search(r"(\\d+)\\.txt", f).group(1); total[k] = 0; head = None
    for line in open(f, encoding="cp1252"):
        c = [x.strip() for x in line.rstrip().split("\\t")]
        if c[0] == "Year": head = c
        elif head and c[0].isdigit():
            for h, v in zip(head[1:], c[1:]):
                if h.startswith("KW") and v != "-" and is_in(int(c[0]), int(h.split()[1])): total[k] += int(v)
names = pd.read_excel("/tmp/data/k.xlsx", dtype=str)
name = dict(zip(names["key"], names["name"]))
none = [k for k, n in total.items() if n == 0]
print("first", sum(k[:2] == "09" for k in none)); print("second", sum(k[:2] == "08" for k in none))
for a, n in Counter(name[k[:3]] for k in none).most_common(): print(a, n)"""
    found = claims("Most, 8, are in Swabia.", printed("first 24\nsecond 4\nSwabia 8"), code={1: code}, data=True)
    assert [(each.text, each.cell) for each in found] == [("8", 1)]


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


def test_the_latest_output_is_named() -> None:
    """And in it the last one that shows the number; each number once."""
    outputs = printed("42", "42")
    outputs[2].append({"output_type": "execute_result", "data": {"text/html": "<b>42</b>"}})
    assert [(each.cell, each.output) for each in claims("42, and again 42", outputs)] == [(2, 1)]


def test_tables_and_errors() -> None:
    """A table without a text form is read; the text of an error supports nothing."""
    table = {"output_type": "display_data", "data": {"text/html": "<tr><td>7</td><td>3,141</td></tr>"}}
    assert claims("3141", {1: [table]})[0].supported
    error = {"output_type": "error", "ename": "E", "evalue": "3141", "traceback": ["3141"]}
    assert not claims("3141", {1: [error]})[0].supported


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


def test_numbers_with_the_same_hash_take_no_longer() -> None:
    """Whoever writes code or data can choose thousands of them: Python's hash of numbers has no secret."""

    def seconds(factor: int) -> float:
        chosen = [each * factor for each in range(1, 4_000)]
        names = "\n".join(f"x = {each}" for each in chosen)
        pairs = ", ".join(f"{each}: {each}" for each in chosen)
        answer, shown = f"It is {chosen[3]} or {chosen[3] + 1}.", printed("\n".join(map(str, chosen)))
        started = time.thread_time()
        (first, second) = claims(answer, shown, code={1: "print(frame)"})
        assert (first.cell, second.cell) == (1, 0)
        for code in (f"print({{{pairs}}})", f"{names}\nprint(x)"):
            claims("It is 12.7.", shown, code={1: code}, given=[names])
        return time.thread_time() - started

    assert min(seconds(2**61 - 1) for _ in range(3)) < 3 * min(seconds(2**61 + 9) for _ in range(3))


def test_much_of_it_takes_no_time() -> None:
    """Ten megabytes of output, and an answer that is all numbers."""
    answer, shown = " ".join(str(1000 + each) for each in range(5000)), printed("123.456 " * 1_250_000)
    assert machine.within(300, lambda: claims(answer, shown))[MAX_CLAIMS:] == [REST]


def many(line: str, count: int) -> str:
    """A line so many times, each with its number."""
    return "\n".join(line.format(each) for each in range(count))


HOSTILE = {
    "names of one value": lambda n: {1: f"{'='.join(f'a{each}' for each in range(n))} = ({'1,' * n})\nprint(a0)"},
    "one list in many cells": lambda n: {cell: many("x.append({})", n // 20) + "\nprint(x)" for cell in range(20)},
    "functions in functions": lambda n: {
        1: "\n".join(f"{' ' * each}def f{each}():" for each in range(80)) + f"\n{' ' * 80}return 1, 2" * (n // 4)
    },
    "bytes that grow": lambda n: {1: f"print(b'x' * {n} * 10**10, b'%{n}000000000d' % 5, frame)"},
    "a long sum": lambda n: {1: f"print(frame.x{' + 7' * n})"},
    "lists in lists": lambda n: {1: "x = [1]\n" + "x = [x, x]\n" * (n // 20) + "print(x)"},
    "calls in calls": lambda n: {
        1: "def f0(): return 1\n"
        + "".join(f"def f{each + 1}(): return f{each}() + f{each}()\n" for each in range(n // 20))
        + f"print(f{n // 20}())"
    },
    "powers and widths": lambda n: {
        1: f"print(7**7**{n}, f'{{5:>{n}000000}}', round(5, -{n}00000000), '5'.zfill({n}000000))"
    },
    "literals that are nearly the same": lambda n: {
        1: f"print({','.join(str(6 * 10**8 + each) for each in range(n))})"
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_is_read_soon(name: str) -> None:
    """Its time grows with the code and what it shows, and no faster."""

    def seconds(size: int) -> float:
        code = HOSTILE[name](size)
        gc.collect()
        gc.disable()  # all that this process has made would be looked through again and again
        try:
            started = time.thread_time()
            claims("It is 4217.", {1: printed("1 billion " * size)[1] * 10}, code=code)
            return time.thread_time() - started
        finally:
            gc.enable()

    assert seconds(2_000) < 8 * seconds(500) + machine.pace()


MUCH = {
    "fractions": "from fractions import Fraction\nf = Fraction(3, 2)\nf = f**300\nf = f**300\nprint(f * f * f)",
    "a power of fractions": "from fractions import Fraction\nprint(2 ** Fraction(10**8))",
    "decimals": "from decimal import Decimal\nx = Decimal('1e10000000')\nprint('%d' % x, '{[0]:f}'.format([x]))",
    "a mean of decimals": "import decimal, statistics\nprint(statistics.mean([decimal.Decimal('1e1000000')]))",
    "a wide field": "print('{:x<9999999}'.format(1), f'{1:9999999}')",
    "a wide field with a name": "print('{a:9999999}'.format(a=1), '%(a)9999999d' % {'a': 1})",
    "many wide fields": "print(('{:999}' * 3000).format(*[1] * 3000), ('%999d' * 3000) % tuple([1] * 3000))",
    "bytes of numbers": "print((1).to_bytes(10**7), bytes(10**9), bytearray(10**9))",
    "indents": "import json\nprint(json.dumps([1], indent=10**7))",
    "texts by each other": "x = 'a' * 20000\nprint(x * x, x << x, x**x, x.join(x), x.replace('a', x))",
    "a text in a text": f"x = 'a' * 20000\nprint(f'{'{x}' * 3000}')",
    "lists of lists' items": "x = [1]\n" + "x = [*x, *x]\n" * 30 + "print(x)",
    "a list in itself": "x = [1]\n" + "x.extend(x)\n" * 30 + "print(x)",
    "a list that is asked for": "x = [1]\n" + "x = [*x, *x]\n" * 12 + "if x: pass\n" * 500,
    "empty lists": f"x = [{'[],' * 2500}]\n" + "x;" * 1500,
    "texts that add up": "import itertools\nprint(itertools.accumulate(list('😀' * 3000)), sum([[1]] * 15000, []))",
    "codecs": f"x = {''.join(map(chr, range(20000, 23000)))!r}\nprint(x.encode('punycode'))",
    "codecs of bytes": "print(str(b'ab' * 9000, 'punycode'), bytes('ü' * 9000, 'punycode'))",
    "a long text again and again": f"def f():\n    return '{'7123 ' * 1200}'\n{'f();' * 200}",
    "what a text may be": "x = 'a'\n"
    + "".join(f"if d.x: x = '{each}' * 19000\n" for each in "bcdefghijklm")
    + "x + x;" * 300,
    "whole numbers": "x = 7**1400\n"
    + "x * x * x % x; pow(x, x, x);" * 200
    + "print(7**7**7, 1 << 10**10, round(5, -(10**9)))",
    "many divisors": "import math\nprint(math.lcm(*range(1, 15000)), math.comb(10**9, 5 * 10**8))",
    "keys of one hash": "print(set(list(range(0, 19000 * (2**61 - 1), 2**61 - 1))))",
    "sorted again and again": "x = list(range(19000))\n" + "sorted(x);" * 600,
    "what is read again": "s = '7 ' * 9999\n" + "open('x', 'w').write(s); print(open('x').read())\n" * 100,
    "unknown methods": "x = '7 ' * 5000\n" + "x = x.foo()\n" * 40 + "print(x)",
    "ranges": "print(0.5 in range(10**9), sum(range(10**10)), list(zip(*[range(10**9)] * 100)), range(10**40))",
}
"""Cells that make much of little."""
_MEASURE = """
import json, resource, sys, time
from nbagent.agent.claims import claims
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
outputs = {1: [{"output_type": "stream", "name": "stdout", "text": "4217"}]}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
claims("It is 4217.", outputs, code={1: "print(1)"})
for name, code in json.load(sys.stdin).items():
    before, started = peak(), time.process_time()
    claims("It is 4217.", outputs, code={1: code})
    print(json.dumps([name, time.process_time() - started, peak() - before]), flush=True)
"""


def test_much_is_made_of_little_within_bounds() -> None:
    """Each cell takes about a second and 50 megabytes at most: C code holds all threads of the controller."""
    command = [sys.executable, "-c", _MEASURE]
    done = subprocess.run(command, input=json.dumps(MUCH), capture_output=True, text=True, timeout=60, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.stderr, [name for name, *_ in found]) == ("", [*MUCH])
    assert [each for each in found if each[1] > 15 * machine.pace() + 0.5 or each[2] > 50] == []


def test_a_format_looks_into_no_object_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host's environment says is not found out by what is held to be made up."""
    monkeypatch.setenv("SECRET", "48173")
    field = "{0.__add__.__globals__[sys].modules[os].environ[SECRET]}"
    for made in (f"'{field}'.format(Fraction(1, 2))", f"'{field}'.format_map({{'0': Fraction(1, 2)}})"):
        code = {1: f"from fractions import Fraction\nprint({made}, frame.height)"}
        assert claims("It is 48173.", printed("48173 3"), code=code)[0].supported


def test_no_line_switches_the_check_off() -> None:
    """A number that can't be read leaves the others what they are."""
    code = {1: "import decimal\nprint(4817.3)\nprint(decimal.Decimal('sNaN'), frame.height)"}
    assert not claims("It is 4817.3.", printed("4817.3 3"), code=code)[0].supported


def test_of_a_cell_that_fails_to_be_read_all_numbers_are_made_up(
    monkeypatch: pytest.MonkeyPatch, contained: list[str]
) -> None:
    """Whatever the fault is, the other cells are read as ever."""
    code = {1: "print(4817.3)", 2: "print(frame.height)"}
    run = Interpreter.run

    def fail(self: Interpreter, tree: ast.Module) -> None:
        run(self, tree)
        if "4817" in ast.unparse(tree):
            raise TypeError("a fault")

    monkeypatch.setattr(Interpreter, "run", fail)
    found = claims("They are 4817.3 and 52.", printed("4817.3", "52"), code=code)
    assert [each.supported for each in found] == [False, True]
    assert len(contained) == 1


def test_what_names_mean_is_held_once_for_all_cells() -> None:
    """The memory for many cells grows with their code, not with each cell's names times the cells."""
    code = {at: "".join(f"a{at}_{n}=1\n" for n in range(40)) for at in range(1, 201)}
    tracemalloc.start()
    try:
        claims("It is 4217.", {200: printed("4217")[1]}, code=code)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_what_is_not_looked_for_is_said() -> None:
    """A number behind very many others, or very much text, does not pass for one that an output shows."""
    shown = " ".join(str(1000 + each) for each in range(MAX_CLAIMS))
    assert [each.text for each in claims(f"{shown} 77777", printed(shown)) if not each.supported] == [REST.text]
    assert claims(f"{'a ' * MAX_ANSWER} 77777", printed("1")) == [REST]


def test_of_very_much_code_the_last_is_read() -> None:
    """Numbers in what comes before are no evidence."""
    code = {1: "x = 4217", 2: "# " + "a" * MAX_CODE, 3: "print(x)"}
    assert claims("It is 4217.", {1: printed("4217")[1]}, code=code) == [Claim("4217", written=True, sources=(1,))]


def test_signs_that_are_no_numbers() -> None:
    """Versions, identifiers and addresses have none."""
    assert list(numerals("v1.2.3 abc12 12abc 192.168.0.1 x_1 3.11.7")) == []


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


def test_what_only_notes_say_is_marked() -> None:
    """A number of a note beside the data is none that an output shows; a year in it is no claim."""
    notes = ["The budget of 2023 was 6.9 million."]
    found = claims("Of 6.9 million in 2023, 42 are left, not 43.", printed("42"), notes=notes)
    assert [(each.text, each.supported, each.noted) for each in found] == [
        ("6.9 million", True, True),
        ("42", True, False),
        ("43", False, False),
    ]


def test_what_an_earlier_cell_has_written_out_is_no_evidence() -> None:
    """A number that one cell gives a name and another one shows was made up as well."""
    code = {1: "rows = 142", 2: "print(rows)"}
    assert [each.supported for each in claims("142 rows", printed("", "142"), code=code)] == [False]


def test_of_code_only_parameters_are_given() -> None:
    """A named number may be told; one in a comment or in an expression is a claim."""
    code = {1: "ALPHA = 0.07\np < ALPHA\nleast = 77\ncut(x[y > least], bins=37)\n# 142 rows\ny = x * 255"}
    assert claims("With alpha 0.07, above 77, and 37 bins", {}, code=code) == []
    assert [each.text for each in claims("142 rows, 255 times", {}, code=code)] == ["142", "255"]


def test_powers_dates_and_ordinals() -> None:
    """Powers of ten are read in each form; days, quarters and ordinals are no numbers of the data."""
    for text in ("p = 8.8 × 10⁻¹²¹", "p = 8.8 x 10^-121", "p = 8.8·10^{-121}", "p = 8.8e-121"):
        found = claims(text, printed("8.83e-121"))
        assert [(each.supported, each.cell) for each in found] == [(True, 1)], text
        assert [each.supported for each in claims(text, printed("8.8"))] == [False]
    assert claims("On 12 March 2026, March 14th, in Q3 2025, the 21st, am 3. Mai 2024", printed("x")) == []
    assert claims("From Feb 22-27, 2017, Aug. 18 - 21, 12.-15. Mai and 12\u201315 May 2024", printed("x")) == []


def test_a_thousand_answers() -> None:
    """No invented number passes, and no right one in an odd form is sent back."""
    random = Random(14)  # noqa: S311 - the same numbers each time
    for _ in range(500):
        value = random.choice([random.randint(1200, 99_999_999), round(random.uniform(20, 9e5), 3)])
        invented = value * 3 + 7
        code = {1: "print(frame.sum())", 2: f"# {invented}\nprint({invented!r})"}
        shown = {1: printed(str(value))[1], 2: printed(repr(invented))[1]}
        wrong = claims(f"The sum is {invented:,}.", shown, given=["The sum?"], code=code)
        assert [each.supported for each in wrong] == [False], (value, invented)
        forms = [f"{value:,}", f"{value}", f"**{value:,}**", f"about {value:.3g}" if value < 1000 else f"{value:,.0f}"]
        forms.append(f"{value / 1e6:.2f} million" if value > 2e6 else f"{value:_}")
        right = claims(f"The sum is {random.choice(forms)}.", shown, given=["The sum?"], code=code)
        assert [each.supported for each in right] == [True], (value, forms)


def test_code_that_was_written_to_be_read_costs_little() -> None:
    """However often a cell shows a long text, that is read once, and what stands behind it is still no evidence."""
    code = f"X = '{'7 ' * 45_000}'\nY = 0x{'f' * 5000}\nprint({'X, ' * 2_000}Y, 40)"
    too_long = "print(40)\n" + "[]\n" * 30_000
    for each in (code, too_long):
        found = machine.within(40, lambda each=each: claims("They are 40 and 41.", printed("40"), code={1: each}))
        assert [(claim.text, claim.supported) for claim in found] == [("40", False), ("41", False)]


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
        ("41.57 by 300 resamples", "print(np.mean([rng.choice(x).mean() for _ in range(300)]))"),
    ],
)
def test_what_a_computation_is_told_is_no_result(answer: str, code: str) -> None:
    """The numbers of which a factor is made, the years that data is compared with, and definitions."""
    assert [each for each in claims(answer, printed("41.5741"), code={1: code}) if not each.supported] == []


@pytest.mark.parametrize("answer", ["The wettest year was 2031.", "Since 1987 it rains.", "44 orders", "44/12 of them"])
def test_what_no_computation_is_told_is_a_result(answer: str) -> None:
    """A year that the code has not, and numbers of which nothing is made."""
    code = "R = 45 / 12\nprint(frame.filter(pl.col('y') >= 2031))"
    assert any(not each.supported for each in claims(answer, printed("7.5"), code={1: code}))


@pytest.mark.parametrize(("answer", "output"), [("20°", "['Tilt (deg):,20', 'x']"), ("43 of 100", "0.4264")])
def test_numbers_are_found_as_others_write_them(answer: str, output: str) -> None:
    """Right behind a comma; as so many of a hundred."""
    assert [each.supported for each in claims(answer, printed(output), code={1: "print(frame)"})] == [True]


def test_a_file_whose_name_has_spaces_claims_nothing() -> None:
    """Also in brackets; but what else has its numbers does."""
    answer = "By the IEC list (IS IEC 60079-20-1 2010.tsv) it is 126, and not 497."
    found = claims(answer, printed("126"), code={1: "print(frame)"}, names=["IS IEC 60079-20-1 2010.tsv"])
    assert [(each.text, each.supported) for each in found] == [("126", True), ("497", False)]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("3 of 100 files are broken.", [("100", False)]),
        ("17 of 100 **files** are broken.", [("17", True), ("100", False)]),
        ("17 out of 100\nfiles are broken.", [("17", True), ("100", False)]),
        ("17 of every 100 files are broken.", [("17 %", True)]),
        ("It is 17 of 100.\n\nFiles are broken.", [("17 %", True)]),
        ("| 17 in 100 | files |", [("17 %", True)]),
    ],
)
def test_so_many_of_a_hundred_are_a_rate_only_where_no_things_are_counted(
    answer: str, wanted: list[tuple[str, bool]]
) -> None:
    """Of 250 rows, no output shows a hundred."""
    found = claims(answer, printed("rows 250, missing 17"), code={1: "print(frame)"})
    assert [(each.text, each.supported) for each in found] == wanted


@pytest.mark.parametrize("names", [["Area 1", "Area 12 b"], ["Area 12 b", "Area 1"]])
def test_a_name_is_taken_out_as_whole_words(names: list[str]) -> None:
    """In any order; one of numbers alone would hide results."""
    answer = "Area 123 has 41 rows, Area 12 b has 42, Area 1 has 43 and 51 55."
    found = claims(answer, {}, names=[*names, "51 55"])
    assert [each.text for each in found] == ["123", "41", "42", "43", "51", "55"]


@pytest.mark.parametrize(
    "names", [[f"a {each}" for each in range(20_000)], ["A " * each + "B" for each in range(1, 127)]]
)
def test_thousands_of_names_take_no_time(names: list[str]) -> None:
    """They are looked for in one pass: it was one for each name."""
    answer = (" ".join(names) if len(names) > 1_000 else "A " * 50_000)[:MAX_ANSWER]
    started = time.process_time()
    assert claims(answer, {}, names=names) == []
    assert time.process_time() - started < 50 * machine.pace() + 1


def test_empty_lines_are_read_once() -> None:
    """Whoever writes code can write very many of them."""
    code = {1: "\n" * 20_000 + "print(1)"}
    assert not machine.within(20, lambda: claims("It is 127.", printed("x"), code=code))[0].supported


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("There are twenty\nand\nfive, and 41.", ["25", "41"]),
        ("There are \u017fixteen, and 41.", ["41"]),
        ("The twenty-one-sided shape has 41.", ["41"]),
        ("One hundred twenty-firsts, and 41.", ["about 100", "41"]),
        ("Wages per 1.0005 are 41.", ["1.0005", "41"]),
    ],
)
def test_numbers_in_words_end_where_the_words_do(answer: str, wanted: list[str]) -> None:
    """Whatever white space, letters or hyphens stand between and behind them."""
    assert [each.text for each in claims(answer, printed("x"))] == [each.removeprefix("about ") for each in wanted]


@pytest.mark.parametrize(
    "answer",
    ["```" + " " * 20_000 + "\n" * 20_000, f"`{'1' * 40_000}=`", f"per 1{'0' * 40_000}5", "one-" * 10_000 + "a"],
)
def test_an_answer_is_read_in_one_pass(answer: str) -> None:
    """However long a fence, a number in backticks, one behind `per` or one in words is."""
    machine.within(6, lambda: claims(answer, printed("x"), given=["x"]))
