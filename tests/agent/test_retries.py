"""Attempts that fail, and what answers instead; each provider's own failures are in test_providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from agent.stub import PNG, Kernel, answer
from agent.stubs.cases import CASES
from agent.stubs.transport import Say, Stub, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.providers import failures
from nbagent.agent.providers.models import Model, open_model
from nbagent.core.errors import ModelCallError, ModelError
from nbagent.core.events import Answer, ModelFailed, ModelReplied, Usage


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(failures, "RETRIES", 1)


@dataclass
class Two:
    """Two providers and their models."""

    first: Stub
    second: Stub
    models: Sequence[Model]

    def agent(self, kernel: Kernel) -> Agent:
        """An agent that goes on with the second when the first fails."""
        return build_agent(self.models[0], kernel, system_prompt="You test.", fallback=self.models[1:])


PAIRS = [
    ("openai", "anthropic"),
    ("anthropic", "google_genai"),
    ("google_genai", "openai_responses"),
    ("groq", "ollama"),
]


@pytest.fixture(params=PAIRS, ids="-".join)
async def two(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """Providers whose messages look different."""
    one, other = (CASES[name] for name in request.param)
    with Stub(one.wire) as first, Stub(other.wire) as second:
        models = [open_model(case.reach(stub, monkeypatch)) for case, stub in ((one, first), (other, second))]
        yield Two(first, second, models)
        for model in models:
            await model.aclose()


async def ask(agent: Agent) -> tuple[Answer, list[ModelReplied], list[ModelFailed]]:
    """Ask, and gather the events."""
    replies: list[ModelReplied] = []
    failed: list[ModelFailed] = []
    found = await answer(agent, "Go", on_reply=replies.append, on_failure=failed.append, turn=1)
    return found, replies, failed


async def test_another_model_goes_on(two: Two, kernel: Kernel) -> None:
    """With the cells and figures so far; it is told which model answered, and the failed one isn't asked again."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}, "metadata": {}}]
    agent = two.agent(kernel)
    two.first.say(Say(text="First", calls=(python("x = 1"),)), Say(status=503), Say(status=503))
    two.second.say(Say(text="Second", calls=(python("x + 1"),)), Say(text="It is 2"))
    found, replies, failed = await ask(agent)
    assert (found.text, kernel.codes) == ("It is 2", ["x = 1", "x + 1"])
    name = two.models[1].name
    assert [reply.model for reply in replies] == ["", name, name]
    assert [(each.model, each.wait) for each in failed] == [(two.models[0].name, 0.01), (two.models[0].name, None)]
    wire = two.second.wire
    assert len(wire.results(two.second.requests[1])) == 2  # type: ignore[attr-defined]  # as every format has it
    assert [image for _, image in wire.images(two.second.requests[1])] == [PNG, PNG]  # type: ignore[attr-defined]
    two.first.say(Say(text="well again"))
    found, replies, _ = await ask(agent)
    assert (found.text, replies[0].model) == ("well again", "")


async def test_both_fail(two: Two, kernel: Kernel) -> None:
    """The error is the last one's, and every attempt was told."""
    two.first.say(Say(status=401))
    two.second.say(Say(status=401))
    failed: list[ModelFailed] = []
    with pytest.raises(ModelCallError, match=rf"{two.models[1].provider} refused the key"):
        await answer(two.agent(kernel), "Go", on_failure=failed.append, turn=4)
    assert [(each.turn, each.model) for each in failed] == [(4, model.name) for model in two.models]


async def test_a_fallback_without_eyes(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told where figures were, and is sent none."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}, "metadata": {}}]
    seeing, blind = CASES["anthropic"], CASES["ollama"]
    with Stub(seeing.wire) as first, Stub(blind.wire) as second:
        second.abilities = ["completion", "tools"]
        models = [open_model(case.reach(stub, monkeypatch)) for case, stub in ((seeing, first), (blind, second))]
        first.say(Say(calls=(python("1"),)), Say(status=400, message="no"))
        second.say(Say(text="done"))
        await ask(build_agent(models[0], kernel, system_prompt="s", fallback=models[1:]))
        assert blind.wire.images(second.requests[0]) == []
        assert "[1 figure not shown" in blind.wire.results(second.requests[0])[0]
        for model in models:
            await model.aclose()


@pytest.mark.parametrize(("provider", "made"), [("google_genai", 0), ("anthropic", 1)])
async def test_a_failed_attempt_is_paid_for(
    provider: str, made: int, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a provider told of it before it failed is counted, also when there is no answer in the end."""
    case = CASES[provider]
    with Stub(case.wire) as stub:
        model = open_model(case.reach(stub, monkeypatch))
        stub.say(*[Say(text="a b c d", cut="closed", usage=(700, 3))] * 3)
        failed: list[ModelFailed] = []
        agent = build_agent(model, kernel, system_prompt="s")
        with pytest.raises(ModelCallError, match="broke off"):
            await answer(agent, "Go", on_failure=failed.append, turn=1)
        assert [each.usage for each in failed] == [Usage(input_tokens=700, output_tokens=made, calls=1)] * 3
        await model.aclose()


def test_a_recording_has_no_fallback(tmp_path: object, kernel: Kernel) -> None:
    """A recording that ran out must not turn into a call that costs."""
    file = f"{tmp_path}/r.jsonl"
    with open(file, "w") as out:  # noqa: PTH123
        out.write('{"content": "hi"}\n')
    model = open_model(f"replay:{file}")
    with pytest.raises(ModelError, match="neither has nor is a fallback"):
        build_agent(model, kernel, system_prompt="s", fallback=[model])
