"""Each provider over a real connection, from its name to its answer, in its own wire format and with its failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from agent.stub import PNG, Kernel, answer
from agent.stubs import google
from agent.stubs.cases import CASES, CONTACTS, Case
from agent.stubs.transport import Say, Stub, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.providers import failures, known
from nbagent.agent.providers.known import PROVIDERS, ollama_address
from nbagent.agent.providers.models import find_model, open_model
from nbagent.core.budget import Budget
from nbagent.core.errors import ModelCallError, ModelError
from nbagent.core.events import NO_USAGE, Answer, ModelFailed, Usage


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Each provider."""
    monkeypatch.setattr(failures, "FIRST_DELAY", 0.01)
    return CASES[request.param]


@pytest.fixture
def stub(case: Case) -> Iterator[Stub]:
    """A server that speaks as it does. Nothing else may be contacted."""
    with Stub(case.wire) as stub, CONTACTS:
        yield stub
    assert CONTACTS.seen == {"127.0.0.1"}


@pytest.fixture
async def agent(case: Case, stub: Stub, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    """An agent on it, as a session builds one."""
    model = open_model(case.reach(stub, monkeypatch))
    yield build_agent(model, kernel, system_prompt="You test.", spending=Spending(Budget(steps=6)))
    await model.aclose()


async def ask(agent: Agent) -> tuple[Answer, list[ModelFailed]]:
    """Ask, and gather what failed."""
    failed: list[ModelFailed] = []
    found = await answer(agent, "Go", on_failure=failed.append, turn=1)
    return found, failed


async def refusal(agent: Agent) -> str:
    """Ask in vain: the one sentence that a person is told."""
    with pytest.raises(ModelCallError) as caught:
        await ask(agent)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_cell_is_run_and_its_output_sent(case: Case, agent: Agent, stub: Stub, kernel: Kernel) -> None:
    """Replies are streamed, a call's arguments are put together from their pieces, and the usage is counted."""
    code = 'text = "été"\nlen(text) * 14'
    stub.say(Say(text="Let me see", calls=(python(code),)), Say(text="It is 42", usage=(150, 5)))
    found, failed = await ask(agent)
    assert kernel.codes == [code]
    assert (found.text, found.usage) == ("It is 42", Usage(input_tokens=250, output_tokens=15, calls=2))
    assert (stub.streams, failed) == ([True, True], [])
    assert case.wire.results(stub.requests[1]) == ["[result]\n42"]
    assert "You test." in json.dumps(stub.requests[0])


async def test_parallel_calls(case: Case, agent: Agent, stub: Stub, kernel: Kernel) -> None:
    """Calls of one reply run in their order, and each result finds its call."""
    stub.say(Say(calls=(python("a = 20\na"), python("a + 22"))), Say(text="42"))
    await ask(agent)
    assert kernel.codes == ["a = 20\na", "a + 22"]
    assert case.wire.results(stub.requests[1]) == ["[result]\n20", "[result]\n42"]


async def test_figures(case: Case, agent: Agent, stub: Stub, kernel: Kernel) -> None:
    """A figure goes out where this provider takes it, unchanged and once; the result beside it stays plain text."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}, "metadata": {}}]
    stub.say(Say(calls=(python("1"),)), Say(text="A line"))
    await ask(agent)
    assert case.wire.images(stub.requests[1]) == [(case.figures, PNG)]
    assert case.wire.results(stub.requests[1])[0].startswith("[result]\n1\n[figures]\n[figure 1")


async def test_what_passes_is_tried_again(case: Case, agent: Agent, stub: Stub, kernel: Kernel) -> None:
    """A server's error, a stream that ends or breaks or is no JSON or has an error in it: nothing of it runs."""
    half = Say(text="a b c", calls=(python("1"),))
    faults = {
        "failed (500)": Say(status=500),
        "broke off": Say(text="a b c d e f g", cut="closed"),
        "connection to": Say(text="a b c d e f g", cut="broken"),
        "can't be read": Say(text="a b c d e f g", garbage=True),
        "Overloaded|broke off|(503)": Say(text=half.text, calls=half.calls, error="Overloaded"),
    }
    for words, fault in faults.items():
        stub.say(fault, Say(text="whole"))
        found, failed = await ask(agent)
        assert (found.text, kernel.codes) == ("whole", [])
        assert [any(word in each.reason for word in words.split("|")) for each in failed] == [True]
        early = case.early if fault.status == 200 else NO_USAGE
        assert failed[0].usage == early
        assert found.usage.input_tokens == early.input_tokens + 100


async def test_what_fails_for_good(agent: Agent, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few attempts it is one sentence; the next question finds the conversation in order."""
    monkeypatch.setattr(failures, "RETRIES", 2)
    stub.say(*[Say(status=503)] * 3)
    assert "failed (503)" in await refusal(agent)
    stub.say(Say(text="back"))
    found, _ = await ask(agent)
    assert (found.text, len(stub.requests)) == ("back", 4)


async def test_retry_after(agent: Agent, stub: Stub) -> None:
    """A rate limit is waited out for as long as the provider asks; whoever watches is told."""
    stub.say(Say(status=429, headers=(("Retry-After", "0.3"),), message="Slow down"), Say(text="ok"))
    found, failed = await ask(agent)
    assert found.text == "ok"
    assert stub.times[1] - stub.times[0] >= 0.3
    assert [each.wait for each in failed] == [0.3]
    assert "limits the rate" in failed[0].reason
    assert failed[0].reason.endswith(("Slow down.", "Slow down (status code: 429)."))


async def test_a_long_wait_is_the_persons(agent: Agent, stub: Stub) -> None:
    """What asks for a quarter of an hour is not waited for: the person is told how long it is."""
    stub.say(Say(status=429, headers=(("Retry-After", "900"),)))
    assert "asks to wait for 15 minutes" in await refusal(agent)
    assert len(stub.requests) == 1


async def test_refusals(case: Case, agent: Agent, stub: Stub) -> None:
    """Each is one sentence that names the variable or the model, repeats no key, and is not tried again."""
    provider, _, model = case.model.partition(":")
    key = " or ".join(PROVIDERS[provider].keys)
    for status, message, sentence in (
        (401, "Incorrect key: sk-secret", f"{provider} refused the key (401). Check {key}."),
        (403, "Not from your country", f"{provider} refused the key (403). Check {key}."),
        (404, "The model was not found", f" has no model '{model}' (404). It has: {model}, acme-large."),
        (
            400,
            "This model's maximum context length is 8192 tokens",
            f"is too long for {case.model}. Start a new session.",
        ),
        (400, "temperature must be below 2", f"{provider} refused the request (400): temperature must be below 2"),
    ):
        stub.say(Say(status=status, message=message))
        told = await refusal(agent)
        assert sentence in told
        assert "sk-" not in told
    assert len(stub.requests) == 5


async def test_silence(agent: Agent, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that comes slowly is waited for; one that stops coming is given up, and asked for once more."""
    stub.say(Say(text="warm"))  # some clients import for a second at their first call
    await ask(agent)
    monkeypatch.setattr(known, "SILENCE", 2)
    stub.say(Say(text="late but whole", pause=0.7, hang=0.7))
    found, failed = await ask(agent)
    assert (found.text, failed) == ("late but whole", [])
    stub.say(Say(text="a b c d", hang=4), Say(text="ok"))
    found, failed = await ask(agent)
    assert (found.text, len(failed)) == ("ok", 1)
    assert "did not answer in time" in failed[0].reason


async def test_a_reply_of_nothing(agent: Agent, stub: Stub) -> None:
    """It is asked for once more, and both are counted."""
    stub.say(Say(), Say(text="here"))
    found, _ = await ask(agent)
    assert (found.text, found.usage) == ("here", Usage(input_tokens=200, output_tokens=20, calls=2))


async def test_a_call_that_was_cut_does_not_run(case: Case, agent: Agent, stub: Stub, kernel: Kernel) -> None:
    """Neither one at the limit of tokens, nor one whose arguments are no JSON: LangChain would complete both."""
    stub.say(Say(calls=(python("print('a long text')"),), finish=case.cut), Say(text="again"))
    assert (await ask(agent))[0].text == "again"
    assert "reached its token limit" in json.dumps(stub.requests[1])
    assert case.wire is not google or "functionCall" not in json.dumps(stub.requests[1])
    if case.has_pieces:
        stub.say(Say(calls=(python("x = 1"), ("python", '{"code": "x = 2'))), Say(text="sorry"))
        assert (await ask(agent))[0].text == "sorry"
        results = case.wire.results(stub.requests[-1])[-2:]
        assert ["not valid JSON" in result for result in results] == [True, False]
    assert kernel.codes == (["x = 1"] if case.has_pieces else [])


async def test_googles_signature_comes_back(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini refuses a conversation in which a call has lost the signature that it came with."""
    case = CASES["google_genai"]
    with Stub(google) as stub:
        model = open_model(case.reach(stub, monkeypatch))
        stub.say(Say(calls=(python("1"),)), Say(text="1"))
        await ask(build_agent(model, kernel, system_prompt="s"))
        parts = [part for content in stub.requests[1]["contents"] for part in content["parts"]]
        assert [part["thoughtSignature"] for part in parts if "functionCall" in part] == [google.SIGNATURE]
        await model.aclose()


def test_two_sessions_in_two_event_loops(case: Case, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may run one session after another, each in a loop of its own."""
    name = case.reach(stub, monkeypatch)

    async def one() -> str:
        model = open_model(name)
        found, _ = await ask(build_agent(model, Kernel(), system_prompt="s"))
        await model.aclose()
        return found.text

    for _ in range(2):
        stub.say(Say(text="ok"))
        assert asyncio.run(one()) == "ok"
    assert len(stub.requests) == 2


def test_a_default_that_the_provider_has(case: Case, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key and no name, the provider is asked what it has; what is chosen can be opened."""
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    name = case.reach(stub, monkeypatch)
    stub.models = [name.partition(":")[2]]
    stub.models += ["openrouter/auto"] if case.model.startswith("openrouter") else []
    found = find_model()
    assert found == ("openrouter:openrouter/auto" if case.model.startswith("openrouter") else name)
    assert open_model(found).name == found
    stub.refuses = 401
    with pytest.raises(ModelError, match=r"refuses the key \(401\)|none was found"):
        find_model()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - nothing listens there
        (":8080", "http://127.0.0.1:8080"),
        ("gpu.local", "http://gpu.local:11434"),
        ("https://ollama.example/api/", "https://ollama.example:443/api"),
        ("http://[::1]:1234", "http://[::1]:1234"),
    ],
)
def test_ollamas_host(given: str, address: str) -> None:
    """What a server listens on is understood by a client too."""
    assert ollama_address(given) == address
