"""The providers: for each its package, its environment variables, and how its client is set up and closed.

Everything else is the business of its LangChain integration. Importing this module imports none of them.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import urllib.parse
from typing import Any, NamedTuple

from nbagent.core import compat

SILENCE = 600.0
"""Seconds without a byte after which a reply is given up: a model that thinks first, or is loaded first, sends none."""
CONNECT = 10.0
"""Seconds that connecting may take."""
OLLAMA = "http://127.0.0.1:11434"
OPENAIS_OWN = ("api.openai.com", ".api.openai.com")
"""OpenAI's own host, and the end of the others: all other servers are asked by chat completions, not by responses."""


_UNIQUE = itertools.count(1)


class Provider(NamedTuple):
    """One provider. The variables are listed in the order in which they are looked at."""

    module: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold the key."""
    urls: tuple[str, ...] = ()
    """Environment variables that may hold a base URL, with which no key is needed."""
    home: str = ""
    """The base URL if none of these is set."""
    extra: str = ""
    """The extra of nbagent that brings the module; empty if its own distribution must be installed."""
    client: str = ""
    """The attributes that lead from the chat model to its client, joined by dots."""

    @property
    def installed(self) -> bool:
        """Whether the integration can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def install(self) -> str:
        """The command that installs the integration."""
        return f"pip install 'nbagent[{self.extra}]'" if self.extra else f"pip install {self.module.replace('_', '-')}"

    @property
    def key(self) -> str:
        """The name of the variable that holds a key now, or an empty string."""
        return next((name for name in self.keys if os.environ.get(name)), "")

    @property
    def url(self) -> str:
        """The base URL from the environment, or an empty string."""
        return next((os.environ[name] for name in self.urls if os.environ.get(name)), "")

    @property
    def address(self) -> str:
        """The base URL, without a slash at the end."""
        return (self.url or self.home).rstrip("/")


# In the order in which a key in the environment decides. `models` looks up other providers in LangChain's registry.
PROVIDERS = {
    "anthropic": Provider(
        "langchain_anthropic",
        keys=("ANTHROPIC_API_KEY",),
        urls=("ANTHROPIC_BASE_URL",),
        home="https://api.anthropic.com",
        extra="anthropic",
        client=compat.ANTHROPIC_CLIENT.name,
    ),
    "openai": Provider(
        "langchain_openai",
        keys=("OPENAI_API_KEY",),
        urls=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        home="https://api.openai.com/v1",
        client="root_async_client",
    ),
    "google_genai": Provider(
        "langchain_google_genai",
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        urls=("GOOGLE_GEMINI_BASE_URL",),
        home="https://generativelanguage.googleapis.com",
        extra="google",
        client="client.aio",
    ),
    "groq": Provider(
        "langchain_groq",
        keys=("GROQ_API_KEY",),
        urls=("GROQ_BASE_URL", "GROQ_API_BASE"),
        home="https://api.groq.com",
        extra="groq",
        client=f"async_client.{compat.GROQ_CLIENT.name}",
    ),
    "openrouter": Provider(
        "langchain_openrouter",
        keys=("OPENROUTER_API_KEY",),
        urls=("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"),
        home="https://openrouter.ai/api/v1",
        extra="openrouter",
        client="client.sdk_configuration.async_client",
    ),
    "ollama": Provider(
        "langchain_ollama",
        keys=("OLLAMA_API_KEY",),  # of its cloud; a local one wants none
        urls=("OLLAMA_HOST",),
        home=OLLAMA,
        extra="ollama",
        client=compat.OLLAMA_CLIENT.name,
    ),
}


def options(name: str) -> dict[str, Any]:
    """Settings of a provider's chat models. The client doesn't retry: `Retries` does, in one way for all providers."""
    if name not in PROVIDERS:
        return {}
    known = PROVIDERS[name]
    if name == "ollama":
        return _ollama(known)
    # A reply may take minutes. It is streamed, so that no proxy takes the silence for a dead connection.
    common: dict[str, Any] = {"max_retries": 0, "streaming": True, "timeout": SILENCE}
    if known.url:
        common["base_url"] = known.url
        if known.keys and not known.key:
            common["api_key"] = "none"  # the client insists on one, the server doesn't
    return {**common, **_SPECIAL[name](known)}


def _anthropic(_: Provider) -> dict[str, Any]:
    # langchain-anthropic shares one HTTP client among all models of the same address and timeout, across event loops,
    # which breaks the second loop. A timeout that nobody else has keeps this model's client its own.
    return {"timeout": SILENCE + next(_UNIQUE) / 1000, "stream_usage": True}


def _openai(known: Provider) -> dict[str, Any]:
    from openai import Timeout

    # Given as an object, it also keeps langchain-openai from sharing one HTTP client between event loops.
    special: dict[str, Any] = {"timeout": Timeout(SILENCE, connect=CONNECT), "stream_usage": True}
    host = urllib.parse.urlsplit(known.address).hostname or ""
    if host != OPENAIS_OWN[0] and not host.endswith(OPENAIS_OWN[1:]):
        special["use_responses_api"] = False
    return special


def _google(_: Provider) -> dict[str, Any]:
    return {"max_retries": 1}  # counts the first attempt; 0 means the client's own default


def _groq(known: Provider) -> dict[str, Any]:
    # Its client appends `openai/v1` itself, and people write the address with and without it.
    return {"base_url": known.url.rstrip("/").removesuffix("/openai/v1")} if known.url else {}


def _openrouter(_: Provider) -> dict[str, Any]:
    # Its defaults would say that LangChain's documentation asks. Its timeout is in milliseconds.
    return {"timeout": int(SILENCE * 1000), "app_title": "nbagent", "app_url": ""}


def _ollama(known: Provider) -> dict[str, Any]:
    from httpx import Timeout

    return {"base_url": ollama_address(known.address), "client_kwargs": {"timeout": Timeout(SILENCE, connect=CONNECT)}}


_SPECIAL = {
    "anthropic": _anthropic,
    "openai": _openai,
    "google_genai": _google,
    "groq": _groq,
    "openrouter": _openrouter,
}


def configure(name: str, chat: Any) -> None:
    """Set up what a chat model has no option for: OpenRouter's client would silently retry for an hour."""
    if name == "openrouter":
        from openrouter.utils import BackoffStrategy, RetryConfig

        none = BackoffStrategy(initial_interval=0, max_interval=0, exponent=0, max_elapsed_time=0)
        chat.client.sdk_configuration.retry_config = RetryConfig("none", none, retry_connection_errors=False)


def client_of(name: str, chat: Any) -> Any:
    """The client of a chat model, which no other model uses; None if it isn't known where the chat model keeps it."""
    path = PROVIDERS[name].client if name in PROVIDERS else ""
    return functools.reduce(lambda found, each: getattr(found, each, None), path.split("."), chat) if path else None


def ollama_address(host: str) -> str:
    """`OLLAMA_HOST` as a URL; it may be the address on which a server listens, such as `0.0.0.0` or `:11434`."""
    parts = urllib.parse.urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or ""
    name = f"[{name}]" if ":" in name else name
    name = "127.0.0.1" if name in ("", "0.0.0.0", "[::]") else name  # noqa: S104 - nothing listens there
    port = parts.port or {"https": 443}.get(parts.scheme, 11434)
    if "://" in host and parts.port is None:
        port = {"https": 443, "http": 80}[parts.scheme]
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/')}"
