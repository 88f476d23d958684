"""Puts the agent together, and drives it: one question in, the model's replies out as events, an answer at the end.

The loop, the retries and the limits are LangChain's own. What is here is what it leaves open: an empty reply is asked
for again, a reply that broke off or was cut is not run, a turn that was stopped leaves a conversation that goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    hook_config,
)
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import add_usage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from nbagent.agent.failures import BrokenReplyError, failure, is_worth_retrying
from nbagent.agent.models import Model
from nbagent.agent.replay import text_of
from nbagent.agent.tools import InOrder, Runs, make_tools
from nbagent.agent.view import clean_answer
from nbagent.errors import ModelCallError, NbagentError
from nbagent.events import ModelReplied, Usage

CALLS = 30
"""Model calls that one question may take."""
BROKEN_RETRIES = 2
FIRST_DELAY = 1.0
"""Seconds before the first retry; doubled for each further one."""
THREAD: RunnableConfig = {"configurable": {"thread_id": "session"}}
"""A graph has a checkpointer of its own, so its one conversation needs no other name."""

STOPPED_CALL = "Stopped: this call has no result."
STOPPED_TURN = "[The turn was stopped here, before an answer.]"

Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
Stopped = Literal["", "calls"]


@dataclass(kw_only=True)
class Agent:
    """One conversation.

    Attributes:
        graph: LangChain's agent graph, with a checkpointer in memory.
        model: The model in it.
        max_calls: Model calls that one question may take.
        finished: Results of the last reply's calls, by the ids of the reply and the call.
        history: The conversation up to the last question.
    """

    graph: Any
    model: Model
    max_calls: int = CALLS
    finished: Mapping[tuple[str | None, str | None], ToolMessage] = field(default_factory=dict)
    history: list[AnyMessage] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a turn ended.

    Attributes:
        text: The answer, cleaned for reading.
        usage: Of the whole turn.
        stopped: Empty when the model ended the turn itself; `calls` when its calls were used up.
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
    max_calls: int = CALLS,
) -> Agent:
    """An agent whose questions continue one conversation.

    Args:
        model: An opened model.
        runs: The session's side of the tools.
        system_prompt: What `prompts.system_prompt` wrote.
        middleware: Further LangChain middleware, such as approvals or a fallback model.
        max_calls: Model calls that one question may take.
    """
    retry = ModelRetryMiddleware(
        max_retries=BROKEN_RETRIES,
        retry_on=lambda error: is_worth_retrying(error, chat=model.chat),
        on_failure="error",
        initial_delay=FIRST_DELAY,
    )
    in_order = InOrder()
    # The order matters. `after_model` runs from the last to the first: the limit has counted the call when `Replies`
    # sends it back. `wrap_model_call` runs from the outside to the inside: a reply is looked at before it is retried.
    stack: list[AgentMiddleware[Any, Any, Any]] = [
        Replies(model),
        in_order,
        *middleware,
        ModelCallLimitMiddleware(run_limit=max_calls, exit_behavior="error"),
        retry,
        Wire(model),
    ]
    graph = create_agent(
        model.chat,
        make_tools(runs, images=model.images != "no"),
        system_prompt=system_prompt,
        middleware=stack,
        checkpointer=InMemorySaver(),
    )
    return Agent(graph=graph, model=model, max_calls=max_calls, finished=in_order.finished)


async def answer(agent: Agent, question: str, *, on_reply: Callable[[ModelReplied], None], turn: int) -> Answer:
    """Answer one question.

    It may be cancelled at any point: the next question continues the conversation and knows that this one was stopped.

    Args:
        agent: What `build_agent` made. One question at a time.
        question: The person's words.
        on_reply: Called with each reply of the model, before its tools run.
        turn: The question's number, for the events.

    Raises:
        ModelCallError: The provider failed, or the model replied with nothing.
        ReplayError: The recording ran out.
        SandboxError: A tool could not run.
    """
    text, usage = "", Usage()
    await _resume(agent)
    messages = [*agent.history, HumanMessage(question.encode("utf-8", "replace").decode())]
    # `exit`: one checkpoint a turn, also of one that fails or is cancelled. Each holds the whole conversation with its
    # figures, so one for every step would fill the memory.
    updates = agent.graph.astream({"messages": messages}, THREAD, stream_mode="updates", durability="exit")
    try:
        async for update in updates:
            for message in _replies(update):
                reply = _event(message, turn=turn)
                text, usage = reply.text, usage + reply.usage
                on_reply(reply)
    except ModelCallLimitExceededError:
        stopped = f"Stopped without an answer: the model used all {agent.max_calls} calls that a question may take."
        return Answer(text=stopped, usage=usage, stopped="calls")
    return Answer(text=clean_answer(text), usage=usage)


def _replies(update: dict[str, Any]) -> Iterator[AIMessage]:
    """The model's replies in an update of the graph; messages that middleware made are none."""
    for message in ((update.get("model") or {}).get("messages")) or []:
        if isinstance(message, AIMessage):
            yield message


def _event(message: AIMessage, *, turn: int) -> ModelReplied:
    given: Any = message.usage_metadata or {}
    return ModelReplied(
        turn=turn,
        text=text_of(message),
        tools=[str(call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]],
        usage=Usage(
            input_tokens=given.get("input_tokens", 0),
            output_tokens=given.get("output_tokens", 0),
            calls=message.response_metadata.get(ASKED, 1),
        ),
    )


async def _resume(agent: Agent) -> None:
    """Take the conversation out of the checkpoint, mended, to begin the next turn with it."""
    state = await agent.graph.aget_state(THREAD)
    # A turn that was cancelled before its first step has saved nothing.
    agent.history = mend(state.values.get("messages") or agent.history, finished=agent.finished)
    # Begun anew: the checkpoint of a turn that was stopped still has tasks in it, and an older one is of no use.
    await agent.graph.checkpointer.adelete_thread(THREAD["configurable"]["thread_id"])


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
            mended += [results.get((message.id, call["id"])) or _told(call, STOPPED_CALL) for call in missing]
    if mended and not (isinstance(mended[-1], AIMessage) and not mended[-1].tool_calls):
        mended.append(AIMessage(STOPPED_TURN))
    return mended


def _told(call: ToolCall | InvalidToolCall, content: str) -> ToolMessage:
    return ToolMessage(content, name=call["name"] or "unknown", tool_call_id=call["id"] or "", status="error")


ASKED = "nbagent_calls"
"""In a reply's metadata: the calls that it took, if it took more than one."""
AGAIN = "Your last reply was empty. Call a tool, or reply with your answer as text."


class Replies(AgentMiddleware[AgentState[Any], Any, Any]):
    """Judges each whole reply: an empty one is asked for once more, malformed calls are told to the model."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model, twice if it says nothing; a provider's failure becomes a sentence.

        Raises:
            ModelCallError: The provider failed, or both replies were empty.
        """
        try:
            response = await handler(request)
            first = _reply_of(response)
            if first is not None and _is_empty(first):
                again: list[AnyMessage] = [*request.messages, HumanMessage(AGAIN)]
                response = await handler(request.override(messages=again))
                self._count(first, _reply_of(response))
        except (NbagentError, GraphBubbleUp):
            raise
        except Exception as error:
            # Whatever a provider's client raises: each has its own tree, and all of them end here.
            raise failure(error, model=self._model.name) from error
        return response

    def _count(self, first: AIMessage, second: AIMessage | None) -> None:
        if second is None or _is_empty(second):
            reason = (second or first).response_metadata.get("finish_reason", "")
            why = f" (it ended for: {reason})" if reason not in ("", "stop") else ""
            raise ModelCallError(f"{self._model.name} replied twice with nothing{why}.", mend="Ask in other words.")
        second.usage_metadata = add_usage(first.usage_metadata, second.usage_metadata)
        second.response_metadata[ASKED] = 2

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Tell the model of calls that can't be read. Calls beside them run; without any, the model is asked again."""
        last = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
        if last is None or not last.invalid_tool_calls:
            return None
        told = [_told(call, _unreadable(call)) for call in last.invalid_tool_calls]
        return {"messages": told} if last.tool_calls else {"messages": told, "jump_to": "model"}


def _unreadable(call: InvalidToolCall) -> str:
    why = " ".join((call.get("error") or "").split())[:300]
    return (
        f"Not run: the arguments of this call are not valid JSON{f' ({why})' if why else ''}. Send the call again; if "
        "the code is long, send it in smaller cells."
    )


class Wire(AgentMiddleware[AgentState[Any], Any, Any]):
    """Next to the model: what goes out fits the provider, what comes in is whole, and is recorded."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model.

        Raises:
            BrokenReplyError: The stream ended early.
        """
        if self._model.images == "after results":
            request = request.override(messages=images_after_results(request.messages))
        response = await handler(request)
        if (reply := _reply_of(response)) is not None:
            _check_whole(reply)
            _distrust_cut(reply)
            _give_ids(reply)
            if self._model.recorder:
                self._model.recorder.write(reply)
        return response


def _reply_of(response: ModelResponse[Any]) -> AIMessage | None:
    return next((message for message in reversed(response.result) if isinstance(message, AIMessage)), None)


def _is_empty(reply: AIMessage) -> bool:
    return not (text_of(reply).strip() or reply.tool_calls or reply.invalid_tool_calls)


def _finish(reply: AIMessage) -> str:
    found = reply.response_metadata
    return str(found.get("finish_reason") or found.get("stop_reason") or found.get("status") or "")


def _check_whole(reply: AIMessage) -> None:
    """Refuse a stream that just stopped: both providers end one with a reason, and with the usage after it."""
    if reply.response_metadata.get("model_provider") in ("openai", "anthropic"):
        counted = reply.usage_metadata is not None and reply.usage_metadata["output_tokens"] > 0
        if not _finish(reply) and not counted:
            raise BrokenReplyError


def _distrust_cut(reply: AIMessage) -> None:
    """Keep the last call of a reply that hit its token limit from running.

    LangChain completes JSON that was cut in a stream, so half of the code would look like all of it.
    """
    if reply.tool_calls and _finish(reply).lower().startswith(("length", "max_tokens", "incomplete")):
        call = reply.tool_calls.pop()
        error = "the reply reached its token limit, and the call was cut"
        reply.invalid_tool_calls.append(
            InvalidToolCall(type="invalid_tool_call", name=call["name"], args="", id=call["id"], error=error)
        )


def _give_ids(reply: AIMessage) -> None:
    """Give each call an id of its own: some OpenAI-compatible servers send none, or the same one twice."""
    seen: set[str] = set()
    calls: list[Any] = [*reply.tool_calls, *reply.invalid_tool_calls]
    for number, call in enumerate(calls, start=1):
        if not call["id"] or call["id"] in seen:
            call["id"] = f"{reply.id or 'call'}_{number}"
        seen.add(call["id"])


def images_after_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same conversation with the images of results in a message behind them, where all providers take them."""
    moved: list[AnyMessage] = []
    held: list[Any] = []
    for message in [*messages, None]:
        if held and not isinstance(message, ToolMessage):
            moved.append(HumanMessage([{"type": "text", "text": "The figures of these cells:"}, *held]))
            held = []
        if isinstance(message, ToolMessage) and isinstance(message.content, list):
            images = [block for block in message.content if isinstance(block, dict) and block.get("type") == "image"]
            held += images
            message = message.model_copy(update={"content": message.text}) if images else message
        if message is not None:
            moved.append(message)
    return moved
