"""`nbagent attach` and `nbagent host`: a session that another process owns, seen and steered from this terminal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import IO, Any

from nbagent.core import settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Answer, Answered, Asked, Cell, CellFinished, CellStarted, Record, SessionEnded
from nbagent.core.text import safe
from nbagent.faces.cli import EXIT_STOPPED, json_output
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.terminal.asker import Asker
from nbagent.faces.terminal.console import complain, show_answer
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View
from nbagent.session.catalog import lookup
from nbagent.session.protocol import AnySession, settled

Come = Callable[[], Awaitable[AnySession]]


class Guest:
    """This terminal as a guest of a session, which goes on when the terminal leaves.

    Attributes:
        was_stopped: Whether the person has pressed Ctrl-C.
    """

    def __init__(self, session: AnySession, *, quiet: bool, results: IO[str] | None, keyboard: Keyboard) -> None:
        self._session = session
        self.view = View(keep_figure=session.keep_figure, quiet=quiet, results=results, code=results is None)
        self._asker = Asker(session, self.view, keyboard)
        self._answers = keyboard.is_there
        self._quiet = quiet
        self._task = asyncio.current_task()
        self._asking = False
        self._runs: set[str] = set()
        self._pressed = 0
        self._has_ended = False
        self.was_stopped = False

    @contextlib.asynccontextmanager
    async def shown(self, *, since: int | None) -> AsyncIterator[None]:
        """Show the events after number `since`, or from the last question on, and ask the session's questions."""
        loop = asyncio.get_running_loop()
        if self._answers:
            await settled(self._session.attend())
        start = await asyncio.to_thread(_last_turn, self._session) if since is None else since
        unfollow = await self._session.follow_since(self._hear, start)
        unhear = self._session.follow_words(self.view.hear_words)
        loop.add_signal_handler(signal.SIGINT, self._press)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            unfollow()
            unhear()
            self._asker.close()
            self.view.idle()
            goes_on = self._session.is_running
            await self._session.detach()
            if goes_on:
                print(f"The session goes on: nbagent attach {self._session.id}", file=sys.stderr)

    @property
    def is_running(self) -> bool:
        """Whether the session has an owner."""
        return self._session.is_running

    async def ended(self) -> int:
        """Wait until the session has ended; returns the exit code."""
        await self._session.closed()
        if self._has_ended:
            print(f"The session {self._session.id} has ended.", file=sys.stderr)
            return 0
        message = f"The process that ran the session {self._session.id} has ended."
        raise UsageError(message, mend=f"Resume it by: nbagent resume {self._session.id}")

    async def ask(self, question: str) -> Answer:
        """Ask a question; the caller shows its answer."""
        self._asking = True
        try:
            return await self._session.ask(question)
        finally:
            self._asking = False

    async def chat(self, keyboard: Keyboard) -> None:
        """Ask questions as they are typed, until the end of input."""
        print("Ask on; Ctrl-C stops what runs, Ctrl-D leaves.", file=sys.stderr)
        while True:
            with self.view.prompt("> ") as answered:
                line = await keyboard.line()
                if line is None:
                    return
                answered()
            if line.strip():
                try:
                    self._say_answer(await self.ask(line))
                except NbagentError as error:
                    if not self._session.is_running:
                        return  # `ended` tells it
                    complain(error)

    def _hear(self, record: Record) -> None:
        match record.event:
            case Asked(question=question):
                self._runs.add("turn")
                if not self._asking and not self._quiet:
                    with self.view.above() as console:
                        console.print(f"> {safe(question)}", style="bold", markup=False)
            case CellStarted():
                self._runs.add("cell")
            case CellFinished():
                self._runs.discard("cell")
            case Answered():
                self._runs.clear()
                self._pressed = 0
            case SessionEnded():
                self._has_ended = True
        self.view.show(record)
        if self._answers:
            self._asker.hear(record)
        if isinstance(record.event, Answered):
            self.view.idle()
            if not self._asking:
                self._say_answer(record.event)

    def _say_answer(self, answer: Answer) -> None:
        with self.view.above():
            show_answer(answer)

    def _press(self) -> None:
        """Ctrl-C: no to what is asked, then the cell stops, then the question; where nothing runs, leave."""
        if self._asker.is_away:
            return
        self._asker.refuse()
        self._pressed += 1
        if self._pressed == 1 and self._session.interrupt_cell():
            return
        if self._runs and self._pressed < 3:
            self._session.interrupt()
        elif self._task is not None:
            self.was_stopped = True
            self._task.cancel()


def _last_turn(session: AnySession) -> int:
    """The number of the record before the last question, or before the last cell that a person ran."""
    found = 0
    for record in session.since():
        if isinstance(record.event, Asked) or (isinstance(record.event, CellStarted) and not record.event.turn):
            found = record.seq - 1
    return found


async def attached_to(session: str) -> AnySession:
    """A session that another process runs."""
    from nbagent.session.sharing.attach import Attached

    attached = Attached(session)
    await attached.start()
    return attached


async def steer(
    come: Come, *, question: str | None = None, code: str | None = None, since: int | None = None, wanted: CommandFlags
) -> int:
    """Show a running session; ask a question, run code, or take what is typed; returns the exit code.

    Events are shown from number `since` of the log on, by default from the last question.
    """
    if question is not None and code is not None:
        raise UsageError("Give a question or code, not both.")
    if question is None and code is None and wanted.as_json:
        raise UsageError("There is nothing to print as JSON.", mend="Give a question, or code with --code.")
    session, keyboard = await come(), Keyboard()
    results = sys.stdout if code is not None and not wanted.as_json else None
    guest = Guest(session, quiet=wanted.quiet or wanted.as_json, results=results, keyboard=keyboard)
    waiting = asyncio.create_task(guest.ended())
    try:
        async with guest.shown(since=session.last if question or code else since):
            if question is not None:
                ended = await _ask(guest, question, as_json=wanted.as_json)
            elif code is not None:
                ended = await _run(session, code, as_json=wanted.as_json)
            else:
                ended = await _follow(guest, waiting, keyboard)
            if wanted.out is not None:
                print(f"notebook: {await session.export(wanted.out, force=wanted.force)}", file=sys.stderr)
        return ended
    except asyncio.CancelledError:
        if not guest.was_stopped:
            raise
        return EXIT_STOPPED if question or code else 0
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])


async def _follow(guest: Guest, waiting: asyncio.Task[int], keyboard: Keyboard) -> int:
    """Show the session until it ends, or the person leaves."""
    if not keyboard.is_there:
        return await waiting
    chat = asyncio.create_task(guest.chat(keyboard))
    try:
        await asyncio.wait([chat, waiting], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() or not guest.is_running:
            return await waiting
        await chat
        return 0
    finally:
        chat.cancel()
        await asyncio.wait([chat])


async def _ask(guest: Guest, question: str, *, as_json: bool) -> int:
    answer = await guest.ask(question)
    if as_json:
        json_output.show(answer)
    else:
        show_answer(answer)
    return 0 if answer.success else 1


async def _run(session: AnySession, code: str, *, as_json: bool) -> int:
    cell: Cell = await session.run(code)
    if as_json:
        json_output.show(cell)
    return 0 if cell.success else EXIT_STOPPED if cell.status == "interrupted" else 1


async def in_background(session: str | None, **given: Any) -> int:
    """Start a process that owns a session, and leave it running; returns the exit code."""
    from nbagent.session.host_process import host

    attached = await host(session, **given)
    minutes = settings.load().keep_minutes
    await attached.detach()
    print(attached.id)
    print(
        f"See and steer it by: nbagent attach {attached.id}. It ends by itself {minutes:g} minutes after the last face"
        " has left and the last cell has ended.",
        file=sys.stderr,
    )
    return 0


def is_running(session: str) -> bool:
    """Whether a process owns a session."""
    return lookup.is_running(lookup.find(settings.state_root(), session))


def refuse_options(session: str, given: Mapping[str, Any]) -> None:
    """Refuse options for a session that runs already."""
    if named := [name for name, value in given.items() if value is not None]:
        message = f"Another process runs the session {session}, where {named[0]} can't be changed."
        raise UsageError(message, mend="Leave it out.")
