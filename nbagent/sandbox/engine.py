"""The contract of an engine: what it can do on this machine, and what it clears away of sandboxes that nobody holds.

An engine isolates a kernel: `docker.py`, `bubblewrap.py`, and `local.py`, which isolates nothing and says so. They are
found by name, through the entry points `nbagent.engines` (`registry.py`). What starts and ends a sandbox is an engine's
provisioner (`base.py`).
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

from nbagent.errors import LimitUnenforceable
from nbagent.sandbox.environment import environment
from nbagent.sandbox.layout import has_egress
from nbagent.sandbox.leases import lease
from nbagent.sandbox.limits import cgroup

if TYPE_CHECKING:
    from nbagent.sandbox.leases.lease import Terms
    from nbagent.sandbox.spec import SandboxSpec

LOGINS = Path("/run/user")
"""Where systemd makes runtime folders, and removes them at the end of a person's last login."""
ONE_USER = dict.fromkeys(
    ("shrink_pipes_of_the_neighbour", "block_files_of_the_neighbour"),
    "all sandboxes of one person run as one user, by whom Linux counts these",
)
"""Probes of the self-check that succeed where sandboxes share a user, as they do unless root starts them."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """One thing that an engine does or doesn't enforce on this machine."""

    name: str
    enforced: bool
    how: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an engine can do here.

    Attributes:
        available: Whether it could start a sandbox now.
        reason: Why not, one sentence; empty if it can.
        mend: What the person can do about it.
        controls: What it enforces.
        environment: Digest of the image or kernel environment, if there is one.
        kernel: What the code's system calls meet in the end, in words: a wall beside all that is enforced, or none.
    """

    available: bool
    reason: str = ""
    mend: str = ""
    controls: tuple[Control, ...] = ()
    environment: str = ""
    kernel: str = "the host's kernel"


def missing(controls: Iterable[Control], spec: SandboxSpec) -> list[Control]:
    """What a sandbox needs that isn't enforced, and that nobody accepted by name."""
    trust = spec.trust
    needed = {"memory", "pids"}
    if trust.limits.cpus is not None and trust.limits.cpus < (os.cpu_count() or 1):
        needed.add("cpu")
    if trust.log_all_commands and trust.allow_subprocess:
        needed.add("commands")
    if has_egress(trust):
        needed.add("egress")
    return [each for each in controls if not each.enforced and each.name in needed - spec.accept]


def unenforceable(engine: str, lacking: Sequence[Control]) -> LimitUnenforceable:
    """The error for a sandbox that can't have these."""
    names = [each.name for each in lacking]
    reasons = "; ".join(dict.fromkeys(each.how or "it isolates nothing" for each in lacking))
    told = ", ".join(f'"{name}"' for name in names)
    options = " ".join(f"--accept {name}" for name in names)
    return LimitUnenforceable(
        f"The {engine} engine can't enforce the limit on {' and '.join(names)} here: {reasons}.",
        mend=f"Use another engine (see `nbagent doctor`), or accept it with {options}.",
        elsewhere=f"Choose the kernel of another engine, or accept it in your nbagent settings: accept = [{told}].",
    )


@dataclass(frozen=True)
class Stray:
    """A part of a sandbox that nothing else is left of.

    Attributes:
        kind: What it is, in a word or two: `container`.
        name: Its name.
        created: Seconds since the epoch.
        remove: Removes it; returns whether it did, and nobody else.
    """

    kind: str
    name: str
    created: float
    remove: Callable[[], bool]


class Engine(abc.ABC):
    """An engine by name: what it can do here, before anything is started.

    Attributes:
        name: As a person names it.
        isolates: False for `local`, which is never chosen by itself.
    """

    name: ClassVar[str]
    isolates: ClassVar[bool] = True

    @property
    def known_failures(self) -> Mapping[str, str]:
        """Probes of the self-check that it doesn't withstand on this machine, each with the reason."""
        return {}

    @property
    def kernel_name(self) -> str:
        """The kernelspec that starts a kernel in this engine."""
        return f"nbagent-{self.name}"

    @property
    def lasting(self) -> bool:
        """Whether a kernel that is kept goes on when the person logs out, which takes their runtime folder with it."""
        return not lease.runtime_root().is_relative_to(LOGINS) or cgroup.lingers()

    @abc.abstractmethod
    def check(self, *, image: str | None = None) -> Report:
        """What the engine can do on this machine, found out by looking, in well under a second."""

    async def prepare(self) -> None:
        """Make what a sandbox needs and that can be made without asking, such as the kernel environment.

        Raises:
            EnvironmentMissing: It can't be made.
        """
        return None

    def end(self, folder: Path, terms: Terms | None) -> None:  # noqa: B027 - for engines that have something to end
        """End what is left of a sandbox whose controller is dead, but for its folders; nothing happens if it is gone.

        Args:
            folder: Its lease's folder; held by the caller.
            terms: What the lease says of it; None if that can't be read, and the sandbox may be another engine's.
        """

    def strays(self) -> list[Stray]:
        """What this engine has of sandboxes whose lease is gone, such as after a restart of the machine."""
        return []


class _Specs(KernelSpecManager):
    """The kernelspecs that nbagent brings, wherever Jupyter would look for installed ones."""

    engine: Engine

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The engine's own."""
        folder = environment.kernels() / kernel_name
        if folder.is_dir():
            return KernelSpec.from_resource_dir(str(folder))
        metadata = {"kernel_provisioner": {"provisioner_name": kernel_name}}
        return KernelSpec(argv=["python"], language="python", interrupt_mode="message", metadata=metadata)


def kernel_specs(engine: Engine) -> KernelSpecManager:
    """A kernelspec manager that knows this engine's kernel only."""
    specs = _Specs()
    specs.engine = engine
    return specs
