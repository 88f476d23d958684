"""Budgets as values."""

from __future__ import annotations

import pytest

from nbagent.core.budget import DEFAULT_STEPS, Budget, Spent, dollars
from nbagent.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("0.50usd", Budget(money=0.5)),
        ("$2", Budget(money=2)),
        (".5 dollars", Budget(money=0.5)),
        ("200k tokens", Budget(tokens=200_000)),
        ("2M tok", Budget(tokens=2_000_000)),
        ("1_500 tokens", Budget(tokens=1500)),
        ("10min", Budget(minutes=10)),
        ("10m", Budget(minutes=10)),
        ("1.5 hours", Budget(minutes=90)),
        ("20 steps", Budget(steps=20)),
        ("1 call", Budget(steps=1)),
        ("0.5 USD, 200k tokens,10 min , 5 steps", Budget(money=0.5, tokens=200_000, minutes=10, steps=5)),
        ("", Budget(steps=DEFAULT_STEPS)),
    ],
)
def test_what_a_person_writes_is_a_budget(text: str, budget: Budget) -> None:
    """Amounts with their units, in any order; the steps have a default."""
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0.50", "'0.50' is no part of a budget. Write amounts with their units"),
        ("1,5usd", "'1' is no part"),
        ("-1usd", "no part"),
        ("0usd", "A budget of 0 US dollars is none"),
        ("0 steps", "A budget of 0 calls is none"),
        ("2.5 steps", "no whole number"),
        ("10k usd", "no part"),
        ("$5 tokens", "no part"),
        ("$20k usd", "no part"),
        ("0.5 eur", "no part"),
        ("nan usd", "no part"),
        ("1e9 usd", "no part"),
        ("10min, 3h", "names its minutes twice"),
        ("99999999999usd", "is none"),
    ],
)
def test_another_form_is_told(text: str, says: str) -> None:
    """In one sentence, with the mend."""
    with pytest.raises(UsageError, match=says):
        Budget.parse(text)


def test_what_is_not_named_stays_as_it_was() -> None:
    """An option for minutes doesn't lift the settings' bound on money."""
    own = Budget.parse("2usd, 50 steps")
    assert Budget.parse("10min, 1usd", base=own) == Budget(money=1, minutes=10, steps=50)


def test_what_is_gone_is_named_with_how_much_it_was() -> None:
    """Each kind at its bound, and none without one."""
    budget = Budget(money=0.5, tokens=1000, minutes=10, steps=30)
    spent = Spent(money=0.523, tokens=999, minutes=10.04, steps=30)
    assert budget.used_up(spent) == ["money", "minutes", "steps"]
    told = "$0.52 of $0.50 and 10 of 10 minutes and 30 of 30 calls of the model"
    assert budget.told(budget.used_up(spent), spent) == told
    assert Budget(steps=None).used_up(Spent(money=99, tokens=10**9, minutes=1e6, steps=10**6)) == []


def test_what_is_not_known_is_not_nothing() -> None:
    """Where a price or the tokens aren't told, nothing is left of the budget."""
    unknown = Spent(money=None, tokens=None)
    budget = Budget(money=0.5, tokens=1000)
    assert budget.used_up(unknown) == ["money", "tokens"]
    assert budget.told(["money"], unknown) == "an unknown part of $0.50"
    assert budget.with_more(["money", "tokens"], budget, spent=unknown) == Budget()


def test_as_much_again_is_counted_from_what_is_spent() -> None:
    """A call that went far beyond the bound doesn't eat what was granted for it; other kinds stay."""
    budget = Budget(money=0.5, tokens=1000, steps=3)
    more = budget.with_more(["money", "steps"], budget, spent=Spent(money=0.75, tokens=10, steps=3))
    assert more == Budget(money=1.25, tokens=1000, steps=6)


def test_money_is_shown_with_digits_that_mean_something() -> None:
    """Cents from a tenth of a dollar on."""
    assert [dollars(each) for each in (1234.5, 0.5, 0.00312, 0.00001, 0.0)] == [
        *("$1,234.50", "$0.50", "$0.0031", "less than $0.0001", "$0.00")
    ]
    assert str(Budget(money=1, tokens=2000, minutes=0.5)) == "$1.00, 2,000 tokens, 0.5 minutes, 30 calls of the model"
