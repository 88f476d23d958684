"""Questions to a person, as values: made from a session's events, shown by any face, answered by one call.

A face reads the events:

    for record in session.since():
        if question := Question.of(record): ...   # a terminal, a widget or a page shows it
    answer(session, question, "approve")
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Literal, Protocol

import msgspec

from nbagent.core import events
from nbagent.core.errors import UsageError
from nbagent.core.text import visible
from nbagent.safety.actions import in_words

ASK_SECONDS: Final = 60.0
"""Seconds in which a person can answer a question about a host; after that, the host is denied."""
MAX_RULES: Final = 400
"""Characters of the rules that the choice `session` would add; that choice isn't offered for more than can be read."""
Choice = Literal["approve", "once", "session", "edit", "reject", "deny"]
LABELS: Final[dict[Choice, str]] = {
    "approve": "approve",
    "once": "once",
    "session": "for the session",
    "edit": "edit",
    "reject": "reject",
    "deny": "deny",
}
"""The words with which a face offers each choice."""
_WANTS: Final = {
    "cell": "run a cell",
    "shell": "start a program",
    "edit": "write a file",
    "install": "install packages",
    "mcp": "call a tool",
    "tool": "make a tool",
    "budget": "go on beyond the budget",
    "names": "ask the package index for more names than it may by itself",
}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person. Each text but the code is on one line, with nothing hidden in it.

    Attributes:
        id: The id by which it is answered.
        kind: `host`; `size`, of a variable that goes over; or an approval's: `cell`, `shell`, `edit`, `install`, `mcp`,
            `tool`, `budget`, `names`.
        title: The heading: who wants what.
        text: The question itself.
        choices: The possible answers, the usual one first.
        default: The answer where a person gives none: Ctrl-C, the end of input, a closed window.
        code: The whole code that will run, unchanged; the choice `edit` gives other code instead.
        suffix: The ending of a file with that code, by which editors know the language.
        packages: For an install, each package with its version.
        note: What else a person should know.
        rules: The rules that the choice `session` would add.
        deadline: When `default` becomes the answer, in seconds since the epoch; None if the question waits for ever.
    """

    id: str
    kind: str
    title: str
    text: str
    choices: tuple[Choice, ...]
    default: Choice
    code: str = ""
    suffix: str = ".py"
    packages: list[str] = []
    note: str = ""
    rules: str = ""
    deadline: float | None = None

    @classmethod
    def of(cls, record: events.Record) -> Question | None:
        """The question that an event asks; None for all other events."""
        match record.event:
            case events.HostAsked(id=id) as asked:
                return cls(
                    id=id,
                    kind="host",
                    title=f"the code wants to reach {_place(asked)}",
                    text=f"Allow {_place(asked)}?",
                    choices=("once", "session", "deny"),
                    default="deny",
                    deadline=record.at + ASK_SECONDS,
                )
            case events.ApprovalAsked() as asked:
                return _approval(asked)
        return None

    @property
    def wants_reason(self) -> bool:
        """Whether a person who rejects it may say why, which the model is told; some are the person's own affair."""
        return self.kind not in ("budget", "host", "size")

    def is_over(self, event: events.Event) -> bool:
        """Whether an event ends this question: its answer, the end of the session, or the start of a new owner.

        An owner that was killed emits no end of its questions; so the start of the next owner ends them.
        """
        match event:
            case events.HostDecided(id=id):
                return self.kind == "host" and self.id == id
            case events.ApprovalGiven(id=id):
                return self.kind != "host" and self.id == id
            case events.SessionStarted() | events.SessionResumed() | events.SessionEnded():
                return True
        return False


class AnswerTaker(Protocol):
    """A session that takes answers: a `Session`, or an `Attached`, whose methods are asynchronous."""

    def approve(
        self, id: str, decision: Any = ..., *, code: str = ..., reason: str = ..., always: bool = ...
    ) -> bool | Awaitable[bool]:
        """Answer an `ApprovalAsked`."""

    def approve_host(self, id: str, *, allow: bool, remember: bool = ...) -> bool | Awaitable[bool]:
        """Answer a `HostAsked`."""


def answer(
    session: AnswerTaker, question: Question, choice: Choice, *, code: str = "", reason: str = ""
) -> bool | Awaitable[bool]:
    """Answer a question.

    Returns:
        Whether the question was still open; an `Attached` returns an awaitable of that.

    Raises:
        UsageError: The question has no such choice, or an edit has no code.
    """
    if choice not in question.choices:
        raise UsageError(f"{choice!r} is no answer to this.", mend=f"Use one of: {', '.join(question.choices)}.")
    if question.kind == "host":
        return session.approve_host(question.id, allow=choice != "deny", remember=choice != "once")
    decision = choice if choice in ("edit", "reject") else "approve"
    return session.approve(question.id, decision, code=code, reason=reason, always=choice == "session")


def _place(event: events.HostAsked) -> str:
    return visible(f"{event.host}:{event.port}")


def _approval(asked: events.ApprovalAsked) -> Question:
    about = "" if asked.kind == "cell" else f": {visible(asked.what)}"
    rules = visible(in_words(asked.rules))
    for_session = 0 < len(rules) <= MAX_RULES
    offered: dict[Choice, object] = {"approve": True, "session": for_session, "edit": asked.code, "reject": True}
    return Question(
        id=asked.id,
        kind=asked.kind,
        title=f"the model wants to {_WANTS.get(asked.kind, asked.kind)} ({visible(asked.tool)}){about}",
        text="May it?",
        choices=tuple(choice for choice, there in offered.items() if there),
        default="reject",
        code=asked.code,
        suffix={"python": ".py", "sandbox_exec": ".sh"}.get(asked.tool, ".txt"),
        packages=[visible(each) for each in asked.packages],
        note=visible(asked.note),
        rules=rules if for_session else "",
    )
