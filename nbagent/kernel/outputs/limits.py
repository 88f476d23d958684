"""How much of a cell's outputs is kept: of each output, and of all that the session's quota has room for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from nbagent.core.events import Output
from nbagent.core.policy import MIB
from nbagent.core.quota import Quota
from nbagent.sandbox.inside.message_sizes_inside import marker

_PLENTY_BYTES: Final = 512 * MIB
"""Bytes that no cell's outputs come to."""
_SMALL_BYTES: Final = 16 * 1024
"""Bytes of outputs that a cell may show even if there is no room."""


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


def within(outputs: list[Output], quota: Quota) -> list[Output]:
    """The outputs that may be kept, each other one as a line that says so; a few small ones always are.

    What is kept is written twice: into the log and into the notebook.
    """
    if quota.left > _PLENTY_BYTES:
        return outputs
    kept: list[Output] = []
    room, small = quota.left // 2, _SMALL_BYTES
    for output in outputs:
        size = len(msgspec.json.encode(output))
        if size <= room:
            room -= size
        elif size <= small:
            small -= size
        else:
            quota.refused += size
            output = _left_out(output, size)
        kept.append(output)
    return kept


def _left_out(output: Output, size: int) -> Output:
    """What stands for an output; a display stays one, since updates of it may come."""
    text = marker(f"{size:,} bytes of output")
    if "data" in output:
        return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
    return {"output_type": "stream", "name": "stderr", "text": f"{text}\n"}
