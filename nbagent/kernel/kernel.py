"""Runs cells in a sandboxed kernel, whatever the engine, and tells the truth about what became of them.

A cell that runs too long is interrupted, given grace, and killed; a kernel that died is replaced; a missing module is
installed and the cell runs again. Each of these is an event; what must be read with a cell stands in its note.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from jupyter_client import AsyncKernelManager

from nbagent.errors import InstallError, InstallRefused, KernelDied, NbagentError, SandboxError, UsageError
from nbagent.events import (
    CellFinished,
    CellStarted,
    CommandRun,
    Event,
    InstallFailed,
    LateOutput,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    Package,
    PackagesInstalled,
    StateLost,
)
from nbagent.kernel import probe
from nbagent.kernel.cell import Cell, CodeBoxOutput
from nbagent.kernel.connection import Connection
from nbagent.kernel.context import shared_context
from nbagent.kernel.execution import Execution, Why, clean_code
from nbagent.kernel.hosts import Hosts
from nbagent.kernel.outputs import Added, CellOutputs, Change, Displays, OutputLimits, Updated
from nbagent.kernel.precedence import Precedence
from nbagent.kernel.replay import OUT_OF_TIME, Replay
from nbagent.kernel.widgets import Widgets
from nbagent.policy import MIB, InstallPolicy
from nbagent.sandbox.base import SandboxProvisioner
from nbagent.sandbox.engine import Engine, kernel_specs
from nbagent.sandbox.exit import start_failed
from nbagent.sandbox.leases import Lease
from nbagent.sandbox.packages import Installer
from nbagent.sandbox.spec import SandboxSpec

TICK = 0.05
"""Seconds between two looks at the clock and at the kernel's process while nothing is heard of it."""
HALF_DONE = 5.0
"""Seconds to wait for the reply after idle, or for idle after the reply, before the cell counts as ended."""
LAST_WORDS = 1.0
"""Seconds for reading what a kernel that died has sent before."""
RECENT = 120
"""Requests whose late output is still attributed to a cell."""
SILENT = 100
"""How many of them may be silent ones: what is printed comes up to 0.2 s later, and a file takes hundreds."""
MIN_PATIENCE = 2.0
"""Seconds that a kernel which is free takes at most to say so."""
MAX_RESTARTS = 3
"""Kernels that may die in a row without one cell having ended well in between."""
MAX_INSTALLS = 10
"""Modules that one cell may have installed."""

Notify = Callable[[Event], object]
Chunks = Callable[[bytes], None]
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
    ) -> None:
        self.engine = engine
        self.spec = spec or SandboxSpec()
        self._displays = Displays()
        self.widgets = Widgets(displays=self._displays)
        self.cells = 0
        self._notify = notify
        self._limits = limits or OutputLimits()
        self._spill = spill
        self._ask_hosts = ask_hosts
        self._hosts: Hosts | None = None
        self._manager: AsyncKernelManager | None = None
        self._connection: Connection | None = None
        self._precedence = Precedence()
        self._installer: Installer | None = None
        self._recent: OrderedDict[str, tuple[int, CellOutputs]] = OrderedDict()
        self._silent: deque[str] = deque()
        self._busy = asyncio.Lock()
        self._deaths = 0
        self._gone = ""
        self._untold = ""
        self._stop: Why | None = None
        self._running = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._widgets_changed = False
        self._replay = Replay() if restore == "replay" else None
        self._restored = ""
        self.is_detached = False
        """Whether the sandbox was left to others."""

    async def __aenter__(self) -> Kernel:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # -- its life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the sandbox and wait until the kernel answers.

        Raises:
            SandboxError: It can't be started, or did not answer in time.
        """
        self._loop = asyncio.get_running_loop()
        await self.engine.prepare()
        self._manager = AsyncKernelManager(
            kernel_name=self.engine.kernel_name,
            kernel_spec_manager=kernel_specs(self.engine),
            context=shared_context(),
        )
        try:
            await self._manager.start_kernel(sandbox=self.spec)
            self._serve(self._loop)
            await self._connect()
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
        async with other._busy:
            asking = asyncio.create_task(other._answers(patience))
            try:
                await other.provisioner.hand_over(self.spec)
            finally:
                answered = await asking
            if not answered:
                raise SandboxError(f"The kernel did not answer within {patience:g} s.")
            self._loop = asyncio.get_running_loop()
            self._manager, other._manager = other._manager, None
            self._connection, other._connection = other._connection, None
            self._serve(self._loop)

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
        self._loop = asyncio.get_running_loop()
        lease = Lease.take_over(folder)
        self.spec = lease.terms.spec
        self._manager = AsyncKernelManager(
            kernel_name=self.engine.kernel_name,
            kernel_spec_manager=kernel_specs(self.engine),
            context=shared_context(),
        )
        try:
            await self._manager.start_kernel(sandbox=self.spec, lease=lease)
            self._serve(self._loop)
            self._connection = Connection(self._manager)
            return await self._wait_until_free(patience)
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

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer what the sandbox asks for: packages and hosts."""
        self._hosts = Hosts(loop, self._notify, asking=self._ask_hosts)
        provisioner = self.provisioner
        provisioner.install_hook = self._install_from_inside
        provisioner.command_hook = self._command_ran
        provisioner.ask_hook, provisioner.egress_hook = self._hosts.ask, self._hosts.hear

    def _command_ran(self, pid: int, argv: list[str]) -> None:
        """Tell of a program that was executed inside; called on the sandbox's own thread."""
        assert self._loop is not None  # noqa: S101 - set by start
        event = CommandRun(cell=self.cells if self._running else 0, argv=argv, pid=pid)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all that could be told
            self._loop.call_soon_threadsafe(self._notify, event)

    async def _wait_until_free(self, patience: float) -> bool:
        """Wait until a kernel takes requests; returns whether its cell had to be interrupted for that."""
        connection = self._alive()
        grace = self.spec.trust.limits.grace
        interrupted = False
        for seconds in (max(patience, MIN_PATIENCE), grace):
            msg_id = connection.execute("", silent=True, store_history=False)
            # With a place for chunks, it also waits for a message of IOPub: what comes from now on is not missed.
            if await self._reply(msg_id, seconds=seconds, chunks=lambda _: None) is not None:
                await self._settle()
                return interrupted
            # The request that waited is interrupted together with what it waited for.
            interrupted = True
            connection.interrupt()
        raise SandboxError(f"The kernel did not answer within {grace:g} s of an interrupt.")

    async def detach(self) -> None:
        """Leave the sandbox running for another process to take over, as long as its lease says."""
        async with self._busy:
            self._drop_connection()
            manager, self._manager = self._manager, None
            if manager is not None and manager.provisioner is not None:
                # Not `cleanup_resources`, which removes the sockets that the next client needs.
                await cast("SandboxProvisioner", manager.provisioner).detach()
                manager._close_control_socket()
                self.is_detached = True

    async def stop(self) -> None:
        """End the sandbox, at once; nothing of it is left."""
        self._drop_connection()
        manager, self._manager = self._manager, None
        if manager is not None and manager.provisioner is not None:
            provisioner = manager.provisioner
            await provisioner.kill()
            await provisioner.wait()
            await manager.cleanup_resources()

    async def answers(self, *, seconds: float) -> bool:
        """Whether its process lives and a request that changes nothing is answered within so many seconds."""
        async with self._busy:
            return await self._answers(seconds)

    async def _answers(self, seconds: float) -> bool:
        if self._connection is None or await self.provisioner.poll() is not None:
            return False
        reply = await self._ask("", expressions={}, seconds=seconds)
        return reply is not None and reply.get("status") == "ok"

    @property
    def id(self) -> str:
        """The running sandbox's name; it stays over restarts.

        Raises:
            UsageError: The kernel was not started.
        """
        return self.provisioner.lease.name

    @property
    def is_alive(self) -> bool:
        """Whether it takes cells; false after it died too often, until the next cell brings it back."""
        return self._connection is not None

    @property
    def pins(self) -> dict[str, str]:
        """The versions of what the kernel has from the start, by normalised name."""
        return dict(self.installer.pins)

    @property
    def provisioner(self) -> SandboxProvisioner:
        """The engine's side of the running sandbox.

        Raises:
            UsageError: The kernel was not started.
        """
        if self._manager is None or self._manager.provisioner is None:
            raise UsageError("The kernel is not running.", mend="Call start() first.")
        return cast("SandboxProvisioner", self._manager.provisioner)

    async def _connect(self) -> None:
        """Connect and wait for the first answer: of both channels, so that no output can be missed."""
        assert self._manager is not None  # noqa: S101 - called by start and restart only
        connection = Connection(self._manager)
        try:
            await self._wait_for_answer(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    async def _wait_for_answer(self, connection: Connection) -> None:
        deadline = time.monotonic() + self.spec.trust.limits.start_timeout
        connection.kernel_info()
        replied = welcomed = False
        while not (replied and welcomed):
            if await connection.wait(TICK):
                for channel, message in connection.read():
                    kind = message["header"].get("msg_type")
                    replied |= channel == "shell" and kind == "kernel_info_reply"
                    welcomed |= channel == "iopub"
            await self._still_starting(deadline)

    async def _still_starting(self, deadline: float) -> None:
        provisioner = self.provisioner
        if await provisioner.poll() is not None and provisioner.last_exit is not None:
            raise start_failed(self.engine.name, provisioner.last_exit, await provisioner.tail())
        if time.monotonic() > deadline:
            seconds = self.spec.trust.limits.start_timeout
            said = await provisioner.tail()
            more = f" It said: {said}" if said else ""
            raise SandboxError(f"The kernel in {self.engine.name} did not answer within {seconds:g} s.{more}")

    async def restart(self, reason: str = "It was restarted.", *, cell: int = 0) -> None:
        """Replace the kernel by a new one in a new sandbox of the same kind; installed packages stay, nothing else.

        Raises:
            SandboxError: The new one did not start.
        """
        if self._replay is not None:
            self._replay.forget()
        await self._replace(reason, cell=cell)

    async def _replace(self, reason: str, *, cell: int) -> None:
        """Replace a kernel that was lost, and restore what can be."""
        assert self._manager is not None  # noqa: S101 - a kernel that runs has one
        self._drop_connection()
        provisioner = self.provisioner
        await provisioner.kill(restart=True)
        await provisioner.wait()
        await self._manager.cleanup_resources(restart=True)
        await self._manager.start_kernel(sandbox=self.spec)
        await self._connect()
        self._recent.clear()
        self._displays = Displays()
        self.widgets = Widgets(displays=self._displays)
        self._notify(StateLost(cell=cell, reason=reason))
        await self._restore(cell)

    async def _restore(self, cell: int) -> None:
        """Run again what the lost kernel had run, if that is wanted; it is told with the cell that ends next."""
        if self._replay is None:
            return
        restored = await self._replay.run(self._rerun, cell=cell, seconds=self.spec.trust.limits.timeout)
        if restored is None:
            return
        self._notify(restored)
        if self._connection is None:
            # It did not survive that. Once more, and this time without.
            await self.restart("The kernel died when cells were run again.", cell=cell)
        self._restored = restored.told

    async def _rerun(self, code: str, seconds: float) -> dict[str, Any] | None:
        """Run code for what it does to the kernel alone; returns the reply's content, or None if that is lost now."""
        connection = self._alive()
        msg_id = connection.execute(code)
        end, late = time.monotonic() + seconds, False
        reply: dict[str, Any] | None = None
        idle = False
        while reply is None or not idle:
            if await connection.wait(TICK):
                for channel, message in connection.read():
                    mine = message["parent_header"].get("msg_id") == msg_id
                    if channel == "shell":
                        reply = message["content"] if mine else reply
                    elif mine and message["header"].get("msg_type") == "status":
                        idle |= message["content"].get("execution_state") == "idle"
                    else:
                        self.widgets.add(message)
            overdue = time.monotonic() > end
            if await self.provisioner.poll() is not None or (overdue and late):
                self._drop_connection()
                return None
            if overdue:
                late, end = True, time.monotonic() + self.spec.trust.limits.grace
                connection.interrupt()
        if late:
            await self._settle()
        return OUT_OF_TIME if late else reply

    # -- cells --------------------------------------------------------------------------------------------------

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        turn: int = 0,
        tool: str = "person",
        approver: str = "person",
    ) -> Cell:
        """Run a cell to its end.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; the sandbox's own limit by default.
            turn: The question it belongs to, for the events.
            tool: What the model called to have it run, for the events.
            approver: Who let it run, for the events.

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
            number = self.cells
            self._notify(CellStarted(cell=number, turn=turn, code=code, tool=tool, approver=approver))
            started = time.monotonic()
            lost = await self._ensure_alive(number)
            self._running, self._stop = True, None
            try:
                return await self._run_with_installs(number, code, limit, started, lost)
            finally:
                self._running = False

    async def run_codebox(self, code: str) -> CodeBoxOutput:
        """Run a cell and return its small form."""
        return (await self.run(code)).to_codebox()

    def interrupt(self) -> bool:
        """Stop the running cell: interrupt, grace, kill. Returns whether one was running."""
        if self._running:
            self._stop = "interrupted"
        return self._running

    async def _run_with_installs(self, number: int, code: str, limit: float, started: float, lost: str) -> Cell:
        """Run, and as long as a module is missing that can be had, install it and run again.

        `lost` says why the kernel is a new one, if it is.
        """
        installed: list[Package] = []
        notes = [lost] if lost else []
        for _ in range(MAX_INSTALLS + 1):
            run = await self._execute(number, code, limit)
            if (module := run.missing_module(code)) is None or len(installed) >= MAX_INSTALLS:
                break
            try:
                added, refusal = await self._install_module(number, module)
            except BaseException:
                run.stopped = "interrupted"
                self._finish(run, code, time.monotonic() - started, installed, notes, "")
                raise
            if refusal:
                notes.append(refusal)
            if not added:
                break
            installed += added
            if self._stop:
                # Stopped while it was installed: what was wanted to stop is the cell, not its first attempt.
                run.stopped = self._stop
                break
            self._notify(OutputsCleared(cell=number))
        try:
            lost = await self._recover(run) or lost
        except BaseException:
            # There is no kernel any more, but the cell has ended, and how.
            self._finish(run, code, time.monotonic() - started, installed, [*notes, *run.notes], run.notes[-1])
            raise
        return self._finish(run, code, time.monotonic() - started, installed, [*notes, *run.notes], lost)

    def _finish(
        self, run: Execution, code: str, duration: float, installed: list[Package], notes: list[str], lost: str
    ) -> Cell:
        """The finished cell, told and returned."""
        self._show(run.cell, list(run.outputs.withheld()))
        if run.outputs.truncated:
            notes.append(run.outputs.truncated)
        if self._replay is not None and run.status == "ok":
            self._replay.add(run.cell, code)
        restored, self._restored = self._restored, ""
        if restored:
            notes.append(restored)
        # What the kernel claims may be anything; a notebook takes a small natural number.
        count = (run.reply or {}).get("execution_count")
        count = count if type(count) is int and 0 <= count < 2**31 else None
        cell = Cell(
            cell=run.cell,
            code=code,
            status=run.status,
            outputs=run.outputs.outputs(),
            execution_count=count,
            duration=duration,
            note=" ".join(notes),
            installed=installed,
            state_lost=lost,
            restored=restored,
        )
        names = run.outputs.display_ids()
        if run.memory_peak is None and self._manager is not None:
            run.memory_peak = self.provisioner.memory_peak()
        self._notify(
            CellFinished(
                cell=cell.cell,
                status=cell.status,
                outputs=cell.outputs,
                execution_count=cell.execution_count,
                duration=duration,
                note=cell.note,
                display_ids=names if any(names) else [],
                memory_peak=run.memory_peak,
                memory_limit=self.spec.trust.limits.memory_mb * MIB,
                exit_code=run.exit_code,
            )
        )
        return cell

    async def _execute(self, number: int, code: str, limit: float) -> Execution:
        """Send the code once and follow it to its end, or to the kernel's."""
        connection = self._alive()
        spill = self._spill(number) if self._spill else None
        outputs = CellOutputs(displays=self._displays, limits=self._limits, spill=spill)
        self._precedence.begin(self.provisioner.usage())
        run = Execution(connection.execute(code), outputs, number, time.monotonic())
        self._remember(run.msg_id, number, outputs)
        try:
            while not run.done:
                if await connection.wait(TICK):
                    for channel, message in connection.read():
                        self._take(channel, message, run)
                await self._watch(run, limit)
        except BaseException:
            # The caller gave up, or a reader of the events failed: either way the code must not go on running.
            await self._give_up(run, code)
            raise
        return run

    async def _give_up(self, run: Execution, code: str) -> None:
        """Stop a cell that nobody waits for any more, and tell how it ended; the next one finds a kernel."""
        lost = ""
        try:
            lost = await self._abandon(run)
        except BaseException:
            # It may still run that code: the next cell gets a new kernel.
            self._drop_connection()
            run.died = run.died or "was given up, since it did not stop when interrupted"
            raise
        finally:
            run.stopped = "interrupted"
            self._finish(run, code, time.monotonic() - run.started, [], run.notes, lost)

    def _drop_connection(self) -> None:
        self._precedence.end()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _abandon(self, run: Execution) -> str:
        """Interrupt, grace, kill; returns why state was lost, if it was."""
        connection = self._alive()
        connection.interrupt()
        end = time.monotonic() + self.spec.trust.limits.grace
        while not run.done and time.monotonic() < end:
            if await connection.wait(TICK):
                for channel, message in connection.read():
                    self._take(channel, message, run)
            if await self.provisioner.poll() is not None:
                break
        run.stopped = "interrupted"
        if not run.done:
            run.died = "was killed, since it did not stop when interrupted"
        return await self._recover(run)

    def _remember(self, msg_id: str, cell: int, outputs: CellOutputs) -> None:
        self._recent[msg_id] = (cell, outputs)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def _take(self, channel: str, message: dict[str, Any], run: Execution | None) -> None:
        """Sort one message: to the running cell, to an earlier one, to the widgets, or away."""
        kind = message["header"].get("msg_type")
        parent = message["parent_header"].get("msg_id")
        if channel == "shell":
            if run is not None and parent == run.msg_id and kind == "execute_reply" and run.reply is None:
                run.reply = message["content"]
            return
        if self.widgets.add(message):
            self._widgets_changed = True
            return
        if run is not None and parent == run.msg_id:
            # As long as output comes, its end is only late.
            run.half_done_at = None
            if kind == "status":
                run.idle |= message["content"].get("execution_state") == "idle"
            else:
                self._show(run.cell, run.outputs.add(message))
        elif parent in self._recent and kind != "status":
            cell, outputs = self._recent[parent]
            for change in outputs.add(message):
                if isinstance(change, Added):
                    self._notify(LateOutput(cell=cell, output=change.output))
                else:
                    self._show(cell, [change])

    def _show(self, cell: int, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change, Added):
                self._notify(OutputAdded(cell=cell, output=change.output))
            elif isinstance(change, Updated):
                self._notify(
                    OutputUpdated(cell=cell, display_id=change.display_id, data=change.data, metadata=change.metadata)
                )
            else:
                self._notify(OutputsCleared(cell=cell))

    async def _watch(self, run: Execution, limit: float) -> None:
        """Look at the clock and at the process: stop what takes too long, notice what died."""
        now = time.monotonic()
        if run.done:
            return
        if await self.provisioner.poll() is not None:
            await self._hear_last_words(run)
            self._bury(run)
        elif lost := self._alive().lost:
            run.died = lost
        elif run.kill_at is not None and now >= run.kill_at:
            run.died = "was killed, since it did not stop when interrupted"
        elif run.kill_at is None and (self._stop or now - run.started - self._waited(run) >= limit):
            run.stopped = self._stop or "timeout"
            run.kill_at = now + self.spec.trust.limits.grace
            self._alive().interrupt()
        elif run.reply is not None or run.idle:
            run.half_done_at = run.half_done_at or now
            if now - run.half_done_at > HALF_DONE:
                run.notes.append("The kernel did not report the cell's end; its outputs may be incomplete.")
                run.reply, run.idle = run.reply or {"status": "ok"}, True

    def _waited(self, run: Execution) -> float:
        """Seconds of a run in which a person was asked about a host."""
        return self._hosts.waited(run.started) if self._hosts is not None else 0.0

    async def _hear_last_words(self, run: Execution) -> None:
        """Take what a dead kernel sent and what has not been read yet: it is the end of the cell's output."""
        connection = self._alive()
        end = time.monotonic() + LAST_WORDS
        while time.monotonic() < end and await connection.wait(TICK):
            for channel, message in connection.read():
                self._take(channel, message, run)

    def _bury(self, run: Execution) -> None:
        """The kernel's process ended: say how, with what the engine knows of it."""
        provisioner = self.provisioner
        ended = provisioner.last_exit
        run.died = str(ended) if ended else "is gone"
        run.exit_code = ended.code if ended else None
        run.memory_peak = ended.memory_peak if ended else None
        limit = self.spec.trust.limits.memory_mb
        if ended is not None and ended.out_of_memory:
            peak = f", {ended.memory_peak // MIB:,} MB at its peak" if ended.memory_peak else ""
            run.died += f" (limit {limit:,} MB{peak}); raise it with --memory or Limits(memory_mb=…)"

    async def _recover(self, run: Execution) -> str:
        """After a stop or a death: get the kernel back; returns why its state is lost, or nothing."""
        limits = self.spec.trust.limits
        why = {"timeout": "It ran longer than its limit", "interrupted": "It was stopped", None: ""}[run.stopped]
        if not run.died:
            self._deaths = 0 if run.status == "ok" else self._deaths
            if run.stopped and (run.reply or {}).get("status") != "ok":
                run.notes.append(f"{why} and was interrupted; variables are kept.")
                await self._settle()
            elif run.stopped:
                run.notes.append(f"{why} and was interrupted, and went on to its end.")
            return ""
        if run.exit_code is None:
            # It is this side that kills it. What it used can be asked for only as long as its sandbox is there.
            run.exit_code, run.memory_peak = -signal.SIGKILL, self.provisioner.memory_peak()
        reason = f"{why} and the kernel {run.died}." if why else f"The kernel {run.died}."
        if run.stopped:
            reason = f"{why}, did not stop within {limits.grace:g} s of the interrupt, and the kernel was killed."
        content = {"ename": "KernelDied", "evalue": reason, "traceback": [f"KernelDied: {reason}"]}
        self._show(run.cell, run.outputs.add({"header": {"msg_type": "error"}, "content": content}))
        self._deaths += 1
        lost = f"{reason} Variables, imports and files of the sandbox are lost."
        run.notes.append(lost)
        self._drop_connection()
        if self._deaths <= MAX_RESTARTS:
            await self._replace(lost, cell=run.cell)
        else:
            await self.provisioner.kill()
            await self.provisioner.wait()
        return lost

    async def _ensure_alive(self, cell: int) -> str:
        """Before a cell: a kernel that ended between two cells is replaced, and the cell not blamed for it.

        Returns:
            Why the state of the earlier cells is lost, if it is and no cell was told so far.
        """
        if self._connection is None:
            await self._revive(cell)
        elif await self.provisioner.poll() is not None:
            ended = self.provisioner.last_exit
            self._untold = f"The kernel {ended or 'ended'} between two cells; its variables are lost."
            await self._replace(self._untold, cell=cell)
        elif lost := self._alive().lost:
            self._untold = f"The kernel {lost} between two cells; its variables are lost."
            await self._replace(self._untold, cell=cell)
        lost, self._untold = self._untold, ""
        return lost

    async def _revive(self, cell: int) -> None:
        """Bring back a kernel that died too often to be restarted by itself: once, because a person asked again.

        Raises:
            KernelDied: It did not come up.
        """
        reason = f"{self._gone or 'The kernel had died.'} Variables, imports and files of the sandbox are lost."
        try:
            await self._replace(reason, cell=cell)
        except NbagentError as error:
            raise KernelDied(
                f"The kernel died {self._deaths} times in a row and could not be restarted: {error}"
            ) from error
        self._gone, self._untold = "", reason

    async def _settle(self) -> None:
        """After an interrupt ipykernel refuses the next request or two: ask until one is taken."""
        end = time.monotonic() + self.spec.trust.limits.grace
        while time.monotonic() < end:
            msg_id = self._alive().execute("", silent=True, store_history=False)
            reply = await self._reply(msg_id, seconds=1.0)
            if reply is not None and reply.get("status") == "ok":
                return

    def _alive(self) -> Connection:
        if self._connection is None:
            raise KernelDied("The kernel is not running.")
        return self._connection

    def take_widget_state(self) -> dict[str, Any] | None:
        """The state of all widgets, as a notebook's metadata has it, if it changed since the last call."""
        if not self._widgets_changed:
            return None
        self._widgets_changed = False
        return self.widgets.state()

    # -- questions to the kernel that are no cells ------------------------------------------------------------

    async def _ask(
        self,
        code: str,
        *,
        expressions: dict[str, str],
        seconds: float,
        chunks: Chunks | None = None,
        buffers: Sequence[bytes] = (),
    ) -> dict[str, Any] | None:
        """Run code silently and return the reply's content; None if none came in time. The caller holds the lock.

        What takes too long is interrupted; a kernel that doesn't answer that either is given up.
        """
        connection = self._alive()
        msg_id = connection.execute(code, silent=True, store_history=False, expressions=expressions, buffers=buffers)
        if self._recent:
            # ipykernel names the latest request for what a thread prints: it belongs to the last cell.
            self._remember(msg_id, *next(reversed(self._recent.values())))
            self._forget_silent(msg_id)
        reply = await self._reply(msg_id, seconds=seconds, chunks=chunks)
        if reply is None and await self.provisioner.poll() is None:
            connection.interrupt()
            if await self._reply(msg_id, seconds=self.spec.trust.limits.grace) is not None:
                await self._settle()
            elif await self.provisioner.poll() is None:
                await self._give_kernel_up()
        return reply

    async def _reply(self, msg_id: str, *, seconds: float, chunks: Chunks | None = None) -> dict[str, Any] | None:
        """Wait for the reply to a silent request, and for its end if it sends chunks."""
        connection = self._alive()
        end = time.monotonic() + seconds
        reply: dict[str, Any] | None = None
        idle = chunks is None
        while (reply is None or not idle) and time.monotonic() < end:
            if await connection.wait(TICK):
                for channel, message in connection.read():
                    if message["parent_header"].get("msg_id") != msg_id:
                        self._take(channel, message, None)
                    elif channel == "shell":
                        reply = message["content"]
                    elif chunks is not None and message["header"].get("msg_type") == "nbagent_chunk":
                        for buffer in message.get("buffers") or []:
                            chunks(bytes(buffer))
                    elif message["header"].get("msg_type") == "status":
                        idle |= message["content"].get("execution_state") == "idle"
                    else:
                        self._take(channel, message, None)
            if connection.lost or await self.provisioner.poll() is not None:
                return None
        return reply

    def _forget_silent(self, msg_id: str) -> None:
        """Of the silent requests only the last are remembered, so that a large file doesn't push out the cells."""
        self._silent.append(msg_id)
        if len(self._silent) > SILENT:
            self._recent.pop(self._silent.popleft(), None)

    async def _give_kernel_up(self) -> None:
        """End a kernel that neither answers nor takes an interrupt; the next cell gets a new one, and is told."""
        lost = self._alive().lost
        self._drop_connection()
        self._gone = "The kernel did not answer between two cells, ignored the interrupt, and was killed."
        if lost:
            self._gone = f"The kernel {lost} between two cells."
        await self.provisioner.kill()
        await self.provisioner.wait()

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
            self._untold = await self._ensure_alive(0)
            connection, key = self._alive(), probe.key_of(source)
            kept = key in connection.kept
            while True:
                expressions = {"value": probe.call(source, arguments, kept=kept)}
                reply = await self._ask("", expressions=expressions, seconds=seconds, chunks=chunks, buffers=buffers)
                if not (kept and probe.is_missing(reply)):
                    break
                kept = False
            if reply is not None:
                connection.kept.add(key)
        return probe.result(reply)

    # -- hosts --------------------------------------------------------------------------------------------------

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool:
        """Answer a `HostAsked` by its id; see `Hosts.answer`."""
        return self._hosts is not None and self._hosts.answer(name, allow=allow, remember=remember)

    def allow_host(self, entry: str) -> None:
        """Let code reach a host from now on, whatever was decided before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this sandbox has no way out by a list.
        """
        egress = self.provisioner.egress
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
        if self._installer is None:
            provisioner = self.provisioner
            self._installer = Installer(provisioner.site, target=provisioner.target(), policy=self.policy)
        return self._installer

    @property
    def policy(self) -> InstallPolicy:
        """What may be installed."""
        return self.spec.install

    async def install(self, requirements: list[str], *, reason: str = "") -> list[Package]:
        """Install distributions for this kernel; importable at once.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        added = await self._add(0, requirements, self.installer.install(requirements), reason=reason)
        async with self._busy:
            if self._connection is not None:
                await self._see_new_packages()
        return added

    async def _install_module(self, cell: int, module: str) -> tuple[list[Package], str]:
        """Install what has the module; returns what was added, or why not."""
        try:
            work = self.installer.install_module(module)
            added = await self._add(cell, [module], work, reason=f"No module named {module!r}")
        except InstallError as error:
            return [], f"Not installed: {error}"
        await self._see_new_packages()
        # The cell runs again under the same number, as it will when the notebook runs again with the package there.
        await self._uncount()
        return added, ""

    async def _add(self, cell: int, asked: list[str], work: Any, *, reason: str) -> list[Package]:
        started = time.monotonic()
        try:
            added: list[Package] = await work
        except InstallError as error:
            refused = isinstance(error, InstallRefused)
            seconds = time.monotonic() - started
            self._notify(
                InstallFailed(cell=cell, requirements=asked, reason=str(error), refused=refused, seconds=seconds)
            )
            raise
        if added:
            seconds = time.monotonic() - started
            self._notify(PackagesInstalled(cell=cell, packages=added, reason=reason, seconds=seconds))
        return added

    async def _see_new_packages(self) -> None:
        await self._ask("", expressions={"seen": "__import__('importlib').invalidate_caches()"}, seconds=5)

    async def _uncount(self) -> None:
        """Let the kernel count as if its last cell had not run."""
        shell = "__import__('IPython').get_ipython()"
        count = f"setattr({shell}, 'execution_count', {shell}.execution_count - 1)"
        await self._ask("", expressions={"count": count}, seconds=5)

    def _install_from_inside(self, wanted: list[str]) -> list[dict[str, Any]]:
        """Serve `%pip install` in a cell: called on the sandbox's own thread, answered on the session's loop."""
        assert self._loop is not None  # noqa: S101 - set by start
        work = self._add(self.cells, wanted, self.installer.install(wanted), reason="%pip install")
        added = asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)
        return [{"name": each.name, "version": each.version} for each in added]
