"""Approvals: whether an action of the model may happen is decided by a policy, or by a person who is asked.

An `Action` has a kind: run a cell, run a program, write a file, install packages, call a tool of an MCP server, spend
more. The mode says which kinds a person is asked about. A question is an event, `ApprovalAsked`; any reader of the
events may answer it, once, and the answer is an event too. Where nobody is there to answer, a policy answers that was
chosen before, by default with no.

Hosts are asked about elsewhere, since running code asks for them, not the model: see `kernel/host_questions.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from nbagent.core.errors import InstallRefused, UsageError
from nbagent.core.events import ApprovalAsked, ApprovalGiven, ApprovalsSet, Event, Package
from nbagent.core.policy import NAMES_MEND
from nbagent.core.text import cut
from nbagent.safety.actions import Action, Kind, allows, of_cell, parse_rule

__all__ = ["Action", "Consent", "Kind", "Mode", "Unattended", "Verdict", "of_cell"]

Decision = Literal["approve", "edit", "reject"]
Unattended = Literal["reject", "approve"]
"""How questions are answered where nobody is there."""


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
            UsageError: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(mode.value for mode in cls)
            raise UsageError(f"There is no approval mode {name!r}.", mend=f"Use one of: {known}.") from None


FREE: dict[Mode, frozenset[Kind]] = {
    Mode.ASK: frozenset(),
    Mode.AUTO_EDIT: frozenset({"cell", "edit"}),
    Mode.ALLOW_LIST: frozenset(),
    Mode.NEVER_ASK: frozenset({"cell", "shell", "edit", "install", "mcp", "tool"}),
}
"""The kinds of actions that need no question, by mode. To exceed a budget is always asked."""
MAX_NOES = 3
"""Refusals of more package names in a session, after which code is refused without a question."""
MAX_WHAT = 500
"""Characters of the one line that describes an action; its code is shown whole."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a question.

    Attributes:
        decision: `edit` approves other code than was asked about.
        by: `person`, or `policy:NAME`.
        code: For `edit`, the code that is to run.
        reason: For `reject`, the person's reason.
        rules: What is allowed for the rest of the session too.
    """

    decision: Decision
    by: str
    code: str = ""
    reason: str = ""
    rules: tuple[str, ...] = ()

    @property
    def granted(self) -> bool:
        """Whether the action may happen, edited or not."""
        return self.decision in ("approve", "edit")


STOPPED = Verdict(decision="reject", by="policy:stopped", reason="It was stopped before it was answered.")
APPROVED = Verdict(decision="approve", by="policy:unattended")
REJECTED = Verdict(decision="reject", by="policy:unattended", reason="Nobody is there who could approve it.")


@dataclass
class _Question:
    action: Action
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    verdict: Verdict | None = None

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
        unattended: How questions are answered otherwise.

    Attributes:
        attended: As given; may be set.
        unattended: As given. It never answers questions about a budget or about more package names: these bounds were
            set for the time in which nobody is there.

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
        self._open: dict[str, _Question] = {}
        self._asked = 0
        self._noes = 0
        self._lock = threading.Lock()
        self._waits = 0
        self._waited = 0.0

    @property
    def mode(self) -> Mode:
        """Which kinds of actions are asked about. May be set while the session runs; that is an event."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if self._has_begun and mode is not self._mode:
            self._emit(ApprovalsSet(mode=mode.value))
        self._mode = mode

    def begin(self, past: Iterable[Event] = (), *, keep: bool = False) -> None:
        """Begin a session or resume one. New questions get ids that are not in its log.

        Args:
            past: The log's events so far.
            keep: Whether no mode was chosen for the resumed session; then the mode is no weaker than it was, and what a
                person allowed for the rest of the session stays allowed.
        """
        was = Mode.NEVER_ASK
        for event in past:
            if keep and isinstance(event, ApprovalGiven):
                self._rules += event.rules
            if isinstance(event, ApprovalAsked):
                self._asked += 1
            elif isinstance(event, ApprovalsSet):
                was = Mode(event.mode) if event.mode in set(Mode) else Mode.ASK
        if keep and FREE[was] <= FREE[self._mode]:
            self._mode = was
        if self._mode is not was:
            self._emit(ApprovalsSet(mode=self._mode.value))
        self._has_begun = True

    @property
    def asks(self) -> bool:
        """Whether the mode asks about any kind of action at all."""
        return bool(FREE[Mode.NEVER_ASK] - FREE[self.mode])

    @property
    def waited(self) -> float:
        """Seconds so far in which a question was open."""
        return self._waited + (time.monotonic() if self._waits else 0.0)

    @property
    def is_waiting(self) -> bool:
        """Whether a person has a question before them."""
        return self._waits > 0

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count the time in which questions are open; questions at the same time count once."""
        self._waited -= 0.0 if self._waits else time.monotonic()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            self._waited += 0.0 if self._waits else time.monotonic()

    def policy(self, action: Action) -> str:
        """The name of the policy that allows an action without a question; empty if a person must be asked."""
        if action.anyway:
            return ""
        if action.kind in FREE[self.mode]:
            return f"policy:{self.mode.value}"
        listed = [f"{kind}:*" for kind in FREE[self.mode]] + self._rules
        if all(any(allows(rule, each) for rule in listed) for each in action.subjects):
            return "policy:allow-list"
        return ""

    async def ask(self, action: Action) -> Verdict:
        """Have an action approved or rejected; waits for a person without a limit.

        If the caller is cancelled, the question ends as rejected.
        """
        if policy := self.policy(action):
            return Verdict(decision="approve", by=policy)
        self._asked += 1
        name = f"a{self._asked}"
        # Before the event: a reader may answer while it handles the event.
        question = _Question(action)
        with self._lock:
            self._open |= {name: question} if self.attended else {}
        verdict = STOPPED
        try:
            self._emit(_asked(name, action))
            if self.attended:
                with self._waiting():
                    await question.answered.wait()
                verdict = question.verdict or STOPPED
            else:
                approves = self.unattended == "approve" and action.kind not in ("budget", "names")
                verdict = APPROVED if approves else REJECTED
        finally:
            with self._lock:
                self._open.pop(name, None)
            # An answer is an event even if the turn was stopped at that very moment.
            self._emit(_given(name, action, question.verdict or verdict))
        return verdict

    async def install(self, packages: Iterable[Package], *, turn: int) -> None:
        """Ask about packages that are about to be installed, in exactly these versions.

        Raises:
            InstallRefused: They aren't approved.
        """
        named = tuple(f"{each.name}=={each.version}" for each in packages)
        action = Action(kind="install", tool="install", what=", ".join(named), packages=named, turn=turn)
        verdict = await self.ask(action)
        if not verdict.granted:
            raise InstallRefused(f"{', '.join(named)} is not approved. {verdict.reason}".strip())

    async def exceed(self, names: Iterable[str], reason: str, *, turn: int) -> None:
        """Ask whether the package index may be asked for names beyond the allowance.

        After `MAX_NOES` refusals nobody is asked again: code that makes up names must not be able to ask for ever.

        Raises:
            InstallRefused: It may not, or nobody is there to answer.
        """
        if self._noes >= MAX_NOES:
            raise InstallRefused(reason, mend=NAMES_MEND)
        named = tuple(names)
        what = ", ".join(named)
        action = Action(kind="names", tool="install", what=what, packages=named, note=reason, turn=turn, anyway=True)
        verdict = await self.ask(action)
        if not verdict.granted:
            self._noes += 1
            raise InstallRefused(f"{reason} {verdict.reason}".strip(), mend=NAMES_MEND)

    def answer(self, name: str, decision: Decision, *, code: str = "", reason: str = "", always: bool = False) -> bool:
        """Answer a question by the id in its event; may be called from any thread.

        Args:
            name: The id.
            decision: `approve`, `edit` or `reject`.
            code: For `edit`, the code that is to run.
            reason: For `reject`, why; the model is told.
            always: Whether the same needs no question for the rest of the session.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: There is no such decision, or code is missing or can't be edited here.
        """
        if decision not in get_args(Decision):
            raise UsageError(f"{decision!r} is no decision.", mend=f"Use one of: {', '.join(get_args(Decision))}.")
        with self._lock:
            question = self._open.get(name)
            if question is None or question.verdict is not None:
                return False
            if decision == "edit" and not (code.strip() and question.action.code):
                raise UsageError("There is no code to edit to." if question.action.code else "This can't be edited.")
            rules = question.action.rules if always and decision == "approve" else ()
            self._rules = [*self._rules, *rules]
            question.verdict = Verdict(decision=decision, by="person", code=code, reason=reason, rules=tuple(rules))
        question.wake()
        return True

    def close(self) -> None:
        """End all open questions as rejected, since the session ends."""
        with self._lock:
            questions = [each for each in self._open.values() if each.verdict is None]
            for each in questions:
                each.verdict = STOPPED
        for each in questions:
            each.wake()


def _asked(name: str, action: Action) -> ApprovalAsked:
    return ApprovalAsked(
        id=name,
        turn=action.turn,
        kind=action.kind,
        tool=action.tool,
        what=cut(action.what, MAX_WHAT),
        code=action.code,
        packages=list(action.packages),
        rules=[] if action.anyway else list(action.rules),
        note=action.note,
    )


def _given(name: str, action: Action, verdict: Verdict) -> ApprovalGiven:
    return ApprovalGiven(
        id=name,
        turn=action.turn,
        decision=verdict.decision,
        by=verdict.by,
        code=verdict.code,
        reason=verdict.reason,
        rules=list(verdict.rules),
    )
