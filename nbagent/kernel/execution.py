"""One request to run code, as it looks from outside: what came back of it so far, and what that means. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from nbagent.errors import UsageError
from nbagent.events import CellStatus
from nbagent.kernel.outputs import CellOutputs
from nbagent.kernel.streams import clean_text

_MISSING = re.compile(r"No module named '?([\w.]+)'?")

Why = Literal["timeout", "interrupted"]
"""Why a cell was stopped."""


@dataclass
class Execution:
    """One execute request, until both its reply and idle have come."""

    msg_id: str
    outputs: CellOutputs
    cell: int
    started: float
    reply: dict[str, Any] | None = None
    idle: bool = False
    half_done_at: float | None = None
    died: str = ""
    stopped: Why | None = None
    kill_at: float | None = None
    exit_code: int | None = None
    memory_peak: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether nothing more is to come."""
        return (self.reply is not None and self.idle) or bool(self.died)

    @property
    def status(self) -> CellStatus:
        """How the cell ended, as far as it has."""
        if self.stopped and (self.died or (self.reply or {}).get("status") != "ok"):
            return self.stopped
        if self.died:
            return "died"
        return "ok" if (self.reply or {}).get("status") == "ok" else "error"

    def missing_module(self, code: str) -> str | None:
        """The module that was missing, with its full dotted name where the code imports it by that.

        Python names only the part that it missed first: `google` for `google.cloud.storage`.
        """
        reply = self.reply or {}
        if self.died or self.stopped or reply.get("status") != "error" or reply.get("ename") != "ModuleNotFoundError":
            return None
        found = _MISSING.search(str(reply.get("evalue", "")))
        if found is None:
            return None
        dotted = re.search(rf"(?m)^\s*(?:from|import)\s+({re.escape(found[1])}\.[\w.]+)", code)
        return dotted[1].rstrip(".") if dotted else found[1]


def clean_code(code: str) -> str:
    """Code as a kernel can take it.

    Raises:
        UsageError: It has NUL characters, which Python doesn't take.
    """
    if "\0" in code:
        raise UsageError("The code has NUL characters.", mend="Is it a binary file?")
    return clean_text(code)
