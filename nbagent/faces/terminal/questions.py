"""What a person at the terminal is asked: one question after the other, below what is shown meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View


class Over(Exception):  # noqa: N818 - no error: the answer is not waited for any more
    """Nobody waits for the answer any more."""


class Person:
    """Who sits at the terminal.

    Args:
        view: Where the session is shown.
        keyboard: Where they type.

    Attributes:
        is_away: Whether another program has the terminal.
    """

    def __init__(self, view: View, keyboard: Keyboard) -> None:
        self.view = view
        self.is_away = False
        self._keyboard = keyboard

    async def line(
        self, prompt: str, *, over: asyncio.Future[None], seconds: float | None = None, fresh: bool = True
    ) -> str | None:
        """Ask for a line.

        Args:
            prompt: What is asked, without anything that the terminal would obey.
            over: Done when the answer is not waited for any more.
            seconds: After which it isn't either.
            fresh: Drop what was typed before the prompt could be seen.

        Returns:
            The line; None at the end of input.

        Raises:
            Over: The answer came too late.
        """
        with self.view.prompt(prompt) as answered:
            typed = asyncio.ensure_future(self._keyboard.line(fresh=fresh))
            either: list[asyncio.Future[Any]] = [typed, over]
            try:
                await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not typed.done():
                    typed.cancel()
            if over.done() or not typed.done():
                raise Over
            if typed.result() is not None:
                answered()
            return typed.result()

    async def at_the_terminal(self) -> None:
        """Wait until the person has brought this program to the foreground."""
        while not self._keyboard.is_there:
            await asyncio.sleep(0.5)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """While another program has the terminal."""
        self.is_away = True
        try:
            with self.view.held(), self._keyboard.lent():
                yield
        finally:
            self.is_away = False


class Question(Protocol):
    """Something that a person is asked.

    Attributes:
        over: Done when its answer is not waited for any more.
    """

    over: asyncio.Future[None]

    async def ask(self, person: Person) -> None:
        """Ask until it is answered, and hand on the answer.

        Raises:
            Over: It is not waited for any more.
        """

    def refuse(self) -> None:
        """Answer with no."""


class Questions:
    """The questions that are open, in the order in which they came.

    Args:
        person: Who is asked.
    """

    def __init__(self, person: Person) -> None:
        self._person = person
        self._open: list[Question] = []
        self._asking: asyncio.Task[None] | None = None

    def add(self, question: Question) -> None:
        """Ask another one, after those that are open."""
        self._open.append(question)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask_all())

    def refuse(self) -> bool:
        """Answer all that are open with no; returns whether there were any."""
        found = list(self._open)
        for each in found:
            each.refuse()
            self.end(each)
        return bool(found)

    def close(self) -> None:
        """Ask no more; what is open stays unanswered."""
        for each in list(self._open):
            self.end(each)

    def end(self, question: Question) -> None:
        """Take a question back."""
        if question in self._open:
            self._open.remove(question)
        if not question.over.done():
            question.over.set_result(None)

    async def _ask_all(self) -> None:
        while self._open:
            question = self._open[0]
            with contextlib.suppress(Over):
                await question.ask(self._person)
            self.end(question)
