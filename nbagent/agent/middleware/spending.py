"""Middleware that keeps a question within its budget: it looks before each request, and pauses and asks for more.

Nothing that runs is cut off. The person may grant as much again; otherwise the turn ends with a sentence that says what
was used, and the conversation goes on with the next question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage

from nbagent.agent.messages.reply import ANSWERED_BY, REQUESTS
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.providers import prices
from nbagent.agent.providers.models import Model
from nbagent.agent.turn import Turn
from nbagent.core.budget import Budget, Kind, Spent, amount, dollars
from nbagent.core.events import NO_USAGE, Usage
from nbagent.safety.actions import Action
from nbagent.safety.approvals import Consent

ENDED = (
    "Stopped without an answer: this question has used {told}. "
    "Ask again to go on from there with as much again; for a larger budget, begin a new session."
)
MORE = "Approved, it may use another {grant}; rejected, it ends here without an answer."
LAST = "The last call used {tokens:,} tokens{money}."
UNTOLD = "What was used can't be counted, for the provider doesn't tell: approved, there is no such bound any more."


class BudgetUsedUp(Exception):  # noqa: N818 - no error: the turn ends as the person wanted
    """The turn may use no more; the message is its last words."""


class Spending(Middleware):
    """Counts what a question uses, and stops it at its budget.

    Each repeated request counts too, so this middleware stands inside of those that repeat requests. It stands outside
    of the fallback, so that a person is asked once. What a critic uses is added by `count`.

    Args:
        budget: What each question may use.
        models: The agent's models and its critic, by whose prices money is counted; without them it isn't.
        consent: Asked for more; without it a question ends at its budget.
    """

    def __init__(
        self, budget: Budget | None = None, *, models: Sequence[Model] = (), consent: Consent | None = None
    ) -> None:
        super().__init__()
        self.budget = budget or Budget()
        self._models = models
        self.consent = consent
        self.begin()

    def begin(self) -> None:
        """Begin a question, with the whole budget."""
        self._granted = self.budget
        self._used, self._last = Spent(money=0.0), NO_USAGE
        self._started = self._clock()

    @property
    def spent(self) -> Spent:
        """What the question has used so far."""
        return replace(self._used, minutes=(self._clock() - self._started) / 60)

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model, and count what that used.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        await self.look(request.runtime.context)
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
        """Add what a reply, a failed attempt or a critic has used."""
        if not usage.calls:
            return
        self._last = usage
        used, tokens = self._used, usage.input_tokens + usage.output_tokens
        is_known = tokens > 0 or usage.cost == 0 or not self._has_prices
        cost = usage.cost if self._has_prices else 0.0
        self._used = Spent(
            money=None if used.money is None or cost is None else used.money + cost,
            tokens=None if used.tokens is None or not is_known else used.tokens + tokens,
            steps=used.steps + usage.calls,
        )

    def of(self, reply: AIMessage) -> Usage:
        """The usage of a reply, with its cost if the price is known."""
        return usage_of(reply, self._models)

    def priced(self, usage: Usage, model: str) -> Usage:
        """The usage of a failed attempt, with its cost if the price is known."""
        if not usage.calls:
            return usage
        given = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return msgspec.structs.replace(usage, cost=_cost(given, self._models, model))

    def _note(self, kinds: Sequence[Kind], spent: Spent) -> str:
        """What a person must know to decide whether the question goes on."""
        grant = " and ".join(amount(kind, getattr(self.budget, kind)) for kind in kinds)
        tokens, cost = self._last.input_tokens + self._last.output_tokens, self._last.cost
        last = LAST.format(tokens=tokens, money=f" and {dollars(cost)}" if cost is not None else "") if tokens else ""
        untold = UNTOLD if any(getattr(spent, kind) is None for kind in kinds) else ""
        return " ".join(filter(None, (MORE.format(grant=grant), last, untold)))

    @property
    def _has_prices(self) -> bool:
        return not all(map(prices.is_free, self._models))

    def _clock(self) -> float:
        """Seconds, without those in which nbagent waited for a person."""
        return time.monotonic() - (self.consent.waited if self.consent else 0.0)

    async def look(self, turn: Turn) -> None:
        """Compare what was used with the budget, and ask for more if that is used up.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        spent = self.spent
        kinds = self._granted.used_up(spent)
        if not kinds:
            return
        told = self._granted.told(kinds, spent)
        note = self._note(kinds, spent)
        action = Action(kind="budget", tool="model", what=f"this question has used {told}", note=note, turn=turn.number)
        if self.consent is None or not (await self.consent.ask(action)).granted:
            raise BudgetUsedUp(ENDED.format(told=told))
        self._granted = self._granted.with_more(kinds, self.budget, spent=spent)


def usage_of(message: AIMessage, models: Sequence[Model] = ()) -> Usage:
    """The usage of a reply, with its cost if the price is known."""
    given: Any = message.usage_metadata or {}
    return Usage(
        input_tokens=given.get("input_tokens", 0),
        output_tokens=given.get("output_tokens", 0),
        calls=message.response_metadata.get(REQUESTS, 1),
        cached_tokens=(given.get("input_token_details") or {}).get("cache_read") or 0,
        cost=_cost(message.usage_metadata, models, message.response_metadata.get(ANSWERED_BY, "")),
    )


def _cost(usage: Any, models: Sequence[Model], name: str) -> float | None:
    """The cost by the price of the model of that name; if none is named, of the first model."""
    model = next((each for each in models if each.name == name), models[0] if models else None)
    return prices.cost(model, usage) if model is not None else None
