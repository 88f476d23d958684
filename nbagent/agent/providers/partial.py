"""Keeps LangChain from reading a piece of a call's arguments for minutes.

Of each piece of a streamed call LangChain tries to make whole JSON, by taking one character after the other from its
end: 200 KB of code in three pieces hold the process up for two minutes. What comes of it is never used, since the
pieces are joined before a call runs. So for requests of nbagent's own, a long piece that isn't JSON is left alone.
"""

from __future__ import annotations

import json
from typing import Any, Final

from langchain_core.messages import ai

from nbagent.agent.providers.watch import current

LONG: Final = 2_000
"""Characters of a piece that is not worth the attempt."""


def install() -> None:
    """Put it in place, once in a process; a LangChain that has changed here is left as it is."""
    original: Any = getattr(ai, "parse_partial_json", None)
    if original is None or getattr(original, "__module__", "") == __name__:
        return

    def parse_partial_json(s: str, *, strict: bool = False) -> Any:
        """LangChain's own for short pieces, and for whoever else in this process uses it."""
        if len(s) <= LONG or current() is None:
            return original(s, strict=strict)
        return json.loads(s, strict=strict)

    ai.parse_partial_json = parse_partial_json  # type: ignore[attr-defined]
