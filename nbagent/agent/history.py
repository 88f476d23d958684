"""A conversation as messages: mended where it was stopped, and as far as questions and answers tell it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from nbagent.agent.middleware.replies import told

STOPPED_CALL = "Stopped: this call has no result."
STOPPED_TURN = "[The turn was stopped here, before an answer.]"


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
