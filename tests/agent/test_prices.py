"""What replies cost, by the real price list."""

from __future__ import annotations

from typing import Any, cast

import pytest

from nbagent.agent.providers import prices
from nbagent.agent.providers.models import Model
from nbagent.core.errors import ModelError

USED = {"input_tokens": 1_000_000, "output_tokens": 0}


class Chat:
    """Of a chat model only what it tells of its address."""

    def __init__(self, address: str) -> None:
        self.base_url = address


def model(name: str, address: str = "") -> Model:
    """A model by that name at that address."""
    return Model(chat=cast("Any", Chat(address)), name=name, is_replay=name.startswith("replay:"))


@pytest.mark.parametrize(
    "name",
    [
        *("openai:gpt-4.1", "anthropic:claude-sonnet-4-5", "google_genai:gemini-2.5-flash"),
        *("groq:llama-3.3-70b-versatile", "openrouter:openai/gpt-4o"),
    ],
)
def test_models_of_each_provider_have_a_price(name: str) -> None:
    """A million tokens cost between a cent and twenty dollars; by another address of the same language, the same."""
    found = prices.cost(model(name), USED)
    assert found is not None
    assert 0.01 < found < 20
    assert prices.cost(model(name, "http://127.0.0.1:8080/v1"), USED) == found


def test_what_was_cached_costs_less() -> None:
    """As the provider tells it; more than there was is cut to what there was."""
    whole, read, written, odd = (
        prices.cost(model("anthropic:claude-sonnet-4-5"), {**USED, "input_token_details": details})
        for details in ({}, {"cache_read": 900_000}, {"cache_creation": 900_000}, {"cache_read": 10**9})
    )
    assert whole is not None and read is not None and written is not None and odd is not None  # noqa: PT018
    assert odd < read < 0.3 * whole < whole < written


def test_an_address_of_another_provider_names_it() -> None:
    """Whoever speaks OpenAI's language has prices of their own."""
    found = prices.cost(model("openai:deepseek-chat", "https://api.deepseek.com/v1"), USED)
    assert found is not None
    assert found < 1


def test_recordings_and_an_ollama_of_ones_own_cost_nothing() -> None:
    """Whatever they used; an Ollama elsewhere and its cloud are not known."""
    assert prices.cost(model("replay:a.jsonl"), None) == 0
    assert prices.cost(model("ollama:qwen3", "http://127.0.0.1:11434"), USED) == 0
    assert prices.cost(model("ollama:gpt-oss:120b-cloud", "http://127.0.0.1:11434"), USED) is None
    assert prices.cost(model("ollama:qwen3-of-mine", "https://ollama.example.org"), USED) is None


def test_what_is_not_known_is_none_and_never_nothing() -> None:
    """A model that isn't listed, and a provider that tells no usage."""
    assert prices.cost(model("openai:no-such-model"), USED) is None
    assert prices.cost(model("openai:gpt-4.1"), None) is None


def test_a_budget_in_money_demands_prices() -> None:
    """Before anything is asked, in one sentence that names the models."""
    prices.check_known([model("openai:gpt-4.1"), model("replay:a.jsonl")])
    with pytest.raises(
        ModelError, match=r"can't be kept: .* no price for openai:no-such-model\. Give the budget in tokens"
    ):
        prices.check_known([model("openai:gpt-4.1"), model("openai:no-such-model"), model("openai:no-such-model")])
