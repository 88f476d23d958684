"""The engine `docker`: each sandbox is a container of a Docker daemon, or of Podman's compatible socket."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbagent.core.errors import NbagentError
from nbagent.sandbox.contract import Engine, EngineReport, Hooks, Stray
from nbagent.sandbox.data.mirror import known_failures
from nbagent.sandbox.engines import daemon
from nbagent.sandbox.engines.container import LABEL, LEASE_LABEL, ORIGIN_LABEL, USER_LABEL, Container
from nbagent.sandbox.leases import scratch
from nbagent.sandbox.leases.lease import LeaseTerms
from nbagent.sandbox.leases.origin import PathOrigin
from nbagent.sandbox.limits import cgroup, seccomp
from nbagent.sandbox.machine.instance import known_on_machine
from nbagent.sandbox.machine.sandbox import MachineSandbox

CONNECTIONS = {
    "take_memory_by_connections": "control groups of version 1 count TCP's buffers apart, unbounded by Docker"
}
"""A probe of the self-check that succeeds where this process can't write to control groups that the daemon makes."""


class Docker(Engine):
    """Sandboxes from a Docker daemon that runs on this machine."""

    name = "docker"
    title = "Python (sandboxed, Docker)"
    rank = 10
    takes_images = True

    @property
    def is_demanded(self) -> bool:
        """Whether a runtime is set: a person who wants stronger isolation must not get a weaker engine."""
        return daemon.chosen_runtime() is not None

    def sandbox(self, hooks: Hooks) -> MachineSandbox:
        return MachineSandbox(self.name, Container(), hooks)

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Probes that succeed: because of mounts and, unless root starts the sandboxes, of a shared user and groups."""
        known = known_failures(scratch.root()) | known_on_machine()
        return known if cgroup.can_bound_connections() else known | CONNECTIONS

    def check(self, *, image: str | None = None) -> EngineReport:
        from nbagent.sandbox.engines.image import default_tag

        try:
            info = daemon.cached_info()
            runtime = daemon.runtime(info, daemon.chosen_runtime())
            # Asked each time: it also tells whether the daemon still answers.
            found = daemon.inspect(daemon.shared(timeout=daemon.CHECK_SECONDS), image or default_tag())
            seccomp.outer_profile()
        except NbagentError as error:
            daemon.forget()
            return EngineReport(available=False, reason=error.message, mend=error.mend)
        controls, kernel = daemon.controls(info, runtime), f"{runtime.name}: {runtime.kernel}"
        return EngineReport(available=True, controls=controls, environment=found["Id"], kernel=kernel)

    async def build(
        self, *, say: Callable[[str], object], base: str | None = None, tag: str | None = None, force: bool = False
    ) -> None:
        from nbagent.sandbox.engines import image

        await image.build(base=base or image.DEFAULT_BASE, tag=tag, force=force, say=say)

    def end(self, folder: Path, terms: LeaseTerms | None) -> None:  # noqa: ARG002 - the label names it
        for each in _containers({LABEL: folder.name, LEASE_LABEL: str(folder)}):
            _remove(each["Id"])

    def strays(self) -> list[Stray]:
        mine = _containers({USER_LABEL: str(os.getuid())})
        return [
            Stray("container", each["Id"][:12], float(each["Created"]), functools.partial(_remove, each["Id"]))
            for each in mine
            if PathOrigin.parse(each["Labels"].get(ORIGIN_LABEL, "")).lacks(Path(each["Labels"].get(LEASE_LABEL, "/")))
        ]


ENGINE = Docker()


def _containers(labels: dict[str, str]) -> list[dict[str, Any]]:
    """The containers with these labels, running or not; none where no daemon answers."""
    wanted = [f"{name}={value}" for name, value in labels.items()]
    found: list[dict[str, Any]] = []
    with daemon.failing(), contextlib.closing(daemon.connect(timeout=daemon.CHECK_SECONDS)) as client:
        found = client.containers(all=True, filters={"label": wanted})
    return found


def _remove(container: str) -> bool:
    """Remove a container; returns whether it was there, and not being removed by somebody else."""
    is_removed = False
    with daemon.failing(), contextlib.closing(daemon.connect()) as client:
        client.remove_container(container, v=True, force=True)
        is_removed = True
    return is_removed
