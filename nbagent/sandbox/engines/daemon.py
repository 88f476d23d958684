"""The Docker daemon, or Podman's, that speaks the same interface: how it is reached, and what it says of an image."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.errors import EngineUnavailable, EnvironmentMissing

if TYPE_CHECKING:
    from docker.api.client import APIClient

USUAL = "unix:///var/run/docker.sock"
MEND = "Start it (for example: systemctl start docker), or use --engine bubblewrap."
ELSEWHERE = "Start it (for example: systemctl start docker), or choose the kernel of the engine bubblewrap."

LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "CpuCfsPeriod": "cpu", "PidsLimit": "pids"}
"""What the daemon says whether it can enforce, and the controller that it takes."""


def _silent(error: Exception) -> EngineUnavailable:
    return EngineUnavailable(f"the Docker daemon doesn't answer ({error}).", mend=MEND, elsewhere=ELSEWHERE)


def connect(*, timeout: int = 60) -> APIClient:
    """A client of the daemon that DOCKER_HOST names, or of the usual socket.

    Args:
        timeout: Seconds that one request may take.

    Raises:
        EngineUnavailable: None answers.
    """
    host = os.environ.get("DOCKER_HOST", USUAL)
    # The SDK takes a while to import, which is a waste where there is no daemon.
    if host.startswith("unix://") and not Path(host.removeprefix("unix://")).exists():
        raise EngineUnavailable("no Docker daemon runs here.", mend=MEND, elsewhere=ELSEWHERE)
    import docker
    from docker.errors import DockerException

    try:
        return docker.from_env(version="auto", timeout=timeout).api
    except DockerException as error:
        raise _silent(error) from error


@functools.cache
def shared() -> APIClient:
    """The client for short requests, one for the whole process."""
    return connect()


# A fork would speak through its parent's connections.
os.register_at_fork(after_in_child=shared.cache_clear)


def lacks(known: dict[str, Any], controller: str) -> bool:
    """Whether a daemon that says this of itself can't enforce a controller's limits: it would start without them."""
    return not all(known.get(name) for name, each in LIMITS.items() if each == controller)


def is_podman(client: APIClient) -> bool:
    """Whether Podman answers in Docker's place; the two differ in small things."""
    components = client.version().get("Components") or []
    return any("podman" in str(each.get("Name", "")).lower() for each in components)


@dataclass(frozen=True)
class Runtime:
    """What runs a daemon's containers.

    Attributes:
        name: As the daemon knows it.
        kernel: Whose kernel code in them runs on, in words.
        is_host_s: Whether that is the host's.
    """

    name: str
    kernel: str
    is_host_s: bool


KERNELS = {
    "runsc": "gVisor, a kernel of its own",
    "kata": "a virtual machine of its own (Kata)",
    **dict.fromkeys(("runc", "crun", "youki"), "the host's kernel"),
}
"""By a part of a runtime's program, or of what containerd calls it. A name says nothing: anybody can choose one."""


def runtime(known: dict[str, Any], wanted: str | None) -> Runtime:
    """The runtime of that name, or the daemon's own.

    Args:
        known: What the daemon says of itself (`info`).
        wanted: Its name; None for the daemon's own.

    Raises:
        EngineUnavailable: The daemon has none of that name.
    """
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


@functools.cache
def shared_info() -> dict[str, Any]:
    """What the daemon says of itself and of this machine, asked once.

    Raises:
        EngineUnavailable: The daemon doesn't answer.
    """
    return info(shared())


@functools.cache
def remaps_users() -> bool:
    """Whether the daemon's containers have 65,536 users only, in a user namespace.

    Raises:
        EngineUnavailable: The daemon doesn't answer.
    """
    options = shared_info().get("SecurityOptions") or ()
    return any(each.startswith(("name=userns", "name=rootless")) for each in options)


def inspect(client: APIClient, tag: str) -> dict[str, Any]:
    """What the daemon knows of an image.

    Raises:
        EnvironmentMissing: The image isn't there.
        EngineUnavailable: The daemon doesn't answer any more.
    """
    from docker.errors import DockerException, ImageNotFound

    try:
        found: dict[str, Any] = client.inspect_image(tag)
    except ImageNotFound as error:
        mend = "Build it with: nbagent image build"
        raise EnvironmentMissing(f"the kernel image {tag} isn't there.", mend=mend) from error
    except (DockerException, OSError) as error:
        raise _silent(error) from error
    return found


def info(client: APIClient) -> dict[str, Any]:
    """What the daemon says of itself and of this machine.

    Raises:
        EngineUnavailable: The daemon doesn't answer any more.
    """
    from docker.errors import DockerException

    try:
        found: dict[str, Any] = client.info()
        if is_podman(client):
            # For a person's own Podman, these tell of the machine's groups and not of those that the person has.
            has = _podman_controllers(client)
            found |= {name: controller in has for name, controller in LIMITS.items()}
    except (DockerException, OSError) as error:
        raise _silent(error) from error
    return found


def _podman_controllers(client: APIClient) -> list[str]:
    """The controllers that Podman may give its containers, which only its own interface tells."""
    answer = client.get(f"{client.base_url}/v4.0.0/libpod/info", timeout=client.timeout)
    found: list[str] = answer.json()["host"].get("cgroupControllers") or []
    return found
