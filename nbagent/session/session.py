"""A session: questions in, a stream of events out, a notebook at the end.

It says what can be done with a session. What it is to be is a `Plan`, and what it works with once it is started is
`Running`; both are imported when they are needed: who imports this module waits for nothing that it may never use.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from nbagent.core import folders, settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Answer, Cell, FileSaved, Package, Record, Renamed, SessionEnded
from nbagent.core.options import Keywords, Options

if TYPE_CHECKING:
    from nbagent.agent.runs import Runs
    from nbagent.kernel.pool.pool import KernelPool
    from nbagent.kernel.transfer.ends import Source
    from nbagent.kernel.variables import Written
    from nbagent.observability.telemetry import Metrics
    from nbagent.safety.consent import Decision
    from nbagent.safety.ledger import Ledger
    from nbagent.session.attachments import Given
    from nbagent.session.door import Door
    from nbagent.session.listing import Listing, Uploaded
    from nbagent.session.plan import Plan
    from nbagent.session.running import Running
    from nbagent.state import Artifact

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
        **keywords: Single options by name (`nbagent.core.options.Options`), in place of those.

    Attributes:
        id: The session's name, also of its folder.
        options: What it is to be.
        status: Where it is in its life.
        consent: What the model must ask for; its mode may be changed at any time.
        ask_hosts: As given; to be changed only before the start.

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
        from nbagent.session.plan import Plan

        self._prepare(
            Plan.of(settings.override(options or settings.load(), **keywords), keywords, session=session), pool
        )

    def _prepare(self, plan: Plan, pool: KernelPool | None) -> None:
        self._plan = plan
        self._pool = pool
        self._work: Running | None = None
        self._telemetry = plan.telemetry()
        self._ending: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self.id = plan.id
        self.options = plan.options
        self.ask_hosts = plan.options.ask_hosts
        self.consent = plan.consent(lambda event: self._started().journal.emit(event))
        self.status: Status = "new"
        self.door: Door | None = None

    # -- its life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        # What `connect` returns runs already.
        if not (self._plan.found and self.is_running):
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
        return self._work.kernel.engine.name if self._work else self._plan.engine or ""

    @property
    def trust(self) -> str:
        """The trust level's name."""
        return self._plan.spec.trust.level.value

    @property
    def data(self) -> list[str]:
        """Where the code sees its data."""
        return [mount.target for mount in self._plan.spec.data]

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """What of the network the code may reach: rules, or None for all of it."""
        from nbagent.session.conversation import hosts_told

        return hosts_told(self._plan.spec.trust, ask_hosts=self.ask_hosts)

    @property
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""
        return self._plan.model.is_replay

    @property
    def metrics(self) -> Metrics:
        """What this session has done so far, in numbers."""
        return self._telemetry.metrics.snapshot()

    @property
    def news(self) -> list[Record]:
        """What `start` found out before anybody could follow: of the data, or of a session that is gone on with."""
        return self._work.news if self._work else []

    @property
    def last(self) -> int:
        """The number of the log's last record."""
        return self._started().journal.last

    @property
    def folder(self) -> Path:
        """The session's own folder on the host."""
        return self._started().journal.folder

    def reserve(self, size: int) -> bool:
        """Take bytes that are about to be written into the session's folder from its quota; False if it has no room."""
        return self._started().journal.quota.take(size)

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
            from nbagent.session.door import Door

            self._still_starting()
            self.status = "running"
            self.door = Door(self, consent=self.consent)
            await self.door.open()
        except BaseException:
            await self.stop()
            raise

    def _still_starting(self) -> None:
        if self.status != "starting":
            raise UsageError("This session was stopped while it started.", mend="Make a new one.")

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
        from nbagent.session.plan import Plan

        known = cls.__new__(cls)
        known._prepare(Plan.resumed(session, keywords), None)
        return known

    async def _begin(self) -> None:
        from nbagent.session.running import Running

        self._plan.model.check()
        engine = await Running.engine_for(self._plan, self._pool)
        if not engine.isolates:
            self._plan.spec = replace(self._plan.spec, keep=0)
        self._still_starting()
        self._work = Running(
            self._plan,
            engine,
            consent=self.consent,
            telemetry=self._telemetry,
            hosts=self.hosts,
            ask_hosts=self.ask_hosts,
        )
        await self._work.begin(self._pool)

    @property
    def outlasts_login(self) -> bool:
        """Whether its kernel, once it is let go of, goes on when the person logs out."""
        return self._work is None or self._work.kernel.engine.lasting

    async def detach(self) -> None:
        """Let go of the session, and leave its kernel running to be taken over by `connect`, for `keep_minutes`."""
        if self._work is not None and self.status == "running":
            try:
                await self._work.kernel.detach()
            except asyncio.CancelledError:
                # Who is cancelled while a cell runs still has the session.
                if self._work.kernel.is_detached:
                    await self.stop()
                raise
        await self.stop()

    async def stop(self, reason: str = "") -> None:
        """End the sandbox and let go of the session; its folder and log stay. May be called at any time.

        It has one end, for which all wait who call this at the same time, and which goes on if they are cancelled.
        """
        if self._ending is None or self._ending.done():
            ran, self.status = self.is_running, "stopped"
            if self.door is not None:
                self.door.shut()
            self._ending = asyncio.create_task(self._end(reason, ran=ran, by=asyncio.current_task()))
        await asyncio.shield(self._ending)

    async def _end(self, reason: str, *, ran: bool, by: asyncio.Task[Any] | None) -> None:
        work = self._work
        async with contextlib.AsyncExitStack() as ends:  # from the last one to the first, whatever fails on the way
            ends.callback(self._closed.set)
            ends.callback(self._telemetry.close)
            if work is not None:
                ends.callback(work.close)
                if self.door is not None:
                    ends.callback(self.door.close)
                if ran:
                    ends.callback(self._tell_end, work, reason)
            ends.push_async_callback(self._plan.model.aclose)
            if work is not None:
                ends.push_async_callback(work.end, by=by)

    def _tell_end(self, work: Running, reason: str) -> None:
        if not work.kernel.is_detached:
            with contextlib.suppress(NbagentError):
                work.journal.emit(SessionEnded(reason=reason))

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

        self._started().journal.emit(Renamed(title=line_of(title)))

    @property
    def attended(self) -> bool:
        """Whether somebody follows the events and answers `ApprovalAsked`."""
        return self.consent.attended

    def attend(self, answers: bool = True) -> None:
        """Say whether somebody follows the events and answers `ApprovalAsked`; if nobody does, a policy answers."""
        self.consent.attended = answers

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for."""
        if self._work is not None:
            self._work.interrupt()

    def interrupt_cell(self) -> bool:
        """Stop the running cell only: the model is told, and goes on. Returns whether one was running."""
        stopped = self._work is not None and self._work.kernel.interrupt()
        if stopped:
            self.consent.close()  # it may be waiting for one
        return stopped

    # -- questions ----------------------------------------------------------------------------------------------

    @property
    def turns(self) -> int:
        """Questions asked so far."""
        return self._work.conversation.turns if self._work and self._work.conversation else 0

    @property
    def history(self) -> list[Answer]:
        """The answers so far."""
        return self._work.conversation.history if self._work and self._work.conversation else []

    @property
    def unfinished(self) -> Answer | None:
        """What a turn that failed or was stopped had done; None after one that ended."""
        return self._work.conversation.unfinished if self._work and self._work.conversation else None

    def ledger(self) -> Ledger:
        """What of this session left for models so far: which bytes of which outputs, to whom, with what hidden.

        Raises:
            UsageError: The session was not started.
        """
        from nbagent.safety.ledger import ledger

        return ledger(record.event for record in self._started().journal.since())

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
        return await self._ready(self._running().conversation).ask(question, files=files)

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
        return self._ready(self._running().cells)

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model must know of the sandbox and the data.

        Args:
            images: Whether it is shown the figures.

        Raises:
            UsageError: The session doesn't run.
        """
        from nbagent.agent.prompts import prompt_of

        work = self._running()
        return prompt_of(await self._ready(work.cells).describe(), images=images, outside=work.tools is not None)

    # -- cells, packages, files ---------------------------------------------------------------------------------

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model.

        What its own text declares in a PEP 723 block is the person's word, as what they install is, and not the code's:
        no data can have got into it. It doesn't count for `unknown_names`.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
        work = self._running()
        return await work.run(self._ready(work.cells), code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for this session.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        return await self._running().install(requirements)

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
        return await self._ready(self._running().files).upload(source, name, to=to, unpack=unpack)

    @overload
    async def download(self, path: str) -> bytes: ...

    @overload
    async def download(
        self, path: str, to: str | Path, *, overwrite: bool = False, bound: int | None = None
    ) -> Path: ...

    async def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        """Fetch a plain file from the sandbox.

        Args:
            path: Where it is inside, below /workspace or /tmp.
            to: A file, or a folder that is there, on the host; without it the contents are returned, up to 256 MB.
            overwrite: Whether a file that is there may be replaced; a link never is followed.
            bound: Bytes it may have; with `to` as much as fits into the sandbox's folders by default.

        Returns:
            The contents, or where they are.

        Raises:
            TransferLimit: It is too large, no plain file, or the path is not allowed.
            TransferError: It isn't there, changed while it was read, or its place on the host is taken.
            StoreError: The host's file can't be written.
        """
        return await self._ready(self._running().files).download(path, to, overwrite=overwrite, bound=bound)

    async def pull(self, name: str, to: str | Path) -> Written:
        """Fetch a variable of the kernel's as a file: a table as Arrow, an array as `.npy`, plain data as JSON.

        Args:
            name: The variable's name.
            to: The file on the host, which may be there.

        Returns:
            What it is; the sandbox says so, and the file was written by code under suspicion.

        Raises:
            TransferError: There is no such variable, or it is nothing of the kind.
        """
        from nbagent.kernel.variables import write_variable

        files = self._ready(self._running().files)
        written = await write_variable(self._running().kernel, name)
        await files.download(written.path, to, overwrite=True)
        return written

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is under /workspace and /tmp, /tmp/data and /tmp/output included, or in one folder of them.

        Raises:
            TransferError: There is no such folder.
        """
        return await self._ready(self._running().files).files(folder, limit=limit)

    def artifacts(self) -> list[Artifact]:
        """The files that reached the host, and the figures of its cells: each with its size, hash, type and cell."""
        from nbagent.state.views import Views

        return Views(self._plan.root).artifacts(self.id)

    def load_artifact(self, artifact_id: str) -> bytes:
        """The content of one of `artifacts()`.

        Raises:
            StoreError: There is none of that id, or its file is gone or was changed since.
        """
        from nbagent.state.views import Views

        return Views(self._plan.root).load(artifact_id)[1]

    async def deliver(self) -> dict[str, str]:
        """Collect what cells left in /tmp/output and /workspace and what still waits; to be called at the end.

        Returns:
            What will not reach the person, by its path in the sandbox: why. It is gone when the session ends.

        Raises:
            StoreError: The host's folder can't be written.
        """
        return await self._ready(self._running().files).deliver()

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
        return self._running().kernel.approve_host(name, allow=allow, remember=remember)

    def allow_host(self, entry: str) -> None:
        """Let the code reach a host from now on, also one that was denied before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this session's code has no list of hosts.
        """
        self._running().kernel.allow_host(entry)

    def check_export(self, path: str | Path, *, force: bool = False) -> None:
        """Complain of a place for the notebook before any work is done for it; arguments and errors as for `export`."""
        from nbagent.notebook import place

        place.check(Path(path), data=self._plan.sources, force=force)

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

        work = self._started()
        written = export.export(work.recording, Path(path), pins=work.pins, force=force)
        # Where any client's kernel looks for it, which knows the settings but not this session's arguments.
        folders.remember_export(folders.state_root(settings.load().state_dir), written, work.recording.needed)
        if self.status == "running":
            digest = hashlib.sha256(written.read_bytes()).hexdigest()
            self._started().journal.emit(FileSaved(path=str(written), size=written.stat().st_size, sha256=digest))
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
        return self._started().journal.since(seq)

    def follow(self, reader: Callable[[Record], None], *, since: int | None = None) -> Callable[[], None]:
        """Call `reader` with each record, as it happens; returns what ends that.

        Args:
            reader: Gets the records.
            since: Begin with those of the log after this number; with what happens from now on by default.
        """
        journal = self._started().journal
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

    def _started(self) -> Running:
        """What the start has made, also while it still starts and once it was stopped."""
        if self._work is None:
            raise UsageError("This session was not started.", mend="Use it in `async with`, or call start().")
        return self._work

    def _running(self) -> Running:
        """The same, unless it was stopped."""
        work = self._started()
        if self.status == "stopped":
            raise UsageError("This session was stopped.", mend="Use it in `async with`, or call start() first.")
        return work

    @staticmethod
    def _ready(part: Part | None) -> Part:
        if part is None:
            raise UsageError("This session is still starting.", mend="Wait for start().")
        return part
