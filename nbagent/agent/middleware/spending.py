"""Middleware that keeps a question within its budget: looks before each call of the model, and pauses and asks.

Nothing that runs is cut. Who is asked may grant as much again; else the turn ends with a sentence that says what was
used, and the conversation goes on with the next question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from nbagent.agent.middleware.replies import ANSWERED, ASKED, Handler
from nbagent.agent.providers import prices
from nbagent.agent.providers.models import Model
from nbagent.agent.turn import Turn
from nbagent.core.budget import Budget, Kind, Spent, amount, dollars
from nbagent.core.events import NO_USAGE, Usage
from nbagent.safety.actions import Action
from nbagent.safety.consent import Consent

ENDED = (
    "Stopped without an answer: this question has used {told}. "
    "Ask again to go on from there, or give it a larger budget."
)
MORE = "Approved, it may use {grant} more; rejected, it ends here without an answer."
LAST = "The last call used {tokens:,} tokens{money}."
UNTOLD = "What was used can't be counted, for the provider doesn't tell: approved, there is no such bound any more."


class BudgetUsedUp(Exception):  # noqa: N818 - no error: the turn ends as the person wanted
    """The turn may use no more; the message is what it ends with."""


class Spending(AgentMiddleware[AgentState[Any], Any, Any]):
    """Counts what a question uses, and stops it at its budget.

    Args:
        budget: What each question may use.
        models: The agent's, by whose prices money is counted, and its critic; without them it isn't.
        consent: Asked for more; without it nobody is.

    Attributes:
        consent: As given.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        *,
        models: Sequence[Model] = (),
        consent: Consent | None = None,
    ) -> None:
        super().__init__()
        self._budget = budget or Budget()
        self._models = models
        self.consent = consent
        self.begin()

    def begin(self) -> None:
        """Begin a question, with the whole budget."""
        self._granted = self._budget
        self._used, self._last = Spent(money=0.0), NO_USAGE
        self._started = self._clock()

    @property
    def spent(self) -> Spent:
        """What the question has used so far."""
        return replace(self._used, minutes=(self._clock() - self._started) / 60)

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Turn]) -> None:  # noqa: ARG002
        """Look before what comes ahead of the model's call, which a critic's call may: that is paid for as well.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        await self._look(runtime.context)

    async def call(self, request: ModelRequest[Turn], handler: Handler) -> ModelResponse[Any]:
        """Call a model, if the question may use that, and count it.

        Raises:
            BudgetUsedUp: It may not.
        """
        await self._look(request.runtime.context)
        # While the model thinks there is time to read the price list.
        loading = asyncio.create_task(asyncio.to_thread(prices.load)) if self._has_prices else None
        try:
            response = await handler(request)
        finally:
            if loading is not None:
                await loading
        for message in response.result:
            if isinstance(message, AIMessage):
                self.count(self.of(message))
        return response

    def count(self, usage: Usage) -> None:
        """Add what was used, also by an attempt that failed and by a critic."""
        if not usage.calls:
            return
        self._last = usage
        used, tokens = self._used, usage.input_tokens + usage.output_tokens
        is_told = tokens > 0 or usage.cost == 0 or not self._has_prices
        cost = usage.cost if self._has_prices else 0.0
        self._used = Spent(
            money=None if used.money is None or cost is None else used.money + cost,
            tokens=None if used.tokens is None or not is_told else used.tokens + tokens,
            steps=used.steps + usage.calls,
        )

    def of(self, reply: AIMessage) -> Usage:
        """What a reply has used, with its price if there is one."""
        return usage_of(reply, self._models)

    def priced(self, usage: Usage, model: str) -> Usage:
        """The usage of an attempt that failed, with what it has cost."""
        if not usage.calls:
            return usage
        given = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return msgspec.structs.replace(usage, cost=_cost(given, self._models, model))

    def _meant(self, kinds: Sequence[Kind], spent: Spent) -> str:
        """What it would mean to go on."""
        grant = " and ".join(amount(kind, getattr(self._budget, kind)) for kind in kinds)
        tokens, cost = self._last.input_tokens + self._last.output_tokens, self._last.cost
        last = LAST.format(tokens=tokens, money=f" and {dollars(cost)}" if cost is not None else "") if tokens else ""
        untold = UNTOLD if any(getattr(spent, kind) is None for kind in kinds) else ""
        return " ".join(filter(None, (MORE.format(grant=grant), last, untold)))

    @property
    def _has_prices(self) -> bool:
        return not all(map(prices.is_free, self._models))

    def _clock(self) -> float:
        """Seconds, without those in which a person was asked."""
        return time.monotonic() - (self.consent.waited if self.consent else 0.0)

    async def _look(self, turn: Turn) -> None:
        spent = self.spent
        kinds = self._granted.used_up(spent)
        if not kinds:
            return
        told = self._granted.told(kinds, spent)
        note = self._meant(kinds, spent)
        action = Action(kind="budget", tool="model", what=f"this question has used {told}", note=note, turn=turn.number)
        if self.consent is None or not (await self.consent.ask(action)).granted:
            raise BudgetUsedUp(ENDED.format(told=told))
        self._granted = self._granted.with_more(kinds, self._budget, spent=spent)


class Counted(AgentMiddleware[AgentState[Any], Any, Any]):
    """Has each call of a model go through `Spending.call`, those by which a reply is asked for again too.

    So it stands inside of what asks again, and outside of the fallback: `Spending` itself looks before anything else.

    Args:
        spending: The agent's.
    """

    def __init__(self, spending: Spending) -> None:
        super().__init__()
        self._spending = spending

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        return await self._spending.call(request, handler)


def usage_of(message: AIMessage, models: Sequence[Model] = ()) -> Usage:
    """What a reply has used, with its price if there is one.

    Args:
        message: The reply.
        models: The agent's, one of which has made it.
    """
    given: Any = message.usage_metadata or {}
    return Usage(
        input_tokens=given.get("input_tokens", 0),
        output_tokens=given.get("output_tokens", 0),
        calls=message.response_metadata.get(ASKED, 1),
        cached_tokens=(given.get("input_token_details") or {}).get("cache_read") or 0,
        cost=_cost(message.usage_metadata, models, message.response_metadata.get(ANSWERED, "")),
    )


def _cost(usage: Any, models: Sequence[Model], name: str) -> float | None:
    """By the price of the model of that name; a reply that names none is the first one's."""
    model = next((each for each in models if each.name == name), models[0] if models else None)
    return prices.cost(model, usage) if model is not None else None
