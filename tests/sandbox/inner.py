"""What of a kernel's sandbox only tests look at."""

from __future__ import annotations

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.machine.sandbox import MachineSandbox


def sandbox_of(kernel: Kernel) -> MachineSandbox:
    """The sandbox that a kernel runs in at the moment."""
    found = kernel._process._sandbox
    assert isinstance(found, MachineSandbox)
    return found
