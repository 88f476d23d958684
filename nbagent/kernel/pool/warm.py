"""What makes a started kernel a warm one, and whether this machine has room for another."""

from __future__ import annotations

import logging
import resource
from collections.abc import Sequence
from pathlib import Path

from nbagent.core.errors import SandboxError
from nbagent.core.policy import MIB
from nbagent.kernel.kernel import Kernel

log = logging.getLogger(__name__)

EACH = 160 * MIB
"""Bytes that a warm kernel is taken to hold where it can't be measured; with Polars and Matplotlib, 100 MB."""
FILES = 25
"""Files, sockets and pipes of this process's for each kernel that waits."""
MOST_FILES = 0.8
"""Part of those that this process may open from which no kernel is warmed."""
IMPORTS_FROM = 512
"""MiB of a sandbox's memory from which its imports are done ahead: below, they would be most of what code may use."""
SECONDS = 60.0
"""For all imports."""
_PROBE = Path(__file__).parents[1] / "inside" / "warm_inside.py"


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
    return kernel.memory_peak() or EACH


def shortage(kernels: int, *, each: int) -> str:
    """Why one more kernel would be too many, as a clause; empty if it would not.

    Args:
        kernels: Those that are warm now.
        each: Bytes that each one holds.
    """
    free = free_memory() + kernels * each
    if (kernels + 1) * each > free / 2:
        return f"with one more, at {each // MIB:,} MB each, it would hold half of the free memory"
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sum(1 for _ in Path("/proc/self/fd").iterdir()) + FILES > MOST_FILES * files:
        return f"each takes {FILES} open files, of which this process may have {files:,} (ulimit -n)"
    return ""


def free_memory() -> int:
    """Bytes of this machine's memory that can be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
