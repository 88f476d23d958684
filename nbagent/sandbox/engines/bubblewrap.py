"""The engine `bubblewrap`: namespaces, a system call filter and control groups, without a daemon.

If root starts the sandbox, it has no user namespace, and `inside.py` changes from root to a user id reserved for it. If
anybody else starts it, it has a user namespace, and runs under that person's user id without seeing their files.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nbagent.core.concurrency import in_thread, to_the_end
from nbagent.core.errors import EngineUnavailable, EnvironmentMissing, NbagentError, SandboxError, UsageError
from nbagent.core.policy import MIB, Network
from nbagent.packages.requirements import Target
from nbagent.sandbox import environment
from nbagent.sandbox.contract import Control, Engine, EngineReport, Hooks, Stray
from nbagent.sandbox.data.mirror import known_failures
from nbagent.sandbox.engines import bwrap_network, bwrap_process, bwrap_refusal
from nbagent.sandbox.engines.bwrap_arguments import arguments, namespaces
from nbagent.sandbox.engines.bwrap_process import STATUS, Monitor, end_with, start_time
from nbagent.sandbox.leases import scratch
from nbagent.sandbox.leases.lease import PREFIX, LeaseTerms, all_folders
from nbagent.sandbox.limits import cgroup, seccomp
from nbagent.sandbox.limits.seccomp import in_memory
from nbagent.sandbox.limits.socket_options import NETWORK_SETTINGS
from nbagent.sandbox.machine.handoff import open_output
from nbagent.sandbox.machine.instance import Instance, InstancePlan, ProcessEnd, known_on_machine
from nbagent.sandbox.machine.sandbox import MachineSandbox
from nbagent.sandbox.machine.userland import HOSTS, START, accounts
from nbagent.sandbox.spec import SandboxSpec

BOUNDS = {"RLIMIT_CORE": 1, "RLIMIT_NOFILE": 8192, "RLIMIT_SIGPENDING": 4096, "RLIMIT_MSGQUEUE": 0}
"""Core dumps (`system_calls.CORE`), open files of a process, timers and signals that wait, and bytes in message queues,
as `container.ULIMITS` has them.

Linux counts the last two by user, so that a sandbox without a bound takes them from the person's own programs."""
LEASE_VARIABLE = "NBAGENT_LEASE"
"""The variable in bwrap's own environment that names the folder of the lease."""
YOUNG = 60.0
"""Seconds for which an empty control group may still be about to get its sandbox."""
MEND = "Install it, for example with: apt-get install bubblewrap"


class Bubblewrap(Engine):
    """Sandboxes from Linux namespaces, on any Linux with the `bwrap` program."""

    name = "bubblewrap"
    title = "Python (sandboxed, bubblewrap)"
    rank = 20

    def sandbox(self, hooks: Hooks) -> MachineSandbox:
        return MachineSandbox(self.name, Processes(), hooks)

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Probes that succeed: due to mounts and, unless root starts the sandboxes, to their sharing one user id."""
        return known_failures(scratch.root()) | known_on_machine()

    def check(self, *, image: str | None = None) -> EngineReport:  # noqa: ARG002 - an engine without images
        """Whether a sandbox can be started, which is found out by starting an empty one."""
        program = shutil.which("bwrap")
        if program is None:
            return EngineReport(available=False, reason="the program bwrap isn't on the PATH.", mend=MEND)
        try:
            seccomp.outer_program()
            found = environment.find()
        except NbagentError as error:
            return EngineReport(available=False, reason=error.message, mend=error.mend)
        if (refusal := _try_sandbox(program)) is not None:
            return EngineReport(available=False, reason=refusal.message, mend=refusal.mend)
        return EngineReport(available=True, controls=_controls(), environment=found.digest if found else "")

    async def prepare(self) -> None:
        if environment.find() is None:
            await environment.build()

    async def build(
        self, *, say: Callable[[str], object], base: str | None = None, tag: str | None = None, force: bool = False
    ) -> None:
        if base or tag or force:
            raise UsageError(
                "The bubblewrap engine has no images, and never makes its kernel environment a second time.",
                mend="Leave out --base, --tag and --force.",
            )
        say(f"The kernel environment is in {(await environment.build()).folder}.")

    def end(self, folder: Path, terms: LeaseTerms | None) -> None:
        group = groups.take(folder) if (groups := cgroup.find()) else None
        if terms is None or not terms.origin.is_over:
            bwrap_process.end(folder, group)
        if group is not None:
            group.remove()

    def strays(self) -> list[Stray]:
        groups = cgroup.find()
        if groups is None:
            return []
        known = {folder.name for folder in all_folders()}
        found = []
        for name, made in groups.existing().items():
            if name in known or not name.startswith((PREFIX, cgroup.PROBE)):
                continue
            group = groups.take(Path(name))
            running = group.processes()
            gone = _lease_is_gone(running) if groups.transient else not running
            # A young one may belong to a lease in another runtime folder, and be about to get its sandbox.
            if gone and time.time() - made > YOUNG:
                found.append(Stray("control group", name, made, group.remove))
        return found

    @property
    def lasting(self) -> bool:
        groups = cgroup.find()
        return super().lasting and (groups is None or groups.lasting)


ENGINE = Bubblewrap()


def _lease_is_gone(running: Iterable[int]) -> bool:
    """Whether processes belong to a sandbox whose lease, which bwrap's environment names, is gone."""
    leases = set()
    for pid in running:
        with contextlib.suppress(OSError):
            for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                name, _, folder = each.partition(b"=")
                if name == LEASE_VARIABLE.encode():
                    # As that process sees the folder: it may be in another mount namespace.
                    leases.add(Path(f"/proc/{pid}/root{os.fsdecode(folder)}"))
    return bool(leases) and not any(each.exists() for each in leases)


def _close_later(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


@functools.cache
def _try_sandbox(program: str) -> EngineUnavailable | None:
    """Start an empty sandbox once; returns why that failed, None if it didn't."""
    command = [program, *namespaces(network=False), "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return EngineUnavailable(f"bwrap can't be started ({error}).", mend=MEND)
    if not done.returncode:
        return None
    said = done.stderr.strip().splitlines()
    return bwrap_refusal.why(said[-1] if said else f"it exited with code {done.returncode}")


def _controls() -> tuple[Control, ...]:
    groups = cgroup.find()
    bounded = groups.bounded if groups else frozenset[str]()
    bounds = groups.how if groups else cgroup.why_not()
    missing = "the person's service manager of systemd's may not use this controller" if groups else bounds
    pids = bounds if "pids" in bounded else "RLIMIT_NPROC in the user namespace"
    user = "a uid of its own" if os.getuid() == 0 else "user namespace"
    return (
        Control(name="network", enforced=True, how="network namespace"),
        Control(name="egress", enforced=True, how="proxy on the host, by a list of hosts"),
        Control(name="files", enforced=True, how="mount namespace, read-only root"),
        Control(name="processes", enforced=True, how="pid and ipc namespaces"),
        Control(name="user", enforced=True, how=f"{user}, no capabilities, no new privileges"),
        Control(name="system calls", enforced=True, how="seccomp"),
        Control(name="commands", enforced=seccomp.can_ask(), how="seccomp's user notification"),
        Control(name="memory", enforced="memory" in bounded, how=bounds),
        Control(name="cpu", enforced="cpu" in bounded, how=bounds if "cpu" in bounded else missing),
        Control(name="pids", enforced=True, how=pids),
        Control(name="tmp", enforced=True, how="size of the tmpfs"),
    )


class Processes(Instance):
    """The processes of one sandbox, below its bwrap."""

    _process: subprocess.Popen[bytes] | Monitor | None = None
    _group: cgroup.ControlGroup | None = None
    _folder = Path()

    async def start(self, plan: InstancePlan) -> None:
        made = environment.find()
        if made is None:
            raise EnvironmentMissing("The kernel environment isn't there.", mend="Make it with: nbagent env build")
        self._folder = plan.lease.folder
        groups = cgroup.find()
        group = self._group = groups.make(self._folder, plan.spec.trust.limits) if groups else None
        trust = plan.spec.trust
        with contextlib.ExitStack() as stack:

            def in_file(name: str, content: bytes) -> int:
                return _close_later(stack, in_memory(name, content))

            filter_ = in_file("seccomp", seccomp.outer_program())
            files = {name: in_file(name, text.encode()) for name, text in _etc(plan).items()}
            words = arguments(
                trust,
                made,
                site=plan.site,
                shared=plan.shared,
                data=plan.mounts,
                files=files,
                variables=plan.spec.variables,
            )
            # Not on the command line, where everybody on this machine could read the names of the data.
            listed = in_file("arguments", b"".join(os.fsencode(each) + b"\0" for each in words))
            status = _close_later(stack, os.open(self._folder / STATUS, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
            output = _close_later(stack, open_output(self._folder))
            descriptors = ["--args", str(listed), "--seccomp", str(filter_), "--json-status-fd", str(status)]
            try:
                self._process = subprocess.Popen(
                    [*(group.prefix if group else ()), "bwrap", *descriptors, "--", *START],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(listed, filter_, status, *files.values()),
                    start_new_session=True,
                    # The lease is for the reaper. The sandbox has another environment.
                    env={
                        "PATH": os.environ.get("PATH", os.defpath),
                        LEASE_VARIABLE: str(self._folder),
                        **(group.environment if group else {}),
                    },
                )
            except OSError as error:
                raise SandboxError(f"bwrap can't be started: {error}.", mend=MEND) from error
        pid = self._process.pid
        plan.lease.write(parts={"monitor": pid, "started": start_time(pid)})
        if group is not None:
            await to_the_end(group.settle, self._process)
        if trust.network is not Network.FULL:
            await to_the_end(bwrap_network.bound, self._folder, self._process, NETWORK_SETTINGS)

    async def take_over(self, plan: InstancePlan) -> None:
        self._folder, parts = plan.lease.folder, plan.lease.terms.parts
        self._process = Monitor(self._folder, parts.get("monitor", 0), parts.get("started", 0))
        groups = cgroup.find()
        self._group = groups.take(self._folder) if groups else None

    def controls(self, spec: SandboxSpec) -> tuple[Control, ...]:  # noqa: ARG002 - the interface's
        if (program := shutil.which("bwrap")) and (refusal := _try_sandbox(program)) is not None:
            raise EngineUnavailable(refusal.message, mend=refusal.mend, elsewhere=refusal.elsewhere)
        return _controls()

    def inside(self, plan: InstancePlan) -> dict[str, Any]:
        """Resource limits in place of those that no control group sets here."""
        limits = plan.spec.trust.limits
        bounds = dict(BOUNDS)
        groups = cgroup.find()
        if groups is None:
            # For each process, which is no bound on the whole.
            bounds["RLIMIT_DATA"] = limits.memory_mb * MIB
        if groups is None or "pids" not in groups.bounded:
            # Set inside, in the sandbox's user namespace, where the user's processes outside don't count.
            bounds["RLIMIT_NPROC"] = limits.pids
        return {"bounds": bounds}

    def poll(self) -> ProcessEnd | None:
        """By the status of bwrap, which tells of signals as a shell does; negative if bwrap itself was killed."""
        code = self._process.poll() if self._process is not None else None
        return None if code is None else ProcessEnd(code)

    def usage(self) -> cgroup.GroupUsage | None:
        return self._group.usage if self._group else None

    async def signal(self, signum: int) -> None:  # noqa: ARG002 - the interface's
        """Kill it, whatever the signal."""
        if self._process is not None:
            await in_thread(end_with, self._process, self._folder, self._group)

    def forget(self) -> None:
        if isinstance(self._process, subprocess.Popen):
            # It is still a child of this process, which must collect it when it ends.
            threading.Thread(target=self._process.wait, name="nbagent-bwrap-left", daemon=True).start()
        self._process = self._group = None

    async def clean(self) -> None:
        if self._process is not None:
            await in_thread(end_with, self._process, self._folder, self._group)
            self._process.wait()
            self._process = None
        if self._group is not None:
            await in_thread(self._group.remove)
            self._group = None

    def target(self) -> Target:
        return environment.describe().target

    @property
    def environment(self) -> str:
        """The digest of the requirements, the Python and the platform."""
        return environment.describe().digest


def _etc(plan: InstancePlan) -> dict[str, str]:
    """The files of /etc that are made for the sandbox, by name."""
    files = accounts(plan.uid, plan.gid)
    return files if plan.spec.trust.network is Network.FULL else files | {"hosts": HOSTS}
