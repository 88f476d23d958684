"""The outputs of a cell that the session's quota has room for. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from nbagent.core.events import Output
from nbagent.core.quota import Quota
from nbagent.kernel.outputs.mime import MIB
from nbagent.sandbox.inside.message_sizes_inside import marker

_PLENTY_BYTES: Final = 512 * MIB
"""Bytes that no cell's outputs come to."""
_SMALL_BYTES: Final = 16 * 1024
"""Bytes of outputs that a cell may show even if there is no room."""


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
