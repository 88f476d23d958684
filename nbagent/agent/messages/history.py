"""A conversation as messages: made of questions and answers, and mended where it was stopped. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from nbagent.agent.messages.reply import in_place_of_result

STOPPED_CALL = "Stopped: this call has no result."
STOPPED_TURN = "[The turn was stopped here, before an answer.]"


def remember(turns: Sequence[tuple[str, str]], *, note: str) -> list[AnyMessage]:
    """A conversation of an earlier process, of which only the questions and answers are known.

    Args:
        turns: Questions and their answers.
        note: What has become of the kernel since then, for the model.
    """
    history: list[AnyMessage] = []
    for question, text in turns:
        history += [HumanMessage(question), AIMessage(text or STOPPED_TURN)]
    return with_note(history, note=note)


def with_note(history: Sequence[AnyMessage], *, note: str) -> list[AnyMessage]:
    """A mended conversation, with a note for the model behind its last answer."""
    mended = mend(history)
    if mended and note:
        mended[-1] = AIMessage(f"{mended[-1].text}\n\n[{note}]", id=mended[-1].id)
    return mended


def mend(
    history: Sequence[AnyMessage], *, finished: Mapping[tuple[str | None, str | None], ToolMessage] | None = None
) -> list[AnyMessage]:
    """A conversation in which each tool call has its result and each question an answer, as providers demand.

    A call without a result gets one that says so, and a turn without an answer too.

    Args:
        history: The conversation as it was saved.
        finished: Results of calls in a step that was stopped; LangGraph saves only those of whole steps.
    """
    results = finished or {}
    mended: list[AnyMessage] = []
    for index, message in enumerate(history):
        mended.append(message)
        if isinstance(message, AIMessage):
            # Only results behind this reply count: some servers use the same ids of calls in each.
            behind = itertools.takewhile(lambda later: isinstance(later, ToolMessage), history[index + 1 :])
            answered = {later.tool_call_id for later in behind if isinstance(later, ToolMessage)}
            calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
            missing = [call for call in calls if call["id"] not in answered]
            mended += [
                results.get((message.id, call["id"])) or in_place_of_result(call, STOPPED_CALL) for call in missing
            ]
    if mended and not (isinstance(mended[-1], AIMessage) and not mended[-1].tool_calls):
        mended.append(AIMessage(STOPPED_TURN))
    return mended
