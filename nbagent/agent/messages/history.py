"""A conversation as messages: made of questions and answers, mended where it was stopped, and kept short. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from nbagent.agent.cell_view import cut_middle
from nbagent.agent.messages.asides import aside, is_aside, is_question
from nbagent.agent.messages.reply import in_place_of_result
from nbagent.core.text import one_line

STOPPED_CALL = "Stopped: this call has no result."
STOPPED_TURN = "[The turn was stopped here, before an answer.]"

WHOLE: Final = 8
"""Turns at the end that stay whole."""
SHORT: Final = 24
"""Turns before these of which the question and the answer stay."""
TEXT: Final = 1_500
"""Bytes of the question and of the answer of a shortened turn."""
LISTED: Final = 4_000
"""Bytes of the list of still older questions."""
LINE: Final = 120
"""Characters of a question in the list."""
HEADING: Final = "[nbagent] Questions asked before, whose cells and answers are in the notebook:"


def stopped_answer(written: str) -> str:
    """What stands in place of the answer to a question that was stopped while the model had written this much of it."""
    return f"Stopped. This much was written, and is not checked:\n\n{written}" if written else "Stopped."


def remember(turns: Sequence[tuple[str, str]], *, note: str) -> list[AnyMessage]:
    """A conversation of an earlier process, of which only the questions and answers are known."""
    history: list[AnyMessage] = []
    for question, text in turns:
        history += [HumanMessage(question), AIMessage(text or STOPPED_TURN)]
    return with_note(history, note=note)


def with_note(history: Sequence[AnyMessage], *, note: str, stopped: str = "") -> list[AnyMessage]:
    """A conversation, mended as by `mend`, with a note for the model behind its last answer."""
    mended = mend(history, stopped=stopped)
    if mended and note:
        mended[-1] = AIMessage(f"{mended[-1].text}\n\n[{note}]", id=mended[-1].id)
    return mended


def mend(
    history: Sequence[AnyMessage],
    *,
    finished: Mapping[tuple[str | None, str | None], ToolMessage] | None = None,
    stopped: str = "",
) -> list[AnyMessage]:
    """A conversation in which each tool call has its result and each question an answer, as providers demand.

    A call without a result gets one that says so, and a turn without an answer too.

    Args:
        history: The conversation as it was saved.
        finished: Results of calls in a step that was stopped; LangGraph saves only those of whole steps.
        stopped: What the person got in place of an answer to the last question, if it has none.
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
        mended.append(AIMessage(f"{stopped}\n\n{STOPPED_TURN}".strip()))
    return mended


def compact(history: Sequence[AnyMessage], *, whole: int = WHOLE, short: int = SHORT) -> list[AnyMessage]:
    """A conversation whose older turns are short, without asking a model.

    The last turns stay whole. Of older turns the question and the answer stay, without calls and results; of still
    older turns, the question in a list. So a request stays about as long, and costs about the same, however long the
    conversation is. The notebook has everything.

    LangChain's `SummarizationMiddleware` asks a model for a summary, which costs a request and may lose numbers;
    `ContextEditingMiddleware` empties results once there are too many tokens, in the middle of a turn too.

    Args:
        history: Messages in which each question has its answer.
        whole: Turns at the end that stay whole.
        short: Turns before these of which the question and the answer stay.

    Returns:
        The same messages if all turns stay whole.
    """
    listed, turns = _split(history)
    if len(turns) <= whole:
        return list(history)
    old, middle, new = turns[: -whole - short], turns[-whole - short : -whole], turns[-whole:]
    listed += [_line(turn) for turn in old]
    kept: list[AnyMessage] = [_list(listed)] if listed else []
    for turn in middle:
        kept += _shorten(turn)
    return [*kept, *(message for turn in new for message in turn)]


def _split(history: Sequence[AnyMessage]) -> tuple[list[str], list[list[AnyMessage]]]:
    """The questions of an earlier list in the conversation, and its turns, each from its question on."""
    listed: list[str] = []
    turns: list[list[AnyMessage]] = []
    for message in history:
        if is_aside(message, "earlier"):
            listed += str(message.text).split("\n")[1:]
        elif is_question(message) or not turns:
            turns.append([message])
        else:
            turns[-1].append(message)
    return listed, turns


def _shorten(turn: Sequence[AnyMessage]) -> list[AnyMessage]:
    question, answer = turn[0], turn[-1]
    short: list[AnyMessage] = [HumanMessage(_cut(question), id=question.id)]
    if isinstance(answer, AIMessage) and answer is not question:
        short.append(AIMessage(_cut(answer), id=answer.id))
    return short


def _list(lines: Sequence[str]) -> HumanMessage:
    """The latest questions for which there is room, in one message."""
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line.encode()) + 1
        if size > LISTED:
            break
        kept.append(line)
    return aside("earlier", "\n".join([HEADING, *reversed(kept)]))


def _line(turn: Sequence[AnyMessage]) -> str:
    return f"- {one_line(str(turn[0].text), LINE)}"


def _cut(message: AnyMessage) -> str:
    return cut_middle(str(message.text), limit=TEXT)[0]
