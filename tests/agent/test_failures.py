"""What is worth another try, and what is told; the failures over the wire are in test_build."""

from __future__ import annotations

import email.utils
import json
import time

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError

from nbagent.agent.providers.failures import (
    BROKEN_RETRIES,
    RETRIES,
    SILENT_RETRIES,
    BrokenReplyError,
    failure,
    is_missing_model,
    retries_of,
    retry_after,
    wait_of,
)


class HttpError(Exception):
    """As Ollama's client and others raise: a status, no LangChain class."""

    def __init__(self, status: int, said: str = "", **headers: str) -> None:
        super().__init__(said or f"status {status}\n  and a second line")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (HttpError(429), RETRIES),
        (HttpError(503), RETRIES),
        (HttpError(401), 0),
        (HttpError(400), 0),
        (HttpError(429, "You exceeded your current quota, please check your plan and billing details."), 0),
        (ModelRateLimitError(), RETRIES),
        (ContextOverflowError(), 0),
        (BrokenReplyError(), BROKEN_RETRIES),
        (ConnectionResetError(), BROKEN_RETRIES),
        (json.JSONDecodeError("Expecting value", "x", 0), BROKEN_RETRIES),
        (ValueError("OpenRouter API returned an error during streaming: Overloaded (code: 502)"), RETRIES),
        (ValueError("server_error: The server had an error"), BROKEN_RETRIES),
        (TimeoutError(), SILENT_RETRIES),
        (ValueError("a bug"), 0),
    ],
)
def test_what_is_worth_another_try(error: Exception, expected: int) -> None:
    """What may pass by itself is: often if it costs nothing, seldom if it is paid for or takes minutes."""
    assert retries_of(error) == expected


def test_the_wait_grows_and_ends() -> None:
    """Each wait is twice the one before it; after the last attempt there is none."""
    waits = [wait_of(HttpError(500), attempt=attempt) for attempt in range(1, RETRIES + 2)]
    assert waits == [0.5, 1.0, 2.0, 4.0, None]


def test_how_long_a_provider_asks_to_wait() -> None:
    """In seconds, in milliseconds, as a date, or in the details of Google's errors; nonsense is no wish."""
    assert retry_after(HttpError(429, retry_after="17")) == 17.0
    assert retry_after(HttpError(429, retry_after_ms="1500", retry_after="9")) == 1.5
    soon = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 25 < (retry_after(HttpError(429, retry_after=soon)) or 0) <= 30
    assert retry_after(HttpError(429, retry_after="soon")) is None
    google = HttpError(429)
    google.details = {"error": {"details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "37.5s"}]}}  # type: ignore[attr-defined]
    assert retry_after(google) == 37.5


def test_a_wait_beyond_patience() -> None:
    """It is not begun."""
    assert wait_of(HttpError(429, retry_after="60"), attempt=1) == 60.0
    assert wait_of(HttpError(429, retry_after="61"), attempt=1) is None


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_a_conversation_that_is_too_long(said: str) -> None:
    """Each provider has its own words for it, and a status of 400."""
    assert "The conversation is too long for groq:m." in str(failure(HttpError(400, said), model="groq:m"))


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (404, "no", True),
        (400, "acme/m is not a valid model ID", True),
        (400, "The model `m` does not exist or you do not have access to it.", True),
        (400, "This model's maximum context length is not supported", False),
        (400, "temperature is out of range", False),
        (500, "model not found", False),
    ],
)
def test_a_model_that_is_not_there(status: int, said: str, expected: bool) -> None:
    """Most say it with 404, some with 400 in words."""
    assert is_missing_model(HttpError(status, said)) is expected


def test_googles_word_for_a_bad_key() -> None:
    """It is a 400, and told like a 401."""
    error = HttpError(400, "API key not valid. Please pass a valid API key.")
    told = str(failure(error, model="google_genai:m"))
    assert told == "google_genai refused the key (400). Check GOOGLE_API_KEY or GEMINI_API_KEY."


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ContextOverflowError("x"), "The conversation is too long for ollama:m. Start a new session."),
        (BrokenReplyError(), "The reply of ollama:m broke off"),
        (TimeoutError(), "ollama did not answer in time."),
        (ConnectionRefusedError("x"), "The connection to ollama broke off."),
        (HttpError(401), "ollama refused the key (401). Check OLLAMA_API_KEY."),
        (HttpError(418), "ollama refused the request (418): status 418 and a second line"),
        (ValueError("odd"), "The call of ollama:m failed: ValueError: odd"),
    ],
)
def test_one_sentence(error: Exception, sentence: str) -> None:
    """Each kind has its own, on one line, with what the provider said where that helps."""
    assert str(failure(error, model="ollama:m")).startswith(sentence)


def test_a_cause_tells_the_status() -> None:
    """An exception that wraps the provider's is judged by what it wraps."""
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = HttpError(404)
    assert "has no model 'm' (404)" in str(failure(wrapped, model="ollama:m"))


def test_a_ring_of_causes_ends() -> None:
    """Exceptions that name each other as their cause are no endless loop."""
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert "ValueError: one" in str(failure(one, model="ollama:m"))


def test_the_key_is_not_repeated() -> None:
    """What a provider says of a refused key may hold a part of it, and is left out."""
    error = HttpError(401)
    error.args = ("Incorrect API key provided: sk-secret",)
    assert "sk-" not in str(failure(error, model="openai:m"))
