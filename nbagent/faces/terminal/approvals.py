"""What a person at the terminal answers: whether code may reach a host, and whether the model may do something."""

from __future__ import annotations

import asyncio

from nbagent.egress.gate import ASK_SECONDS
from nbagent.errors import UsageError
from nbagent.events import ApprovalAsked, ApprovalGiven, HostAsked, HostDecided, Record
from nbagent.faces.terminal import editor
from nbagent.faces.terminal.excerpt import excerpt
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.questions import Person, Questions
from nbagent.faces.terminal.view import View
from nbagent.session.session import Session
from nbagent.text import safe, visible

HOST_ANSWERS = {
    "o": (True, False), "once": (True, False), "s": (True, True), "session": (True, True),
    "d": (False, True), "deny": (False, True), "n": (False, True), "no": (False, True),
}  # fmt: skip
"""What can be typed → whether that allows, and whether it holds for the session."""
ANSWERS = {
    "a": "approve", "approve": "approve", "y": "approve", "yes": "approve", "s": "session", "session": "session",
    "e": "edit", "edit": "edit", "r": "reject", "reject": "reject", "n": "reject", "no": "reject",
    "w": "whole", "whole": "whole",
}  # fmt: skip
"""What can be typed → what it means."""
CHOICES = {
    "approve": "[a]pprove", "session": "for the [s]ession", "edit": "[e]dit", "reject": "[r]eject",
    "whole": "show the [w]hole",
}  # fmt: skip
WANTS = {
    "cell": "run a cell",
    "shell": "start a program",
    "edit": "write a file",
    "install": "install packages",
    "mcp": "call a tool",
    "tool": "make a tool",
    "budget": "go on beyond the budget",
    "names": "ask the package index for more names than it may by itself",
}
MAX_RULES = 200
"""Characters of what would be allowed for the session."""


class Asker:
    """Asks the person whatever the session asks, one question at a time.

    Args:
        session: Gets the answers.
        view: Where the questions are shown, between the outputs.
        keyboard: Where the answers are typed. Without one nobody is asked about hosts, and that becomes a denial by
            itself; a question of the model's waits until this program is in the foreground again.
    """

    def __init__(self, session: Session, view: View, keyboard: Keyboard) -> None:
        self._session = session
        self._keyboard = keyboard
        self._person = Person(view, keyboard)
        self._questions = Questions(self._person)
        self._open: list[HostQuestion | ApprovalQuestion] = []

    @property
    def is_away(self) -> bool:
        """Whether the person is in their editor, where Ctrl-C is none of nbagent's business."""
        return self._person.is_away

    def hear(self, record: Record) -> None:
        """Take an event of the session's: a question to be asked, or the end of one."""
        self._open = [each for each in self._open if not each.over.done()]
        match record.event:
            case HostAsked() as asked if self._keyboard.is_there:
                self._add(HostQuestion(asked, self._session))
            case ApprovalAsked() as asked if self._session.consent.attended:
                self._add(ApprovalQuestion(asked, self._session))
            case HostDecided() | ApprovalGiven() as answer:
                for each in self._open:
                    if each.is_answered_by(answer):
                        self._questions.end(each)

    def _add(self, question: HostQuestion | ApprovalQuestion) -> None:
        self._open.append(question)
        self._questions.add(question)

    def refuse(self) -> bool:
        """Answer what is open with no, as Ctrl-C does; returns whether anything was."""
        return self._questions.refuse()

    def close(self) -> None:
        """Ask no more; what is open stays unanswered."""
        self._questions.close()


class HostQuestion:
    """Whether code may reach a host."""

    def __init__(self, asked: HostAsked, session: Session) -> None:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        self._asked = asked
        self._session = session
        self._until = loop.time() + ASK_SECONDS

    def is_answered_by(self, event: HostDecided | ApprovalGiven) -> bool:
        """Whether an event is the end of this question."""
        where = (self._asked.host, self._asked.port)
        return isinstance(event, HostDecided) and (event.host, event.port) == where

    def refuse(self) -> None:
        """Deny it."""
        self._session.approve_host(self._asked.id, allow=False)

    async def ask(self, person: Person) -> None:
        """Ask until it is answered, or a minute is over."""
        loop = asyncio.get_running_loop()
        where = safe(f"{self._asked.host}:{self._asked.port}")
        hint = ""
        while (left := self._until - loop.time()) > 0:
            text = f"{hint}Allow {where}? [o]nce, for the [s]ession, [d]eny ({left:.0f} s): "
            word = await person.line(text, over=self.over, seconds=left)
            # The end of input is no consent.
            said = (False, True) if word is None else HOST_ANSWERS.get(word.strip().lower())
            if said is not None:
                self._session.approve_host(self._asked.id, allow=said[0], remember=said[1])
                return
            hint = "Type o, s or d. "


class ApprovalQuestion:
    """Whether the model may do something."""

    def __init__(self, asked: ApprovalAsked, session: Session) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked = asked
        self._session = session
        self._is_whole = True

    def is_answered_by(self, event: HostDecided | ApprovalGiven) -> bool:
        """Whether an event is the end of this question."""
        return isinstance(event, ApprovalGiven) and event.id == self._asked.id

    def refuse(self) -> None:
        """Reject it."""
        self._session.approve(self._asked.id, "reject")

    async def ask(self, person: Person) -> None:
        """Show what it is about, and ask until it is answered."""
        await person.at_the_terminal()
        self._show(person.view)
        hint = ""
        while True:
            choices = self._choices()
            offered = ", ".join(CHOICES[each] for each in choices)
            word = await person.line(f"{hint}May it? {offered}: ", over=self.over)
            # The end of input is no consent.
            said, _, reason = ("reject ." if word is None else word.strip()).partition(" ")
            chosen = ANSWERS.get(said.lower(), "")
            if chosen not in choices or (reason and chosen != "reject"):
                hint = f"Type {', '.join(each[0] for each in choices[:-1])} or {choices[-1][0]}. "
                continue
            if await self._do(chosen, person, reason="" if word is None else reason.strip(), told=word is None):
                return
            hint = ""

    def _choices(self) -> list[str]:
        asked = self._asked
        found = {"session": asked.rules, "edit": asked.code, "whole": not self._is_whole}
        return [each for each in CHOICES if found.get(each, True)]

    async def _do(self, chosen: str, person: Person, *, reason: str, told: bool) -> bool:
        """Do what was chosen; returns whether that was the answer."""
        name = self._asked.id
        match chosen:
            case "whole":
                self._show(person.view, whole=True)
                return False
            case "edit":
                code = await self._edited(person)
                return bool(code) and self._session.approve(name, "edit", code=code)
            case "reject":
                if not reason and not told:
                    reason = (await person.line("Why not? (Enter for no reason) ", over=self.over) or "").strip()
                self._session.approve(name, "reject", reason=reason)
            case _:
                self._session.approve(name, always=chosen == "session")
        return True

    async def _edited(self, person: Person) -> str:
        """Other code, or nothing if it is as it was."""
        before = self._asked.code
        try:
            if words := editor.command():
                suffix = ".py" if self._asked.tool == "python" else ".txt"
                with person.away():
                    after = await editor.edit(before, editor=words, suffix=suffix, over=self.over)
            else:
                after = await self._typed(person)
        except UsageError as error:
            _say(person.view, str(error))
            return ""
        if not after.strip() or after == before:
            _say(person.view, "Nothing was changed.")
            return ""
        return after

    async def _typed(self, person: Person) -> str:
        """Code typed line by line, where there is no editor."""
        _say(person.view, "Type the code that is to run instead, and Ctrl-D on a line of its own. (EDITOR is not set.)")
        lines: list[str] = []
        while (line := await person.line("… ", over=self.over, fresh=not lines)) is not None:
            lines.append(line)
        return "\n".join(lines)

    def _show(self, view: View, *, whole: bool = False) -> None:
        """What it is about: the tool, the code, each package with its version, and what the session would allow."""
        asked = self._asked
        with view.above() as console:
            about = "" if asked.kind == "cell" else f": {visible(asked.what)}"
            wants = WANTS.get(asked.kind, asked.kind)
            title = f"── the model wants to {wants} ({visible(asked.tool)}){about}"
            console.print(title, style="bold yellow", markup=False)
            text = "\n".join(each.replace("==", " ") for each in asked.packages) or asked.code
            if text:
                found = excerpt(text, width=console.width, whole=whole)
                self._is_whole = found.is_whole
                for line in found.lines:
                    console.print(line, markup=False)
            if asked.note:
                console.print(visible(asked.note), style="dim", markup=False)
            if asked.rules:
                rules = visible(", ".join(asked.rules))
                cut = f"{rules[:MAX_RULES]}…" if len(rules) > MAX_RULES else rules
                console.print(f"for the session would allow: {cut}", style="dim", markup=False)


def _say(view: View, text: str) -> None:
    with view.above() as console:
        console.print(visible(text), style="yellow", markup=False)
