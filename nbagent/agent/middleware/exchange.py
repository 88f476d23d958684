"""Middleware next to the model: a request fits its provider, and a reply is whole, bounded and recorded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool

from nbagent.agent.messages.asides import is_aside
from nbagent.agent.messages.fitting import images_after_results, refusals_in_words, without_images
from nbagent.agent.messages.reply import ANSWERED_BY, bound, last_reply, refuse, stop_reason
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.providers.attempt import current
from nbagent.agent.providers.failures import BrokenReplyError
from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.models import Model, model_of


class ProviderExchange(Middleware):
    """Fits requests to the provider, and refuses what of a reply is broken or incomplete.

    Attributes:
        offered: The names of the tools in the last request.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self._models = models
        self.offered: Sequence[str] = ()

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model.

        Raises:
            BrokenReplyError: The stream ended early.
        """
        model, first = model_of(request.model, self._models), self._models[0]
        self.offered = names_of(request)
        response = await handler(request.override(messages=_fit(request.messages, model, first=first)))
        if (reply := last_reply(response.result)) is not None:
            _check_whole(reply, model.provider)
            _refuse_completed(reply)
            bound(reply)
            _give_ids(reply)
            if model is not first:
                reply.response_metadata[ANSWERED_BY] = model.name
            if first.recorder:
                last = request.messages[-1:]
                sent_back = any(is_aside(each, "evaluation") or is_aside(each, "check") for each in last)
                first.recorder.write(reply, again=sent_back, structured=first.structured)
        return response


def names_of(request: ModelRequest[Any]) -> list[str]:
    """The names of a request's tools."""
    return [each.name for each in request.tools if isinstance(each, BaseTool)]


def _fit(messages: list[AnyMessage], model: Model, *, first: Model) -> list[AnyMessage]:
    """The conversation as a model takes it; the results have images if the session's first model takes any."""
    if model.images == "after results":
        messages = images_after_results(messages)
    elif model.images == "no" and first.images != "no":
        messages = without_images(messages)
    return refusals_in_words(messages) if model.provider == "google_genai" else messages


def _check_whole(reply: AIMessage, provider: str) -> None:
    """Refuse a stream that just stopped: a whole one ends with a reason, and with most providers with the usage too.

    Google tells the usage from the first piece on, so there only the reason counts.
    """
    counted = reply.usage_metadata is not None and reply.usage_metadata["output_tokens"] > 0
    ended = bool(stop_reason(reply)) or (counted and provider != "google_genai")
    # `error` is what OpenRouter ends a stream with when the provider behind it fails.
    if provider in PROVIDERS and (not ended or stop_reason(reply) == "error"):
        raise BrokenReplyError


def _refuse_completed(reply: AIMessage) -> None:
    """Refuse calls whose arguments LangChain has completed: half of the code would look like all of it.

    Those are calls whose arguments were no JSON as they came, and the last call of a reply that hit its token limit.
    """
    attempt = current()
    unreadable = attempt.calls.unreadable() if attempt else set()
    for call in [call for call in reply.tool_calls if call["id"] in unreadable]:
        refuse(reply, call, "")
    if reply.tool_calls and stop_reason(reply).lower().startswith(("length", "max_tokens", "incomplete")):
        refuse(reply, reply.tool_calls[-1], "the reply reached its token limit, and the call was cut")


def _give_ids(reply: AIMessage) -> None:
    """Give each call an id of its own: some OpenAI-compatible servers send none, or the same one twice."""
    seen: set[str] = set()
    calls: list[Any] = [*reply.tool_calls, *reply.invalid_tool_calls]
    taken = {call["id"] for call in calls}
    for number, call in enumerate(calls, start=1):
        if not call["id"] or call["id"] in seen:
            names = (f"{reply.id or 'call'}_{each}" for each in itertools.count(number))
            call["id"] = next(name for name in names if name not in taken)
        seen.add(call["id"])
        taken.add(call["id"])
