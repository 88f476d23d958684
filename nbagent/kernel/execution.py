"""A cell that is to be run, and one request to run its code, with what has come back so far. Pure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from nbagent.core.errors import UsageError
from nbagent.core.events import CellStatus, Package
from nbagent.kernel.outputs.outputs import CellOutputs
from nbagent.kernel.outputs.streams import clean_text
from nbagent.packages.import_names import missing_module

StopReason = Literal["timeout", "interrupted"]
"""Why a cell was stopped."""


@dataclass(kw_only=True)
class CellJob:
    """A cell that is to be run, with one request, or one more after each install.

    Attributes:
        timeout: Seconds that each request may take.
        metadata: Sent along with each request, for nbagent's own code in the kernel.
        counted: Whether IPython's history has it.
        started: When it began, on the monotonic clock.
        stop: Why it is to be stopped; None as long as nobody wants that.
        state_lost: A sentence on why it found a new kernel; empty if it did not.
        installed: Packages that were installed for it.
        report: What nbagent's own code in the kernel said with the last reply; untrusted, empty if nothing.
        shown: The outputs of statements that don't run again after an install; None where all of it runs.
    """

    cell: int
    turn: int
    code: str
    timeout: float
    metadata: dict[str, Any] = field(default_factory=dict)
    counted: bool = True
    started: float = field(default_factory=time.monotonic)
    stop: StopReason | None = None
    state_lost: str = ""
    installed: list[Package] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: str = ""
    shown: CellOutputs | None = None


@dataclass
class ExecuteRequest:
    """One execute request, which has ended when both its reply and the status `idle` have come.

    Attributes:
        cell: The number of the cell that it runs.
        started: When it was sent, on the monotonic clock.
        idle: Whether the kernel said that it is idle again.
        half_done_at: When only one of reply and `idle` had come, on the monotonic clock.
        died: What the kernel did, as a clause, if it ended: "ran out of memory".
        stopped: Why it was interrupted; None if it was not.
        kill_at: When the kernel is killed unless the code ends, on the monotonic clock.
        exit_code: The kernel's exit code, if it ended.
        memory_peak: The most bytes that its sandbox has used at once.
        state_lost: A sentence on why its kernel is gone; empty if it lives.
        notes: Sentences for the cell's note.
        begun_at: When the kernel said that it runs the code, on the monotonic clock.
        interrupts: When it was interrupted, each time, on the monotonic clock.
        gave_in: Whether its code has shown an error since it was interrupted, so that it has probably ended.
        left: A clause on how the code goes on, or waits, in a kernel that others use, too; empty if it doesn't.
    """

    msg_id: str
    outputs: CellOutputs
    cell: int
    started: float
    reply: dict[str, Any] | None = None
    idle: bool = False
    half_done_at: float | None = None
    died: str = ""
    stopped: StopReason | None = None
    kill_at: float | None = None
    exit_code: int | None = None
    memory_peak: int | None = None
    state_lost: str = ""
    notes: list[str] = field(default_factory=list)
    begun_at: float | None = None
    interrupts: list[float] = field(default_factory=list)
    gave_in: bool = False
    left: str = ""

    @property
    def begun(self) -> bool:
        """Whether the kernel has said that it runs the code."""
        return self.begun_at is not None

    @property
    def done(self) -> bool:
        """Whether nothing more is to come."""
        return (self.reply is not None and self.idle) or bool(self.died or self.left)

    @property
    def status(self) -> CellStatus:
        """How the cell ended, as far as it has."""
        if self.stopped and (self.died or (self.reply or {}).get("status") != "ok"):
            return self.stopped
        if self.died:
            return "died"
        return "ok" if (self.reply or {}).get("status") == "ok" else "error"

    @property
    def was_dropped(self) -> bool:
        """Whether the kernel dropped it unseen, since it waited behind another client's cell that failed."""
        return not self.begun and not self.stopped and (self.reply or {}).get("status") == "aborted"

    @property
    def execution_count(self) -> int | None:
        """The kernel's own count, if it is a natural number that a notebook takes; the kernel may claim anything."""
        count = (self.reply or {}).get("execution_count")
        return count if type(count) is int and 0 <= count < 2**31 else None

    @property
    def report(self) -> str:
        """What nbagent's own code in the kernel said with the reply; empty if that kernel is gone."""
        return "" if self.died or self.state_lost else (self.reply or {}).get("report", "")

    def missing_module(self, code: str) -> str | None:
        """The module that was missing (see `packages.import_names.missing_module`)."""
        reply = self.reply or {}
        if self.died or self.stopped or reply.get("status") != "error":
            return None
        return missing_module(str(reply.get("ename")), str(reply.get("evalue", "")), code)


def clean_code(code: str) -> str:
    """The code without surrogates, which a message can't hold."""
    if "\0" in code:
        raise UsageError("The code has NUL characters.", mend="Is it a binary file?")
    return clean_text(code)
