"""A question on its way: variables in, the question, variables out; shown while it runs, whoever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError as Cancelled
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nbagent.core import folders
from nbagent.core.errors import DataError, NbagentError, QuestionRuns, UsageError
from nbagent.core.events import Answer, FileDownloaded, FileUploaded, Record
from nbagent.core.text import one_line, size_of
from nbagent.faces.magic.block import Block
from nbagent.faces.magic.controls import Controls
from nbagent.faces.magic.portal import Portal
from nbagent.faces.magic.request import GIVEN, TAKEN, Request
from nbagent.faces.magic.sessions import Sessions
from nbagent.faces.magic.variables import Packed, pack, size_here, table_told, unpack
from nbagent.faces.terminal.console import show_answer
from nbagent.faces.terminal.view import View
from nbagent.safety.questions import Choice, Question, answer
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.paths import VARIABLES
from nbagent.session.sharing.attach import Attached

LOOK_SECONDS = 0.05
"""Seconds between two looks at what has come."""
FRAME_SECONDS = 0.2
"""Seconds between two pictures of a block."""
CLOCK_SECONDS = 1.0
"""Seconds after which a block that waits shows the time."""
STOP_SECONDS = 0.5
"""Seconds for which the end of a stopped question is waited for; it may go on as long as its cell heeds nothing."""
GIVE_SECONDS = 300.0
"""Seconds that the sandbox may take to read a variable: on a busy machine, a frame of 1 GB took more than a minute."""
STOPPED = "Stopped."
UNCHECKED = "The answer above was not checked to the end."
GOES_ON = "The cell has not ended yet. If it doesn't heed the interrupt in some seconds, its kernel is replaced."
MAX_MB = 500.0
"""Megabytes that a variable may have which goes over, unless more is allowed."""


class Asking:
    """One question: the session's side of it in the portal's thread, and the notebook's side in the caller's.

    Args:
        note: For the model, behind the question.
        attended: Whether somebody answers what is asked.
        draw: Shows the block as it is.
        make_controls: Makes what a person presses; gets how an answer is given, and how the question is stopped.
        in_terminal: Whether what comes is also written line by line, as a terminal takes it.
    """

    def __init__(
        self,
        request: Request,
        *,
        portal: Portal,
        sessions: Sessions,
        defaults: dict[str, Any],
        note: str,
        attended: bool,
        draw: Callable[[Block], None],
        make_controls: Callable[[Callable[..., None], Callable[[], None]], Controls | None],
        in_terminal: bool,
    ) -> None:
        self.block = Block()
        self.found: dict[str, Any] = {}
        self.reply: Answer | None = None
        self._request = request
        self._portal = portal
        self._sessions = sessions
        self._defaults = defaults
        self._note = note
        self._attended = attended
        self._draw = draw
        self._session: Attached | None = None
        self._heard: queue.SimpleQueue[Record | str] = queue.SimpleQueue()
        self._make_controls = make_controls
        self._controls: Controls | None = None
        self._view = View(keep_figure=self._keep_figure) if in_terminal else None
        self._work: Future[Answer] | None = None
        self._drawn = 0.0
        self._ends_at = math.inf

    def steps(self, namespace: dict[str, Any]) -> Iterator[float]:
        """Run the question; yields the seconds to wait between two looks, until it has ended.

        An interrupt of who waits, thrown in here, stops it.

        Args:
            namespace: The variables of the notebook.
        """
        with contextlib.ExitStack() as held:
            packed = yield from self._pack(namespace, held)
            self.block.tick(time.time())
            if self._view is not None:
                self._view.wait(self.block.state)
            self._controls = self._make_controls(self._answer, self.stop)
            self._work = self._portal.begin(self._run(packed))
            try:
                yield from self._wait(self._work)
            except (NbagentError, Cancelled):
                self._look()
                failed, reply = self._ends_at == math.inf, self.reply
                if reply is None:
                    self.block.end("failed" if failed else "stopped")
                    self.block.answer = None  # its text is what is raised
                if failed:
                    raise
                raise UsageError(STOPPED, mend=UNCHECKED if reply is not None and reply.check else "") from None
            finally:
                self._close()

    def _wait(self, work: Future[Answer]) -> Iterator[float]:
        """Wait until the work has ended; raises what it raised, or `Cancelled` if the waiting was interrupted."""
        is_interrupted = False
        while not work.done() and time.monotonic() < self._ends_at:
            try:
                self._look()
                yield LOOK_SECONDS
            except (asyncio.CancelledError, KeyboardInterrupt):
                is_interrupted = True
                self.stop()
        if not work.done() and any(cell.status == "running" for cell in self.block.cells):
            self.block.note("warning", GOES_ON)  # to be cancelled, too, would cost the kernel at once
            raise Cancelled
        work.cancel()
        work.result()
        if is_interrupted:
            raise Cancelled

    def stop(self) -> None:
        """Stop the question and its cell; may be called from any thread."""
        self._ends_at = min(self._ends_at, time.monotonic() + STOP_SECONDS)
        self._portal.soon(self._interrupt)

    def _pack(self, namespace: dict[str, Any], held: contextlib.ExitStack) -> Generator[float, None, list[Packed]]:
        """The variables that go over, written; yields seconds to wait for what a person says of large ones."""
        found: list[Packed] = []
        for name in self._request.give:
            if name not in namespace:
                raise DataError(f"There is no variable {name}.", mend="Check its name, or run the cell that makes it.")
            value = namespace[name]
            told = f"{name}: {table_told(value)}" if (size := size_here(value)) else ""
            is_allowed = yield from self._allow(name, size, told)
            found.append(held.enter_context(contextlib.closing(pack(name, value))))
            if not is_allowed:
                yield from self._allow(name, found[-1].size, found[-1].told)
        return found

    def _allow(self, name: str, size: int, told: str) -> Generator[float, None, bool]:
        """Have a person allow a variable that is above the limit; returns whether one has."""
        limit = MAX_MB if self._request.max_mb is None else self._request.max_mb
        if size <= limit * 1e6:
            return False
        over = f"{name} has {size_of(size)}, and {limit:g} MB go over unasked"
        option = f"--max-mb {size // 1_000_000 + 1}"
        said: list[Choice] = []
        controls = self._make_controls(lambda _, choice, **__: said.append(choice), self.stop)
        if controls is None:
            raise DataError(f"{over}.", mend=f"Allow it: {option}")
        try:
            controls.open(_may_go(name, title=over, note=one_line(told)))
            while not said:
                if self._ends_at < math.inf:
                    raise Cancelled
                controls.ask()
                yield LOOK_SECONDS
        finally:
            controls.close()
        if said != ["approve"]:
            raise DataError(f"{name} stays here.", mend=f"Give a smaller part of it, or allow it: {option}")
        return True

    def _close(self) -> None:
        self._look()
        if self._view is not None:
            self._view.idle()
            if self.reply is not None:
                show_answer(self.reply)
        if self._controls is not None:
            self._controls.close()
            self._controls = None
        if self.block.state:
            self.block.end()
        self._draw(self.block)

    def _look(self) -> None:
        """Take what has come, and show it now and then."""
        came = False
        with contextlib.suppress(queue.Empty):
            while True:
                heard = self._heard.get_nowait()
                came = True
                if isinstance(heard, str):
                    self.block.say(heard)
                    if self._view is not None:
                        self._view.hear_words(0, heard)
                    continue
                self.block.add(heard)
                if self._view is not None and not isinstance(heard.event, FileUploaded | FileDownloaded):
                    self._view.show(heard)
                    if Question.of(heard):
                        self._view.idle()  # a spinner would write over what is typed
                if self._controls is not None:
                    self._controls.hear(heard)
        now = time.time()
        self.block.tick(now)
        if now - self._drawn >= (FRAME_SECONDS if came else CLOCK_SECONDS):
            self._drawn = now
            if self._session is None and self.block.state and (told := folders.progress()):
                self.block.state = told  # before the first session on a machine, its packages come
                if self._view is not None:
                    self._view.tell(told)
            self._draw(self.block)
        if self._controls is not None:
            self._controls.ask()

    def _keep_figure(self, name: str, content: bytes) -> Path | None:
        return self._session.keep_figure(name, content) if self._session is not None else None

    # -- in the portal's thread -----------------------------------------------------------------------------------

    async def _run(self, packed: list[Packed]) -> Answer:
        session = self._session = await self._sessions.get(self._request.session, self._request.options, self._defaults)
        unfollow = session.follow(self._heard.put)
        unhear = session.follow_words(lambda _, text: self._heard.put(text))
        try:
            if self._attended:
                await session.attend()
            for each in packed:
                await give(session, each)
            try:
                found = self.reply = await session.ask(_question(self._request, packed, self._note))
            except QuestionRuns as error:  # one of a kernel that was restarted meanwhile, or of another face
                raise QuestionRuns(error.message, mend="Wait for it, or stop it by: %agent stop") from error
            await self._take(session)
            return found
        finally:
            unfollow()
            unhear()
            if self._attended and session.is_running:
                await session.attend(False)

    async def _take(self, session: Attached) -> None:
        """Fetch what comes back: if one can't, the others have come all the same."""
        failed: NbagentError | None = None
        for name in self._request.take:
            try:
                self.found[name] = await take(session, name)
            except NbagentError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _answer(self, question: Question, choice: Choice, *, code: str = "", reason: str = "") -> None:
        if self._session is not None:
            self._portal.soon(lambda: answer(self._session, question, choice, code=code, reason=reason))  # type: ignore[arg-type]

    def _interrupt(self) -> None:
        if self._session is not None and self._session.is_running:
            self._session.interrupt()
        elif self._work is not None:
            self._work.cancel()


def _may_go(name: str, *, title: str, note: str) -> Question:
    return Question(
        id=name,
        kind="size",
        title=title,
        text="May it go into the sandbox?",
        choices=("approve", "reject"),
        default="reject",
        note=note,
    )


async def give(session: Attached, packed: Packed) -> None:
    """Have a variable made in the sandbox."""
    code = packed.code
    if packed.memory is not None:
        uploaded = await session.upload(packed.memory.path, packed.file, to=VARIABLES)
        code = code.replace(f"{VARIABLES}/{packed.file}", uploaded.path)
        packed.close()
    cell = await session.run(code, timeout=GIVE_SECONDS)
    if not cell.success:
        raise DataError(f"{packed.name} did not arrive in the sandbox.", mend="See the cell above for why.")


async def take(session: Attached, name: str) -> Any:
    """Fetch a variable of the sandbox."""
    memory = SealedMemory()
    try:
        written = await session.pull(name, memory.path)
        return await asyncio.to_thread(unpack, written.kind, memory.path)
    finally:
        memory.close()


def _question(request: Request, packed: list[Packed], note: str) -> str:
    """The question, with what the model is told of the variables that went over and of those that are wanted."""
    parts = [request.question]
    if packed:
        parts.append(f"{GIVEN}:\n" + "\n".join(f"- {each.told}" for each in packed))
    if request.take:
        parts.append(f"{TAKEN} {' and '.join(request.take)}: it is taken from the kernel.")
    return "\n\n".join(filter(None, [*parts, note]))
