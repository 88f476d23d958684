"""Orders the questions of a session: one at a time, numbered, each with its files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.agent.turn import Turn
from nbagent.core.errors import QuestionRuns
from nbagent.core.events import Answer, Event, Package
from nbagent.notebook.record import Recording
from nbagent.safety.approvals import Consent
from nbagent.session.checks import clean_question
from nbagent.session.files.sandbox_files import Uploaded
from nbagent.session.files.session_files import Attachment, SessionFiles
from nbagent.session.session_kernel import SessionKernel

if TYPE_CHECKING:
    from nbagent.agent.agent import Agent

OpenAgent = Callable[[Sequence[tuple[str, str]], str], Awaitable["Agent"]]
"""Makes the agent, given the questions so far, each with its answer, and the next one."""
ANSWERED_SECONDS = 1.0
"""Seconds that a stopped question has to emit its `Answered`."""


class Conversation:
    """The questions of one session, one at a time.

    Args:
        cells: Runs what the model writes.
        open_agent: Makes the agent when the first question comes; describing the data costs time.
        recording: The session so far, whose questions and answers the model remembers.
        say: Gets the words of each reply as the model writes them, with the question's number.
        consent: Decides whether the model's tools may act.

    Attributes:
        turns: Questions asked so far.
        history: The answers so far.
        unfinished: What a turn that failed or was stopped had done; None after one that ended.
    """

    def __init__(
        self,
        cells: SessionKernel,
        files: SessionFiles,
        *,
        open_agent: OpenAgent,
        recording: Recording,
        emit: Callable[[Event], object],
        say: Callable[[int, str], object],
        consent: Consent,
    ) -> None:
        self._cells = cells
        self._files = files
        self._open_agent = open_agent
        self._emit = emit
        self._say = say
        self._consent = consent
        self._past = [
            (asked.question, recording.answers[asked.turn].text if asked.turn in recording.answers else "")
            for asked in recording.questions
        ]
        self._new: list[tuple[str, str]] = []
        self._agent: Agent | None = None
        self._asking: asyncio.Task[Answer] | None = None
        self.turns = len(self._past)
        self.history: list[Answer] = []
        self.unfinished: Answer | None = None

    async def ask(self, question: str, *, files: Sequence[Attachment] = (), uploaded: Sequence[str] = ()) -> Answer:
        """See `AnySession.ask`."""
        text = clean_question(question)
        while (asked := self._asking) is not None:
            if not asked.cancelling():
                raise QuestionRuns("Another question is being answered.", mend="Wait for it, or interrupt it.")
            await asyncio.wait([asked])  # its cell may not heed the interrupt at once
            await asyncio.sleep(0)  # the call that asked it has to clear `_asking` first
        before, task = self.unfinished, asyncio.current_task()
        self._asking = asyncio.create_task(self._ask(text, files, uploaded))
        try:
            answer = await self._asking
        except asyncio.CancelledError:
            self._asking.cancel()
            left = self.unfinished
            if left is None or left is before or left.check is None or (task is not None and task.cancelling()):
                raise
            answer, self.unfinished = left, None  # only its check was stopped
        finally:
            self._asking = None
        self.history.append(answer)
        self._new.append((text, answer.text))
        return answer

    def interrupt(self) -> None:
        """Stop the question that is being answered, if there is one; if its answer is being checked, only that."""
        if self._asking is not None:
            self._asking.cancel()

    @property
    def is_asking(self) -> bool:
        """Whether a question is being answered."""
        return self._asking is not None

    def renew(self) -> None:
        """Have the agent made anew for the next question; it is told the questions and answers so far."""
        self._past += self._new
        self._new = []
        self._agent = None

    async def stop(self, *, by: asyncio.Task[Any] | None = None) -> None:
        """Cancel the question, unless it is the task that stops the session, and wait shortly for its `Answered`."""
        self._consent.close()
        asking = self._asking
        if asking is not None and asking is not by:
            asking.cancel()
            await asyncio.wait([asking], timeout=ANSWERED_SECONDS)

    async def _ask(self, question: str, files: Sequence[Attachment], uploaded: Sequence[str]) -> Answer:
        if self._agent is None:
            self._agent = await self._open_agent(self._past, question)
        more = _upload_note([await self._upload(each) for each in files], uploaded)
        self.turns += 1
        turn = self._cells.turn = Turn(self.turns, self._emit, say=partial(self._say, self.turns))
        self.unfinished = None
        try:
            return await self._agent.answer(question, turn=turn, more=more)
        except BaseException:
            self.unfinished = turn.answer
            raise
        finally:
            self._cells.turn = None

    async def _upload(self, attachment: Attachment) -> Uploaded:
        name, source = attachment if isinstance(attachment, tuple) else (None, attachment)
        return await self._files.upload(source, name, to="/workspace", unpack=False)

    async def confirm(self, packages: list[Package], *, own: bool) -> None:
        """Ask about packages that the model's code needs, also after its turn: the code may have left a thread.

        An own cell or install of the person's asks nobody.
        """
        if self._asking is not None or not own:
            await self._consent.install(packages, turn=self.turns)


def _upload_note(uploads: Sequence[Uploaded], paths: Sequence[str]) -> str:
    """What the model reads behind a question that came with files."""
    listed = ", ".join([*paths, *(f"{each.path} ({each.size:,} bytes)" for each in uploads)])
    return f"\n\n[The person uploaded: {listed}]" if listed else ""
