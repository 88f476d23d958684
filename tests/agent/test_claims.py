"""Claims: which numbers of an answer stand in an output, and which stand nowhere."""

from __future__ import annotations

from random import Random

import pytest
from agent.stub import printed

from nbagent.agent.claims import claims
from nbagent.agent.numerals import numerals


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
        ("20.0", "20", "20"),
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
        ("451 per 1,000", "0.4512", "0.4512"),
        ("3 per 1000 people", "3.2", "3.2"),
        ("972.77 m EUR", "972774000", "972774000"),
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
        ("3.0 times as many", "3"),
        ("48 % of them", "Quill  48,491"),
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


def test_signs_that_are_no_numbers() -> None:
    """Versions, identifiers and addresses have none."""
    assert list(numerals("v1.2.3 abc12 12abc 192.168.0.1 x_1 3.11.7")) == []


def test_what_only_notes_say_is_marked() -> None:
    """A number of a note beside the data is none that an output shows; a year in it is no claim."""
    notes = ["The budget of 2023 was 6.9 million."]
    found = claims("Of 6.9 million in 2023, 42 are left, not 43.", printed("42"), notes=notes)
    assert [(each.text, each.supported, each.noted) for each in found] == [
        ("6.9 million", True, True),
        ("42", True, False),
        ("43", False, False),
    ]


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
