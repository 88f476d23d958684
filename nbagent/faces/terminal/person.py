"""The person at the terminal: the lines that they type below the session's output, and the time in their editor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View


class Over(Exception):  # noqa: N818 - an end, not an error
    """Nobody waits for the answer any more."""


class Person:
    """The person at the terminal.

    Attributes:
        is_away: Whether another program has the terminal.
    """

    def __init__(self, view: View, keyboard: Keyboard) -> None:
        self.view = view
        self.is_away = False
        self._keyboard = keyboard

    @property
    def is_there(self) -> bool:
        """Whether they can be asked: nbagent is in the foreground of a terminal."""
        return self._keyboard.is_there

    async def line(
        self, prompt: str, *, over: asyncio.Future[None], seconds: float | None = None, fresh: bool = True
    ) -> str | None:
        """Ask for a line; None at the end of input.

        Args:
            prompt: What is asked, without anything that the terminal would obey.
            over: Is done when nobody waits for the answer any more; then this raises `Over`.
            seconds: How long the answer is waited for; for ever by default.
            fresh: Drop what was typed before the prompt could be seen.
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
        while not self.is_there:
            await asyncio.sleep(0.5)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Leave the terminal to another program meanwhile."""
        self.is_away = True
        try:
            with self.view.held(), self._keyboard.lent():
                yield
        finally:
            self.is_away = False
