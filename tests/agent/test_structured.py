"""Models without tool calls, over the wire of a provider that is offered none: text goes out, and text comes in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.stub import PNG, Kernel, Provider, Say, answer, python
from agent.stubs import ollama
from agent.stubs.transport import Stub

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.messages.generated import SCHEMA
from nbagent.agent.middleware.outgoing import Outgoing
from nbagent.agent.middleware.reflexion import Reflexion
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.middleware.structured import Structured
from nbagent.agent.providers.models import open_model
from nbagent.agent.providers.replay import read_replies
from nbagent.core.errors import InstallRefused, ModelCallError, ModelError
from nbagent.core.events import CodeGenerated, ModelFailed, ModelReplied, SentToModel, Usage

MODEL = "openai:local"


def code(source: str, *wanted: str, why: str = "It counts.", sure: float = 0.9) -> Say:
    """A reply that has code run."""
    found = {"code": source, "dependencies": list(wanted), "reasoning": why, "confidence": sure}
    return Say(text=json.dumps(found))


def final(text: str) -> Say:
    """A reply that is the answer."""
    return Say(text=json.dumps({"answer": text}))


def agent_of(name: str, kernel: Kernel, *, attempts: int = 6, record: Path | None = None) -> tuple[Agent, list[Any]]:
    """An agent, and what was told."""
    told: list[Any] = []
    model = open_model(name, structured=True, record=record)
    middleware = [
        Reflexion(Spending(), max_attempts=attempts),
        Structured([model]),
    ]
    return build_agent(model, kernel, system_prompt="You test.", middleware=middleware), told


async def ask(agent: Agent, told: list[Any], question: str = "Go") -> tuple[str, list[ModelReplied]]:
    """Ask, for the answer and the replies."""
    replies: list[ModelReplied] = []
    return (await answer(agent, question, on_reply=replies.append, turn=1, told=told)).text, replies


async def test_code_runs_and_its_result_is_told(provider: Provider, kernel: Kernel) -> None:
    """No tools go out, the model reads its own words again; the rest of the agent sees ordinary calls."""
    provider.say(code("6 * 7"), final("It is 42."))
    agent, told = agent_of(MODEL, kernel)
    text, replies = await ask(agent, told, "What is it?")
    assert (text, kernel.codes) == ("It is 42.", ["6 * 7"])
    assert [(each.text, each.tools) for each in replies] == [("It counts.", ["python"]), ("It is 42.", [])]
    assert told == [CodeGenerated(turn=1, code="6 * 7", reasoning="It counts.", confidence=0.9)]
    assert not any("tools" in request for request in provider.requests)
    asked, own, result = provider.sent()
    assert (asked["role"], asked["content"]) == ("user", "What is it?")
    assert own["role"] == "assistant"
    assert json.loads(own["content"]) == json.loads(code("6 * 7").text)
    assert (result["role"], result["content"].split("\n")[1:]) == ("user", ["[result]", "42"])


async def test_an_answer_without_code(provider: Provider, kernel: Kernel) -> None:
    """One call, and in the next question the model sees the form it used."""
    provider.say(final("Hello."), final("Again."))
    agent, told = agent_of(MODEL, kernel)
    assert ((await ask(agent, told))[0], (await ask(agent, told))[0], told) == ("Hello.", "Again.", [])
    assert [message["content"] for message in provider.sent()] == ["Go", '{"answer": "Hello."}', "Go"]


async def test_dependencies_come_first(provider: Provider, kernel: Kernel) -> None:
    """Each by itself, before the code, without the standard library."""
    provider.say(code("1", "humanize", "json", "sklearn", "humanize"), final("ok"))
    agent, told = agent_of(MODEL, kernel)
    _, replies = await ask(agent, told)
    assert kernel.asked == [["humanize"], ["scikit-learn"]]
    assert replies[0].tools == ["install", "install", "python"]
    assert told[0].dependencies == ["humanize", "scikit-learn"]
    assert "Installed humanize 1.0." in provider.sent()[-1]["content"]


async def test_a_refused_dependency(provider: Provider, kernel: Kernel) -> None:
    """Is told; it keeps nothing else from running."""
    provider.say(code("6 * 7", "--index-url=http://evil"), final("ok"))
    agent, told = agent_of(MODEL, kernel)

    async def refuse(requirements: list[str]) -> list[Any]:
        raise InstallRefused(f"{requirements[0]!r} is not a plain package name.")

    kernel.install = refuse  # type: ignore[method-assign]
    await ask(agent, told)
    assert kernel.codes == ["6 * 7"]
    result = provider.sent()[-1]["content"]
    assert "Not installed. '--index-url=http://evil' is not a plain package name." in result
    assert result.endswith("42")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("The answer is 42.", "there is no JSON object"),
        ('{"code": "print(', "no valid JSON"),
        ('{"code": 1, "dependencies": [], "reasoning": "", "confidence": 7}', "`confidence`: Input should be less"),
        ("", "it was empty"),
    ],
)
async def test_a_reply_that_cannot_be_read(provider: Provider, kernel: Kernel, reply: str, why: str) -> None:
    """Is shown to the model again with what is wrong; the person is told, and what it cost is counted."""
    provider.say(Say(text=reply), final("It is 42."))
    agent, told = agent_of(MODEL, kernel)
    assert (await ask(agent, told))[0] == "It is 42."
    *shown, complaint = provider.sent()[1:]
    assert [message["content"] for message in shown] == ([reply] if reply else [])
    assert why in complaint["content"]
    assert '{"answer": "…"}' in complaint["content"]
    (failed,) = told
    assert isinstance(failed, ModelFailed)
    assert (failed.usage, failed.wait) == (Usage(100, 10, 1), 0.0)
    assert why in failed.reason


async def test_a_reply_that_cannot_be_read_has_its_price(provider: Provider, kernel: Kernel) -> None:
    """Else what a question has cost would not be known any more, and a budget in money would end there."""
    provider.say(Say(text="Forty two.", usage=(1000, 100)), final("42"))
    agent, told = agent_of("openai:gpt-4.1", kernel)
    assert (await ask(agent, told))[0] == "42"
    assert [each.usage.cost for each in told] == [pytest.approx(0.0028)]


async def test_only_twice_more(provider: Provider, kernel: Kernel) -> None:
    """Then it is an error in one sentence; the conversation goes on as if nothing had been said."""
    provider.say(*[Say(text="Forty two.")] * 3, final("42"))
    agent, told = agent_of(MODEL, kernel)
    with pytest.raises(ModelCallError, match=r"^openai:local replied 3 times with what is neither") as caught:
        await ask(agent, told)
    assert "\n" not in str(caught.value)
    assert [each.wait for each in told] == [0.0, 0.0, None]
    assert len(provider.requests) == 3
    assert (await ask(agent, told, "Again"))[0] == "42"
    assert [message["role"] for message in provider.sent()] == ["user", "assistant", "user"]


async def test_a_long_reply_is_not_sent_back_whole(provider: Provider, kernel: Kernel) -> None:
    """The model knows what it said by its ends."""
    provider.say(Say(text="x" * 1_000_000), final("ok"))
    agent, told = agent_of(MODEL, kernel)
    await ask(agent, told)
    assert len(provider.sent()[1]["content"]) < 5_000


async def test_an_unsure_model(provider: Provider, kernel: Kernel) -> None:
    """Says so where the person reads it."""
    provider.say(code("1", sure=0.2), final("ok"))
    agent, told = agent_of(MODEL, kernel)
    _, replies = await ask(agent, told)
    assert replies[0].text == "It counts. (The model is not sure of this: confidence 0.2.)"
    assert told[0].confidence == 0.2
    assert json.loads(provider.sent()[1]["content"])["confidence"] == 0.2


async def test_failing_code_is_bounded(provider: Provider, kernel: Kernel) -> None:
    """As ever: what failed three times in the same way runs no more, even if the model insists."""
    provider.say(*[code("1 / 0")] * 4, final("It can't be done."))
    agent, told = agent_of(MODEL, kernel)
    assert (await ask(agent, told))[0] == "It can't be done."
    assert kernel.codes == ["1 / 0"] * 3
    assert "no more code runs" in provider.sent()[-1]["content"]


async def test_figures_stand_behind_their_results(provider: Provider, kernel: Kernel) -> None:
    """Where the model takes images."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}}]
    provider.say(code("1"), final("ok"))
    agent, told = agent_of("openai:gpt-4.1", kernel)
    await ask(agent, told)
    assert [block["type"] for block in provider.sent()[-1]["content"]] == ["text", "image_url"]


async def test_the_ledger_knows_whose_results_they_are(provider: Provider, kernel: Kernel) -> None:
    """Though they go out as words of the person's."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}}]
    provider.say(code("1"), final("ok"))
    told: list[Any] = []
    model = open_model("openai:gpt-4.1", structured=True)
    agent = build_agent(
        model,
        kernel,
        system_prompt="You test.",
        middleware=[Structured([model])],
        outgoing=Outgoing([model]),
    )
    await ask(agent, told)
    first, second = (each for each in told if isinstance(each, SentToModel))
    assert [piece.source for piece in first.pieces] == ["system prompt", "question"]
    assert [piece.source for piece in second.pieces] == ["reply", "cell 1", "figure of cell 1"]


async def test_calls_of_a_model_that_makes_them_anyway(provider: Provider, kernel: Kernel) -> None:
    """Run like any other, also in a conversation that began with tools; those that can't be read are told."""
    provider.say(Say(text="Look", calls=(python("6 * 7"),)), Say(calls=(("python", "nonsense"),)), final("42"))
    agent, told = agent_of(MODEL, kernel)
    assert (await ask(agent, told))[0] == "42"
    assert kernel.codes == ["6 * 7"]
    assert [message["role"] for message in provider.sent()] == ["user", "assistant", "user", "assistant", "user"]
    assert json.loads(provider.sent()[1]["content"])["code"] == "6 * 7"
    assert "not valid JSON" in provider.sent()[-1]["content"]


async def test_a_call_with_other_arguments_than_it_takes(provider: Provider, kernel: Kernel) -> None:
    """Is shown as what it was; the question goes on."""
    provider.say(Say(calls=(("install", '{"packages": 5}'),)), final("ok"))
    agent, told = agent_of(MODEL, kernel)
    assert (await ask(agent, told))[0] == "ok"
    assert json.loads(provider.sent()[1]["content"])["code"] == '# install {"packages": 5}'


async def test_a_recording_is_replayed_by_itself(provider: Provider, kernel: Kernel, tmp_path: Path) -> None:
    """It knows its form, and replies that could not be read come again too."""
    file = tmp_path / "r.jsonl"
    provider.say(Say(text="Let me see."), code("6 * 7", "humanize"), final("It is 42."))
    recorded, first = agent_of(MODEL, kernel, record=file)
    found = await ask(recorded, first)
    assert [reply.structured for reply in read_replies(file)] == [True, True, True]
    assert open_model(f"replay:{file}").structured
    again = Kernel()
    replayed, second = agent_of(f"replay:{file}", again)
    assert await ask(replayed, second) == found
    assert (again.codes, again.asked) == (kernel.codes, kernel.asked)
    assert [type(each) for each in second] == [type(each) for each in first] == [ModelFailed, CodeGenerated]


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """An Ollama whose model can't call tools."""
    with Stub(ollama, keeps_alive=False) as stub:
        monkeypatch.setenv("OLLAMA_HOST", stub.url)
        stub.models, stub.abilities = ["gemma2:2b"], ["completion"]
        yield stub


async def test_a_small_model_of_ollamas(local: Stub, kernel: Kernel) -> None:
    """Is refused with the way out, and with it is held to the schema by the server."""
    with pytest.raises(ModelError, match="--structured"):
        open_model("ollama:gemma2:2b")
    local.say(code("6 * 7"), final("42"))
    agent, told = agent_of("ollama:gemma2:2b", kernel)
    assert (await ask(agent, told))[0] == "42"
    assert [request["format"] for request in local.requests] == [SCHEMA, SCHEMA]
    assert not any(request.get("tools") for request in local.requests)
