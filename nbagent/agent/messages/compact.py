"""Keeps a long conversation short without asking a model. Pure.

The last turns stay whole. Of older turns the question and the answer stay, without calls and results; of still older
turns, the question in a list. So a request stays about as long, and costs about the same, however long the conversation
is. The notebook has everything.

LangChain's `SummarizationMiddleware` asks a model for a summary, which costs a request and may lose numbers;
`ContextEditingMiddleware` empties results only once the conversation has too many tokens, in the middle of a turn too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from nbagent.agent.cell_view import cut
from nbagent.agent.messages.asides import aside, is_aside, is_question
from nbagent.core.text import one_line

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


def compact(history: Sequence[AnyMessage], *, whole: int = WHOLE, short: int = SHORT) -> list[AnyMessage]:
    """A conversation with its older turns in fewer words.

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
    return cut(str(message.text), limit=TEXT)[0]
