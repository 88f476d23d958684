"""Gives a sandbox whose cell has just begun precedence over the others, when several want the same cores.

Somebody waits for the end of a short cell, and of one that was stopped. Long cells, and what runs on between two cells,
get a lower weight in their control group, which costs them nothing as long as they are alone on the machine.
"""

from __future__ import annotations

import asyncio
from typing import Final

from nbagent.sandbox.limits.cgroup import GroupUsage

FULL_WEIGHT_SECONDS: Final = 0.25
"""Seconds, from the start of a cell, in which its sandbox has its full weight."""


class CpuWeight:
    """Sets the weight of one kernel's sandbox, and of those that replace it."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._lowered: GroupUsage | None = None

    def begin(self, usage: GroupUsage | None, *, seconds: float | None = None) -> None:
        """Give a sandbox its full weight for a cell that begins, or ends; None where the weight can't be set."""
        self.end()
        if usage is None:
            return
        if self._lowered is usage:
            usage.give_way(False)
            self._lowered = None
        self._timer = asyncio.get_running_loop().call_later(
            FULL_WEIGHT_SECONDS if seconds is None else seconds, self._lower, usage
        )

    def end(self) -> None:
        """Leave the weight as it is, since the sandbox ends or gets another controller."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _lower(self, usage: GroupUsage) -> None:
        self._timer = None
        self._lowered = usage
        usage.give_way(True)
