"""Reflexion, against a provider that speaks the real protocol: what fails is criticised, bounded, and never spins."""

from __future__ import annotations

from typing import Any

from agent.stub import Kernel, Provider, Say, answer, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.reflexion import Reflexion
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.providers.models import Model, open_model
from nbagent.core.budget import Budget
from nbagent.core.events import Reflected, Usage

WRONG = Say(calls=(python("open('users.json')"),))


def agent_of(kernel: Kernel, *, critic: Model | None = None, attempts: int = 6) -> tuple[Agent, list[Any]]:
    """An agent with reflexion, and what it told."""
    told: list[Any] = []
    reflexion = Reflexion(Spending(), critic=critic, max_attempts=attempts)
    model = open_model("openai:gpt-4.1")
    return build_agent(
        model, kernel, system_prompt="You test.", spending=Spending(Budget(steps=20)), middleware=[reflexion]
    ), told


async def ask(agent: Agent, told: list[Any]) -> str:
    """Ask, for the answer's text."""
    return (await answer(agent, "Print the user names", turn=1, told=told)).text


def steps(told: list[Any]) -> list[tuple[int, str]]:
    """Each step by its attempt and state."""
    return [(each.attempt, each.state) for each in told if isinstance(each, Reflected)]


async def test_code_that_works_costs_nothing(provider: Provider, kernel: Kernel) -> None:
    """No event, no further call, nothing added to the conversation."""
    provider.say(Say(calls=(python("55"),)), Say(text="55"))
    agent, told = agent_of(kernel, critic=open_model("openai:gpt-4.1-mini"))
    assert await ask(agent, told) == "55"
    assert (told, len(provider.requests)) == ([], 2)
    assert [message["role"] for message in provider.sent()] == ["user", "assistant", "tool"]


async def test_without_a_critic_the_error_speaks(provider: Provider, kernel: Kernel) -> None:
    """The state is told, and no call is paid for."""
    provider.say(WRONG, Say(calls=(python("['alice', 'bob']"),)), Say(text="alice, bob"))
    agent, told = agent_of(kernel)
    assert await ask(agent, told) == "alice, bob"
    assert steps(told) == [(1, "retry")]
    assert "FileNotFoundError" in told[0].error
    assert len(provider.requests) == 3


async def test_a_critic_sees_all_attempts_and_is_heard(provider: Provider, kernel: Kernel) -> None:
    """The second critique knows of the first attempt; the model reads each before it tries again; usage is told."""
    provider.say(
        WRONG,
        Say(text="There is no such file. Make the data inline."),
        Say(calls=(python("open('other.json')"),)),
        Say(text="Again a file."),
        Say(calls=(python("['alice']"),)),
        Say(text="alice"),
    )
    agent, told = agent_of(kernel, critic=open_model("openai:gpt-4.1-mini"))
    assert await ask(agent, told) == "alice"
    assert steps(told) == [(1, "critique"), (2, "critique")]
    assert told[0].critique == "There is no such file. Make the data inline."
    assert told[0].usage == Usage(input_tokens=100, output_tokens=10, calls=1, cost=told[0].usage.cost)
    assert told[0].usage.cost
    first, second = (provider.requests[at] for at in (1, 3))
    assert first["model"] == "gpt-4.1-mini"
    assert "Print the user names" in first["messages"][-1]["content"]
    assert all(each in second["messages"][-1]["content"] for each in ("users.json", "other.json", "Attempt 2"))
    assert "Make the data inline." in provider.requests[2]["messages"][-1]["content"]


async def test_enough_was_tried(provider: Provider, kernel: Kernel) -> None:
    """The model has no tools any more, is told so, and answers in words."""
    provider.say(*[Say(calls=(python(f"open('{each}.json')"),)) for each in range(3)], Say(text="It can't be done."))
    agent, told = agent_of(kernel, attempts=3)
    assert await ask(agent, told) == "It can't be done."
    assert steps(told) == [(1, "retry"), (2, "retry"), (3, "gave up")]
    assert "tools" not in provider.requests[-1]
    assert "3 replies in a row have failed" in provider.requests[-1]["messages"][-1]["content"]


async def test_a_warning_comes_before_the_end(provider: Provider, kernel: Kernel) -> None:
    """After four different failures, and after the second that is the same."""
    provider.say(*[Say(calls=(python(f"open('{each}.json')"),)) for each in range(6)], Say(text="It can't be done."))
    agent, told = agent_of(kernel)
    assert await ask(agent, told) == "It can't be done."
    said = [[m["content"] for m in provider.sent(at) if m["role"] == "user"] for at in range(7)]
    assert [sum("After 2 more" in each for each in words) for words in said] == [0, 0, 0, 0, 1, 1, 1]
    assert "4 replies in a row have failed" in said[4][-1]
    provider.say(WRONG, WRONG, Say(calls=(python("1"),)), Say(text="Done"))
    await ask(agent, told)
    assert "After 1 more, no code runs" in provider.requests[-2]["messages"][-1]["content"]


async def test_the_same_result_twice_is_told(provider: Provider, kernel: Kernel) -> None:
    """A model that does the same again, though nothing fails, is told before its tools are taken away."""
    again = Say(calls=(python("1"),))
    provider.say(again, again, again, Say(text="It is 1."))
    agent, told = agent_of(kernel)
    assert await ask(agent, told) == "It is 1."
    assert "once more, and no code runs" in provider.requests[2]["messages"][-1]["content"]
    assert "tools" in provider.requests[2]
    assert "tools" not in provider.requests[3]


async def test_the_same_failure_three_times(provider: Provider, kernel: Kernel) -> None:
    """Ends it sooner: trying it once more would be no correction."""
    provider.say(WRONG, WRONG, WRONG, Say(text="There is no file."))
    agent, told = agent_of(kernel)
    assert await ask(agent, told) == "There is no file."
    assert steps(told)[-1] == (3, "gave up")
    assert "same code and the same error" in provider.requests[-1]["messages"][-1]["content"]
    assert len(kernel.codes) == 3


async def test_a_success_in_between_begins_anew(provider: Provider, kernel: Kernel) -> None:
    """Only what fails in a row counts, and a new question has its own count."""
    works = Say(calls=(python("1"),))
    provider.say(WRONG, WRONG, works, WRONG, Say(text="ok"), WRONG, Say(text="ok"))
    agent, told = agent_of(kernel, attempts=3)
    await ask(agent, told)
    await ask(agent, told)
    assert steps(told) == [(1, "retry"), (2, "retry"), (1, "retry"), (1, "retry")]


async def test_a_critic_that_fails(provider: Provider, kernel: Kernel) -> None:
    """Costs the turn nothing: the model reads the error, as without one."""
    provider.say(WRONG, Say(status=400), Say(text="ok"))
    agent, told = agent_of(kernel, critic=open_model("openai:gpt-4.1-mini"))
    assert await ask(agent, told) == "ok"
    assert [(each.state, each.critique) for each in told] == [("critique", "")]


async def test_several_calls_are_one_attempt(provider: Provider, kernel: Kernel) -> None:
    """It has failed if the last of them has."""
    provider.say(Say(calls=(python("1"), python("1 / 0"))), Say(calls=(python("1 / 0"), python("2"))), Say(text="ok"))
    agent, told = agent_of(kernel)
    await ask(agent, told)
    assert steps(told) == [(1, "retry")]
