"""Trust levels, limits and the install policy: what a sandbox permits, as plain values.

Nothing here enforces anything; the engines do, and refuse what they can't enforce.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent.errors import UsageError

MIB = 1024 * 1024


class TrustLevel(enum.StrEnum):
    """How far the code in a sandbox is trusted."""

    TRUSTED = "trusted"
    """Code you wrote: network, writable root."""
    ISOLATED = "isolated"
    """Data analysis: free inside, nothing gets out. The default."""
    SANDBOXED = "sandboxed"
    """Agents that face users: no processes of its own, network by allow-list only."""
    UNTRUSTED = "untrusted"
    """Code of unknown origin: nothing but computing, little of it."""

    @classmethod
    def parse(cls, name: str) -> TrustLevel:
        """The level of that name.

        Raises:
            UsageError: There is none; the message lists those there are.
        """
        try:
            return cls(name.strip().lower())
        except ValueError:
            raise UsageError(
                f"There is no trust level {name!r}.", mend=f"Use one of: {', '.join(level.value for level in cls)}."
            ) from None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on one sandbox. Sizes in MiB, times in seconds, `cpus` in cores."""

    memory_mb: int = 2048
    """Memory of the sandbox as a whole; tmpfs folders count towards it. No swap."""
    cpus: float | None = None
    """Cores; None for as many as the machine has."""
    pids: int = 512
    """Processes and threads."""
    tmp_mb: int = 1024
    """Size of /tmp; /workspace has the same."""
    timeout: float = 60.0
    """Seconds a cell may run."""
    grace: float = 5.0
    """Seconds between the interrupt and the kill."""
    start_timeout: float = 60.0
    """Seconds from the launch to the kernel's first answer."""

    def __post_init__(self) -> None:
        for name in ("memory_mb", "pids", "tmp_mb", "timeout", "grace", "start_timeout"):
            value = getattr(self, name)
            if not value > 0:
                raise UsageError(f"The limit {name} must be above 0, not {value}.")
        if self.cpus is not None and not self.cpus > 0:
            raise UsageError(f"The limit cpus must be above 0, not {self.cpus}.")
        if self.memory_mb < 128:
            raise UsageError(f"A kernel needs at least 128 MB of memory; memory_mb is {self.memory_mb}.")


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What one level permits. The engines enforce each field."""

    level: TrustLevel
    network: bool
    """The host's network. False: no interface but the sandbox's own loopback."""
    subprocess: bool
    """Programs may be executed (a shell among them)."""
    read_only_root: bool
    limits: Limits


TRUST: dict[TrustLevel, Trust] = {
    TrustLevel.TRUSTED: Trust(
        level=TrustLevel.TRUSTED, network=True, subprocess=True, read_only_root=False, limits=Limits()
    ),
    TrustLevel.ISOLATED: Trust(
        level=TrustLevel.ISOLATED, network=False, subprocess=True, read_only_root=True, limits=Limits()
    ),
    TrustLevel.SANDBOXED: Trust(
        level=TrustLevel.SANDBOXED,
        network=False,
        subprocess=False,
        read_only_root=True,
        limits=Limits(memory_mb=512, tmp_mb=256, pids=128),
    ),
    TrustLevel.UNTRUSTED: Trust(
        level=TrustLevel.UNTRUSTED,
        network=False,
        subprocess=False,
        read_only_root=True,
        limits=Limits(memory_mb=256, tmp_mb=128, pids=64, cpus=0.5),
    ),
}


def trust_for(level: TrustLevel, *, data_bytes: int = 0, **overrides: Any) -> Trust:
    """The table's row for a level, with its limits fitted to the data and overridden by the person.

    Args:
        level: The trust level.
        data_bytes: Size of all the data. `isolated` grows to three times that, capped at half of the machine's
            memory, since a table is larger in memory than in a file.
        **overrides: Fields of `Limits`; those that are None are ignored.
    """
    trust = TRUST[level]
    limits = trust.limits
    if level is TrustLevel.ISOLATED and data_bytes:
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // MIB
        wanted = 3 * data_bytes // MIB + 512
        limits = replace(limits, memory_mb=max(limits.memory_mb, min(wanted, half)))
    chosen = {name: value for name, value in overrides.items() if value is not None}
    return replace(trust, limits=replace(limits, **chosen))


@dataclass(frozen=True, kw_only=True)
class InstallPolicy:
    """Which packages the host's installer may add to a session.

    Attributes:
        enabled: False refuses every install.
        allow: If not empty, only these distributions (and what they depend on).
        deny: Never these, not even as a dependency.
        min_age_days: A release younger than this is not taken: most hostile releases are found within days.
    """

    enabled: bool = True
    allow: frozenset[str] = field(default_factory=frozenset)
    deny: frozenset[str] = field(default_factory=frozenset)
    min_age_days: float = 3.0
