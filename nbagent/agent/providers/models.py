"""Opens the model that answers: named as `provider:model`, replayed from a file, or found.

Checking a name imports no LangChain; opening a model does.
"""

from __future__ import annotations

import difflib
import inspect
import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbagent.agent.providers.known import PROVIDERS, Provider, client_of, configure, options
from nbagent.agent.providers.model_lists import UnlistedError, default_of, models_of, ollama_can, some, strangers_ollama
from nbagent.core import compat
from nbagent.core.errors import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from nbagent.agent.providers.replay import Recorder

REPLAY = "replay"

_ADDRESSES = (
    *("openai_api_base", "anthropic_api_url", "groq_api_base", "openrouter_api_base", "azure_endpoint"),
    *("mistral_api_base", "endpoint_url", "endpoint", "base_url"),
)
"""The attributes in which integrations keep the address of a chat model."""

Images = Literal["no", "in results", "after results"]
"""Where a model takes images: nowhere, in a tool's message, or only in a message after it."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """An opened model.

    Attributes:
        chat: LangChain's chat model.
        name: `provider:model` or `replay:FILE`, as it is shown.
        is_replay: Whether its replies are recorded; a face must say so wherever it shows the model.
        images: Where it takes images.
        recorder: Records its replies; None if they are not recorded.
        structured: Whether it replies with objects instead of calls, see `structured.py`.
    """

    chat: BaseChatModel
    name: str
    is_replay: bool = False
    images: Images = "no"
    recorder: Recorder | None = None
    structured: bool = False

    @property
    def provider(self) -> str:
        """The provider in its name."""
        return self.name.partition(":")[0]

    @property
    def host(self) -> str:
        """The host that gets its requests, as `HOST` or `HOST:PORT`; empty for a recorded model, which sends none.

        The provider's own host if the integration doesn't tell another; the provider's name if that isn't known either.
        """
        if self.is_replay:
            return ""
        known = PROVIDERS.get(self.provider)
        found = [getattr(self.chat, name, None) for name in _ADDRESSES]
        address = next((each for each in found if isinstance(each, str) and each), known.address if known else "")
        return urllib.parse.urlsplit(address).netloc.rpartition("@")[2] or self.provider

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        # LangChain's chat models have no `close`; each keeps its client under a name of its own.
        client = None if self.is_replay else client_of(self.provider, self.chat)
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing


def check_name(name: str) -> tuple[str, str]:
    """The provider and the model in a name, or `replay` and the file; nothing is opened.

    Raises:
        ModelError: The name is malformed, the provider is unknown, or its integration or key is missing.
    """
    provider, colon, model = name.strip().partition(":")
    if not colon or not provider or not model:
        raise ModelError(
            f"{name!r} is no model's name.",
            mend=f"Write PROVIDER:MODEL, or replay:FILE. Providers: {', '.join(PROVIDERS)}.",
        )
    if provider == REPLAY:
        return provider, model
    known = PROVIDERS.get(provider) or _from_langchain(provider)
    if not known.installed:
        raise ModelError(f"Models of {provider} need a package that is not installed.", mend=f"Run: {known.install}")
    gateway = os.environ.get("LANGSMITH_GATEWAY", "").lower() not in ("", "0", "false", "no")
    if provider != "ollama" and known.keys and not known.key and not known.url and not gateway:
        raise ModelError(f"There is no key for {provider}.", mend=f"Set {' or '.join(known.keys)}.")
    return provider, model


def open_model(name: str, *, record: Path | None = None, structured: bool = False) -> Model:
    """Open a model by name. An Ollama is asked for the model's capabilities, which takes milliseconds.

    Args:
        name: `provider:model`, or `replay:FILE`.
        record: A new file for its replies.
        structured: Whether it is to reply with objects instead of calls; a recording of objects does in any case.
    """
    from nbagent.agent.providers.replay import Recorder, ReplayModel

    provider, model = check_name(name)
    if provider == REPLAY:
        chat: BaseChatModel = (replay := ReplayModel.open(Path(model).expanduser()))
        structured = structured or replay.is_structured
    else:
        chat = _open(provider, model)
    return Model(
        chat=chat,
        # A recording's folder is left out: notebooks show this name to others.
        name=f"{provider}:{Path(model).name if provider == REPLAY else model}",
        is_replay=provider == REPLAY,
        images=_ollamas_images(model, tools=not structured) if provider == "ollama" else images_of(chat),
        recorder=Recorder(record) if record else None,
        structured=structured,
    )


def find_model(*, structured: bool = False) -> str:
    """The name of a model when the person named none: of a provider whose key is set, else of an Ollama.

    The provider is asked for its models, since a name in the code would age. Blocks for some seconds at most.

    Raises:
        ModelError: None was found; the message says the three ways out.
    """
    for name, provider in PROVIDERS.items():
        if name != "ollama" and (provider.key or provider.url) and provider.installed:
            return _default(name, provider)
    if stranger := strangers_ollama():
        raise ModelError(
            f"No model was named, and Ollama's address is that of another user of this machine, {stranger}.",
            mend="If you trust them with your data, name it: --model ollama:MODEL.",
        )
    if model := _ollama_model(tools=not structured):
        return f"ollama:{model}"
    without = [provider for provider in PROVIDERS.values() if provider.key]
    hint = f" ({without[0].key} is set; for it, run: {without[0].install})" if without else ""
    raise ModelError(
        "No model was named and none was found.",
        mend=f"Set a key such as OPENAI_API_KEY or ANTHROPIC_API_KEY{hint}, or start Ollama (https://ollama.com) with "
        "a model that calls tools, or name a model yourself: PROVIDER:MODEL, or replay:FILE for a recorded one.",
    )


def model_of(chat: BaseChatModel, models: Sequence[Model]) -> Model:
    """The model of the agent that has this chat model; the first if none has."""
    return next((model for model in models if model.chat is chat), models[0])


def images_of(chat: BaseChatModel) -> Images:
    """Where a model takes images, by LangChain's profile of it; an unknown model takes none."""
    profile: dict[str, Any] = dict(getattr(chat, "profile", None) or {})
    if not profile.get("image_inputs"):
        return "no"
    # OpenAI's profiles are about the Responses API; in chat completions, a tool's message is text only.
    kinds = {base.__name__ for base in type(chat).__mro__}
    by_completions = "BaseChatOpenAI" in kinds and not _by_responses(chat)
    # langchain-google-genai puts an image beside the result, and makes the result's text a list in a list.
    plain = by_completions or "ChatGoogleGenerativeAI" in kinds
    return "in results" if profile.get("image_tool_message") and not plain else "after results"


def _by_responses(chat: Any) -> bool:
    """Whether this ChatOpenAI will use the Responses API with our tools, by its own rule."""
    if isinstance(chat.use_responses_api, bool):
        return chat.use_responses_api
    rule = compat.RESPONSES_RULE.of(chat)
    return bool(rule and rule({"tools": [{"type": "function", "function": {"name": "python"}}]}))


def _open(provider: str, model: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    from nbagent.agent.providers import partial
    from nbagent.agent.providers.attempt import WATCH

    try:
        chat: BaseChatModel = init_chat_model(model, model_provider=provider, callbacks=[WATCH], **options(provider))
    except ImportError as error:
        raise ModelError(f"Models of {provider} can't be opened: {error}.") from error
    except Exception as error:
        # Each integration has errors of its own (pydantic's, its SDK's, ValueError), all about its settings.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ModelError(f"{provider}:{model} can't be opened: {' '.join(lines)[:300]}") from error
    configure(provider, chat)
    partial.bound_parsing(chat, client_of(provider, chat))
    return chat


def _from_langchain(name: str) -> Provider:
    """A provider that only LangChain's registry has."""
    from langchain.chat_models import base

    registry: dict[str, tuple[str, ...]] = compat.PROVIDERS.of(base) or {}
    if name not in registry:
        known = sorted({*PROVIDERS, *registry})
        near = difflib.get_close_matches(name, known, 1)
        mend = f"Did you mean {near[0]}?" if near else f"Use one of: {', '.join(known)}."
        raise ModelError(f"There is no provider {name!r}.", mend=mend)
    return Provider(registry[name][0].partition(".")[0])


def _default(name: str, provider: Provider) -> str:
    """The name of a provider's default model."""
    seen = provider.key if provider.key and not provider.url else f"the address {provider.address}"
    try:
        if model := default_of(name):
            return f"{name}:{model}"
        has = some(models_of(name))
    except UnlistedError as error:
        raise ModelError(
            f"No model was named; by {seen}, {name} was asked what it has, but {error}.",
            mend=f"Name a model yourself, as {name}:MODEL, or check {seen}.",
        ) from error
    raise ModelError(
        f"No model was named, and {seen} leads to {'several' if has else 'none'}.",
        mend=f"Name one, as {name}:MODEL" + (f": {has}." if has else "."),
    )


def _ollama_model(*, tools: bool = True) -> str:
    """The model of an Ollama that was changed last, and calls tools if it must; empty if there is none."""
    try:
        names = [model.name for model in models_of("ollama")]
        can = {name: ollama_can(name) for name in names[:10]}
    except UnlistedError:
        return ""
    # An Ollama from before 2025 doesn't tell what its models can.
    wanted = "tools" if tools else "completion"
    return next((name for name, able in can.items() if not able or wanted in able), "")


def _ollamas_images(model: str, *, tools: bool = True) -> Images:
    """Where an Ollama's model takes images."""
    try:
        able = ollama_can(model)
    except UnlistedError:
        try:
            listed = models_of("ollama")
        except UnlistedError:
            return "no"  # it isn't there now; if it still isn't, the first request fails
        if {model, f"{model}:latest"} & {each.name for each in listed}:
            return "no"  # a server like Ollama that doesn't tell its models' capabilities
        names = some(listed, like=model)
        has = f"It has: {names}. " if names else ""
        raise ModelError(f"Ollama has no model {model!r}.", mend=f"{has}Run: ollama pull {model}") from None
    if tools and able and "tools" not in able:
        raise ModelError(
            f"The model {model!r} can't call tools, says Ollama.",
            mend="Use one that can, such as a qwen3 or gpt-oss, or have it reply with objects instead: --structured.",
        )
    return "after results" if "vision" in able else "no"
