"""A question while it is being answered, and who approved of what runs for it. Pure: no kernel, no LangChain."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbagent.agent.main_results import numbers_to_check
from nbagent.agent.phases import Phases
from nbagent.core.events import (
    NO_USAGE,
    Answer,
    Answered,
    Cell,
    Check,
    Claim,
    Event,
    ModelFailed,
    ModelReplied,
    Package,
    Reflected,
    Usage,
)


def _unheard(text: str) -> None:
    """Words of which nobody wants to know before the reply is whole."""


@dataclass(frozen=True)
class AnswerDraft:
    """An answer while it is checked.

    Attributes:
        text: The answer.
        question: What it answers.
        numbers: Those of it that are computed again.
        cells: How many cells had run before.
        usage: What models had used before.
        since: When the check began, in seconds of the monotonic clock.
        labels: What in the data has numbers that are no results, such as names of files.
    """

    text: str
    question: str
    numbers: Sequence[str]
    cells: int
    usage: Usage
    since: float
    labels: Sequence[str]


@dataclass(eq=False)
class Turn:
    """One question with all that follows until its answer.

    It is the context of the agent graph: middleware has it as `runtime.context`. The session adds the cells it ran.

    Attributes:
        number: The question's number, from 1.
        send: Called with the events.
        say: Called with the words of a reply as the model writes them.
        phases: The phases of the question; each that begins is an event.
        cells: The cells that ran for it, in order, including one that was given up.
        files: Where the cells' result files are on the host.
        installed: Packages that the model had installed without a cell.
        usage: What models have used for it, including failed attempts and critics.
        answer: The answer, or why there is none, once the turn has ended.
        draft: The answer that is checked, or was.
        reused: The variables and functions of earlier cells that its check has used.
    """

    number: int
    send: Callable[[Event], object]
    say: Callable[[str], object] = _unheard
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    installed: list[Package] = field(default_factory=list)
    usage: Usage = NO_USAGE
    answer: Answer | None = None
    draft: AnswerDraft | None = None
    reused: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._written: list[str] = []
        self._started = time.monotonic()
        self.phases = Phases(self.number, self.send)

    def write(self, words: str) -> None:
        """Take the next words of the reply that the model writes."""
        self._written.append(words)
        self.say(words)

    @property
    def written(self) -> str:
        """The words so far of a reply that isn't whole."""
        return "".join(self._written)

    def emit(self, event: Event) -> None:
        """Send an event of this turn, and add the model's usage in it to the turn's."""
        if isinstance(event, ModelReplied | ModelFailed | Reflected):
            self.usage += event.usage
        if isinstance(event, ModelReplied | ModelFailed):
            self._written.clear()
        self.send(event)
        self.phases.on_event(event)

    def begin_check(
        self, text: str, question: str = "", numbers: Sequence[str] = (), labels: Sequence[str] = ()
    ) -> None:
        """Note the answer that is checked from now on."""
        self.draft = AnswerDraft(text, question, numbers, len(self.cells), self.usage, time.monotonic(), labels)

    @property
    def check_cells(self) -> list[Cell]:
        """The cells that ran for the check of its answer."""
        return self.cells[self.draft.cells :] if self.draft else []

    def _check(self, text: str, claims: Sequence[Claim]) -> Check | None:
        if (draft := self.draft) is None:
            return None
        asked = numbers_to_check(claims, text, draft.question, draft.labels)
        if draft.numbers and text.split() == draft.text.split():
            asked = [claim for claim in asked if claim.text in draft.numbers]
        ran = [cell.cell for cell in self.check_cells if cell.status != "interrupted"]
        return Check(
            cells=ran,
            again=[claim.text for claim in asked if claim.again],
            alone=[claim.text for claim in asked if not claim.again and claim.cell not in ran],
            new=[claim.text for claim in asked if not claim.again and claim.cell in ran],
            reused=list(self.reused),
            changed=text.split() != draft.text.split(),
            usage=self.usage - draft.usage,
            seconds=time.monotonic() - draft.since,
        )

    def end(self, text: str, *, ended: bool, claims: Sequence[Claim] = ()) -> Answer:
        """End the turn with the event `Answered`; returns the answer.

        Args:
            text: The answer, or why there is none.
            ended: Whether the model came to an end by itself.
            claims: The numbers in the text.
        """
        cells = list(self.cells)
        borne_out = not cells or cells[-1].success or (bool(claims) and all(claim.supported for claim in claims))
        fields: dict[str, Any] = {
            "turn": self.number,
            "text": text,
            "success": ended and bool(text) and borne_out,
            "attempts": 1 + sum(not cell.success for cell in cells),
            "usage": self.usage,
            "seconds": time.monotonic() - self._started,
            "claims": list(claims),
            "check": self._check(text, claims) if ended else None,
        }
        installed = [*self.installed, *(package for cell in cells for package in cell.installed)]
        self.answer = Answer(**fields, cells=cells, files=list(dict.fromkeys(self.files)), installed=installed)
        self.emit(Answered(**fields))
        return self.answer


def turn_of(request: Any) -> Turn:
    """The turn for which a tool is called, by LangChain's request, which has no type for its context."""
    turn: Turn = request.runtime.context
    return turn


NOBODY = "policy:never-ask"
_approver: ContextVar[str] = ContextVar("nbagent_approver", default=NOBODY)


def approver() -> str:
    """Who approved of the tool that runs now, for the log."""
    return _approver.get()


@contextlib.contextmanager
def approved_by(who: str) -> Iterator[None]:
    """Note who approved of what runs in this context."""
    token = _approver.set(who)
    try:
        yield
    finally:
        _approver.reset(token)
