"""What a verification found: of each cell, and of the whole notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nbagent.notebook.compare.texts import Difference
from nbagent.notebook.document import name_of

Result = Literal["same", "differs", "not run"]


@dataclass(kw_only=True)
class CellProof:
    """What became of one cell.

    Attributes:
        id: Its name in the notebook.
        number: Its place among the code cells, from 1.
        result: Whether it shows the same.
        differences: What differs.
        note: What else must be known, such as that it was edited.
        excused: What differs and is no change: `date`, `timing`, `id`, `traceback`.
        pictures: PNG files that show what differs in its figures.
        seconds: How long it took.
        depends: What of a machine it depends on, as a sweep found.
    """

    id: str
    number: int
    result: Result = "same"
    differences: list[Difference] = field(default_factory=list)
    note: str = ""
    excused: list[str] = field(default_factory=list)
    pictures: list[bytes] = field(default_factory=list)
    seconds: float = 0.0
    depends: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What a person calls it."""
        return name_of(self.id, self.number)


@dataclass(kw_only=True)
class Proof:
    """What became of a notebook.

    Attributes:
        name: What it is called.
        result: `same`; `differs`, if anything in it does; `not run`, if it could not be run.
        problems: What differs beside the outputs: its lock, its data.
        notes: What is different here from where it was made.
        cells: Its code cells.
        error: Why it could not be run.
        engine: What isolated it.
        started: When, in seconds since the epoch.
        seconds: How long the verification took, and of these the cells.
        runs: How often its cells ran.
    """

    name: str
    result: Result = "same"
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cells: list[CellProof] = field(default_factory=list)
    error: str = ""
    engine: str = ""
    started: float = 0.0
    seconds: float = 0.0
    cell_seconds: float = 0.0
    runs: int = 0

    @property
    def exit_code(self) -> int:
        """0 for the same, 1 if it differs, 2 if it could not be run."""
        return {"same": 0, "differs": 1, "not run": 2}[self.result]
