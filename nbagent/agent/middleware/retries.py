"""Middleware that watches each attempt at a reply, tries again where that helps, and reports failures.

LangChain's `ModelRetryMiddleware` waits for its own backoff, not for as long as the provider asks, and forgets what a
failed attempt has cost. So the providers' clients don't retry, and this middleware does, for all of them alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages.ai import UsageMetadata
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from nbagent.agent.middleware.spending import Spending
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.providers.attempt import Attempt
from nbagent.agent.providers.failures import failure, is_missing_model, wait_of
from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.model_lists import UnlistedError, models_of, some
from nbagent.agent.providers.models import Model, model_of
from nbagent.agent.turn import Turn
from nbagent.core.errors import ModelCallError, NbagentError
from nbagent.core.events import ModelFailed, Usage


class Retries(Middleware):
    """Calls a model until it replies, or until another attempt makes no sense.

    With a fallback, a model that has failed for good is not asked again in the same turn.

    Args:
        models: The agent's model and its fallbacks.
        spending: Counts what failed attempts have used, as far as the provider tells.
    """

    def __init__(self, models: Sequence[Model], spending: Spending) -> None:
        super().__init__()
        self._spending = spending
        self._models = models
        self._given_up: dict[str, ModelCallError] = {}

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Begin a turn, in which every model is asked again."""
        self._given_up.clear()

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model until it replies."""
        model = model_of(request.model, self._models)
        if model.name in self._given_up and len(self._models) > 1:
            raise self._given_up[model.name]
        number = 0
        while True:
            number += 1
            # Objects are for the program: a person gets what stands in them when they are whole.
            attempt = Attempt(say=None if model.structured else request.runtime.context.write)
            try:
                return await attempt.wait_for(handler(request))
            except (NbagentError, GraphBubbleUp):
                raise
            except Exception as error:
                # Each provider's client raises errors of its own.
                wait = wait_of(error, attempt=number)
                sentence = await _sentence(error, model)
                reason = str(sentence) if wait is None else sentence.message
                usage = self._spending.priced(_usage(attempt.usage or attempt.begun), model.name)
                self._spending.count(usage)
                turn = request.runtime.context
                turn.emit(ModelFailed(turn=turn.number, model=model.name, reason=reason, usage=usage, wait=wait))
                if wait is None:
                    self._given_up[model.name] = sentence
                    raise sentence from error
            await asyncio.sleep(wait)


async def _sentence(error: Exception, model: Model) -> ModelCallError:
    has = ""
    if is_missing_model(error) and model.provider in PROVIDERS:
        try:
            has = some(await asyncio.to_thread(models_of, model.provider), like=model.name.partition(":")[2])
        except UnlistedError:
            has = ""
    return failure(error, model=model.name, has=has)


def _usage(usage: UsageMetadata | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], calls=1)
