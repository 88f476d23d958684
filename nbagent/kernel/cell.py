"""A finished cell, and the small form of it that codebox clients know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from nbagent.events import CellStatus, FileSeen, Output, Package


@dataclass(frozen=True, slots=True)
class CodeBoxOutput:
    """A cell's result in three kinds: the first error, else the first picture, else the text.

    Attributes:
        type: What `content` is.
        content: The text, the picture's PNG in base64, or the error with its traceback.
    """

    type: Literal["text", "image/png", "error"]
    content: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell that has run.

    Attributes:
        cell: Its number within the session, from 1.
        code: What ran.
        status: How it ended.
        outputs: nbformat 4 outputs.
        execution_count: The kernel's own count, None if it never got to it.
        duration: Seconds, installs and the run after them included.
        note: What must be told beside the outputs.
        installed: What was installed so that it could run.
        state_lost: Why the kernel was replaced, a sentence; empty if it was not.
        restored: What of its state was brought back by running cells again, in sentences.
        files: Names of the files that were collected from /tmp/output after it.
        total_files: Files that there are in /tmp/output in all.
        changed: Files elsewhere that it made or changed, as many as are named.
    """

    cell: int
    code: str
    status: CellStatus
    outputs: list[Output]
    execution_count: int | None = None
    duration: float = 0.0
    note: str = ""
    installed: list[Package] = field(default_factory=list)
    state_lost: str = ""
    restored: str = ""
    files: list[str] = field(default_factory=list)
    total_files: int = 0
    changed: list[FileSeen] = field(default_factory=list)

    @property
    def success(self) -> bool:
        """Whether it ran to its end without an error."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """What it printed and its result as text, without pictures and errors."""
        return text_of(self.outputs)

    def to_codebox(self) -> CodeBoxOutput:
        """The cell in its small form."""
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
