"""`nbagent models`: the models that can be named, of each provider whose key is set, and of an Ollama."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.model_lists import UnlistedError, default_among, models_of, strangers_ollama
from nbagent.core.text import safe
from nbagent.faces.cli import json_output


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a provider has.

    Attributes:
        key: The environment variable that has its key; empty if none has.
        models: The names of its models, as `provider:model`, the newest first.
        default: The model that is meant if none is named; empty if none is an obvious choice.
        problem: Why there are no models; empty if there are.
    """

    name: str
    key: str = ""
    models: tuple[str, ...] = ()
    default: str = ""
    problem: str = ""


async def models(text: str, *, as_json: bool) -> int:
    """Print the models whose names have a text; returns the exit code: 0 if there is one, else 1."""
    listed = await asyncio.gather(*(asyncio.to_thread(_listed, name) for name in PROVIDERS))
    wanted = text.casefold().split()
    found = [model for each in listed for model in each.models if all(word in model.casefold() for word in wanted)]
    if as_json:
        default = next((each.default for each in listed if each.default), None)
        providers = [{"name": each.name, "key": each.key, "problem": each.problem} for each in listed]
        json_output.show({"models": found, "default": default, "providers": providers})
        return 0 if found else 1
    for model in found:
        print(safe(model))
    for each in listed:
        if each.problem:
            print(safe(f"{each.name}: {each.problem}"), file=sys.stderr)
    return 0 if found else 1


def _listed(name: str) -> Listed:
    """Ask one provider for its models, if there is a key."""
    provider = PROVIDERS[name]
    key = provider.key
    if not (key or provider.url or name == "ollama"):
        return Listed(name=name, problem=f"there is no key; set {' or '.join(provider.keys)}.")
    if not provider.installed:
        return Listed(name=name, key=key, problem=f"its package is not installed; run {provider.install}.")
    if name == "ollama" and (stranger := strangers_ollama()):
        return Listed(name=name, key=key, problem=f"another user of this machine, {stranger}, listens at its address.")
    try:
        found = models_of(name)
    except UnlistedError as error:
        return Listed(name=name, key=key, problem=f"{error}.")
    default = default_among(name, found)
    names = tuple(f"{name}:{each.name}" for each in found)
    return Listed(name=name, key=key, models=names, default=f"{name}:{default}" if default else "")
