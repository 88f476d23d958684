"""Middleware that makes a model's call come to an end: it watches each attempt, tries again, and tells of failures.

LangChain's own retry waits as long as its backoff says, whatever the provider asks for, and forgets what a failed
attempt has cost. So the clients try nothing again by themselves, and this does, for all providers alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages.ai import UsageMetadata
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from nbagent.agent.middleware.replies import Handler
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.providers.catalogue import UnlistedError, models_of, some
from nbagent.agent.providers.failures import failure, is_missing_model, wait_of
from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.models import Model, model_of
from nbagent.agent.providers.watch import Attempt
from nbagent.agent.turn import Turn
from nbagent.core.errors import ModelCallError, NbagentError
from nbagent.core.events import ModelFailed, Usage


class Attempts(AgentMiddleware[AgentState[Any], Any, Any]):
    """Tries a model's call again where that helps, for as long as makes sense.

    With a fallback, a model that has failed for good is not asked again in the same question.

    Args:
        models: The agent's.
        spending: Counts what an attempt that failed has used, as far as the provider told it.
    """

    def __init__(self, models: Sequence[Model], spending: Spending) -> None:
        super().__init__()
        self._spending = spending
        self._models = models
        self._given_up: dict[str, ModelCallError] = {}

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Begin a question with trust in every model."""
        self._given_up.clear()

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: Handler) -> ModelResponse[Any]:
        """Call the model until it replies or there is no hope.

        Raises:
            ModelCallError: In one sentence, why there is none.
        """
        model = model_of(request.model, self._models)
        if model.name in self._given_up and len(self._models) > 1:
            raise self._given_up[model.name]
        number = 0
        while True:
            number += 1
            attempt = Attempt()
            try:
                return await attempt.follow(handler(request))
            except (NbagentError, GraphBubbleUp):
                raise
            except Exception as error:
                # Whatever a provider's client raises: each has its own tree, and all of them end here.
                wait = wait_of(error, attempt=number)
                sentence = await _sentence(error, model)
                reason = str(sentence) if wait is None else sentence.message
                usage = self._spending.priced(_counted(attempt.usage or attempt.begun), model.name)
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


def _counted(usage: UsageMetadata | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], calls=1)
