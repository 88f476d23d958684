"""The value `Cell`, and the events while a cell runs and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from nbagent.core.events.base import Fact, Output
from nbagent.core.events.files import FileSeen
from nbagent.core.events.packages import Package

CellStatus = Literal["running", "ok", "error", "timeout", "interrupted", "died"]
"""How a cell ended: with `timeout` and `interrupted` it was stopped, with `died` its kernel died."""


class CodeBoxOutput(msgspec.Struct, frozen=True):
    """A cell's result in three kinds: the first error, else the first picture, else the text.

    Attributes:
        type: What `content` is.
        content: The text, the picture's PNG in base64, or the error with its traceback.
    """

    type: Literal["text", "image/png", "error"]
    content: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, as the kernel, the log, the notebook and every face know it.

    Attributes:
        cell: Its number within the session, from 1.
        turn: The number of the question that it ran for; 0 for a cell that a person ran.
        code: Its code.
        status: How it ended.
        outputs: nbformat 4 outputs; where they were cut, they say so. Final once the cell has ended.
        execution_count: The kernel's own count; None if the kernel never ran it.
        duration: Seconds on a monotonic clock, installs and the run after them included.
        note: What a reader must know beside the outputs: why it was stopped, what was cut.
        installed: Packages that were installed so that it could run.
        state_lost: Why the kernel was replaced, a sentence; empty if it was not.
        restored: Which state was restored by running cells again, in sentences.
        files: Names of the files that were collected from /tmp/output after it.
        total_files: The number of files in /tmp/output.
        changed: Other files that it made or changed; a long list is cut.
        display_ids: For each output its display id or an empty string; an empty list if none has one.
        memory_peak: Bytes that the sandbox has used at most since it was started; None if the engine can't tell.
        memory_limit: Bytes that it may use.
        exit_code: The kernel's exit code, if it ended with the cell; negative for a signal.
    """

    cell: int
    turn: int = 0
    code: str = ""
    status: CellStatus
    outputs: list[Output] = []
    execution_count: int | None = None
    duration: float = 0.0
    note: str = ""
    installed: list[Package] = []
    state_lost: str = ""
    restored: str = ""
    files: list[str] = []
    total_files: int = 0
    changed: list[FileSeen] = []
    display_ids: list[str] = []
    memory_peak: int | None = None
    memory_limit: int | None = None
    exit_code: int | None = None

    @property
    def success(self) -> bool:
        """Whether it ran to its end without an error."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """Its printed text and its result as text, without pictures and errors."""
        return text_of(self.outputs)

    def to_codebox(self) -> CodeBoxOutput:
        """The cell as a `CodeBoxOutput`."""
        for output in self.outputs:
            if output["output_type"] == "error":
                trace = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
                return CodeBoxOutput("error", trace)
        for output in self.outputs:
            png = output.get("data", {}).get("image/png")
            if isinstance(png, str):
                return CodeBoxOutput("image/png", png)
        return CodeBoxOutput("text", self.text)


def text_of(outputs: Sequence[Output]) -> str:
    """Streams and text/plain of outputs, one after the other."""
    parts = []
    for output in outputs:
        text = output.get("text") if output["output_type"] == "stream" else output.get("data", {}).get("text/plain")
        if text is not None:
            parts.append(text if isinstance(text, str) else "".join(text))
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts).rstrip("\n")


class CellStarted(Fact, frozen=True, kw_only=True):
    """A cell began to run; `cell` counts from 1 within the session, `turn` is 0 for a cell a person ran."""

    cell: int
    turn: int
    code: str
    tool: str = ""
    """The model's tool, such as `python`; `person` for a cell without a model; empty in an old log."""
    approver: str = ""
    """Who approved it: `person`, or `policy:NAME`."""


class CommandRun(Fact, frozen=True, kw_only=True):
    """A program was executed inside. `cell` is 0 between two cells, and `pid` is as the sandbox sees it."""

    cell: int
    argv: list[str]
    pid: int


class OutputAdded(Fact, frozen=True, kw_only=True):
    """An output, as it arrived. Of a stream it has the new text only; `CellFinished` has the whole."""

    cell: int
    output: Output


class OutputUpdated(Fact, frozen=True, kw_only=True):
    """Every display with this `display_id`, in any cell, now shows this data.

    The message claims to belong to `cell`, which code can forge; `during` is what the controller saw.
    """

    cell: int
    display_id: str
    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    during: int | None = None
    """The cell that ran when it came, 0 for none; None in an old log."""
    changed: list[int] = []
    """The ended cells whose outputs it changed."""


class OutputsCleared(Fact, frozen=True, kw_only=True):
    """`clear_output()` took effect: what the cell showed so far is gone."""

    cell: int


class CellFinished(Cell, Fact, frozen=True, kw_only=True, omit_defaults=True):
    """A cell ended. Later events have the files that were collected after it."""


class LateOutput(Fact, frozen=True, kw_only=True):
    """Output that arrived after its cell had ended. It claims to belong to `cell`."""

    cell: int
    output: Output
    during: int | None = None
    """The cell that ran when it came, 0 for none; None in an old log."""


class StateLost(Fact, frozen=True, kw_only=True):
    """The kernel was replaced: variables and imports are gone; files under /workspace and /tmp too."""

    cell: int
    reason: str
    kept: tuple[str, ...] = ("outputs", "packages", "data")
    """What is kept: the notebook's cells with their outputs, installed packages, and mounted data."""


class StateRestored(Fact, frozen=True, kw_only=True):
    """After a loss, cells that had succeeded were run again in the new kernel, without showing their outputs again."""

    cell: int
    cells: list[int]
    """The cells that succeeded again, in order."""
    failed: int = 0
    """The cell that failed, which ended it; 0 if none did."""
    skipped: list[int] = []
    """The cells after the failed one, which were not run."""
    reason: str = ""
    """Why it failed."""
    seconds: float = 0.0
    told: str = ""
    """All of this in sentences."""


class WidgetState(Fact, frozen=True, kw_only=True):
    """The state of all live ipywidgets models, in the form that a notebook's metadata takes."""

    state: dict[str, Any]
