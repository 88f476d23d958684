"""A session: questions in, a stream of events out, a notebook at the end.

It owns the sandboxed kernel, the agent and the log, and is the one place where they meet. What these are made of is
imported when a session is made and started: who imports this module waits for nothing that it may never use.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack, overload

from nbagent import settings, store
from nbagent.errors import NbagentError, UsageError
from nbagent.events import Answer, Cell, FileSaved, Package, Record, RedactionSet, Renamed, SessionEnded
from nbagent.options import Keywords, Options
from nbagent.options import declared as option
from nbagent.policy import MIB

if TYPE_CHECKING:
    from nbagent.agent.agent import Agent
    from nbagent.agent.memory import Memory
    from nbagent.agent.runs import Runs
    from nbagent.audit import Audit
    from nbagent.forge import ToolForge
    from nbagent.kernel.kernel import Kernel
    from nbagent.kernel.pool.pool import KernelPool
    from nbagent.kernel.transfer.ends import Source
    from nbagent.mcp.client import McpClient
    from nbagent.packages.allowance import Allowance
    from nbagent.safety.consent import Decision
    from nbagent.safety.ledger import Ledger
    from nbagent.sandbox.contract import Engine
    from nbagent.session.attachments import Given
    from nbagent.session.cells import Cells
    from nbagent.session.conversation import Conversation
    from nbagent.session.door import Door
    from nbagent.session.files import SessionFiles
    from nbagent.session.index import Known
    from nbagent.session.listing import Listing, Uploaded
    from nbagent.state import Artifact, StateManager
    from nbagent.telemetry import Metrics

Status = Literal["new", "starting", "running", "stopped"]
NOTEBOOK = "notebook.ipynb"
"""What a notebook is called that nobody named."""

Part = TypeVar("Part")


class Session:
    """A conversation about data, whose code runs in a sandboxed kernel.

    Use it as an asynchronous context manager. What isn't given is taken from the person's settings.

    Args:
        options: What it is to be; the person's settings by default.
        session: An id for a new session; made up by default.
        pool: Warm kernels, one of which is taken if it fits; small data is copied into it, as it is at the start.
        **keywords: Single options by name (`nbagent.options.Options`), in place of those.

    Attributes:
        id: The session's name, also of its folder.
        options: What it is to be.
        status: Where it is in its life.
        consent: What the model must ask for; its mode may be changed at any time.
        ask_hosts: As given; to be changed only before the start.
        news: What `start` found out before anybody could follow: of the data, or of a session that is gone on with.

    Raises:
        UsageError: Something of this is wrong.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        session: str | None = None,
        pool: KernelPool | None = None,
        **keywords: Unpack[Keywords],
    ) -> None:
        from nbagent.agent.opener import ModelOpener
        from nbagent.agent.options import AgentOptions
        from nbagent.audit import read_key
        from nbagent.notebook.record import Recording
        from nbagent.safety.consent import Consent, Mode
        from nbagent.sandbox.spec import SandboxSpec
        from nbagent.session.inputs import known_engine, known_restore, mcp_servers, resolve_data
        from nbagent.telemetry import Telemetry

        chosen = self.options = (options or settings.load()).but(**keywords)
        if chosen.background:
            raise UsageError("A Session lives as long as its own process.", mend="Use nbagent.host(…) instead.")
        self._engine_name = known_engine(chosen.engine)
        self._agent = AgentOptions.of(chosen)
        self._model = ModelOpener(
            chosen.model,
            record=Path(chosen.record) if chosen.record else None,
            fallback=chosen.fallback,
            critic=chosen.critic,
            priced=chosen.budget.money is not None,
            structured=chosen.replies == "structured",
        )
        self._restore = known_restore(chosen.restore)
        self.id = session or store.new_session_id()
        self._spec = SandboxSpec.of(chosen, owner=self.id, data=resolve_data(chosen.data))
        if chosen.record:
            store.check_not_data(Path(chosen.record), [mount.source for mount in self._spec.data])
        self.ask_hosts = chosen.ask_hosts
        self._servers = mcp_servers(chosen.mcp)
        self._tools: McpClient | None = None
        self._forge: ToolForge | None = None
        self._state: StateManager | None = None
        self.consent = Consent(
            Mode.parse(chosen.approvals),
            lambda event: self._running_journal().emit(event),
            allow=chosen.allow,
            attended=chosen.attended,
            unattended=chosen.unattended,
        )
        self._keeps_mode = keywords.get("approvals") is None
        self._keeps_redaction = keywords.get("redact") is None
        self._root = store.state_root(chosen.state_dir)
        self._output = Path(chosen.output_dir).expanduser().absolute() if chosen.output_dir else None
        self._audit_key = read_key(chosen.audit_key_file)
        self._telemetry = Telemetry(self.id, level=chosen.log_level, format=chosen.log_format)
        self._audit: Audit | None = None
        self._pool = pool
        self.status: Status = "new"
        self.news: list[Record] = []
        self.door: Door | None = None
        self._recording = Recording()
        self._journal: store.Journal | None = None
        self._kernel: Kernel | None = None
        self._exchange: SessionFiles | None = None
        self._cells: Cells | None = None
        self._conversation: Conversation | None = None
        self._found: Known | None = None
        self._pins: dict[str, str] = {}
        self._own = 0
        self._allowance: Allowance | None = None
        self._closed = asyncio.Event()

    # -- its life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        # What `connect` returns runs already.
        if not (self._found and self.is_running):
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Whether cells can run and questions be asked."""
        return self.status == "running"

    @property
    def engine(self) -> str:
        """The engine's name; empty before the start if it is chosen by itself."""
        return self._kernel.engine.name if self._kernel else self._engine_name or ""

    @property
    def trust(self) -> str:
        """The trust level's name."""
        return self._spec.trust.level.value

    @property
    def data(self) -> list[str]:
        """Where the code sees its data."""
        return [mount.target for mount in self._spec.data]

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """What of the network the code may reach: rules, or None for all of it."""
        from nbagent.session.conversation import hosts_told

        return hosts_told(self._spec.trust, ask_hosts=self.ask_hosts)

    @property
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""
        return self._model.is_replay

    @property
    def metrics(self) -> Metrics:
        """What this session has done so far, in numbers."""
        return self._telemetry.metrics.snapshot()

    @property
    def last(self) -> int:
        """The number of the log's last record."""
        return self._running_journal().last

    @property
    def folder(self) -> Path:
        """The session's own folder on the host."""
        return self._running_journal().folder

    def keeps(self, size: int) -> bool:
        """Count bytes that somebody is about to write into the session's folder; False if there is no room for them."""
        return self._running_journal().quota.take(size)

    async def start(self) -> None:
        """Start the sandbox; a model that was named is opened, so that what is wrong with it shows first.

        Raises:
            UsageError: The session was started before, or the model can't be had.
            SandboxError: No engine works here, or the sandbox can't be started.
            StoreError: The session's folder can't be written.
        """
        if self.status != "new":
            raise UsageError(f"This session is {self.status}.", mend="Make a new one.")
        self.status = "starting"
        try:
            await self._begin()
        except BaseException:
            await self.stop()
            raise
        from nbagent.session.door import Door

        self.status = "running"
        self.door = Door(self, consent=self.consent)
        await self.door.open()

    @classmethod
    async def connect(cls, session: str, **keywords: Unpack[Keywords]) -> Session:
        """Go on with a session whose process is gone: `resumed`, started.

        Raises:
            UsageError: There is none of that name.
            StoreError: Another process has it.
            SandboxError: No sandbox can be started in place of its own.
        """
        known = cls.resumed(session, **keywords)
        await known.start()
        return known

    @classmethod
    def resumed(cls, session: str, **keywords: Unpack[Keywords]) -> Session:
        """A session whose process is gone, to be started again: with its log, and its kernel's variables if that lives.

        If the kernel does not live any more, `start` makes a new one, and an event says what is lost. Questions and
        answers so far are known to the model again.

        Args:
            session: Its id, or enough of its beginning.
            **keywords: Options that hold from now on, by name. What its sandbox is can't be changed. Nobody is asked
                about less, and nothing less is hidden, than until now, unless it is named here. `restore="replay"`
                knows the cells of a kernel that is taken over too; one that is gone already is not brought back.

        Raises:
            UsageError: There is none of that name, or an option can't be changed any more.
        """
        from nbagent.sandbox.spec import check_asking
        from nbagent.session import index, saved

        if fixed := [name for name in keywords if not option(name)[-1].resumed]:
            raise UsageError(f"The option {fixed[0]} of a session can't be changed any more.", mend="Start a new one.")
        chosen = settings.load(**keywords)
        found = index.look_up(store.state_root(chosen.state_dir), session)
        known = cls(chosen, engine=found.engine, session=found.id)
        known._spec, known._found = saved.read_spec(found), found
        known._keeps_mode = keywords.get("approvals") is None
        known._keeps_redaction = keywords.get("redact") is None
        if known.ask_hosts:
            check_asking(known._spec.trust)
        return known

    async def _begin(self) -> None:
        from nbagent.kernel.kernel import Kernel
        from nbagent.packages.allowance import Allowance
        from nbagent.sandbox import registry
        from nbagent.session import startup

        self._model.check()
        engine = self._pool.engine_for(self._engine_name, self._spec) if self._pool else None
        engine = engine or await registry.choose(self._engine_name, image=self._spec.image, specs=[self._spec])
        if not engine.isolates:
            self._spec = replace(self._spec, keep=0)
        journal = self._journal = store.Journal(self._root, self.id, limit=self._spec.trust.limits.session_mb * MIB)
        self._observe(journal)
        # One for all its sandboxes: those after a resume, and those in which tools are made.
        self._allowance = Allowance(self._spec.install, journal.folder / "asked.json")
        self._forge = self._tool_forge(engine, journal)
        kernel = self._kernel = Kernel(
            engine,
            self._spec,
            notify=journal.emit,
            spill=journal.spill,
            ask_hosts=self.ask_hosts,
            restore=self._restore,
            confirm=self._confirm_install,
            exceed=self._exceed,
            allowance=self._allowance,
            quota=journal.quota,
        )
        opening = asyncio.create_task(self._open_model()) if self._model.name else None
        await startup.side_by_side(self._come_to(kernel, journal), opening)

    async def _open_model(self) -> None:
        """Open the model, and import what the first question needs, which takes seconds."""
        await self._model.open()
        await asyncio.to_thread(importlib.import_module, "nbagent.agent.build")

    async def _come_to(self, kernel: Kernel, journal: store.Journal) -> None:
        """Start the kernel or take it over, and make what works with it."""
        from nbagent.session import startup

        recording, note = self._recording, ""
        if self._found:
            self.news, note = await startup.take_up(kernel, self._found, journal=journal, recording=recording)
        else:
            self.news = await startup.start(
                kernel, spec=self._spec, journal=journal, recording=recording, pool=self._pool
            )
        # Only now: these were imported while the kernel started.
        from nbagent.session.cells import Cells
        from nbagent.session.conversation import Conversation
        from nbagent.session.files import SessionFiles

        self.consent.begin((record.event for record in journal.since()), keep=bool(self._found) and self._keeps_mode)
        self._go_on_redacting(journal)
        # Results that landed elsewhere are not seen in the session's folder.
        past = list(recording.files.values())
        journal.quota.add(sum(each.size for each in past if not Path(each.path).is_relative_to(journal.folder)))
        emit, alone = journal.emit, asyncio.Lock()
        files = SessionFiles(
            kernel,
            self._output or journal.folder / "output",
            data=self._spec.data,
            emit=emit,
            alone=alone,
            quota=journal.quota,
            past=past,
        )
        cells = Cells(kernel, files, recording=recording, emit=emit, alone=alone, hosts=self.hosts)
        if self._servers:
            from nbagent.mcp.client import McpClient

            self._tools = McpClient(self._servers, notify=emit, seen=self._root / "mcp-tools.json")
        self._conversation = Conversation(
            cells,
            files,
            open_agent=partial(self._open_agent, cells, note),
            recording=recording,
            emit=emit,
            consent=self.consent,
        )
        self._exchange, self._cells, self._pins = files, cells, kernel.pins

    def _go_on_redacting(self, journal: store.Journal) -> None:
        """Hide no less than before in what went out already, unless a person says otherwise; another choice is told."""
        from nbagent.safety.redaction import STRICT, Redactor, in_past

        was, now = in_past(record.event for record in journal.since()), self._agent.redact.what
        if self._found and self._keeps_redaction and STRICT.index(was) > STRICT.index(now):
            self._agent = replace(self._agent, redact=Redactor(was))
        elif was != now:
            journal.emit(RedactionSet(what=now))

    def _tool_forge(self, engine: Engine, journal: store.Journal) -> ToolForge | None:
        if not self._agent.forge:
            return None
        from nbagent.forge import ToolForge

        return ToolForge(
            self._root,
            engine=engine,
            spec=self._spec,
            notify=journal.emit,
            confirm=self._confirm_install,
            exceed=self._exceed,
            allowance=self._allowance,
        )

    async def _open_agent(self, cells: Cells, note: str, past: Sequence[tuple[str, str]]) -> Agent:
        from nbagent.agent.build import build

        return await build(
            cells,
            self._model,
            options=self._agent,
            consent=self.consent,
            tools=self._tools,
            forge=self._forge,
            open_memory=self._open_memory,
            past=past,
            note=note,
        )

    async def _open_memory(self) -> Memory:
        """Where the conversation outlives this process."""
        from nbagent.state import StateManager, Turns

        self._state = StateManager(url=self.options.state_url, session_id=self.id, root=self._root)
        await self._state.initialize()
        return Turns(self._state.checkpointer, self.id)

    async def _confirm_install(self, packages: list[Package]) -> None:
        if self._conversation is not None:
            await self._conversation.confirm(packages, own=self._own > 0)

    async def _exceed(self, names: list[str], reason: str) -> None:
        turn = self._conversation.turns if self._conversation is not None else 0
        await self.consent.exceed(names, reason, turn=turn)

    def _observe(self, journal: store.Journal) -> None:
        """Have the audit log written and the events counted, traced and logged from the first one on."""
        from nbagent.audit import Audit
        from nbagent.session.summary import Keeper

        self._audit = Audit(
            journal.folder,
            root=self._root,
            session=self.id,
            past=journal.since(),
            key=self._audit_key,
            count=journal.quota.add,
        )
        journal.follow(self._audit.on_event, strict=True)  # no code without a trace of it
        journal.follow(self._telemetry.on_event)
        journal.follow(Keeper(journal.folder, past=journal.since()).on_event)

    @property
    def outlasts_login(self) -> bool:
        """Whether its kernel, once it is let go of, goes on when the person logs out."""
        return self._kernel is None or self._kernel.engine.lasting

    async def detach(self) -> None:
        """Let go of the session, and leave its kernel running to be taken over by `connect`, for `keep_minutes`."""
        if self._kernel is not None and self.status == "running":
            await self._kernel.detach()
        await self.stop()

    async def stop(self, reason: str = "") -> None:
        """End the sandbox and let go of the session; its folder and log stay. May be called at any time."""
        was, self.status = self.status, "stopped"
        if self.door is not None:
            self.door.shut()
        if self._conversation is not None:
            await self._conversation.stop()
        if self._tools is not None:
            await self._tools.close()
        if self._state is not None:
            await self._state.close()
        if self._kernel is not None:
            await self._kernel.stop()
        await self._model.aclose()
        if self._journal is not None:
            if was == "running" and not (self._kernel and self._kernel.is_detached):
                with contextlib.suppress(NbagentError):
                    self._journal.emit(SessionEnded(reason=reason))
            if self.door is not None:
                self.door.close()
            self._journal.close()
        if self._audit is not None:
            self._audit.close()
        self._telemetry.close()
        self._closed.set()

    async def closed(self) -> None:
        """Wait until the session has ended, or was let go of."""
        await self._closed.wait()

    @property
    def is_busy(self) -> bool:
        """Whether anybody is attached, or something that they have asked for goes on by itself."""
        door = self.door
        return door is not None and (door.visitors > 0 or (door.is_working and not self.consent.is_waiting))

    def rename(self, title: str) -> None:
        """Give the session another title; an empty one stands for its first question."""
        from nbagent.session.summary import line_of

        self._running_journal().emit(Renamed(title=line_of(title)))

    @property
    def attended(self) -> bool:
        """Whether somebody follows the events and answers `ApprovalAsked`."""
        return self.consent.attended

    def attend(self, answers: bool = True) -> None:
        """Say whether somebody follows the events and answers `ApprovalAsked`; if nobody does, a policy answers."""
        self.consent.attended = answers

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for."""
        if self._kernel is not None:
            self._kernel.interrupt()
        if self._exchange is not None:
            self._exchange.interrupt()
        if self._conversation is not None:
            self._conversation.interrupt()

    def interrupt_cell(self) -> bool:
        """Stop the running cell only: the model is told, and goes on. Returns whether one was running."""
        stopped = self._kernel is not None and self._kernel.interrupt()
        if stopped:
            self.consent.close()  # it may be waiting for one
        return stopped

    # -- questions ----------------------------------------------------------------------------------------------

    @property
    def turns(self) -> int:
        """Questions asked so far."""
        return self._conversation.turns if self._conversation else 0

    @property
    def history(self) -> list[Answer]:
        """The answers so far."""
        return self._conversation.history if self._conversation else []

    @property
    def unfinished(self) -> Answer | None:
        """What a turn that failed or was stopped had done; None after one that ended."""
        return self._conversation.unfinished if self._conversation else None

    def ledger(self) -> Ledger:
        """What of this session left for models so far: which bytes of which outputs, to whom, with what hidden.

        Raises:
            UsageError: The session was not started.
        """
        from nbagent.safety.ledger import ledger

        return ledger(record.event for record in self._running_journal().since())

    async def ask(self, question: str, *, files: Sequence[Given] = ()) -> Answer:
        """Ask a question, and wait for the answer.

        Args:
            question: In the person's words.
            files: What goes along with it: each is uploaded to /workspace first, and the model is told of it. Paths,
                open files, or pairs of a name and the bytes.

        Raises:
            DataError: A file can't be read.
            TransferError: A file can't be put into the sandbox.
            UsageError: There is no question, another one is being answered, or there is no model.
            ModelCallError: The model's provider failed; the cells that ran are kept.
            ReplayError: The recorded replies ran out.
            SandboxError: The sandbox failed.
        """
        return await self._running(self._conversation).ask(question, files=files)

    def stream(self, question: str, *, files: Sequence[Given] = ()) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens; the last one is `Answered`.

        Who leaves early should close it (`contextlib.aclosing`), which stops the question.

        Raises:
            NbagentError: As for `ask`, after the events that came before.
        """
        from nbagent.session.stream import streamed

        return streamed(partial(self.ask, question, files=files), follow=self.follow)

    # -- for agents of other people's -------------------------------------------------------------------------

    @property
    def runs(self) -> Runs:
        """What runs cells here for an agent that isn't the session's own, see `nbagent.agent.KernelMiddleware`.

        Raises:
            UsageError: The session doesn't run.
        """
        return self._running(self._cells)

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model must know of the sandbox and the data.

        Args:
            images: Whether it is shown the figures.

        Raises:
            UsageError: The session doesn't run.
        """
        from nbagent.agent.prompts import prompt_of

        return prompt_of(await self._running(self._cells).describe(), images=images, outside=self._tools is not None)

    # -- cells, packages, files ---------------------------------------------------------------------------------

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model.

        What its own text declares in a PEP 723 block is the person's word, as what they install is, and not the code's:
        no data can have got into it. It doesn't count for `unknown_names`.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
        from nbagent.packages.requirements import declared

        cells = self._running(self._cells)
        if self._allowance is not None and (named := declared(code)):
            await asyncio.to_thread(self._allowance.take, named, granted=True)
        with self._own_work():
            return await cells.run(code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for this session.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        with self._own_work():
            return await self._running_kernel().install(requirements, by_person=True)

    @contextlib.contextmanager
    def _own_work(self) -> Iterator[None]:
        """While it runs, packages are a person's wish and need no approval."""
        self._own += 1
        try:
            yield
        finally:
            self._own -= 1

    async def upload(
        self, source: Source, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """Put a file into the sandbox; it is there whole or not at all, in place of a plain file of that name.

        Args:
            source: Bytes, the path of a file, or an open binary file.
            name: Its name inside; the file's own by default.
            to: A folder inside, below /workspace or /tmp; made if it isn't there.
            unpack: Unpack a zip or tar archive instead, into a new folder of its name without the ending.

        Raises:
            DataError: The file can't be read.
            TransferLimit: The place, the size, or what is in the archive is not allowed.
            TransferError: It can't be written there, or was stopped.
        """
        return await self._running(self._exchange).upload(source, name, to=to, unpack=unpack)

    @overload
    async def download(self, path: str) -> bytes: ...

    @overload
    async def download(self, path: str, to: str | Path, *, overwrite: bool = False) -> Path: ...

    async def download(self, path: str, to: str | Path | None = None, *, overwrite: bool = False) -> bytes | Path:
        """Fetch a plain file from the sandbox.

        Args:
            path: Where it is inside, below /workspace or /tmp.
            to: A file, or a folder that is there, on the host; without it the contents are returned, up to 256 MB.
            overwrite: Whether a file that is there may be replaced; a link never is followed.

        Returns:
            The contents, or where they are.

        Raises:
            TransferLimit: It is too large, no plain file, or the path is not allowed.
            TransferError: It isn't there, changed while it was read, or its place on the host is taken.
            StoreError: The host's file can't be written.
        """
        return await self._running(self._exchange).download(path, to, overwrite=overwrite)

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is under /workspace and /tmp, /tmp/data and /tmp/output included, or in one folder of them.

        Raises:
            TransferError: There is no such folder.
        """
        return await self._running(self._exchange).files(folder, limit=limit)

    def artifacts(self) -> list[Artifact]:
        """The files that reached the host, and the figures of its cells: each with its size, hash, type and cell."""
        from nbagent.state.views import Views

        return Views(self._root).artifacts(self.id)

    def load_artifact(self, artifact_id: str) -> bytes:
        """The content of one of `artifacts()`.

        Raises:
            StoreError: There is none of that id, or its file is gone or was changed since.
        """
        from nbagent.state.views import Views

        return Views(self._root).load(artifact_id)[1]

    async def deliver(self) -> dict[str, str]:
        """Collect what cells left in /tmp/output and /workspace and what still waits; to be called at the end.

        Returns:
            What will not reach the person, by its path in the sandbox: why. It is gone when the session ends.

        Raises:
            StoreError: The host's folder can't be written.
        """
        return await self._running(self._exchange).deliver()

    def approve(
        self, name: str, decision: Decision = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> bool:
        """Answer an `ApprovalAsked`, from any thread; the turn goes on, and the model is told of a no.

        Args:
            name: The id of the `ApprovalAsked`.
            decision: `approve`, `edit` or `reject`.
            code: For `edit`, what is to run instead.
            reason: For `reject`, why not.
            always: Whether the same may happen for the rest of the session without a question.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: There is no such decision, or an edit has no code, or is of something that has none.
        """
        return self.consent.answer(name, decision, code=code, reason=reason, always=always)

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool:
        """Answer a question about a host; may be called from any thread.

        Args:
            name: The id of the `HostAsked`.
            allow: Whether the code may reach the host.
            remember: Whether that holds for the session, or for the requests that wait; a denial always holds.

        Returns:
            Whether the question was still open: after a minute without an answer it is a denial.
        """
        return self._running_kernel().approve_host(name, allow=allow, remember=remember)

    def allow_host(self, entry: str) -> None:
        """Let the code reach a host from now on, also one that was denied before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this session's code has no list of hosts.
        """
        self._running_kernel().allow_host(entry)

    def check_export(self, path: str | Path, *, force: bool = False) -> None:
        """Complain of a place for the notebook before any work is done for it; arguments and errors as for `export`."""
        from nbagent.notebook import place

        place.check(Path(path), data=[mount.source for mount in self._spec.data], force=force)

    def export(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the session's notebook; returns its absolute path.

        Args:
            path: Its name ends in `.ipynb`. A notebook that nbagent wrote, and nobody changed since, is replaced.
            force: Whether any other notebook is too; data and other files never are.

        Raises:
            UsageError: It has another ending, or something is there that must not be replaced.
            StoreError: It can't be written; a file that was there is intact.
        """
        from nbagent.notebook import export

        written = export.export(self._recording, Path(path), pins=self._pins, force=force)
        # Where any client's kernel looks for it, which knows the settings but not this session's arguments.
        store.remember_export(store.state_root(settings.load().state_dir), written, self._recording.needed)
        if self.status == "running":
            digest = hashlib.sha256(written.read_bytes()).hexdigest()
            self._running_journal().emit(FileSaved(path=str(written), size=written.stat().st_size, sha256=digest))
        return written

    def export_last(self, out: Path | None, *, force: bool = False) -> tuple[Path, NbagentError | None]:
        """Write the notebook when all is done: if its place was taken meanwhile, into the session's folder.

        Args:
            out: Where it was wanted; None for the session's folder.
            force: As for `export`.

        Returns:
            Where it is, and why it isn't where it was wanted.

        Raises:
            StoreError: It can't be written there either.
        """
        from nbagent.notebook import place

        if out is not None:
            try:
                return self.export(out, force=force), None
            except NbagentError as error:
                kept = self.export(place.free(self.folder / NOTEBOOK))
                return kept, type(error)(error.message, mend=f"The notebook is {kept}.")
        return self.export(place.free(self.folder / NOTEBOOK)), None

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records of the log after number `seq`."""
        return self._running_journal().since(seq)

    def follow(self, reader: Callable[[Record], None], *, since: int | None = None) -> Callable[[], None]:
        """Call `reader` with each record, as it happens; returns what ends that.

        Args:
            reader: Gets the records.
            since: Begin with those of the log after this number; with what happens from now on by default.
        """
        journal = self._running_journal()
        if since is None:
            return journal.follow(reader)
        last, lock = since, threading.RLock()  # some events come from other threads

        def take(record: Record) -> None:
            nonlocal last
            with lock:
                if record.seq > last:
                    last = record.seq
                    reader(record)

        with lock:
            unfollow = journal.follow(take)
            for record in journal.since(since):
                take(record)
        return unfollow

    # -- parts --------------------------------------------------------------------------------------------------

    def _running_journal(self) -> store.Journal:
        if self._journal is None:
            raise UsageError("This session was not started.", mend="Use it in `async with`, or call start().")
        return self._journal

    def _running(self, part: Part | None) -> Part:
        """What the start has made."""
        self._running_kernel()
        if part is None:
            raise UsageError("This session is still starting.", mend="Wait for start().")
        return part

    def _running_kernel(self) -> Kernel:
        if self._kernel is None or self.status in ("new", "stopped"):
            state = "was stopped" if self.status == "stopped" else "was not started"
            raise UsageError(f"This session {state}.", mend="Use it in `async with`, or call start() first.")
        return self._kernel
