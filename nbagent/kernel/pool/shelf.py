"""The warm kernels of one kind: how many there are to be, which are there, and when the next may be started."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

FIRST_WAIT_SECONDS = 1.0
"""Seconds to wait after a start that failed; the time doubles with each further failure in a row."""
MAX_WAIT_SECONDS = 300.0

ShelfKey = tuple[str, SandboxSpec]
"""An engine's name and a spec: warm kernels with the same key can stand in for one another."""


def key_for(engine: Engine, spec: SandboxSpec) -> ShelfKey:
    """The key of a sandbox. Its owner and its data don't count, since they are set when it is handed over."""
    return engine.name, replace(spec, data=(), owner="", keep=0.0, late_data=True)


@dataclass(eq=False)
class Shelf:
    """The warm kernels of one kind, none of which has run a cell.

    Attributes:
        spec: What their sandboxes are.
        size: How many there are to be.
        kernels: When each became ready, on the monotonic clock; the oldest first.
        failures: Starts that failed since the last one that succeeded.
        not_before: When the next may be started, on the monotonic clock.
    """

    spec: SandboxSpec
    size: int
    kernels: dict[Kernel, float] = field(default_factory=dict)
    failures: int = 0
    not_before: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there are to be."""
        return len(self.kernels) >= self.size

    def add(self, kernel: Kernel) -> None:
        """Add a kernel that is ready."""
        self.kernels[kernel] = time.monotonic()
        self.failures = 0

    def take(self, *, ttl: float) -> Kernel | None:
        """Take away the oldest that isn't too old."""
        expired = self.expired(ttl=ttl)
        kernel = next((each for each in self.kernels if each not in expired), None)
        if kernel is not None:
            del self.kernels[kernel]
        return kernel

    def has_fresh(self, *, ttl: float) -> bool:
        """Whether there is one that isn't too old."""
        return len(self.kernels) > len(self.expired(ttl=ttl))

    def expired(self, *, ttl: float) -> list[Kernel]:
        """Those that have waited longer than `ttl` seconds."""
        oldest = time.monotonic() - ttl
        return [kernel for kernel, ready in self.kernels.items() if ready <= oldest]

    def postpone(self) -> float:
        """Count a start that failed; returns the seconds until the next."""
        wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**self.failures)
        self.failures += 1
        self.not_before = time.monotonic() + wait
        return wait
