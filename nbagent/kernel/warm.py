"""What makes a started kernel a warm one, and whether this machine has the memory for another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from nbagent.errors import SandboxError
from nbagent.kernel.kernel import Kernel
from nbagent.policy import MIB

log = logging.getLogger(__name__)

EACH = 160 * MIB
"""Bytes that a warm kernel is taken to hold where it can't be measured; with Polars and Matplotlib it is about 100 MB."""
IMPORTS_FROM = 512
"""MiB of a sandbox's memory from which its imports are done ahead: below, they would be most of what code may use."""
SECONDS = 60.0
"""For all imports."""
_PROBE = Path(__file__).with_name("warm_inside.py")


async def warm(kernel: Kernel, imports: Sequence[str]) -> None:
    """Import modules in a kernel, and use them once, without a trace that a cell could see.

    What a library reads of its environment when it is imported, such as `POLARS_MAX_THREADS`, it has read by then.

    Args:
        kernel: A running kernel in which nothing has run.
        imports: Modules by name; one that isn't there is said, and no error.

    Raises:
        SandboxError: The kernel did not live through it.
    """
    if not imports or kernel.spec.trust.limits.memory_mb < IMPORTS_FROM:
        return
    wrong = await kernel.evaluate(_PROBE.read_text(), [list(imports)], seconds=SECONDS)
    if not isinstance(wrong, list):
        raise SandboxError(f"The imports of a warm kernel did not end: {', '.join(imports)}.")
    for each in wrong:
        log.warning("%s", each)


def memory_held(kernel: Kernel) -> int:
    """Bytes that a kernel has used at most so far, or a guess where the engine can't tell."""
    usage = kernel.provisioner.usage()
    return (usage.memory_peak() if usage else None) or EACH


def has_room(kernels: int, *, each: int) -> bool:
    """Whether one more kernel fits: together they hold at most half of what would be free without any.

    Args:
        kernels: Those that are warm now.
        each: Bytes that each one holds.
    """
    free = free_memory() + kernels * each
    return (kernels + 1) * each <= free / 2


def free_memory() -> int:
    """Bytes of this machine's memory that can be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
