"""What a person is asked, as values: made of a session's events, rendered by any face, answered by one call.

    for record in session.since():
        if question := Question.of(record): ...   # a terminal, a widget or a page shows it
    answer(session, question, "approve")

`still_open` is for a face that comes late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Final, Literal, Protocol

import msgspec

from nbagent.core.errors import UsageError
from nbagent.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    Event,
    HostAsked,
    HostDecided,
    Record,
    SessionEnded,
    SessionResumed,
    SessionStarted,
)
from nbagent.core.text import cut, visible

ASK_SECONDS: Final = 60.0
"""That a person has to answer a question about a host; then it is a denial."""
MAX_RULES: Final = 200
"""Characters of what would be allowed for the session."""
Choice = Literal["approve", "once", "session", "edit", "reject", "deny"]
LABELS: Final[dict[Choice, str]] = {
    "approve": "approve",
    "once": "once",
    "session": "for the session",
    "edit": "edit",
    "reject": "reject",
    "deny": "deny",
}
"""How a face offers each choice; the choice's own word stands in it."""
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
    """Something that a person is asked. All text but the code is on one line each, with nothing hidden in it.

    Attributes:
        id: By which it is answered.
        kind: `host`, or an approval's: `cell`, `shell`, `edit`, `install`, `mcp`, `tool`, `budget`, `names`.
        title: What it is about, as a heading.
        text: The question itself.
        choices: The answers that there are, the usual one first.
        default: The answer that stands for none: for Ctrl-C, the end of input, a window that is closed.
        code: What will run, whole and as it is; with the choice `edit` other code may be given instead.
        suffix: The ending of a file with that code, by which editors know a language.
        packages: For an install, each with its version.
        note: What else a person should know.
        rules: What the choice `session` would allow.
        deadline: When it is answered by itself, in seconds since the epoch; None if it waits for ever.
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
    def of(cls, record: Record) -> Question | None:
        """The question that an event asks; None if it asks none."""
        match record.event:
            case HostAsked(id=name) as asked:
                return cls(
                    id=name,
                    kind="host",
                    title=f"the code wants to reach {_where(asked)}",
                    text=f"Allow {_where(asked)}?",
                    choices=("once", "session", "deny"),
                    default="deny",
                    deadline=record.at + ASK_SECONDS,
                )
            case ApprovalAsked() as asked:
                return _approval(asked)
        return None

    def is_over(self, event: Event) -> bool:
        """Whether an event is the end of this question: an answer, whoever gave it, or the end of who asked it.

        A process that is killed says nothing of what it asked: the next one's start is the end of that.
        """
        match event:
            case HostDecided(id=name):
                return self.kind == "host" and self.id == name
            case ApprovalGiven(id=name):
                return self.kind != "host" and self.id == name
            case SessionStarted() | SessionResumed() | SessionEnded():
                return True
        return False


def still_open(records: Iterable[Record], *, now: float) -> list[Question]:
    """The questions that wait for an answer, in the order in which they came.

    Args:
        records: The session's log so far.
        now: Seconds since the epoch.
    """
    found: list[Question] = []
    for record in records:
        found = [each for each in found if not each.is_over(record.event)]
        if question := Question.of(record):
            found.append(question)
    return [each for each in found if each.deadline is None or each.deadline > now]


class Answers(Protocol):
    """A session that takes answers: one's own, or one that is attached to."""

    def approve(
        self, name: str, decision: Any = ..., *, code: str = ..., reason: str = ..., always: bool = ...
    ) -> bool | Awaitable[bool]:
        """Answer an `ApprovalAsked`."""

    def approve_host(self, name: str, *, allow: bool, remember: bool = ...) -> bool | Awaitable[bool]:
        """Answer a `HostAsked`."""


def answer(
    session: Answers, question: Question, choice: Choice, *, code: str = "", reason: str = ""
) -> bool | Awaitable[bool]:
    """Answer a question.

    Args:
        session: Whose question it is.
        question: Which one.
        choice: One of its choices.
        code: For `edit`, what is to run instead.
        reason: For `reject`, why not; the model is told.

    Returns:
        Whether the question was still open; from a session that is attached to, to be awaited.

    Raises:
        UsageError: It has no such choice, or an edit has no code.
    """
    if choice not in question.choices:
        raise UsageError(f"{choice!r} is no answer to this.", mend=f"Use one of: {', '.join(question.choices)}.")
    if question.kind == "host":
        return session.approve_host(question.id, allow=choice != "deny", remember=choice != "once")
    decision = choice if choice in ("edit", "reject") else "approve"
    return session.approve(question.id, decision, code=code, reason=reason, always=choice == "session")


def _where(event: HostAsked) -> str:
    return visible(f"{event.host}:{event.port}")


def _approval(asked: ApprovalAsked) -> Question:
    about = "" if asked.kind == "cell" else f": {visible(asked.what)}"
    offered: dict[Choice, object] = {"approve": True, "session": asked.rules, "edit": asked.code, "reject": True}
    return Question(
        id=asked.id,
        kind=asked.kind,
        title=f"the model wants to {_WANTS.get(asked.kind, asked.kind)} ({visible(asked.tool)}){about}",
        text="May it?",
        choices=tuple(choice for choice, there in offered.items() if there),
        default="reject",
        code=asked.code,
        suffix=".py" if asked.tool == "python" else ".txt",
        packages=[visible(each) for each in asked.packages],
        note=visible(asked.note),
        rules=cut(visible(", ".join(asked.rules)), MAX_RULES),
    )
