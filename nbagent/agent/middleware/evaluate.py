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
from nbagent.agent.claims import claims
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import ReplayModel, text_of
from nbagent.agent.runs import Desk
from nbagent.agent.turn import Turn
from nbagent.core.errors import contained
from nbagent.core.events import Claim

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


UNCHECKED: Final = Claim(text="the numbers, which could not be looked for")
"""What stands in place of an answer's claims where finding them has failed."""


class Check:
    """Looks for the numbers of an answer in what the session has come to.

    Args:
        desk: The session.
        described: What the model was told of the data, whose numbers are not the model's.
    """

    def __init__(self, desk: Desk, described: str) -> None:
        self._desk = desk
        self._described = described
        self._last: tuple[str, int, list[Claim]] = ("", 0, [])

    def claims(self, text: str) -> list[Claim]:
        """The numbers of an answer; what the questions, the code and the data's description say is not the model's."""
        seen = self._desk.evidence()
        if self._last[:2] == (text, len(seen.outputs)):
            return self._last[2]  # as it was looked at a moment ago, before it was given
        found = [UNCHECKED]
        with contained("The numbers of an answer were not looked for in the outputs"):
            found = claims(text, seen.outputs, given=[self._described, *seen.given], data=seen.has_data)
        self._last = text, len(seen.outputs), found
        return found

    def checkable(self, text: str) -> list[Claim]:
        """The claims that the model can mend: all but those that nbagent could not check."""
        return [claim for claim in self.claims(text) if claim is not UNCHECKED]


class Evaluation(AgentMiddleware[AgentState[Any], Any, Any]):
    """Sends an answer back whose numbers no output supports.

    Args:
        model: The model of the agent.
        claims: Finds the numbers of an answer, and where each of them stands.
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
        again = bool(missing) and _rounds(messages) < self._most and self._can_be_asked()
        runtime.context.phases.evaluate(found, again=again)
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
