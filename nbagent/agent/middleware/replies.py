"""Middleware around a model's call: fits what is sent to the provider, and judges the reply before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from nbagent.agent.asides import aside, is_aside
from nbagent.agent.bounds import bound, refuse
from nbagent.agent.mistaken import is_bare_code, is_blank, is_call
from nbagent.agent.providers.failures import BrokenReplyError
from nbagent.agent.providers.known import PROVIDERS
from nbagent.agent.providers.models import Model, model_of
from nbagent.agent.providers.replay import text_of
from nbagent.agent.providers.watch import current
from nbagent.agent.view import cut
from nbagent.core.errors import ModelCallError

Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ASKED = "nbagent_calls"
"""In a reply's metadata: the calls that it took, if it took more than one."""
ANSWERED = "nbagent_model"
"""In a reply's metadata: the model that gave it, if that was a fallback."""
AGAIN = "Your last reply was empty. Call a tool, or reply with your answer as text."
AS_TEXT = (
    "[nbagent] Nothing was run: your last reply has a call in its text instead of making it. Call the tool in the form "
    "that you were given for it, or reply with your answer in words."
)
BARE = (
    "[nbagent] Nothing was run: your last reply is code in a Markdown fence. To run it, call the tool python with it. "
    "If the code itself is what the person asked for, reply with it again."
)


def told(call: ToolCall | InvalidToolCall, content: str) -> ToolMessage:
    """What the model is told instead of a call's result."""
    return ToolMessage(content, name=call["name"] or "unknown", tool_call_id=call["id"] or "", status="error")


class Replies(AgentMiddleware[AgentState[Any], Any, Any]):
    """Judges each whole reply: one that is none is asked for once more, malformed calls are told to the model.

    Args:
        model: The session's.
        offered: Tells the names of the tools that went out with the last request, also those that middleware added.
    """

    def __init__(self, model: Model, *, offered: Callable[[], Collection[str]] = tuple) -> None:
        super().__init__()
        self._model = model
        self._offered = offered

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model, twice if it says nothing, or writes a call or code where an answer should be.

        Raises:
            ModelCallError: Both replies were empty, or calls as text.
        """
        response = await handler(request)
        first = _reply_of(response)
        if first is None or not (why := self._complaint(first, request)):
            return response
        said = [AIMessage(cut(text_of(first))[0])] if why != AGAIN else []
        again: list[AnyMessage] = [*request.messages, *said, aside("again", why)]
        response = await handler(request.override(messages=again))
        self._count(first, _reply_of(response), request)
        return response

    def _count(self, first: AIMessage, second: AIMessage | None, request: ModelRequest[Any]) -> None:
        why = self._complaint(second, request) if second is not None else AGAIN
        name = (second or first).response_metadata.get(ANSWERED, self._model.name)
        if second is None or why == AGAIN:
            reason = _finish(second or first)
            ended = f" (it ended for: {reason})" if reason.lower() not in _ORDINARY else ""
            raise ModelCallError(f"{name} replied twice with nothing{ended}.", mend="Ask in other words.")
        if why == AS_TEXT:
            raise ModelCallError(
                f"{name} writes calls into its text instead of making them, so nothing runs.",
                mend="Use a model that calls tools, or have this one reply with objects: --structured.",
            )
        second.usage_metadata = add_usage(first.usage_metadata, second.usage_metadata)
        second.response_metadata[ASKED] = 2

    def _complaint(self, reply: AIMessage, request: ModelRequest[Any]) -> str:
        """What the model is told of a reply that is no answer; empty for one that is, or that calls something."""
        if reply.tool_calls or reply.invalid_tool_calls:
            return ""
        text = text_of(reply)
        if is_blank(text):
            return AGAIN
        tools = _names(request)
        if tools and is_call(text, {*tools, *self._offered()}):
            return AS_TEXT
        return BARE if "python" in tools and is_bare_code(text) else ""

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Tell the model of calls that can't be read. Calls beside them run; without any, the model is asked again."""
        last = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
        if last is None or not last.invalid_tool_calls:
            return None
        messages = [told(call, _unreadable(call)) for call in last.invalid_tool_calls]
        return {"messages": messages} if last.tool_calls else {"messages": messages, "jump_to": "model"}


def _unreadable(call: InvalidToolCall) -> str:
    why = " ".join((call.get("error") or "").split())[:300]
    if not (why and not call["args"]):  # else it was refused here, for a reason of its own
        why = f"the arguments of this call are not valid JSON{f' ({why})' if why else ''}"
    return f"Not run: {why}. Send the call again; if the code is long, send it in smaller cells."


class Wire(AgentMiddleware[AgentState[Any], Any, Any]):
    """Next to the model: what goes out fits the provider, what comes in is whole, and is recorded.

    Args:
        models: The session's model, then its fallbacks.

    Attributes:
        offered: The names of the tools that went out with the last request.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self._models = models
        self.offered: Sequence[str] = ()

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model.

        Raises:
            BrokenReplyError: The stream ended early.
        """
        model, first = model_of(request.model, self._models), self._models[0]
        self.offered = _names(request)
        if model.images == "after results":
            request = request.override(messages=images_after_results(request.messages))
        elif model.images == "no" and first.images != "no":
            request = request.override(messages=without_images(request.messages))
        if model.provider == "google_genai":
            request = request.override(messages=refusals_in_words(request.messages))
        response = await handler(request)
        if (reply := _reply_of(response)) is not None:
            _check_whole(reply, model.provider)
            _distrust_cut(reply)
            bound(reply)
            _give_ids(reply)
            if model is not first:
                reply.response_metadata[ANSWERED] = model.name
            if first.recorder:
                sent_back = bool(request.messages) and is_aside(request.messages[-1], "evaluation")
                first.recorder.write(reply, again=sent_back, structured=first.structured)
        return response


def _reply_of(response: ModelResponse[Any]) -> AIMessage | None:
    return next((message for message in reversed(response.result) if isinstance(message, AIMessage)), None)


def _names(request: ModelRequest[Any]) -> list[str]:
    return [each.name for each in request.tools if isinstance(each, BaseTool)]


def _finish(reply: AIMessage) -> str:
    found = reply.response_metadata
    return str(next((found[name] for name in _REASONS if found.get(name)), ""))


_REASONS = ("finish_reason", "stop_reason", "done_reason", "status")
# How a reply ends that has nothing to explain.
_ORDINARY = frozenset({"", "stop", "end_turn", "completed", "tool_calls", "tool_use"})


def _check_whole(reply: AIMessage, provider: str) -> None:
    """Refuse a stream that just stopped: a whole one ends with a reason, and with most providers with the usage too.

    Google's counts from the first piece on, so there the reason decides alone.
    """
    counted = reply.usage_metadata is not None and reply.usage_metadata["output_tokens"] > 0
    ended = bool(_finish(reply)) or (counted and provider != "google_genai")
    # `error` is what OpenRouter ends a stream with when the provider behind it fails.
    if provider in PROVIDERS and (not ended or _finish(reply) == "error"):
        raise BrokenReplyError


def _distrust_cut(reply: AIMessage) -> None:
    """Keep calls from running that LangChain has completed: half of the code would look like all of it.

    They are those whose arguments were no JSON as they came, and the last one of a reply that hit its token limit.
    """
    attempt = current()
    unreadable = attempt.unreadable() if attempt else set()
    for call in [call for call in reply.tool_calls if call["id"] in unreadable]:
        refuse(reply, call, "")
    if reply.tool_calls and _finish(reply).lower().startswith(("length", "max_tokens", "incomplete")):
        refuse(reply, reply.tool_calls[-1], "the reply reached its token limit, and the call was cut")


def _give_ids(reply: AIMessage) -> None:
    """Give each call an id of its own: some OpenAI-compatible servers send none, or the same one twice."""
    seen: set[str] = set()
    calls: list[Any] = [*reply.tool_calls, *reply.invalid_tool_calls]
    taken = {call["id"] for call in calls}
    for number, call in enumerate(calls, start=1):
        if not call["id"] or call["id"] in seen:
            names = (f"{reply.id or 'call'}_{each}" for each in itertools.count(number))
            call["id"] = next(name for name in names if name not in taken)
        seen.add(call["id"])
        taken.add(call["id"])


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


def without_images(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same conversation for a model without eyes, which is told where figures were."""
    told: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage | HumanMessage) and isinstance(message.content, list):
            figures = sum(isinstance(block, dict) and block.get("type") == "image" for block in message.content)
            note = f"\n[{figures} figure{'s' if figures > 1 else ''} not shown: this model takes no images]"
            message = message.model_copy(update={"content": f"{message.text}{note if figures else ''}"})
        told.append(message)
    return told


def refusals_in_words(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same conversation with calls that were not readable, and what was said of them, as plain text.

    langchain-google-genai would send such a call as if it were one, and nothing of its result, which Gemini refuses.
    """
    moved: list[AnyMessage] = []
    held: list[AnyMessage] = []
    refused: set[str | None] = set()
    for message in [*messages, None]:
        if held and not isinstance(message, ToolMessage):
            moved += held
            held = []
        if isinstance(message, ToolMessage) and message.tool_call_id in refused:
            held.append(HumanMessage(message.text))
            continue
        if isinstance(message, AIMessage):
            refused = {call["id"] for call in message.invalid_tool_calls}
            if refused and not message.tool_calls:
                message = AIMessage(message.text or "[A call that can't be read.]")
        if message is not None:
            moved.append(message)
    return moved
