"""A question while it is being answered. Pure: no kernel, no LangChain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbagent.agent.phases import Phases
from nbagent.core.events import (
    NO_USAGE,
    Answer,
    Answered,
    Cell,
    Claim,
    Event,
    ModelFailed,
    ModelReplied,
    Package,
    Reflected,
    Usage,
)


@dataclass(eq=False)
class Turn:
    """One question that is being answered, and what its answer is made of.

    It is the context of the agent graph's run: middleware has it as `runtime.context`. The session adds what it ran.

    Attributes:
        number: The question's, from 1.
        send: Gets the events.
        phases: Told as they are entered.
        cells: The cells that ran for it, in order; also one that was given up.
        files: What they left in /tmp/output, on the host.
        installed: Packages that were asked for beside the cells.
        usage: What models have used for it, attempts that failed and critics included.
        answer: What came of it, once it has ended, however it has.
    """

    number: int
    send: Callable[[Event], object]
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    installed: list[Package] = field(default_factory=list)
    usage: Usage = NO_USAGE
    answer: Answer | None = None

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self.phases = Phases(self.number, self.send)

    def emit(self, event: Event) -> None:
        """Send an event of this question's, and count what it says that a model has used."""
        if isinstance(event, ModelReplied | ModelFailed | Reflected):
            self.usage += event.usage
        self.send(event)
        self.phases.on_event(event)

    def end(self, text: str, *, ended: bool, claims: Sequence[Claim] = ()) -> Answer:
        """Tell the answer, and return it.

        Args:
            text: The answer, or why there is none.
            ended: Whether the model came to an end by itself.
            claims: The numbers in the text.
        """
        cells = list(self.cells)
        borne_out = not cells or cells[-1].success or (bool(claims) and all(claim.supported for claim in claims))
        told: dict[str, Any] = {
            "turn": self.number,
            "text": text,
            "success": ended and bool(text) and borne_out,
            "attempts": 1 + sum(not cell.success for cell in cells),
            "usage": self.usage,
            "seconds": time.monotonic() - self._started,
            "claims": list(claims),
        }
        installed = [*self.installed, *(package for cell in cells for package in cell.installed)]
        self.answer = Answer(**told, cells=cells, files=list(dict.fromkeys(self.files)), installed=installed)
        self.emit(Answered(**told))
        return self.answer


def turn_of(request: Any) -> Turn:
    """The question that a tool is called for, by LangChain's request, which has no type for its context."""
    turn: Turn = request.runtime.context
    return turn
