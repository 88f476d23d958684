"""The parts of a started session: its logs, its kernel, its cells and files, the agent and its tools."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import UsageError
from nbagent.core.events import Cell, Event, Package, Record, RedactionSet
from nbagent.core.policy import MIB
from nbagent.core.session_log import SessionLog
from nbagent.kernel.cell_replay import SucceededCells
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import Recording
from nbagent.observability.audit import Audit
from nbagent.observability.telemetry import Telemetry
from nbagent.packages.allowance import Allowance
from nbagent.packages.requirements import script_requirements
from nbagent.safety.approvals import Consent
from nbagent.safety.redaction import BY_STRICTNESS, Redactor, in_past
from nbagent.sandbox import registry
from nbagent.session import startup
from nbagent.session.catalog.summary import Summary, SummaryKeeper
from nbagent.session.plan import Plan
from nbagent.session.stream import WordFeed

if TYPE_CHECKING:
    from nbagent.agent.agent import Agent
    from nbagent.agent.memory import Memory
    from nbagent.forge import ToolForge
    from nbagent.kernel.pool.pool import KernelPool
    from nbagent.mcp.client import McpClient
    from nbagent.sandbox.contract import Engine
    from nbagent.session.conversation import Conversation
    from nbagent.session.files.session_files import SessionFiles
    from nbagent.session.session_kernel import SessionKernel
    from nbagent.state import StateManager


class Parts:
    """The parts of one session, made by `begin` and ended by `end`.

    Args:
        plan: What the session is to be.
        consent: Decides whether the model's tools may act.
        telemetry: Counts, traces and logs its events.
        hosts: Rules of the hosts that the code may reach; None for the whole network.
        ask_hosts: Whether a person is asked about hosts that aren't listed.

    Attributes:
        words: The words of the reply that a model writes now.
        recording: The session so far, for the notebook.
        cells: Runs cells. This and the next three are None until the kernel runs.
        tools: The MCP servers; None without any.
        succeeded: The code of the cells that succeeded.
        news: The events that the start emitted before anybody could follow.

    Raises:
        StoreError: The session's folder can't be written, or another process has it.
        UsageError: The session is new, and there is one of its id.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        *,
        consent: Consent,
        telemetry: Telemetry,
        hosts: tuple[str, ...] | None,
        ask_hosts: bool,
    ) -> None:
        self._plan = plan
        self._consent = consent
        self._hosts = hosts
        self._own_calls = 0
        self._hashing: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        self._state: StateManager | None = None
        self.succeeded = SucceededCells()
        self._past = startup.Past()
        self.recording = Recording()
        self.cells: SessionKernel | None = None
        self.files: SessionFiles | None = None
        self.conversation: Conversation | None = None
        self.tools: McpClient | None = None
        self.news: list[Record] = []
        self.words = WordFeed()
        self.log = SessionLog(plan.root, plan.id, limit=plan.spec.trust.limits.session_mb * MIB)
        with contextlib.ExitStack() as opened:
            opened.callback(self.log.close)
            if plan.found is None and self.log.last:
                mend = f"Resume it by: nbagent resume {plan.id}, or choose another id."
                raise UsageError(f"There is a session {plan.id} already.", mend=mend)
            self._audit = Audit(
                self.log.folder, root=plan.root, session=plan.id, key=plan.audit_key, count=self.log.quota.add
            )
            opened.callback(self._audit.close)
            self._observe(telemetry)
            # One for all its sandboxes: those after a resume, and those in which tools are made.
            self._allowance = Allowance(plan.spec.install, self.log.folder / "asked.json")
            self._forge = self._tool_forge(engine)
            opened.pop_all()
        self.kernel = Kernel(
            engine,
            plan.spec,
            notify=self.log.emit,
            spill=self.log.spill,
            ask_hosts=ask_hosts,
            restore=plan.restore,
            confirm=self._confirm_install,
            exceed=self._exceed,
            allowance=self._allowance,
            quota=self.log.quota,
        )

    @staticmethod
    async def engine_for(plan: Plan, pool: KernelPool | None) -> Engine:
        """The engine of a warm kernel that fits the plan, else the engine that the plan names, else the best one."""
        engine = pool.engine_for(plan.engine, plan.spec) if pool else None
        return engine or await registry.choose(plan.engine, image=plan.spec.image, specs=[plan.spec])

    async def begin(self, pool: KernelPool | None) -> None:
        """Start the kernel or take one over, while the model is opened, and make all other parts."""
        opening = asyncio.create_task(self._open_model()) if self._plan.model.name else None
        await startup.side_by_side(self._begin(pool), opening)

    async def _open_model(self) -> None:
        """Open the model, and import what the first question needs, which takes seconds."""
        await self._plan.model.open()
        await asyncio.to_thread(importlib.import_module, "nbagent.agent.build")

    async def _begin(self, pool: KernelPool | None) -> None:
        plan, log, recording, note = self._plan, self.log, self.recording, ""
        past = self._past
        if plan.found:
            self.news, note = await startup.resume(
                self.kernel, plan.found, log=log, recording=recording, succeeded=self.succeeded, past=past
            )
        else:
            self.news = await startup.start(self.kernel, spec=plan.spec, log=log, pool=pool)
            if recording.data:
                hashing = startup.hash_data(recording.data, log, ended=self._ended)
                self._hashing = asyncio.create_task(hashing)
        self._consent.begin(past.decisions, keep=bool(plan.found) and plan.keeps_mode)
        self._go_on_redacting(past.decisions)
        self._furnish(note)
        if self.files is not None and not self.kernel.is_owned:
            await self.files.pass_over()

    def _furnish(self, note: str) -> None:
        """Make the parts that need a running kernel."""
        # Imported here: `startup.import_the_rest` has done it while the kernel started.
        from nbagent.session.conversation import Conversation
        from nbagent.session.files.session_files import SessionFiles
        from nbagent.session.session_kernel import SessionKernel

        plan, log, emit, alone = self._plan, self.log, self.log.emit, asyncio.Lock()
        # Results that landed outside of the session's folder are not counted with that.
        past = self.recording.files.values()
        log.quota.add(sum(each.size for each in past if not Path(each.path).is_relative_to(log.folder)))
        files = self.files = SessionFiles(
            self.kernel,
            plan.output or log.folder / "output",
            data=plan.spec.data,
            emit=emit,
            alone=alone,
            quota=log.quota,
            recording=self.recording,
        )
        cells = self.cells = SessionKernel(
            self.kernel, files, recording=self.recording, emit=emit, alone=alone, hosts=self._hosts
        )
        if plan.servers:
            from nbagent.mcp.client import McpClient

            self.tools = McpClient(plan.servers, notify=emit, seen=plan.root / "mcp-tools.json")
        self.conversation = Conversation(
            cells,
            files,
            open_agent=partial(self._open_agent, cells, note),
            recording=self.recording,
            emit=emit,
            say=self.words.say,
            consent=self._consent,
        )
        log.follow(self.words.hear)

    def _observe(self, telemetry: Telemetry) -> None:
        """Have all who need the events so far read the log, once, and follow it from now on."""
        log, audit, summary = self.log, self._audit.on_event, Summary()
        both = (self.recording.on_event, self.succeeded.on_event)
        for record in log.since():
            for reader in (audit, *both, summary.on_event, self._past.on_event):
                reader(record)
        log.follow(audit, strict=True)  # no code without a trace of it
        self._summary = SummaryKeeper(log.folder, summary)
        for reader in (*both, telemetry.on_event, self._summary.on_event):
            log.follow(reader)

    def _go_on_redacting(self, past: Sequence[Event]) -> None:
        """Keep a resumed session's redaction at least as strict as it was, unless it was named; log a change."""
        plan = self._plan
        was, now = in_past(past), plan.agent.redact.what
        if plan.found and plan.keeps_redaction and BY_STRICTNESS.index(was) > BY_STRICTNESS.index(now):
            plan.agent = replace(plan.agent, redact=Redactor(was))
        elif was != now:
            self.log.emit(RedactionSet(what=now))

    def _tool_forge(self, engine: Engine) -> ToolForge | None:
        if not self._plan.agent.forge:
            return None
        from nbagent.forge import ToolForge

        return ToolForge(
            self._plan.root,
            engine=engine,
            spec=self._plan.spec,
            notify=self.log.emit,
            confirm=self._confirm_install,
            exceed=self._exceed,
            allowance=self._allowance,
        )

    async def _open_agent(
        self, cells: SessionKernel, note: str, past: Sequence[tuple[str, str]], question: str
    ) -> Agent:
        from nbagent.agent.build import build

        return await build(
            cells,
            self._plan.model,
            options=self._plan.agent,
            consent=self._consent,
            tools=self.tools,
            forge=self._forge,
            open_memory=self._open_memory,
            past=past,
            note=note,
            question=question,
        )

    async def use_model(self, name: str) -> None:
        """See `AnySession.use_model`."""
        if self.conversation is None or self.conversation.is_asking:
            raise UsageError("A question is being answered.", mend="Wait for it, or interrupt it.")
        opener = self._plan.model.renamed(name)
        opener.check()
        await opener.open()
        before, self._plan.model = self._plan.model, opener
        self.conversation.renew()
        await self._close_state()
        await before.aclose()

    async def _open_memory(self) -> Memory:
        """Open the conversation's memory, which outlives this process."""
        from nbagent.state import StateManager, ThreadMemory

        plan = self._plan
        self._state = StateManager(url=plan.options.state_url, session_id=plan.id, root=plan.root)
        await self._state.initialize()
        return ThreadMemory(self._state.checkpointer, plan.id)

    # -- a person's own work ------------------------------------------------------------------------------------

    async def run(self, cells: SessionKernel, code: str, *, timeout: float | None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a person's cell; the names in its PEP 723 block are the person's own, so they use up no allowance."""
        if named := script_requirements(code):
            await asyncio.to_thread(self._allowance.take, named, granted=True)
        with self._own_work():
            return await cells.run(code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install what a person named; see `Kernel.install`."""
        with self._own_work():
            return await self.kernel.install(requirements, by_person=True)

    @contextlib.contextmanager
    def _own_work(self) -> Iterator[None]:
        """Meanwhile packages are installed for the person, and need no approval."""
        self._own_calls += 1
        try:
            yield
        finally:
            self._own_calls -= 1

    async def _confirm_install(self, packages: list[Package]) -> None:
        if self.conversation is not None:
            await self.conversation.confirm(packages, own=self._own_calls > 0)

    async def _exceed(self, names: list[str], reason: str) -> None:
        turn = self.conversation.turns if self.conversation is not None else 0
        await self._consent.exceed(names, reason, turn=turn)

    async def data_hashed(self) -> None:
        """Wait until the data and all variables have been hashed, which an export needs."""
        if self._hashing is not None:
            await asyncio.wait([self._hashing])
        if self.files is not None:
            await self.files.given.hashed()

    # -- its end ------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for."""
        self.kernel.interrupt()
        if self.files is not None:
            self.files.interrupt()
        if self.conversation is not None:
            self.conversation.interrupt()

    async def end(self, *, by: asyncio.Task[Any] | None = None) -> None:
        """End the sandbox and all other parts but the logs; each one, also if the end of another one fails."""
        self._ended.set()
        async with contextlib.AsyncExitStack() as ends:  # from the last one to the first
            if self.files is not None:
                ends.callback(self.files.given.close)
            ends.push_async_callback(self.data_hashed)
            ends.push_async_callback(self.kernel.stop)
            ends.push_async_callback(self._close_state)
            if self.tools is not None:
                ends.push_async_callback(self.tools.close)
            if self.conversation is not None:
                ends.push_async_callback(self.conversation.stop, by=by)

    async def _close_state(self) -> None:
        if self._state is not None:  # the question that was just stopped may have opened it
            state, self._state = self._state, None
            await state.close()

    def close(self) -> None:
        """Close the logs."""
        try:
            self._summary.save()
            self.log.close()
        finally:
            self._audit.close()
