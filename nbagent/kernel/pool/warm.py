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

ESTIMATED_KERNEL_BYTES = 160 * MIB
"""Bytes that a warm kernel is estimated at where they can't be measured; with Polars and Matplotlib, it has 100 MB."""
FILES_PER_KERNEL = 25
"""Files, sockets and pipes that this process has open for each kernel that waits."""
MAX_OPEN_FILES_SHARE = 0.8
"""The part of this process's limit of open files beyond which no kernel is warmed."""
MIN_IMPORT_MB = 512
"""MiB: in a sandbox with less memory nothing is imported ahead, since that would take most of it."""
IMPORT_SECONDS = 60.0
"""Seconds for all imports."""
_PROBE = Path(__file__).parents[1] / "inside" / "warm_inside.py"


async def warm(kernel: Kernel, imports: Sequence[str]) -> None:
    """Import modules in a new kernel, and use them once, without a trace that a cell could see.

    One that can't be imported is logged.
    Cells come too late to set variables that a library reads when it is imported, such as `POLARS_MAX_THREADS`.

    Raises:
        SandboxError: The kernel did not survive it.
    """
    if not imports or kernel.spec.trust.limits.memory_mb < MIN_IMPORT_MB:
        return
    wrong = await kernel.evaluate(_PROBE.read_text(), [list(imports)], seconds=IMPORT_SECONDS)
    if not isinstance(wrong, list):
        raise SandboxError(f"The imports of a warm kernel did not end: {', '.join(imports)}.")
    for each in wrong:
        log.warning("%s", each)


def memory_held(kernel: Kernel) -> int:
    """The most bytes that a kernel has used so far, or the estimate where the engine can't tell."""
    return kernel.memory_peak() or ESTIMATED_KERNEL_BYTES


def shortage(kernels: int, *, each: int) -> str:
    """Why there is no room for one more kernel of `each` bytes, as a clause; empty if there is."""
    free = free_memory() + kernels * each
    if (kernels + 1) * each > free / 2:
        return f"with one more, at {each // MIB:,} MB each, it would hold half of the free memory"
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sum(1 for _ in Path("/proc/self/fd").iterdir()) + FILES_PER_KERNEL > MAX_OPEN_FILES_SHARE * files:
        return f"each takes {FILES_PER_KERNEL} open files, of which this process may have {files:,} (ulimit -n)"
    return ""


def free_memory() -> int:
    """Bytes of memory that this machine can give without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
