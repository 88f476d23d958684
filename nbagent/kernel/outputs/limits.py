"""How much of a cell's outputs is kept."""

from __future__ import annotations

from dataclasses import dataclass

from nbagent.core.policy import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """What is kept of one cell's outputs. Sizes in characters."""

    stream_head: int = MIB
    """The start of each stream output; live display of it ends there too."""
    stream_tail: int = MIB
    """The end of each stream output."""
    stream_total: int = 8 * MIB
    """All stream outputs together; at most two tails come on top."""
    streams: int = 1_000
    """Stream outputs. A cell that switches between stdout and stderr more often gets one more of each."""
    edits: int = 500_000
    """Carriage returns and backspaces that are obeyed, see `LineFold`."""
    displays: int = 1_000
    """Outputs of type display_data."""
    mime: int = 32 * MIB
    """One representation in a MIME bundle."""
    display_total: int = 48 * MIB
    """All MIME bundles together; at the end of the cell they are written down at once, while nothing else runs."""
    live: int = 128 * MIB
    """Live changes, so that a log of them stays bounded even where outputs replace each other for ever."""
