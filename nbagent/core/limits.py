"""The limits of one sandbox: memory, processor, processes, time, disk and bytes, as plain values.

The engines enforce them, and refuse those that they can't enforce.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from nbagent.core.errors import UsageError

MAX_LIMIT = 1_000_000_000
"""The largest value of any limit, in its own unit: infinity would be no limit, and the system overflows above this."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on one sandbox. Sizes in MiB, times in seconds, `cpus` in cores."""

    memory_mb: int = 2048
    """Memory of the whole sandbox, tmpfs folders included. There is no swap."""
    cpus: float | None = None
    """Cores; None for as many as the machine has."""
    pids: int = 512
    """Processes and threads."""
    tmp_mb: int = 1024
    """Size of /tmp, and of /workspace."""
    timeout: float = 60.0
    """Seconds a cell may run."""
    grace: float = 5.0
    """Seconds between the interrupt of a cell that ran too long and the kill of the kernel."""
    start_timeout: float = 60.0
    """Seconds from the launch to the kernel's first answer."""
    upload_mb: int = 256
    """What may be sent to allowed hosts in all."""
    download_mb: int = 4096
    """What may be received from them in all."""
    unknown_names: int = 10
    """Unpopular packages that code may ask the index for: each name could carry a few bytes of data out."""
    install_mb: int = 8192
    """Disk space on the host for the packages that code asks for."""
    session_mb: int = 4096
    """Disk space on the host for a session: its log, figures, spilled text and results."""
    result_mb: int = 2048
    """The largest file that is collected as a result."""
    result_files: int = 20
    """Files that are collected from /tmp/output, and from /workspace, after one cell; more follow later."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if (value := getattr(self, each.name)) is not each.default:
                _check_bound(each.name, value, whole=each.type == "int")
        if self.cpus is not None and not 0.01 <= self.cpus <= 10_000:
            raise UsageError(f"The limit cpus must be at least 0.01 and at most 10,000 cores, not {self.cpus}.")
        if self.memory_mb < 128:
            raise UsageError(f"A kernel needs at least 128 MB of memory; memory_mb is {self.memory_mb}.")


def _check_bound(name: str, value: float, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"The limit {name} is a number, not {value!r}.")
    if not 0 < value <= MAX_LIMIT and not (name == "unknown_names" and value == 0):
        raise UsageError(f"The limit {name} must be above 0 and at most {MAX_LIMIT:,}, not {value}.")
    if whole and not isinstance(value, int):
        raise UsageError(f"The limit {name} must be a whole number, not {value}.")
