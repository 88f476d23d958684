"""Approvals: a policy decides whether the model may do something, or a person is asked.

An `Action` has a kind: run a cell, run a program, write a file, install packages, call a tool of an MCP server, spend
more. The mode says which kinds a person is asked about. The question is an event, `ApprovalAsked`. Any reader of the
events may answer it, once, and the answer is the event `ApprovalGiven`. If nobody is there to answer, the option
`unattended` does, by default with no.

Questions about hosts are asked by running code, not by the model; `kernel/host_questions.py` asks them.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

import msgspec

from nbagent.core.errors import InstallRefused, UsageError
from nbagent.core.events import Approval, ApprovalAsked, ApprovalGiven, ApprovalsSet, Decision, Event, Package
from nbagent.core.policy import NAMES_MEND
from nbagent.core.text import cut
from nbagent.safety.actions import Action, Kind, allows, in_words, parse_rule
from nbagent.safety.wait_timer import WaitTimer

Unattended = Literal["reject", "approve"]
"""How questions are answered if nobody is there."""


class Mode(enum.StrEnum):
    """Which kinds of actions a person is asked about."""

    ASK = "ask"
    """Every action."""
    AUTO_EDIT = "auto-edit"
    """Programs, installs, tools of MCP servers and new tools; not cells of Python, nor files in the sandbox.

    Which programs a cell starts is found by reading its code (`programs.py`), which holds for honest code only.
    """
    ALLOW_LIST = "allow-list"
    """Every action that no rule allows."""
    NEVER_ASK = "never-ask"
    """No action; the sandbox contains what the model does."""

    @classmethod
    def parse(cls, name: str) -> Mode:
        """The mode of that name.

        Raises:
            UsageError: There is no such mode.
        """
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(mode.value for mode in cls)
            raise UsageError(f"There is no approval mode {name!r}.", mend=f"Use one of: {known}.") from None


FREE_KINDS: dict[Mode, frozenset[Kind]] = {
    Mode.ASK: frozenset(),
    Mode.AUTO_EDIT: frozenset({"cell", "edit"}),
    Mode.ALLOW_LIST: frozenset(),
    Mode.NEVER_ASK: frozenset({"cell", "shell", "edit", "install", "mcp", "tool"}),
}
"""The kinds of actions that need no question, by mode. A person is always asked before a budget is exceeded."""
MAX_REJECTIONS = 3
"""Refusals of more package names in a session, after which code is refused without a question."""
MAX_WHAT_CHARACTERS = 500
"""Characters of the line that describes an action; its code is shown whole."""


STOPPED = Approval(decision="reject", by="policy:stopped", reason="It was stopped before it was answered.")
APPROVED = Approval(decision="approve", by="policy:unattended")
REJECTED = Approval(decision="reject", by="policy:unattended", reason="Nobody is there who could approve it.")


@dataclass
class _Pending:
    action: Action
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    approval: Approval | None = None

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits for the answer
            self.loop.call_soon_threadsafe(self.answered.set)


class Consent:
    """Asks the questions of one session, and remembers what was allowed.

    Args:
        mode: Which kinds of actions are asked about.
        emit: Called with the events.
        allow: Rules of actions that need no question, `KIND:PATTERN` or `KIND`, with `*` and `?`: `cell`,
            `install:polars`, `shell:ls *`, `mcp:files__*`.
        attended: Whether somebody follows the events and answers.
        unattended: How questions are answered otherwise. Those about a budget or about more package names are always
            rejected: these bounds were set for the time in which nobody is there.

    Attributes:
        attended: As given; may be set.

    Raises:
        UsageError: A rule is malformed, or there is no such policy.
    """

    def __init__(
        self,
        mode: Mode,
        emit: Callable[[Event], object],
        *,
        allow: Iterable[str] = (),
        attended: bool = False,
        unattended: Unattended = "reject",
    ) -> None:
        if unattended not in get_args(Unattended):
            known = " or ".join(get_args(Unattended))
            raise UsageError(f"Where nobody is there to answer, {unattended!r} is no policy.", mend=f"Use {known}.")
        self._mode = mode
        self._has_begun = False
        self._emit = emit
        self._rules = [parse_rule(each) for each in allow]
        self.attended = attended
        self.unattended = unattended
        self._open: dict[str, _Pending] = {}
        self._asked = 0
        self._noes = 0
        self._lock = threading.Lock()
        self._wait_timer = WaitTimer()

    @property
    def mode(self) -> Mode:
        """Which kinds of actions are asked about. Setting it while the session runs emits `ApprovalsSet`."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if self._has_begun and mode is not self._mode:
            self._emit(ApprovalsSet(mode=mode.value))
        self._mode = mode

    def begin(self, past: Iterable[Event] = (), *, keep: bool = False) -> None:
        """Begin a session or resume one. New questions get ids that are not in its log.

        Args:
            past: The events in the session's log.
            keep: Whether the resumed session was given no mode of its own. Then the mode is no weaker than it was, and
                what a person allowed for the rest of the session stays allowed.
        """
        was = Mode.NEVER_ASK
        for event in past:
            if keep and isinstance(event, ApprovalGiven):
                self._rules += event.rules
            if isinstance(event, ApprovalAsked):
                self._asked += 1
            elif isinstance(event, ApprovalsSet):
                was = Mode(event.mode) if event.mode in set(Mode) else Mode.ASK
        if keep and FREE_KINDS[was] <= FREE_KINDS[self._mode]:
            self._mode = was
        if self._mode is not was:
            self._emit(ApprovalsSet(mode=self._mode.value))
        self._has_begun = True

    @property
    def asks(self) -> bool:
        """Whether the mode asks about any kind of action."""
        return bool(FREE_KINDS[Mode.NEVER_ASK] - FREE_KINDS[self.mode])

    @property
    def waited(self) -> float:
        """Seconds so far for which a question was open."""
        return self._wait_timer.seconds()

    @property
    def is_waiting(self) -> bool:
        """Whether a question is open."""
        return self._wait_timer.is_waiting

    def policy(self, action: Action) -> str:
        """The name of the policy that allows an action without a question; empty if a person must be asked."""
        if action.anyway:
            return ""
        if action.kind in FREE_KINDS[self.mode]:
            return f"policy:{self.mode.value}"
        listed = [f"{kind}:*" for kind in FREE_KINDS[self.mode]] + self._rules
        if all(any(allows(rule, each) for rule in listed) for each in action.subjects):
            return "policy:allow-list"
        return ""

    async def ask(self, action: Action) -> Approval:
        """Have a policy or a person approve or reject an action; a person has any amount of time.

        If the caller is cancelled, the question ends as rejected.
        """
        if policy := self.policy(action):
            return Approval(decision="approve", by=policy)
        self._asked += 1
        id = f"a{self._asked}"
        # Before the event: a reader may answer while it handles the event.
        question = _Pending(action)
        with self._lock:
            self._open |= {id: question} if self.attended else {}
        approval = STOPPED
        rules = () if action.anyway else action.rules
        try:
            self._emit(
                ApprovalAsked(
                    id=id,
                    turn=action.turn,
                    kind=action.kind,
                    tool=action.tool,
                    what=cut(action.what, MAX_WHAT_CHARACTERS),
                    code=action.code,
                    packages=list(action.packages),
                    rules=list(rules),
                    allows=in_words(rules),
                    note=action.note,
                )
            )
            if self.attended:
                with self._wait_timer.waiting():
                    await question.answered.wait()
                approval = question.approval or STOPPED
            else:
                approves = self.unattended == "approve" and action.kind not in ("budget", "names")
                approval = APPROVED if approves else REJECTED
        finally:
            with self._lock:
                self._open.pop(id, None)
            # An answer is an event even if the turn was stopped at that very moment.
            given = msgspec.structs.asdict(question.approval or approval)
            self._emit(ApprovalGiven(id=id, turn=action.turn, **given))
        return approval

    async def install(self, packages: Iterable[Package], *, turn: int) -> None:
        """Ask about packages that are about to be installed, in exactly these versions.

        Raises:
            InstallRefused: The packages aren't approved.
        """
        named = tuple(f"{each.name}=={each.version}" for each in packages)
        action = Action(kind="install", tool="install", what=", ".join(named), packages=named, turn=turn)
        approval = await self.ask(action)
        if not approval.granted:
            raise InstallRefused(f"{', '.join(named)} is not approved. {approval.reason}".strip())

    async def exceed(self, names: Iterable[str], reason: str, *, turn: int) -> None:
        """Ask a person whether code may ask the package index for names beyond its allowance.

        After `MAX_REJECTIONS` refusals the person is not asked again: code that makes up names must not ask for ever.

        Raises:
            InstallRefused: It may not, or nobody is there to answer.
        """
        if self._noes >= MAX_REJECTIONS:
            raise InstallRefused(reason, mend=NAMES_MEND)
        named = tuple(names)
        what = ", ".join(named)
        action = Action(kind="names", tool="install", what=what, packages=named, note=reason, turn=turn, anyway=True)
        approval = await self.ask(action)
        if not approval.granted:
            self._noes += 1
            raise InstallRefused(f"{reason} {approval.reason}".strip(), mend=NAMES_MEND)

    def answer(self, id: str, decision: Decision, *, code: str = "", reason: str = "", always: bool = False) -> bool:
        """Answer a question by the id in its event; may be called from any thread.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: There is no such decision, an edit has no code, or the action has no code to edit.
        """
        if decision not in get_args(Decision):
            raise UsageError(f"{decision!r} is no decision.", mend=f"Use one of: {', '.join(get_args(Decision))}.")
        with self._lock:
            question = self._open.get(id)
            if question is None or question.approval is not None:
                return False
            if decision == "edit" and not (code.strip() and question.action.code):
                raise UsageError("There is no code to edit to." if question.action.code else "This can't be edited.")
            rules = question.action.rules if always and decision == "approve" else ()
            self._rules = [*self._rules, *rules]
            question.approval = Approval(decision=decision, by="person", code=code, reason=reason, rules=list(rules))
        question.wake()
        return True

    def close(self) -> None:
        """End all open questions as rejected, since the session ends."""
        with self._lock:
            questions = [each for each in self._open.values() if each.approval is None]
            for each in questions:
                each.approval = STOPPED
        for each in questions:
            each.wake()
