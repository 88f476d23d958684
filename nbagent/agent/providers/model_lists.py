"""The models that a provider lists: for a default that doesn't age, and for the error about a model that isn't there.

Each provider has an address that lists its models. It is asked only when no model was named, or when the named model
is not there. An Ollama also tells what each of its models can do.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import pwd
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nbagent.agent.providers.known import PROVIDERS, Provider, ollama_address
from nbagent.sandbox.inside.message_sizes_inside import MAX_WEIGHT
from nbagent.sandbox.untrusted import parse

LIST_SECONDS = 5.0
"""Seconds that a provider has to list its models."""
LIMIT = 4 * 1024 * 1024
"""Bytes of a list; the longest today, OpenRouter's, has a fifth of that."""
SHOWN = 8
"""Models that an error names."""
FIRST_PERSON = 1000
"""The lowest user id of a person; below are root and services."""

# Models that don't talk, or that nobody means who names no model.
_OTHER = re.compile(
    r"embed|whisper|tts|audio|speech|transcribe|translat|realtime|live|image|video|veo|imagen|lyria|dall-e|sora|moderation"
    r"|guard|safe|rerank|search|deep-research|computer-use|instruct\d|davinci|babbage|orpheus|compound|robotics",
    re.IGNORECASE,
)
_LESSER = re.compile(r"mini|nano|lite|pro\b|codex|chat|preview|instant|\d{4}-\d{2}-\d{2}|-\d{4,8}\b", re.IGNORECASE)
# The first pattern that matches decides, and of its matches the newest.
_PREFERRED = {
    "anthropic": (r"claude-.*sonnet|claude-sonnet", r"claude"),
    "openai": (r"^gpt-\d+(\.\d+)?(-[a-z]+)?$", r"^gpt-"),
    "google_genai": (r"^gemini-flash-latest$", r"^gemini-.*flash$", r"^gemini"),
    "groq": (r"gpt-oss-\d{3,}b$", r"gpt-oss|llama|qwen|kimi"),
    "openrouter": (r"^openrouter/auto$",),
    "ollama": (r"",),
}


class ListedModel(NamedTuple):
    """A model that a provider lists."""

    name: str
    created: str = ""
    """When it was created, in a form that sorts; empty if the provider doesn't say."""


class UnlistedError(Exception):
    """A provider did not list its models; the message says why, as a clause."""


def models_of(name: str) -> list[ListedModel]:
    """The models of a provider that talk, newest first if it says when they were created.

    Blocks for up to `LIST_SECONDS`.

    Raises:
        UnlistedError: The provider can't be asked, or answers with something else.
    """
    provider = PROVIDERS[name]
    try:
        url, headers = _question(name, provider)
    except ValueError as error:
        raise UnlistedError(f"{provider.address} is no address") from error
    found = _get(url, headers)
    try:
        rows = found.get("models" if name in ("ollama", "google_genai") else "data") or []
        listed = [_row(row) for row in rows if _talks(row)]
    except (AttributeError, KeyError, TypeError) as error:
        raise UnlistedError("it answers with something else than a list of models") from error
    return sorted((model for model in listed if not _OTHER.search(model.name)), key=_age, reverse=True)


def default_of(name: str) -> str:
    """The model to use when none was named; empty if none is an obvious choice.

    Raises:
        UnlistedError: The provider can't be asked.
    """
    return default_among(name, models_of(name))


def default_among(name: str, models: Sequence[ListedModel]) -> str:
    """The same, among the models that a provider has listed."""
    if name == "openai" and PROVIDERS[name].url:
        # A person's own server names its models as it likes; a single one is the default.
        return models[0].name if len(models) == 1 else ""
    for pattern in _PREFERRED[name]:
        matching = [model.name for model in models if re.search(pattern, model.name)]
        if matching:
            return next((each for each in matching if not _LESSER.search(each)), matching[0])
    return ""


def some(models: Sequence[ListedModel], *, like: str = "") -> str:
    """The names of some models, for a sentence: first those that resemble `like`; empty if there are none."""
    names = [model.name for model in models]
    close = difflib.get_close_matches(like, names, n=3, cutoff=0.4) if like else []
    shown = [*close, *(name for name in names if name not in close)][:SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def ollama_can(model: str) -> frozenset[str]:
    """The capabilities of an Ollama's model, such as `completion`, `tools`, `vision`; empty if it doesn't say.

    Raises:
        UnlistedError: Ollama can't be asked, or doesn't have the model.
    """
    given = PROVIDERS["ollama"].address
    try:
        address = ollama_address(given)
    except ValueError as error:
        raise UnlistedError(f"{given} is no address") from error
    body = json.dumps({"model": model}).encode()
    found = _get(f"{address}/api/show", {**_ollamas_key(), "Content-Type": "application/json"}, body=body)
    capabilities = found.get("capabilities")
    return frozenset(capabilities) if isinstance(capabilities, list) else frozenset()


def strangers_ollama() -> str:
    """The other user of this machine who listens at Ollama's address; empty if nobody is known to.

    Any user can listen there, and would be sent the questions and parts of the data. A service, which has one of the
    system's users, is trusted. Who listens on another machine is not known.
    """
    try:
        address = urllib.parse.urlsplit(ollama_address(PROVIDERS["ollama"].address))
        port = address.port
    except ValueError:
        return ""
    if address.hostname not in ("127.0.0.1", "localhost", "::1"):
        return ""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            for row in (line.split() for line in table.read_text().splitlines()[1:]):
                uid = int(row[7])
                is_listening = row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port
                if is_listening and uid != os.getuid() and uid >= FIRST_PERSON:
                    return _user(uid)
    return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _question(name: str, provider: Provider) -> tuple[str, dict[str, str]]:
    """The address of a provider's list, and the headers for it."""
    key = os.environ.get(provider.key, "") if provider.key else ""
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    match name:
        case "anthropic":
            return f"{provider.address}/v1/models?limit=1000", {"x-api-key": key, "anthropic-version": "2023-06-01"}
        case "google_genai":
            return f"{provider.address}/v1beta/models?pageSize=1000", {"x-goog-api-key": key}
        case "groq":
            return f"{provider.address.removesuffix('/openai/v1')}/openai/v1/models", bearer
        case "ollama":
            return f"{ollama_address(provider.address)}/api/tags", _ollamas_key()
    return f"{provider.address}/models", bearer


def _ollamas_key() -> dict[str, str]:
    key = os.environ.get("OLLAMA_API_KEY", "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _get(url: str, headers: dict[str, str], *, body: bytes | None = None) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise UnlistedError(f"{url} is no address")
    try:
        request = urllib.request.Request(url, data=body, headers={"User-Agent": "nbagent", **headers})  # noqa: S310
        with urllib.request.urlopen(request, timeout=LIST_SECONDS) as response:  # noqa: S310 - HTTP
            found = parse(response.read(LIMIT), limit=LIMIT, heft=MAX_WEIGHT)
    except urllib.error.HTTPError as error:
        error.close()
        refused = "the key" if error.code in (401, 403) else "the request"
        raise UnlistedError(f"it refuses {refused} ({error.code})") from error
    except ValueError as error:
        raise UnlistedError("it answers with something else than a list of models") from error
    except (OSError, urllib.error.URLError) as error:
        why = getattr(error, "reason", error)
        raise UnlistedError(f"it can't be reached ({getattr(why, 'strerror', '') or why})") from error
    except Exception as error:  # http.client has its own tree for an answer that is no HTTP
        raise UnlistedError(f"what it answers is no HTTP ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise UnlistedError("it answers with something else than a list of models")
    return found


def _row(row: dict[str, Any]) -> ListedModel:
    """A model by its row, in any provider's form."""
    name = str(row.get("id") or row["name"]).removeprefix("models/")
    created = row.get("created_at") or row.get("modified_at") or row.get("created") or ""
    # Seconds since the epoch have ten digits until the year 2286, so they sort as text does.
    return ListedModel(name, str(created))


def _talks(row: dict[str, Any]) -> bool:
    """Whether a model can answer and call tools, as far as the list tells; most tell little."""
    methods = row.get("supportedGenerationMethods")  # Google
    parameters = row.get("supported_parameters")  # OpenRouter
    return (
        (methods is None or "generateContent" in methods)
        and (not parameters or "tools" in parameters or row.get("id") == "openrouter/auto")
        and row.get("active") is not False  # Groq
    )


def _age(model: ListedModel) -> tuple[str, int]:
    """What models are sorted by: their age, then the length of their names, as `gpt-5` has variants of the same day."""
    return model.created, -len(model.name)
