"""Keeps a long conversation short without asking a model: what is old is told in fewer words; the notebook has all.

The last turns are whole. Of older ones the question and the answer stay, without calls and results. Of still older ones
only a list of the questions is left. So what the model is sent, and what a turn costs, stays about the same, however
long the conversation is. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from nbagent.agent.asides import aside, is_aside, is_question
from nbagent.agent.view import cut
from nbagent.core.text import one_line

WHOLE: Final = 8
"""Turns that stay as they were."""
SHORT: Final = 24
"""Turns before them of which the question and the answer stay."""
TEXT: Final = 1_500
"""Bytes of such a question, and of such an answer."""
LISTED: Final = 4_000
"""Bytes of the list of the questions before them."""
LINE: Final = 120
"""Characters of one of them."""
HEADING: Final = "[nbagent] Questions asked before, whose cells and answers are in the notebook:"


def compact(history: Sequence[AnyMessage], *, whole: int = WHOLE, short: int = SHORT) -> list[AnyMessage]:
    """A conversation with its older turns in fewer words.

    Args:
        history: Messages in which each question has its answer.
        whole: Turns at the end that stay as they are.
        short: Turns before these of which the question and the answer stay.

    Returns:
        The same messages as long as there are no more turns than stay whole.
    """
    listed, turns = _turns(history)
    if len(turns) <= whole:
        return list(history)
    old, middle, new = turns[: -whole - short], turns[-whole - short : -whole], turns[-whole:]
    listed += [_line(turn) for turn in old]
    kept: list[AnyMessage] = [_list_of(listed)] if listed else []
    for turn in middle:
        kept += _shortened(turn)
    return [*kept, *(message for turn in new for message in turn)]


def _turns(history: Sequence[AnyMessage]) -> tuple[list[str], list[list[AnyMessage]]]:
    """What a list of questions says that is there already, and the turns, each from its question on."""
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


def _shortened(turn: Sequence[AnyMessage]) -> list[AnyMessage]:
    question, answer = turn[0], turn[-1]
    short: list[AnyMessage] = [HumanMessage(_cut(question), id=question.id)]
    if isinstance(answer, AIMessage) and answer is not question:
        short.append(AIMessage(_cut(answer), id=answer.id))
    return short


def _list_of(lines: Sequence[str]) -> HumanMessage:
    """The questions in one message; where they are too many, the latest."""
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
