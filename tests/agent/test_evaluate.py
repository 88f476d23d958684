"""Answers that are looked at before the person sees them, against a provider that speaks the real protocol."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import machine
import pytest
from agent.stub import Cell, Kernel, Provider, Say, answer, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.claims import claims
from nbagent.agent.main_results import numbers_to_check
from nbagent.agent.middleware.evaluate import Evaluation, Numbers, reads_several
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.names import reused
from nbagent.agent.ports import Evidence
from nbagent.agent.providers.models import open_model
from nbagent.agent.providers.replay import read_replies
from nbagent.agent.turn import Turn
from nbagent.core.budget import Budget
from nbagent.core.errors import SandboxError
from nbagent.core.events import Claim, ModelReplied

QUESTION = "How many rows?"


def agent_of(
    name: str,
    kernel: Kernel,
    outputs: list[str],
    *,
    record: Path | None = None,
    rounds: int = 2,
    checks: Callable[[Turn], Awaitable[bool]] | None = None,
) -> Agent:
    """An agent whose answers are looked at, where cells have printed this."""

    async def look(text: str, _: Turn) -> Sequence[Claim]:
        printed = {at: [{"output_type": "stream", "text": each}] for at, each in enumerate(outputs, start=1)}
        return claims(text, printed, given=[QUESTION])

    model = open_model(name, record=record)
    evaluation = Evaluation(model, look, rounds=rounds, checks=checks)
    spending = Spending(Budget(steps=6))
    return build_agent(model, kernel, system_prompt="You test.", spending=spending, evaluation=evaluation, claims=look)


async def ask(agent: Agent) -> tuple[str, list[ModelReplied]]:
    """Ask, and gather the events."""
    replies: list[ModelReplied] = []
    return (await answer(agent, QUESTION, on_reply=replies.append, turn=1)).text, replies


async def test_an_answer_that_stands_costs_nothing(provider: Provider, kernel: Kernel) -> None:
    """One call, and nothing is sent after it."""
    provider.say(Say(text="There are 150 rows."))
    text, replies = await ask(agent_of("openai:gpt-4.1", kernel, ["150"]))
    assert text == "There are 150 rows."
    assert len(replies) == len(provider.requests) == 1


async def test_an_answer_without_a_cell_is_sent_back(provider: Provider, kernel: Kernel) -> None:
    """The numbers are named; what the model says then is the answer, and the first one is only in the log."""
    provider.say(
        Say(text="There are 142 rows in 7 tables, 99.5 % of them new."),
        Say(calls=(python("print(150)"),)),
        Say(text="There are 150 rows."),
    )
    text, replies = await ask(agent_of("openai:gpt-4.1", kernel, [], rounds=1))
    assert text == "There are 150 rows."
    assert kernel.codes == ["print(150)"]
    assert [reply.text.strip() for reply in replies if reply.text] == [
        "There are 142 rows in 7 tables, 99.5 % of them new.",
        "There are 150 rows.",
    ]
    asked = provider.requests[1]["messages"][-1]
    assert asked["role"] == "user"
    assert "142, 99.5 %." in asked["content"]
    assert "general knowledge" in asked["content"]


async def test_only_twice(provider: Provider, kernel: Kernel) -> None:
    """What is sent in place of an answer is looked at too; a model that insists has its way, and the person is told."""
    provider.say(Say(text="142 rows"), Say(text="143 rows, really"), Say(text="144 rows, certainly"))
    text, _ = await ask(agent_of("openai:gpt-4.1", kernel, []))
    assert text == "144 rows, certainly"
    assert len(provider.requests) == 3
    assert "143." in provider.requests[2]["messages"][-1]["content"]


async def test_the_same_is_not_said_twice(provider: Provider, kernel: Kernel) -> None:
    """Where nothing has changed, nothing would change the next time either."""
    provider.say(Say(text="142 rows"), Say(text="It is 142 rows."))
    text, _ = await ask(agent_of("openai:gpt-4.1", kernel, []))
    assert text == "It is 142 rows."
    assert len(provider.requests) == 2


async def test_what_would_help_is_said_of_a_number_that_the_code_has(provider: Provider, kernel: Kernel) -> None:
    """In which cell it was seen, and what the code has; another cell that shows it so is told, too."""
    shown: dict[int, Any] = {1: [{"output_type": "stream", "text": "2008 3"}]}
    code = {1: "print(df.select(pl.lit(2008), pl.len()))", 2: "year = 2008\nprint(year, df.height)"}

    async def look(text: str, _: Turn) -> Sequence[Claim]:
        return claims(text, shown, code={each: code[each] for each in shown})

    model = open_model("openai:gpt-4.1")
    evaluation, spending = Evaluation(model, look), Spending(Budget(steps=6))
    agent = build_agent(model, kernel, system_prompt="You test.", spending=spending, evaluation=evaluation, claims=look)
    provider.say(Say(text="In 2008, 77 of them."), Say(text="It was 2008."), Say(text="In 2008."))
    asking = asyncio.create_task(ask(agent))
    while len(provider.requests) < 2:
        await asyncio.sleep(0.01)
    shown[2] = shown[1]
    await asking
    first, second = (each["messages"][-1]["content"] for each in provider.requests[1:])
    assert "These numbers stand in no output of a cell: 77. These seem" in first
    assert "2008 (cell 1; code has '2008')" in first
    assert "no output of a cell" not in second
    assert "nor uses a variable made from them" in second


async def test_each_question_has_its_own_look(provider: Provider, kernel: Kernel) -> None:
    """What was sent back in one turn doesn't count in the next."""
    agent = agent_of("openai:gpt-4.1", kernel, [])
    provider.say(Say(text="142 rows"), Say(text="I can't tell."), Say(text="143 rows"), Say(text="I don't know."))
    assert (await ask(agent))[0] == "I can't tell."
    assert (await ask(agent))[0] == "I don't know."
    assert len(provider.requests) == 4


async def test_a_replay_is_as_it_was_recorded(provider: Provider, kernel: Kernel, tmp_path: Path) -> None:
    """What came after an answer was sent back is marked, and comes again; a replay by hand is never asked twice."""
    file = tmp_path / "r.jsonl"
    provider.say(Say(text="142 rows"), Say(text="I can't tell."))
    await ask(agent_of("openai:gpt-4.1", kernel, [], record=file))
    assert [reply.again for reply in read_replies(file)] == [False, True]
    text, replies = await ask(agent_of(f"replay:{file}", kernel, []))
    assert text == "I can't tell."
    assert len(replies) == 2
    by_hand = tmp_path / "h.jsonl"
    by_hand.write_text("".join(json.dumps({"content": each}) + "\n" for each in ("142 rows", "Next")))
    assert (await ask(agent_of(f"replay:{by_hand}", kernel, [])))[0] == "142 rows"


@pytest.mark.parametrize("said", ["The same.", "the same", "**All the same.**"])
async def test_a_checked_answer_need_not_be_written_again(provider: Provider, kernel: Kernel, said: str) -> None:
    """Where not all numbers are found by their text, the model says that the same has come out."""

    async def always(_: Turn) -> bool:
        return True

    agent = agent_of("openai:gpt-4.1", kernel, ["150"], checks=always)
    provider.say(Say(text="There are 150 rows."), Say(calls=(python("print(150)"),)), Say(text=said))
    turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
    found = await agent.answer(QUESTION, turn=turn)
    assert (found.text, found.success) == ("There are 150 rows.", True)
    assert found.check is not None
    assert not found.check.changed
    assert "reply `The same.`" in provider.requests[1]["messages"][-1]["content"]


async def test_a_check_without_a_cell_is_asked_for_once_more(provider: Provider, kernel: Kernel) -> None:
    """A model may say that the same has come out of nothing; who insists has its way."""

    async def always(_: Turn) -> bool:
        return True

    for insists in (False, True):
        before = len(provider.requests)
        agent = agent_of("openai:gpt-4.1", kernel, ["150"], checks=always)
        provider.say(Say(text="There are 150 rows."), Say(text="The same."))
        provider.say(*(() if insists else (Say(calls=(python("print(150)"),)),)), Say(text="The same."))
        turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
        found = await agent.answer(QUESTION, turn=turn)
        assert found.text == "There are 150 rows."
        asked = provider.requests[before + 2]["messages"][-1]["content"]
        assert "No cell has run" in asked
        assert len(provider.requests) - before == 4 - insists


def session_of(printed: dict[int, str]) -> Any:
    """A session whose cells have printed this."""
    return SimpleNamespace(
        evidence=lambda: Evidence(
            outputs={cell: [{"output_type": "stream", "text": each}] for cell, each in printed.items()},
            given=(),
            code={},
            has_data=True,
        )
    )


async def test_a_check_that_corrects_itself_needs_no_more_words() -> None:
    """Where its last cell shows all numbers; after an assertion that failed, the model says which holds."""
    printed = {1: "51", 2: "50", 3: "51"}
    session = session_of(printed)
    model: Any = None
    reads = "print(pl.read_csv('a.csv').height)"
    for last, status, code, is_found in (
        ("51", "ok", reads, True),
        ("52", "ok", reads, False),
        ("51", "error", reads, False),
        ("51", "ok", "print(rows)", False),
        ("51", "ok", f"{reads}\nprint(50, 51)", False),
    ):
        printed[3] = last
        turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
        turn.begin_check("They are 51.", numbers=["51"])
        failed = [{"output_type": "error", "ename": "AssertionError", "evalue": "50"}]
        turn.cells += [
            Cell(cell=2, status=status, outputs=failed if status == "error" else []),
            Cell(cell=3, code=code),
        ]
        assert await Evaluation(model, Numbers(session).checkable)._is_found_again(turn) is is_found


@pytest.mark.parametrize("error", [None, SandboxError("The kernel is gone.")])
async def test_an_answer_outlives_its_check(provider: Provider, kernel: Kernel, error: SandboxError | None) -> None:
    """Who stops the check, or loses the kernel in it, has the answer as a person sees it, and not as changed."""

    async def always(_: Turn) -> bool:
        return True

    agent = agent_of("openai:gpt-4.1", kernel, ["150"], checks=always)
    kernel.hangs, kernel.raises = "" if error else "again", error
    turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
    provider.say(Say(text="There are 150 rows. ![them](a.png)"), Say(calls=(python("'again'"),)))
    asking = asyncio.create_task(agent.answer(QUESTION, turn=turn))
    if error is None:
        await kernel.hanging.wait()
        asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled() is (error is None)
    assert turn.answer is not None
    assert (turn.answer.text, turn.answer.success) == ("There are 150 rows.", True)
    assert turn.answer.check is not None
    assert not turn.answer.check.changed


async def test_what_a_check_found_is_told_apart() -> None:
    """Found again, only found before, only found by the check; a cell that failed has found nothing again."""
    printed = {1: "210 77", 2: "210 225", 3: "77"}
    session = session_of(printed)
    numbers, text = Numbers(session), "It is 210, 225 and 77."
    turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
    turn.begin_check(text)
    turn.cells += [Cell(cell=2), Cell(cell=3, status="error")]
    check = turn.end(text, ended=True, claims=await numbers.claims(text, turn)).check
    assert check is not None
    assert (check.again, check.alone, check.new) == (["210"], ["77"], ["225"])
    assert check.told.startswith(
        "Checked in part: cell 2, 3 found 210 again; did not find 77; was the first to find 225."
    )
    # A parameter that only the check shows is no result that it was asked for.
    turn = Turn(1, lambda _: None, cells=[Cell(cell=1)])
    turn.begin_check(text, numbers=["210"])
    turn.cells += [Cell(cell=2)]
    model: Any = None
    assert await Evaluation(model, numbers.checkable)._is_found_again(turn)
    printed[1] = "5"
    assert not (await numbers.claims(text, Turn(2, lambda _: None)))[2].again


async def test_what_a_check_finds_may_stand_in_code_before_it() -> None:
    """A number that a cell has shown, and the next one has as a constant, is no invention of that code."""
    code = {
        1: "import polars as pl\nprint(pl.read_csv('a.csv')['n'].sum())",
        2: "TOTAL = 44587\nprint(TOTAL / pl.read_csv('b.csv')['n'].sum())",
        3: "import csv\nprint(sum(int(r['n']) for r in csv.DictReader(open('a.csv'))))",
    }
    printed = {1: "44587", 2: "0.21016", 3: "44587"}
    session: Any = SimpleNamespace(
        evidence=lambda: Evidence(
            outputs={cell: [{"output_type": "stream", "text": each}] for cell, each in printed.items()},
            given=(),
            code=code,
            has_data=True,
        )
    )
    turn = Turn(1, lambda _: None, cells=[Cell(cell=1), Cell(cell=2)])
    turn.begin_check("They are 44,587.")
    turn.cells += [Cell(cell=3)]
    [claim] = await Numbers(session).claims("They are 44,587.", turn)
    assert (claim.cell, claim.again) == (1, 3)


def test_results_of_a_long_answer_are_looked_for_in_no_time() -> None:
    """It is done on the event loop: 500 results, and 1,700 paragraphs that name none of them."""
    found = [Claim(text=str(1000 + each), cell=1, output=0) for each in range(500)]
    answer = "\n\n".join(f"{'word ' * 9}{7000 + each}" for each in range(1700))
    assert machine.within(10, lambda: numbers_to_check(found, answer)) == []


@pytest.mark.parametrize(
    ("answer", "checked"),
    [
        ("It is = 4: 1,483.65 of 12.", ["4", "1,483.65", "12"]),
        ("He had 1,483.65 of 12. Another 4.", ["1,483.65", "12"]),
        ("It is 4.", ["4"]),
        ("Of each list:\n- 1990: 170\n- 2000: 406\n- 2010: 113", ["170", "406", "113"]),
        ("Votto: 0.424 of 170 with at least 400 at bats, as 1B (salaries in $1000s).", ["0.424", "170"]),
        ("Of those aged 50-64, 22.5 % smoke; per 100 ml it is 406, by the limit of CFU/100 ml.", ["22.5 %", "406"]),
        ("113 are missing (-999).\n\nA-01: 16 of 4,380.\n\nAlternative: 97.", ["113", "16", "4,380"]),
        ("113 of 4,380.\n\nA-01: 16.\n\nIn passing: 97.", ["113", "4,380", "16"]),
        ("In 2013:\n\nIt were 1,205 flights.", ["1,205"]),
        ("1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 12, 16", ["1.5", "2.5", "3.5", "4.5", "5.5", "6.5", "7.5", "12"]),
        ("To 113 (A: 16, B: 97).\n\nThe mean is 22.5 %.", ["113", "22.5 %"]),
        ("To 113 (of 97 bats) or 406 (of 16 days).", ["113", "406", "97"]),
        ("(113)", ["113"]),
        ("It is 113.\n\n16 of them have 97 days from 406 on; all 170 files are read.", ["113"]),
        ("It is 113.\n\nOf **16** days, 97.\n\n- 406", ["113", "16"]),
        ("It is 113 of all 16 files.\n\n- North: 97\n- South: 4", ["113", "97", "4"]),
        ("As said:\n- North: 97 (2 days)\n- South: 4, as 5 others", ["97", "4", "5"]),
        ("It is 113 (version 0009).", ["113"]),
        ('It is 113 of 4,380 (sheet "20 land", `97 m`); 60 - 69 and 80 and Over.', ["113", "4,380"]),
        ("113 fewer a year than 16: -113.", ["113", "16"]),
        ("113 in table 16.", ["113"]),
        ("113 differ by 1.5 points or more.", ["113"]),
        ("Customer id 97 bought 113, station_id: 16 and #4 none.", ["113"]),
        ("The code 16 has 113 rows; ids 4, 12 and 97 have none.", ["113"]),
        ("It is 113 in all. Of them, Ulm has only 4, and 5 are new: **6** of Bonn.", ["113", "4", "6"]),
        ("It is 4,380. 12 of them are new; Ulm has 5.", ["4,380", "12", "5"]),
        ("It is 4,380. Next come Ulm and Bonn with 12 each.\n\n113 bats are used; 170 were left.", ["4,380", "113"]),
        ("It is 4,380.\n\nOf these, 113 bats were used in 170 days.", ["4,380", "113"]),
        ("1. Ulm: 113\n2. Bonn: 170 (2 to 3 May)\n\nThe next, Hof, has 12.", ["113", "170"]),
        ("Ulm has 113, followed by Bonn with 12. The next year it was 170.", ["113", "170"]),
        ("Bonn is ahead of Ulm with 170.", ["170"]),
        ("Bonn (170) is followed by Ulm (113).", ["170"]),
        ("The counts are as follows: Ulm 113, Bonn 170. The next has 12.", ["113", "170"]),
        ("It follows a curve with a mean of 113.", ["113"]),
        ("113 have EPSG 406, 97, 16; written as (e.g. 1,483.65 is 1483) in 170.", ["113", "170"]),
        ("None.", []),
    ],
)
def test_a_check_is_asked_for_the_results_in_the_first_paragraphs(answer: str, checked: list[str]) -> None:
    """Not for numbers of the question, years, parts of units, ranges and names, nor for what is said beside."""
    texts = "1,483.65 12 4 0.424 170 400 1B 1000s 50 64 22.5_% 100 406 113 16 4,380 97 2013 1,205 0009".split()
    texts += "-113 20 60 69 80 1.5 2.5 3.5 4.5 5.5 6.5 7.5 5 6".split()
    shown = [Claim(text=each.replace("_", "\u00a0"), cell=1) for each in texts]
    found = sorted(shown, key=lambda each: answer.find(" ".join(each.text.split())))
    asked = numbers_to_check(
        found, answer, "Who had the best average with at least 400 at bats?", ["60 - 69", "80 and Over"]
    )
    assert [" ".join(each.text.split()) for each in asked] == checked


@pytest.mark.parametrize("answer", ["per 7.25\n\n" * 5_000, "per 7.25, per 8.25 " * 2_500])
def test_the_numbers_of_a_long_answer_are_chosen_at_once(answer: str) -> None:
    """In one pass, whatever the number of claims: it was one for each of them in each paragraph."""
    found = [Claim(text=f"{each}.25", cell=1) for each in range(500)]
    started = time.process_time()
    assert numbers_to_check(found, answer) == []
    assert time.process_time() - started < 10 * machine.pace() + 1


def test_a_number_like_a_year_that_counts_things_is_computed_again() -> None:
    """And a derived one, which no cell has computed once."""
    found = [Claim(text="2013", cell=1), Claim(text="1916", cell=1), Claim(text="8.3 %", derived="1916 / 23002")]
    asked = numbers_to_check(found, "In 2013, 1916 were cancelled, 8.3 %.", "How many?")
    assert [claim.text for claim in asked] == ["1916", "8.3 %"]


def test_a_year_that_is_asked_for_is_computed_again() -> None:
    """It is the answer; in an answer on something else it says of when that is."""
    found = [Claim(text=each, cell=1) for each in ("2040", "11.3")]
    asked = [numbers_to_check(found, "It peaks in 2040 at 11.3.", each) for each in ("In which year?", "How high?")]
    assert [[claim.text for claim in each] for each in asked] == [["2040", "11.3"], ["11.3"]]


@pytest.mark.parametrize(
    ("code", "several"),
    [
        ("pl.read_csv('es.csv').join(pl.read_csv('data/sales.csv'))", True),
        ("pl.read_csv('sales.csv').height", False),
        ("!wc -l sales.csv", False),
        ("sum(len(pl.read_csv(f'sales-{n}.csv')) for n in range(3))", True),
        ("len(glob('*.csv'))", True),
        ("[pl.read_csv(f'2022-{month:02}.csv') for month in (1, 2)]", True),
        ("2**64 * .5", False),
        ("df.height", True),
    ],
)
async def test_an_answer_from_several_files_is_known_by_its_code(code: str, several: bool) -> None:
    """By the names of files, by calls that list them or read others; code that reads nothing is not about files."""
    turn = Turn(1, lambda _: None, cells=[Cell(cell=2, code=code)])
    ran = {1: "df = pl.read_csv('es.csv').join(pl.read_csv('sales.csv'))", 2: code}
    assert await reads_several(turn, ["/tmp/data/es.csv", "/tmp/data/sales.csv"], ran) is several


@pytest.mark.parametrize("text", ["No numbers", "", "p < 0.05"])
async def test_nothing_to_look_for(provider: Provider, kernel: Kernel, text: str) -> None:
    """An answer without claims is the answer; an empty one is asked for again as ever."""
    provider.say(Say(text=text), Say(text="Then this"))
    found, _ = await ask(agent_of("openai:gpt-4.1", kernel, []))
    assert found == (text or "Then this")


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import csv\nrows = list(csv.reader(open('a.csv')))\nprint(len(rows))", []),
        ("print(df.height)", ["df"]),
        ("df = df.drop_nulls()\nclean(df)", ["df", "clean"]),
        ("df = pl.read_csv('a.csv')\nprint([df for df in df.columns])", []),
        ("def clean(df):\n    return df.height\nprint(clean(pl.read_csv('a.csv')))", []),
        ("for df in [1]:\n    total = 0\n    total += df", []),
        ("total += 1", ["total"]),
        ("%time df.sum()", []),
        ("no python", []),
    ],
)
def test_what_a_check_takes_from_earlier_cells_is_found(code: str, names: list[str]) -> None:
    """Variables and functions on which it depends; not modules, nor what it makes itself."""
    earlier = "import polars as pl\ndf = pl.read_csv('a.csv')\ndef clean(x):\n    return x\ntotal, _ = 1, 2"
    assert reused([code], [earlier]) == names
