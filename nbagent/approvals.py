"""What code asks for and a person at the terminal answers: whether it may reach a host."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from nbagent.events import HostAsked, HostDecided, Record
from nbagent.keyboard import Keyboard
from nbagent.sandbox.gate import ASK_SECONDS
from nbagent.session import Session
from nbagent.terminal import View, safe

ANSWERS = {
    "o": (True, False), "once": (True, False), "s": (True, True), "session": (True, True),
    "d": (False, True), "deny": (False, True), "n": (False, True), "no": (False, True),
}  # fmt: skip
"""What can be typed → whether that allows, and whether it holds for the session."""


@dataclass(frozen=True)
class _Question:
    asked: HostAsked
    until: float
    over: asyncio.Future[None]


class HostQuestions:
    """Asks the person about each host, one at a time, as long as the answer is waited for.

    Args:
        session: Gets the answers.
        view: Where the questions are shown, between the outputs.
        keyboard: Where the answers are typed. Without one nobody is asked, and that becomes a denial by itself.
    """

    def __init__(self, session: Session, view: View, keyboard: Keyboard) -> None:
        self._session = session
        self._view = view
        self._keyboard = keyboard
        self._open: dict[str, _Question] = {}
        self._asking: asyncio.Task[None] | None = None

    def hear(self, record: Record) -> None:
        """Take an event of the session's: a question to be asked, or the end of one."""
        event = record.event
        if isinstance(event, HostAsked) and self._keyboard.is_there:
            loop = asyncio.get_running_loop()
            self._open[event.id] = _Question(event, loop.time() + ASK_SECONDS, loop.create_future())
            if self._asking is None or self._asking.done():
                self._asking = loop.create_task(self._ask_all())
        elif isinstance(event, HostDecided):
            for each in list(self._open.values()):
                if (each.asked.host, each.asked.port) == (event.host, event.port):
                    self._end(each)

    def deny(self) -> bool:
        """Deny what is open, as Ctrl-C does; returns whether anything was."""
        found = list(self._open.values())
        for each in found:
            self._session.approve_host(each.asked.id, allow=False)
            self._end(each)
        return bool(found)

    def close(self) -> None:
        """Ask no more; what is open stays unanswered."""
        for each in list(self._open.values()):
            self._end(each)

    def _end(self, question: _Question) -> None:
        self._open.pop(question.asked.id, None)
        if not question.over.done():
            question.over.set_result(None)

    async def _ask_all(self) -> None:
        while self._open:
            question = next(iter(self._open.values()))
            said = await self._ask(question)
            if said is not None:
                allow, remember = said
                self._session.approve_host(question.asked.id, allow=allow, remember=remember)
            self._end(question)

    async def _ask(self, question: _Question) -> tuple[bool, bool] | None:
        """Whether the person allows it, and whether for the session; None if that is not waited for any more."""
        loop = asyncio.get_running_loop()
        where = safe(f"{question.asked.host}:{question.asked.port}", colours=False)
        hint = ""
        while (left := question.until - loop.time()) > 0 and not question.over.done():
            text = f"{hint}Allow {where}? [o]nce, for the [s]ession, [d]eny ({left:.0f} s): "
            with self._view.prompt(text) as answered:
                typed = loop.create_task(self._keyboard.line(fresh=True))
                either: list[asyncio.Future[Any]] = [typed, question.over]
                await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not typed.done():
                    typed.cancel()
                    return None
                answered()
            word = typed.result()
            if word is None or (said := ANSWERS.get(word.strip().lower())) is not None:
                # The end of input is no consent.
                return (False, True) if word is None else said
            hint = "Type o, s or d. "
        return None
