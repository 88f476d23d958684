"""Middleware that judges each whole reply before anything of it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage, InvalidToolCall
from langchain_core.messages.ai import add_usage
from langgraph.runtime import Runtime

from nbagent.agent.cell_view import cut_middle
from nbagent.agent.messages.asides import aside
from nbagent.agent.messages.mistaken import is_bare_code, is_blank, is_call
from nbagent.agent.messages.reply import ANSWERED_BY, REQUESTS, in_place_of_result, last_reply, stop_reason, text_of
from nbagent.agent.middleware.exchange import names_of
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.providers.models import Model
from nbagent.core.errors import ModelCallError

EMPTY = "Your last reply was empty. Call a tool, or reply with your answer as text."
AS_TEXT = (
    "[nbagent] Nothing was run: your last reply has a call in its text instead of making it. Call the tool in the form "
    "that you were given for it, or reply with your answer in words."
)
BARE = (
    "[nbagent] Nothing was run: your last reply is code in a Markdown fence. To run it, call the tool python with it. "
    "If the code itself is what the person asked for, reply with it again."
)
_ORDINARY = frozenset({"", "stop", "end_turn", "completed", "tool_calls", "tool_use"})
"""Reasons for a reply's end that explain nothing to a person."""


class Replies(Middleware):
    """Asks once more after a reply that is neither an answer nor a call, and tells the model of malformed calls.

    Args:
        model: The session's.
        offered: Returns the names of the tools in the last request, including those that inner middleware added.
    """

    def __init__(self, model: Model, *, offered: Callable[[], Collection[str]] = tuple) -> None:
        super().__init__()
        self._model = model
        self._offered = offered

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model; call it again if its reply is empty, or has a call or code in place of an answer.

        Raises:
            ModelCallError: The second reply was empty too, or again a call written as text.
        """
        response = await handler(request)
        first = last_reply(response.result)
        if first is None or not (complaint := self._complaint(first, request)):
            return response
        said = [AIMessage(cut_middle(text_of(first))[0])] if complaint != EMPTY else []
        again: list[AnyMessage] = [*request.messages, *said, aside("again", complaint)]
        response = await handler(request.override(messages=again))
        self._accept(first, last_reply(response.result), request)
        return response

    def _accept(self, first: AIMessage, second: AIMessage | None, request: ModelRequest[Any]) -> None:
        """Add what the first reply has used to the second one, unless that is no answer either."""
        complaint = self._complaint(second, request) if second is not None else EMPTY
        name = (second or first).response_metadata.get(ANSWERED_BY, self._model.name)
        if second is None or complaint == EMPTY:
            reason = stop_reason(second or first)
            ended = f" (it ended for: {reason})" if reason.lower() not in _ORDINARY else ""
            raise ModelCallError(f"{name} replied twice with nothing{ended}.", mend="Ask in other words.")
        if complaint == AS_TEXT:
            raise ModelCallError(
                f"{name} writes calls into its text instead of making them, so nothing runs.",
                mend="Use a model that calls tools, or have this one reply with objects: --structured.",
            )
        second.usage_metadata = add_usage(first.usage_metadata, second.usage_metadata)
        second.response_metadata[REQUESTS] = 2

    def _complaint(self, reply: AIMessage, request: ModelRequest[Any]) -> str:
        """What the model is told of a reply that is no answer; empty for an answer or a call."""
        if reply.tool_calls or reply.invalid_tool_calls:
            return ""
        text = text_of(reply)
        if is_blank(text):
            return EMPTY
        tools = names_of(request)
        if tools and is_call(text, {*tools, *self._offered()}):
            return AS_TEXT
        return BARE if "python" in tools and is_bare_code(text) else ""

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Tell the model of calls that can't be read. Calls beside them run; without any, the model is asked again."""
        reply = last_reply(state["messages"])
        if reply is None or not reply.invalid_tool_calls:
            return None
        messages = [in_place_of_result(call, _refusal(call)) for call in reply.invalid_tool_calls]
        return {"messages": messages} if reply.tool_calls else {"messages": messages, "jump_to": "model"}


def _refusal(call: InvalidToolCall) -> str:
    why = " ".join((call.get("error") or "").split())[:300]
    if not (why and not call["args"]):  # without arguments it was nbagent that refused the call, and said why
        why = f"the arguments of this call are not valid JSON{f' ({why})' if why else ''}"
    return f"Not run: {why}. Send the call again; if the code is long, send it in smaller cells."
