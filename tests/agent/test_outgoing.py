"""What leaves for a model: what providers receive over HTTP, against what is written down of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from agent.stub import PNG, Kernel, Provider, Say, answer, python
from agent.stubs.cases import CASES, Case
from agent.stubs.transport import Stub
from langchain_core.messages import HumanMessage, SystemMessage

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.outgoing import Outgoing
from nbagent.agent.providers import failures
from nbagent.agent.providers.models import open_model
from nbagent.agent.turn import Turn
from nbagent.core.events import Piece, SentToModel
from nbagent.safety.redaction import Redactor

KEY = "AKIAIOSFODNN7EXAMPLE"
PAT = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
OWN = "korrekt horse battery"
DATA = f"# Data\n/tmp/data/a.csv: name, {PAT}"
FIGURE = {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(failures, "RETRIES", 1)


def agent_of(
    name: str, kernel: Kernel, *, fallback: str = "", what: str = "secrets"
) -> tuple[Agent, list[SentToModel]]:
    """An agent whose requests are redacted and told."""
    told: list[Any] = []
    models = [open_model(name), *([open_model(fallback)] if fallback else [])]
    redact = Redactor(what, secrets={OWN: "MY_PASSWORD"})
    outgoing = Outgoing(models, redact=redact, described=DATA)
    prompt = f"You test.\n\n{DATA}"
    return build_agent(models[0], kernel, system_prompt=prompt, fallback=models[1:], outgoing=outgoing), told


async def ask(agent: Agent, told: list[Any], question: str = "Go") -> str:
    """Ask a question."""
    return (await answer(agent, question, turn=1, told=told)).text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_no_secret_reaches_a_provider(case: Case, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the question, nor of the data's description, nor of outputs; their text around it does, as do figures.

    The model is told that something was hidden; the cell's own output has it.
    """
    kernel.extra = [FIGURE]
    with Stub(case.wire, keeps_alive=False) as stub:
        agent, told = agent_of(case.reach(stub, monkeypatch), kernel)
        stub.say(
            Say(calls=(python(f"print('key', '{KEY[:4]}' + '{KEY[4:]}', '{OWN[:4]}' + '{OWN[4:]}')"),)), Say(text="ok")
        )
        assert await ask(agent, told, f"My token is {PAT}, what now?") == "ok"
        raw = json.dumps(stub.requests)
        assert [secret for secret in (KEY, PAT, OWN) if secret in raw] == []
        assert "My token is [redacted: github token], what now?" in raw
        assert "key [redacted: aws key] [redacted: $MY_PASSWORD]" in raw
        assert "2 secrets were hidden here before this was sent to you. Code in cells has the whole text." in raw
        assert PNG in raw
        assert [(each.host, each.resent) for each in told] == [(stub.url.split("/")[2], 0), (stub.url.split("/")[2], 4)]
        assert told[1].size == sum(piece.size for each in told for piece in each.pieces)


async def test_the_ledger_counts_what_the_provider_received(provider: Provider, kernel: Kernel) -> None:
    """To the byte, each piece by its source and its hash."""
    kernel.extra = [FIGURE]
    agent, told = agent_of("openai:gpt-4.1", kernel)
    provider.say(Say(text="Let me see", calls=(python(f"print('{KEY}é')"),)), Say(text="ok"))
    await ask(agent, told, "Wie groß?")
    first, second = provider.requests
    received = [(message["role"], message) for message in second["messages"]]
    system, question, reply, result, figure = [message for _, message in received]
    expected = [
        ("system prompt", "You test.\n\n"),
        ("data description", system["content"].removeprefix("You test.\n\n")),
        ("question", question["content"]),
        ("tools", json.dumps(second["tools"], ensure_ascii=False)),
        ("reply", reply["content"] + reply["tool_calls"][0]["function"]["arguments"]),
        ("cell 1", result["content"]),
        ("note", figure["content"][0]["text"]),
        ("figure of cell 1", figure["content"][1]["image_url"]["url"].removeprefix("data:image/png;base64,")),
    ]
    kinds = {"data description": ["github token"], "cell 1": ["aws key"]}
    pieces = [
        Piece(source, len(text.encode()), hashlib.sha256(text.encode()).hexdigest(), kinds.get(source, []))
        for source, text in expected
    ]
    assert told[0].pieces + told[1].pieces == pieces
    assert [(each.size, each.resent) for each in told] == [
        (sum(each.size for each in pieces[:4]), 0),
        (sum(each.size for each in pieces), 4),
    ]
    assert first["tools"] == second["tools"]


async def test_each_attempt_is_told_and_each_host_is_another(
    provider: Provider, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent to one that failed has left; the fallback is sent all of it for the first time."""
    other = CASES["anthropic"]
    with Stub(other.wire, keeps_alive=False) as second:
        agent, told = agent_of("openai:gpt-4.1", kernel, fallback=other.reach(second, monkeypatch))
        provider.say(Say(status=500), Say(status=500))
        second.say(Say(text="ok"))
        assert await ask(agent, told) == "ok"
        assert len(provider.requests) == 2
        hosts = [provider.url.split("/")[2]] * 2 + [second.url.split("/")[2]]
        sent = [each for each in told if isinstance(each, SentToModel)]
        assert [each.host for each in sent] == hosts
        assert [each.model for each in sent] == ["openai:gpt-4.1"] * 2 + [other.model]
        assert [(len(each.pieces), each.resent) for each in sent] == [(4, 0), (0, 4), (4, 0)]


async def test_a_long_conversation_lists_each_piece_once(provider: Provider, kernel: Kernel) -> None:
    """So the ledger grows with the conversation, not with its square."""
    agent, told = agent_of("openai:gpt-4.1", kernel)
    for turn in range(5):
        provider.say(Say(calls=(python(f"{turn} + 100"),)), Say(text=f"done {turn}"))
        await ask(agent, told, f"Question {turn}")
    new = [sum(len(each.pieces) for each in told[2 * turn : 2 * turn + 2]) for turn in range(5)]
    # The prompt in two pieces and the tools, once; then a question, a call, its result, and the answer before.
    assert new == [6, 4, 4, 4, 4]


async def test_nothing_is_hidden_where_a_person_says_so(provider: Provider, kernel: Kernel) -> None:
    """The ledger is kept all the same."""
    agent, told = agent_of("openai:gpt-4.1", kernel, what="none")
    provider.say(Say(text="ok"))
    await ask(agent, told, f"Is {KEY} mine?")
    assert provider.sent()[0]["content"] == f"Is {KEY} mine?"
    assert [piece.redacted for piece in told[0].pieces] == [[]] * 4


async def test_the_models_own_words_go_back_as_they_were(provider: Provider, kernel: Kernel) -> None:
    """Arguments of its calls are what ran: it would else believe that it had written something else."""
    agent, told = agent_of("openai:gpt-4.1", kernel)
    provider.say(Say(calls=(python("password = 'hunter2hunter2'"),)), Say(text="ok"))
    await ask(agent, told)
    arguments = provider.sent()[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"code": "password = 'hunter2hunter2'"}


def test_a_critic_is_sent_no_secret(provider: Provider) -> None:
    """It is no part of the agent, and what it is sent is told as what it is."""
    told: list[Any] = []
    model = open_model("openai:gpt-4.1")
    outgoing = Outgoing([model], redact=Redactor(secrets={}))
    checked = outgoing.critique(
        model, [SystemMessage("Criticise."), HumanMessage(f"print('{KEY}')")], Turn(3, told.append)
    )
    assert KEY not in str(checked)
    assert [(each.purpose, each.turn, [piece.source for piece in each.pieces]) for each in told] == [
        ("critique", 3, ["note", "attempts"])
    ]
    assert provider.requests == []
