"""Messages to the model that no person wrote, and by which they are known: the beginning of their id, never sent."""

from __future__ import annotations

from typing import Final, Literal
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage

Kind = Literal["evaluation", "critique", "over", "earlier", "again"]
"""An answer is sent back; code that failed is criticised; no more code runs; questions of long ago are listed; a reply
was none."""
PREFIX: Final = "nbagent-"


def aside(kind: Kind, text: str) -> HumanMessage:
    """A message of nbagent's own."""
    return HumanMessage(text, id=f"{PREFIX}{kind}-{uuid4()}")


def is_aside(message: AnyMessage, kind: Kind | None = None) -> bool:
    """Whether a message is nbagent's own, and of that kind if one is named."""
    return isinstance(message, HumanMessage) and str(message.id).startswith(f"{PREFIX}{kind}-" if kind else PREFIX)


def is_question(message: AnyMessage) -> bool:
    """Whether a person wrote a message."""
    return isinstance(message, HumanMessage) and not is_aside(message)
