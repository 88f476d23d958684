"""Limits the time that reading one kernel's messages takes: a kernel that sends much must not delay the others."""

from __future__ import annotations

import time
from typing import Final

SLICE_SECONDS: Final = 0.001
"""Seconds for which one channel is read before other tasks run."""
HEAVY_SECONDS: Final = 0.008
"""Seconds from which others feel one reading. It may take so long, since a large message can't be read in parts."""
HEAVY_COST_SECONDS: Final = 0.1
"""Seconds that a heavy reading costs at least, so that others feel one in about thirty of their cells."""
MAX_SHARE: Final = 0.25
"""The share of the time that one kernel's messages may take while others are active."""
BURST_SECONDS: Final = 0.2
"""Seconds that reading may take at once before the share applies."""
ACTIVE_SECONDS: Final = 1.0
"""Seconds for which a kernel counts as active after it was last read."""

_LAST: dict[ReadingShare, float] = {}
"""When each connection of this process was last read, on any loop or thread, since all share one interpreter."""


class ReadingShare:
    """The account of one connection: time fills it, and reading draws on it."""

    def __init__(self) -> None:
        self._left = BURST_SECONDS
        self._filled = time.monotonic()

    def took(self, seconds: float) -> None:
        """Draw the time that a reading took."""
        self._fill()
        self._left -= seconds if seconds < HEAVY_SECONDS else max(seconds, HEAVY_COST_SECONDS)
        _LAST[self] = self._filled

    def pause(self) -> float:
        """Seconds to wait before the next reading; 0 while no other kernel is active."""
        now = self._fill()
        if self._left >= 0:
            return 0.0
        if all(now - last > ACTIVE_SECONDS for share, last in list(_LAST.items()) if share is not self):
            self._left = 0.0
            return 0.0
        return -self._left / MAX_SHARE

    def end(self) -> None:
        """Forget the connection, which is closed."""
        _LAST.pop(self, None)

    def _fill(self) -> float:
        now = time.monotonic()
        self._left = min(BURST_SECONDS, self._left + MAX_SHARE * (now - self._filled))
        self._filled = now
        return now
