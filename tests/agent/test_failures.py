"""What is worth another try, and what is told; the failures over the wire are in test_build."""

from __future__ import annotations

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_core.language_models import FakeListChatModel

from nbagent.agent.failures import BrokenReplyError, failure, is_worth_retrying

PLAIN = FakeListChatModel(responses=["x"])


class HttpError(Exception):
    """As Ollama's client and others raise: a status, no LangChain class."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}\n  and a second line")
        self.status_code = status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (HttpError(429), True),
        (HttpError(503), True),
        (HttpError(401), False),
        (HttpError(400), False),
        (ModelRateLimitError(), True),
        (ContextOverflowError(), False),
        (BrokenReplyError(), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ValueError("a bug"), False),
    ],
)
def test_what_is_worth_another_try(error: Exception, expected: bool) -> None:
    """What may pass by itself is, with a client that doesn't try again itself."""
    assert is_worth_retrying(error, chat=PLAIN) is expected


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ContextOverflowError("x"), "The conversation is too long for ollama:m. Start a new session."),
        (BrokenReplyError(), "The reply of ollama:m broke off"),
        (TimeoutError(), "ollama did not answer in time."),
        (ConnectionRefusedError("x"), "The connection to ollama failed."),
        (HttpError(401), "ollama refused the key (401). Check it."),
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
