"""The value `Cell`, and the events of cells and their outputs.

The kernel emits them, unless an event's own docstring names somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from nbagent.core.events import display
from nbagent.core.events.base import Fact, Output
from nbagent.core.events.files import FileSeen
from nbagent.core.events.packages import Package

CellStatus = Literal["running", "ok", "error", "timeout", "interrupted", "died"]
"""How a cell ended: with `timeout` and `interrupted` it was stopped, with `died` its kernel died."""


class CodeBoxOutput(msgspec.Struct, frozen=True):
    """A cell's result in three kinds: the first error, else the first figure, else the text.

    Attributes:
        type: What `content` is.
        content: The text, the figure's PNG in base64, or the error with its traceback.
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
        note: Sentences for a reader beside the outputs: why the cell was stopped, what was cut.
        installed: Packages that were installed so that it could run.
        state_lost: A sentence why the kernel was replaced; empty if it was not.
        restored: Sentences on the state that was restored by running cells again.
        files: Names of the files that were collected from /tmp/output after it.
        total_files: The number of files in /tmp/output.
        changed: Other files that it made or changed; a long list is cut.
        display_ids: For each output its display id or an empty string; an empty list if no output has an id.
        memory_peak: The most bytes that the sandbox has used since its start; None if the engine can't tell.
        memory_limit: Bytes that the sandbox may use.
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
        """Its printed text and its result as text, without figures and errors."""
        return text_of(self.outputs)

    def __repr__(self) -> str:
        shown = f", {display.brief(self.text)}" if self.text else ""
        return f"Cell({self.cell}, {self.status}, {display.brief(self.code)}{shown})"

    def _ipython_display_(self) -> None:
        display.publish(self._bundles())

    def _bundles(self) -> Iterator[dict[str, str]]:
        """The MIME bundles that show the cell in a notebook: its code, folded, and its outputs."""
        yield display.folded(f"cell {self.cell}: {self.status}, {self.duration:.1f} s", self.code)
        yield from display.outputs_of(self.outputs)

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


class CellWaits(Fact, frozen=True, kw_only=True):
    """A cell waits until another client's cell in the same kernel has ended; that doesn't count against its time."""

    cell: int


class CellStarted(Fact, frozen=True, kw_only=True):
    """A cell is about to run: emitted before its code is sent to the kernel."""

    cell: int
    """Its number within the session, from 1."""
    turn: int
    """The number of the question that it runs for; 0 for a cell that a person runs."""
    code: str
    tool: str = ""
    """The model's tool, such as `python`; `person` for a cell without a model; empty in an old log."""
    approver: str = ""
    """Who approved it: `person`, or `policy:NAME`."""


class CommandRun(Fact, frozen=True, kw_only=True):
    """A program was executed in the sandbox, as process 1 of the sandbox saw."""

    cell: int
    """The cell that ran; 0 between two cells."""
    argv: list[str]
    pid: int
    """The process id inside of the sandbox."""


class OutputAdded(Fact, frozen=True, kw_only=True):
    """An output of the running cell arrived. For a stream it has the new text only; `CellFinished` has all outputs."""

    cell: int
    output: Output


class OutputUpdated(Fact, frozen=True, kw_only=True):
    """Code replaced the data of a display, in every cell that shows it.

    The message claims to belong to `cell`, which code can forge; `during` is what nbagent saw.
    """

    cell: int
    display_id: str
    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    during: int | None = None
    """The cell that ran when the message came, 0 for none; None in an old log."""
    changed: list[int] = []
    """The ended cells whose outputs it changed."""


class OutputsCleared(Fact, frozen=True, kw_only=True):
    """`clear_output()` took effect: the outputs that the cell showed so far are gone."""

    cell: int


class CellFinished(Cell, Fact, frozen=True, kw_only=True, omit_defaults=True):
    """A cell ended. The events of files that are collected after it follow."""


class LateOutputAdded(Fact, frozen=True, kw_only=True):
    """Output arrived for a cell that had ended. It claims to belong to `cell`, which code can forge."""

    cell: int
    output: Output
    during: int | None = None
    """The cell that ran when the output came, 0 for none; None in an old log."""


class StateLost(Fact, frozen=True, kw_only=True):
    """The kernel was replaced: its variables, imports and files under /workspace and /tmp are gone.

    The session emits it, too, if it is resumed with a new kernel.
    """

    cell: int
    reason: str
    kept: tuple[str, ...] = ("outputs", "packages", "data")
    """What is left: the notebook's cells with their outputs, installed packages, and mounted data."""


class StateRestored(Fact, frozen=True, kw_only=True):
    """After a loss, cells that had succeeded were run again in the new kernel; their outputs aren't shown again."""

    cell: int
    cells: list[int]
    """The cells that succeeded again, in order."""
    failed: int = 0
    """The cell that failed, at which the replay stopped; 0 if none did."""
    skipped: list[int] = []
    """The cells after the failed one, which were not run."""
    reason: str = ""
    """Why it failed."""
    seconds: float = 0.0
    text: str = ""
    """All of this in sentences."""


class WidgetsChanged(Fact, frozen=True, kw_only=True):
    """Widgets changed while a cell ran: emitted by the session after the cell."""

    state: dict[str, Any]
    """The state of all live ipywidgets models, in the form that a notebook's metadata takes."""
