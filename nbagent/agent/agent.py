"""Drives the agent: one question in, its events out as they happen, an answer at the end.

LangGraph runs the loop. This module has calls approved, reports replies as events, and makes sure that a turn which was
stopped leaves a conversation with which the next one can go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt

from nbagent.agent.claims import UNCHECKED
from nbagent.agent.memory import InProcess, Memory
from nbagent.agent.messages.answer_text import clean_answer
from nbagent.agent.messages.history import compact, mend, stopped_answer
from nbagent.agent.messages.reply import ANSWERED_BY, text_of
from nbagent.agent.middleware.approve import ApprovalMiddleware
from nbagent.agent.middleware.outgoing import untraced
from nbagent.agent.middleware.spending import BudgetUsedUp, Spending
from nbagent.agent.providers.models import Model
from nbagent.agent.turn import Turn
from nbagent.core.errors import ModelCallError, NbagentError, ReplayError, SandboxError, UsageError
from nbagent.core.events import Answer, Asked, Claim, DataSeen, ModelReplied


@dataclass(kw_only=True)
class Agent:
    """One conversation, one question at a time; `build.py` puts it together.

    Attributes:
        graph: LangChain's agent graph, with the memory's checkpointer.
        model: The session's model.
        spending: Keeps each question within its budget.
        approvals: Asks before calls run.
        claims: Finds the numbers of an answer in the outputs; without it, an answer has none.
        data: The data that the sandbox sees, read-only.
        finished: The results of the last reply's calls so far, by the ids of the reply and the call.
        history: The conversation so far, including an unfinished last turn.
        stopped: What stands in place of an answer if the last turn was stopped.
        memory: Keeps the conversation between turns.
    """

    graph: Any
    model: Model
    spending: Spending
    approvals: ApprovalMiddleware | None = None
    claims: Callable[[str, Turn], Awaitable[Sequence[Claim]]] | None = None
    data: Sequence[DataSeen] = ()
    finished: Mapping[tuple[str | None, str | None], ToolMessage] = field(default_factory=dict)
    history: list[AnyMessage] = field(default_factory=list)
    stopped: str = ""
    memory: Memory = field(default_factory=InProcess)

    async def answer(self, question: str, *, turn: Turn, more: str = "") -> Answer:
        """Answer one question; however the turn ends, `turn.answer` is set.

        It may be cancelled at any point; if its answer was being checked, the turn has that. The next question
        continues the conversation, in which the model sees that this one was stopped.

        Args:
            question: The person's words.
            turn: The turn, which emits its events.
            more: Text for the model after the question, such as the names of uploaded files.

        Raises:
            ModelCallError: The provider failed, or the model gave no reply that can be used.
            ReplayError: The recording ran out.
            SandboxError: A tool could not run.
        """
        model, budget = self.model, str(self.spending.budget)
        turn.emit(Asked(turn=turn.number, question=question, model=model.name, replay=model.is_replay, budget=budget))
        turn.phases.comprehend(question, self.data)
        text, ended = "", False
        try:
            with untraced():
                text = clean_answer(await self._drive(question + more, turn))
            ended = True
        except BudgetUsedUp as end:
            text = str(end)
            if turn.draft is None:
                turn.phases.converse()
        except asyncio.CancelledError:
            text = self.stopped = stopped_answer(clean_answer(turn.written))
            raise
        except NbagentError as error:
            text = str(error)
            if turn.draft is None or not isinstance(error, ModelCallError | ReplayError | SandboxError):
                raise
        finally:
            if not ended and turn.draft is not None:  # there is an answer, though it can't be checked
                text, ended = turn.draft.text, True
            if ended:
                turn.phases.converse()
            if self.approvals is not None:
                self.approvals.close()
            wanted = self.claims if ended else None
            found: Sequence[Claim] = [UNCHECKED] if wanted else ()
            try:
                found = await wanted(text, turn) if wanted else ()
            finally:
                answer = turn.end(text, ended=ended, claims=found)
        return answer

    async def _drive(self, question: str, turn: Turn) -> str:
        """Run the graph to its end; returns the last reply's text.

        Raises:
            BudgetUsedUp: The question may use no more.
        """
        self.spending.begin()
        if self.approvals is not None:
            self.approvals.begin()
        history = compact(mend(self.history, finished=self.finished, stopped=self.stopped))
        thread = await self.memory.begin()
        self.stopped = ""
        self.history = [*history, HumanMessage(question.encode("utf-8", "replace").decode())]
        # `exit`: one checkpoint a turn, also if it fails or is cancelled. A checkpoint holds the whole conversation and
        # its figures, so one for each step would fill the memory.
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
                        given = await self._decide(update["__interrupt__"], turn)
        finally:
            # A turn that was stopped before its first step has no checkpoint; the last one is that of the turn before.
            if begun:
                self.memory.ended()
        return text

    async def recall(self) -> bool:
        """Load the conversation of an earlier process from the memory; returns whether there is one."""
        thread = await self.memory.newest()
        if thread is None:
            return False
        self.history = list((await self.graph.aget_state(thread)).values.get("messages") or [])
        return bool(self.history)

    async def _decide(self, interrupts: Sequence[Interrupt], turn: Turn) -> Command[Any]:
        """Have the calls of an interrupt decided; returns the command with which the graph goes on."""
        if self.approvals is None:
            raise UsageError("Middleware has interrupted the turn, and this session has nobody who answers it.")
        decisions = {each.id: await self.approvals.decide(each.value["action_requests"], turn) for each in interrupts}
        return Command(resume={name: {"decisions": made} for name, made in decisions.items()})

    def _event(self, message: AIMessage, turn: Turn) -> ModelReplied:
        return ModelReplied(
            turn=turn.number,
            model=message.response_metadata.get(ANSWERED_BY, ""),
            text=text_of(message),
            tools=[str(call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]],
            usage=self.spending.of(message),
        )


def _replies(update: dict[str, Any]) -> Iterator[AIMessage]:
    """The model's replies in an update of the graph, without messages that middleware added."""
    made = update.get("model") or []
    for part in made if isinstance(made, list) else [made]:  # a list if middleware adds commands of its own
        yield from (message for message in (part or {}).get("messages", []) if isinstance(message, AIMessage))
