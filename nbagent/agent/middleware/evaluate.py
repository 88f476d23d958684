"""Looks at an answer before the person does: numbers that stand in no output are sent back, once.

It costs a call of the model only when something is missing. A replay is asked again where its recording was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from nbagent.agent.asides import aside, is_aside, is_question
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import ReplayModel, text_of
from nbagent.events import Claim

ROUNDS: Final = 1
"""How often one answer is sent back, if nothing else is said."""
NAMED: Final = 12
"""Numbers that are named."""
ASK = (
    "[nbagent, before the person sees your answer] These numbers stand in no output of a cell: {numbers}. Run a cell "
    "that computes and prints them in the unit and rounding of your answer, and answer again; or, if they are wrong or "
    "can't be found out, answer without them. What is general knowledge, such as a definition, may stay. Reply with "
    "the whole answer, and don't mention this message."
)


class Evaluation(AgentMiddleware[AgentState[Any], Any, Any]):
    """Sends an answer back whose numbers no output supports.

    Args:
        model: The model of the agent.
        claims: Finds the numbers of an answer, and where each of them stands.
        rounds: How often one answer is sent back at most.
        looked: Told of each look: what was found, and whether the answer is sent back.
    """

    def __init__(
        self,
        model: Model,
        claims: Callable[[str], Sequence[Claim]],
        *,
        rounds: int = ROUNDS,
        looked: Callable[[Sequence[Claim], bool], object] = lambda _claims, _again: None,
    ) -> None:
        super().__init__()
        self._model = model
        self._claims = claims
        self._most = rounds
        self._looked = looked

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Look at a reply without calls, which is an answer."""
        messages: Sequence[AnyMessage] = state["messages"]
        last = messages[-1]
        if not isinstance(last, AIMessage) or last.tool_calls or last.invalid_tool_calls:
            return None
        claims = self._claims(text_of(last))
        missing = [claim.text for claim in claims if not claim.supported]
        again = bool(missing) and _rounds(messages) < self._most and self._can_be_asked()
        self._looked(claims, again)
        if not again:
            return None
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        asked = aside("evaluation", ASK.format(numbers=", ".join(missing[:NAMED]) + more))
        return {"messages": [asked], "jump_to": "model"}

    def _can_be_asked(self) -> bool:
        """A recording has no other answer than what was recorded."""
        return not isinstance(self._model.chat, ReplayModel) or self._model.chat.next_is_again


def _rounds(messages: Sequence[AnyMessage]) -> int:
    """How often this turn's answer was sent back."""
    rounds = 0
    for message in reversed(messages):
        if is_question(message):
            break
        rounds += is_aside(message, "evaluation")
    return rounds
