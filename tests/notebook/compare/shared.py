"""What the tests of this folder share: outputs of a cell, the moments of two runs, and what comes of two texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import Context, Strictness

NOW = datetime(2026, 11, 23, 14, 3, 22, tzinfo=UTC).timestamp()
THEN = NOW - 40 * 86_400.0
MOMENTS = Moments(stored=THEN, fresh=NOW, elapsed=3.0)
TIMED = "t = time.perf_counter()\nprint(time.perf_counter() - t)"
"""Code that shows how long something took."""


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """Printed text."""
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: Any) -> dict[str, Any]:
    """A cell's value, by MIME type with `_` for `/`."""
    bundle = {name.replace("_", "/", 1): value for name, value in data.items()}
    return {"output_type": "execute_result", "data": bundle, "metadata": {}, "execution_count": 1}


def compared(
    stored: str, fresh: str, again: str | None = None, *, code: str = "", masks: Any = (), moments: Moments = MOMENTS
) -> Comparison:
    """What comes of two printed texts."""
    context = Context(moments=moments, reads=Code().take(code), strictness=Strictness(masks=masks))
    return compare([stream(stored)], [stream(fresh)], context, again=() if again is None else [[stream(again)]])
