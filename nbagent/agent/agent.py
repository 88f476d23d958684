"""Drives the agent: one question in, its events out as they happen, an answer at the end.

The loop is LangGraph's own. What is here is what it leaves open: who is asked before calls run, what a turn that was
stopped leaves behind, and what is told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt

from nbagent.agent.answer_text import clean_answer
from nbagent.agent.history import mend
from nbagent.agent.memory import InProcess, Memory
from nbagent.agent.middleware.approve import Approvals
from nbagent.agent.middleware.compact import compact
from nbagent.agent.middleware.outgoing import untraced
from nbagent.agent.middleware.replies import ANSWERED
from nbagent.agent.middleware.spending import BudgetUsedUp, Spending
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import text_of
from nbagent.agent.turn import Turn
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Answer, Asked, Claim, DataSeen, ModelReplied


@dataclass(kw_only=True)
class Agent:
    """One conversation, one question at a time; `build.py` makes it.

    Attributes:
        graph: LangChain's agent graph, with the memory's checkpointer.
        model: The model in it.
        spending: Keeps each question within its budget.
        approvals: Asks before calls run.
        claims: Finds the numbers of an answer in the outputs.
        data: What the sandbox sees read-only.
        finished: Results of the last reply's calls, by the ids of the reply and the call.
        history: The conversation so far, with what the last turn has come to.
        memory: Where it is kept.
    """

    graph: Any
    model: Model
    spending: Spending
    approvals: Approvals | None = None
    claims: Callable[[str], Sequence[Claim]] = lambda _: ()
    data: Sequence[DataSeen] = ()
    finished: Mapping[tuple[str | None, str | None], ToolMessage] = field(default_factory=dict)
    history: list[AnyMessage] = field(default_factory=list)
    memory: Memory = field(default_factory=InProcess)

    async def answer(self, question: str, *, turn: Turn, more: str = "") -> Answer:
        """Answer one question; however it ends, `turn.answer` is what came of it.

        It may be cancelled at any point: the next question continues the conversation and knows that this one was
        stopped.

        Args:
            question: The person's words.
            turn: The question's context, which gets its events.
            more: What the model is told with it, such as the files that came along.

        Raises:
            ModelCallError: The provider failed, or the model replied with nothing.
            ReplayError: The recording ran out.
            SandboxError: A tool could not run.
        """
        turn.emit(Asked(turn=turn.number, question=question, model=self.model.name, replay=self.model.is_replay))
        turn.phases.comprehend(question, self.data)
        text, ended = "", False
        try:
            with untraced():
                text = clean_answer(await self._drive(question + more, turn))
            ended = True
            turn.phases.converse()
        except BudgetUsedUp as end:
            text = str(end)
            turn.phases.converse()
        except asyncio.CancelledError:
            text = "Stopped."
            raise
        except NbagentError as error:
            text = str(error)
            raise
        finally:
            if self.approvals is not None:
                self.approvals.close()
            answer = turn.end(text, ended=ended, claims=self.claims(text) if ended else ())
        return answer

    async def _drive(self, question: str, turn: Turn) -> str:
        """Run the graph to its end; returns the last reply's text.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        self.spending.begin()
        if self.approvals is not None:
            self.approvals.begin()
        history = compact(mend(self.history, finished=self.finished))
        thread = await self.memory.begin()
        self.history = [*history, HumanMessage(question.encode("utf-8", "replace").decode())]
        # `exit`: one checkpoint a turn, also of one that fails or is cancelled. Each holds the whole conversation with
        # its figures, so one for every step would fill the memory.
        given: Any = {"messages": self.history}
        modes = ["updates", "values"]
        text, begun = "", False
        try:
            while given is not None:
                steps = self.graph.astream(given, thread, context=turn, stream_mode=modes, durability="exit")
                given = None
                async for kind, update in steps:
                    if kind == "values":
                        self.history, begun = update["messages"], True
                        continue
                    for message in _replies(update):
                        text = text_of(message)
                        turn.emit(self._event(message, turn))
                    if "__interrupt__" in update:
                        given = await self._decided(update["__interrupt__"], turn)
        finally:
            # A turn that was stopped before its first step has left no checkpoint, and that of the turn before is the
            # last.
            if begun:
                self.memory.ended()
        return text

    async def recall(self) -> bool:
        """Go on with the conversation that the memory has; returns whether it has one."""
        thread = await self.memory.newest()
        if thread is None:
            return False
        self.history = list((await self.graph.aget_state(thread)).values.get("messages") or [])
        return bool(self.history)

    async def _decided(self, interrupts: Sequence[Interrupt], turn: Turn) -> Command[Any]:
        """How the graph goes on after a person was asked about calls."""
        if self.approvals is None:
            raise UsageError("Middleware has interrupted the turn, and this session has nobody who answers it.")
        decisions = {each.id: await self.approvals.decide(each.value["action_requests"], turn) for each in interrupts}
        return Command(resume={name: {"decisions": made} for name, made in decisions.items()})

    def _event(self, message: AIMessage, turn: Turn) -> ModelReplied:
        return ModelReplied(
            turn=turn.number,
            model=message.response_metadata.get(ANSWERED, ""),
            text=text_of(message),
            tools=[str(call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]],
            usage=self.spending.of(message),
        )


def _replies(update: dict[str, Any]) -> Iterator[AIMessage]:
    """The model's replies in an update of the graph; messages that middleware made are none."""
    made = update.get("model") or []
    for part in made if isinstance(made, list) else [made]:  # a list if middleware adds commands of its own
        yield from (message for message in (part or {}).get("messages", []) if isinstance(message, AIMessage))
