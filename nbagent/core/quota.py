"""The quota of one session on the host's disk. Every writer into the session's folder asks it first."""

from __future__ import annotations

RESERVE_BYTES = 1024 * 1024
"""Bytes, or a sixteenth of a small quota, for events that are logged even if the quota is used up, such as answers."""
MAX_SPARED_BYTES = 2048
"""Bytes of the largest output that is logged then, while half of the reserve lasts."""


class Quota:
    """Counts the bytes of a session's log, figures, spilled text and results.

    Args:
        limit: Bytes that the session may keep.
        used: Bytes that it keeps already.

    Attributes:
        used: Bytes that were kept so far.
        refused: Bytes that were refused.
    """

    def __init__(self, limit: int, *, used: int = 0) -> None:
        self.limit = limit
        self.used = used
        self.refused = 0
        self._told = 0

    @property
    def left(self) -> int:
        """Bytes that are left for the output of code."""
        return max(0, self.limit - min(RESERVE_BYTES, self.limit // 16) - self.used)

    def take(self, size: int, *, replaced: int = 0) -> bool:
        """Reserve room for bytes that are about to be written; False if they must not be written.

        Args:
            size: Bytes that are written.
            replaced: Bytes of the file that they replace, which are counted already.
        """
        if size - replaced > self.left:
            self.refused += size
            return False
        self.used += size - replaced
        return True

    def spare(self, size: int) -> bool:
        """Reserve room for a small output in half of the reserve; False if that is used up, too."""
        fits = size <= MAX_SPARED_BYTES and self.used + size <= self.limit - min(RESERVE_BYTES, self.limit // 16) // 2
        self.used += size if fits else 0
        return fits

    def add(self, size: int) -> None:
        """Count bytes that nbagent or a person wrote, which are kept in any case; negative if they are removed."""
        self.used = max(0, self.used + size)

    def news(self) -> str:
        """A sentence for the person and the model if something was refused since the last call, else empty."""
        if self.refused == self._told:
            return ""
        self._told = self.refused
        return (
            f"The {self.limit // 1024**2:,} MB that this session may keep on disk are used up, so not all of this was "
            "kept (more is a setting of nbagent's: session_mb; it holds for new sessions)."
        )
