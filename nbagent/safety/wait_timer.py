"""Counts the time in which a person's answer is waited for, which doesn't count against a time limit or a budget."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class WaitTimer:
    """The times of waiting; those that overlap count once. It may be used on any thread."""

    def __init__(self) -> None:
        self._over: list[tuple[float, float]] = []
        self._open = 0
        self._since = 0.0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A person is asked."""
        with self._lock:
            if not self._open:
                self._since = time.monotonic()
            self._open += 1

    def end(self) -> None:
        """The person has answered, or nobody waits any longer; once for each `begin`."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._over.append((self._since, time.monotonic()))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Meanwhile somebody waits for a person."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits now."""
        return self._open > 0

    def seconds(self, since: float = 0.0) -> float:
        """Seconds of waiting since a moment of the monotonic clock; by default, all of them."""
        with self._lock:
            times = [*self._over, (self._since, time.monotonic())] if self._open else self._over
            return sum(end - max(start, since) for start, end in times if end > since)
