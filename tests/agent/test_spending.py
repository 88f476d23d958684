"""Budgets of an agent, against a provider that speaks the real protocol."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from agent.stub import Kernel, Provider, Say, answer, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.reflexion import Reflexion
from nbagent.agent.middleware.spending import ENDED, Spending
from nbagent.agent.middleware.structured import Structured
from nbagent.agent.providers import failures
from nbagent.agent.providers.models import open_model
from nbagent.core.budget import Budget
from nbagent.core.events import Answer, ApprovalAsked, ModelFailed, ModelReplied, Usage
from nbagent.safety.approvals import Consent, Mode


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_DELAY", 0.01)


def agent_with(kernel: Kernel, budget: str, *, answers: list[str] | None = None) -> tuple[Agent, list[Any]]:
    """An agent with a budget, whose questions are answered one after the other; nobody is there without answers."""
    asked: list[Any] = []

    def emit(event: Any) -> None:
        asked.append(event)
        if isinstance(event, ApprovalAsked) and answers:
            consent.answer(event.id, answers.pop(0))  # type: ignore[arg-type]  # one of its words

    consent = Consent(Mode.NEVER_ASK, emit, attended=answers is not None, unattended="approve")
    model = open_model("openai:gpt-4.1")
    spent = Spending(Budget.parse(budget), models=[model], consent=consent)
    return build_agent(model, kernel, system_prompt="You test.", spending=spent), asked


async def ask(agent: Agent, question: str = "Go") -> Answer:
    """Ask a question."""
    return await answer(agent, question, turn=7)


STEP = Say(calls=(python("1"),), usage=(1000, 100))


@pytest.mark.parametrize(
    ("budget", "calls", "says"),
    [
        ("2000 tokens", 2, "2,200 of 2,000 tokens"),
        ("0.005usd", 2, "$0.0056 of $0.005"),
        ("3 steps", 3, "3 of 3 calls of the model"),
        ("3300 tokens, 3steps", 3, "3,300 of 3,300 tokens and 3 of 3 calls of the model"),
    ],
)
async def test_a_question_ends_where_nobody_grants_more(
    provider: Provider, kernel: Kernel, budget: str, calls: int, says: str
) -> None:
    """By a sentence that is true, after its last cell ran; `unattended="approve"` is no leave to spend more."""
    provider.say(*[STEP] * 5)
    agent, asked = agent_with(kernel, budget)
    found = await ask(agent)
    assert (found.success, found.text) == (False, ENDED.format(told=says))
    assert (len(provider.requests), len(kernel.codes), found.usage.calls) == (calls, calls, calls)
    assert [(each.kind, each.what, each.turn, each.rules) for each in asked[:1]] == [
        ("budget", f"this question has used {says}", 7, [])
    ]


async def test_the_conversation_goes_on_with_a_whole_budget(provider: Provider, kernel: Kernel) -> None:
    """The model knows that the turn before was stopped, and what its cells showed."""
    provider.say(STEP, STEP, Say(text="fresh"))
    agent, _ = agent_with(kernel, "2 steps")
    await ask(agent)
    found = await ask(agent, "And now?")
    assert (found.text, found.success) == ("fresh", True)
    contents = [message["content"] for message in provider.sent()]
    assert "[The turn was stopped here, before an answer.]" in contents
    assert contents.count("[result]\n1") == 2


async def test_a_person_grants_as_much_again(provider: Provider, kernel: Kernel) -> None:
    """Each time it is used up, until they don't."""
    provider.say(*[STEP] * 9)
    agent, asked = agent_with(kernel, "2 steps", answers=["approve", "approve", "reject"])
    found = await ask(agent)
    assert found.text == ENDED.format(told="6 of 6 calls of the model")
    questions = [each for each in asked if isinstance(each, ApprovalAsked)]
    assert [each.what.partition("used ")[2] for each in questions] == [
        f"{count} of {count} calls of the model" for count in (2, 4, 6)
    ]
    assert questions[0].note == (
        "Approved, it may use another 2 calls of the model; rejected, it ends here without an answer. "
        "The last call used 1,100 tokens and $0.0028."
    )


async def test_no_critic_is_paid_for_beyond_the_budget(provider: Provider, kernel: Kernel) -> None:
    """It is called ahead of the model's next call, and that is looked at before."""
    provider.say(Say(calls=(python("1 / 0"),)), Say(text="Don't."), Say(text="done"))
    model = open_model("openai:gpt-4.1")
    spending = Spending(Budget(steps=1), models=[model])
    reflexion = Reflexion(spending, critic=model)
    agent = build_agent(model, kernel, system_prompt="You test.", spending=spending, middleware=[reflexion])
    assert ((await ask(agent)).success, len(provider.requests)) == (False, 1)


@pytest.mark.parametrize("structured", [False, True])
async def test_a_reply_that_is_none_is_asked_for_again_within_the_budget(
    provider: Provider, kernel: Kernel, structured: bool
) -> None:
    """Each time it is a call like any other."""
    provider.say(*[Say(text="" if not structured else "Hm.", usage=(10, 1))] * 4)
    model = open_model("openai:gpt-4.1", structured=structured)
    spending = Spending(Budget(steps=1), models=[model])
    more = [Structured([model])] if structured else []
    agent = build_agent(model, kernel, system_prompt="You test.", spending=spending, middleware=more)
    assert ((await ask(agent)).success, len(provider.requests), spending.spent.steps) == (False, 1, 1)


@pytest.mark.usefixtures("provider")
def test_what_is_no_call_uses_nothing() -> None:
    """Also not the last call's place in what a person is told."""
    spending = Spending(Budget(steps=1), models=[open_model("openai:gpt-4.1")])
    spending.count(Usage(1000, 100, 1, cost=0.5))
    before = (spending.spent.money, spending.spent.tokens, spending.spent.steps)
    spending.count(Usage())
    assert (spending.spent.money, spending.spent.tokens, spending.spent.steps) == before == (0.5, 1100, 1)
    assert "The last call used 1,100 tokens and $0.50." in spending._note(["steps"], spending.spent)


@pytest.mark.usefixtures("provider")
def test_a_critic_that_costs_something_beside_a_free_model() -> None:
    """Is counted, and what is free is nothing that can't be counted."""
    spending = Spending(Budget(money=1), models=[open_model("ollama:tiny"), open_model("openai:gpt-4.1")])
    spending.count(Usage(0, 0, 1, cost=0.0))
    spending.count(Usage(1000, 100, 1, cost=0.5))
    assert (spending.spent.money, spending.spent.tokens) == (0.5, 1100)


async def test_an_answer_within_the_budget_asks_nobody(provider: Provider, kernel: Kernel) -> None:
    """Also one whose last call reached it: there is no next one."""
    provider.say(STEP, Say(text="done"))
    agent, asked = agent_with(kernel, "2 steps", answers=[])
    assert ((await ask(agent)).text, asked) == ("done", [])


async def test_the_cost_is_told_with_what_was_cached(
    provider: Provider, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By reply and in all; a reply from a cache costs less."""
    from agent.stubs import openai_chat

    plain = openai_chat.usage
    monkeypatch.setattr(
        openai_chat, "usage", lambda say: {**plain(say), "prompt_tokens_details": {"cached_tokens": 800}}
    )
    provider.say(STEP, Say(text="done", usage=(2000, 10)))
    replies: list[ModelReplied] = []
    agent, _ = agent_with(kernel, "1usd")
    found = await answer(agent, "Go", on_reply=replies.append, turn=1)
    # $2 a million tokens, a quarter of that for those from the cache, $8 for those written.
    assert [reply.usage.cost for reply in replies] == [pytest.approx(0.0016), pytest.approx(0.00288)]
    assert found.usage.cost == pytest.approx(0.00448)
    assert found.usage.cached_tokens == 1600


async def test_attempts_that_failed_are_paid_for(provider: Provider, kernel: Kernel) -> None:
    """As far as the provider told what they used: nothing, here, so that the next reply is the first that counts."""
    provider.say(Say(status=500), STEP, Say(text="done"))
    told: list[ModelFailed] = []
    agent, _ = agent_with(kernel, "1usd")
    found = await answer(agent, "Go", on_failure=told.append, turn=1)
    assert [each.usage.calls for each in told] == [0]
    assert found.usage.cost == pytest.approx(0.0028 + 0.00028)


async def test_a_provider_that_tells_nothing_is_not_free(
    provider: Provider, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person is told, and may go on without such a bound."""
    from agent.stubs import openai_chat

    monkeypatch.setattr(openai_chat, "usage", lambda _: None)
    provider.say(STEP, STEP, STEP, Say(text="done"))
    agent, asked = agent_with(kernel, "5000 tokens", answers=["approve"])
    found = await ask(agent)
    assert (found.text, found.usage.cost) == ("done", None)
    questions = [each for each in asked if isinstance(each, ApprovalAsked)]
    assert [each.what for each in questions] == ["this question has used an unknown part of 5,000 tokens"]
    assert "no such bound any more" in questions[0].note


async def test_time_in_which_a_person_thinks_is_not_the_questions(provider: Provider, kernel: Kernel) -> None:
    """Only what it took itself counts against its minutes."""
    agent, asked = agent_with(kernel, "0.005min", answers=[])
    kernel.pause = 0.4
    provider.say(STEP, Say(text="done"))
    answering = asyncio.create_task(ask(agent))
    started = time.monotonic()
    while not asked:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    agent.spending.consent.answer(asked[0].id, "approve")  # type: ignore[union-attr]  # it has one
    assert (await answering).text == "done"
    assert asked[0].what.startswith("this question has used 0")
    assert 0.4 <= 60 * agent.spending.spent.minutes <= time.monotonic() - started - 1 + 0.05
