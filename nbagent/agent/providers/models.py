"""Which model answers: named as `provider:model`, replayed from a file, or found.

Checking a name costs no import of LangChain; opening the model does.
"""

from __future__ import annotations

import inspect
import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbagent.agent.providers.catalogue import UnlistedError, default_of, models_of, ollama_can, some, strangers_ollama
from nbagent.agent.providers.known import PROVIDERS, Provider, client_of, options, settle
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
"""What integrations call the address of their chat model."""

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
        """The first half of its name."""
        return self.name.partition(":")[0]

    @property
    def host(self) -> str:
        """Where its requests go, `HOST` or `HOST:PORT`; empty for a recording, which is asked nothing.

        The provider's own host if its integration doesn't tell another, and its name if that isn't known either.
        """
        if self.is_replay:
            return ""
        known = PROVIDERS.get(self.provider)
        told = [getattr(self.chat, name, None) for name in _ADDRESSES]
        address = next((each for each in told if isinstance(each, str) and each), known.address if known else "")
        return urllib.parse.urlsplit(address).netloc.rpartition("@")[2] or self.provider

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        # LangChain's chat models have no `close`; each keeps its client under a name of its own.
        client = None if self.is_replay else client_of(self.provider, self.chat)
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing


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
    if provider != "ollama" and known.keys and not known.key and not known.url and not gateway:
        raise ModelError(f"There is no key for {provider}.", mend=f"Set {' or '.join(known.keys)}.")
    return provider, model


def open_model(name: str, *, record: Path | None = None, structured: bool = False) -> Model:
    """Open a model by name. An Ollama is asked what the model can, which takes milliseconds.

    Args:
        name: `provider:model`, or `replay:FILE`.
        record: A new file for its replies.
        structured: Whether it is to reply with objects instead of calls; a recording of such replies does anyway.

    Raises:
        ModelError: The model can't be had.
        ReplayError: The replay file can't be read.
        StoreError: The recording can't be written.
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
        # Of a recording only the file's name: notebooks carry this, and folders are nobody's business.
        name=f"{provider}:{Path(model).name if provider == REPLAY else model}",
        is_replay=provider == REPLAY,
        images=_ollamas_images(model, tools=not structured) if provider == "ollama" else images_of(chat),
        recorder=Recorder(record) if record else None,
        structured=structured,
    )


def find_model(*, structured: bool = False) -> str:
    """The name of a model, when the person named none: by a key in the environment, then by what an Ollama has.

    The provider itself is asked what it has, since any name that stood here would age. Blocks for some seconds at most.

    Args:
        structured: Whether one will do that can't call tools.

    Raises:
        ModelError: There is none; the message says the three ways out.
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
    """The model that a request is for, of those that an agent may use; the first if it is none of them."""
    return next((model for model in models if model.chat is chat), models[0])


def images_of(chat: BaseChatModel) -> Images:
    """Where a model takes images, by the profile that LangChain has of it; an unknown model gets none."""
    profile: dict[str, Any] = dict(getattr(chat, "profile", None) or {})
    if not profile.get("image_inputs"):
        return "no"
    # The profiles of OpenAI's models tell of the Responses API; in chat completions a tool's message is only text.
    kinds = {base.__name__ for base in type(chat).__mro__}
    by_completions = "BaseChatOpenAI" in kinds and not _by_responses(chat)
    # langchain-google-genai puts an image beside the result, and makes the result's text a list in a list.
    plain = by_completions or "ChatGoogleGenerativeAI" in kinds
    return "in results" if profile.get("image_tool_message") and not plain else "after results"


def _by_responses(chat: Any) -> bool:
    """Whether this ChatOpenAI will use the Responses API with tools of ours; its own rule, where it lets us ask."""
    if isinstance(chat.use_responses_api, bool):
        return chat.use_responses_api
    rule = compat.RESPONSES_RULE.of(chat)
    return bool(rule and rule({"tools": [{"type": "function", "function": {"name": "python"}}]}))


def _open(provider: str, model: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    from nbagent.agent.providers import partial
    from nbagent.agent.providers.watch import WATCH

    try:
        chat: BaseChatModel = init_chat_model(model, model_provider=provider, callbacks=[WATCH], **options(provider))
    except ImportError as error:
        raise ModelError(f"Models of {provider} can't be opened: {error}.") from error
    except Exception as error:
        # Each integration has its own errors here (pydantic's, its SDK's, ValueError), all of them about settings.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ModelError(f"{provider}:{model} can't be opened: {' '.join(lines)[:300]}") from error
    settle(provider, chat)
    partial.spare(chat, client_of(provider, chat))
    return chat


def _known() -> str:
    return ", ".join(PROVIDERS)


def _from_langchain(name: str) -> Provider:
    """A provider that only LangChain's registry has.

    Raises:
        ModelError: Not even that; the message lists what there is.
    """
    from langchain.chat_models import base

    registry: dict[str, tuple[str, ...]] = compat.PROVIDERS.of(base) or {}
    if name not in registry:
        raise ModelError(
            f"There is no provider {name!r}.", mend=f"Use one of: {', '.join(sorted({*PROVIDERS, *registry}))}."
        )
    return Provider(registry[name][0].partition(".")[0])


def _default(name: str, provider: Provider) -> str:
    """The name of the model that is taken of a provider.

    Raises:
        ModelError: It can't be asked, or it has no obvious one.
    """
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
    """The model that an Ollama changed last, of those that call tools if they must; empty if none answers."""
    try:
        names = [model.name for model in models_of("ollama")]
        can = {name: ollama_can(name) for name in names[:10]}
    except UnlistedError:
        return ""
    # An Ollama from before 2025 doesn't tell what its models can.
    wanted = "tools" if tools else "completion"
    return next((name for name, able in can.items() if not able or wanted in able), "")


def _ollamas_images(model: str, *, tools: bool = True) -> Images:
    """Where an Ollama's model takes images.

    Raises:
        ModelError: Ollama answers, but hasn't got the model, or the model can't call tools and must.
    """
    try:
        able = ollama_can(model)
    except UnlistedError:
        try:
            listed = models_of("ollama")
        except UnlistedError:
            return "no"  # it isn't there; the first call says so, if it still isn't
        if {model, f"{model}:latest"} & {each.name for each in listed}:
            return "no"  # a server that is like Ollama, but doesn't tell what its models can
        names = some(listed, like=model)
        has = f"It has: {names}. " if names else ""
        raise ModelError(f"Ollama has no model {model!r}.", mend=f"{has}Run: ollama pull {model}") from None
    if tools and able and "tools" not in able:
        raise ModelError(
            f"The model {model!r} can't call tools, says Ollama.",
            mend="Use one that can, such as a qwen3 or gpt-oss, or have it reply with objects instead: --structured.",
        )
    return "after results" if "vision" in able else "no"
