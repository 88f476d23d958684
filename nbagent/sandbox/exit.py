"""How a sandbox's kernel ended, and whether that was for its memory."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbagent.core.errors import KernelStartError, SandboxError

if TYPE_CHECKING:
    from nbagent.sandbox.limits.cgroup import Usage

LOOK_SECONDS = 0.25
"""Between two looks at what Linux counts of a sandbox that runs."""
SURVIVED_SECONDS = 3.0
"""After which a process that was killed was not the kernel: an engine tells of the kernel's end sooner."""


@dataclass(frozen=True)
class Exit:
    """How a sandbox's kernel ended.

    Attributes:
        code: The exit code, negative for a signal.
        out_of_memory: Whether it was killed at its memory limit.
        memory_peak: Bytes, or None where the engine can't tell.
        overuse: What it was ended for having too much of (`watch_inside.py`), as part of a sentence; else empty.
    """

    code: int
    out_of_memory: bool = False
    memory_peak: int | None = None
    overuse: str = ""

    @classmethod
    def told(cls, status: int, *, killed: bool = False, memory_peak: int | None = None) -> Exit:
        """From a status as a shell tells it: 128 and more for a signal.

        Args:
            status: The status; negative if the process that tells it was ended by a signal itself.
            killed: Whether Linux has killed something of the sandbox's for its memory.
            memory_peak: Bytes, if known.
        """
        code = 128 - status if 128 < status <= 128 + signal.NSIG else status
        return cls(code, out_of_memory=killed and code == -signal.SIGKILL, memory_peak=memory_peak)

    def __str__(self) -> str:
        """The reason, as part of a sentence: `was killed by SIGKILL`."""
        if self.overuse:
            return f"was ended for what it took of the machine: {self.overuse}"
        if self.out_of_memory:
            return "ran out of memory"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-self.code).name}"
            return f"was killed by signal {-self.code}"
        return f"exited with code {self.code}"


class Kills:
    """How many processes of a sandbox Linux has killed for their memory, as seen while its kernel runs."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=2 * round(SURVIVED_SECONDS / LOOK_SECONDS))

    def look(self, usage: Callable[[], Usage | None]) -> None:
        """See how many there are now, unless that was done just before.

        Args:
            usage: Tells what the sandbox uses; None where the engine can't tell.
        """
        now = time.monotonic()
        if not self._seen or now - self._seen[-1][0] > LOOK_SECONDS:
            used = usage()
            self._seen.append((now, used.oom_kills() if used else 0))

    @property
    def survived(self) -> int:
        """How many there were that did not end the kernel."""
        latest = time.monotonic() - SURVIVED_SECONDS
        return max((kills for at, kills in self._seen if at < latest), default=0)


def start_failed(engine: str, exit_: Exit, tail: str) -> SandboxError:
    """The error for a kernel that ended before it answered."""
    said = f" It said: {tail[-1500:]}" if tail else ""
    return KernelStartError(f"The kernel in {engine} {exit_} while it started.{said}")
