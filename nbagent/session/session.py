"""A session: questions in, a stream of events out, a notebook at the end.

Each call of a face is described in `protocol.py`. What the session is to be is a `Plan`; once it is started, it works
with its `Parts`. Both are imported when they are needed, so that importing this module costs little.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from nbagent.core import fileio, settings
from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Answer, Cell, Package, Record, Renamed, SessionEnded
from nbagent.core.options import Keywords, Options
from nbagent.session.protocol import AnySession

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort
    from nbagent.core.events import Decision
    from nbagent.kernel.pool.pool import KernelPool
    from nbagent.kernel.transfer.outside import UploadSource
    from nbagent.observability.telemetry import Metrics
    from nbagent.safety.ledger import Ledger
    from nbagent.session.files.sandbox_files import Listing, Pulled, Uploaded
    from nbagent.session.files.session_files import Attachment
    from nbagent.session.parts import Parts
    from nbagent.session.plan import Plan
    from nbagent.session.sharing.server import SessionServer

Status = Literal["new", "starting", "running", "stopped"]
Part = TypeVar("Part")


class Session(AnySession):
    """A conversation about data, whose code runs in a sandboxed kernel, owned by this process.

    Use it as an asynchronous context manager. What isn't given is taken from the person's settings. `approve`,
    `approve_host` and `interrupt` may be called from any thread.

    Args:
        options: What it is to be; the person's settings by default.
        session: An id for a new session; made up by default.
        pool: Warm kernels, one of which is taken if it fits and can be shown the data.
        **keywords: Single options by name (`nbagent.core.options.Options`), in place of those.

    Attributes:
        id: The session's id, also its folder's name.
        options: What it is to be.
        status: Where it is in its life.
        consent: What the model must ask for; its mode may be changed at any time.
        ask_hosts: Whether a person is asked about hosts that aren't listed; to be changed only before the start.
        server: Serves the session to other processes; None before the start.

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
        self._parts: Parts | None = None
        self._telemetry = plan.telemetry()
        self._ending: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self.id = plan.id
        self.options = plan.options
        self.ask_hosts = plan.options.ask_hosts
        self.consent = plan.consent(lambda event: self._started().log.emit(event))
        self.status: Status = "new"
        self.server: SessionServer | None = None

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
        return self.status == "running"

    @property
    def engine(self) -> str:
        return self._parts.kernel.engine.name if self._parts else self._plan.engine or ""

    @property
    def trust(self) -> str:
        return self._plan.spec.trust.level.value

    @property
    def isolation(self) -> str:
        started = self._parts.recording.started if self._parts else None
        return started.isolation if started else ""

    @property
    def data(self) -> list[str]:
        return [mount.target for mount in self._plan.spec.data]

    @property
    def hosts(self) -> tuple[str, ...] | None:
        return self._plan.spec.trust.reachable_hosts(ask_hosts=self.ask_hosts)

    @property
    def is_replay(self) -> bool:
        return self._plan.model.is_replay

    @property
    def metrics(self) -> Metrics:
        """Counts and durations of this session so far."""
        return self._telemetry.metrics.snapshot()

    @property
    def news(self) -> list[Record]:
        return self._parts.news if self._parts else []

    @property
    def last(self) -> int:
        return self._started().log.last

    @property
    def folder(self) -> Path:
        return self._started().log.folder

    async def start(self) -> None:
        if self.status != "new":
            raise UsageError(f"This session is {self.status}.", mend="Make a new one.")
        self.status = "starting"
        try:
            await self._begin()
            from nbagent.session.sharing.server import SessionServer

            self._still_starting()
            self.status = "running"
            self.server = SessionServer(self, consent=self.consent)
            await self.server.open()
        except BaseException:
            await self.stop()
            raise

    def _still_starting(self) -> None:
        if self.status != "starting":
            raise UsageError("This session was stopped while it started.", mend="Make a new one.")

    @classmethod
    async def connect(cls, session: str, **keywords: Unpack[Keywords]) -> Session:
        """Resume a session whose process has ended: `resumed`, started.

        Raises:
            UsageError: There is no session of that id.
            StoreError: Another process owns it.
            SandboxError: Its kernel has ended, and no new sandbox can be started.
        """
        resumed = cls.resumed(session, **keywords)
        await resumed.start()
        return resumed

    @classmethod
    def resumed(cls, session: str, **keywords: Unpack[Keywords]) -> Session:
        """A session whose process has ended, ready to be started: with its log, and its variables if its kernel lives.

        If the kernel has ended, `start` makes a new one, and an event says what is lost. The model knows the earlier
        questions and answers.

        Args:
            session: Its id, or enough of its beginning.
            **keywords: Options that hold from now on, by name. Those of its sandbox can't be changed. Unless they are
                named here, approvals and redaction stay at least as strict as they were. `restore="replay"` can replay
                the cells of a kernel that was taken over too; a kernel that had ended already is not brought back.

        Raises:
            UsageError: There is no session of that name, or an option can't be changed any more.
        """
        from nbagent.session.plan import Plan

        resumed = cls.__new__(cls)
        resumed._prepare(Plan.resumed(session, keywords), None)
        return resumed

    async def _begin(self) -> None:
        from nbagent.session.parts import Parts

        self._plan.model.check()
        engine = await Parts.engine_for(self._plan, self._pool)
        self._plan.spec = engine.adapted(self._plan.spec, strict=self._plan.names_trust)
        self._still_starting()

        def open_logs() -> Parts:
            self._parts = Parts(
                self._plan,
                engine,
                consent=self.consent,
                telemetry=self._telemetry,
                hosts=self.hosts,
                ask_hosts=self.ask_hosts,
            )
            return self._parts

        # A long log takes seconds to read; a new one is made faster than a thread.
        parts = await to_the_end(open_logs) if self._plan.found else open_logs()
        self._still_starting()
        await parts.begin(self._pool)

    @property
    def outlasts_login(self) -> bool:
        return self._parts is None or self._parts.kernel.engine.lasting

    async def detach(self) -> None:
        if self._parts is not None and self.status == "running":
            try:
                await self._parts.kernel.detach()
            except asyncio.CancelledError:
                # A call that is cancelled while it waits for a cell keeps the session.
                if self._parts.kernel.is_detached:
                    await self.stop()
                raise
        await self.stop()

    async def stop(self, reason: str = "") -> None:
        if self._ending is None or self._ending.done():
            ran, self.status = self.is_running, "stopped"
            if self.server is not None:
                self.server.shut()
            self._ending = asyncio.create_task(self._end(reason, ran=ran, by=asyncio.current_task()))
        await asyncio.shield(self._ending)

    async def _end(self, reason: str, *, ran: bool, by: asyncio.Task[Any] | None) -> None:
        parts = self._parts
        async with contextlib.AsyncExitStack() as ends:  # from the last one to the first, whatever fails on the way
            ends.callback(self._closed.set)
            ends.callback(self._telemetry.close)
            if parts is not None:
                ends.callback(parts.close)
                if self.server is not None:
                    ends.callback(self.server.close)
                if ran:
                    ends.callback(self._tell_end, parts, reason)
            ends.push_async_callback(self._plan.model.aclose)
            if parts is not None:
                ends.push_async_callback(parts.end, by=by)

    def _tell_end(self, parts: Parts, reason: str) -> None:
        if not parts.kernel.is_detached:
            with contextlib.suppress(NbagentError):
                parts.log.emit(SessionEnded(reason=reason))

    async def closed(self) -> None:
        await self._closed.wait()

    @property
    def is_busy(self) -> bool:
        """Whether anybody is attached, or something that they have asked for goes on by itself."""
        server = self.server
        return server is not None and (server.visitors > 0 or (server.is_working and not self.consent.is_waiting))

    def rename(self, title: str) -> None:
        from nbagent.session.catalog.summary import line_of

        self._started().log.emit(Renamed(title=line_of(title)))

    @property
    def attended(self) -> bool:
        return self.consent.attended

    async def use_model(self, name: str) -> None:
        await self._running().use_model(name)

    async def undo_turn(self, turn: int, *, undo: bool = True) -> None:
        from nbagent.session.undo import undo_turn

        await undo_turn(self._running(), turn, undo=undo)

    def set_approvals(self, mode: str) -> None:
        from nbagent.safety.approvals import Mode

        self.consent.mode = Mode.parse(mode)

    def attend(self, answers: bool = True) -> None:
        self.consent.attended = answers

    def interrupt(self) -> None:
        if self._parts is not None:
            self._parts.interrupt()

    def interrupt_cell(self) -> bool:
        stopped = self._parts is not None and self._parts.kernel.interrupt()
        if stopped:
            self.consent.close()  # it may be waiting for one
        return stopped

    # -- questions ----------------------------------------------------------------------------------------------

    @property
    def turns(self) -> int:
        return self._parts.conversation.turns if self._parts and self._parts.conversation else 0

    @property
    def history(self) -> list[Answer]:
        """The answers so far."""
        return self._parts.conversation.history if self._parts and self._parts.conversation else []

    @property
    def unfinished(self) -> Answer | None:
        return self._parts.conversation.unfinished if self._parts and self._parts.conversation else None

    async def ledger(self) -> Ledger:
        """What this session has sent to models: which bytes of which outputs, to which model, and what was hidden.

        Raises:
            UsageError: The session was not started.
        """
        from nbagent.safety.ledger import ledger

        records = self._started().log.since()
        return await asyncio.to_thread(lambda: ledger(record.event for record in records))

    async def ask(self, question: str, *, files: Sequence[Attachment] = (), uploaded: Sequence[str] = ()) -> Answer:
        return await self._ready(self._running().conversation).ask(question, files=files, uploaded=uploaded)

    # -- for agents of other people's -------------------------------------------------------------------------

    @property
    def runs(self) -> KernelPort:
        return self._ready(self._running().cells)

    async def system_prompt(self, *, images: bool = False) -> str:
        from nbagent.agent.prompts import system_prompt

        parts = self._running()
        seen = await self._ready(parts.cells).describe()
        return await asyncio.to_thread(system_prompt, seen, images=images, outside=parts.tools is not None)

    # -- cells, packages, files ---------------------------------------------------------------------------------

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        parts = self._running()
        return await parts.run(self._ready(parts.cells), code, timeout=timeout)

    async def install(self, requirements: list[str]) -> list[Package]:
        return await self._running().install(requirements)

    async def upload(
        self, source: UploadSource, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        return await self._ready(self._running().files).upload(source, name, to=to, unpack=unpack)

    @overload
    async def download(self, path: str, *, bound: int | None = None) -> bytes: ...

    @overload
    async def download(
        self, path: str, to: str | Path, *, overwrite: bool = False, bound: int | None = None
    ) -> Path: ...

    async def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        return await self._ready(self._running().files).download(path, to, overwrite=overwrite, bound=bound)

    async def pull(self, name: str, to: str | Path) -> Pulled:
        return await self._ready(self._running().files).pull(name, Path(to))

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        return await self._ready(self._running().files).files(folder, limit=limit)

    async def variables(self) -> list[str]:
        return await self._running().kernel.variables()

    def keep_figure(self, name: str, content: bytes) -> Path | None:
        log = self._started().log
        path = log.folder / "figures" / name
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            replaced = path.lstat().st_size if path.exists() else 0
            if not path.parent.is_symlink() and log.quota.take(len(content), replaced=replaced):
                fileio.write(path, content)
                return path
        return None

    async def deliver(self) -> dict[str, str]:
        return await self._ready(self._running().files).deliver()

    def approve(
        self, id: str, decision: Decision = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> bool:
        return self.consent.answer(id, decision, code=code, reason=reason, always=always)

    def approve_host(self, id: str, *, allow: bool, remember: bool = True) -> bool:
        return self._running().kernel.approve_host(id, allow=allow, remember=remember)

    def allow_host(self, entry: str) -> None:
        self._running().kernel.allow_host(entry)

    async def check_export(self, path: str | Path, *, force: bool = False) -> None:
        from nbagent.notebook import place

        await asyncio.to_thread(place.check, Path(path), data=self._plan.sources, force=force)

    async def export(
        self, path: str | Path, *, force: bool = False, environment: bool = False, keep_attempts: bool | None = None
    ) -> Path:
        from nbagent.session.exports import export

        return await export(
            self._started(),
            Path(path),
            spec=self._plan.spec,
            is_running=lambda: self.is_running,
            force=force,
            environment=environment,
            keep_attempts=keep_attempts,
        )

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        return self._started().log.follow(reader)

    def follow_words(self, reader: Callable[[int, str], None]) -> Callable[[], None]:
        return self._started().words.follow(reader)

    # -- parts --------------------------------------------------------------------------------------------------

    def _started(self) -> Parts:
        """What the start has made, also while it still starts and once it was stopped."""
        if self._parts is None:
            raise UsageError("This session was not started.", mend="Use it in `async with`, or call start().")
        return self._parts

    def _running(self) -> Parts:
        """As `_started`, but an error once the session was stopped."""
        parts = self._started()
        if self.status == "stopped":
            raise UsageError("This session was stopped.", mend="Use it in `async with`, or call start() first.")
        return parts

    @staticmethod
    def _ready(part: Part | None) -> Part:
        if part is None:
            raise UsageError("This session is still starting.", mend="Wait for start().")
        return part
