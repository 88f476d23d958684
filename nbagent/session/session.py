"""A session: questions in, a stream of events out, a notebook at the end.

It owns the sandboxed kernel, the agent and the log, and is the one place where they meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from nbagent import audit, settings, store
from nbagent.agent.providers.opener import ModelOpener
from nbagent.errors import NbagentError, UsageError
from nbagent.events import FileSaved, Package, Record, RedactionSet, SessionEnded
from nbagent.kernel.cell import Cell
from nbagent.kernel.kernel import Kernel, Restore
from nbagent.kernel.transfer.ends import Source
from nbagent.mcp.client import McpClient
from nbagent.notebook import place
from nbagent.notebook.record import Recording
from nbagent.packages.allowance import Allowance
from nbagent.packages.requirements import declared
from nbagent.policy import MIB, Limits
from nbagent.safety.budget import Budget
from nbagent.safety.consent import Consent, Decision, Mode, Unattended
from nbagent.safety.ledger import Ledger, ledger
from nbagent.safety.redaction import STRICT, Redactor, in_past
from nbagent.sandbox import registry
from nbagent.session import saved, startup
from nbagent.session.attachments import Given
from nbagent.session.cells import Cells
from nbagent.session.conversation import Answer, Conversation, hosts_told, streamed
from nbagent.session.files import Listing, SessionFiles, Uploaded
from nbagent.session.inputs import Data, check_asking, known_engine, known_restore, mcp_servers, sandbox_spec
from nbagent.session.options import AgentOptions, Replies
from nbagent.telemetry import Metrics, Telemetry

if TYPE_CHECKING:
    from nbagent.agent.memory import Memory
    from nbagent.agent.tools.python import Runs
    from nbagent.forge import ToolForge
    from nbagent.kernel.pool.pool import KernelPool
    from nbagent.sandbox.engine import Engine
    from nbagent.state import StateManager

Status = Literal["new", "starting", "running", "stopped"]
NOTEBOOK = "notebook.ipynb"
"""What a notebook is called that nobody named."""

Part = TypeVar("Part")


class Session:
    """A conversation about data, whose code runs in a sandboxed kernel.

    Use it as an asynchronous context manager. What is None is taken from the person's settings.

    Args:
        model: `provider:model` or `replay:FILE`; found by itself when the first question comes, if it isn't named.
        fallback: Models that are asked, in this order, where the one before them fails.
        critic: A model that criticises code that failed before it is tried again, or `same` for the model itself; each
            critique is a call. None by default.
        replies: `structured` for a model that can't call tools: it replies with `nbagent.agent.GeneratedCode` as JSON,
            and is offered no tools of MCP servers, nor of the forge. `tools` by default.
        max_attempts: Replies in a row whose code may fail before the model must answer in words.
        max_iterations: How often an answer is sent back whose numbers stand in no output; once by default, 0 for never.
        budget: What one question may use, such as `0.50usd, 200k tokens, 10min, 20steps`, or a `Budget`; by default 30
            steps, which are calls of the model. Once it is used up a person is asked; where nobody is, the turn ends.
        redact: What is hidden in what goes to models: `secrets` (default), `pii` (also addresses of mail, numbers of
            cards, accounts and social security) or `none`. The notebook keeps it.
        data: Files and folders that the sandbox sees read-only at `/tmp/data/NAME`; as a dict, by names of your own.
        engine: `docker`, `bubblewrap` or `local`; the best that works here by default.
        trust: `isolated`, `sandboxed`, `untrusted` or `trusted`.
        limits: Bounds that replace the trust level's own, whole.
        timeout: Seconds a cell may run.
        memory_mb: Memory of the sandbox in MiB.
        image: The Docker image of the kernel.
        security: Security options that replace the trust level's own, by name (`nbagent.policy.OPTIONS`), for example
            `{"allowed_hosts": ["api.example.org"]}`.
        accept: Names of limits that may stay unenforced.
        ask_hosts: Whether somebody follows the events and answers `HostAsked` with `approve_host`; then code reaches
            hosts at any level, those listed and those allowed. Otherwise a host that isn't listed is denied at once.
        approvals: What a person is asked about before the model does it: `never-ask` (default), `auto-edit` (programs,
            installs, tools of MCP servers), `allow-list` (what no rule allows), or `ask` (everything).
        allow: Rules of what nobody is asked about, such as `install:polars`, besides those of the settings.
        attended: Whether somebody follows the events and answers `ApprovalAsked` with `approve`.
        unattended: What becomes of such a question otherwise, `reject` (default) or `approve`.
        mcp: A file of MCP servers whose tools the model is offered, outside of the sandbox; True for the person's own
            `mcp.json`, False for none.
        forge: Whether the model may make tools in sandboxes of their own, and use those of the library; not by default.
        record: A file to which the model's replies are written, in the form that `replay:` reads.
        restore: `replay` runs the cells that succeeded again when a kernel was lost, `nothing` does not.
        session: An id for a new session; made up by default.
        state_dir: Where sessions are kept.
        output_dir: A folder for the files that cells leave in /tmp/output and /workspace, made when the first comes;
            nothing in it is written over. By default they stay in the session's own.
        log_level: `debug`, `info`, `warning` or `error`: what is logged to standard error. Nothing by default.
        pool: Warm kernels, one of which is taken if it fits; small data is copied into it, as it is at the start.

    Attributes:
        id: The session's name, also of its folder.
        status: Where it is in its life.
        consent: What the model must ask for; its mode may be changed at any time.
        ask_hosts: As given; to be changed only before the start.
        news: What `start` found out before anybody could follow: of the data, or of a session that is gone on with.

    Raises:
        UsageError: Something of this is wrong.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        fallback: Sequence[str] | None = None,
        critic: str | None = None,
        replies: Replies | None = None,
        max_attempts: int | None = None,
        max_iterations: int | None = None,
        budget: Budget | str | None = None,
        redact: str | None = None,
        data: Data = (),
        engine: str | None = None,
        trust: str | None = None,
        limits: Limits | None = None,
        timeout: float | None = None,
        memory_mb: int | None = None,
        image: str | None = None,
        security: Mapping[str, Any] | None = None,
        accept: Sequence[str] = (),
        ask_hosts: bool = False,
        approvals: str | None = None,
        allow: Sequence[str] = (),
        attended: bool = False,
        unattended: Unattended | None = None,
        mcp: str | Path | bool = True,
        forge: bool | None = None,
        record: str | Path | None = None,
        restore: Restore | None = None,
        session: str | None = None,
        state_dir: str | Path | None = None,
        output_dir: str | Path | None = None,
        log_level: str | None = None,
        pool: KernelPool | None = None,
    ) -> None:
        chosen = settings.load()
        self._engine_name = known_engine(engine or chosen.engine)
        self._options = AgentOptions.of(
            chosen,
            model=model,
            fallback=fallback,
            critic=critic,
            replies=replies,
            max_attempts=max_attempts,
            max_iterations=max_iterations,
            budget=budget,
            redact=redact,
            forge=forge,
        )
        self._model = ModelOpener(
            self._options.model,
            record=Path(record) if record else None,
            fallback=self._options.fallback,
            critic=self._options.critic,
            priced=self._options.budget.money is not None,
            structured=self._options.replies == "structured",
        )
        self._restore = known_restore(chosen.restore if restore is None else restore)
        self.id = session or store.new_session_id()
        self._spec = sandbox_spec(
            chosen,
            owner=self.id,
            data=data,
            trust=trust,
            limits=limits,
            timeout=timeout,
            memory_mb=memory_mb,
            image=image,
            security=security,
            accept=accept,
            ask_hosts=ask_hosts,
        )
        if record:
            store.check_not_data(Path(record), [mount.source for mount in self._spec.data])
        self.ask_hosts = ask_hosts
        self._servers = mcp_servers(mcp, default=chosen.mcp_config)
        self._tools: McpClient | None = None
        self._forge: ToolForge | None = None
        self._state: StateManager | None = None
        self._state_url = chosen.state_url.get_secret_value()
        self.consent = Consent(
            Mode.parse(chosen.approvals if approvals is None else approvals),
            lambda event: self._running_journal().emit(event),
            allow=[*chosen.approvals_allow, *allow],
            attended=attended,
            unattended=chosen.unattended if unattended is None else unattended,
        )
        self._keeps_mode, self._keeps_redaction = approvals is None, redact is None
        self._root = store.state_root(Path(state_dir) if state_dir else chosen.state_dir)
        wanted = output_dir or chosen.output_dir
        self._output = Path(wanted).expanduser().absolute() if wanted else None
        self._audit_key = audit.read_key(chosen.audit_key_file)
        self._telemetry = Telemetry(self.id, level=log_level or chosen.log_level, format=chosen.log_format)
        self._audit: audit.Audit | None = None
        self._pool = pool
        self.status: Status = "new"
        self.news: list[Record] = []
        self._recording = Recording()
        self._journal: store.Journal | None = None
        self._kernel: Kernel | None = None
        self._exchange: SessionFiles | None = None
        self._cells: Cells | None = None
        self._conversation: Conversation | None = None
        self._found: saved.Known | None = None
        self._pins: dict[str, str] = {}
        self._own = 0
        self._allowance: Allowance | None = None

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
        self.status = "running"

    @classmethod
    async def connect(cls, session: str, **options: Any) -> Session:
        """Go on with a session whose process is gone: `resumed`, started.

        Raises:
            UsageError: There is none of that name.
            StoreError: Another process has it.
            SandboxError: No sandbox can be started in place of its own.
        """
        known = cls.resumed(session, **options)
        await known.start()
        return known

    @classmethod
    def resumed(
        cls,
        session: str,
        *,
        model: str | None = None,
        budget: Budget | str | None = None,
        redact: str | None = None,
        replies: Replies | None = None,
        ask_hosts: bool = False,
        approvals: str | None = None,
        allow: Sequence[str] = (),
        attended: bool = False,
        unattended: Unattended | None = None,
        forge: bool | None = None,
        record: str | Path | None = None,
        restore: Restore | None = None,
        state_dir: str | Path | None = None,
        output_dir: str | Path | None = None,
        log_level: str | None = None,
    ) -> Session:
        """A session whose process is gone, to be started again: with its log, and its kernel's variables if that lives.

        If the kernel does not live any more, `start` makes a new one, and an event says what is lost. Questions and
        answers so far are known to the model again.

        Args:
            session: Its id, or enough of its beginning.
            model: As for a new session.
            budget: As for a new session.
            redact: As for a new session; without it no less is hidden than was until now.
            replies: As for a new session.
            ask_hosts: As for a new session.
            approvals: As for a new session; by default what the session had, or the settings if those ask for more.
            allow: As for a new session.
            attended: As for a new session.
            unattended: As for a new session.
            forge: As for a new session.
            record: As for a new session.
            restore: As for a new session, from now on: `replay` knows the cells of the kernel that is taken over too. A
                kernel that is gone already is not brought back.
            state_dir: Where sessions are kept.
            output_dir: As for a new session.
            log_level: As for a new session.

        Raises:
            UsageError: There is none of that name.
        """
        root = store.state_root(Path(state_dir) if state_dir else settings.load().state_dir)
        found = saved.look_up(root, session)
        known = cls(
            model=model,
            budget=budget,
            redact=redact,
            replies=replies,
            engine=found.engine,
            ask_hosts=ask_hosts,
            approvals=approvals,
            allow=allow,
            attended=attended,
            unattended=unattended,
            session=found.id,
            forge=forge,
            record=record,
            restore=restore,
            state_dir=root,
            output_dir=output_dir,
            log_level=log_level,
        )
        known._spec, known._found = saved.read_spec(found), found
        if ask_hosts:
            check_asking(known._spec.trust)
        return known

    async def _begin(self) -> None:
        self._model.check()
        engine = await registry.choose(self._engine_name, image=self._spec.image, specs=[self._spec])
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
        opening = asyncio.create_task(self._model.open()) if self._model.name else None
        await startup.side_by_side(self._come_to(kernel, journal), opening)

    async def _come_to(self, kernel: Kernel, journal: store.Journal) -> None:
        """Start the kernel or take it over, and make what works with it."""
        recording, note = self._recording, ""
        if self._found:
            self.news, note = await startup.take_up(kernel, self._found, journal=journal, recording=recording)
        else:
            self.news = await startup.start(
                kernel, spec=self._spec, journal=journal, recording=recording, pool=self._pool
            )
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
        cells = Cells(kernel, files, recording=recording, emit=emit, alone=alone)
        if self._servers:
            self._tools = McpClient(self._servers, notify=emit, seen=self._root / "mcp-tools.json")
        self._conversation = Conversation(
            kernel,
            cells,
            files,
            model=self._model,
            recording=recording,
            emit=emit,
            hosts=hosts_told(self._spec.trust, ask_hosts=self.ask_hosts),
            note=note,
            consent=self.consent,
            tools=self._tools,
            forge=self._forge,
            options=self._options,
            open_memory=self._open_memory,
        )
        self._exchange, self._cells, self._pins = files, cells, kernel.pins

    def _go_on_redacting(self, journal: store.Journal) -> None:
        """Hide no less than before in what went out already, unless a person says otherwise; another choice is told."""
        was, now = in_past(record.event for record in journal.since()), self._options.redact.what
        if self._found and self._keeps_redaction and STRICT.index(was) > STRICT.index(now):
            self._options = replace(self._options, redact=Redactor(was))
        elif was != now:
            journal.emit(RedactionSet(what=now))

    def _tool_forge(self, engine: Engine, journal: store.Journal) -> ToolForge | None:
        if not self._options.forge:
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

    async def _open_memory(self) -> Memory:
        """Where the conversation outlives this process."""
        from nbagent.state import StateManager, Turns

        self._state = StateManager(self._root / "shared", url=self._state_url, session_id=self.id)
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
        self._audit = audit.Audit(
            journal.folder,
            root=self._root,
            session=self.id,
            past=journal.since(),
            key=self._audit_key,
            count=journal.quota.add,
        )
        journal.follow(self._audit.add, strict=True)  # no code without a trace of it
        journal.follow(self._telemetry.add)

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
            self._journal.close()
        if self._audit is not None:
            self._audit.close()
        self._telemetry.close()

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
        return streamed(partial(self.ask, question, files=files), follow=self.follow)

    # -- for agents of other people's -------------------------------------------------------------------------

    @property
    def runs(self) -> Runs:
        """What runs cells here for an agent that isn't the session's own, see `nbagent.agent.KernelMiddleware`.

        Raises:
            UsageError: The session doesn't run.
        """
        return self._running(self._conversation)

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model must know of the sandbox and the data.

        Args:
            images: Whether it is shown the figures.

        Raises:
            UsageError: The session doesn't run.
        """
        return await self._running(self._conversation).system_prompt(images=images)

    # -- cells, packages, files ---------------------------------------------------------------------------------

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model.

        What its own text declares in a PEP 723 block is the person's word, as what they install is, and not the code's:
        no data can have got into it. It doesn't count for `unknown_names`.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
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
        if out is not None:
            try:
                return self.export(out, force=force), None
            except NbagentError as error:
                kept = self.export(place.free(self.folder / NOTEBOOK))
                return kept, type(error)(error.message, mend=f"The notebook is {kept}.")
        return self.export(place.free(self.folder / NOTEBOOK)), None

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        """Call `reader` with each event from now on, as it happens; returns what ends that."""
        return self._running_journal().follow(reader)

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
