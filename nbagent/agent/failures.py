"""How a provider fails: what is worth another try, and what a person is told, whatever the provider's client raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import ContextOverflowError, ModelConnectionError, ModelTimeoutError
from langchain_core.exceptions import ModelError as LangChainModelError

from nbagent.agent.models import PROVIDERS
from nbagent.errors import ModelCallError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class BrokenReplyError(ConnectionError):
    """A streamed reply that ended without its end."""


def is_worth_retrying(error: BaseException, *, chat: BaseChatModel) -> bool:
    """Whether the same call may succeed a moment later, and the provider's own client has not tried that already.

    A client with `max_retries` tries again after a refused connection, a rate limit or a server's error, and waits as
    long as the server asks; it does not after a stream that broke, since it has handed out a part of it.
    """
    status = _status(error)
    tried = "max_retries" in type(chat).model_fields
    if tried and (status is not None or _is_unreachable(error)):
        return False
    if isinstance(error, LangChainModelError):
        return error.is_retryable
    if status is not None:
        return status in (408, 409, 429) or status >= 500
    # An error that OpenAI sends inside of a stream is an APIError without a status.
    return _is_connection(error) or any(base.__name__ == "APIError" for base in type(error).__mro__)


def failure(error: BaseException, *, model: str) -> ModelCallError:
    """What a provider's exception means, in one sentence with its mend.

    Args:
        error: What the chat model raised.
        model: The model's name.
    """
    provider = model.partition(":")[0]
    status = _status(error)
    said = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    keys = PROVIDERS[provider].keys if provider in PROVIDERS else ()
    if isinstance(error, ContextOverflowError):
        return ModelCallError(f"The conversation is too long for {model}.", mend="Start a new session.")
    if status in (401, 403):
        # What the provider says here can repeat a part of the key.
        return ModelCallError(f"{provider} refused the key ({status}).", mend=f"Check {' or '.join(keys) or 'it'}.")
    if status == 404:
        return ModelCallError(f"{_where(error, provider)} has no model {model.partition(':')[2]!r} (404).")
    if status == 429:
        return ModelCallError(f"{provider} limits the rate, or the quota is used up (429): {said}", mend="Try later.")
    if status is not None and status >= 500:
        return ModelCallError(f"{_where(error, provider)} failed ({status}).", mend="Try again later.")
    if status is not None:
        return ModelCallError(f"{provider} refused the request ({status}): {said}")
    if isinstance(error, BrokenReplyError):
        return ModelCallError(f"The reply of {model} broke off, several times.", mend="Try again later.")
    if isinstance(error, ModelTimeoutError | TimeoutError):
        return ModelCallError(f"{_where(error, provider)} did not answer in time.", mend="Try again later.")
    if _is_connection(error):
        return ModelCallError(
            f"The connection to {_where(error, provider)} failed.", mend="Check the address and the network."
        )
    return ModelCallError(f"The call of {model} failed: {type(error).__name__}: {said}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):  # a bound, since a chain of causes may be a ring
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    """The HTTP status that a provider answered with."""
    for cause in _causes(error):
        for name in ("status_code", "code"):
            if isinstance(status := getattr(cause, name, None), int) and 400 <= status < 600:
                return status
    return None


def _is_connection(error: BaseException) -> bool:
    """Whether the connection failed, or broke in the middle of a reply."""
    kinds = (ModelConnectionError, ModelTimeoutError, ConnectionError, TimeoutError)
    # httpx is not imported by name: the providers' clients bring it, in more than one major version.
    return any(
        isinstance(cause, kinds) or any(base.__name__ == "TransportError" for base in type(cause).__mro__)
        for cause in _causes(error)
    )


def _is_unreachable(error: BaseException) -> bool:
    """Whether there was no connection to begin with."""
    return any(type(cause).__name__ in ("ConnectError", "ConnectTimeout") for cause in _causes(error))


def _where(error: BaseException, provider: str) -> str:
    """The host that was asked, if the exception tells, or else the provider."""
    for cause in _causes(error):
        try:
            request: Any = getattr(cause, "request", None)
        except RuntimeError:  # httpx raises it when the request was never set
            continue
        if host := getattr(getattr(request, "url", None), "netloc", b""):
            return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    return provider
