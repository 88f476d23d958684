"""Runs a script's or a notebook's cells, one after the other, in any session.

    run = Run(read(Path("report.ipynb")))
    await run.on(session)

A cell with the tag `raises-exception` may fail, as in nbclient and Jupyter Book, and one with `skip-execution` does not
run. A cell that may fail may also take too long, if its kernel survives the interrupt, as with nbclient's
`interrupt_on_timeout`.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from nbagent.core.errors import UsageError
from nbagent.core.events import Cell, CellStatus
from nbagent.notebook import place
from nbagent.sandbox.data.locate import locate
from nbagent.sandbox.inside.message_sizes_inside import weight
from nbagent.sandbox.paths import WORKSPACE

MAX_SOURCE: Final = 20 * 1024 * 1024
"""Bytes of a script or notebook."""


_ASKS = re.compile(r"\b__file__\b|\bsys\s*\.\s*argv\b|\bargparse\b|\bimport\s+argv\b")
"""What in a script asks where it lies or how it was called."""
_WHO_AM_I = """\
__file__ = {path!r}
__import__("sys").argv = [__file__]"""


class Source(NamedTuple):
    """A cell to run.

    Attributes:
        code: What runs.
        may_fail: Whether the next one runs even if this one ends with an error, or is interrupted after its time.
        may_exit: Whether it is a program, which ends with the exit code that it gives `sys.exit`.
        skipped: Its name, if a tag keeps it from running.
    """

    code: str
    may_fail: bool = False
    may_exit: bool = False
    skipped: str = ""


class RunsCells(Protocol):
    """A session that runs cells, whichever process owns it."""

    async def run(self, code: str) -> Cell:
        """Run a cell without the model."""


class Run:
    """Cells that run until one fails that may not.

    Attributes:
        cells: Those that have run, in order.
        skipped: The names of those that a tag keeps from running.
        status: `ok`, or how the cell ended that ended all; `interrupted` too if the whole was stopped.
        exit_code: What a script has given `sys.exit`; None if it did not call that.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._given = list(sources)
        self._sources = [each for each in self._given if not each.skipped]
        self.skipped = [each.skipped for each in self._given if each.skipped]
        self.cells: list[Cell] = []
        self.status: CellStatus = "ok"
        self.exit_code: int | None = None

    @property
    def unrun(self) -> list[tuple[int, str]]:
        """The code that a tag kept from running, each with the number of the last cell that ran before it, or 0."""
        found, ran = [], 0
        for source in self._given:
            if not source.skipped:
                ran += 1
            elif ran <= len(self.cells):
                found.append((self.cells[ran - 1].cell if ran else 0, source.code))
        return found

    async def on(self, session: RunsCells) -> None:
        """Run them.

        Raises:
            UsageError: A cell can't be run at all.
            SandboxError: The sandbox failed.
        """
        for source in self._sources:
            try:
                cell = await session.run(source.code)
            except asyncio.CancelledError:
                self.status = "interrupted"
                raise
            self.cells.append(cell)
            failed = cell.status in ("error", "timeout") and not cell.state_lost
            self.status = "ok" if source.may_fail and failed else cell.status
            if source.may_exit and (code := exit_code(cell)) is not None:
                self.exit_code, self.status = code, "error" if code else "ok"
            if self.status != "ok":
                return


def exit_code(cell: Cell) -> int | None:
    """The exit code with which a cell ended as a program does, by `sys.exit` or `exit`; None if it did not."""
    error = next((each for each in reversed(cell.outputs) if each["output_type"] == "error"), None)
    if error is None or error["ename"] != "SystemExit":
        return None
    said = str(error["evalue"])
    if said in ("", "None", "False"):
        return 0
    # What is no number is printed, and means that the program failed.
    return int(said) & 0xFF if re.fullmatch(r"-?\d{1,9}", said) else 1


def read(path: Path) -> list[Source]:
    """The cells of a script, or of a notebook if its name ends so.

    Raises:
        UsageError: It can't be read as what it should be.
    """
    try:
        # A pipe that a shell made for `<(…)` has a writer; any other would keep us waiting for one.
        if path.is_fifo() and path.parent != Path("/dev/fd"):
            raise OSError(errno.EINVAL, "it is a pipe")
        with path.open("rb") as file:
            raw = file.read(MAX_SOURCE + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), getattr(error, "strerror", None)) from error
    return parse(raw, name=str(path))


def parse(raw: bytes, *, name: str) -> list[Source]:
    """The cells of a script, or of a notebook if its name ends so.

    Args:
        raw: Up to one byte more than `MAX_SOURCE`, by which it is known to be too long.
        name: What it is called.

    Raises:
        UsageError: It is not what it should be.
    """
    if len(raw) > MAX_SOURCE:
        raise UsageError(f"{name} has more than {MAX_SOURCE // 1024 // 1024} MB.", mend="Give large data with --data.")
    try:
        text = raw.decode("utf-8-sig")
    except ValueError as error:
        raise _unreadable(name, None) from error
    if not name.endswith(".ipynb"):
        told = (
            [Source(_WHO_AM_I.format(path=f"{WORKSPACE}/{Path(name).name}"))]
            if _ASKS.search(text) and Path(name).suffix
            else []
        )
        return [*told, Source(text, may_exit=True)]
    if weight(raw) > place.MAX_SIZE:
        raise UsageError(f"{name} is too large for a notebook.")
    from nbagent.notebook import document  # takes longer than the rest of what runs a piece of code

    found = document.parse(text, name=name)
    found.check_python()
    with_code = sorted((*found.cells, *found.skipped), key=lambda cell: cell.number)
    return [
        Source(cell.code, skipped=cell.name)
        if document.SKIPPED in cell.tags
        else Source(cell.code, document.MAY_FAIL in cell.tags or found.allows_errors)
        for cell in with_code
        if cell.code.strip()
    ]


def _unreadable(name: str, reason: str | None) -> UsageError:
    return UsageError(
        f"{name[:200]!r} can't be read: {reason or 'it is not UTF-8 text'}.",
        mend="Name a script or a notebook, or give code with -c CODE.",
    )


def with_needed(
    data: list[str], notebook: Path, *, root: Path
) -> tuple[list[str] | Mapping[str, str], list[str], list[str]]:
    """What a person gives, and what else of its data a notebook of nbagent's needs to run again.

    Args:
        data: The paths of files and folders that the person gives, which come before what is found.
        notebook: Where it lies.
        root: The person's state, which remembers what was exported where.

    Returns:
        The data for a session; names of what is there but isn't what it was when the notebook was made; names of what
        isn't there.
    """
    found = locate(notebook.absolute(), root)
    named = {Path(each).expanduser().resolve().name: each for each in data}
    changed = [name for name in found.changed if name not in named]
    missing = [name for name in found.missing if name not in named]
    if len(named) < len(data):
        return data, changed, missing  # two of the same name, which is told where data is looked at
    places = {path.rpartition("/")[2]: str(place) for path, place in found.places.items()}
    return places | named, changed, missing
