"""Shows a session on the terminal while it runs, asks its questions, and heeds Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import IO, TYPE_CHECKING

from nbagent.faces.terminal.asker import Asker
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession

LOOK_SECONDS = 0.3
"""Seconds between two looks at what a first start makes."""
INTERRUPT_SECONDS = 1.0
"""Seconds that a running cell has to heed the interrupt when the task is cancelled."""


class CtrlC:
    """From now on the first Ctrl-C stops the running cell, and the next one cancels the current task.

    Each answers open questions with no. If there is something else to `stop`, the task is cancelled only if it doesn't
    end by that.
    """

    def __init__(self, session: AnySession, asker: Asker, stop: Callable[[], object] | None = None) -> None:
        self._session = session
        self._asker = asker
        self._stop = stop or self._give_up
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._pressed = 0
        self._loop.add_signal_handler(signal.SIGINT, self._press)

    def ignore(self) -> None:
        """Cancel nothing any more: pressing on must not keep the sandbox from being ended."""
        self._task = None

    def close(self) -> None:
        """Leave Ctrl-C to Python."""
        self.ignore()
        self._loop.remove_signal_handler(signal.SIGINT)

    def _press(self) -> None:
        if self._asker.is_away:
            return
        self._pressed += 1
        # Whoever stops the code doesn't allow it anything.
        self._asker.refuse()
        if self._pressed == 1 and self._session.interrupt_cell():
            return
        self._stop()
        # A cell that doesn't heed the interrupt is not waited for.
        self._loop.call_later(INTERRUPT_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()


@contextlib.asynccontextmanager
async def starting(view: View, what: str = "starting the sandbox") -> AsyncIterator[None]:
    """Show that a sandbox starts, and before the first one on this machine how far its environment is."""

    async def follow() -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            from nbagent.core import folders

            if told := folders.progress():
                view.tell(told)

    view.wait(what)
    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        view.idle()


@contextlib.asynccontextmanager
async def shown(
    session: AnySession,
    *,
    quiet: bool,
    results: IO[str] | None = None,
    keep: bool = False,
    keyboard: Keyboard | None = None,
    verbose: bool = False,
) -> AsyncIterator[View]:
    """Start a session, show its events, ask its questions and heed Ctrl-C; end it at the end, or `keep` its kernel.

    The cells' own output goes to `results`.
    """
    view = View(keep_figure=session.keep_figure, quiet=quiet, results=results, code=results is None, verbose=verbose)
    asker = Asker(session, view, keyboard or Keyboard())
    pressing = CtrlC(session, asker)
    try:
        async with starting(view):
            await session.start()
        for record in session.news:
            view.show(record)
        session.follow(view.show)
        session.follow_words(view.hear_words)
        session.follow(asker.hear)
        yield view
    finally:
        pressing.ignore()
        asker.close()
        view.idle()
        if keep and session.is_running:
            await session.detach()
            print(f"Its kernel waits to be resumed: nbagent resume {session.id}", file=sys.stderr)
            if not session.outlasts_login:
                print("It ends when you log out, unless you first run: loginctl enable-linger", file=sys.stderr)
        await session.stop()
        pressing.close()
