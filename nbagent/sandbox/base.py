"""The provisioner that all engines share: it starts a sandbox, and ends it or lets another process take it over.

It is one of `jupyter_client`'s, so JupyterLab, nbclient, papermill or any other client starts the same sandbox by the
kernelspec's name (`nbagent-docker`, `nbagent-bubblewrap`) without knowing nbagent. nbagent's own `Kernel` starts it the
same way and passes a `SandboxSpec` besides.
"""

from __future__ import annotations

import abc
import asyncio
import atexit
import contextlib
import logging
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerBase

from nbagent.errors import SandboxError
from nbagent.events import DataLeftOut
from nbagent.packages import installer as packages
from nbagent.policy import MIB
from nbagent.sandbox import clients
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.shown import Shown
from nbagent.sandbox.data.tree import LeftOut, Why, facts
from nbagent.sandbox.engine import missing, unenforceable
from nbagent.sandbox.environment import environment
from nbagent.sandbox.exit import Exit, Kills
from nbagent.sandbox.handoff import CommandHook, Handoff, InstallHook
from nbagent.sandbox.layout import OUTPUT, PROXY, WORKSPACE, has_egress
from nbagent.sandbox.leases import reaper
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.limits import cgroup, seccomp, users
from nbagent.sandbox.spec import SandboxSpec, spec_for_client
from nbagent.sandbox.threads import in_thread, to_the_end

if TYPE_CHECKING:
    from nbagent.egress.gate import Decide
    from nbagent.egress.listener import Egress
    from nbagent.egress.proxy import Notify
    from nbagent.sandbox.engine import Control


class SandboxProvisioner(KernelProvisionerBase):
    """What all engines have in common: the lease, the hand-over, and kernels that other clients start.

    An engine adds `_start`, `_take_over`, `_poll` and `_stop`.
    """

    engine: ClassVar[str]
    mirrors: ClassVar[bool] = True
    """Whether code sees data at `/tmp/data`, as a mirror of it, and not where it lies."""

    spec: SandboxSpec
    scratch: Path
    """A private folder of the sandbox's on disk, for the mirror of its data and for packages; gone with it."""
    site: Path
    """The folder of installed packages in it, seen at /opt/site."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = SandboxSpec()
        self.handoff: Handoff | None = None
        self.install_hook: InstallHook | None = None
        self.ask_hook: Decide | None = None
        self.egress_hook: Notify | None = None
        self.command_hook: CommandHook | None = None
        self.left_out_hook: Callable[[DataLeftOut], None] | None = None
        self.shown = Shown(self._tell_left_out)
        self._of_client = False
        self.egress: Egress | None = None
        self.last_exit: Exit | None = None
        self.started = 0.0
        self.kills = Kills()

    # -- what an engine adds ------------------------------------------------------------------------------------

    @abc.abstractmethod
    async def _start(self, handoff: Handoff) -> None:
        """Start the sandbox; its kernel waits for the hand-over.

        What must be known to end it, should this process die, goes into the lease as soon as there is something.

        Raises:
            SandboxError: It could not be started.
        """

    @abc.abstractmethod
    async def _take_over(self, lease: Lease) -> None:
        """Go on with a sandbox that another process started.

        Raises:
            SandboxError: It has ended.
        """

    @abc.abstractmethod
    def _poll(self) -> Exit | None:
        """None while the kernel runs, else how it ended. Cheap: called many times a second."""

    @abc.abstractmethod
    async def _stop(self, signum: int) -> None:
        """Send a signal to the sandbox; after SIGKILL nothing of it runs."""

    def _ended(self, status: int, *, killed: bool, memory_peak: int | None) -> Exit:
        """How the kernel ended, by what process 1 said at its end, if it could; else by what the engine knows.

        A status alone can't tell a signal from an exit code above 128.

        Args:
            status: As a shell tells it.
            killed: Whether Linux has killed something of the sandbox's for its memory, as far as the engine knows.
            memory_peak: Bytes, if the engine knows.
        """
        words = self.handoff.last_words() if self.handoff else {}
        said = {name: value for name, value in words.items() if isinstance(value, int)}
        if "oom_kills" in said:
            killed = said["oom_kills"] > self.kills.survived
        ended = Exit.told(status, killed=killed, memory_peak=said.get("memory_peak", memory_peak))
        if (code := said.get("exit", -1)) >= 0:
            return replace(ended, code=code, out_of_memory=False, overuse=str(words.get("overuse", "")))
        return ended

    def usage(self) -> cgroup.Usage | None:
        """What the sandbox uses, or None where this engine can't tell. Cheap, like `_poll`."""
        return None

    async def _clean(self) -> None:
        """Remove what the engine still holds of a sandbox that has ended."""
        return None

    @abc.abstractmethod
    def target(self) -> packages.Target:
        """What packages must fit to be importable inside."""

    @property
    @abc.abstractmethod
    def environment_digest(self) -> str:
        """What the kernel is made of: the digest of its image or environment."""

    @property
    def sandbox_name(self) -> str:
        """What the sandbox is called in labels, control groups and folders."""
        return self.lease.folder.name

    def memory_peak(self) -> int | None:
        """Bytes: the most that the sandbox has used at once since its start; None where it can't be told."""
        usage = self.usage()
        return usage.memory_peak() if usage else None

    @property
    def output_folder(self) -> str:
        """Where code leaves its results, as it sees it."""
        return OUTPUT

    @property
    def workspace_folder(self) -> str:
        """Where code works, as it sees it."""
        return WORKSPACE

    def data_path(self, mount: Mount) -> str:
        """Where code sees a mount."""
        return mount.target

    # -- what jupyter_client calls ------------------------------------------------------------------------------

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started and not yet given up."""
        return self._running

    _running = False
    _taken: Lease | None = None
    _telling: Callable[[], contextlib.AbstractContextManager[None]] = staticmethod(contextlib.nullcontext)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Take the `SandboxSpec` if nbagent starts the kernel, else make one for the folder it is started for."""
        spec = kwargs.pop("sandbox", None)
        self._taken = kwargs.pop("lease", None)
        self._of_client = spec is None
        self._telling = contextlib.nullcontext if spec else clients.telling
        with self._telling():
            self.spec = spec or spec_for_client(kwargs.get("cwd"), config=self._config())
        return {"cmd": list(self.kernel_spec.argv), "env": {}}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:  # noqa: ARG002 - the interface's
        """Start the sandbox; the connection is usable at once, the kernel answers when it is up.

        Raises:
            SandboxError: The engine can't start it here.
        """
        with self._telling():
            return await self._launch()

    async def _launch(self) -> KernelConnectionInfo:
        if self._taken is None:
            await in_thread(self._refuse_unenforced)
        again = self.handoff is not None
        if again and not self.lease.folder.is_dir():
            self._renew()
        _OPEN[id(self)] = (os.getpid(), self)
        self.last_exit = None
        self.kills = Kills()
        self.started = time.monotonic()
        try:
            handoff = self.handoff = self.handoff or self._prepare()
            self.egress = self.egress or self._open_egress(handoff)
            if self._taken is not None:
                handoff.take_over()
                await self._take_over(self._taken)
            else:
                await to_the_end(self._name_user)
                await to_the_end(self._show_data)
                # The door must be there before the sandbox knocks.
                handoff.open(self._inside())
                await self._start(handoff)
        except BaseException:
            if self._taken is not None:
                await self._leave(self._taken)
            else:
                # What a restart keeps stays for the next attempt, and until the manager gives the kernel up.
                await self.cleanup(restart=again)
            raise
        self._running, self._taken = True, None
        self._watch_data()
        self.connection_info = handoff.connection_info
        return self.connection_info

    def _prepare(self) -> Handoff:
        """The folders of a new sandbox, or those of one that is taken over."""
        reaper.sweep_in_background(self.engine)
        if self._taken is not None:
            return self._settle(self._taken)
        lease = self._new_lease()
        try:
            lease.write(scratch=str(environment.scratch_folder()))
            return self._settle(lease)
        except BaseException:
            lease.remove()
            shutil.rmtree(lease.terms.scratch, ignore_errors=True)
            raise

    def _new_lease(self) -> Lease:
        return Lease.take(self.engine, self.spec, key=secrets.token_hex(16))

    def _settle(self, lease: Lease) -> Handoff:
        """The hand-over of a lease, and the folders on disk that go with it."""
        self.scratch = Path(lease.terms.scratch)
        self.site = self.scratch / "site"
        try:
            environment.name_lease(self.scratch, lease.folder)
            self.site.mkdir(mode=0o755, exist_ok=True)
            self.site.chmod(0o755)
            return Handoff(lease, install=self._install, ran=self._ran)
        except OSError as error:
            raise SandboxError(f"The sandbox's folders can't be made: {error}.", mend="Make room.") from error

    def _renew(self) -> None:
        """A new lease in place of one whose folder somebody removed: the end of a login takes the runtime folder."""
        assert self.handoff is not None  # noqa: S101 - there is something to renew
        self.handoff.remove()
        lease = self._new_lease()
        try:
            lease.write(scratch=str(self.scratch))
            self.handoff = self._settle(lease)
        except BaseException:
            lease.remove()
            raise

    def _name_user(self) -> None:
        """Give the sandbox a user of its own, which it keeps over restarts and take-overs, if root starts it."""
        if os.getuid() == 0 and self.lease.terms.uid is None:
            self.lease.write(uid=users.reserve(self.lease.folder, among=self._users()))

    def _users(self) -> range:
        """The users of whom one may be the sandbox's own."""
        return users.mapped()

    async def _leave(self, lease: Lease) -> None:
        """Let go of a sandbox that could not be taken over: it may live. If it doesn't, the next sweep removes it."""
        if self.handoff is not None:
            await in_thread(self.handoff.close)
        self.handoff = self._taken = None
        _OPEN.pop(id(self), None)
        lease.release()

    # -- its data -----------------------------------------------------------------------------------------------

    @property
    def _mirror(self) -> Path:
        """The folder on the host that it sees at /tmp/data."""
        return self.scratch / "data"

    def _show_data(self) -> None:
        if self.mirrors and (self.spec.data or self.spec.late_data):
            self.shown.fill(self._mirror, self.spec.data, uid=self.user_id)

    def _watch_data(self) -> None:
        if self.mirrors and self.spec.data:
            self.shown.watch(self._mirror, self.spec.data, uid=self.user_id)
            for each in facts(self.shown.left_out) if self._of_client else ():
                self._tell_left_out(each)

    def _tell_left_out(self, event: DataLeftOut) -> None:
        if self.left_out_hook is not None:
            self.left_out_hook(event)
        else:
            # Nearly every repository has names that begin with a dot.
            self.log.log(logging.INFO if event.reason == Why.HIDDEN else logging.WARNING, event.text)

    def _notice(self) -> str:
        """What the first cell says where nobody else can: what of the person's folder is not shown.

        Names that begin with a dot go without saying there, and stand in the client's log.
        """
        told: LeftOut = {why: paths for why, paths in self.shown.left_out.items() if why is not Why.HIDDEN}
        return "\n".join(each.text for each in facts(told)) if self._of_client else ""

    async def hand_over(self, spec: SandboxSpec) -> None:
        """Make a sandbox that was started ahead somebody's: it gets their data, and lives on for them.

        Args:
            spec: What it is from now on, and what a restart makes it; the same as before in all that is enforced.

        Raises:
            DataError: The data can't be shown without further mounts.
            SandboxError: The sandbox has ended.
        """
        await to_the_end(self._hand_over, spec)

    def _hand_over(self, spec: SandboxSpec) -> None:
        self.shown.fill(self._mirror, spec.data, uid=self.user_id, mounting=False)
        self.lease.assign(spec)
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        self.handoff.hold(keep=spec.keep)
        self.spec = spec
        self._watch_data()

    @property
    def lease(self) -> Lease:
        """The sandbox's lease, which this process holds."""
        assert self.handoff is not None  # noqa: S101 - a sandbox that runs has one
        return self.handoff.lease

    @property
    def user_id(self) -> int:
        """The user that code runs as, on the host: one of the sandbox's own if root started it, else the person."""
        return self.lease.terms.uid or os.getuid()

    @property
    def group_id(self) -> int:
        """The group, of the same number as the user if that is the sandbox's own."""
        return self.lease.terms.uid or os.getgid()

    async def poll(self) -> int | None:
        """None while the kernel runs, else its exit code."""
        if not self._running:
            return self.last_exit.code if self.last_exit else 0
        if self.last_exit is None:
            self.last_exit = self._poll()
            if self.last_exit is None:
                self.kills.look(self.usage)
        return None if self.last_exit is None else self.last_exit.code

    async def wait(self) -> int | None:
        """Wait until the kernel has ended, remove what is left of it, and return its exit code."""
        while (code := await self.poll()) is None:
            await asyncio.sleep(0.01)
        self._running = False
        await self._clean()
        return code

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel; interrupts travel as messages and don't come here."""
        if self._running and signum:
            await self._stop(signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002 - the interface's
        """Kill the sandbox."""
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002
        """Ask the kernel to end."""
        await self.send_signal(signal.SIGTERM)

    async def cleanup(self, restart: bool = False) -> None:
        """Remove all that the sandbox had on the host, but over a restart what the next kernel needs too."""
        if not restart:
            self.shown.stop()
        await self._clean()
        if not restart:
            _OPEN.pop(id(self), None)
            if self.egress is not None:
                await in_thread(self.egress.close)
                self.egress = None
        if self.handoff is None:
            return
        # In a thread, since it waits for the one that serves the sandbox, which may be waiting for this loop.
        await in_thread(self.handoff.close)
        if not restart:
            await in_thread(self.shown.join)
            # Before the lease, by which others know that this is somebody's.
            await in_thread(shutil.rmtree, self.scratch, True)
            self.handoff.remove()
            self.handoff = None

    async def detach(self) -> None:
        """Let go of the sandbox without ending it: another process may take it over, as long as its lease says."""
        if self.handoff is not None:
            handoff, self.handoff = self.handoff, None
            _OPEN.pop(id(self), None)
            self._running = False
            self.shown.stop()
            await in_thread(self.shown.join)
            self._forget()
            handoff.close()
            handoff.lease.release()

    def _forget(self) -> None:
        """Drop what the engine holds of a sandbox that goes on without this process."""

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Nothing: a sandbox can't be taken over by another process through this interface."""
        return {}

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """Seconds to wait for a polite end: there is nothing in a sandbox that must be put away first."""
        return min(recommended, 1.0)

    async def tail(self) -> str:
        """The end of what the sandbox printed to its original stdout and stderr."""
        return self.handoff.tail() if self.handoff else ""

    # -- shared parts -------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        """The kernelspec's own configuration of this provisioner."""
        stanza = self.kernel_spec.metadata.get("kernel_provisioner", {})
        config = stanza.get("config", {})
        return config if isinstance(config, dict) else {}

    def _inside(self) -> dict[str, Any]:
        """What `inside.py` is told."""
        trust = self.spec.trust
        return {
            "uid": self.lease.terms.uid,
            "folders": [OUTPUT],
            "cwd": WORKSPACE,
            "fonts": environment.FONTS,
            "path": [environment.SITE],
            "bounds": {},
            "shell": trust.allow_shell,
            "ask": seccomp.asking_program().hex() if self._sees_commands() else "",
            "proxy": PROXY if has_egress(trust) else None,
            "notice": self._notice(),
            "filter": seccomp.inner_program(
                subprocess=trust.allow_subprocess, sockets=trust.allow_network_tools, forwarder=has_egress(trust)
            ).hex(),
        }

    def _sees_commands(self) -> bool:
        """Whether each program that is executed is to be told, and this Linux can; where none may be, there is none."""
        trust = self.spec.trust
        return trust.log_all_commands and trust.allow_subprocess and seccomp.can_ask()

    def _ran(self, pid: int, argv: list[str]) -> None:
        if self.command_hook is not None:
            self.command_hook(pid, argv)

    def _install(self, wanted: list[str]) -> list[dict[str, Any]]:
        """Serve an install request from inside: by the session if there is one, else by an installer of our own."""
        if self.install_hook is not None:
            return self.install_hook(wanted)
        installer = packages.Installer(self.site, target=self.target(), policy=self.spec.install)
        done = asyncio.run(installer.install(wanted))
        return [{"name": each.name, "version": each.version} for each in done]

    def _open_egress(self, handoff: Handoff) -> Egress | None:
        """The way out, if this sandbox has one by a list of hosts; it stays over restarts, and so do its budgets."""
        trust = self.spec.trust
        if not has_egress(trust):
            return None
        # Most sandboxes have no use for what this imports.
        from nbagent.egress.listener import SOCKET, Egress

        egress = Egress(
            trust.allowed_hosts or (),
            decide=lambda host, port: self.ask_hook(host, port) if self.ask_hook else None,
            notify=lambda told: self.egress_hook(told) if self.egress_hook else None,
            upload=trust.limits.upload_mb * MIB,
            download=trust.limits.download_mb * MIB,
        )
        egress.start(handoff.shared / SOCKET)
        return egress

    def controls(self) -> Sequence[Control]:
        """What the engine enforces on this machine, as its report has it; nothing where it sees to that itself.

        Raises:
            EngineUnavailable: It can start no sandbox at all.
        """
        return ()

    def _refuse_unenforced(self) -> None:
        """Refuse to go on without a limit, unless the person accepted it by name.

        Raises:
            LimitUnenforceable: Nobody did; all such limits are named.
        """
        if lacking := missing(self.controls(), self.spec):
            raise unenforceable(self.engine, lacking)


_OPEN: dict[int, tuple[int, SandboxProvisioner]] = {}
"""Sandboxes that hold something on the host, with the process that started each."""


@atexit.register
def _clean_up_at_exit() -> None:
    """Remove what clients leave: `jupyter console` only asks its kernel to end, and is gone."""
    for pid, provisioner in list(_OPEN.values()):
        # A fork of the process that started it has not inherited the sandbox.
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                asyncio.run(provisioner.cleanup())
