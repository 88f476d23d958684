"""Who lets something happen: a policy, or a person who is asked.

What a model wants to do is an `Action` of some kind: run a cell, run a program, write a file, install packages, call a
tool of an MCP server, spend more. The mode says which kinds are asked about. A question is an event, `ApprovalAsked`;
whoever follows the events may answer it, once, and the answer is an event too. Where nobody is there to answer, a
policy that was chosen before does, by default with no.

Hosts are asked about by the code itself while it runs, which is another path: `HostAsked`, see `kernel/hosts.py`.
"""

from __future__ import annotations

import asyncio
import enum
import fnmatch
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from nbagent.errors import InstallRefused, UsageError
from nbagent.events import ApprovalAsked, ApprovalGiven, Event, Package

Kind = Literal["cell", "shell", "edit", "install", "mcp", "budget"]
"""Of an action. `shell` is a program, and a cell that calls one by `!` or a cell magic; `edit` writes a file."""
Decision = Literal["approve", "edit", "reject"]
Unattended = Literal["reject", "approve"]
"""What becomes of a question that nobody is there to answer."""


class Mode(enum.StrEnum):
    """Which kinds of actions a person is asked about."""

    ASK = "ask"
    """All of them."""
    AUTO_EDIT = "auto-edit"
    """Programs, installs, and tools of MCP servers; cells of Python run, and files inside are written."""
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
    Mode.NEVER_ASK: frozenset({"cell", "shell", "edit", "install", "mcp"}),
}
"""By mode, what nobody is asked about. More money or time than was granted is always asked for."""
_SHELL = re.compile(r"^[ \t]*(?:[\w, \t]+=[ \t]*)?(!.*|%%?(?:bash|sh|script|sx|system)\b.*)$", re.MULTILINE)
"""Lines that hand something to a shell, as IPython has them."""
_SEVERAL = re.compile(r"[;&|`$<>\n]|^%%|^!!")
"""What makes more of a command than one program with its words: no pattern speaks for that."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something that needs consent.

    Attributes:
        kind: Of what kind it is.
        tool: What does it: the model's tool by its name.
        what: What it is about, in one line: the command, the packages with their versions, `server: tool`.
        code: The code that will run, or the arguments; what an answer may edit.
        packages: For an install, each package with its version.
        note: What else a person should know, such as what a tool says of itself.
        commands: For a cell, what it hands to a shell, line by line.
        turn: The question that it belongs to.
        anyway: Whether it is asked about in any mode and by any rule.
    """

    kind: Kind
    tool: str
    what: str
    code: str = ""
    packages: tuple[str, ...] = ()
    note: str = ""
    commands: tuple[str, ...] = ()
    turn: int = 0
    anyway: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        """What rules of an allow list must allow, all of it."""
        if self.packages:
            return tuple(f"install:{each.partition('==')[0]}" for each in self.packages)
        if self.commands:
            return ("cell:", *(f"shell:{each}" for each in self.commands))
        return (f"{self.kind}:{'' if self.kind in ('cell', 'budget') else self.what}",)

    @property
    def rules(self) -> tuple[str, ...]:
        """What a person allows who allows this for the session: all cells, this program, these packages, this tool."""
        if self.kind in ("cell", "edit"):
            return (f"{self.kind}:*",)
        if self.kind != "shell":
            return tuple(map(_literal, self.subjects))
        allowed = ["cell:*"] if self.commands else []
        for command in self.commands or (self.what,):
            program = _literal(command if _SEVERAL.search(command) else command.split(" ")[0])
            allowed += [f"shell:{program}", f"shell:{program} *"]
        return tuple(allowed)


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
        return self.decision != "reject"


@dataclass
class _Question:
    action: Action
    answer: asyncio.Future[Verdict] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


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
        mode: What is asked about; it may be changed while the session runs.

    Raises:
        UsageError: A rule has not that form.
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
        self.mode = mode
        self._emit = emit
        self._rules = [_rule(each) for each in allow]
        self._attended = attended
        self._unattended = unattended
        self._open: dict[str, _Question] = {}
        self._asked = 0

    def policy(self, action: Action) -> str:
        """The policy that lets an action happen without a question, as the log names it; empty if there is none."""
        if action.anyway:
            return ""
        if action.kind in FREE[self.mode]:
            return f"policy:{self.mode.value}"
        if all(any(_allows(rule, each) for rule in self._rules) for each in action.subjects):
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
        told = ApprovalAsked(
            id=name,
            turn=action.turn,
            kind=action.kind,
            tool=action.tool,
            what=action.what,
            code=action.code,
            packages=list(action.packages),
            note=action.note,
        )
        self._emit(told)
        if not self._attended:
            granted = self._unattended == "approve"
            verdict = Verdict(
                decision="approve" if granted else "reject",
                by="policy:unattended",
                reason="" if granted else "Nobody is there who could approve it.",
            )
            return self._told(name, action, verdict)
        question = self._open[name] = _Question(action)
        verdict = Verdict(decision="reject", by="policy:stopped", reason="It was stopped before it was answered.")
        try:
            verdict = await question.answer
        finally:
            del self._open[name]
            self._told(name, action, verdict)
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

    def answer(self, name: str, decision: Decision, *, code: str = "", reason: str = "", always: bool = False) -> bool:
        """Answer a question by the id in its event.

        Args:
            name: The id.
            decision: `edit` needs the code.
            code: What is to run instead.
            reason: Why not; the model is told.
            always: Whether the same may happen for the rest of the session without a question.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: An edit has no code, or is of something that has none.
        """
        question = self._open.get(name)
        if question is None or question.answer.done():
            return False
        if decision == "edit" and not (code.strip() and question.action.code):
            raise UsageError("There is no code to edit to." if question.action.code else "This can't be edited.")
        if always and decision == "approve":
            self._rules += question.action.rules
        question.answer.set_result(Verdict(decision=decision, by="person", code=code, reason=reason))
        return True

    def _told(self, name: str, action: Action, verdict: Verdict) -> Verdict:
        self._emit(
            ApprovalGiven(
                id=name,
                turn=action.turn,
                decision=verdict.decision,
                by=verdict.by,
                code=verdict.code,
                reason=verdict.reason,
            )
        )
        return verdict


def of_cell(code: str, *, tool: str, turn: int) -> Action:
    """The action of running a cell."""
    commands = tuple(found.strip() for found in _SHELL.findall(code))
    # A program by the name that it is called by anywhere else; what is more than that stays as it is.
    commands = tuple(each if _SEVERAL.search(each) else each.removeprefix("!").strip() for each in commands)
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    what = (commands[0] if commands else first)[:200]
    kind: Kind = "shell" if commands else "cell"
    return Action(kind=kind, tool=tool, what=what, code=code, commands=commands, turn=turn)


def _allows(rule: str, subject: str) -> bool:
    """Whether a rule speaks for a subject; for several programs in one line only one that names them all, or any."""
    if subject.startswith("shell:") and _SEVERAL.search(subject.removeprefix("shell:")):
        return rule in ("shell:*", _literal(subject))
    return fnmatch.fnmatchcase(subject, rule)


def _rule(text: str) -> str:
    """A rule in the form in which subjects are matched."""
    kind, colon, pattern = text.strip().partition(":")
    if kind not in ("cell", "shell", "edit", "install", "mcp"):
        raise UsageError(f"{text!r} is no rule of an allow list.", mend="Write KIND:PATTERN, such as install:polars.")
    return f"{kind}:{pattern if colon else '*'}"


def _literal(subject: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", subject)
