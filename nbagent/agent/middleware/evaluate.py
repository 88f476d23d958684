"""Middleware that sends an answer back to the model if some of its numbers stand in no output.

It costs a request only if numbers are missing. A recorded model is asked again only where the recording was.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from langchain.agents import AgentState
from langchain.agents.middleware import hook_config
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from nbagent.agent.claims import REST, claims
from nbagent.agent.messages.asides import aside, is_aside, is_question
from nbagent.agent.messages.reply import text_of
from nbagent.agent.middleware.types import Middleware
from nbagent.agent.ports import SessionPort
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import ReplayModel
from nbagent.agent.turn import Turn
from nbagent.core.errors import contained
from nbagent.core.events import Claim

ROUNDS: Final = 2
"""How often one answer is sent back by default."""
NAMED: Final = 12
"""Missing numbers that the model is told."""
ASK = (
    "[nbagent, before the person sees your answer] These numbers stand in no output of a cell: {numbers}. What code "
    "merely prints, and what the description of the data says, doesn't count. Run a cell that computes and prints them "
    "in the unit and rounding of your answer, and answer again; or, if they are wrong or can't be found out, answer "
    "without them. What is general knowledge, such as a definition, may stay. Reply with the whole answer, and don't "
    "mention this message."
)


UNCHECKED: Final = Claim(text="the numbers, which could not be looked for")
"""Stands for all claims of an answer when looking for them has failed."""


class Check:
    """Looks for the numbers of an answer in the outputs of the session."""

    def __init__(self, session: SessionPort) -> None:
        self._session = session
        self._last: tuple[str, int, list[Claim]] = ("", 0, [])

    def claims(self, text: str) -> list[Claim]:
        """The claims of an answer, without the numbers of the questions and the code's parameters."""
        seen = self._session.evidence()
        if self._last[:2] == (text, len(seen.outputs)):
            return self._last[2]  # `Evaluation` has asked for it a moment ago
        found = [UNCHECKED]
        with contained("The numbers of an answer were not looked for in the outputs"):
            found = claims(text, seen.outputs, given=seen.given, code=seen.code, data=seen.has_data)
        self._last = text, len(seen.outputs), found
        return found

    def checkable(self, text: str) -> list[Claim]:
        """The claims that the model can mend: all but those that nbagent did not check."""
        return [claim for claim in self.claims(text) if claim not in (UNCHECKED, REST)]


class Evaluation(Middleware):
    """Sends an answer back if some of its numbers stand in no output.

    Args:
        model: The model of the agent.
        claims: Finds the numbers of an answer, each with its place.
        rounds: How often one answer is sent back at most.
    """

    def __init__(self, model: Model, claims: Callable[[str], Sequence[Claim]], *, rounds: int = ROUNDS) -> None:
        super().__init__()
        self._model = model
        self._claims = claims
        self._most = rounds

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Turn]) -> dict[str, Any] | None:
        """Look at a reply without calls, which is an answer."""
        messages: Sequence[AnyMessage] = state["messages"]
        last = messages[-1]
        if not isinstance(last, AIMessage) or last.tool_calls or last.invalid_tool_calls:
            return None
        found = self._claims(text_of(last))
        missing = [claim.text for claim in found if not claim.supported]
        # Once no more code runs, the model can't do what it would be asked for.
        is_over = any(is_aside(each, "over") for each in this_turn(messages))
        sent_back = bool(missing) and not is_over and _rounds(messages) < self._most and self._can_be_asked()
        runtime.context.phases.evaluate(found, sent_back=sent_back)
        if not sent_back:
            return None
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        asked = aside("evaluation", ASK.format(numbers=", ".join(missing[:NAMED]) + more))
        return {"messages": [asked], "jump_to": "model"}

    def _can_be_asked(self) -> bool:
        """Whether the model can answer again; a recorded one can if its next reply was recorded after such a return."""
        return not isinstance(self._model.chat, ReplayModel) or self._model.chat.next_was_sent_back


def _rounds(messages: Sequence[AnyMessage]) -> int:
    """How often this turn's answer was sent back."""
    return sum(is_aside(each, "evaluation") for each in this_turn(messages))


def this_turn(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages behind the last question, the latest first."""
    return list(itertools.takewhile(lambda each: not is_question(each), reversed(messages)))
