"""A sandbox on this machine, whatever its engine: started, taken over by another process, detached, ended.

The engine brings the `Instance`, which runs the sandbox's processes. `MachineSandbox` has the rest: the lease and its
folders, the hand-over, the mirror of the data, the egress proxy, and the user that code runs as.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.concurrency import in_thread, to_the_end
from nbagent.core.errors import EnvironmentMissing, InstallError, SandboxError
from nbagent.core.events import DataLeftOut, Package
from nbagent.core.policy import MIB, Network
from nbagent.packages.installer import Installer
from nbagent.packages.requirements import Target
from nbagent.sandbox.channels.byte_stream import ByteStream
from nbagent.sandbox.contract import About, Hooks, Sandbox
from nbagent.sandbox.data.watcher import LiveMirror
from nbagent.sandbox.exit import Exit, KillCount
from nbagent.sandbox.leases import scratch, users
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.machine import reaper, supervisor
from nbagent.sandbox.machine.handoff import Handoff
from nbagent.sandbox.machine.instance import Instance, InstancePlan
from nbagent.sandbox.machine.userland import client_loss, client_notice, config_inside
from nbagent.sandbox.paths import RUN
from nbagent.sandbox.registry import missing, unenforceable
from nbagent.sandbox.spec import SandboxSpec, has_egress

if TYPE_CHECKING:
    from nbagent.egress.listener import Egress
    from nbagent.sandbox.connection_file import KernelAddress


class MachineSandbox(Sandbox):
    """A sandbox on this machine, over restarts."""

    def __init__(self, engine: str, instance: Instance, hooks: Hooks) -> None:
        self.instance = instance
        self.spec = SandboxSpec()
        self.handoff: Handoff | None = None
        self.data = LiveMirror(self._tell_left_out)
        self._engine = engine
        self._hooks = hooks
        self._egress: Egress | None = None
        self._running = False
        self._kills = KillCount()
        self._answers: dict[str, InstallError] = {}
        self._before: Exit | None = None
        self._controls: frozenset[str] = frozenset()

    # -- start --------------------------------------------------------------------------------------------------

    async def start(self, spec: SandboxSpec) -> None:
        self.spec = spec
        await in_thread(self._refuse_unenforced)
        async with self._starting() as handoff:
            await to_the_end(self._reserve_user)
            await to_the_end(self._show_data)
            # The sandbox connects to the hand-over's socket, which must be there before it starts.
            handoff.open(self._config_inside(plan := self._plan()))
            await self.instance.start(plan)
            await to_the_end(self._note_environment)

    def _note_environment(self) -> None:
        """Note the kernel's Python in the lease, for other processes that use the kernel (`engines/existing.py`)."""
        with contextlib.suppress(EnvironmentMissing):  # an image that isn't nbagent's
            target = self.instance.target()
            self.lease.write(environment=self.instance.environment, python=target.python, platform=target.platform)

    @contextlib.asynccontextmanager
    async def _starting(self) -> AsyncIterator[Handoff]:
        """The sandbox's folders around a start; if that fails, what a restart keeps stays for the next attempt."""
        again = self.handoff is not None
        try:
            if self.handoff is None:
                reaper.sweep_in_background(self._engine)
                self.handoff = self._new_handoff()
            else:
                await in_thread(self.handoff.close)
                if not self.lease.folder.is_dir():
                    # The end of a login removes the folder of leases.
                    self.handoff.remove(keep_scratch=True)
                    self.handoff = self._new_handoff(self.scratch)
            self._begin(self.handoff)
            yield self.handoff
        except BaseException:
            await (self._stop_instance() if again else self.close())
            raise
        self._running = True
        self._watch_data()

    async def take_over(self, lease: Lease) -> None:
        self.spec = lease.terms.spec
        try:
            reaper.sweep_in_background(self._engine)
            handoff = self.handoff = self._handoff(lease)
            self._begin(handoff)
            handoff.take_over()
            await self.instance.take_over(self._plan())
        except BaseException:
            await self._give_up(lease)
            raise
        self._running = True
        self._watch_data()

    def _new_handoff(self, folder: Path | None = None) -> Handoff:
        """Take a lease, for a new scratch folder if none is given, and make its hand-over."""
        lease = Lease.take(self._engine, self.spec, key=secrets.token_hex(16))
        try:
            lease.write(scratch=str(folder or scratch.make()))
            return self._handoff(lease)
        except BaseException:
            lease.remove(keep_scratch=folder is not None)
            raise

    def _handoff(self, lease: Lease) -> Handoff:
        """The hand-over of a lease, whose scratch folder is ready from then on."""
        try:
            scratch.settle(Path(lease.terms.scratch), lease.folder)
            module = self._install_module if self._hooks.is_client else None
            return Handoff(
                lease,
                install=self._install,
                install_module=module,
                known={
                    "kills": lambda: used.oom_kills() if (used := self.usage()) else 0,
                    "told": lambda: self._before is not None and self._hooks.is_told(self._before),
                },
                ran=self._tell_command,
                results=self._hooks.results,
            )
        except OSError as error:
            raise SandboxError(f"The sandbox's folders can't be made: {error}.", mend="Make room.") from error

    def _begin(self, handoff: Handoff) -> None:
        _OPEN[id(self)] = (os.getpid(), self)
        self._before, self.last_exit = self.last_exit, None
        self._kills = KillCount()
        self._answers = {}
        # It stays over restarts, and so do its budgets.
        if self._egress is None and has_egress(self.spec.trust):
            self._egress = self._open_egress(handoff.shared)

    def _open_egress(self, folder: Path) -> Egress:
        """Start the proxy through which a sandbox reaches a list of hosts, with a socket in the folder that it sees."""
        # Most sandboxes have no use for what this imports.
        from nbagent.egress.listener import SOCKET, Egress

        trust = self.spec.trust
        egress = Egress(
            trust.allowed_hosts or (),
            # The hooks are others once the sandbox is handed over.
            ask=lambda host, port: ask(host, port) if (ask := self._hooks.ask) else None,
            observe=lambda event: tell(event) if (tell := self._hooks.egress) else None,
            upload=trust.limits.upload_mb * MIB,
            download=trust.limits.download_mb * MIB,
        )
        egress.start(folder / SOCKET)
        return egress

    def _reserve_user(self) -> None:
        """Give the sandbox a user of its own, which it keeps over restarts and take-overs, if root starts it."""
        if os.getuid() == 0 and self.lease.terms.uid is None and (among := self.instance.users()) is not None:
            self.lease.write(uid=users.reserve(self.lease.folder, among=among))

    async def _give_up(self, lease: Lease) -> None:
        """Release a sandbox that could not be taken over; it may live, and if it doesn't, the next sweep removes it."""
        if self.handoff is not None:
            await in_thread(self.handoff.close)
        self.handoff = None
        await self._close_egress()
        _OPEN.pop(id(self), None)
        lease.release()

    def _refuse_unenforced(self) -> None:
        """Refuse to start without a limit, unless the person accepted that by name."""
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
    def endpoint(self) -> KernelAddress:
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        return self.handoff.endpoint

    @property
    def about(self) -> About:
        output, workspace = self.instance.folders(self.scratch)
        return About(
            name=self.lease.name,
            environment=self.instance.environment,
            output_folder=output,
            workspace_folder=workspace,
            mirrors=self.instance.mirrors,
            left_out=self.data.left_out,
            user=self._user,
            folder=self.lease.folder,
        )

    @property
    def _user(self) -> tuple[int, int]:
        """The user and the group that code runs as, on the host."""
        return self.instance.user(self.lease.terms.uid)

    @property
    def scratch(self) -> Path:
        """The sandbox's scratch folder."""
        return Path(self.lease.terms.scratch)

    @property
    def site(self) -> Path:
        return scratch.site(self.scratch)

    @property
    def egress(self) -> Egress | None:
        return self._egress

    def byte_stream(self) -> ByteStream | None:
        """A socket beside the one of the hand-over."""
        if self.handoff is None:
            return None
        shared = self.handoff.shared
        return ByteStream(shared, RUN if self.instance.mirrors else str(shared))

    def target(self) -> Target:
        return self.instance.target()

    def usage(self) -> cgroup.GroupUsage | None:
        return self.instance.usage()

    async def tail(self) -> str:
        return await self.instance.tail() or (self.handoff.tail() if self.handoff else "")

    def _plan(self) -> InstancePlan:
        assert self.handoff is not None  # noqa: S101 - there is something to start
        uid, gid = self._user
        return InstancePlan(
            spec=self.spec,
            lease=self.lease,
            shared=self.handoff.shared,
            scratch=self.scratch,
            mounts=self.data.mounts,
            uid=uid,
            gid=gid,
        )

    def _config_inside(self, plan: InstancePlan) -> dict[str, Any]:
        trust = self.spec.trust
        watched = trust.log_all_commands and trust.allow_subprocess and "commands" in self._controls
        linked = self.spec.plain_names and self.instance.mirrors
        told = client_notice(self.data.left_out) if self._hooks.is_client else ""
        config = config_inside(trust, uid=self.lease.terms.uid, watched=watched, notice=told, linked=linked)
        results = self._hooks.results
        saving = {"label": results.label, "files": results.files} if results is not None else None
        lost = client_loss(self._before, trust.limits)
        client = {"hosts": trust.network is not Network.NONE, "memory_mb": trust.limits.memory_mb, "lost": lost}
        hooked = {"kernel": self._hooks.connection_file, "results": saving}
        return config | hooked | {"client": client if self._hooks.is_client else None} | self.instance.inside(plan)

    # -- what it asks for and reports; on threads of its own -------------------------------------------------------

    def _install(self, wanted: list[str]) -> list[dict[str, Any]]:
        if self._hooks.install is not None:
            return self._hooks.install(wanted)
        return _names(asyncio.run(self._installer().install(wanted)))

    def _install_module(self, wanted: list[str]) -> list[dict[str, Any]]:
        return _names(asyncio.run(self._installer().install_module(wanted[0])))

    def _installer(self) -> Installer:
        # One for each request: a session that uses this kernel, too, installs into the same folder.
        return Installer(self.site, target=self.target(), policy=self.spec.install, answers=self._answers)

    def _tell_command(self, pid: int, argv: list[str]) -> None:
        if self._hooks.command is not None:
            self._hooks.command(pid, argv)

    def _tell_left_out(self, event: DataLeftOut) -> None:
        if self._hooks.left_out is not None:
            self._hooks.left_out(event)

    # -- its data -----------------------------------------------------------------------------------------------

    @property
    def _mirror(self) -> Path:
        """The folder on the host that it sees at /tmp/data."""
        return self.scratch / "data"

    def _show_data(self) -> None:
        if self.instance.mirrors and (self.spec.data or self.spec.late_data):
            self.data.fill(self._mirror, self.spec.data, uid=self._user[0])

    def _watch_data(self) -> None:
        if self.instance.mirrors and self.spec.data:
            self.data.watch(self._mirror, self.spec.data, uid=self._user[0])

    async def hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        await to_the_end(self._hand_over, spec, hooks)

    def _hand_over(self, spec: SandboxSpec, hooks: Hooks) -> None:
        self.data.fill(self._mirror, spec.data, uid=self._user[0], mounting=False)
        self.lease.assign(spec)
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        self.handoff.hold(keep=spec.keep)
        self.spec, self._hooks = spec, hooks
        self._watch_data()

    # -- its end ------------------------------------------------------------------------------------------------

    async def poll(self) -> Exit | None:
        if not self._running:
            return self.last_exit or Exit(0)
        if self.last_exit is None:
            kills = self._kills
            if (ended := self.instance.poll()) is None:
                kills.look(self.usage)
                return None
            # It waits a moment for what process 1 says at its end.
            words = await in_thread(self.handoff.last_words) if self.handoff else {}
            told = kills.exit(ended.status, killed=ended.killed, usage=self.usage(), words=words)
            if kills is self._kills and self.last_exit is None:
                self.last_exit = told
        return self.last_exit

    def interrupt(self) -> bool:
        return self._running and supervisor.interrupt(self.lease.folder)

    async def signal(self, signum: int) -> None:
        if signum == signal.SIGINT:
            self.interrupt()
        elif self._running and signum:
            await self.instance.signal(signum)

    async def wait(self) -> Exit:
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

    async def _close_egress(self) -> None:
        if self._egress is not None:
            egress, self._egress = self._egress, None
            await in_thread(egress.close)

    async def close(self) -> None:
        self.data.stop()
        self._running = False
        await self.instance.clean()
        _OPEN.pop(id(self), None)
        await self._close_egress()
        await self._stop_instance()
        if self.handoff is not None:
            await in_thread(self.data.join)
            await in_thread(self.handoff.remove)
            self.handoff = None

    async def detach(self) -> None:
        if self.handoff is not None:
            handoff, self.handoff = self.handoff, None
            _OPEN.pop(id(self), None)
            self._running = False
            self.data.stop()
            await in_thread(self.data.join)
            await self._close_egress()
            self.instance.forget()
            handoff.close()
            handoff.lease.release()


def _names(installed: list[Package]) -> list[dict[str, Any]]:
    return [{"name": each.name, "version": each.version} for each in installed]


_OPEN: dict[int, tuple[int, MachineSandbox]] = {}
"""Sandboxes that hold something on the host, with the process that started each."""


@atexit.register
def _close_at_exit() -> None:
    """Remove what clients leave: `jupyter console` only asks its kernel to end, and is gone."""
    for pid, sandbox in list(_OPEN.values()):
        # A fork of the process that started a sandbox has no part in it.
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                asyncio.run(sandbox.close())
