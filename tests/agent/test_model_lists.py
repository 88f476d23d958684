"""What is chosen of a provider's models, and how they are told; the lists over the wire are in test_providers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agent.stubs.cases import CASES
from agent.stubs.transport import Stub

from nbagent.agent.providers.model_lists import ListedModel, UnlistedError, default_of, models_of, some


@pytest.mark.parametrize(
    ("case", "models", "chosen"),
    [
        ("openai_responses", ["gpt-image-9", "gpt-9-mini", "gpt-9-pro", "gpt-9-sol", "gpt-8"], "gpt-9-sol"),
        ("openai_responses", ["gpt-9-2030-01-01", "gpt-9", "o7"], "gpt-9"),
        ("anthropic", ["claude-opus-9", "claude-sonnet-9", "claude-sonnet-8"], "claude-sonnet-9"),
        ("anthropic", ["claude-fable-9"], "claude-fable-9"),
        ("google_genai", ["gemini-9-pro", "gemini-flash-latest"], "gemini-flash-latest"),
        ("google_genai", ["gemini-9-flash-image", "gemini-9-flash-lite", "gemini-9-flash"], "gemini-9-flash"),
        ("groq", ["whisper-large-v9", "llama-9-8b-instant", "openai/gpt-oss-120b"], "openai/gpt-oss-120b"),
        ("openrouter", ["acme/large", "openrouter/auto"], "openrouter/auto"),
        ("openrouter", ["acme/large"], ""),
    ],
)
def test_the_default(case: str, models: list[str], chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of the usual kind: not the smallest, not the dearest, nothing that paints or speaks."""
    provider = CASES[case].model.partition(":")[0]
    with Stub(CASES[case].wire) as stub:
        CASES[case].reach(stub, monkeypatch)
        if provider == "openai":  # OpenAI itself, of which a person sets no address
            monkeypatch.delenv("OPENAI_BASE_URL")
            known = models_of.__globals__["PROVIDERS"]["openai"]
            monkeypatch.setitem(models_of.__globals__["PROVIDERS"], "openai", known._replace(home=stub.url))
        stub.models = models
        assert default_of(provider) == chosen


@pytest.fixture
def openrouter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """OpenRouter on loopback."""
    with Stub(CASES["openrouter"].wire) as stub:
        CASES["openrouter"].reach(stub, monkeypatch)
        yield stub


def test_only_what_calls_tools(openrouter: Stub) -> None:
    """Where a list says what its models take, those without tools are left out."""
    openrouter.models = ["acme/large"]
    assert [model.name for model in models_of("openrouter")] == ["acme/large"]


def test_a_refused_key(openrouter: Stub) -> None:
    """The reason is the end of a sentence."""
    openrouter.refuses = 401
    with pytest.raises(UnlistedError, match=r"^it refuses the key \(401\)$"):
        models_of("openrouter")


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9", "file:///etc", "127.0.0.1:9", "http://[", "http://127.0.0.1:x"]
)
def test_an_address_that_leads_nowhere(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a person writes there, the reason is a sentence."""
    monkeypatch.setenv("OPENROUTER_BASE_URL", address)
    with pytest.raises(UnlistedError):
        models_of("openrouter")


def test_what_resembles_comes_first() -> None:
    """Of a long list a few are told, those like the name that was written before the others, and how many more."""
    models = [ListedModel(f"acme-{number}") for number in range(30)] + [ListedModel("qwen3-32b")]
    told = some(models, like="qwen3:32b")
    assert told.startswith("qwen3-32b, acme-0, ")
    assert told.endswith(" and 23 more")
    assert some([]) == ""
