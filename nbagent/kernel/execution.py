"""A cell that is to be run, and one request to run it: what came back of that so far, and what it means. Pure."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from nbagent.core.errors import UsageError
from nbagent.core.events import CellStatus, Package
from nbagent.kernel.outputs.outputs import CellOutputs
from nbagent.kernel.outputs.streams import clean_text

_MISSING = re.compile(r"No module named '?([\w.]+)'?")

Why = Literal["timeout", "interrupted"]
"""Why a cell was stopped."""


@dataclass(kw_only=True)
class Job:
    """A cell that somebody wants run: by one request, or by another one after each install.

    Attributes:
        cell: Its number.
        turn: The question that it is for.
        code: What is to run.
        limit: Seconds that one request may take.
        metadata: What goes along with each request, for nbagent's own code in the kernel.
        started: When it began, on the monotonic clock.
        stop: Why it is to end, once somebody wants that.
        state_lost: Why it found a new kernel, a sentence, if it did.
        installed: What was installed for it.
        notes: What must be told of it beside the outputs.
        report: What nbagent's own code in the kernel said with the last reply; untrusted, empty if nothing.
    """

    cell: int
    turn: int
    code: str
    limit: float
    metadata: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    stop: Why | None = None
    state_lost: str = ""
    installed: list[Package] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: str = ""


@dataclass
class Execution:
    """One execute request, until both its reply and idle have come.

    Attributes:
        msg_id: The request's.
        outputs: What was shown so far.
        cell: The number of the cell that it runs.
        started: When it was sent, on the monotonic clock.
        reply: The reply's content.
        idle: Whether the kernel said that it is idle again.
        half_done_at: When one of the two had come and the other had not.
        died: What became of the kernel, if it ended: what it did.
        stopped: Why it was interrupted.
        kill_at: When the kernel is killed if it goes on.
        exit_code: The kernel's, if it ended.
        memory_peak: Bytes that its sandbox has used at once.
        state_lost: Why the kernel that ran it is no more, a sentence.
        notes: What must be told of it beside the outputs.
    """

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
    state_lost: str = ""
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

    @property
    def execution_count(self) -> int | None:
        """The kernel's own count: it may claim anything, and a notebook takes a small natural number."""
        count = (self.reply or {}).get("execution_count")
        return count if type(count) is int and 0 <= count < 2**31 else None

    @property
    def report(self) -> str:
        """What nbagent's own code in the kernel said with the reply; nothing if that kernel is no more."""
        return "" if self.died or self.state_lost else (self.reply or {}).get("report", "")

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
