"""Runs cells in a sandboxed kernel, whatever the engine, and tells the truth about what became of them.

A cell that runs too long is interrupted, given grace, and killed; a kernel that died is replaced; a missing module is
installed and the cell runs again. Each of these is an event; what must be read with a cell stands in its note.

`Kernel` is the front of it: it keeps cells and questions from running at once, numbers the cells, and puts the parts
together. How a cell runs is `runner.py`, which leads to the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from nbagent.core.errors import SandboxError, UsageError
from nbagent.core.events import Cell, CellStarted, CodeBoxOutput, CommandRun, Event, Package
from nbagent.core.policy import InstallPolicy
from nbagent.core.quota import Quota
from nbagent.kernel.cell_replay import CellReplay
from nbagent.kernel.execution import Job, clean_code
from nbagent.kernel.follow import Follower
from nbagent.kernel.host_questions import HostQuestions
from nbagent.kernel.installs import Installs
from nbagent.kernel.outputs.outputs import OutputLimits
from nbagent.kernel.outputs.widgets import Widgets
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import Chunks, Queries
from nbagent.kernel.recovery import Recovery
from nbagent.kernel.router import Notify, Router
from nbagent.kernel.runner import Runner
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed, Installer
from nbagent.sandbox.contract import About, Engine, Hooks
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.spec import SandboxSpec
from nbagent.sandbox.threads import finished

Restore = Literal["nothing", "replay"]
"""What is done about the state of a kernel that was lost."""


class Kernel:
    """A kernel in a sandbox, with its installer.

    Use it as an asynchronous context manager, or call `start` and `stop`. One cell runs at a time; further calls wait.

    Args:
        engine: What isolates it.
        spec: What the sandbox is to be.
        notify: Gets each event as it happens. It must not raise but to end the cell: a log that can't be written.
        limits: What is kept of a cell's outputs.
        spill: Makes, for a cell's number, what takes the stream text that is left out of the notebook.
        ask_hosts: Whether somebody answers `HostAsked`; otherwise a host that isn't listed is denied at once.
        restore: `replay` runs the cells that succeeded again when a kernel is lost (`replay.py`).
        quota: What of its cells' outputs may be kept on the host's disk; None for all.

    Attributes:
        engine: What isolates it.
        cells: How many have begun, or the number of the last one.
        is_detached: Whether the sandbox was left to others.
        report: What nbagent's own code in the kernel said with the last cell's reply; untrusted, empty if nothing.

    Raises:
        SandboxError: In `start`: the sandbox can't be had here.
    """

    def __init__(
        self,
        engine: Engine,
        spec: SandboxSpec | None = None,
        *,
        notify: Notify = lambda _: None,
        limits: OutputLimits | None = None,
        spill: Callable[[int], Callable[[str, str], None]] | None = None,
        ask_hosts: bool = False,
        restore: Restore = "nothing",
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.engine = engine
        self.cells = 0
        self.is_detached = False
        self.report = ""
        self._notify = notify
        self._ask_hosts = ask_hosts
        self._consent: dict[str, Any] = {"confirm": confirm, "exceed": exceed, "allowance": allowance}
        self._hosts: HostQuestions | None = None
        self._busy = asyncio.Lock()
        self._quota = quota
        self._router = Router(notify, limits=limits, spill=spill)
        self._replay = CellReplay() if restore == "replay" else None
        self._assemble(KernelProcess(engine, spec or SandboxSpec()))

    def _assemble(self, process: KernelProcess) -> None:
        """Put together what works on a process."""
        self._process = process
        self._queries = Queries(process, self._router)
        self._installs = Installs(process, self._queries, self._notify, cell=lambda: self.cells, **self._consent)
        self._recovery = Recovery(process, self._queries, self._router, self._notify, replay=self._replay)
        self._runner = Runner(
            process,
            self._router,
            follower=Follower(process, self._router, waited=self._waited),
            installs=self._installs,
            recovery=self._recovery,
            notify=self._notify,
            quota=self._quota,
        )

    async def __aenter__(self) -> Kernel:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # -- its life -----------------------------------------------------------------------------------------------

    async def start(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Start the sandbox and wait until the kernel answers.

        Args:
            meanwhile: Called while the kernel starts, which takes most of a second: what is needed later and takes
                this process's time, as imports do.

        Raises:
            SandboxError: It can't be started, or did not answer in time.
        """
        await self.engine.prepare()
        try:
            await self._process.launch(self._hooks())
            meanwhile()
            await self._process.connect()
        except BaseException:
            await self.stop()
            raise

    async def adopt(self, other: Kernel, *, patience: float) -> None:
        """Go on with the sandbox of a kernel that was started ahead and has run no cell, in place of `start`.

        The other one is as it was before its start then.

        Args:
            other: The same in all that its engine enforces, started on the same event loop.
            patience: Seconds in which it has to answer an empty request.

        Raises:
            DataError: The data can't be copied into it.
            SandboxError: It has ended, or does not answer. It is still the other's to stop then, as in any case.
        """
        self._assemble(await other.part_with(self.spec, self._hooks(), patience=patience))

    async def part_with(self, spec: SandboxSpec, hooks: Hooks, *, patience: float) -> KernelProcess:
        """Give the running process away; the other side of `adopt`.

        Args:
            spec: What its sandbox is from now on: somebody's, with their data.
            hooks: Who answers it from now on.
            patience: Seconds in which it has to answer an empty request.

        Raises:
            DataError: The data can't be copied into it.
            SandboxError: It has ended, or does not answer.
        """
        async with self._busy:
            process, before = self._process, self.spec
            asking = asyncio.create_task(self._queries.answers(patience))
            try:
                await process.hand_over(spec, hooks)
            finally:
                answered = await asking
            if not answered:
                raise SandboxError(f"The kernel did not answer within {patience:g} s.")
            self._assemble(KernelProcess(self.engine, before))
            return process

    async def take_over(self, folder: Path, *, patience: float = 0.0) -> bool:
        """Go on with a sandbox whose controller died, in place of `start`; its variables are as they were.

        A cell that still runs may go on for a while, then it is interrupted. What it printed meanwhile is lost.

        Args:
            folder: The private folder of the sandbox.
            patience: Seconds to wait for a cell that still runs.

        Returns:
            Whether a cell had to be interrupted.

        Raises:
            SandboxError: It has ended, belongs to a process that lives, or does not answer; nothing of it is left
                then, unless it is somebody else's.
        """
        lease = Lease.take_over(folder)
        try:
            await self._process.launch(self._hooks(), lease=lease)
            self._process.reconnect()
            return await self._queries.wait_until_free(patience)
        except BaseException:
            await self.stop()
            raise

    def seed_replay(self, cells: Mapping[int, str]) -> None:
        """Have cells of a kernel that was taken over run again when it is lost, if that is wanted at all.

        Args:
            cells: The code of those that succeeded in it, by their numbers, in order.
        """
        if self._replay is not None:
            self._replay.seed(cells)

    def _hooks(self) -> Hooks:
        """What answers and hears the sandbox, which asks and tells on threads of its own: packages, programs, hosts."""
        loop = asyncio.get_running_loop()
        hosts = self._hosts = HostQuestions(loop, self._notify, asking=self._ask_hosts)

        def tell(event: Event) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all that could be told
                loop.call_soon_threadsafe(self._notify, event)

        def command_ran(pid: int, argv: list[str]) -> None:
            tell(CommandRun(cell=self.cells if self._runner.is_running else 0, argv=argv, pid=pid))

        def install(wanted: list[str]) -> list[dict[str, Any]]:
            # Of whatever process the kernel is at that moment.
            return self._installs.serve(loop)(wanted)

        return Hooks(install=install, command=command_ran, left_out=tell, ask=hosts.ask, egress=hosts.observe)

    async def restart(self, reason: str = "It was restarted.", *, cell: int = 0) -> None:
        """Replace the kernel by a new one in a new sandbox of the same kind; installed packages stay, nothing else.

        Raises:
            SandboxError: The new one did not start.
        """
        await self._recovery.restart(reason, cell=cell)

    async def detach(self) -> None:
        """Leave the sandbox running for another process to take over, as long as its lease says.

        Who is cancelled while a cell runs still has the kernel; once it is being let go of, it is let go of whole.
        """
        async with self._busy:
            await finished(self._let_go())

    async def _let_go(self) -> None:
        self.is_detached |= await self._process.detach()

    async def stop(self) -> None:
        """End the sandbox, at once; nothing of it is left."""
        await self._process.stop()

    async def answers(self, *, seconds: float) -> bool:
        """Whether its process lives and a request that changes nothing is answered within so many seconds."""
        async with self._busy:
            return await self._queries.answers(seconds)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def spec(self) -> SandboxSpec:
        """What its sandbox is, or is to be."""
        return self._process.spec

    @property
    def id(self) -> str:
        """The running sandbox's name; it stays over restarts.

        Raises:
            UsageError: The kernel was not started.
        """
        return self._process.about.name

    @property
    def is_alive(self) -> bool:
        """Whether it takes cells; false after it died too often, until the next cell brings it back."""
        return self._process.is_connected

    @property
    def about(self) -> About:
        """What the running sandbox is: its name, its environment, and where code finds its folders.

        Raises:
            UsageError: The kernel was not started.
        """
        return self._process.about

    @property
    def python(self) -> str:
        """The version of its Python.

        Raises:
            EnvironmentMissing: That isn't known of its image.
        """
        return self._process.target().python

    def memory_peak(self) -> int | None:
        """Bytes: the most that its sandbox has used at once; None where the engine can't tell."""
        return self._process.memory_peak()

    @property
    def widgets(self) -> Widgets:
        """The models that are open in it."""
        return self._router.widgets

    def take_widget_state(self) -> dict[str, Any] | None:
        """The state of all widgets, as a notebook's metadata has it, if it changed since the last call."""
        return self._router.take_widget_state()

    # -- cells --------------------------------------------------------------------------------------------------

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        turn: int = 0,
        tool: str = "person",
        approver: str = "person",
        metadata: dict[str, Any] | None = None,
    ) -> Cell:
        """Run a cell to its end.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; the sandbox's own limit by default.
            turn: The question it belongs to, for the events.
            tool: What the model called to have it run, for the events.
            approver: Who let it run, for the events.
            metadata: What goes along with the request, for nbagent's own code in the kernel; see `report`.

        Returns:
            The cell, whatever its code did.

        Raises:
            SandboxError: The kernel died and could not be replaced.
        """
        limit = self.spec.trust.limits.timeout if timeout is None else timeout
        if not limit > 0:
            raise UsageError(f"A cell's timeout must be above 0, not {limit}.")
        code = clean_code(code)
        async with self._busy:
            self.cells += 1
            self._notify(CellStarted(cell=self.cells, turn=turn, code=code, tool=tool, approver=approver))
            job = Job(cell=self.cells, turn=turn, code=code, limit=limit, metadata=metadata or {})
            try:
                return await self._runner.run(job)
            finally:
                self.report = job.report

    async def run_codebox(self, code: str) -> CodeBoxOutput:
        """Run a cell and return its small form."""
        return (await self.run(code)).to_codebox()

    def interrupt(self) -> bool:
        """Stop the running cell: interrupt, grace, kill. Returns whether one was running."""
        return self._runner.interrupt()

    async def evaluate(
        self,
        source: str,
        arguments: list[Any],
        *,
        seconds: float = 20.0,
        chunks: Chunks | None = None,
        buffers: Sequence[bytes] = (),
    ) -> Any:
        """Run nbagent's own code in the kernel, silently and without a trace in its namespace.

        Args:
            source: A module that defines `main(*arguments)`, whose result JSON can hold. It stays in the kernel, with
                what it keeps in its globals.
            arguments: What JSON can hold.
            seconds: After which it is interrupted.
            chunks: Gets the buffers of `nbagent_chunk` messages that the code publishes.
            buffers: What goes along with the request; the code finds it in the kernel's `get_parent()`.

        Returns:
            What `main` returned, which is untrusted: the session's own code may have changed anything in there. None
            if there was nothing.
        """
        async with self._busy:
            await self._recovery.ensure_alive(0)
            return await self._queries.call(source, arguments, seconds=seconds, chunks=chunks, buffers=buffers)

    # -- hosts --------------------------------------------------------------------------------------------------

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool:
        """Answer a `HostAsked` by its id; see `HostQuestions.answer`."""
        return self._hosts is not None and self._hosts.answer(name, allow=allow, remember=remember)

    def _waited(self, since: float) -> float:
        for_hosts = self._hosts.waited(since) if self._hosts is not None else 0.0
        return for_hosts + self._installs.waited(since)

    def allow_host(self, entry: str) -> None:
        """Let code reach a host from now on, whatever was decided before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this sandbox has no way out by a list.
        """
        egress = self._process.egress
        if egress is None:
            raise UsageError(
                f"A sandbox that is {self.spec.trust.level} has no list of hosts.",
                mend="Start it with --trust sandboxed, or with a host in --allow-host.",
            )
        egress.allow(entry)

    # -- packages -----------------------------------------------------------------------------------------------

    @property
    def installer(self) -> Installer:
        """What fills this session's site folder."""
        return self._installs.installer

    @property
    def pins(self) -> dict[str, str]:
        """The versions of what the kernel has from the start, by normalised name."""
        return self._installs.pins

    @property
    def policy(self) -> InstallPolicy:
        """What may be installed."""
        return self.spec.install

    async def install(self, requirements: list[str], *, reason: str = "", by_person: bool = False) -> list[Package]:
        """Install distributions for this kernel; importable at once.

        Args:
            requirements: Names with optional extras and versions.
            reason: Why, for the event.
            by_person: Whether a person named them, and neither a model nor code.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        return await self._importable(self._installs.install(requirements, reason=reason, by_person=by_person))

    async def install_module(self, module: str) -> list[Package]:
        """Install what has a module, by the name that code imports it by; importable at once.

        Raises:
            InstallRefused: Policy forbids it, or nothing is known to have it.
            InstallError: It failed; the environment is as it was.
        """
        return await self._importable(self._installs.provide(module))

    async def _importable(self, work: Awaitable[list[Package]]) -> list[Package]:
        added = await work
        async with self._busy:
            if self.is_alive:
                await self._installs.make_importable()
        return added
