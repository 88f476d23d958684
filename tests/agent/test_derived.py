"""Numbers that no output shows, but that follow from shown ones: marked with how, and never by chance alone."""

from __future__ import annotations

from random import Random

import machine
import pytest
from agent.stub import printed

from nbagent.agent.claims import claims
from nbagent.agent.prose import sentences
from nbagent.core.events import doubts

TABLE = "North  23.15  512\nSouth  19.40  120\nWest   31.02  377\nEast   27.90  244\n"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("North is 19.3 % higher than South.", "19.3 % = 23.15 / 19.40 − 1 (cell 1)"),
        ("South lies 16 % below North.", "16 % = 1 − 19.40 / 23.15 (cell 1)"),
        ("North and South differ by 3.75.", "3.75 = 23.15 − 19.40 (cell 1)"),
        ("North has 40.9 % of all rows.", "40.9 % = 512 / (512 + … + 244) (cell 1)"),
        ("In all there are 1,253 rows.", "1,253 = 512 + … + 244 (cell 1)"),
        ("North, West and East have 1,133 together.", "1,133 = 512 + 377 + 244 (cell 1)"),
        ("West has 3.1 times as many rows as South.", "3.1 = 377 / 120 (cell 1)"),
        ("The mean of the four is 25.37.", "25.37 = (23.15 + … + 27.90) / 4 (cell 1)"),
        ("The highest and the lowest are 11.62 apart.", "11.62 = 31.02 − 19.40 (cell 1)"),
        ("West (31.02) against East (27.90): 3.12 more.", "3.12 = 31.02 − 27.90 (cell 1)"),
        ("West and North make up 71 % of all rows.", "71 % = (512 + 377) / (512 + … + 244) (cell 1)"),
        ("East is 10 % below West.", "10 % = 1 − 27.90 / 31.02 (cell 1)"),
        ("The first three have 1,009 rows.", "1,009 = 512 + 120 + 377 (cell 1)"),
        ("East (244) is 268 behind North.", "268 = 512 − 244 (cell 1)"),
        ("In total 3 of them have more than 200 rows.", "200 = a limit of 3 among 4 from 512 to 244 (cell 1)"),
    ],
)
def test_one_step_of_arithmetic_is_marked(answer: str, told: str) -> None:
    """It is supported, and a reader is told how it follows and that no cell computed it."""
    found = claims(answer, printed(TABLE), code={1: "print(frame)"})
    assert [each.text for each in found if not each.supported] == []
    assert doubts(found) == [f"Derived, computed by no cell: {told}."]


@pytest.mark.parametrize(
    ("answer", "output", "told"),
    [
        ("At most 53.5 °F.", "11.93", "53.5 = 11.93 °C in °F"),
        ("In all 514.6 miles.", "828158", "514.6 = 828158 / 1,609.34"),
        ("That is 4,782.4 m³.", "4782397.81", "4,782.4 = 4782397.81 / 1,000"),
        ("Das sind 32,6 Stunden.", "1957", "32,6 = 1957 / 60"),
        ("The coefficient of variation is 0.53.", "mean 54.68\nstd 29.04\nmin 16.38", "0.53 = 29.04 / 54.68"),
        ("The range is 95.1.", "min     5.2\n10%     7.7\n90%    81.4\nmax   100.3", "95.1 = 100.3 − 5.2"),
        ("That is 1,019,952 acres.", "412760.4", "1,019,952 = 412760.4 × 2.47105"),
        ("r = 0.06, so R² = 0.004.", "0.06351", "0.004 = 0.06351²"),
        (
            "Faro has 29.9 % of all.",
            "{'n': 9, 'by': {'Faro': 150, 'Hull': 189, 'Vigo': 163}}",
            "29.9 % = 150 / (150 + 189 + 163)",
        ),
        ("From 2007 to 2017 there are 11 years.", "2007 14.5\n2017 19.9", "11 = 2017 − 2007 + 1"),
        ("It is 60.96 cm, or 24.0 in (inches).", "60.96", "24.0 = 60.96 / 2.54"),
        ("It took 12 years 3 mos.", "147", "12 = 147 mos"),
    ],
)
def test_what_a_sentence_asks_for_is_derived(answer: str, output: str, told: str) -> None:
    """Other units, ratios and ranges by their names, and years that are counted from the first to the last."""
    found = claims(answer, printed(output), code={1: "print(frame)"})
    assert doubts(found) == [f"Derived, computed by no cell: {told} (cell 1)."]


@pytest.mark.parametrize("unit", ["mos", "hs", "mec", "ways"])
def test_any_word_behind_a_span_of_time_leaves_the_numbers_checked(unit: str) -> None:
    """Also one that begins as a unit does."""
    found = claims(f"It took 2 years 37 {unit}, and 46.85 in all.", printed("512"), code={1: "print(frame)"})
    assert "46.85" in [each.text for each in found if not each.supported]


def test_what_an_item_says_is_said_of_no_other_item() -> None:
    """Also where an empty line parts them."""
    told = list(sentences("Of the towns:\n\n- 5 in all\n\n- 7 rose\n\n| wind | n |\n| -- | -- |\n| 3 | 4 |\n"))
    assert told == [
        ("- 5 in all", "Of the towns: - 5 in all"),
        ("- 7 rose", "Of the towns: - 7 rose"),
        ("| 3 | 4 |", "Of the towns: | wind | n |"),
    ]


def test_numbers_that_stand_alone_in_their_outputs_are_reckoned_with() -> None:
    """The largest one of a cell and the smallest one of another."""
    code = {1: "print(frame.max())", 2: "print(frame.min())"}
    [found] = claims("They span a range of 39607.08.", printed("43166.29", "3559.21"), code=code)
    assert (found.derived, found.sources) == ("43166.29 − 3559.21", (1, 2))


@pytest.mark.parametrize(
    "answer",
    [
        "North is 23.7 % higher than South.",
        "North has 41.9 % of all rows.",
        "In all there are 1,254 rows.",
        "4 % more.",
        "In total 2 of them have more than 200 rows.",
        "There were 392 outliers.",
        "Of 512 rows, 201.6 in total.",
    ],
)
def test_what_does_not_follow_is_missing(answer: str) -> None:
    """Or has so few digits that much else would follow as well."""
    found = claims(answer, printed(TABLE), code={1: "print(frame)"})
    assert any(not each.supported for each in found)


@pytest.mark.parametrize(
    ("answer", "derived"),
    [
        ("It rose by 12.4 % from 40.20 to 45.19.", ["12.4 %"]),
        ("It rose by 12.4 % from 45.19 to 40.20.", []),
        ("It fell from 45.19 to 40.20, by 4.99.", ["4.99"]),
        ("It fell from 40.20 to 45.19, by 4.99.", []),
        ("It fell from 45.19 to 40.20, then rose by 12.4 %.", ["12.4 %"]),
        ("Es sank von 40.20 auf 45.19, um 4.99.", []),
    ],
)
def test_a_change_goes_as_the_sentence_says(answer: str, derived: list[str]) -> None:
    found = claims(answer, printed("a 40.20 45.19\nb 17.3 11.9\n"), code={1: "print(frame)"})
    assert [each.text for each in found if each.derived] == derived


@pytest.mark.parametrize(
    "sentence",
    [
        "It fell from 2019 to 2020 by 11.0 %, to 40.20 from 45.19.",
        "Growth slowed from 45.19 to 40.20, by 4.99.",
        "The number of lost bags went from 40.20 to 45.19, by 4.99 more.",
        "Losses fell from -45.19 to -40.20, by 4.99.",
        "It fell from 2 hours to 90 minutes, and 45.19 is 12.4 % higher than 40.20.",
    ],
)
def test_only_a_verb_and_its_own_numbers_contradict_each_other(sentence: str) -> None:
    """Years, other units, numbers below zero and nouns say nothing of the direction."""
    found = claims(sentence, printed("a 40.20 45.19\nb 17.3 11.9\n"), code={1: "print(frame)"})
    assert any(each.derived for each in found)


def test_unlike_numbers_of_a_row_are_not_added_up() -> None:
    """A year, a count and a mean come to nothing together; the quarters of a year do."""
    for row, total, is_derived in (
        ("Ulm 2008 253 250", "2,511", False),
        ("Ulm 253 250.5 17.25", "520.75", False),
        ("Ulm 253 250 1048", "1,551", True),
    ):
        [found] = claims(f"All of Ulm come to {total} together.", printed(row), code={1: "print(frame)"})
        assert bool(found.derived) is is_derived, row


def test_a_number_that_code_has_made_up_is_nothing_to_reckon_with() -> None:
    """Neither alone nor with one of the data."""
    code = {1: "print(4821.7, 1133.2)", 2: "print(frame.x.sum())"}
    outputs = printed("4821.7 1133.2", "9120")
    for answer in ("The difference is 3688.5.", "It is 4298.3 more than that."):
        assert not claims(answer, outputs, code=code)[0].supported


def test_hardly_a_number_that_was_made_up_follows_by_chance() -> None:
    """Of invented ones at most a twentieth, also beside a large table; whatever follows is marked."""
    random = Random(20)  # noqa: S311 - the same numbers each time
    rows = "\n".join(f"k{at}  " + "  ".join(str(random.randint(100, 99_999)) for _ in range(8)) for at in range(20))
    derived = 0
    for number in range(600):
        value = random.choice(
            [f"{random.uniform(3, 95):.1f} %", str(random.randint(20, 999)), f"{random.uniform(2, 90):.2f}"]
        )
        said = random.choice(["It is {} more.", "This makes {} of all.", "k3 has {} in k5.", "The gap is {}."])
        found = claims(said.format(value), printed(rows if number % 2 else TABLE), code={1: "print(frame)"})
        derived += sum(bool(each.derived) for each in found)
    assert derived <= 600 * 0.05


def test_of_many_numbers_that_were_made_up_hardly_one_follows() -> None:
    """What may come out by chance is shared among all that are missing."""
    random = Random(21)  # noqa: S311 - the same numbers each time
    derived = 0
    for _ in range(30):
        pairs = [(random.choice(["North", "West"]), random.choice(["South", "East"])) for _ in range(20)]
        said = (f"{one} is {random.randint(10, 99)} % higher than {other}." for one, other in pairs)
        found = claims("\n".join(said), printed(TABLE), code={1: "print(frame)"})
        derived += sum(bool(each.derived) for each in found)
    assert derived <= 30 * 0.05


def test_a_span_of_several_units_follows_from_one_number() -> None:
    found = claims("It took 2 h 43 min 20 s.", printed("9800"), code={1: "print(frame.s.sum())"})
    assert {each.derived for each in found if each.text != "2"} == {"9800 s"}


def test_what_files_are_named_by_is_evidence_of_what_is_covered() -> None:
    """If cells read them, by name or by pattern."""
    names = [f"{year}_register.csv" for year in (1871, 1990, 2007)]
    answer = "From the registers of 1871 to 2007: 41.57."
    for code in ("pl.read_csv('*_register.csv')", "[open(f'{y}_register.csv') for y in years]", "os.listdir('.')"):
        found = claims(answer, printed("41.57"), code={1: f"print({code})"}, names=names)
        assert [each.text for each in found] == ["41.57"]
    for code in ("pl.read_csv('other.csv')", "pl.read_csv('*.parquet')"):
        found = claims(answer, printed("41.57"), code={1: f"print({code})"}, names=names)
        assert [each.text for each in found if not each.supported] == ["1871", "2007"]


@pytest.mark.parametrize("answer", ["Growth is 100 × (ratio − 1).", "100 times (ratio - 1)", "(ratio − 1) × 100"])
def test_the_hundred_of_a_percentage_is_no_claim(answer: str) -> None:
    assert claims(answer, printed("x")) == []
    assert [each.text for each in claims("It is 100 times more.", printed("x"))] == ["100"]


def test_much_to_reckon_with_takes_no_time() -> None:
    """Whatever answers and outputs there are, a bounded number of results is tried."""
    random = Random(7)  # noqa: S311 - the same numbers each time
    many = "\n".join(" ".join(str(random.randint(100, 10**6)) for _ in range(40)) for _ in range(400))
    answer = "North has " + " and ".join(f"{random.randint(1000, 10**6)} more" for _ in range(3_000))
    machine.within(60, lambda: claims(answer, printed(*[many] * 30), code={1: "print(frame)"}))
