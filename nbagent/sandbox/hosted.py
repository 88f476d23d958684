"""A sandbox on this machine: what all engines share that start one here.

It has an engine's part, the `Instance`, and beside it the lease, the hand-over, the mirror of its data, its way out and
its user; it starts the whole, and ends it or lets another process take it over.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.packages import installer as packages
from nbagent.sandbox import premises
from nbagent.sandbox.contract import About, Hooks, Sandbox
from nbagent.sandbox.data.shown import Shown
from nbagent.sandbox.data.tree import LeftOut, Why, facts
from nbagent.sandbox.exit import Exit, Kills
from nbagent.sandbox.handoff import Handoff
from nbagent.sandbox.instance import Ended, Instance, Plan
from nbagent.sandbox.layout import told_inside
from nbagent.sandbox.leases import reaper
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.limits import cgroup, users
from nbagent.sandbox.registry import missing, unenforceable
from nbagent.sandbox.services import Services
from nbagent.sandbox.spec import SandboxSpec
from nbagent.sandbox.threads import in_thread, to_the_end

if TYPE_CHECKING:
    from nbagent.egress.listener import Egress
    from nbagent.sandbox.channels.endpoint import UnixEndpoint


class HostedSandbox(Sandbox):
    """A sandbox on this machine, over restarts.

    Args:
        engine: The engine's name.
        instance: Its part.
        hooks: Who answers what the sandbox asks for.
    """

    def __init__(self, engine: str, instance: Instance, hooks: Hooks) -> None:
        self.instance = instance
        self.spec = SandboxSpec()
        self.handoff: Handoff | None = None
        self._engine = engine
        self._services = Services(hooks)
        self.shown = Shown(self._services.left_out)
        self._running = False
        self._kills = Kills()
        self._controls: frozenset[str] = frozenset()

    # -- its beginning ------------------------------------------------------------------------------------------

    async def start(self, spec: SandboxSpec) -> None:
        """Start it, or another one in its place; see `Sandbox.start`."""
        self.spec = spec
        await in_thread(self._refuse_unenforced)
        async with self._starting() as handoff:
            await to_the_end(self._name_user)
            await to_the_end(self._show_data)
            # The door must be there before the sandbox knocks.
            handoff.open(self._inside(plan := self._plan()))
            await self.instance.start(plan)

    @contextlib.asynccontextmanager
    async def _starting(self) -> AsyncIterator[Handoff]:
        """What is around a start: the folders, and what becomes of them if it fails."""
        again = self.handoff is not None
        try:
            if self.handoff is None:
                reaper.sweep_in_background(self._engine)
                self.handoff = premises.new(self._engine, self.spec, self._serving)
            else:
                await in_thread(self.handoff.close)
                if not self.lease.folder.is_dir():
                    self.handoff = premises.renewed(self.handoff, self.spec, self._serving)
            self._begin(self.handoff)
            yield self.handoff
        except BaseException:
            # What a restart keeps stays for the next attempt, and until the sandbox is closed.
            await (self._stop_instance() if again else self.close())
            raise
        self._running = True
        self._watch_data()

    async def take_over(self, lease: Lease) -> None:
        """Go on with one that another process started; see `Sandbox.take_over`."""
        self.spec = lease.terms.spec
        try:
            reaper.sweep_in_background(self._engine)
            handoff = self.handoff = premises.settled(lease, self._serving)
            self._begin(handoff)
            handoff.take_over()
            await self.instance.take_over(self._plan())
        except BaseException:
            await self._leave(lease)
            raise
        self._running = True
        self._watch_data()

    def _begin(self, handoff: Handoff) -> None:
        _OPEN[id(self)] = (os.getpid(), self)
        self.last_exit = None
        self._kills = Kills()
        self._services.open_egress(self.spec.trust, handoff.shared)

    def _serving(self, lease: Lease) -> Handoff:
        return Handoff(lease, install=self._install, ran=self._services.ran)

    def _install(self, wanted: list[str]) -> list[dict[str, Any]]:
        return self._services.install(
            wanted, lambda: packages.Installer(self.site, target=self.target(), policy=self.spec.install)
        )

    def _name_user(self) -> None:
        """Give the sandbox a user of its own, which it keeps over restarts and take-overs, if root starts it."""
        if os.getuid() == 0 and self.lease.terms.uid is None and (among := self.instance.users()) is not None:
            self.lease.write(uid=users.reserve(self.lease.folder, among=among))

    async def _leave(self, lease: Lease) -> None:
        """Let go of a sandbox that could not be taken over: it may live. If it doesn't, the next sweep removes it."""
        if self.handoff is not None:
            await in_thread(self.handoff.close)
        self.handoff = None
        await in_thread(self._services.close)
        _OPEN.pop(id(self), None)
        lease.release()

    def _refuse_unenforced(self) -> None:
        """Refuse to go on without a limit, unless the person accepted it by name.

        Raises:
            LimitUnenforceable: Nobody did; all such limits are named.
        """
        controls = self.instance.controls(self.spec)
        self._controls = frozenset(each.name for each in controls if each.enforced)
        if lacking := missing(controls, self.spec):
            raise unenforceable(self._engine, lacking)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def lease(self) -> Lease:
        """The sandbox's lease, which this process holds."""
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        return self.handoff.lease

    @property
    def endpoint(self) -> UnixEndpoint:
        """The kernel's Unix sockets."""
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        return self.handoff.endpoint

    @property
    def about(self) -> About:
        """What it is."""
        output, workspace = self.instance.folders(self.scratch)
        return About(
            name=self.lease.name,
            environment=self.instance.environment,
            output_folder=output,
            workspace_folder=workspace,
            mirrors=self.instance.mirrors,
            left_out=self.shown.left_out,
            user=self.instance.user(self.lease.terms.uid),
            folder=self.lease.folder,
        )

    @property
    def scratch(self) -> Path:
        """A private folder of the sandbox's on disk, for the mirror of its data and for packages; gone with it."""
        return Path(self.lease.terms.scratch)

    @property
    def site(self) -> Path:
        """The folder of installed packages in it, seen at /opt/site."""
        return self.scratch / "site"

    @property
    def egress(self) -> Egress | None:
        """Its way out by a list of hosts, if it has one."""
        return self._services.egress

    def target(self) -> packages.Target:
        """What packages must fit to be importable inside."""
        return self.instance.target()

    def usage(self) -> cgroup.Usage | None:
        """What it uses, as far as the engine can tell."""
        return self.instance.usage()

    async def tail(self) -> str:
        """The end of what it printed to its original stdout and stderr."""
        return await self.instance.tail() or (self.handoff.tail() if self.handoff else "")

    def _plan(self) -> Plan:
        assert self.handoff is not None  # noqa: S101 - there is something to start
        uid, gid = self.instance.user(self.lease.terms.uid)
        return Plan(
            spec=self.spec,
            lease=self.lease,
            shared=self.handoff.shared,
            scratch=self.scratch,
            mounts=self.shown.mounts,
            uid=uid,
            gid=gid,
        )

    def _inside(self, plan: Plan) -> dict[str, Any]:
        """What `inside.py` is told."""
        trust = self.spec.trust
        watched = trust.log_all_commands and trust.allow_subprocess and "commands" in self._controls
        told = told_inside(trust, uid=self.lease.terms.uid, watched=watched, notice=self._notice())
        return told | self.instance.inside(plan)

    # -- its data -----------------------------------------------------------------------------------------------

    @property
    def _mirror(self) -> tuple[Path, int]:
        """The folder on the host that it sees at /tmp/data, and the user that it must be readable for."""
        return self.scratch / "data", self.instance.user(self.lease.terms.uid)[0]

    def _show_data(self) -> None:
        if self.instance.mirrors and (self.spec.data or self.spec.late_data):
            folder, uid = self._mirror
            self.shown.fill(folder, self.spec.data, uid=uid)

    def _watch_data(self) -> None:
        if self.instance.mirrors and self.spec.data:
            folder, uid = self._mirror
            self.shown.watch(folder, self.spec.data, uid=uid)

    def _notice(self) -> str:
        """What the first cell says where nobody else can: what of the person's folder is not shown.

        Names that begin with a dot go without saying there.
        """
        told: LeftOut = {why: paths for why, paths in self.shown.left_out.items() if why is not Why.HIDDEN}
        return "\n".join(each.text for each in facts(told)) if self._services.hooks.first_cell else ""

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        """Make it somebody's; see `Sandbox.hand_over`."""
        await to_the_end(self._hand_over, spec, hooks)

    def _hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        folder, uid = self._mirror
        self.shown.fill(folder, spec.data, uid=uid, mounting=False)
        self.lease.assign(spec)
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        self.handoff.hold(keep=spec.keep)
        self.spec, self._services.hooks = spec, hooks
        self._watch_data()

    # -- its end ------------------------------------------------------------------------------------------------

    async def poll(self) -> Exit | None:
        """None while the kernel runs, else how it ended."""
        if not self._running:
            return self.last_exit or Exit(0)
        if self.last_exit is None:
            kills = self._kills
            if (ended := self.instance.poll()) is None:
                kills.look(self.usage)
                return None
            told = await in_thread(self._told, ended)
            if kills is self._kills and self.last_exit is None:
                self.last_exit = told
        return self.last_exit

    def _told(self, ended: Ended) -> Exit:
        """How the kernel ended, by what process 1 said at its end, if it could; else by what the engine knows.

        A status alone can't tell a signal from an exit code above 128. Process 1 is given a moment to say it.
        """
        words = self.handoff.last_words() if self.handoff else {}
        said = {name: value for name, value in words.items() if isinstance(value, int)}
        usage = self.usage()
        kills = said.get("oom_kills", usage.oom_kills() if usage else 0)
        killed = kills > self._kills.survived or ("oom_kills" not in said and ended.killed)
        peak = said.get("memory_peak", usage.memory_peak() if usage else None)
        told = Exit.told(ended.status, killed=killed, memory_peak=peak)
        if (code := said.get("exit", -1)) >= 0:
            return replace(told, code=code, out_of_memory=False, overuse=str(words.get("overuse", "")))
        return told

    async def signal(self, signum: int) -> None:
        """Send a signal to the kernel; interrupts travel as messages and don't come here."""
        if self._running and signum:
            await self.instance.signal(signum)

    async def wait(self) -> Exit:
        """Wait until the kernel has ended, and remove what is left of its process."""
        while (found := await self.poll()) is None:
            await asyncio.sleep(0.01)
        self._running = False
        await self.instance.clean()
        return found

    async def _stop_instance(self) -> None:
        """End what runs, and stop serving it."""
        await self.instance.clean()
        if self.handoff is not None:
            # In a thread, since it waits for the one that serves the sandbox, which may be waiting for this loop.
            await in_thread(self.handoff.close)

    async def close(self) -> None:
        """Remove all that it has on the host."""
        self.shown.stop()
        self._running = False
        await self.instance.clean()
        _OPEN.pop(id(self), None)
        await in_thread(self._services.close)
        await self._stop_instance()
        if self.handoff is not None:
            await in_thread(self.shown.join)
            # Before the lease, by which others know that this is somebody's.
            await in_thread(shutil.rmtree, self.scratch, True)
            self.handoff.remove()
            self.handoff = None

    async def detach(self) -> None:
        """Let go of it without ending it: another process may take it over, as long as its lease says."""
        if self.handoff is not None:
            handoff, self.handoff = self.handoff, None
            _OPEN.pop(id(self), None)
            self._running = False
            self.shown.stop()
            await in_thread(self.shown.join)
            await in_thread(self._services.close)
            self.instance.forget()
            handoff.close()
            handoff.lease.release()


_OPEN: dict[int, tuple[int, HostedSandbox]] = {}
"""Sandboxes that hold something on the host, with the process that started each."""


@atexit.register
def _clean_up_at_exit() -> None:
    """Remove what clients leave: `jupyter console` only asks its kernel to end, and is gone."""
    for pid, sandbox in list(_OPEN.values()):
        # A fork of the process that started it has not inherited the sandbox.
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                asyncio.run(sandbox.close())
