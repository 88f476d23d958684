"""What a reply costs, by the price list in `genai-prices`, which needs no network.

It is an estimate: prices change, and contracts differ. A model that isn't listed has no price, which is not a price of
0.
"""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.models import Model
from nbagent.core.errors import ModelError
from nbagent.safety.ledger import is_local

IDS: Final = {"google_genai": "google"}
"""The price list's names of providers, if they differ from LangChain's."""
CLOUD: Final = "-cloud"
"""The suffix of models that Ollama passes on to its cloud."""


def is_free(model: Model) -> bool:
    """Whether a model's replies cost nothing: it is recorded, or runs in this machine's own Ollama."""
    if model.is_replay:
        return True
    return model.provider == "ollama" and is_local(model.host) and not model.name.endswith(CLOUD)


def cost(model: Model, usage: Mapping[str, Any] | None) -> float | None:
    """What a reply has cost.

    Returns:
        US dollars; None if the cost isn't known.
    """
    if is_free(model):
        return 0.0
    if usage is None:
        return None
    details = usage.get("input_token_details") or {}
    read = min(details.get("cache_read") or 0, usage["input_tokens"])
    written = min(details.get("cache_creation") or 0, usage["input_tokens"] - read)
    return _price(
        model,
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def check_known(models: Iterable[Model]) -> None:
    """Check that the replies of all models have a price."""
    unknown = [each.name for each in models if cost(each, {"input_tokens": 1, "output_tokens": 1}) is None]
    if unknown:
        raise ModelError(
            f"A budget in money can't be kept: the price list has no price for {' and '.join(dict.fromkeys(unknown))}.",
            mend="Give the budget in tokens, or name another model.",
        )


@functools.cache
def load() -> None:
    """Read the price list, which takes some tenths of a second the first time."""
    _price_of({}, "gpt-4o", provider_id="openai")


def _price(model: Model, **usage: int) -> float | None:
    """The price by the address, which may be that of a compatible provider; else by the provider's name."""
    name = model.name.partition(":")[2]
    home = PROVIDERS[model.provider].home if model.provider in PROVIDERS else ""
    if model.host and model.host != urllib.parse.urlsplit(home).netloc:
        found = _price_of(usage, name, provider_api_url=f"https://{model.host}")
        if found is not None:
            return found
    return _price_of(usage, name, provider_id=IDS.get(model.provider, model.provider))


def _price_of(usage: Mapping[str, int], model: str, **provider: str) -> float | None:
    from genai_prices import Usage, calc_price

    try:
        return float(calc_price(Usage(**usage), model, **provider).total_price)  # type: ignore[call-overload]
    except LookupError:
        return None
