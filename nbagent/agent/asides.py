"""Messages to the model that no person wrote, and by which they are known: the beginning of their id, never sent."""

from __future__ import annotations

from typing import Any, Final, Literal
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage

Kind = Literal["evaluation", "critique", "over", "earlier", "again", "results"]
"""An answer is sent back; code that failed is criticised; no more code runs; questions of long ago are listed; a reply
was none; what calls came to, for a model that knows no calls."""
PREFIX: Final = "nbagent-"
_RESULTS: Final = f"{PREFIX}results-"


def aside(kind: Kind, text: str) -> HumanMessage:
    """A message of nbagent's own."""
    return HumanMessage(text, id=f"{PREFIX}{kind}-{uuid4()}")


def is_aside(message: AnyMessage, kind: Kind | None = None) -> bool:
    """Whether a message is nbagent's own, and of that kind if one is named."""
    return isinstance(message, HumanMessage) and str(message.id).startswith(f"{PREFIX}{kind}-" if kind else PREFIX)


def results(content: str | list[str | dict[str, Any]], *, source: str) -> HumanMessage:
    """What calls came to, in one message.

    Args:
        content: As the model reads it.
        source: Where it is from, such as `cell 3`.
    """
    return HumanMessage(content, id=f"{_RESULTS}{source}")


def source_of_results(message: AnyMessage) -> str:
    """Where the results in a message of `results` are from; empty for any other."""
    return str(message.id).removeprefix(_RESULTS) if is_aside(message, "results") else ""


def is_question(message: AnyMessage) -> bool:
    """Whether a person wrote a message."""
    return isinstance(message, HumanMessage) and not is_aside(message)
