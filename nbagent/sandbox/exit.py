"""How a sandbox's kernel ended, and whether that was for its memory."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbagent.sandbox.limits.cgroup import GroupUsage

LOOK_SECONDS = 0.25
"""Seconds between two looks at how many processes Linux has killed."""
SURVIVED_SECONDS = 3.0
"""A kernel that lived on for so many seconds after a kill was not the one killed; used if process 1 can't say."""
MAX_SEEN = 1000
"""The most times at which the count grew that are remembered."""


@dataclass(frozen=True)
class Exit:
    """How a sandbox's kernel ended.

    Attributes:
        code: The exit code, negative for a signal; None of a kernel that somebody else started.
        out_of_memory: Whether it was killed at its memory limit.
        memory_peak: Bytes, or None where the engine can't tell.
        overuse: What it took too much of, if process 1 ended it for that (`overuse_inside.py`): part of a sentence.
    """

    code: int | None
    out_of_memory: bool = False
    memory_peak: int | None = None
    overuse: str = ""

    @classmethod
    def of_status(cls, status: int, *, killed: bool = False, memory_peak: int | None = None) -> Exit:
        """The end with a certain status, as shells have it: 128 and more for a signal.

        Args:
            status: The status; negative if a signal ended the process that reports it.
            killed: Whether Linux killed a process of the sandbox for its memory.
            memory_peak: Bytes, if known.
        """
        code = 128 - status if 128 < status <= 128 + signal.NSIG else status
        return cls(code, out_of_memory=killed and code == -signal.SIGKILL, memory_peak=memory_peak)

    def __str__(self) -> str:
        """How it ended, as part of a sentence: `was killed by SIGKILL`."""
        if self.overuse:
            return f"was ended for what it took of the machine: {self.overuse}"
        if self.out_of_memory:
            return "ran out of memory"
        if self.code is None:
            return "ended"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-self.code).name}"
            return f"was killed by signal {-self.code}"
        return f"exited with code {self.code}"

    def loss(self, memory_mb: int) -> str:
        """What it means for a client's kernel with this limit, as the rest of a sentence about the kernel."""
        limit = f" (limit {memory_mb:,} MB; more is a setting of nbagent's: memory_mb)"
        return f"{self}{limit if self.out_of_memory else ''}; its variables are lost."


class KillCount:
    """Counts the processes of a sandbox that Linux kills for their memory, to tell whether the kernel was the last."""

    def __init__(self) -> None:
        self._started = self._looked = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque(maxlen=MAX_SEEN)

    def look(self, usage: Callable[[], GroupUsage | None]) -> None:
        """Count them, unless that was done just before."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            kills = used.oom_kills() if (used := usage()) else 0
            if kills > (self._seen[-1][1] if self._seen else 0):
                self._seen.append((now, kills))

    def exit(self, status: int, *, killed: bool, usage: GroupUsage | None, words: Mapping[str, Any]) -> Exit:
        """How the kernel ended: by what process 1 said at its end if it could, else by what the engine knows.

        A status alone, which is as `Exit.of_status` takes it, can't tell a signal from an exit code above 128.
        """
        said = {name: value for name, value in words.items() if isinstance(value, int)}
        kills = said.get("oom_kills", usage.oom_kills() if usage else 0)
        killed = kills > self._count_survived(words.get("alive_at")) or ("oom_kills" not in said and killed)
        ended = Exit.of_status(
            status, killed=killed, memory_peak=said.get("memory_peak", usage.memory_peak() if usage else None)
        )
        if (code := said.get("exit", -1)) >= 0:
            return replace(ended, code=code, out_of_memory=False, overuse=str(words.get("overuse", "")))
        return ended

    def _count_survived(self, alive_at: object) -> int:
        """How many of the killed processes were not the kernel."""
        now = time.monotonic()
        # The clock of another operating system kernel, such as gVisor's, may be another one.
        latest = now - SURVIVED_SECONDS
        if isinstance(alive_at, float) and self._started < alive_at <= now:
            latest = alive_at
        return max((kills for at, kills in self._seen if at < latest), default=0)
