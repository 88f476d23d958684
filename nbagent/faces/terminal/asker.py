"""Asks the person at the terminal a session's questions, one after the other, below what is shown meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from dataclasses import dataclass, field

from nbagent.core.errors import UsageError
from nbagent.core.events import Record
from nbagent.core.text import visible
from nbagent.faces.terminal import editor
from nbagent.faces.terminal.excerpt import excerpt
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.person import Over, Person
from nbagent.faces.terminal.view import View
from nbagent.safety.questions import LABELS, AnswerTaker, Choice, Question, answer

SHOW_ALL = "whole"
"""The choice to be shown all of what is asked about; it isn't an answer."""
_YES, _NO = ("approve",), ("reject", "deny")
SYNONYMS = {"y": _YES, "yes": _YES, "n": _NO, "no": _NO}
"""What may be typed for a choice, beside its word and its first letter."""


@dataclass(eq=False)
class _Open:
    """A question that waits for an answer.

    Attributes:
        over: Is done when nobody waits for its answer any more.
        is_whole: Whether all of what it is about was shown.
    """

    question: Question
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    is_whole: bool = True


class Asker:
    """Asks the person whatever the session asks.

    Args:
        view: Where the questions are shown, between the outputs.
        keyboard: Where the answers are typed. Without one nobody is asked about hosts, and that becomes a denial by
            itself; a question of the model's waits until this program is in the foreground again.
    """

    def __init__(self, session: AnswerTaker, view: View, keyboard: Keyboard) -> None:
        self._session = session
        self._person = Person(view, keyboard)
        self._open: list[_Open] = []
        self._tasks: set[asyncio.Future[bool]] = set()
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_away(self) -> bool:
        """Whether the person is in their editor, to which Ctrl-C belongs."""
        return self._person.is_away

    def hear(self, record: Record) -> None:
        """Take an event of the session: it may ask a question, or end one."""
        for each in list(self._open):
            if each.question.is_over(record.event):
                self._end(each)
        question = Question.of(record)
        if question is None or (question.kind == "host" and not self._person.is_there):
            return
        if question.deadline is not None and question.deadline <= time.time():
            return  # an old log is shown
        self._open.append(_Open(question))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask_all())

    def refuse(self) -> None:
        """Answer what is open with no, as Ctrl-C does."""
        for each in list(self._open):
            self._answer(each, each.question.default)
            self._end(each)

    def close(self) -> None:
        """Ask no more; what is open stays unanswered."""
        for each in list(self._open):
            self._end(each)

    def _end(self, asked: _Open) -> None:
        if asked in self._open:
            self._open.remove(asked)
        if not asked.over.done():
            asked.over.set_result(None)

    def _answer(self, asked: _Open, choice: Choice, *, code: str = "", reason: str = "") -> None:
        given = answer(self._session, asked.question, choice, code=code, reason=reason)
        if inspect.isawaitable(given):
            self._tasks.add(task := asyncio.ensure_future(given))
            task.add_done_callback(self._tasks.discard)

    async def _ask_all(self) -> None:
        while self._open:
            asked = self._open[0]
            with contextlib.suppress(Over):
                await self._ask(asked)
            self._end(asked)

    async def _ask(self, asked: _Open) -> None:
        """Ask until it is answered.

        Raises:
            Over: Nobody waits for its answer any more.
        """
        question, hint = asked.question, ""
        if question.kind != "host":
            await self._person.at_the_terminal()
            self._show(asked)
        while True:
            left = None if question.deadline is None else max(0.0, question.deadline - time.time())
            choices: list[str] = [*question.choices, *(() if asked.is_whole else (SHOW_ALL,))]
            offered = ", ".join(_label(each) for each in choices)
            limit = "" if left is None else f" ({left:.0f} s)"
            word = await self._person.line(f"{hint}{question.text} {offered}{limit}: ", over=asked.over, seconds=left)
            if word is None:  # the end of input is no consent
                self._answer(asked, question.default)
                return
            said, _, reason = word.strip().partition(" ")
            chosen = _chosen(said.lower(), choices)
            if not chosen or (reason and chosen != "reject"):
                hint = f"Type {', '.join(each[0] for each in choices[:-1])} or {choices[-1][0]}. "
                continue
            if await self._do(asked, chosen, reason=reason.strip()):
                return
            hint = ""

    async def _do(self, asked: _Open, chosen: str, *, reason: str) -> bool:
        """Do what was chosen; returns whether that was the answer."""
        code = ""
        match chosen:
            case "whole":
                self._show(asked, whole=True)
                return False
            case "edit":
                code = await self._edited(asked)
                if not code:
                    return False
            case "reject" if not reason and asked.question.wants_reason:
                typed = await self._person.line("Why not? (Enter for no reason) ", over=asked.over)
                reason = (typed or "").strip()
        choice = next(each for each in asked.question.choices if each == chosen)
        self._answer(asked, choice, code=code, reason=reason)
        return True

    async def _edited(self, asked: _Open) -> str:
        """The code as the person edited it; empty if they changed nothing."""
        before = asked.question.code
        try:
            if words := editor.command():
                with self._person.away():
                    after = await editor.edit(before, editor=words, suffix=asked.question.suffix, over=asked.over)
            else:
                after = await self._typed(asked)
        except UsageError as error:
            self._say(str(error))
            return ""
        if not after.strip() or after == before:
            self._say("Nothing was changed.")
            return ""
        return after

    async def _typed(self, asked: _Open) -> str:
        """Code typed line by line, where there is no editor."""
        self._say("Type the code that is to run instead, and Ctrl-D on a line of its own. (No editor was found.)")
        lines: list[str] = []
        while (line := await self._person.line("… ", over=asked.over, fresh=not lines)) is not None:
            lines.append(line)
        return "\n".join(lines)

    def _show(self, asked: _Open, *, whole: bool = False) -> None:
        """Show the question's title, its packages or code, and what the choice for the session would allow."""
        question = asked.question
        with self._person.view.above() as console:
            console.print(f"── {question.title}", style="bold magenta", markup=False, soft_wrap=False)
            if text := "\n".join(each.replace("==", " ") for each in question.packages) or question.code:
                found = excerpt(text, width=console.width, whole=whole)
                asked.is_whole = found.is_whole
                for line in found.lines:
                    console.print(line, markup=False)
            rules = f"for the session would allow: {question.rules}" if question.rules else ""
            for note in filter(None, (question.note, rules)):
                console.print(note, style="dim", markup=False, soft_wrap=False)

    def _say(self, text: str) -> None:
        with self._person.view.above() as console:
            console.print(visible(text), style="magenta", markup=False, soft_wrap=False)


def _label(choice: str) -> str:
    """A choice with its letter in brackets, in the words in which it is offered."""
    offered = "show the whole" if choice == SHOW_ALL else next(text for each, text in LABELS.items() if each == choice)
    return offered.replace(choice, f"[{choice[0]}]{choice[1:]}")


def _chosen(said: str, choices: list[str]) -> str:
    """The choice that was typed; empty if there is no such choice."""
    meant = SYNONYMS.get(said, ())
    return next((each for each in choices if said in (each, each[0]) or each in meant), "")
