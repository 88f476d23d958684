"""Questions and their answers: has the data described, makes the agent, and drives each turn to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from nbagent.errors import NbagentError, UsageError, contained
from nbagent.events import (
    Answer,
    Answered,
    Asked,
    Cell,
    Claim,
    Event,
    McpToolCalled,
    ModelFailed,
    ModelReplied,
    Package,
    Reflected,
    Usage,
)
from nbagent.kernel.describe import describe
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.policy import Network, Trust
from nbagent.safety.consent import Consent
from nbagent.sandbox.data.mounts import DATA
from nbagent.session.attachments import Given, told
from nbagent.session.cells import Cells, Work
from nbagent.session.files import SessionFiles
from nbagent.session.inputs import clean_question
from nbagent.session.listing import Uploaded
from nbagent.session.options import AgentOptions
from nbagent.session.phases import Phases

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

    from nbagent.agent.build import Agent
    from nbagent.agent.memory import Memory
    from nbagent.agent.middleware.outgoing import Outgoing
    from nbagent.agent.middleware.spending import Spending
    from nbagent.agent.opener import ModelOpener
    from nbagent.agent.providers.models import Model
    from nbagent.forge import ToolForge
    from nbagent.mcp.client import McpClient

UNCHECKED = Claim(text="the numbers, which could not be looked for")
"""What stands in place of an answer's claims where finding them has failed."""
LAST_WORDS = 1.0
"""Seconds that a question which is stopped has to tell its end."""


class Conversation:
    """The questions of one session, one at a time.

    Args:
        kernel: The session's, started.
        cells: Runs what the model writes.
        files: The session's files.
        model: Opens the model when the first question comes.
        recording: The session so far; the model remembers the questions and answers that are in it already.
        emit: Gets the events.
        hosts: What of the network the model is told of: rules, or None for all of it.
        note: What has become of the kernel since those questions, for the model to know.
        consent: Who lets the model's tools do something.
        tools: MCP servers, whose tools the model is offered besides.
        forge: Makes tools for the model, and has those of the library; None if it is not to have them.
        options: How the agent works.
        open_memory: Opens where the conversation is kept, when the first question comes; in this process by default.

    Attributes:
        turns: Questions asked so far.
        history: The answers so far.
        unfinished: What a turn that failed or was stopped had done; None after one that ended.
    """

    def __init__(
        self,
        kernel: Kernel,
        cells: Cells,
        files: SessionFiles,
        *,
        model: ModelOpener,
        recording: Recording,
        emit: Callable[[Event], object],
        hosts: tuple[str, ...] | None = (),
        note: str = "",
        consent: Consent,
        tools: McpClient | None = None,
        forge: ToolForge | None = None,
        options: AgentOptions,
        open_memory: Callable[[], Awaitable[Memory]] | None = None,
    ) -> None:
        self._kernel = kernel
        self._cells = cells
        self._files = files
        self._model = model
        self._recording = recording
        self._emit = emit
        self._hosts = hosts
        self._consent = consent
        self._tools = tools
        self._forge = forge
        self._options = options
        self._open_memory = open_memory
        self._heard: list[str] = []
        self._used = Usage()
        self._claimed: tuple[str, int, list[Claim]] = ("", 0, [])
        self._phases: Phases | None = None
        answers = recording.answers
        self._past = [
            (asked.question, answers[asked.turn].text if asked.turn in answers else "") for asked in recording.questions
        ]
        self._note = note
        self._agent: Agent | None = None
        self._work = Work(turn=0)
        self._told = ""
        self._spending: Spending | None = None
        self._asking: asyncio.Task[Answer] | None = None
        self.turns = len(self._past)
        self.history: list[Answer] = []
        self.unfinished: Answer | None = None

    async def ask(self, question: str, *, files: Sequence[Given] = ()) -> Answer:
        """Ask a question, and wait for the answer; see `Session.ask`."""
        text = clean_question(question)
        if self._asking is not None:
            raise UsageError("Another question is being answered.", mend="Wait for it, or interrupt it.")
        self._asking = asyncio.create_task(self._ask(text, files))
        try:
            return await self._asking
        except asyncio.CancelledError:
            self._asking.cancel()
            raise
        finally:
            self._asking = None

    def interrupt(self) -> None:
        """Stop the question that is being answered, if there is one."""
        if self._asking is not None:
            self._asking.cancel()

    async def stop(self) -> None:
        """Stop the question, and wait a moment for its end to be told; a turn that stops its own session goes on."""
        self._consent.close()
        asking = self._asking
        if asking is not None and asking is not asyncio.current_task():
            asking.cancel()
            await asyncio.wait([asking], timeout=LAST_WORDS)

    async def _ask(self, question: str, files: Sequence[Given]) -> Answer:
        from nbagent.agent import build
        from nbagent.agent.middleware.outgoing import untraced

        agent = await self._ready_agent()
        given = told([await self._upload(each) for each in files])
        self.turns += 1
        turn, started = self.turns, time.monotonic()
        work = self._work = Work(turn=turn)
        self._emit(Asked(turn=turn, question=question, model=agent.model.name, replay=agent.model.is_replay))
        phases = self._phases = Phases(turn, self._emit)
        phases.comprehend(question, self._recording.data)
        self.unfinished = None
        text, usage, ended = "", Usage(), False
        self._used, self._claimed = Usage(), ("", 0, [])

        def heard(reply: ModelReplied) -> None:
            nonlocal usage
            usage += reply.usage
            self._hear(reply)

        def failed(attempt: ModelFailed) -> None:
            nonlocal usage
            usage += attempt.usage
            self._emit(attempt)

        try:
            with untraced():
                found = await build.answer(agent, question + given, on_reply=heard, on_failure=failed, turn=turn)
            text, usage, ended = found.text, found.usage, not found.stopped
            phases.converse()
        except asyncio.CancelledError:
            text = "Stopped."
            raise
        except NbagentError as error:
            text = str(error)
            raise
        finally:
            self._consent.close()  # also what the turn's code asked for behind its back, by `%pip install`
            claims = self._claims(text) if ended else []
            self.unfinished = answer = _answer(work, text, usage + self._used, ended=ended, claims=claims)
            self._emit(_answered(answer, seconds=time.monotonic() - started))
        self.unfinished = None
        self.history.append(answer)
        return answer

    async def _upload(self, given: Given) -> Uploaded:
        name, source = given if isinstance(given, tuple) else (None, given)
        return await self._files.upload(source, name, to="/workspace", unpack=False)

    async def _ready_agent(self) -> Agent:
        """The agent, made for the first question: only then the data's description is paid for."""
        if self._agent is None:
            from nbagent.agent import build
            from nbagent.agent.middleware.approve import Approvals
            from nbagent.agent.middleware.evaluate import Evaluation
            from nbagent.agent.middleware.outgoing import Outgoing
            from nbagent.agent.middleware.spending import Spending

            model = await self._model.open()
            prompt = await self.system_prompt(images=model.images != "no", structured=model.structured)
            programs = self._kernel.spec.trust.allow_subprocess
            models = (model, *self._model.fallback)
            # A critic may cost something where the model is free.
            paid = (*models, *([self._model.critic] if self._model.critic else []))
            self._spending = Spending(self._options.budget, models=paid, consent=self._consent, turn=lambda: self.turns)
            outgoing = Outgoing(
                models,
                notify=self._emit,
                turn=lambda: self.turns,
                redact=self._options.redact,
                described=lambda: self._told,
            )
            memory = await self._open_memory() if self._open_memory and not model.is_replay else None
            agent = self._agent = build.build_agent(
                model,
                self,
                system_prompt=prompt,
                programs=programs,
                evaluation=Evaluation(model, self._checkable, rounds=self._options.max_iterations, looked=self._looked),
                approvals=Approvals(self._consent, turn=lambda: self.turns),
                memory=memory,
                spending=self._spending,
                outgoing=outgoing,
                fallback=self._model.fallback,
                middleware=[self._reflexion(outgoing), *self._around(model)],
            )
            if self._past and await build.recall(agent):
                agent.history = build.noted(agent.history, note=self._note)
            else:
                agent.history = build.remember(self._past, note=self._note)
        return self._agent

    async def system_prompt(self, *, images: bool, structured: bool = False) -> str:
        """What a model must know of the sandbox and the data, which is described for it.

        Args:
            images: Whether it is shown the figures.
            structured: Whether it replies with objects instead of calls.
        """
        from nbagent.agent import prompts

        seen = await describe(self._kernel, [each.path for each in self._recording.data])
        if self._recording.left_out:
            seen.insert(0, {"path": DATA, "note": " ".join(self._recording.left_out)})
        self._told = prompts.data_section(seen)
        return prompts.system_prompt(
            seen,
            timeout=self._kernel.spec.trust.limits.timeout,
            python=self._kernel.python,
            versions=self._kernel.pins,
            images=images,
            hosts=self._hosts,
            outside=self._tools is not None and not structured,
            structured=structured,
        )

    def _reflexion(self, outgoing: Outgoing) -> AgentMiddleware[Any, Any, Any]:
        from nbagent.agent.middleware.reflexion import Reflexion

        return Reflexion(
            notify=self._hear,
            turn=lambda: self.turns,
            critic=self._model.critic,
            max_attempts=self._options.max_attempts,
            checked=outgoing.critique,
        )

    def _around(self, model: Model) -> list[AgentMiddleware[Any, Any, Any]]:
        """What offers the model tools that aren't the kernel's own; or reads the objects of one that calls no tools."""
        more: dict[str, Any] = {"notify": self._hear, "turn": lambda: self.turns}
        if model.structured:
            from nbagent.agent.middleware.structured import Structured

            return [Structured([model, *self._model.fallback], **more)]
        more |= {"consent": self._consent, "images": model.images != "no"}
        found: list[AgentMiddleware[Any, Any, Any]] = []
        if self._tools is not None:
            from nbagent.agent.middleware.mcp_tools import McpTools

            found.append(McpTools(self._tools, constraints=self._options.constraints, **more))
        if self._forge is not None:
            from nbagent.agent.middleware.forge_tools import ForgeTools

            found.append(ForgeTools(self._forge, self, **more))
        return found

    def _hear(self, event: Event) -> None:
        """Keep what other programs told the model, whose numbers are not of its making, and what else was used."""
        if isinstance(event, McpToolCalled):
            self._heard.append(event.text)
        elif isinstance(event, Reflected | ModelFailed):
            self._used += event.usage
            if self._spending is not None and isinstance(event, Reflected):
                self._spending.count(event.usage)  # a critic is no part of the agent, whose calls are counted there
        self._emit(event)
        if self._phases is not None:
            self._phases.hear(event)

    def _looked(self, claims: Sequence[Claim], again: bool) -> None:
        if self._phases is not None:
            self._phases.evaluate(claims, again=again)

    def _checkable(self, text: str) -> list[Claim]:
        """The same, for the model to mend: what nbagent could not find out is none of its business."""
        return [claim for claim in self._claims(text) if claim is not UNCHECKED]

    def _claims(self, text: str) -> list[Claim]:
        """The numbers of an answer; what the questions, the code and the data's description say is not the model's."""
        from nbagent.agent.claims import claims

        cells, asked = self._recording.cells, self._recording.questions
        if self._claimed[:2] == (text, len(cells)):
            return self._claimed[2]  # as it was looked at a moment ago, before it was given
        given = [self._told, *self._heard, *(each.question for each in asked), *(cell.code for cell in cells)]
        data = bool(self._recording.data or self._recording.uploads or self._heard)
        found = [UNCHECKED]
        with contained("The numbers of an answer were not looked for in the outputs"):
            found = claims(text, {cell.cell: self._recording.outputs(cell) for cell in cells}, given=given, data=data)
        self._claimed = text, len(cells), found
        return found

    # -- what the agent's tools call (`agent.runs.Runs`) -------------------------------------------------------

    async def run_cell(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's own
        tool: str = "python",
    ) -> Cell:
        """Run a cell for the question that is being answered."""
        from nbagent.agent.middleware.approve import approver

        if self._phases is not None:
            self._phases.reason(tool)
        return await self._cells.run(code, timeout=timeout, work=self._work, tool=tool, approver=approver())

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session."""
        added = await self._kernel.install(requirements)
        self._work.installed += added
        return added

    async def confirm(self, packages: list[Package], *, own: bool) -> None:
        """Ask about packages that the model's code needs, also once its turn is over: it may have left a thread.

        Args:
            packages: In exactly these versions.
            own: Whether a person's own work runs, which asks nobody.

        Raises:
            InstallRefused: They are not approved.
        """
        if self._asking is not None or not own:
            await self._consent.install(packages, turn=self.turns)

    async def install_module(self, module: str) -> list[Package]:
        """Install what has a module."""
        added = await self._kernel.install_module(module)
        self._work.installed += added
        return added

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        """Files in /tmp/output: the first by their names there, and how many there are."""
        return await self._files.output_files(limit=limit)

    async def count_in_file(self, path: str, text: str) -> int:
        """How often a text stands in a file of the sandbox."""
        return await self._files.count(path, text)


def hosts_told(trust: Trust, *, ask_hosts: bool) -> tuple[str, ...] | None:
    """What of the network the model is told of.

    Args:
        trust: What is permitted.
        ask_hosts: Whether somebody is asked about a host that isn't listed.
    """
    if trust.network is Network.LISTED and ask_hosts:
        return (*(trust.allowed_hosts or ()), "what a person allows when the code asks for it")
    return trust.allowed_hosts if trust.network_enabled else ()


def _answer(work: Work, text: str, usage: Usage, *, ended: bool, claims: list[Claim]) -> Answer:
    cells = list(work.cells)
    return Answer(
        text=text,
        cells=cells,
        files=list(dict.fromkeys(work.files)),
        usage=usage,
        success=ended and bool(text) and (not cells or cells[-1].success or _borne_out(claims)),
        attempts=1 + sum(not cell.success for cell in cells),
        installed=[*work.installed, *(package for cell in cells for package in cell.installed)],
        turn=work.turn,
        claims=claims,
    )


def _borne_out(claims: Sequence[Claim]) -> bool:
    return bool(claims) and all(claim.supported for claim in claims)


def _answered(answer: Answer, *, seconds: float) -> Answered:
    return Answered(
        turn=answer.turn,
        text=answer.text,
        success=answer.success,
        attempts=answer.attempts,
        usage=answer.usage,
        seconds=seconds,
        claims=answer.claims,
    )
