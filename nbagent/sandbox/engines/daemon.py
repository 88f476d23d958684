"""The Docker daemon, or Podman with the same interface: how it is reached, and what it says of itself and of images."""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import EngineUnavailable, EnvironmentMissing, NbagentError
from nbagent.sandbox.contract import Control
from nbagent.sandbox.limits import cgroup, seccomp

if TYPE_CHECKING:
    from docker.api.client import APIClient

USUAL = "unix:///var/run/docker.sock"
MEND = "Start it, for example with: systemctl start docker"
PERMIT = (
    "If it should, which makes it as good as root here: sudo usermod --append --groups docker $USER, then log in again."
)
ELSEWHERE = "Start it (for example: systemctl start docker), or choose the kernel of the engine bubblewrap."

CHECK_SECONDS = 5
"""Seconds after which a daemon that has not said what it is counts as hung."""
SURE_SECONDS = 60.0
"""Seconds for which what a daemon said of itself is taken to hold."""
LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "CpuCfsPeriod": "cpu", "PidsLimit": "pids"}
"""The daemon's names for limits that it can enforce, each with the controller that is needed."""
EMPTY = "ro,nosuid,nodev,noexec,size=4k"
"""The options of a tmpfs in which nothing can be put."""


def _silent(error: Exception) -> EngineUnavailable:
    return EngineUnavailable(f"the Docker daemon doesn't answer ({error}).", mend=MEND, elsewhere=ELSEWHERE)


def connect(*, timeout: int = 60) -> APIClient:
    """A client of the daemon that DOCKER_HOST names, or of the usual socket; one request may take `timeout` seconds."""
    host = os.environ.get("DOCKER_HOST", USUAL)
    # The SDK takes a while to import, which is a waste where there is no daemon.
    socket = Path(host.removeprefix("unix://"))
    if host.startswith("unix://") and not socket.exists():
        raise EngineUnavailable("no Docker daemon runs here.", mend=MEND, elsewhere=ELSEWHERE)
    if host.startswith("unix://") and not os.access(socket, os.R_OK | os.W_OK, effective_ids=True):
        raise EngineUnavailable("this user may not speak to the Docker daemon.", mend=PERMIT)
    import docker
    from docker.errors import DockerException

    try:
        return docker.from_env(version="auto", timeout=timeout).api
    except DockerException as error:
        raise _silent(error) from error


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Suppress the errors of a daemon that is gone, or that doesn't know what it was asked about any more."""
    from docker.errors import DockerException

    with contextlib.suppress(DockerException, OSError, NbagentError):
        yield


def shared(*, timeout: int = 60) -> APIClient:
    """The client for short requests, each of at most `timeout` seconds, which the whole process shares."""
    return _client(_address(), timeout)


@functools.cache
def _client(address: tuple[object, ...], timeout: int) -> APIClient:  # noqa: ARG001 - each daemon has its client
    return connect(timeout=timeout)


# A fork must not use its parent's connections.
os.register_at_fork(after_in_child=_client.cache_clear)


def _address() -> tuple[object, ...]:
    """What identifies a daemon, and mostly changes when it is restarted: its address, and the status of its socket."""
    host = os.environ.get("DOCKER_HOST", USUAL)
    try:
        found = Path(host.removeprefix("unix://")).stat()
    except OSError:
        return (host,)
    return host, found.st_dev, found.st_ino, found.st_ctime_ns


_KNOWN: dict[tuple[object, ...], tuple[float, dict[str, Any]]] = {}
"""What each daemon said of itself (`info`), with the time on the monotonic clock."""


def cached_info() -> dict[str, Any]:
    """What the daemon says of itself and of this machine (`info`), remembered for as long as it certainly holds.

    It is asked again when the socket is another one, after a request that failed (`forget`), and after `SURE_SECONDS`:
    a daemon whose socket systemd holds may be restarted behind it, with other options.
    """
    address = _address()
    asked, said = _KNOWN.get(address, (-SURE_SECONDS, {}))
    if time.monotonic() - asked >= SURE_SECONDS:
        said = info(shared(timeout=CHECK_SECONDS))
        _KNOWN[address] = time.monotonic(), said
    return said


def forget() -> None:
    """Forget what daemons said of themselves: a request has failed that they should have served."""
    _KNOWN.clear()


def chosen_runtime() -> str | None:
    """The container runtime of the person's settings, which is for all their sandboxes; None if none is set."""
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent.core import settings

    return settings.load().docker_runtime


def lacks(known: dict[str, Any], controller: str) -> bool:
    """Whether a daemon that says this of itself would start containers without a controller's limits."""
    return not all(known.get(name) for name, each in LIMITS.items() if each == controller)


def is_podman(client: APIClient) -> bool:
    """Whether the daemon is Podman, which differs in small things."""
    components = client.version().get("Components") or []
    return any("podman" in str(each.get("Name", "")).lower() for each in components)


@dataclass(frozen=True)
class Runtime:
    """What runs a daemon's containers.

    Attributes:
        name: As the daemon knows it.
        kernel: Which operating system kernel serves the code in them, in words.
        is_host_s: Whether that is the host's kernel.
    """

    name: str
    kernel: str
    is_host_s: bool


KERNELS = {
    "runsc": "gVisor, a kernel of its own",
    "kata": "a virtual machine of its own (Kata)",
    **dict.fromkeys(("runc", "crun", "youki"), "the host's kernel"),
}
"""Operating system kernels, by a part of the runtime's program or type; its name could be anything."""


def runtime(known: dict[str, Any], wanted: str | None) -> Runtime:
    """The runtime of that name, or the daemon's default."""
    runtimes = known.get("Runtimes") or {}
    name = wanted or known.get("DefaultRuntime") or "runc"
    if wanted and wanted not in runtimes:
        raise EngineUnavailable(
            f"the Docker daemon has no runtime {wanted!r}.",
            mend=f"Add it to the daemon, or set docker_runtime to one that it has: {', '.join(sorted(runtimes))}.",
        )
    found = runtimes.get(name) or {}
    program = Path(found.get("path") or found.get("runtimeType") or "").name
    kernel = next((KERNELS[each] for each in KERNELS if each in program), f"whose kernel is unknown ({program or '?'})")
    return Runtime(name, kernel, kernel == KERNELS["runc"])


def remaps_users() -> bool:
    """Whether the daemon's containers have a user namespace, and so 65,536 users only."""
    options = cached_info().get("SecurityOptions") or ()
    return any(each.startswith(("name=userns", "name=rootless")) for each in options)


def inspect(client: APIClient, tag: str) -> dict[str, Any]:
    """What the daemon knows of an image."""
    from docker.errors import DockerException, ImageNotFound

    try:
        found: dict[str, Any] = client.inspect_image(tag)
    except ImageNotFound as error:
        mend = "Build it with: nbagent image build"
        raise EnvironmentMissing(f"the kernel image {tag} isn't there.", mend=mend) from error
    except (DockerException, OSError) as error:
        raise _silent(error) from error
    return found


def without_volumes(image: dict[str, Any], *, besides: Collection[str] = ()) -> dict[str, str]:
    """What stands in a container in place of the volumes that its image asks for, which would be the host's disk.

    Args:
        image: What the daemon knows of it.
        besides: Where the container has something else already.
    """
    # As the daemon reads them: it takes two slashes at the beginning for one.
    asked = (posixpath.normpath(f"/{path.lstrip('/')}") for path in image["Config"].get("Volumes") or ())
    return {path: EMPTY for path in asked if path not in besides}


def info(client: APIClient) -> dict[str, Any]:
    """What the daemon says of itself and of this machine."""
    from docker.errors import DockerException

    try:
        found: dict[str, Any] = client.info()
        if is_podman(client):
            # For Podman without root, these tell of the machine's controllers, not of those that the person has.
            has = _podman_controllers(client)
            found |= {name: controller in has for name, controller in LIMITS.items()}
    except (DockerException, OSError) as error:
        raise _silent(error) from error
    return found


def _podman_controllers(client: APIClient) -> list[str]:
    """The controllers that Podman may use, which only its own interface tells."""
    answer = client.get(f"{client.base_url}/v4.0.0/libpod/info", timeout=client.timeout)
    found: list[str] = answer.json()["host"].get("cgroupControllers") or []
    return found


def controls(known: dict[str, Any], runtime: Runtime) -> tuple[Control, ...]:
    """The restrictions that a daemon enforces, by what it says of itself."""
    # Another kernel may ignore the outer filter, and can't ask process 1. The self-check shows what holds there.
    filters = "seccomp" if runtime.is_host_s else "seccomp inside; outside, the runtime's own kernel"
    asking = "seccomp's user notification" if runtime.is_host_s else f"the runtime {runtime.name} isn't known to tell"
    user = f"uid {os.getuid()}" if os.getuid() else "a uid of its own"
    group = f"cgroup v{known.get('CgroupVersion', '1')}"
    bounds = {each: not lacks(known, each) for each in cgroup.CONTROLLERS}
    hows = {each: group if enforced else f"{group}, without this controller" for each, enforced in bounds.items()}
    if bounds["memory"] and not known.get("SwapLimit", True):
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
