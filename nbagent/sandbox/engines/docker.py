"""The full engine: a container of a Docker daemon, or of Podman through the same interface.

The container has no network, a read-only root, no capabilities, no new privileges, a system call filter of our own
(`seccomp.py`), hard limits, and nothing writable but tmpfs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.errors import EnvironmentMissing, NbagentError, SandboxError
from nbagent.packages import installer
from nbagent.policy import MIB, Network
from nbagent.sandbox.base import SandboxProvisioner
from nbagent.sandbox.data.mirror import known_failures
from nbagent.sandbox.data.mounts import DATA
from nbagent.sandbox.engine import ONE_USER, Control, Engine, Report, Stray
from nbagent.sandbox.engines import daemon, image
from nbagent.sandbox.environment import environment
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.handoff import INSIDE, Handoff
from nbagent.sandbox.layout import HOME, OUTPUT, SHELLS, START, WORKSPACE, accounts, inside_environment
from nbagent.sandbox.leases.lease import Lease, Terms
from nbagent.sandbox.leases.place import Place
from nbagent.sandbox.limits import cgroup, seccomp, users
from nbagent.sandbox.threads import in_thread, to_the_end

if TYPE_CHECKING:
    from docker.api.client import APIClient

LABEL = "nbagent.sandbox"
LEASE_LABEL = "nbagent.lease"
USER_LABEL = "nbagent.user"
PLACE_LABEL = "nbagent.place"
"""Where the lease is what it is: another machine, or a container, may have the same daemon."""
ULIMITS = {"core": 0, "nofile": 8192, "nproc": 32768}
"""Core dumps, open files of a process, and processes of the user in all sandboxes that it has (`pids` bounds one)."""
HIDDEN = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/pressure", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"),
    *("/sys/devices/virtual/powercap",),
)
"""What of /proc and /sys is the machine's: what Docker hides, of whatever version, and `pressure`."""
CONNECTIONS = {
    "take_memory_by_connections": "control groups of version 1 count TCP's buffers apart, unbounded by Docker"
}
"""A probe of the self-check that succeeds where this process can't write to the groups that the daemon makes."""
CHECK_SECONDS = 5
"""A daemon that takes longer to answer such a question hangs."""


class Docker(Engine):
    """Sandboxes from a Docker daemon that runs on this machine."""

    name = "docker"

    @property
    def known_failures(self) -> Mapping[str, str]:
        """What comes with mounts; and what only root can mend: sandboxes that share a user, and Docker's groups."""
        known = known_failures() | ({} if os.getuid() == 0 else ONE_USER)
        return known if cgroup.can_bound_connections() else known | CONNECTIONS

    def check(self, *, image: str | None = None) -> Report:
        """Whether the daemon answers and the kernel image is there."""
        from nbagent.sandbox.engines.image import default_tag

        wanted = image or default_tag()
        try:
            with contextlib.closing(daemon.connect(timeout=CHECK_SECONDS)) as client:
                info = daemon.info(client)
                runtime = daemon.runtime(info, chosen_runtime())
                found = daemon.inspect(client, wanted)
                seccomp.outer_profile()
        except NbagentError as error:
            return Report(available=False, reason=error.message, mend=error.mend)
        kernel = f"{runtime.name}: {runtime.kernel}"
        return Report(available=True, controls=_controls(info, runtime), environment=found["Id"], kernel=kernel)

    def end(self, folder: Path, terms: Terms | None) -> None:  # noqa: ARG002 - the label names it
        """Remove the container."""
        for each in _containers({LABEL: folder.name, LEASE_LABEL: str(folder)}):
            _remove(each["Id"])

    def strays(self) -> list[Stray]:
        """Containers of this user's whose lease is gone."""
        mine = _containers({USER_LABEL: str(os.getuid())})
        return [
            Stray("container", each["Id"][:12], float(each["Created"]), functools.partial(_remove, each["Id"]))
            for each in mine
            if Place.parse(each["Labels"].get(PLACE_LABEL, "")).lacks(Path(each["Labels"].get(LEASE_LABEL, "/")))
        ]


ENGINE = Docker()


def chosen_runtime() -> str | None:
    """The runtime that this person has set; for every sandbox of theirs, whoever starts it."""
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent import settings

    return settings.load().docker_runtime


def _containers(labels: dict[str, str]) -> list[dict[str, Any]]:
    """The containers with these labels, running or not; none where no daemon answers."""
    from docker.errors import DockerException

    wanted = [f"{name}={value}" for name, value in labels.items()]
    try:
        with contextlib.closing(daemon.connect(timeout=CHECK_SECONDS)) as client:
            found: list[dict[str, Any]] = client.containers(all=True, filters={"label": wanted})
            return found
    except (DockerException, OSError, NbagentError):
        return []


def _remove(container: str) -> bool:
    """Remove a container; returns whether it was there, and not being removed by somebody else."""
    from docker.errors import DockerException

    with contextlib.suppress(DockerException, OSError, NbagentError), contextlib.closing(daemon.connect()) as client:
        client.remove_container(container, force=True)
        return True
    return False


def _usage(client: APIClient, container: str) -> cgroup.Usage | None:
    """What a container uses, by the group that the daemon made for it, if that is one of this machine's."""
    pid = client.inspect_container(container)["State"]["Pid"]
    return cgroup.Usage.of(pid) if pid else None


def _controls(info: dict[str, Any], runtime: daemon.Runtime) -> tuple[Control, ...]:
    # Another kernel may not heed the outer filter, and can't ask process 1. What holds there, the self-check tells.
    filters = "seccomp" if runtime.is_host_s else "seccomp inside; outside, the runtime's own kernel"
    asking = "seccomp's user notification" if runtime.is_host_s else f"the runtime {runtime.name} isn't known to tell"
    user = f"uid {os.getuid()}" if os.getuid() else "a uid of its own"
    group = f"cgroup v{info.get('CgroupVersion', '1')}"
    bounds = {each: not daemon.lacks(info, each) for each in cgroup.CONTROLLERS}
    hows = {each: group if enforced else f"{group}, without this controller" for each, enforced in bounds.items()}
    if bounds["memory"] and not info.get("SwapLimit", True):
        hows["memory"] += ", swap not counted"
    return (
        Control(name="network", enforced=True, how="no network"),
        Control(name="egress", enforced=True, how="proxy on the host, by a list of hosts"),
        Control(name="files", enforced=True, how="read-only root, tmpfs"),
        Control(name="processes", enforced=True, how="pid and ipc namespaces"),
        Control(name="user", enforced=True, how=f"{user}, no capabilities, no new privileges"),
        Control(name="system calls", enforced=True, how=filters),
        Control(name="commands", enforced=seccomp.can_ask() and runtime.is_host_s, how=asking),
        *(Control(name=each, enforced=bounds[each], how=hows[each]) for each in cgroup.CONTROLLERS),
        Control(name="tmp", enforced=True, how="size of the tmpfs"),
    )


def _bind(source: str, target: str) -> Any:
    from docker.types import Mount

    mount = Mount(target, source, type="bind", read_only=True)
    # A bind brings along what is mounted below it, and before Docker 25 that would stay writable.
    mount["BindOptions"] = {"NonRecursive": True}
    return mount


class DockerProvisioner(SandboxProvisioner):
    """A kernel in a Docker container."""

    engine: ClassVar[str] = "docker"
    _container: str | None = None
    _image: dict[str, Any] | None = None
    _exit: Exit | None = None
    _usage: cgroup.Usage | None = None

    def _inside(self) -> dict[str, Any]:
        return {**super()._inside(), "uid": None, "folders": [DATA, OUTPUT]}

    def controls(self) -> tuple[Control, ...]:
        """What the daemon can enforce."""
        info = daemon.shared_info()
        return _controls(info, daemon.runtime(info, chosen_runtime()))

    def _users(self) -> range:
        """By the user namespace of the daemon's containers, whatever this process's is."""
        return users.NARROW if daemon.remaps_users() else users.WIDE

    @property
    def group_id(self) -> int:
        """Never root's, which some people have."""
        return super().group_id or self.user_id

    def _sees_commands(self) -> bool:
        info = daemon.shared_info()
        return super()._sees_commands() and daemon.runtime(info, chosen_runtime()).is_host_s

    async def _start(self, handoff: Handoff) -> None:
        await to_the_end(self._start_container, handoff)

    def _start_container(self, handoff: Handoff) -> None:
        from docker.errors import DockerException

        client = daemon.shared()
        self._exit = self._usage = None
        self._image = daemon.inspect(client, self.spec.image or image.default_tag())
        if (runtime := chosen_runtime()) is not None:
            daemon.runtime(daemon.info(client), runtime)
        try:
            made = client.create_container(
                self._image["Id"],
                command=list(START),
                user=f"{self.user_id}:{self.group_id}",
                working_dir=WORKSPACE,
                environment=inside_environment(shared_library=False, trust=self.spec.trust),
                hostname="sandbox",
                labels={
                    LABEL: self.lease.name,
                    LEASE_LABEL: str(self.lease.folder),
                    USER_LABEL: str(os.getuid()),
                    PLACE_LABEL: str(self.lease.terms.place),
                    "nbagent.session.session": self.spec.owner,
                },
                host_config=self._host_config(client, handoff),
                network_disabled=self.spec.trust.network is not Network.FULL,
            )
            self._container = made["Id"]
            self.lease.write(parts={"container": self._container})
            client.start(self._container)
            self._usage = _usage(client, self._container)
        except (DockerException, OSError) as error:
            self._remove()
            explanation = getattr(error, "explanation", None) or error
            raise SandboxError(f"Docker can't start the sandbox: {explanation}") from error
        if self._usage is not None:
            # Before any code can make a connection: what waits in one made earlier is not counted.
            self._usage.bound_connections(memory=self.spec.trust.limits.memory_mb * MIB)
        self._follow(self._container)

    async def _take_over(self, lease: Lease) -> None:
        self._exit = self._usage = None
        self._image = await in_thread(daemon.inspect, daemon.shared(), self.spec.image or image.default_tag())
        self._container = lease.terms.parts.get("container")
        if self._container is None:
            raise SandboxError("The sandbox had not been started.")
        self._follow(self._container)

    def _follow(self, container: str) -> None:
        threading.Thread(target=self._watch, args=(container,), name="nbagent-docker-wait", daemon=True).start()

    def _host_config(self, client: APIClient, handoff: Handoff) -> Any:
        from docker.types import LogConfig, Ulimit

        trust = self.spec.trust
        limits = trust.limits
        size = f"rw,exec,nosuid,nodev,size={limits.tmp_mb}m,mode=1777"
        mounts = [(str(self.site), environment.SITE), (str(handoff.shared), INSIDE), *self._accounts(handoff)]
        mounts += [(str(mount.source), mount.target) for mount in self.shown.mounts]
        if trust.hides_shells:
            # Of those that the image doesn't have, an empty file is seen.
            mounts += [("/dev/null", f"{folder}/{name}") for folder in ("/bin", "/usr/bin") for name in SHELLS]
        tmpfs = {"/tmp": size, WORKSPACE: size, HOME: size}  # noqa: S108 - inside
        if not trust.allow_shell:
            # Terminals are as many as the whole machine has, and without a shell nothing needs one.
            tmpfs["/dev/pts"] = "ro,nosuid,noexec,size=4k"
        config = client.create_host_config(
            network_mode="host" if trust.network is Network.FULL else "none",
            runtime=chosen_runtime(),
            read_only=trust.read_only_root,
            mounts=[_bind(source, target) for source, target in mounts],
            tmpfs=tmpfs,
            cap_drop=["ALL"],
            security_opt=self._security(client, handoff),
            mem_limit=limits.memory_mb * MIB,
            memswap_limit=limits.memory_mb * MIB,
            cpu_period=100_000,
            cpu_quota=int((limits.cpus or float(os.cpu_count() or 1)) * 100_000),
            pids_limit=limits.pids,
            shm_size=limits.tmp_mb * MIB,
            ipc_mode="private",
            # Named, since what Podman takes by default is more than it may set on some hosts.
            ulimits=[Ulimit(name=name, soft=most, hard=most) for name, most in ULIMITS.items()],
            # What the sandbox prints where nobody looks must not fill the host's disk.
            log_config=LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        )
        config["MaskedPaths"] = list(HIDDEN)
        return config

    def _accounts(self, handoff: Handoff) -> list[tuple[str, str]]:
        """What the image has of users, in files that name this sandbox's: each with where it is seen."""
        found = []
        for name, text in accounts(self.user_id, self.group_id).items():
            path = handoff.folder / name
            path.write_text(text)
            path.chmod(0o644)
            found.append((str(path), f"/etc/{name}"))
        return found

    @staticmethod
    def _security(client: APIClient, handoff: Handoff) -> list[str]:
        """The system call filter as the daemon takes it: Docker the profile itself, Podman the name of a file.

        Podman is told here of what is hidden, too; Docker by an argument of its own.
        """
        profile, hidden = seccomp.outer_profile(), []
        if daemon.is_podman(client):
            path = handoff.folder / "seccomp.json"
            path.write_text(profile)
            profile, hidden = str(path), [f"mask={':'.join(HIDDEN)}"]
        return ["no-new-privileges:true", f"seccomp={profile}", *hidden]

    def _watch(self, container: str) -> None:
        """Wait for the container's end in a thread of its own: a poll of the daemon would be slow and late."""
        from docker.errors import DockerException

        try:
            with contextlib.closing(daemon.connect(timeout=60 * 60 * 24 * 365)) as client:
                self._usage = self._usage or _usage(client, container)
                status = client.wait(container)
                state = client.inspect_container(container)["State"]
        except (DockerException, OSError, NbagentError):
            # Gone, or the daemon is: either way nothing can be said of the container but that it is lost.
            ended = Exit(-signal.SIGKILL)
        else:
            # The daemon says of a sandbox that it was out of memory also if that was long ago, and a child's end. And
            # the group by which more could be known is gone with the container.
            ended = self._ended(int(status["StatusCode"]), killed=bool(state.get("OOMKilled")), memory_peak=None)
        if self._container == container:
            self._exit = ended

    def _poll(self) -> Exit | None:
        return self._exit

    def usage(self) -> cgroup.Usage | None:
        """By the group that the daemon made, if it is one of this machine's."""
        return self._usage

    async def _stop(self, signum: int) -> None:
        from docker.errors import DockerException

        if self._container is None:
            return
        number = signal.SIGKILL if signum == signal.SIGTERM else signum
        try:
            await in_thread(daemon.shared().kill, self._container, number)
        except (DockerException, OSError):
            # It has ended already, which is what was asked for; `_watch` tells how.
            return

    def _forget(self) -> None:
        self._container = None

    async def _clean(self) -> None:
        await in_thread(self._remove)

    def _remove(self) -> None:
        from docker.errors import DockerException

        container, self._container = self._container, None
        if container is not None:
            try:
                daemon.shared().remove_container(container, force=True)
            except (DockerException, OSError):
                return

    async def tail(self) -> str:
        """The end of what the container printed."""
        return await in_thread(self._logs)

    def _logs(self) -> str:
        from docker.errors import DockerException

        if self._container is None:
            return ""
        try:
            text: bytes = daemon.shared().logs(self._container, tail=40)
        except (DockerException, OSError):
            return ""
        return text.decode(errors="replace").strip()

    @property
    def environment_digest(self) -> str:
        """The image's own."""
        return str(self._image["Id"]) if self._image else ""

    def target(self) -> installer.Target:
        """The image's Python, as its labels tell."""
        found = self._image or daemon.inspect(daemon.shared(), self.spec.image or image.default_tag())
        labels = found["Config"].get("Labels") or {}
        try:
            return installer.Target(
                python=labels["nbagent.python"],
                platform=labels["nbagent.platform"],
                pins=environment.requirements(),
            )
        except KeyError as error:
            raise EnvironmentMissing(
                f"The image {self.spec.image} is not a kernel image of nbagent's.",
                mend="Build one on it with: nbagent image build --base IMAGE",
            ) from error
