"""The processes of the engine `docker`: a container that the daemon runs.

It has no network, a read-only root, no capabilities, no new privileges, a system call filter of our own (`seccomp.py`),
hard limits, and nothing writable but tmpfs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from nbagent.core.concurrency import in_thread, to_the_end
from nbagent.core.errors import EnvironmentMissing, SandboxError
from nbagent.core.policy import MIB, Network
from nbagent.packages.requirements import Target
from nbagent.sandbox import environment, paths
from nbagent.sandbox.contract import Control
from nbagent.sandbox.engines import daemon, image
from nbagent.sandbox.leases import users
from nbagent.sandbox.limits import cgroup, seccomp
from nbagent.sandbox.limits.socket_options import NETWORK_SETTINGS
from nbagent.sandbox.machine.instance import Instance, InstancePlan, ProcessEnd
from nbagent.sandbox.machine.userland import SHELLS, START, accounts, environment_variables
from nbagent.sandbox.paths import DATA, HOME, OUTPUT, RUN, WORKSPACE
from nbagent.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from docker.api.client import APIClient

LABEL = "nbagent.sandbox"
LEASE_LABEL = "nbagent.lease"
USER_LABEL = "nbagent.user"
ORIGIN_LABEL = "nbagent.place"
"""The origin of the lease: another machine, or a container, may use the same daemon."""
ULIMITS = {"core": 1, "nofile": 8192, "nproc": 32768, "sigpending": 4096, "msgqueue": 0}
"""Core dumps (`system_calls.CORE`), open files of a process, and of a user in all its sandboxes: processes (`pids`
bounds each sandbox), timers and signals that wait, and bytes in message queues, which no analysis of data needs."""
HIDDEN = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/pressure", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"),
    *("/sys/devices/virtual/powercap",),
)
"""What /proc and /sys tell of the machine: all that any version of Docker hides, and `pressure`."""


def _usage(client: APIClient, container: str) -> cgroup.GroupUsage | None:
    """What a container uses, by the control group that the daemon made, if that is on this machine."""
    pid = client.inspect_container(container)["State"]["Pid"]
    return cgroup.GroupUsage.of(pid) if pid else None


def _bind(source: str, target: str) -> Any:
    from docker.types import Mount

    mount = Mount(target, source, type="bind", read_only=True)
    # A bind brings along what is mounted below it, and before Docker 25 that would stay writable.
    mount["BindOptions"] = {"NonRecursive": True}
    return mount


class Container(Instance):
    """The container of a sandbox; a new one after each restart."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._tag = ""
        self._image: dict[str, Any] = {}
        self._ended: ProcessEnd | None = None
        self._usage: cgroup.GroupUsage | None = None

    def inside(self, plan: InstancePlan) -> dict[str, Any]:  # noqa: ARG002 - the interface's
        """The container starts as the sandbox's user, and the image has no folder for data."""
        return {"uid": None, "folders": [DATA, OUTPUT]}

    def controls(self, spec: SandboxSpec) -> tuple[Control, ...]:  # noqa: ARG002 - the interface's
        info = daemon.cached_info()
        return daemon.controls(info, daemon.runtime(info, daemon.chosen_runtime()))

    def users(self) -> range:
        """The users that the user namespace of the daemon's containers has, not that of this process."""
        return users.NARROW if daemon.remaps_users() else users.WIDE

    def user(self, own: int | None) -> tuple[int, int]:
        """The sandbox's user and group; a person's own group may be root's, and is then replaced by the user's id."""
        uid, gid = super().user(own)
        return uid, gid or uid

    async def start(self, plan: InstancePlan) -> None:
        await to_the_end(self._start, plan)

    def _start(self, plan: InstancePlan) -> None:
        from docker.errors import DockerException

        client = daemon.shared()
        self._ended = self._usage = None
        self._look_at(client, plan)
        try:
            made = client.create_container(
                self._image["Id"],
                # Not what the image has around it, or looks after it with.
                entrypoint=list(START),
                healthcheck={"test": ["NONE"]},
                user=f"{plan.uid}:{plan.gid}",
                working_dir=WORKSPACE,
                environment=environment_variables(
                    shared_library=False, trust=plan.spec.trust, variables=plan.spec.variables
                ),
                hostname="sandbox",
                labels={
                    LABEL: plan.lease.name,
                    LEASE_LABEL: str(plan.lease.folder),
                    USER_LABEL: str(os.getuid()),
                    ORIGIN_LABEL: str(plan.lease.terms.origin),
                    "nbagent.session.session": plan.spec.owner,
                },
                host_config=self._host_config(client, plan),
                network_disabled=plan.spec.trust.network is not Network.FULL,
            )
            self.id = made["Id"]
            plan.lease.write(parts={"container": self.id})
            client.start(self.id)
            self._usage = _usage(client, made["Id"])
        except (DockerException, OSError) as error:
            daemon.forget()
            self._remove()
            explanation = getattr(error, "explanation", None) or error
            raise SandboxError(f"Docker can't start the sandbox: {explanation}") from error
        if self._usage is not None:
            # Before any code can make a connection: Linux doesn't count what waits in earlier ones.
            self._usage.bound_connections(memory=plan.spec.trust.limits.memory_mb * MIB)
        self._follow(made["Id"])

    async def take_over(self, plan: InstancePlan) -> None:
        self._ended = self._usage = None
        await in_thread(self._look_at, daemon.shared(), plan)
        container = self.id = plan.lease.terms.parts.get("container")
        if container is None:
            raise SandboxError("The sandbox had not been started.")
        self._follow(container)

    def _look_at(self, client: APIClient, plan: InstancePlan) -> None:
        self._tag = plan.spec.image or image.default_tag()
        self._image = daemon.inspect(client, self._tag)

    def _follow(self, container: str) -> None:
        threading.Thread(target=self._watch, args=(container,), name="nbagent-docker-wait", daemon=True).start()

    def _host_config(self, client: APIClient, plan: InstancePlan) -> Any:
        from docker.types import LogConfig, Ulimit

        trust = plan.spec.trust
        limits = trust.limits
        size = f"rw,exec,nosuid,nodev,size={limits.tmp_mb}m,mode=1777"
        mounts = [(str(plan.site), paths.SITE), (str(plan.shared), RUN), *self._accounts(plan)]
        mounts += [(str(mount.source), mount.target) for mount in plan.mounts]
        if trust.hides_shells:
            # For a shell that the image lacks, an empty file is seen.
            mounts += [("/dev/null", f"{folder}/{name}") for folder in ("/bin", "/usr/bin") for name in SHELLS]
        tmpfs = {"/tmp": size, WORKSPACE: size, HOME: size}  # noqa: S108 - inside
        if not trust.allow_shell:
            # The whole machine has one supply of terminals, and without a shell nothing needs one.
            tmpfs["/dev/pts"] = daemon.EMPTY
        tmpfs |= daemon.without_volumes(self._image, besides={*tmpfs, *(target for _, target in mounts)})
        config = client.create_host_config(
            network_mode="host" if trust.network is Network.FULL else "none",
            sysctls=None if trust.network is Network.FULL else NETWORK_SETTINGS,
            runtime=daemon.chosen_runtime(),
            read_only=trust.read_only_root,
            mounts=[_bind(source, target) for source, target in mounts],
            tmpfs=tmpfs,
            cap_drop=["ALL"],
            security_opt=self._security(client, plan),
            mem_limit=limits.memory_mb * MIB,
            memswap_limit=limits.memory_mb * MIB,
            cpu_period=100_000,
            cpu_quota=int((limits.cpus or float(os.cpu_count() or 1)) * 100_000),
            pids_limit=limits.pids,
            shm_size=limits.tmp_mb * MIB,
            ipc_mode="private",
            # Podman's own default is more than it may set on some hosts.
            ulimits=[Ulimit(name=name, soft=most, hard=most) for name, most in ULIMITS.items()],
            # What the sandbox prints to its original stdout must not fill the host's disk.
            log_config=LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        )
        config["MaskedPaths"] = list(HIDDEN)
        return config

    def _accounts(self, plan: InstancePlan) -> list[tuple[str, str]]:
        """Files of /etc that name the sandbox's user, each with the path at which the sandbox sees it."""
        found = []
        for name, text in accounts(plan.uid, plan.gid).items():
            path = plan.lease.folder / name
            path.write_text(text)
            path.chmod(0o644)
            found.append((str(path), f"/etc/{name}"))
        return found

    @staticmethod
    def _security(client: APIClient, plan: InstancePlan) -> list[str]:
        """The security options: for Docker the system call filter itself, for Podman the name of a file with it.

        Podman also takes here what to hide, for which Docker has an argument of its own.
        """
        profile, hidden = seccomp.outer_profile(), []
        if daemon.is_podman(client):
            path = plan.lease.folder / "seccomp.json"
            path.write_text(profile)
            profile, hidden = str(path), [f"mask={':'.join(HIDDEN)}"]
        return ["no-new-privileges:true", f"seccomp={profile}", *hidden]

    def _watch(self, container: str) -> None:
        """Wait for the container's end in a thread of its own: a poll of the daemon would be slow and late."""
        # If the container or the daemon is gone, all that is known is that the kernel is lost.
        ended = ProcessEnd(-signal.SIGKILL)
        with daemon.failing(), contextlib.closing(daemon.connect(timeout=60 * 60 * 24 * 365)) as client:
            self._usage = self._usage or _usage(client, container)
            status = client.wait(container)
            state = client.inspect_container(container)["State"]
            # The daemon says so also if only a child was killed, long ago. The control group, which could tell more, is
            # gone with the container.
            ended = ProcessEnd(int(status["StatusCode"]), killed=bool(state.get("OOMKilled")))
        if self.id == container:
            self._ended = ended

    def poll(self) -> ProcessEnd | None:
        """What the thread that waits for the container has found."""
        return self._ended

    def usage(self) -> cgroup.GroupUsage | None:
        return self._usage

    async def signal(self, signum: int) -> None:
        """Send it to process 1; SIGTERM as SIGKILL, since process 1 of a container would ignore it."""
        number = signal.SIGKILL if signum == signal.SIGTERM else signum
        if self.id is not None:
            with daemon.failing():  # it has ended already, which is what was asked for; `_watch` tells how
                await in_thread(daemon.shared().kill, self.id, number)

    def forget(self) -> None:
        self.id = None

    async def clean(self) -> None:
        await in_thread(self._remove)

    def _remove(self) -> None:
        container, self.id = self.id, None
        if container is not None:
            with daemon.failing():
                daemon.shared().remove_container(container, v=True, force=True)

    async def tail(self) -> str:
        return await in_thread(self._logs)

    def _logs(self) -> str:
        text = b""
        if self.id is not None:
            with daemon.failing():
                text = daemon.shared().logs(self.id, tail=40)
        return text.decode(errors="replace").strip()

    @property
    def environment(self) -> str:
        return str(self._image["Id"]) if self._image else ""

    def target(self) -> Target:
        labels = self._image["Config"].get("Labels") or {}
        try:
            return Target(
                python=labels["nbagent.python"], platform=labels["nbagent.platform"], pins=environment.requirements()
            )
        except KeyError as error:
            raise EnvironmentMissing(
                f"The image {self._tag} is not a kernel image of nbagent's.",
                mend="Build one on it with: nbagent image build --base IMAGE",
            ) from error
