"""What the errors of providers' clients mean: whether and when to try again, and what a person is told."""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
from collections.abc import Collection, Iterator
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelConnectionError, ModelTimeoutError
from langchain_core.exceptions import ModelError as LangChainModelError

from nbagent.agent.providers.known import PROVIDERS
from nbagent.core.errors import ModelCallError

RETRIES = 4
"""Retries of what may pass by itself: a rate limit, a server's error, a refused connection."""
BROKEN_RETRIES = 2
"""Retries after a reply that had begun, since each attempt may have been paid for."""
SILENT_RETRIES = 1
"""Retries after an attempt in which nothing came, since each takes minutes."""
FIRST_DELAY = 0.5
"""Seconds before the first retry; doubled for each further one."""
MAX_WAIT_SECONDS = 60.0
"""Seconds to wait at most when a provider says how long."""

# Each provider has words of its own, mostly with a plain 400.
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|(prompt|input) is too long|input token count|too many (input )?tokens"
    r"|maximum number of tokens|request too large|request_too_large|reduce the length",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"model.{0,120}(not found|not exist|not a valid|not supported|unknown)|not a valid model", re.I)
_BAD_KEY = re.compile(r"api key (not valid|expired|not found)|API_KEY_INVALID|invalid api key", re.IGNORECASE)
_PAID_UP = re.compile(r"insufficient_quota|exceeded your current quota|billing|insufficient credits|per day", re.I)
_GARBLED = frozenset({"JSONDecodeError", "UnknownApiResponseError", "ResponseValidationError", "NoResponseError"})
# langchain-openrouter and langchain-openai turn an error in a stream into a ValueError with these words.
_STREAMED = re.compile(r"returned an error during streaming|\b(server_error|rate_limit_exceeded)\b")
_STREAMED_CODE = re.compile(r"returned an error during streaming.*\(code: (\d{3})\)$", re.DOTALL)
_DELAY = re.compile(r"""['"]retryDelay['"]: ?['"]([\d.]+)s['"]""")


class BrokenReplyError(ConnectionError):
    """A stream that stopped before the end of the reply."""


def retries_of(error: BaseException) -> int:
    """How often the same request is worth another attempt; 0 if it will fail again."""
    status = status_of(error)
    said = _message(error)
    if isinstance(error, ContextOverflowError) or (status == 429 and _PAID_UP.search(said)):
        return 0
    if status is not None:
        return RETRIES if status in (408, 409, 425, 429) or status >= 500 else 0
    if isinstance(error, ModelTimeoutError | TimeoutError):
        return SILENT_RETRIES
    if isinstance(error, BrokenReplyError) or _is_garbled(error):
        return BROKEN_RETRIES
    if _is_connection(error):
        return RETRIES if _is_unreachable(error) else BROKEN_RETRIES
    if isinstance(error, LangChainModelError):
        return RETRIES if error.is_retryable else 0
    return BROKEN_RETRIES if _is_streamed(error) else 0


def wait_of(error: BaseException, *, attempt: int) -> float | None:
    """Seconds until the next attempt; None if there is to be none.

    Args:
        error: What the chat model raised.
        attempt: The number of the attempt that failed, from 1.
    """
    if attempt > retries_of(error):
        return None
    asked = retry_after(error)
    if asked is not None:
        return asked if asked <= MAX_WAIT_SECONDS else None
    return float(FIRST_DELAY * 2 ** (attempt - 1))


def retry_after(error: BaseException) -> float | None:
    """How many seconds the provider asks to wait; None if it doesn't say.

    Sources: RFC 9110, 10.2.3, in seconds or as a date; OpenAI's `retry-after-ms`; Google's `google.rpc.RetryInfo`.
    """
    for cause in _causes(error):
        answer = getattr(cause, "response", None)
        headers: Any = getattr(answer, "headers", None) or getattr(cause, "headers", None) or {}
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            if milliseconds := headers.get("retry-after-ms"):
                return max(0.0, float(milliseconds) / 1000)
            if value := headers.get("retry-after"):
                return max(0.0, _seconds(value))
        if found := _DELAY.search(str(getattr(cause, "details", ""))):
            return float(found[1])
    return None


def is_missing_model(error: BaseException) -> bool:
    """Whether the provider doesn't have the model."""
    status = status_of(error)
    return status == 404 or (status == 400 and not _is_too_long(error) and bool(_NO_MODEL.search(_message(error))))


def failure(error: BaseException, *, model: str, has: str = "") -> ModelCallError:
    """What a provider's exception means, in one sentence with its mend.

    Args:
        error: What the chat model raised.
        model: The model's name.
        has: Names of models that the provider has, for an error about a model that it doesn't have.
    """
    provider, _, name = model.partition(":")
    status, said = status_of(error), _message(error)
    known = PROVIDERS.get(provider)
    keys = " or ".join(known.keys) if known else ""
    if _is_too_long(error):
        return ModelCallError(f"The conversation is too long for {model}.", mend="Start a new session.")
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(said)):
        # What the provider says here can repeat a part of the key.
        return ModelCallError(f"{provider} refused the key ({status}).", mend=f"Check {keys or 'it'}.")
    if is_missing_model(error):
        mend = f"It has: {has}." if has else _check_address(provider)
        return ModelCallError(f"{_where(error, provider)} has no model {name!r} ({status}).", mend=mend)
    if status == 429:
        return _rate_limit(error, provider, said)
    if status is not None and status >= 500:
        return ModelCallError(f"{_where(error, provider)} failed ({status}).", mend="Try again later.")
    if status is not None:
        return ModelCallError(f"{provider} refused the request ({status}): {said}")
    if _is_streamed(error):
        return ModelCallError(
            f"{_where(error, provider)} failed in the middle of the reply: {said}", mend="Try again later."
        )
    if isinstance(error, BrokenReplyError):
        return ModelCallError(f"The reply of {model} broke off.", mend="Try again later.")
    if _is_garbled(error):
        return ModelCallError(f"What {_where(error, provider)} sent is no reply: it can't be read.", mend="Try again.")
    if _is_silent(error):
        return ModelCallError(f"{_where(error, provider)} did not answer in time.", mend="Try again later.")
    if _is_unreachable(error):
        return ModelCallError(
            f"The connection to {_where(error, provider)} failed.", mend="Check the address and the network."
        )
    if _is_connection(error):
        return ModelCallError(f"The connection to {_where(error, provider)} broke off.", mend="Try again later.")
    return ModelCallError(f"The call of {model} failed: {type(error).__name__}: {said}")


def status_of(error: BaseException) -> int | None:
    """The HTTP status with which a provider answered, or which it put into a stream."""
    for cause in _causes(error):
        for name in ("status_code", "code"):
            if isinstance(status := getattr(cause, name, None), int) and 400 <= status < 600:
                return status
    streamed = _STREAMED_CODE.search(str(error))
    return int(streamed[1]) if streamed else None


def _rate_limit(error: BaseException, provider: str, said: str) -> ModelCallError:
    seconds = retry_after(error)
    mend = "Try later."
    if seconds is not None and seconds > MAX_WAIT_SECONDS:
        mend = f"It asks to wait for {_duration(seconds)}: try then, or with another model."
    return ModelCallError(f"{provider} limits the rate, or the quota is used up (429): {said}", mend=mend)


def _check_address(provider: str) -> str:
    known = PROVIDERS.get(provider)
    variable = next((name for name in known.urls if known.url), "") if known else ""
    return f"Check the name, and the address in {variable}." if variable else "Check the name."


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


def _seconds(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return email.utils.parsedate_to_datetime(value).timestamp() - time.time()


def _message(error: BaseException) -> str:
    """The provider's message as a sentence on one line; if the exception has none apart, the exception's own."""
    own = (_message_in(getattr(cause, name, None)) for cause in _causes(error) for name in ("body", "details"))
    said = next((each for each in own if each), "") or str(getattr(error, "message", "") or error)
    line = " ".join(said.split())[:300]
    return line if line.endswith((".", "!", "?", "…")) or not line else f"{line}."


def _message_in(body: Any) -> str:
    """The message in an error's body; most providers put it into an object named `error`."""
    if not isinstance(body, dict):
        return ""
    inner = body.get("error", body)
    return str(inner.get("message") or "") if isinstance(inner, dict) else str(inner)


def _is_too_long(error: BaseException) -> bool:
    return isinstance(error, ContextOverflowError) or (
        status_of(error) in (400, 413, 422) and bool(_TOO_LONG.search(_message(error)))
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):  # a bound, since a chain of causes may be a ring
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _is_caused_by(error: BaseException, kinds: tuple[type[BaseException], ...] = (), *, named: Collection[str]) -> bool:
    """Whether one of the causes of an error is of these kinds, or of a class that has or inherits such a name.

    httpx and the clients' own errors are known by name: the clients bring httpx in more than one major version.
    """
    return any(
        isinstance(cause, kinds) or any(base.__name__ in named for base in type(cause).__mro__)
        for cause in _causes(error)
    )


def _is_connection(error: BaseException) -> bool:
    """Whether the connection failed, or broke in the middle of a reply."""
    kinds = (ModelConnectionError, ModelTimeoutError, ConnectionError, TimeoutError)
    return _is_caused_by(error, kinds, named=("TransportError",))


def _is_garbled(error: BaseException) -> bool:
    """Whether the answer can't be read, for which each client has its own error, or JSON's."""
    return _is_caused_by(error, named=_GARBLED)


def _is_silent(error: BaseException) -> bool:
    """Whether the provider did not answer in time."""
    return _is_caused_by(error, (ModelTimeoutError, TimeoutError), named=("TimeoutException",))


def _is_unreachable(error: BaseException) -> bool:
    """Whether no connection was made."""
    return _is_caused_by(error, named=("ConnectError", "ConnectTimeout"))


def _is_streamed(error: BaseException) -> bool:
    """Whether an error came inside of a stream, where it has no HTTP status."""
    kinds = {base.__name__ for base in type(error).__mro__}
    return status_of(error) is None and (
        bool({"APIStatusError", "APIError", "ResponseError"} & kinds and not _is_connection(error))
        or (isinstance(error, ValueError) and bool(_STREAMED.search(str(error))) and not _is_garbled(error))
    )


def _where(error: BaseException, provider: str) -> str:
    """The host that was asked, if the exception tells it; else the provider."""
    for cause in _causes(error):
        try:
            request: Any = getattr(cause, "request", None)
        except RuntimeError:  # httpx raises it when the request was never set
            continue
        if host := getattr(getattr(request, "url", None), "netloc", b""):
            return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    return provider
