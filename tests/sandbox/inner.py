"""What of a kernel's sandbox only tests look at."""

from __future__ import annotations

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.hosted import HostedSandbox


def sandbox_of(kernel: Kernel) -> HostedSandbox:
    """The sandbox that a kernel runs in at the moment."""
    found = kernel._process._sandbox
    assert isinstance(found, HostedSandbox)
    return found
