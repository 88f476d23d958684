"""What a sandbox is to be, as a value that can be written down: a lease describes a sandbox by it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.errors import UsageError
from nbagent.policy import InstallPolicy, Trust, TrustLevel, trust_for
from nbagent.sandbox import mounts
from nbagent.sandbox.mounts import Mount

if TYPE_CHECKING:
    from nbagent.settings import Settings


ACCEPTABLE = ("memory", "cpu", "pids", "commands", "egress")
"""Limits that a person may accept to be unenforced."""


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What a sandbox is to be: the part of a session's settings that an engine needs.

    Attributes:
        trust: What is permitted, with its limits.
        data: What it sees read-only.
        accept: Names of limits that may stay unenforced, because a person said so.
        install: Which packages its code may get.
        image: The Docker image, or None for nbagent's own.
        owner: The session's id, for labels; empty when another client starts the kernel.
        keep: Seconds that it lives on after its controller died, to be taken over; 0 ends it at once.
        late_data: Whether it starts before its data is known: it sees a mirror that is filled later (`mirror.py`).
    """

    trust: Trust = field(default_factory=lambda: trust_for(TrustLevel.ISOLATED))
    data: tuple[Mount, ...] = ()
    accept: frozenset[str] = frozenset()
    install: InstallPolicy = field(default_factory=InstallPolicy)
    image: str | None = None
    owner: str = ""
    keep: float = 0.0
    late_data: bool = False

    def __post_init__(self) -> None:
        if unknown := sorted(self.accept - set(ACCEPTABLE)):
            raise UsageError(
                f"There is no limit {unknown[0][:80]!r} to accept.", mend=f"Use one of: {', '.join(ACCEPTABLE)}."
            )


def spec_for_settings(chosen: Settings, trust: str | None = None) -> SandboxSpec:
    """The sandbox that a person's settings describe, without data.

    Args:
        chosen: The settings.
        trust: Another trust level.

    Raises:
        UsageError: There is no such level.
    """
    level = TrustLevel.parse(chosen.trust if trust is None else trust)
    found = trust_for(level, security=chosen.security, memory_mb=chosen.memory_mb, cpus=chosen.cpus)
    install = found.narrow(chosen.install_policy)
    return SandboxSpec(trust=found, install=install, accept=frozenset(chosen.accept), image=chosen.image)


def spec_for_client(cwd: str | None, *, config: dict[str, Any]) -> SandboxSpec:
    """The sandbox of a kernel that another client starts: it sees its folder read-only at /tmp/data.

    `NBAGENT_CLIENT_DATA=0` turns that off.

    Args:
        cwd: The folder the kernel was started for.
        config: The kernelspec's configuration: `trust`, and `data: false` to turn it off.
    """
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent import settings

    chosen = settings.load()
    spec = spec_for_settings(chosen, os.environ.get("NBAGENT_TRUST") or config.get("trust"))
    wanted = config.get("data", True) and os.environ.get("NBAGENT_CLIENT_DATA", "1") not in ("0", "false", "no")
    folder = Path(cwd or Path.cwd()).resolve()
    if not wanted or not folder.is_dir():
        return spec
    return replace(spec, data=tuple(mounts.for_client(folder)))
