"""Who lets something happen: a policy, or a person who is asked.

What a model wants to do is an `Action` of some kind: run a cell, run a program, write a file, install packages, call a
tool of an MCP server, spend more. The mode says which kinds are asked about. A question is an event, `ApprovalAsked`;
whoever follows the events may answer it, once, and the answer is an event too. Where nobody is there to answer, a
policy that was chosen before does, by default with no.

Hosts are asked about by the code itself while it runs, which is another path: `HostAsked`, see `kernel/hosts.py`.
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

from nbagent.errors import InstallRefused, UsageError
from nbagent.events import ApprovalAsked, ApprovalGiven, ApprovalsSet, Event, Package
from nbagent.policy import NAMES_MEND
from nbagent.safety.actions import Action, Kind, allows, of_cell, parse_rule

__all__ = ["Action", "Consent", "Kind", "Mode", "Unattended", "Verdict", "of_cell"]

Decision = Literal["approve", "edit", "reject"]
Unattended = Literal["reject", "approve"]
"""What becomes of a question that nobody is there to answer."""


class Mode(enum.StrEnum):
    """Which kinds of actions a person is asked about."""

    ASK = "ask"
    """All of them."""
    AUTO_EDIT = "auto-edit"
    """Programs, installs, tools of MCP servers and new ones; cells of Python run, and files inside are written.

    What a cell starts is found by reading it (`programs.py`), which an honest model makes easy.
    """
    ALLOW_LIST = "allow-list"
    """What isn't listed."""
    NEVER_ASK = "never-ask"
    """None: the sandbox is what makes that right."""

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
"""By mode, what nobody is asked about. More money or time than was granted is always asked for."""
MAX_NOES = 3
"""To more names of packages, after which a session's code is refused without a question."""
MAX_WHAT = 500
"""Characters of the one line that says what is asked about; the code is whole."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of a question.

    Attributes:
        decision: `edit` is a yes to other code.
        by: `person`, or `policy:NAME`.
        code: What is to run instead.
        reason: Why not, in the person's words.
    """

    decision: Decision
    by: str
    code: str = ""
    reason: str = ""

    @property
    def granted(self) -> bool:
        """Whether it may happen, in one form or another."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self.answered.set)


class Consent:
    """The questions of one session.

    Args:
        mode: What is asked about.
        emit: Gets the events.
        allow: Rules of what nobody is asked about, `KIND:PATTERN` or `KIND`, with `*` and `?`: `cell`,
            `install:polars`, `shell:ls *`, `mcp:files__*`.
        attended: Whether somebody follows the events and answers.
        unattended: What holds where nobody does.

    Attributes:
        attended: As given; it may be changed too.
        unattended: As given. It speaks for what the model wants to do, never for a budget or for more names of packages
            than code may ask for: who sets these for a time in which nobody is there has answered already.

    Raises:
        UsageError: A rule has not that form, or there is no such policy.
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
        """What is asked about; it may be changed while the session runs, which is told."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if self._has_begun and mode is not self._mode:
            self._emit(ApprovalsSet(mode=mode.value))
        self._mode = mode

    def begin(self, past: Iterable[Event] = (), *, keep: bool = False) -> None:
        """Begin a session, or go on with one: its questions get other ids than those of its log.

        Args:
            past: The log's events so far.
            keep: Whether nobody has chosen a mode anew: then it is never weaker than it was.
        """
        was = Mode.NEVER_ASK
        for event in past:
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
        """Whether any call of a tool is asked about."""
        return bool(FREE[Mode.NEVER_ASK] - FREE[self.mode])

    @property
    def waited(self) -> float:
        """Seconds so far in which a person had a question before them."""
        return self._waited + (time.monotonic() if self._waits else 0.0)

    @property
    def is_waiting(self) -> bool:
        """Whether a person has a question before them."""
        return self._waits > 0

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """While a person is waited for; several questions at a time count once."""
        self._waited -= 0.0 if self._waits else time.monotonic()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            self._waited += 0.0 if self._waits else time.monotonic()

    def policy(self, action: Action) -> str:
        """The policy that lets an action happen without a question, as the log names it; empty if there is none."""
        if action.anyway:
            return ""
        if action.kind in FREE[self.mode]:
            return f"policy:{self.mode.value}"
        listed = [f"{kind}:*" for kind in FREE[self.mode]] + self._rules
        if all(any(allows(rule, each) for rule in listed) for each in action.subjects):
            return "policy:allow-list"
        return ""

    async def ask(self, action: Action) -> Verdict:
        """Have an action approved or not; waits for a person as long as it takes.

        Whoever waits may be cancelled; the question is then over, and told as rejected.
        """
        if policy := self.policy(action):
            return Verdict(decision="approve", by=policy)
        self._asked += 1
        name = f"a{self._asked}"
        # It can be answered by who is told of it, while it is told.
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
            # A person's answer is told even if the turn was stopped at that very moment.
            self._emit(_given(name, action, question.verdict or verdict))
        return verdict

    async def install(self, packages: Iterable[Package], *, turn: int) -> None:
        """Ask about packages that are about to be installed, in exactly these versions.

        Raises:
            InstallRefused: It isn't approved.
        """
        named = tuple(f"{each.name}=={each.version}" for each in packages)
        action = Action(kind="install", tool="install", what=", ".join(named), packages=named, turn=turn)
        verdict = await self.ask(action)
        if not verdict.granted:
            raise InstallRefused(f"{', '.join(named)} is not approved. {verdict.reason}".strip())

    async def exceed(self, names: Iterable[str], reason: str, *, turn: int) -> None:
        """Ask whether the package index may be asked for names beyond what code may ask for by itself.

        After a few noes nobody is asked again: code that makes up names must not wear a person out.

        Raises:
            InstallRefused: It may not, or nobody is there to say.
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
            decision: `edit` needs the code.
            code: What is to run instead.
            reason: Why not; the model is told.
            always: Whether the same may happen for the rest of the session without a question.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: There is no such decision, or an edit has no code, or is of something that has none.
        """
        if decision not in get_args(Decision):
            raise UsageError(f"{decision!r} is no decision.", mend=f"Use one of: {', '.join(get_args(Decision))}.")
        with self._lock:
            question = self._open.get(name)
            if question is None or question.verdict is not None:
                return False
            if decision == "edit" and not (code.strip() and question.action.code):
                raise UsageError("There is no code to edit to." if question.action.code else "This can't be edited.")
            if always and decision == "approve":
                self._rules = [*self._rules, *question.action.rules]
            question.verdict = Verdict(decision=decision, by="person", code=code, reason=reason)
        question.wake()
        return True

    def close(self) -> None:
        """End the questions that are open, as stopped: what they are about has ended."""
        with self._lock:
            questions = [each for each in self._open.values() if each.verdict is None]
            for each in questions:
                each.verdict = STOPPED
        for each in questions:
            each.wake()


def _asked(name: str, action: Action) -> ApprovalAsked:
    cut = len(action.what) > MAX_WHAT
    return ApprovalAsked(
        id=name,
        turn=action.turn,
        kind=action.kind,
        tool=action.tool,
        what=action.what[: MAX_WHAT - 1] + "…" if cut else action.what,
        code=action.code,
        packages=list(action.packages),
        rules=[] if action.anyway else list(action.rules),
        note=action.note,
    )


def _given(name: str, action: Action, verdict: Verdict) -> ApprovalGiven:
    return ApprovalGiven(
        id=name, turn=action.turn, decision=verdict.decision, by=verdict.by, code=verdict.code, reason=verdict.reason
    )
