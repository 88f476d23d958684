"""Runs cells in a sandboxed kernel of any engine, and reports truthfully how they ended.

A cell that runs too long is interrupted, given grace, and killed; a kernel that died is replaced; a missing module is
installed, and the cell goes on. Each of these is an event, and a sentence in the cell's note if people or models
must know it.

`Kernel` puts the parts together, numbers the cells, and lets one cell or request at a time through. `runner.py` has the
steps of a cell.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbagent.core.concurrency import finished
from nbagent.core.errors import SandboxError, UsageError
from nbagent.core.events import Cell, CellStarted, CommandRun, Event, Package
from nbagent.core.quota import Quota
from nbagent.core.text import one_line
from nbagent.kernel.cell_replay import CellReplay
from nbagent.kernel.execution import CellJob, clean_code
from nbagent.kernel.host_questions import HostAsker
from nbagent.kernel.inside_calls import source_of
from nbagent.kernel.installs import KernelInstaller
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import Chunks, QueryClient
from nbagent.kernel.recovery import Prepare, Recovery
from nbagent.kernel.router import Notify, Router
from nbagent.kernel.runner import Runner
from nbagent.kernel.timeout import TimedRequests, timeout_of
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed
from nbagent.packages.wheel_list import kernel_packages
from nbagent.safety.wait_timer import WaitTimer
from nbagent.sandbox.contract import About, Engine, Hooks
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.machine.traits import traits
from nbagent.sandbox.paths import SITE
from nbagent.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from nbagent.sandbox.channels.byte_stream import ByteStream

INTRODUCTION_SECONDS = 20.0
"""Seconds in which a kernel that somebody else started must say what it is."""
Restore = Literal["nothing", "replay"]
"""What is done about the state of a kernel that was lost."""


class Kernel:
    """A kernel in a sandbox, with its installer.

    Use it as an asynchronous context manager, or call `start` and `stop`. One cell runs at a time; further calls wait.

    Args:
        engine: What isolates it.
        spec: What the sandbox is to be.
        notify: Gets each event as it happens. If it raises, which a log does that can't be written, the cell ends.
        spill: Called with a cell's number, returns what takes the stream text that the notebook leaves out.
        ask_hosts: Whether somebody answers `HostAsked`; otherwise a host that isn't listed is denied at once.
        restore: `replay` runs the cells that succeeded again when a kernel is lost (`cell_replay.py`).
        confirm: Asks a person about packages before they are installed.
        exceed: Asks a person about names beyond the allowance.
        allowance: Bounds what code may ask the package index for; by default it is this sandbox's own.
        quota: Counts what is kept of the outputs on the host's disk; None keeps all.

    Attributes:
        engine: What isolates it.
        last_cell: The number of the last cell that began; 0 before the first one.
        is_detached: Whether the sandbox was left running for another process.
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
        spill: Callable[[int], Callable[[str, str], None]] | None = None,
        ask_hosts: bool = False,
        restore: Restore = "nothing",
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.engine = engine
        self.last_cell = 0
        self.is_detached = False
        self.report = ""
        self._notify = notify
        self._ask_hosts = ask_hosts
        self._host_questions: HostAsker | None = None
        self._busy = asyncio.Lock()
        self._wait_timer = WaitTimer()
        self._make_installer = partial(
            KernelInstaller,
            notify=notify,
            busy=self._busy,
            wait_timer=self._wait_timer,
            cell=lambda: self.last_cell,
            confirm=confirm,
            exceed=exceed,
            allowance=allowance,
        )
        self._quota = quota
        self._router = Router(notify, spill)
        self._replay = CellReplay() if restore == "replay" else None
        self._assemble(KernelProcess(engine, spec or SandboxSpec()))

    def _assemble(self, process: KernelProcess) -> None:
        """Put together the parts that work on a process."""
        self._process = process
        self._queries = QueryClient(process, self._router)
        self._installs = self._make_installer(process, self._queries)
        self._recovery = Recovery(process, self._queries, self._router, self._notify, replay=self._replay)
        self._runner = Runner(
            process,
            self._router,
            requests=TimedRequests(process, self._router, waited=self._wait_timer.seconds),
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
            meanwhile: Called while the kernel starts, which takes most of a second: for work of this process, such as
                imports, that is needed later.

        Raises:
            SandboxError: It can't be started, or did not answer in time.
        """
        await self.engine.prepare()
        try:
            await self._process.launch(self._hooks())
            meanwhile()
            await self._process.connect()
            if not self.is_owned:
                self._process.sandbox.learn(await self._introduction())
        except BaseException:
            await self.stop()
            raise

    async def start_from(self, warm: Kernel, *, patience: float) -> None:
        """Take over the sandbox of a kernel that was started ahead and has run no cell, in place of `start`.

        After that, the other kernel is as it was before its start.

        Args:
            warm: A kernel whose spec differs only in what can be handed over, started on the same event loop.
            patience: Seconds in which it must answer an empty request.

        Raises:
            DataError: The data can't be copied into the sandbox.
            SandboxError: The other kernel has ended, or does not answer. Whatever happens, its owner still stops it.
        """
        self._assemble(await warm.hand_over(self.spec, self._hooks(), patience=patience))

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks, *, patience: float) -> KernelProcess:
        """Give the running process to another kernel; `start_from` calls this."""
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
        """Take over a sandbox whose controller died, in place of `start`; its variables are as they were.

        A cell that still runs may go on for a while, then it is interrupted. What it printed meanwhile is lost.

        Args:
            folder: The private folder of the sandbox.
            patience: Seconds to wait for a cell that still runs.

        Returns:
            Whether a cell had to be interrupted.

        Raises:
            SandboxError: The sandbox has ended, does not answer, or has a controller that lives. Unless it has one,
                nothing is left of it then.
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
        """With `restore="replay"`: name the cells that made the state of a kernel that was taken over."""
        if self._replay is not None:
            self._replay.seed(cells)

    def _hooks(self) -> Hooks:
        """What the sandbox calls, on threads of its own: for packages, hosts, and to tell of programs and data."""
        loop = asyncio.get_running_loop()
        hosts = self._host_questions = HostAsker(
            loop, self._notify, asking=self._ask_hosts, wait_timer=self._wait_timer
        )

        def emit(event: Event) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody follows the events
                loop.call_soon_threadsafe(self._notify, event)

        def command_ran(pid: int, argv: list[str]) -> None:
            emit(CommandRun(cell=self.last_cell if self._runner.is_running else 0, argv=argv, pid=pid))

        def install(wanted: list[str]) -> list[dict[str, Any]]:
            # `_installs` is another object after a hand-over.
            return self._installs.serve(loop)(wanted)

        return Hooks(install=install, command=command_ran, left_out=emit, ask=hosts.ask, egress=hosts.observe)

    async def restart(self, reason: str = "It was restarted.", *, cell: int = 0) -> None:
        """Replace the kernel by a new one in a new sandbox of the same kind; installed packages stay, nothing else.

        Raises:
            UsageError: The kernel is not nbagent's to restart.
            SandboxError: The new one did not start.
        """
        if not self.is_owned:
            raise UsageError("This kernel is not nbagent's to restart.", mend="Restart it where it was started.")
        await self._recovery.restart(reason, cell=cell)

    def prepare_replay(self, prepare: Prepare) -> None:
        """Have this called before cells run again in a new kernel that replaces a lost one."""
        self._recovery.prepare = prepare

    async def rebuild(self, cells: Mapping[int, str], reason: str, *, prepare: Prepare) -> None:
        """Replace the kernel as `restart` does, and run these cells again in the new one; see `Recovery.rebuild`."""
        await self._recovery.rebuild(cells, reason, prepare=prepare)

    async def detach(self) -> None:
        """Leave the sandbox running for another process to take over, as long as its lease says.

        A cancellation while a cell still runs changes nothing; one that comes later waits until this is done.
        """
        async with self._busy:
            await finished(self._let_go())

    async def _let_go(self) -> None:
        self.is_detached |= await self._process.detach()

    async def stop(self) -> None:
        """End the sandbox at once, and remove all of it; a cancellation is raised after that."""
        await self._process.stop()

    async def answers(self, *, seconds: float) -> bool:
        """Whether its process lives and answers an empty request within so many seconds."""
        async with self._busy:
            return await self._queries.answers(seconds)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def is_owned(self) -> bool:
        """Whether nbagent started it, for one session; see `Engine.owns`."""
        return self._process.is_owned

    async def _introduction(self) -> Any:
        return await self._queries.call(source_of("introduction_inside.py"), [], seconds=INTRODUCTION_SECONDS)

    async def variables(self) -> list[str]:
        """The kernel's variables, the latest first, each as `name: type`; untrusted, and empty if it doesn't say."""
        match await self.evaluate(source_of("introduction_inside.py"), [True], seconds=INTRODUCTION_SECONDS):
            case {"variables": list(found)}:
                return [one_line(each) for each in found if isinstance(each, str)]
        return []

    @property
    def spec(self) -> SandboxSpec:
        """What its sandbox is, or is to be."""
        return self._process.spec

    @property
    def about(self) -> About:
        """What the running sandbox is: its name, its environment, and where code finds its folders.

        Raises:
            UsageError: The kernel was not started.
        """
        return self._process.sandbox.about

    @property
    def id(self) -> str:
        """The running sandbox's name, which restarts don't change; raises as `about`."""
        return self.about.name

    @property
    def is_alive(self) -> bool:
        """Whether a process takes cells; False after too many deaths in a row, until the next cell revives it."""
        return self._process.is_connected

    @property
    def python(self) -> str:
        """The version of its Python.

        Raises:
            EnvironmentMissing: The image doesn't say.
        """
        return self._process.sandbox.target().python

    @property
    def machine(self) -> dict[str, Any]:
        """The properties that can change its results (`sandbox/machine/traits.py`), if it has those of nbagent's."""
        return traits(self.spec, self._process.sandbox.target()) if self.is_owned else {}

    @property
    def packages(self) -> list[Package]:
        """The packages that it has from the start, each with the hash of its wheel."""
        return kernel_packages(self._process.sandbox.target())

    @property
    def versions(self) -> dict[str, str]:
        """The versions of all packages that it has now, by normalised name."""
        if self._process.sandbox.site is None:
            return self.pins
        return self.pins | {name: each.version for name, each in self._installs.installer.installed.items()}

    @property
    def pins(self) -> dict[str, str]:
        """The versions of the packages that it has from the start, by normalised name."""
        return self._installs.pins

    def memory_peak(self) -> int | None:
        """The most bytes that its sandbox has used at once; None where the engine can't tell."""
        return self._process.memory_peak()

    def take_widget_state(self) -> dict[str, Any] | None:
        """The state of all widgets, as a notebook's metadata has it, if it changed since the last call."""
        return self._router.take_widget_state()

    def closed_widgets(self) -> dict[str, Any]:
        """The last state of widgets that are no longer open, by the names of their models, as far as it is known."""
        return self._router.widgets.closed()

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
        counted: bool = True,
    ) -> Cell:
        """Run a cell to its end.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; the sandbox's own limit by default.
            turn: The turn that it belongs to, for the events.
            tool: What the model called to have it run, for the events.
            approver: Who let it run, for the events.
            metadata: Sent along for nbagent's own code in the kernel, which answers by `report`.
            counted: Whether it is one of IPython's history, which numbers what code finds in `In` and `Out`.

        Returns:
            The cell, whatever its code did.

        Raises:
            SandboxError: The kernel died and could not be replaced.
        """
        seconds = timeout_of(timeout, self.spec.trust.limits)
        code = clean_code(code)
        async with self._busy:
            self.last_cell += 1
            self._notify(CellStarted(cell=self.last_cell, turn=turn, code=code, tool=tool, approver=approver))
            sent = metadata or {}
            job = CellJob(cell=self.last_cell, turn=turn, code=code, timeout=seconds, metadata=sent, counted=counted)
            try:
                return await self._runner.run(job)
            finally:
                self.report = job.report

    def interrupt(self) -> bool:
        """Stop the running cell: interrupt, grace, kill. Returns whether one was running."""
        return self._runner.interrupt() or self._recovery.interrupt()

    async def evaluate(
        self,
        source: str,
        arguments: list[Any],
        *,
        seconds: float = 20.0,
        chunks: Chunks | None = None,
        buffers: Sequence[bytes] = (),
    ) -> Any:
        """Call nbagent's own code in the kernel, silently and without a trace in the session's namespace.

        Args:
            source: A module that defines `main(*arguments)`. It stays in the kernel, with its globals.
            arguments: What JSON can hold.
            seconds: After which it is interrupted.
            chunks: Gets the buffers of the `nbagent_chunk` messages that the code publishes.
            buffers: Sent along with the request; the code finds them in the kernel's `get_parent()`.

        Returns:
            What `main` returned, which must be what JSON can hold; None if nothing came. It is untrusted: the session's
            code may have changed anything inside.
        """
        async with self._busy:
            await self._recovery.ensure_alive(0)
            return await self._queries.call(source, arguments, seconds=seconds, chunks=chunks, buffers=buffers)

    def byte_stream(self) -> ByteStream | None:
        """A socket for one stream of bytes to or from code inside; see `Sandbox.byte_stream`."""
        return self._process.sandbox.byte_stream()

    # -- hosts --------------------------------------------------------------------------------------------------

    def approve_host(self, id: str, *, allow: bool, remember: bool = True) -> bool:
        """Answer a `HostAsked` by its id; see `HostAsker.answer`."""
        return self._host_questions is not None and self._host_questions.answer(id, allow=allow, remember=remember)

    def allow_host(self, entry: str) -> None:
        """Let code reach a host from now on, whatever was decided before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this sandbox has no list of hosts.
        """
        egress = self._process.sandbox.egress
        if egress is None:
            raise UsageError(
                f"A sandbox that is {self.spec.trust.level} has no list of hosts.",
                mend="Start it with --trust sandboxed, or with a host in --allow-host.",
            )
        egress.allow(entry)

    # -- packages -----------------------------------------------------------------------------------------------

    async def install(self, requirements: list[str], *, reason: str = "", by_person: bool = False) -> list[Package]:
        """Install distributions; they are importable at once.

        Args:
            requirements: Names with optional extras and versions.
            reason: Why, for the event.
            by_person: Whether a person named them, rather than a model or code.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        return await self._installs.install(requirements, reason=reason, by_person=by_person)

    async def install_module(self, module: str) -> list[Package]:
        """Install the distribution that has a module, which is importable at once.

        Raises:
            InstallRefused: Policy forbids it, or no distribution is known to have the module.
            InstallError: It failed; the environment is as it was.
        """
        return await self._installs.install_module(module)

    async def install_locked(self, packages: Sequence[Package]) -> None:
        """Install exactly the wheels of a lock, before the first cell; they are found before what the kernel has.

        Raises:
            InstallRefused: Policy forbids one, or the index has another wheel.
            InstallError: They can't be had.
        """
        await self._installs.install_locked(packages)
        if any(each.name in self.pins for each in packages):
            source = "def main(folder):\n    import sys\n    sys.path.remove(folder)\n    sys.path.insert(1, folder)"
            await self.evaluate(source, [SITE])
