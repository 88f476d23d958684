"""The warm kernels of one kind: how many there are to be, which are there, and when the next may be started."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

FIRST_WAIT = 1.0
"""Seconds after the first start that failed; twice as long after each further one in a row."""
LONGEST_WAIT = 300.0

Kind = tuple[str, SandboxSpec]
"""What makes two sandboxes interchangeable: the engine, and all of the spec that is fixed when it starts."""


def kind_of(engine: Engine, spec: SandboxSpec) -> Kind:
    """The kind of a sandbox; whose it is, and with what data, is decided when it is handed over."""
    return engine.name, replace(spec, data=(), owner="", keep=0.0, late_data=True)


@dataclass(eq=False)
class Warm:
    """A kernel that waits to be used.

    Attributes:
        kernel: It has run no cell.
        since: When it was there, on the monotonic clock.
    """

    kernel: Kernel
    since: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class Shelf:
    """The warm kernels of one kind.

    Attributes:
        kind: Theirs.
        size: How many there are to be.
        kernels: Those that are there, the oldest first.
        failures: Starts that failed since the last one that worked.
        not_before: When the next may be started, on the monotonic clock.
    """

    kind: Kind
    size: int
    kernels: deque[Warm] = field(default_factory=deque)
    failures: int = 0
    not_before: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there are to be."""
        return len(self.kernels) >= self.size

    def add(self, warm: Warm) -> None:
        """One more is there."""
        self.kernels.append(warm)
        self.failures = 0

    def take(self, *, ttl: float) -> Warm | None:
        """The oldest that isn't too old."""
        oldest = time.monotonic() - ttl
        for warm in self.kernels:
            if warm.since > oldest:
                self.kernels.remove(warm)
                return warm
        return None

    def has_fresh(self, *, ttl: float) -> bool:
        """Whether there is one that isn't too old."""
        return len(self.kernels) > len(self.expired(ttl=ttl))

    def expired(self, *, ttl: float) -> list[Warm]:
        """Those that are too old."""
        oldest = time.monotonic() - ttl
        return [warm for warm in self.kernels if warm.since <= oldest]

    def drop(self, warm: Warm) -> bool:
        """Take that one away; False if it is no longer there."""
        try:
            self.kernels.remove(warm)
        except ValueError:
            return False
        return True

    def failed(self) -> float:
        """A start failed; returns the seconds until the next."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0**self.failures)
        self.failures += 1
        self.not_before = time.monotonic() + wait
        return wait
