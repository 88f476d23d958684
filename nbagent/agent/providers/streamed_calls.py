"""The calls of a reply while it is streamed: whether their arguments are JSON as they came. Pure.

LangChain completes JSON that was cut, and takes the result for what the model has sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolCallChunk


@dataclass
class _Call:
    """A call so far. Its arguments are joined at the end: joining each piece would copy all pieces before it."""

    id: str | None = None
    arguments: list[str] = field(default_factory=list)


class StreamedCalls:
    """The calls of one reply, piece by piece."""

    def __init__(self) -> None:
        self._calls: dict[Any, _Call] = {}  # by their indices

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, piece: ToolCallChunk) -> None:
        """Add a piece to its call; like LangChain, take one without an index for a call of its own."""
        index = len(self._calls) if piece["index"] is None else piece["index"]
        call = self._calls.setdefault(index, _Call())
        call.id = call.id or piece["id"]
        call.arguments.append(piece["args"] or "")

    def unreadable(self) -> set[str | None]:
        """The ids of the calls whose arguments are not JSON as they came."""
        return {call.id for call in self._calls.values() if not is_json("".join(call.arguments))}


def is_json(arguments: str) -> bool:
    """Whether a call's arguments are JSON; no arguments at all are."""
    try:
        json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return False
    return True
