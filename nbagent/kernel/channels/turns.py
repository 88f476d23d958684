"""Whose turn it is to read: kernels that send much must not take the event loop from the others of this process."""

from __future__ import annotations

import time
from typing import Final

SLICE: Final = 0.001
"""Seconds that one channel may be read before other tasks get a turn."""
HEAVY: Final = 0.008
"""A turn of more seconds is felt by others: one message can't be cut, and a large one takes long to take in."""
HEAVY_COST: Final = 0.1
"""What a heavy turn costs at least, so that others feel few of them: one in some thirty of their cells."""
SHARE: Final = 0.25
"""How much of the time one kernel's messages may take while others are active."""
BURST: Final = 0.2
"""Seconds that may be taken at once before that share is asked for."""
ACTIVE: Final = 1.0
"""Seconds for which a kernel counts as active after its last turn."""

_LAST: dict[Turns, float] = {}
"""When each connection of this process had its last turn, on whichever loop or thread: they share one interpreter."""


class Turns:
    """The turns of one connection: an account that fills with time, and that reading takes from."""

    def __init__(self) -> None:
        self._left = BURST
        self._filled = time.monotonic()

    def took(self, seconds: float) -> None:
        """A turn has ended that took so long."""
        self._fill()
        self._left -= seconds if seconds < HEAVY else max(seconds, HEAVY_COST)
        _LAST[self] = self._filled

    def pause(self) -> float:
        """Seconds to wait before the next turn; 0 while no other kernel is active."""
        now = self._fill()
        if self._left >= 0:
            return 0.0
        if all(now - last > ACTIVE for turns, last in list(_LAST.items()) if turns is not self):
            self._left = 0.0
            return 0.0
        return -self._left / SHARE

    def end(self) -> None:
        """There will be no more turns."""
        _LAST.pop(self, None)

    def _fill(self) -> float:
        now = time.monotonic()
        self._left = min(BURST, self._left + SHARE * (now - self._filled))
        self._filled = now
        return now
