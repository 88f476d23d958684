"""Puts the agent together, and drives it: one question in, the model's replies out as events, an answer at the end.

The loop, the retries and the limits are LangChain's own. What is here is what it leaves open: an empty reply is asked
for again, a reply that broke off or was cut is not run, a turn that was stopped leaves a conversation that goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt

from nbagent.agent.memory import InProcess, Memory
from nbagent.agent.middleware.approve import Approvals
from nbagent.agent.middleware.attempts import Attempts, Failed
from nbagent.agent.middleware.compact import compact
from nbagent.agent.middleware.evaluate import Evaluation
from nbagent.agent.middleware.outgoing import Outgoing
from nbagent.agent.middleware.replies import ANSWERED, Replies, Wire, told
from nbagent.agent.middleware.spending import BudgetUsedUp, Counted, Spending
from nbagent.agent.middleware.stack import Stack
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import text_of
from nbagent.agent.runs import Runs
from nbagent.agent.tools.python import InOrder, make_tools
from nbagent.agent.view import clean_answer
from nbagent.errors import ModelError, UsageError
from nbagent.events import ModelFailed, ModelReplied, Usage

STOPPED_CALL = "Stopped: this call has no result."
STOPPED_TURN = "[The turn was stopped here, before an answer.]"

Stopped = Literal["", "budget"]


@dataclass(kw_only=True)
class Agent:
    """One conversation.

    Attributes:
        graph: LangChain's agent graph, with the memory's checkpointer.
        model: The model in it.
        attempts: What tries the model's calls, and tells of those that failed.
        spending: Keeps each question within its budget.
        finished: Results of the last reply's calls, by the ids of the reply and the call.
        history: The conversation so far, with what the last turn has come to.
        memory: Where it is kept.
        approvals: Asks before calls run.
    """

    graph: Any
    model: Model
    attempts: Attempts
    spending: Spending = field(default_factory=Spending)
    finished: Mapping[tuple[str | None, str | None], ToolMessage] = field(default_factory=dict)
    history: list[AnyMessage] = field(default_factory=list)
    memory: Memory = field(default_factory=InProcess)
    approvals: Approvals | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a turn ended.

    Attributes:
        text: The answer, cleaned for reading.
        usage: Of the whole turn.
        stopped: Empty when the model ended the turn itself; `budget` when that was used up.
    """

    text: str
    usage: Usage
    stopped: Stopped = ""


def build_agent(
    model: Model,
    runs: Runs,
    *,
    system_prompt: str,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    fallback: Sequence[Model] = (),
    spending: Spending | None = None,
    outgoing: Outgoing | None = None,
    programs: bool = True,
    evaluation: Evaluation | None = None,
    approvals: Approvals | None = None,
    memory: Memory | None = None,
) -> Agent:
    """An agent whose questions continue one conversation.

    Args:
        model: An opened model.
        runs: The session's side of the tools.
        system_prompt: What `prompts.system_prompt` wrote.
        middleware: Further LangChain middleware, such as approvals.
        fallback: Models that are asked in this order for a reply that the first one does not give.
        spending: Keeps each question within its budget; by default one of calls alone.
        outgoing: Redacts what leaves, and writes it down; without it nobody does.
        programs: Whether the sandbox runs programs.
        evaluation: Looks at answers; without it none is sent back.
        approvals: Asks before calls run.
        memory: Where the conversation is kept; in this process by default.

    Raises:
        ModelError: A recording has a fallback, or is one: it can't go on where another model left off.
    """
    models = (model, *fallback)
    if fallback and any(each.is_replay for each in models):
        raise ModelError("A recorded model neither has nor is a fallback.", mend="Leave the fallback out.")
    in_order, attempts, memory, spending = InOrder(), Attempts(models), memory or InProcess(), spending or Spending()
    wire = Wire(models)
    # The order matters. `wrap_model_call` runs from the outside to the inside: a reply is looked at before it is
    # retried, a model is tried again before the next one is asked, and what leaves is written down each time.
    stack: list[AgentMiddleware[Any, Any, Any]] = [
        spending,
        Replies(model, offered=lambda: wire.offered),
        *([evaluation] if evaluation else []),
        in_order,
        *([approvals] if approvals else []),
        *middleware,
        Counted(spending),
        *([ModelFallbackMiddleware(*(each.chat for each in fallback))] if fallback else []),
        attempts,
        wire,
        *([outgoing] if outgoing else []),
    ]
    graph = create_agent(
        model.chat,
        make_tools(runs, images=model.images != "no", programs=programs),
        system_prompt=system_prompt,
        middleware=[Stack(stack)],
        checkpointer=memory.checkpointer,
    )
    return Agent(
        graph=graph,
        model=model,
        attempts=attempts,
        spending=spending,
        finished=in_order.finished,
        approvals=approvals,
        memory=memory,
    )


async def answer(
    agent: Agent,
    question: str,
    *,
    on_reply: Callable[[ModelReplied], None],
    on_failure: Callable[[ModelFailed], None] = lambda _: None,
    turn: int,
) -> Answer:
    """Answer one question.

    It may be cancelled at any point: the next question continues the conversation and knows that this one was stopped.

    Args:
        agent: What `build_agent` made. One question at a time.
        question: The person's words.
        on_reply: Called with each reply of the model, before its tools run.
        on_failure: Called with each attempt that failed; its usage is part of the answer's.
        turn: The question's number, for the events.

    Raises:
        ModelCallError: The provider failed, or the model replied with nothing.
        ReplayError: The recording ran out.
        SandboxError: A tool could not run.
    """
    text, usage = "", Usage()

    def failed(attempt: Failed) -> None:
        nonlocal usage
        counted = agent.spending.priced(attempt.usage, attempt.model)
        agent.spending.count(counted)
        usage += counted
        on_failure(ModelFailed(turn=turn, **attempt._replace(usage=counted)._asdict()))

    agent.attempts.tell = failed
    agent.spending.begin()
    if agent.approvals is not None:
        agent.approvals.begin()
    history = compact(mend(agent.history, finished=agent.finished))
    thread = await agent.memory.begin()
    agent.history = [*history, HumanMessage(question.encode("utf-8", "replace").decode())]
    # `exit`: one checkpoint a turn, also of one that fails or is cancelled. Each holds the whole conversation with its
    # figures, so one for every step would fill the memory.
    given: Any = {"messages": agent.history}
    begun = False
    try:
        while given is not None:
            steps = agent.graph.astream(given, thread, stream_mode=["updates", "values"], durability="exit")
            given = None
            async for kind, update in steps:
                if kind == "values":
                    agent.history, begun = update["messages"], True
                    continue
                for message in _replies(update):
                    reply = _event(message, turn=turn, spending=agent.spending)
                    text, usage = reply.text, usage + reply.usage
                    on_reply(reply)
                if "__interrupt__" in update:
                    given = await _decided(agent, update["__interrupt__"])
    except BudgetUsedUp as end:
        return Answer(text=str(end), usage=usage, stopped="budget")
    finally:
        # A turn that was stopped before its first step has left no checkpoint, and that of the turn before is the last.
        if begun:
            agent.memory.ended()
    return Answer(text=clean_answer(text), usage=usage)


async def recall(agent: Agent) -> bool:
    """Go on with the conversation that the memory has; returns whether it has one."""
    thread = await agent.memory.newest()
    if thread is None:
        return False
    agent.history = list((await agent.graph.aget_state(thread)).values.get("messages") or [])
    return bool(agent.history)


async def _decided(agent: Agent, interrupts: Sequence[Interrupt]) -> Command[Any]:
    """How the graph goes on after a person was asked about calls."""
    if agent.approvals is None:
        raise UsageError("Middleware has interrupted the turn, and this session has nobody who answers it.")
    decisions = {each.id: await agent.approvals.decide(each.value["action_requests"]) for each in interrupts}
    return Command(resume={name: {"decisions": made} for name, made in decisions.items()})


def remember(turns: Sequence[tuple[str, str]], *, note: str) -> list[AnyMessage]:
    """A conversation that went on in another process, as far as questions and answers tell it.

    Args:
        turns: Questions and their answers.
        note: What has become of the kernel since, for the model to know.
    """
    history: list[AnyMessage] = []
    for question, text in turns:
        history += [HumanMessage(question), AIMessage(text or STOPPED_TURN)]
    return noted(history, note=note)


def noted(history: Sequence[AnyMessage], *, note: str) -> list[AnyMessage]:
    """A conversation whose last answer says besides what has become of the kernel since."""
    told = mend(history)
    if told and note:
        told[-1] = AIMessage(f"{told[-1].text}\n\n[{note}]", id=told[-1].id)
    return told


def _replies(update: dict[str, Any]) -> Iterator[AIMessage]:
    """The model's replies in an update of the graph; messages that middleware made are none."""
    made = update.get("model") or []
    for part in made if isinstance(made, list) else [made]:  # a list if middleware adds commands of its own
        yield from (message for message in (part or {}).get("messages", []) if isinstance(message, AIMessage))


def _event(message: AIMessage, *, turn: int, spending: Spending) -> ModelReplied:
    return ModelReplied(
        turn=turn,
        model=message.response_metadata.get(ANSWERED, ""),
        text=text_of(message),
        tools=[str(call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]],
        usage=spending.of(message),
    )


def mend(
    history: Sequence[AnyMessage], *, finished: Mapping[tuple[str | None, str | None], ToolMessage] | None = None
) -> list[AnyMessage]:
    """A conversation in which each tool call has its result and each question an answer, as providers demand.

    What is missing is told as what it is: a call that was stopped, a turn without an answer.

    Args:
        history: The conversation as it was saved.
        finished: Results that were there when the turn was stopped; LangGraph doesn't save those of a step that
            did not end.
    """
    results = finished or {}
    mended: list[AnyMessage] = []
    for index, message in enumerate(history):
        mended.append(message)
        if isinstance(message, AIMessage):
            # Looked for behind this reply only: some servers count the ids of calls anew in each.
            behind = itertools.takewhile(lambda later: isinstance(later, ToolMessage), history[index + 1 :])
            answered = {later.tool_call_id for later in behind if isinstance(later, ToolMessage)}
            calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
            missing = [call for call in calls if call["id"] not in answered]
            mended += [results.get((message.id, call["id"])) or told(call, STOPPED_CALL) for call in missing]
    if mended and not (isinstance(mended[-1], AIMessage) and not mended[-1].tool_calls):
        mended.append(AIMessage(STOPPED_TURN))
    return mended
