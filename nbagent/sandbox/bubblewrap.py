"""The embedded engine: bubblewrap, with all namespaces, a system call filter and control groups; no daemon.

Started by root, the sandbox has no user namespace: `inside.py` leaves root for a user that is nobody's. Started by
anybody else, it has one, and runs as that user with nothing of theirs in sight.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from nbagent.errors import EnvironmentMissing, NbagentError, SandboxError
from nbagent.policy import MIB, Network
from nbagent.sandbox import cgroup, environment, packages, seccomp
from nbagent.sandbox.base import (
    HOME,
    ONE_USER,
    SANDBOX_UID,
    START,
    WORKSPACE,
    Control,
    Engine,
    Exit,
    Report,
    SandboxProvisioner,
    Stray,
    in_thread,
    inside_environment,
)
from nbagent.sandbox.handoff import INSIDE, Handoff, open_output
from nbagent.sandbox.leases import PREFIX, Lease, Terms, all_folders
from nbagent.sandbox.mounts import DATA, KNOWN_FAILURES, readable

HOST_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "ca-certificates", "fonts", "localtime", "alternatives")
"""What of /etc the sandbox sees: the loader's cache, certificates, fonts, time zone, links of Debian's."""
STATUS = "status.json"
"""Where bwrap writes down its child and its end."""
PATIENCE = 5.0
"""Seconds for what was killed to be gone."""
YOUNG = 60.0
"""Seconds in which an empty control group may be about to be filled."""
BOUNDS = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 8192}
"""Core dumps, which a program of the host's may be told to keep, and open files of a process."""
MEND = "Install it, for example with: apt-get install bubblewrap"


class Bubblewrap(Engine):
    """Sandboxes from Linux namespaces, on any Linux with the `bwrap` program."""

    name = "bubblewrap"
    known_failures: ClassVar[Mapping[str, str]] = {
        **KNOWN_FAILURES,
        **ONE_USER,
        "see_packages_of_the_host": "the host's Python is mounted whole, read-only, with what is installed in it",
    }

    def check(self, *, image: str | None = None) -> Report:  # noqa: ARG002 - an engine without images
        """Whether a sandbox can be started: by starting an empty one."""
        program = shutil.which("bwrap")
        if program is None:
            return Report(available=False, reason="the program bwrap isn't on the PATH.", mend=MEND)
        try:
            seccomp.outer_program()
            found = environment.find()
        except NbagentError as error:
            return Report(available=False, reason=error.message, mend=error.mend)
        if (refusal := _try(program)) is not None:
            mend = "Allow unprivileged user namespaces, run as root, or use the docker engine."
            return Report(available=False, reason=f"bwrap can't make a sandbox ({refusal}).", mend=mend)
        return Report(available=True, controls=_controls(), environment=found.digest if found else "")

    async def prepare(self) -> None:
        """Make the kernel environment if it isn't there."""
        if environment.find() is None:
            await environment.build()

    def end(self, folder: Path, terms: Terms) -> None:  # noqa: ARG002 - all that counts lies in the folder
        """Kill what runs, and remove the control group."""
        hierarchy = cgroup.find()
        group = cgroup.Group(hierarchy, folder.name, None) if hierarchy else None
        end(folder, group)
        if group is not None:
            group.remove()

    def strays(self) -> list[Stray]:
        """Control groups of sandboxes that are gone."""
        hierarchy = cgroup.find()
        if hierarchy is None:
            return []
        known = {folder.name for folder in all_folders()}
        found = []
        for name, made in hierarchy.groups().items():
            group = cgroup.Group(hierarchy, name, None)
            # What another runtime folder knows of may be about to be filled.
            if name.startswith(PREFIX) and name not in known and group.is_empty() and time.time() - made > YOUNG:
                found.append(Stray("control group", name, made, group.remove))
        return found


ENGINE = Bubblewrap()


class Monitor:
    """The outer process of a bwrap that another process started, as far as `subprocess.Popen` would show it.

    Args:
        folder: The sandbox's private folder, where bwrap writes down how it ended.
        pid: Of the process.
    """

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.pidfd_open(pid) if pid else None

    def poll(self) -> int | None:
        """The exit code, or None while it runs. A process that took the same number since is not mistaken for it."""
        told = _status(self._folder).get("exit-code")
        if told is not None:
            return int(told)
        if self._descriptor is not None and not select.select([self._descriptor], [], [], 0)[0]:
            return None
        told = _status(self._folder).get("exit-code")
        return -signal.SIGKILL if told is None else int(told)

    def kill(self) -> None:
        """Kill it; the sandbox itself is another process."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> None:
        """Let go of it, once it has ended."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _status(folder: Path) -> dict[str, Any]:
    """What bwrap has written down: `child-pid`, and `exit-code` once it has ended."""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / STATUS).read_text().splitlines():
            found |= json.loads(line)
    return found


def end(folder: Path, group: cgroup.Group | None) -> None:
    """Kill all that runs in a sandbox, and wait for that.

    Process 1 of the sandbox takes all others with it. It is known once bwrap has written it down; before that, nothing
    of the person's runs, and with nobody to hand over to it, the start fails by itself.
    """
    if group is not None:
        group.kill()
    pid = int(_status(folder).get("child-pid", 0))
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid) if pid else -1
        # The number may be another process's by now; a sandbox's process 1 is one in a namespace of its own.
        if descriptor >= 0 and _is_first(pid):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], PATIENCE)
        os.close(descriptor)


def _is_first(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return line.split()[2:] == ["1"]
    return False


def _closing(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


@functools.cache
def _try(program: str) -> str | None:
    """Start an empty sandbox once; None if that works, else bwrap's reason."""
    command = [program, *_namespaces(network=False), "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else None


def _controls() -> tuple[Control, ...]:
    grouped = cgroup.find()
    bounds = f"cgroup v{grouped.version}" if grouped else "no control group may be made here"
    user = f"uid {SANDBOX_UID}" if os.getuid() == 0 else "user namespace"
    return (
        Control(name="network", enforced=True, how="network namespace"),
        Control(name="egress", enforced=True, how="proxy on the host, by a list of hosts"),
        Control(name="files", enforced=True, how="mount namespace, read-only root"),
        Control(name="processes", enforced=True, how="pid and ipc namespaces"),
        Control(name="user", enforced=True, how=f"{user}, no capabilities, no new privileges"),
        Control(name="system calls", enforced=True, how="seccomp"),
        Control(name="memory", enforced=grouped is not None, how=bounds),
        Control(name="cpu", enforced=grouped is not None, how=bounds),
        Control(name="pids", enforced=True, how=bounds if grouped else "RLIMIT_NPROC in the user namespace"),
        Control(name="tmp", enforced=True, how="size of the tmpfs"),
    )


class BubblewrapProvisioner(SandboxProvisioner):
    """A kernel in bubblewrap."""

    engine: ClassVar[str] = "bubblewrap"
    _process: subprocess.Popen[bytes] | Monitor | None = None
    _group: cgroup.Group | None = None

    async def _start(self, handoff: Handoff) -> None:
        made = environment.find()
        if made is None:
            raise EnvironmentMissing("The kernel environment isn't there.", mend="Make it with: nbagent env build")
        bounds = self._bounds()
        with contextlib.ExitStack() as stack:
            filter_ = _closing(stack, seccomp.as_descriptor(seccomp.outer_program()))
            status = _closing(stack, os.open(handoff.folder / STATUS, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
            output = _closing(stack, open_output(handoff.folder))
            arguments = self._arguments(made, handoff)
            descriptors = ["--seccomp", str(filter_), "--json-status-fd", str(status)]
            try:
                self._process = subprocess.Popen(
                    [*bounds, "bwrap", *arguments, *descriptors, "--", *START],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(filter_, status),
                    start_new_session=True,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                )
            except OSError as error:
                raise SandboxError(f"bwrap can't be started: {error}.", mend=MEND) from error
            self.lease.write(parts={"monitor": self._process.pid})

    async def _take_over(self, lease: Lease) -> None:
        self._process = Monitor(lease.folder, lease.terms.parts.get("monitor", 0))
        hierarchy = cgroup.find()
        if hierarchy is not None:
            self._group = cgroup.Group(hierarchy, lease.name, None)

    def _bounds(self) -> list[str]:
        """A prefix of the command that puts it under the limits, before it becomes bwrap."""
        limits = self.spec.trust.limits
        hierarchy = cgroup.find()
        if hierarchy is not None:
            try:
                self._group = cgroup.Group(hierarchy, self.lease.name, limits)
            except OSError as error:
                raise SandboxError(f"The limits can't be set: {error}.") from error
            join = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@"'
            return ["/bin/sh", "-c", join, "sh", *self._group.join_files, "--"]
        why = "this user may not make control groups"
        self.unenforced("memory", reason=why)
        if limits.cpus is not None and limits.cpus < (os.cpu_count() or 1):
            self.unenforced("cpu", reason=why)
        return []

    def _inside(self) -> dict[str, Any]:
        limits = self.spec.trust.limits
        if cgroup.find() is not None:
            return {**super()._inside(), "bounds": BOUNDS}
        # Bytes of data a process, which is no bound on the whole, and processes of this user: set inside, in the
        # sandbox's user namespace, where those outside of it don't count.
        bounds = {**BOUNDS, "RLIMIT_DATA": limits.memory_mb * MIB, "RLIMIT_NPROC": limits.pids}
        return {**super()._inside(), "bounds": bounds}

    def _arguments(self, made: environment.Environment, handoff: Handoff) -> list[str]:
        trust = self.spec.trust
        tmp = str(trust.limits.tmp_mb * MIB)
        full = trust.network is Network.FULL
        arguments = [*_namespaces(network=full), "--new-session", "--as-pid-1", "--clearenv"]
        for name, value in inside_environment(shared_library=made.shared_library, trust=trust).items():
            arguments += ["--setenv", name, value]
        # A folder that bwrap makes on the way to a mount is for its owner only, and that is no longer who runs there.
        for folder in ("/etc", "/opt", "/run", "/home"):
            arguments += ["--perms", "0755", "--dir", folder]
        # In a user namespace, the settings of the sandbox's own message queues could be written.
        arguments += [*_system(network=full), "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        for folder, size in (("/dev/shm", tmp), ("/tmp", tmp), (WORKSPACE, tmp), (HOME, tmp)):  # noqa: S108 - inside
            arguments += ["--perms", "1777", "--size", size, "--tmpfs", folder]
        for source, target in (
            (made.base, environment.PYTHON),
            (made.folder, environment.KERNEL),
            (str(self.site), environment.SITE),
            (str(handoff.shared), INSIDE),
        ):
            arguments += ["--ro-bind", source, target]
        arguments += ["--perms", "0755", "--dir", DATA]
        uid = SANDBOX_UID if os.getuid() == 0 else os.getuid()
        for mount in readable(self.spec.data, uid=uid, scratch=self.scratch):
            if (parent := str(PurePosixPath(mount.target).parent)).startswith(f"{DATA}/"):
                arguments += ["--perms", "0755", "--dir", parent]
            arguments += ["--ro-bind", str(mount.source), mount.target]
        if trust.read_only_root:
            arguments += ["--remount-ro", "/"]
        return [*arguments, "--chdir", WORKSPACE]

    def _poll(self) -> Exit | None:
        if self._process is None or (code := self._process.poll()) is None:
            return None
        # bwrap tells a signal the way a shell does, and is itself ended by one if we kill it.
        usage = self.usage()
        killed = usage is not None and usage.oom_kills() > self.kills_survived
        return Exit.told(code, killed=killed, memory_peak=usage.memory_peak() if usage else None)

    def usage(self) -> cgroup.Usage | None:
        """By its own control group, where there is one."""
        return self._group.usage if self._group else None

    async def _stop(self, signum: int) -> None:  # noqa: ARG002 - any signal means the end
        if self._process is not None:
            await in_thread(self._end, self._process)

    def _end(self, process: subprocess.Popen[bytes] | Monitor) -> None:
        """Kill until all is gone: of what is only starting, there may not be anything to kill yet."""
        patience = time.monotonic() + PATIENCE
        while process.poll() is None:
            end(self.lease.folder, self._group)
            if time.monotonic() > patience:
                process.kill()
            time.sleep(0.005)

    def _forget(self) -> None:
        if isinstance(self._process, subprocess.Popen):
            # Still a child of ours, which somebody must collect when it ends.
            threading.Thread(target=self._process.wait, name="nbagent-bwrap-left", daemon=True).start()
        self._process = self._group = None

    async def _clean(self) -> None:
        if self._process is not None:
            await in_thread(self._end, self._process)
            self._process.wait()
            self._process = None
        if self._group is not None:
            await in_thread(self._group.remove)
            self._group = None

    def target(self) -> packages.Target:
        """The environment's own Python."""
        return environment.describe().target

    @property
    def environment_digest(self) -> str:
        """Of the requirements, the Python and the platform."""
        return environment.describe().digest


def _namespaces(*, network: bool) -> list[str]:
    """Every namespace but the network's if that is granted, and no capabilities."""
    arguments = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    if not network:
        arguments.append("--unshare-net")
    arguments += ["--cap-drop", "ALL"]
    if os.getuid() == 0:
        # Only to leave root for good, which `inside.py` does before anything else.
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            arguments += ["--cap-add", capability]
    else:
        arguments += ["--unshare-user"]
    return arguments


def _system(*, network: bool) -> list[str]:
    """The host's programs and libraries, read-only, and an /etc of our own."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for folder in map(Path, HOST_FOLDERS):
        if folder.is_symlink():
            arguments += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            arguments += ["--ro-bind", str(folder), str(folder)]
    # What an administrator put on this one machine is nobody's business inside.
    arguments += ["--tmpfs", "/usr/local", "--remount-ro", "/usr/local"]
    for name in ETC + (("resolv.conf", "hosts", "nsswitch.conf") if network else ()):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, text in _etc(network=network).items():
        arguments += ["--ro-bind", str(_etc_file(name, text)), f"/etc/{name}"]
    return arguments


def _etc(*, network: bool) -> dict[str, str]:
    uid = SANDBOX_UID if os.getuid() == 0 else os.getuid()
    gid = SANDBOX_UID if os.getuid() == 0 else os.getgid()
    files = {
        "passwd": f"root:x:0:0::/:/bin/false\nsandbox:x:{uid}:{gid}::{HOME}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{gid}:\n",
    }
    if not network:
        files["hosts"] = "127.0.0.1 localhost sandbox\n::1 localhost\n"
    return files


@functools.cache
def _etc_file(name: str, text: str) -> Path:
    folder = environment.cache_root().parent / "etc"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    path = folder / f"{name}-{os.getuid()}"
    if not path.is_file() or path.read_text() != text:
        staged = path.with_name(f"{path.name}.{os.getpid()}")
        staged.write_text(text)
        staged.chmod(0o644)
        staged.replace(path)
    return path
