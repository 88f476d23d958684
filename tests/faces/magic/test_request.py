"""What is typed after `%agent`, taken apart."""

from __future__ import annotations

import pytest

from nbagent.core.errors import UsageError
from nbagent.faces.magic.request import FLAGS, VERBS, mentioned, parse, usage


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("Which month lost the most?", "Which month lost the most?"),
        ("What's in it, and 'why'?", "What's in it, and 'why'?"),
        ("  - a list, or -5 degrees?", "- a list, or -5 degrees?"),
        ("-- --model is what?", "--model is what?"),
        ("status of the orders by month", "status of the orders by month"),
        ("export the table to Excel", "export the table to Excel"),
        ("help me understand df", "help me understand df"),
        ("fix the nulls", "fix the nulls"),
        ("{x} and $y stay", "{x} and $y stay"),
    ],
)
def test_a_question_is_taken_as_it_was_typed(line: str, question: str) -> None:
    request = parse(line)
    assert (request.verb, request.question) == ("", question)


@pytest.mark.parametrize(
    ("line", "verb", "argument"),
    [
        ("status", "status", ""),
        ("export out.ipynb", "export", "out.ipynb"),
        ("export 'my report.ipynb'", "export", "my report.ipynb"),
        ("insert", "insert", ""),
        ("insert all", "insert", "all"),
        ("model", "model", ""),
        ("model openai:gpt-5.6", "model", "openai:gpt-5.6"),
    ],
)
def test_a_subcommand_has_one_argument_at_most(line: str, verb: str, argument: str) -> None:
    request = parse(line)
    assert (request.verb, request.argument, request.question) == (verb, argument, "")


def test_a_cell_is_always_a_question() -> None:
    assert parse("", "status\n").question == "status"
    assert parse("-i df and then", "more\nlines").question == "and then\nmore\nlines"


def test_options_come_before_the_question() -> None:
    request = parse(
        "-i df,prices -i n -o result --model openai:m --data 'my file.csv' --data b.csv --max-mb=2000 Plot it -i x"
    )
    assert (request.give, request.take, request.max_mb) == (["df", "prices", "n"], ["result"], 2000)
    assert request.options == {"model": "openai:m", "data": ["my file.csv", "b.csv"]}
    assert request.question == "Plot it -i x"


def test_an_at_names_a_variable() -> None:
    assert mentioned("plot @df and @prices, mail a@b.org, @df again") == ["df", "prices"]
    assert parse("-i n plot @df").give == ["n", "df"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "empty"),
        ("-i df", "empty"),
        ("--modle x what", "--model"),
        ("--model", "needs a value"),
        ("-i 3d what", "no name of a variable"),
        ("--max-mb many what", "no number"),
        ("-i df status", "takes no variables"),
    ],
)
def test_what_is_wrong_is_told_with_its_mend(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        parse(line)
    assert raised.value.mend


def test_the_help_has_all_that_can_be_typed() -> None:
    text = usage()
    assert all(f"%agent {verb}" in text for verb in VERBS)
    assert all(f"\n{flag} " in text for flag in FLAGS)
    assert max(map(len, text.splitlines())) < 110
