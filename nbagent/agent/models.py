"""Which model answers: named as `provider:model`, replayed from a file, or found.

Checking a name costs no import of LangChain; opening the model does.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nbagent.errors import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from nbagent.agent.replay import Recorder

REPLAY = "replay"
RETRIES = 4
"""Retries in a provider's own client, which waits as long as the server asks (Retry-After): 7 s of backoff in all."""
OLLAMA = ("127.0.0.1", 11434)
PROBE_SECONDS = 0.5


class Provider(NamedTuple):
    """What must be known of a provider before LangChain is imported."""

    module: str
    keys: tuple[str, ...] = ()
    """Environment variables of which one holds the key."""
    urls: tuple[str, ...] = ()
    """Environment variables of a base URL that makes a key needless."""
    extra: str = ""
    """The extra of nbagent that brings the module; without one, its own distribution is named."""
    default: str = ""
    """The model that is taken when only a key was found."""

    @property
    def installed(self) -> bool:
        """Whether the integration can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def install(self) -> str:
        """The command that makes it so."""
        return f"pip install 'nbagent[{self.extra}]'" if self.extra else f"pip install {self.module.replace('_', '-')}"

    @property
    def key(self) -> str:
        """The name of the variable that holds a key now, or an empty string."""
        return next((name for name in self.keys if os.environ.get(name)), "")

    @property
    def url(self) -> str:
        """The base URL from the environment, or an empty string."""
        return next((os.environ[name] for name in self.urls if os.environ.get(name)), "")


# In the order in which a key in the environment is taken. The others that LangChain knows are looked up there.
PROVIDERS = {
    "anthropic": Provider(
        "langchain_anthropic", ("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL",), "anthropic", "claude-sonnet-4-5"
    ),
    "openai": Provider("langchain_openai", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"), "", "gpt-5.1"),
    "google_genai": Provider(
        "langchain_google_genai", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), (), "google", "gemini-flash-latest"
    ),
    "groq": Provider("langchain_groq", ("GROQ_API_KEY",), (), "groq", "openai/gpt-oss-120b"),
    "openrouter": Provider("langchain_openrouter", ("OPENROUTER_API_KEY",), (), "openrouter", "openrouter/auto"),
    "ollama": Provider("langchain_ollama", extra="ollama"),
}

Images = Literal["no", "in results", "after results"]
"""Where a model takes images: nowhere, in a tool's message, or only in a message that follows it."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """An opened model.

    Attributes:
        chat: LangChain's chat model.
        name: How it is shown, `provider:model` or `replay:FILE`.
        is_replay: Whether its replies are recorded ones; to be labelled wherever it shows.
        images: Where it takes images.
        recorder: Where its replies are written, if anywhere.
    """

    chat: BaseChatModel
    name: str
    is_replay: bool = False
    images: Images = "no"
    recorder: Recorder | None = None

    async def aclose(self) -> None:
        """Close the connections to the provider, where they are this model's own."""
        # LangChain's chat models have no `close`. The client of the others is shared within the process.
        client = getattr(self.chat, "root_async_client", None)
        if client is not None:
            await client.close()


def check_name(name: str) -> tuple[str, str]:
    """A name's provider and model (or `replay` and the file), without opening anything.

    Raises:
        ModelError: It has not that form, the provider is unknown, or its integration or key is missing.
    """
    provider, colon, model = name.strip().partition(":")
    if not colon or not provider or not model:
        raise ModelError(
            f"{name!r} is no model's name.", mend=f"Write PROVIDER:MODEL, or replay:FILE. Providers: {_known()}."
        )
    if provider == REPLAY:
        return provider, model
    known = PROVIDERS.get(provider) or _from_langchain(provider)
    if not known.installed:
        raise ModelError(f"Models of {provider} need a package that is not installed.", mend=f"Run: {known.install}")
    gateway = os.environ.get("LANGSMITH_GATEWAY", "").lower() not in ("", "0", "false", "no")
    if known.keys and not known.key and not known.url and not gateway:
        raise ModelError(f"There is no key for {provider}.", mend=f"Set {' or '.join(known.keys)}.")
    return provider, model


def open_model(name: str, *, record: Path | None = None) -> Model:
    """Open a model by name.

    Args:
        name: `provider:model`, or `replay:FILE`.
        record: A new file for its replies.

    Raises:
        ModelError: The model can't be had.
        ReplayError: The replay file can't be read.
        StoreError: The recording can't be written.
    """
    from nbagent.agent.replay import Recorder, ReplayModel

    provider, model = check_name(name)
    if provider == REPLAY:
        chat: BaseChatModel = ReplayModel.open(Path(model).expanduser())
    else:
        chat = _open(provider, model)
    return Model(
        chat=chat,
        # Of a recording only the file's name: notebooks carry this, and folders are nobody's business.
        name=f"{provider}:{Path(model).name if provider == REPLAY else model}",
        is_replay=provider == REPLAY,
        images=images_of(chat),
        recorder=Recorder(record) if record else None,
    )


def find_model() -> str:
    """The name of a model, when the person named none: by a key in the environment, then a local Ollama.

    Blocks for up to half a second.

    Raises:
        ModelError: There is none; the message says the three ways out.
    """
    for name, provider in PROVIDERS.items():
        if provider.url and provider.urls and name == "openai":
            raise ModelError(
                f"There is an address for models, {provider.url}, but no model was named.",
                mend="Name one that it has, as openai:MODEL.",
            )
        if provider.key and provider.installed:
            return f"{name}:{provider.default}"
    if model := _ollama_model():
        return f"ollama:{model}"
    without = [provider for provider in PROVIDERS.values() if provider.key]
    hint = f" ({without[0].key} is set; for it, run: {without[0].install})" if without else ""
    raise ModelError(
        "No model was named and none was found.",
        mend=f"Set a key such as OPENAI_API_KEY or ANTHROPIC_API_KEY{hint}, or start Ollama (https://ollama.com) with "
        "a model that calls tools, or name a model yourself: PROVIDER:MODEL, or replay:FILE for a recorded one.",
    )


def images_of(chat: BaseChatModel) -> Images:
    """Where a model takes images, by the profile that LangChain has of it; an unknown model gets none."""
    profile: dict[str, Any] = dict(getattr(chat, "profile", None) or {})
    if not profile.get("image_inputs"):
        return "no"
    # The profiles of OpenAI's models tell of the Responses API; in chat completions a tool's message is only text.
    by_completions = any(base.__name__ == "BaseChatOpenAI" for base in type(chat).__mro__) and not getattr(
        chat, "use_responses_api", None
    )
    return "in results" if profile.get("image_tool_message") and not by_completions else "after results"


def _open(provider: str, model: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    try:
        chat: BaseChatModel = init_chat_model(model, model_provider=provider, **_options(provider))
    except ImportError as error:
        raise ModelError(f"Models of {provider} can't be opened: {error}.") from error
    except Exception as error:
        # Each integration has its own errors here (pydantic's, its SDK's, ValueError), all of them about settings.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ModelError(f"{provider}:{model} can't be opened: {' '.join(lines)[:300]}") from error
    return chat


def _options(provider: str) -> dict[str, Any]:
    """Settings of a chat model that don't depend on the model."""
    if provider not in ("openai", "anthropic"):
        return {}
    # A reply may take minutes: streamed, no proxy between takes the silence for a dead connection.
    options: dict[str, Any] = {"max_retries": RETRIES, "streaming": True, "stream_usage": True}
    known = PROVIDERS[provider]
    if known.url:
        options["base_url"] = known.url
        if provider == "openai":
            options["use_responses_api"] = False
        if not known.key:
            options["api_key"] = "none"  # the client insists on one, the server doesn't
    if provider == "openai":
        from openai import Timeout

        # Given as an object, it also keeps langchain-openai from sharing one HTTP client between event loops.
        options["timeout"] = Timeout(600.0, connect=10.0)
    return options


def _known() -> str:
    return ", ".join(PROVIDERS)


def _from_langchain(name: str) -> Provider:
    """A provider that only LangChain's registry has.

    Raises:
        ModelError: Not even that; the message lists what there is.
    """
    from langchain.chat_models import base

    registry: dict[str, tuple[str, ...]] = getattr(base, "_BUILTIN_PROVIDERS", {})
    if name not in registry:
        raise ModelError(
            f"There is no provider {name!r}.", mend=f"Use one of: {', '.join(sorted({*PROVIDERS, *registry}))}."
        )
    return Provider(registry[name][0].partition(".")[0])


def _ollama_model() -> str:
    """The model that a local Ollama used or fetched last, embedding models aside; empty if none answers."""
    connection = http.client.HTTPConnection(*OLLAMA, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/api/tags")
        models = json.loads(connection.getresponse().read(1 << 20))["models"]
        named = [(str(model.get("modified_at", "")), str(model["name"])) for model in models]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
    return max((pair for pair in named if "embed" not in pair[1]), default=("", ""))[1]
