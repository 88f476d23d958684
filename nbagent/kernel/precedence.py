"""Which sandbox gets the cores when several want them: one whose cell has just begun, before one that runs on.

Somebody waits for a short cell. One that takes long, and whatever a session left running between two cells, gives way:
by its weight, so that alone on the machine it loses nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from nbagent.sandbox.limits.cgroup import Usage

FULL: Final = 0.25
"""Seconds from the start of a cell for which its sandbox has its full weight."""


class Precedence:
    """The weight of one kernel's sandboxes, one after another."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._lowered: Usage | None = None

    def begin(self, usage: Usage | None) -> None:
        """A cell begins in this sandbox; nothing happens where its weight can't be set."""
        self.end()
        if usage is None:
            return
        if self._lowered is usage:
            usage.give_way(False)
            self._lowered = None
        self._timer = asyncio.get_running_loop().call_later(FULL, self._lower, usage)

    def end(self) -> None:
        """The sandbox ends, or is somebody else's."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _lower(self, usage: Usage) -> None:
        self._timer = None
        self._lowered = usage
        usage.give_way(True)
