"""The time that there is for a file: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

STRETCH = 3
"""How many times as long as it should something may take where other programs have the processors."""
LOOK_SECONDS = 0.05
"""Seconds until it is looked again how long threads have waited."""
FIRST_PIECE = 2 * 1024 * 1024
"""Bytes of the first piece of a file."""


class Watch:
    """Seconds without those in which others had the processors, of which each counts for a part all the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = 0.0
        self._last = self._look()

    @staticmethod
    def _look() -> tuple[float, float, float]:
        """The time, that of the processors which this process had, and that in which its threads waited for one."""
        waited = 0
        with suppress(OSError, ValueError, IndexError):
            for each in os.listdir("/proc/self/task"):
                with open(f"/proc/self/task/{each}/schedstat", encoding="ascii") as file:
                    waited += int(file.read().split()[1])
        return time.monotonic(), time.process_time(), waited / 1e9

    def now(self) -> float:
        """The seconds since it was made."""
        with self._lock:
            if (rest := time.monotonic() - self._last[0]) < LOOK_SECONDS:
                return self._own + rest
            last, self._last = self._last, self._look()
            whole, used, waited = (each - before for each, before in zip(self._last, last, strict=True))
            self._own += min(whole, max(whole - max(waited, 0), used, whole / STRETCH))
            return self._own


class Clock:
    """The time that there is for a file, and the memory for a piece of one.

    Args:
        end: When reading must end, by `now`.
        piece: Bytes of a piece; twice as many of a file are read at once where it can't be read in pieces.
        now: Tells the time.

    Attributes:
        nested: In how many archives the file is that is read.
    """

    def __init__(self, end: float, piece: int, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.end = end
        self.piece = piece
        self.whole = 2 * piece
        self.step = min(FIRST_PIECE, piece)
        self.nested = 0

    def pace(self, seconds: float) -> None:
        """Have the next piece larger or smaller, after one that took so long: the last one must not come too late."""
        if seconds < 0.2:
            self.step = min(2 * self.step, self.piece)
        elif seconds > 0.8:
            self.step = max(self.step // 2, min(FIRST_PIECE, self.piece))

    def is_over(self) -> bool:
        """Whether the time has come to an end."""
        return self.now() > self.end
