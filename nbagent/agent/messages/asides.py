"""Messages that nbagent writes to the model itself. They are known by their ids, which are never sent. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage

AsideKind = Literal[
    "evaluation",  # an answer is sent back
    "check",  # an answer is to be checked
    "critique",  # failed code is criticised
    "warning",  # code will soon run no more
    "over",  # no more code runs in this turn
    "earlier",  # old questions are listed
    "again",  # a reply could not be used
    "results",  # results of calls, for a model that knows no calls
]
PREFIX: Final = "nbagent-"
_RESULTS: Final = f"{PREFIX}results-"


def aside(kind: AsideKind, text: str) -> HumanMessage:
    """A message of nbagent to the model."""
    return HumanMessage(text, id=f"{PREFIX}{kind}-{uuid4()}")


def is_aside(message: AnyMessage, kind: AsideKind | None = None) -> bool:
    """Whether nbagent wrote a message, of a certain kind if that is named."""
    return isinstance(message, HumanMessage) and str(message.id).startswith(f"{PREFIX}{kind}-" if kind else PREFIX)


def results(content: str | list[str | dict[str, Any]], *, source: str) -> HumanMessage:
    """The results of calls in one message, for a model that knows no calls."""
    return HumanMessage(content, id=f"{_RESULTS}{source}")


def source_of_results(message: AnyMessage) -> str:
    """The source of a message that `results` made; empty for any other message."""
    return str(message.id).removeprefix(_RESULTS) if is_aside(message, "results") else ""


def is_question(message: AnyMessage) -> bool:
    """Whether a person wrote a message."""
    return isinstance(message, HumanMessage) and not is_aside(message)
