"""A session: questions in, a stream of events out, a notebook at the end.

It owns the sandboxed kernel, the agent and the log, and is the one place where they meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from nbagent import __version__, audit, sessions, settings, store
from nbagent.errors import NbagentError, SandboxError, UsageError
from nbagent.events import (
    Answered,
    Asked,
    CellStarted,
    CellStatus,
    DataSeen,
    Event,
    FileSaved,
    ModelReplied,
    Package,
    Record,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    StateLost,
    Usage,
    WidgetState,
)
from nbagent.files import Listing, SessionFiles, Uploaded
from nbagent.inputs import clean_question, known_engine, resolve_data, size_of
from nbagent.kernel.cell import Cell
from nbagent.kernel.describe import describe
from nbagent.kernel.ends import Source
from nbagent.kernel.kernel import Kernel
from nbagent.notebook.record import RecordedCell, Recording
from nbagent.policy import Limits, Network, TrustLevel, trust_for
from nbagent.sandbox import registry
from nbagent.sandbox.spec import SandboxSpec
from nbagent.telemetry import Metrics, Telemetry

if TYPE_CHECKING:
    from nbagent.agent.build import Agent
    from nbagent.agent.models import Model
    from nbagent.kernel.pool import KernelPool

Status = Literal["new", "starting", "running", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a question.

    Attributes:
        text: The answer in words.
        cells: The cells that ran for it, in order.
        files: What its cells left in /tmp/output, on the host.
        usage: Tokens and calls of the model.
        success: Whether the model came to an end by itself and its last cell ran without an error.
        attempts: One, and one more for each cell that failed.
        installed: Packages that were installed for it.
        turn: The question's number.
    """

    text: str
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    success: bool = True
    attempts: int = 1
    installed: list[Package] = field(default_factory=list)
    turn: int = 1


class Session:
    """A conversation about data, whose code runs in a sandboxed kernel.

    Use it as an asynchronous context manager. What is None is taken from the person's settings.

    Args:
        model: `provider:model` or `replay:FILE`; found by itself when the first question comes, if it isn't named.
        data: Files and folders that the sandbox sees read-only at `/tmp/data/NAME`.
        engine: `docker`, `bubblewrap` or `local`; the best that works here by default.
        trust: `isolated`, `sandboxed`, `untrusted` or `trusted`.
        limits: Bounds that replace the trust level's own, whole.
        timeout: Seconds a cell may run.
        memory_mb: Memory of the sandbox in MiB.
        image: The Docker image of the kernel.
        security: Security options that replace the trust level's own, by name (`nbagent.policy.OPTIONS`), for example
            `{"allowed_hosts": ["api.example.org"]}`.
        accept: Names of limits that may stay unenforced.
        ask_hosts: Whether somebody follows the events and answers `HostAsked` with `approve_host`; otherwise a host
            that isn't listed is denied at once.
        record: A file to which the model's replies are written, in the form that `replay:` reads.
        session: An id for a new session; made up by default.
        state_dir: Where sessions are kept.
        log_level: `debug`, `info`, `warning` or `error`: what is logged to standard error. Nothing by default.
        pool: Warm kernels, one of which is taken if it fits; small data is copied into it, as it is at the start.

    Attributes:
        id: The session's name, also of its folder.
        status: Where it is in its life.
        history: The answers so far.
        news: What `start` found out about a session that is gone on with, before anybody could follow.
        unfinished: What a turn that failed or was stopped had done; None after one that ended.

    Raises:
        UsageError: Something of this is wrong.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        data: Iterable[str | Path] | str | Path = (),
        engine: str | None = None,
        trust: str | None = None,
        limits: Limits | None = None,
        timeout: float | None = None,
        memory_mb: int | None = None,
        image: str | None = None,
        security: Mapping[str, Any] | None = None,
        accept: Sequence[str] = (),
        ask_hosts: bool = False,
        record: str | Path | None = None,
        session: str | None = None,
        state_dir: str | Path | None = None,
        log_level: str | None = None,
        pool: KernelPool | None = None,
    ) -> None:
        chosen = settings.load()
        self._engine_name = known_engine(engine or chosen.engine)
        self._model_name = model or chosen.model
        self._record = Path(record) if record else None
        mounts = resolve_data([data] if isinstance(data, str | Path) else data)
        level = TrustLevel.parse(trust or chosen.trust)
        size = sum(size_of(mount.source) for mount in mounts)
        row = trust_for(
            level,
            data_bytes=size,
            security={**chosen.security, **(security or {})},
            timeout=chosen.timeout if timeout is None else timeout,
            memory_mb=chosen.memory_mb if memory_mb is None else memory_mb,
            cpus=chosen.cpus,
        )
        self.id = session or store.new_session_id()
        self._spec = SandboxSpec(
            trust=row if limits is None else replace(row, limits=limits),
            data=tuple(mounts),
            accept=frozenset([*chosen.accept, *accept]),
            install=row.narrow(chosen.install_policy),
            image=image or chosen.image,
            owner=self.id,
            keep=60 * chosen.keep_minutes,
        )
        self._ask_hosts = ask_hosts
        self._root = store.state_root(Path(state_dir) if state_dir else chosen.state_dir)
        self._audit_key = audit.read_key(chosen.audit_key_file)
        self._telemetry = Telemetry(self.id, level=log_level or chosen.log_level, format=chosen.log_format)
        self._audit: audit.Audit | None = None
        self._pool = pool
        self.status: Status = "new"
        self.history: list[Answer] = []
        self.news: list[Record] = []
        self.unfinished: Answer | None = None
        self._recording = Recording()
        self._journal: store.Journal | None = None
        self._kernel: Kernel | None = None
        self._model: Model | None = None
        self._agent: Agent | None = None
        self._exchange: SessionFiles | None = None
        self._turn = 0
        self._cells: list[Cell] = []
        self._files: list[Path] = []
        self._asking: asyncio.Task[Answer] | None = None
        self._one_cell = asyncio.Lock()
        self._pins: dict[str, str] = {}
        self._found: sessions.Known | None = None
        self._past: tuple[list[tuple[str, str]], str] = [], ""

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
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""
        return (self._model_name or "").startswith("replay:")

    @property
    def metrics(self) -> Metrics:
        """What this session has done so far, in numbers."""
        return self._telemetry.metrics.snapshot()

    @property
    def folder(self) -> Path:
        """The session's own folder on the host."""
        return self._running_journal().folder

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
        ask_hosts: bool = False,
        record: str | Path | None = None,
        state_dir: str | Path | None = None,
        log_level: str | None = None,
    ) -> Session:
        """A session whose process is gone, to be started again: with its log, and its kernel's variables if that lives.

        If the kernel does not live any more, `start` makes a new one, and an event says what is lost. Questions and
        answers so far are known to the model again.

        Args:
            session: Its id, or enough of its beginning.
            model: As for a new session.
            ask_hosts: As for a new session.
            record: As for a new session.
            state_dir: Where sessions are kept.
            log_level: As for a new session.

        Raises:
            UsageError: There is none of that name.
        """
        root = store.state_root(Path(state_dir) if state_dir else settings.load().state_dir)
        found = sessions.look_up(root, session)
        known = cls(
            model=model,
            engine=found.engine,
            ask_hosts=ask_hosts,
            session=found.id,
            record=record,
            state_dir=root,
            log_level=log_level,
        )
        known._spec, known._found = sessions.read_spec(found), found
        return known

    async def _begin(self) -> None:
        if self._model_name:
            _check_model(self._model_name)
        engine = await registry.choose(self._engine_name, image=self._spec.image)
        if not engine.isolates:
            self._spec = replace(self._spec, keep=0)
        self._journal = store.Journal(self._root, self.id)
        self._observe(self._journal)
        self._kernel = Kernel(
            engine, self._spec, notify=self._emit, spill=self._journal.spill, ask_hosts=self._ask_hosts
        )
        opening = asyncio.create_task(asyncio.to_thread(self._open_model)) if self._model_name else None
        await self._both(self._take_up(self._found) if self._found else self._start_kernel(), opening)
        self._pins = self._kernel.pins
        output = self._journal.folder / "output"
        self._exchange = SessionFiles(self._kernel, output, data=self._spec.data, emit=self._emit, alone=self._one_cell)

    async def _start_kernel(self) -> None:
        kernel, journal = self._started_kernel(), self._running_journal()
        journal.follow(self._recording.add)
        sessions.write_spec(journal.folder, self._spec)
        started = time.monotonic()
        await (self._pool.start(kernel) if self._pool else kernel.start())
        self._tell_start(kernel, seconds=time.monotonic() - started)

    async def _take_up(self, found: sessions.Known) -> None:
        """Read the log, end what was left open in it, and get the kernel back, or a new one."""
        kernel, journal = self._started_kernel(), self._running_journal()
        running_since = 0.0
        for record in journal.since():
            self._recording.add(record)
            running_since = record.at if isinstance(record.event, CellStarted) else running_since
        journal.follow(self._recording.add)
        cells, turns = self._recording.cells, self._recording.turns
        kernel.cells, self._turn = max((each.cell for each in cells), default=0), len(turns)
        left = self._spec.trust.limits.timeout - (time.time() - running_since)
        lost, note = await self._get_back(kernel, found, patience=max(0.0, left) if running_since else 0.0)
        for event in sessions.loose_ends(self._recording):
            self._emit(event)
        what = {"environment": kernel.provisioner.environment_digest, "sandbox": kernel.provisioner.sandbox_name}
        self.news.append(self._emit(SessionResumed(kept=not lost, note=note, engine=kernel.engine.name, **what)))
        self._past = [(turn.question, turn.answer or "") for turn in turns], lost or note
        if lost:
            self.news.append(self._emit(StateLost(cell=0, reason=lost)))

    @staticmethod
    async def _get_back(kernel: Kernel, found: sessions.Known, *, patience: float) -> tuple[str, str]:
        """The kernel with its variables, or a new one; returns why they are lost, or nothing, and what to tell."""
        try:
            if found.sandbox is None:
                raise SandboxError("The sandbox has ended.")
            interrupted = await kernel.take_over(found.sandbox, patience=patience)
        except SandboxError as error:
            await kernel.start()
            return f"{error.message} Variables, imports and files of the sandbox are lost.", "A new kernel was started."
        note = "Its kernel was taken over, with its variables."
        return "", f"{note} A cell that still ran was interrupted." if interrupted else note

    @staticmethod
    async def _both(start: Awaitable[None], opening: asyncio.Task[None] | None) -> None:
        """Start the kernel while the model's library is imported; the model's complaint comes first."""
        starting = asyncio.ensure_future(start)
        try:
            if opening is not None:
                await opening
            await starting
        except BaseException:
            starting.cancel()
            with contextlib.suppress(BaseException):
                await starting
            raise

    def _observe(self, journal: store.Journal) -> None:
        """Have the audit log written and the events counted, traced and logged from the first one on."""
        self._audit = audit.Audit(
            journal.folder, root=self._root, session=self.id, past=journal.since(), key=self._audit_key
        )
        journal.follow(self._audit.add)
        journal.follow(self._telemetry.add)

    def _tell_start(self, kernel: Kernel, *, seconds: float) -> None:
        provisioner = kernel.provisioner
        seen = [
            DataSeen(provisioner.data_path(mount), str(mount.source), size_of(mount.source))
            for mount in self._spec.data
        ]
        self._emit(
            SessionStarted(
                session=self.id,
                engine=kernel.engine.name,
                trust=self.trust,
                environment=provisioner.environment_digest,
                python=provisioner.target().python,
                nbagent=__version__,
                data=seen,
                sandbox=provisioner.sandbox_name,
                limits=asdict(self._spec.trust.limits),
                security=self._spec.trust.options(),
                accepted=sorted(self._spec.accept),
                seconds=seconds,
            )
        )

    async def detach(self) -> None:
        """Let go of the session, and leave its kernel running to be taken over by `connect`, for `keep_minutes`."""
        if self._kernel is not None and self.status == "running":
            await self._kernel.detach()
        await self.stop()

    async def stop(self, reason: str = "") -> None:
        """End the sandbox and let go of the session; its folder and log stay. May be called at any time."""
        was, self.status = self.status, "stopped"
        asking = self._asking
        if asking is not None and asking is not asyncio.current_task():
            asking.cancel()
            await asyncio.wait([asking], timeout=1)
        if self._kernel is not None:
            await self._kernel.stop()
        if self._model is not None:
            await self._model.aclose()
            self._model = None
        if self._journal is not None:
            if was == "running" and not (self._kernel and self._kernel.is_detached):
                with contextlib.suppress(NbagentError):
                    self._emit(SessionEnded(reason=reason))
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
        if self._asking is not None:
            self._asking.cancel()

    # -- questions ----------------------------------------------------------------------------------------------

    def interrupt_cell(self) -> bool:
        """Stop the running cell only: the model is told, and goes on. Returns whether one was running."""
        return self._kernel is not None and self._kernel.interrupt()

    @property
    def turns(self) -> int:
        """Questions asked so far."""
        return self._turn

    async def ask(self, question: str) -> Answer:
        """Ask a question, and wait for the answer.

        Raises:
            UsageError: There is no question, another one is being answered, or there is no model.
            ModelCallError: The model's provider failed; the cells that ran are kept.
            ReplayError: The recorded replies ran out.
            SandboxError: The sandbox failed.
        """
        self._running_kernel()
        text = clean_question(question)
        if self._asking is not None:
            raise UsageError("Another question is being answered.", mend="Wait for it, or interrupt it.")
        self._asking = asyncio.create_task(self._ask(text))
        try:
            return await self._asking
        except asyncio.CancelledError:
            self._asking.cancel()
            raise
        finally:
            self._asking = None

    async def stream(self, question: str) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens; the last one is `Answered`.

        Who leaves early should close it (`contextlib.aclosing`), which stops the question.

        Raises:
            NbagentError: As for `ask`, after the events that came before.
        """
        queue: asyncio.Queue[Record | None] = asyncio.Queue()
        unfollow = self._running_journal().follow(queue.put_nowait)
        asking = asyncio.ensure_future(self.ask(question))
        asking.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (record := await queue.get()) is not None:
                yield record
            await asking
        finally:
            unfollow()
            if not asking.done():
                asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled():
                # Raised above, or of no interest to who left early.
                asking.exception()

    async def _ask(self, question: str) -> Answer:
        from nbagent.agent import build

        agent = await self._ready_agent()
        self._turn += 1
        turn, started = self._turn, time.monotonic()
        self._cells, self._files = [], []
        self._emit(Asked(turn=turn, question=question, model=agent.model.name, replay=agent.model.is_replay))
        self.unfinished = None
        text, usage, ended = "", Usage(), False

        def heard(reply: ModelReplied) -> None:
            nonlocal usage
            usage += reply.usage
            self._emit(reply)

        try:
            found = await build.answer(agent, question, on_reply=heard, turn=turn)
            text, usage, ended = found.text, found.usage, not found.stopped
        except asyncio.CancelledError:
            text = "Stopped."
            raise
        except NbagentError as error:
            text = str(error)
            raise
        finally:
            self.unfinished = answer = self._answer(text, usage, ended=ended, turn=turn)
            self._emit(
                Answered(
                    turn=turn,
                    text=text,
                    success=answer.success,
                    attempts=answer.attempts,
                    usage=usage,
                    seconds=time.monotonic() - started,
                )
            )
        self.unfinished = None
        self.history.append(answer)
        return answer

    def _answer(self, text: str, usage: Usage, *, ended: bool, turn: int) -> Answer:
        cells = list(self._cells)
        return Answer(
            text=text,
            cells=cells,
            files=list(dict.fromkeys(self._files)),
            usage=usage,
            success=ended and bool(text) and (not cells or cells[-1].success),
            attempts=1 + sum(not cell.success for cell in cells),
            installed=[package for cell in cells for package in cell.installed],
            turn=turn,
        )

    async def _ready_agent(self) -> Agent:
        """The agent, made for the first question: only then the data's description is paid for."""
        if self._agent is None:
            from nbagent.agent import build, prompts

            if self._model is None:
                await asyncio.to_thread(self._open_model)
            assert self._model is not None  # noqa: S101 - opened just now
            kernel = self._running_kernel()
            seen = await describe(kernel, [each.path for each in self._recording.data])
            prompt = prompts.system_prompt(
                seen,
                timeout=self._spec.trust.limits.timeout,
                python=kernel.provisioner.target().python,
                versions=kernel.pins,
                images=self._model.images != "no",
                hosts=self._hosts,
            )
            self._agent = build.build_agent(self._model, _Tools(self), system_prompt=prompt)
            self._agent.history = build.remember(self._past[0], note=self._past[1])
        return self._agent

    @property
    def _hosts(self) -> tuple[str, ...] | None:
        """What of the network the model is told of."""
        trust = self._spec.trust
        if trust.network is Network.LISTED and self._ask_hosts:
            return (*(trust.allowed_hosts or ()), "what a person allows when the code asks for it")
        return trust.allowed_hosts if trust.network_enabled else ()

    def _open_model(self) -> None:
        from nbagent.agent import models

        self._model_name = self._model_name or models.find_model()
        self._model = models.open_model(self._model_name, record=self._record)
        # What the first question needs takes seconds to import, and now there is time.
        from nbagent.agent import build  # noqa: F401

    # -- cells, packages, files ---------------------------------------------------------------------------------

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
        return await self._run(code, timeout=timeout)

    async def _run(self, code: str, *, timeout: float | None, turn: int = 0, **who: str) -> Cell:  # noqa: ASYNC109
        # Its files are collected before the next cell runs, and belong to it alone.
        async with self._one_cell:
            return await self._run_one(code, timeout=timeout, turn=turn, **who)

    async def _run_one(self, code: str, *, timeout: float | None, turn: int, **who: str) -> Cell:  # noqa: ASYNC109
        kernel = self._running_kernel()
        try:
            cell = await kernel.run(code, timeout=timeout, turn=turn, **who)
        except BaseException:
            if turn and self._recording.cells and self._recording.cells[-1].turn == turn:
                # What it did before it was given up belongs to the turn too.
                self._cells.append(_as_cell(self._recording.cells[-1]))
            raise
        if kernel.is_alive:
            cell, saved = await self._running_files().collect(cell)
            self._files += saved if turn else []
        if (state := kernel.take_widget_state()) is not None:
            self._emit(WidgetState(state=state))
        if turn:
            self._cells.append(cell)
        return cell

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for this session.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        return await self._running_kernel().install(requirements)

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
        return await self._running_files().upload(source, name, to=to, unpack=unpack)

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
        return await self._running_files().download(path, to, overwrite=overwrite)

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is under /workspace and /tmp, /tmp/data and /tmp/output included, or in one folder of them.

        Raises:
            TransferError: There is no such folder.
        """
        return await self._running_files().files(folder, limit=limit)

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

    def export(self, path: str | Path) -> Path:
        """Write the session's notebook; returns its absolute path.

        Raises:
            StoreError: It can't be written; a file that was there is intact.
        """
        from nbagent.notebook import export

        written = export.export(self._recording, Path(path).expanduser(), pins=self._pins)
        # Where any client's kernel looks for it, which knows the settings but not this session's arguments.
        store.remember_export(store.state_root(settings.load().state_dir), written, self._recording.needed)
        if self.status == "running":
            digest = hashlib.sha256(written.read_bytes()).hexdigest()
            self._emit(FileSaved(path=str(written), size=written.stat().st_size, sha256=digest))
        return written

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        """Call `reader` with each event from now on, as it happens; returns what ends that."""
        return self._running_journal().follow(reader)

    # -- parts --------------------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> Record:
        return self._running_journal().emit(event)

    def _running_journal(self) -> store.Journal:
        if self._journal is None:
            raise UsageError("This session was not started.", mend="Use it in `async with`, or call start().")
        return self._journal

    def _started_kernel(self) -> Kernel:
        assert self._kernel is not None  # noqa: S101 - made by the caller
        return self._kernel

    def _running_files(self) -> SessionFiles:
        self._running_kernel()
        if self._exchange is None:
            raise UsageError("This session is still starting.", mend="Wait for start().")
        return self._exchange

    def _running_kernel(self) -> Kernel:
        if self._kernel is None or self.status in ("new", "stopped"):
            state = "was stopped" if self.status == "stopped" else "was not started"
            raise UsageError(f"This session {state}.", mend="Use it in `async with`, or call start() first.")
        return self._kernel


class _Tools:
    """The session as the agent's tools see it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def run_cell(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109
        # Nobody is asked before a cell runs: the sandbox is what makes that right.
        who = {"tool": "python", "approver": "policy:never-ask"}
        return await self._session._run(code, timeout=timeout, turn=self._session._turn, **who)

    async def install(self, requirements: list[str]) -> list[Package]:
        return await self._session.install(requirements)


def _as_cell(recorded: RecordedCell) -> Cell:
    """A cell as the log has it, for one that was given up and never came back."""
    status: CellStatus = "interrupted"
    return Cell(
        cell=recorded.cell,
        code=recorded.code,
        status=status,
        outputs=recorded.outputs,
        execution_count=recorded.execution_count,
        duration=recorded.duration,
        note=recorded.note,
        installed=recorded.installed,
    )


def _check_model(name: str) -> None:
    """Complain of a model's name before anything is started, which is cheap for a replay and a wrong form."""
    from nbagent.agent.models import check_name

    check_name(name)
