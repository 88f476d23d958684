"""What one session may keep on the host's disk: one account, which all ask who write into its folder."""

from __future__ import annotations

RESERVE = 1024 * 1024
"""Bytes, or a sixteenth of a small quota, for what must be told once the quota is used up: how cells ended, answers."""
SMALL = 2048
"""Bytes of output that a person is still shown then, as long as the reserve lasts."""


class Quota:
    """Bytes of a session's log, figures, spilled text and results, those that land elsewhere included.

    Args:
        limit: All that may be kept.
        used: What is there already.

    Attributes:
        limit: As given.
        used: What was kept so far.
        refused: Bytes that there was no room for.
    """

    def __init__(self, limit: int, *, used: int = 0) -> None:
        self.limit = limit
        self.used = used
        self.refused = 0
        self._told = 0

    @property
    def left(self) -> int:
        """Bytes that code may still have kept."""
        return max(0, self.limit - min(RESERVE, self.limit // 16) - self.used)

    def take(self, size: int) -> bool:
        """Count what is about to be kept; False if there is no room for it, and then it must not be kept."""
        if size > self.left:
            self.refused += size
            return False
        self.used += size
        return True

    def spare(self, size: int) -> bool:
        """Count a small piece of output that there is no room for any more, out of half of the reserve, if it holds."""
        fits = size <= SMALL and self.used + size <= self.limit - min(RESERVE, self.limit // 16) // 2
        self.used += size if fits else 0
        return fits

    def add(self, size: int) -> None:
        """Count what is kept in any case: small, and of nbagent's or a person's making. A negative size is let go."""
        self.used = max(0, self.used + size)

    def news(self) -> str:
        """A sentence for the person and the model if there was no room for something since the last call."""
        if self.refused == self._told:
            return ""
        self._told = self.refused
        return (
            f"The {self.limit // 1024**2:,} MB that this session may keep on disk are used up, so not all of this was "
            "kept (limit session_mb; raise it with NBAGENT_SESSION_MB or Limits(session_mb=…), in a new session)."
        )
