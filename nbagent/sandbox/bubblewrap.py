"""The embedded engine: bubblewrap, with all namespaces, a system call filter and control groups; no daemon.

Started by root, the sandbox has no user namespace: `inside.py` leaves root for a user that is nobody's. Started by
anybody else, it has one, and runs as that user with nothing of theirs in sight.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from nbagent.errors import EnvironmentMissing, NbagentError, SandboxError
from nbagent.policy import MIB, Network
from nbagent.sandbox import cgroup, environment, packages, seccomp
from nbagent.sandbox.base import (
    HOME,
    SANDBOX_UID,
    START,
    WORKSPACE,
    Control,
    Engine,
    Exit,
    Report,
    SandboxProvisioner,
    inside_environment,
)
from nbagent.sandbox.handoff import INSIDE, Handoff
from nbagent.sandbox.mounts import DATA, readable

HOST_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "ca-certificates", "fonts", "localtime", "alternatives")
"""What of /etc the sandbox sees: the loader's cache, certificates, fonts, time zone, links of Debian's."""
MEND = "Install it, for example with: apt-get install bubblewrap"


class Bubblewrap(Engine):
    """Sandboxes from Linux namespaces, on any Linux with the `bwrap` program."""

    name = "bubblewrap"

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


ENGINE = Bubblewrap()


def _start_in_thread(command: list[str], **arguments: Any) -> subprocess.Popen[bytes]:
    """Start bwrap from a thread of its own, which then waits for it.

    bwrap dies with its parent, which to Linux is the *thread* that started it; a client's may be gone long before.

    Raises:
        OSError: It can't be started.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def run() -> None:
        try:
            process = subprocess.Popen(command, **arguments)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=run, name="nbagent-bwrap", daemon=True).start()
    return started.result()


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
    _process: subprocess.Popen[bytes] | None = None
    _group: cgroup.Group | None = None

    async def _start(self, handoff: Handoff) -> None:
        made = environment.find()
        if made is None:
            raise EnvironmentMissing("The kernel environment isn't there.", mend="Make it with: nbagent env build")
        bounds = self._bounds(handoff.folder.name)
        filter_ = seccomp.as_descriptor(seccomp.outer_program())
        try:
            command = [*bounds, "bwrap", *self._arguments(made, handoff, filter_), "--", *START]
            self._process = _start_in_thread(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(filter_,),
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )
        except OSError as error:
            raise SandboxError(f"bwrap can't be started: {error}.", mend=MEND) from error
        finally:
            os.close(filter_)

    def _bounds(self, name: str) -> list[str]:
        """A prefix of the command that puts it under the limits, before it becomes bwrap."""
        limits = self.spec.trust.limits
        hierarchy = cgroup.find()
        if hierarchy is not None:
            try:
                self._group = cgroup.Group(hierarchy, name, limits)
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
            return super()._inside()
        # Bytes of data a process, which is no bound on the whole, and processes of this user: set inside, in the
        # sandbox's user namespace, where those outside of it don't count.
        bounds = {"RLIMIT_DATA": limits.memory_mb * MIB, "RLIMIT_NPROC": limits.pids}
        return {**super()._inside(), "bounds": bounds}

    def _arguments(self, made: environment.Environment, handoff: Handoff, filter_: int) -> list[str]:
        trust = self.spec.trust
        tmp = str(trust.limits.tmp_mb * MIB)
        full = trust.network is Network.FULL
        arguments = [*_namespaces(network=full), "--new-session", "--die-with-parent", "--clearenv"]
        for name, value in inside_environment(shared_library=made.shared_library, trust=trust).items():
            arguments += ["--setenv", name, value]
        # A folder that bwrap makes on the way to a mount is for its owner only, and that is no longer who runs there.
        for folder in ("/etc", "/opt", "/run", "/home"):
            arguments += ["--perms", "0755", "--dir", folder]
        arguments += [*_system(network=full), "--proc", "/proc", "--dev", "/dev"]
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
        return [*arguments, "--chdir", WORKSPACE, "--seccomp", str(filter_)]

    def _poll(self) -> Exit | None:
        if self._process is None or (code := self._process.poll()) is None:
            return None
        # bwrap tells a signal the way a shell does, and is itself ended by one if we kill it.
        kills = self._group.oom_kills() if self._group else 0
        peak = self._group.memory_peak() if self._group else None
        return Exit.told(code, killed=kills > 0, memory_peak=peak)

    async def _stop(self, signum: int) -> None:
        if self._process is not None and self._process.poll() is None:
            # bwrap's child is process 1 of the sandbox and dies with bwrap; all others die with it.
            self._process.send_signal(signal.SIGKILL if signum == signal.SIGTERM else signum)

    async def _clean(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait()
        if self._group is not None:
            self._group.remove()
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
