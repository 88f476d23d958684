"""Whether a session's data is still what its code read, and if not, which cells ran before it changed and after."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from nbagent.core.events import Cell, DataSeen
from nbagent.notebook.record import Recording
from nbagent.sandbox.data import needs
from nbagent.sandbox.paths import DATA
from nbagent.sandbox.spec import size_of


class Read(NamedTuple):
    """What a session's code read of one file or folder.

    Attributes:
        size: Bytes.
        sha256: As `needs.digest` has it; empty if nobody knows.
        told: How the file changed since it was given, in a sentence; empty if it didn't.
        is_mixed: Whether cells that name it ran before the change and after, so that no data gives what they show.
    """

    size: int
    sha256: str
    told: str = ""
    is_mixed: bool = False


def read_by(recording: Recording, seen: DataSeen) -> Read:
    """What the cells of a session have read of its data."""
    source = Path(seen.source)
    now, given = needs.digest(source), recording.hashes.get(seen.path, "")
    same = now == given if given else not seen.state or needs.state(source) == seen.state
    if same:
        return Read(seen.size, now)
    name = seen.path.rpartition("/")[2]
    if not source.exists():
        return Read(seen.size, given, f"{name} is no longer where it was.")
    at = needs.changed_at(source)
    begun = recording.began
    since = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" if at > begun else "an unknown time"
    before = [each.cell for each in recording.cells if at <= begun or recording.origins[each.cell].at < at]
    after = [each.cell for each in recording.cells if at <= begun or each.cell not in before]
    told = f"{name} was changed at {since}: {_cells(before)} ran before, {_cells(after)} after."
    named = {each.cell for each in recording.cells if _names(each, seen)} or {*before, *after}
    if at > begun and named.isdisjoint(before):
        return Read(size_of(source), now, told if before else "")
    return Read(seen.size, given, told, is_mixed=not named.isdisjoint(before) and not named.isdisjoint(after))


def _names(cell: Cell, seen: DataSeen) -> bool:
    name = seen.path.rpartition("/")[2]
    return name in cell.code or DATA in cell.code.replace(f"{DATA}/", "")


def _cells(numbers: list[int]) -> str:
    if len(numbers) < 2:
        return f"cell {numbers[0]}" if numbers else "no cell"
    if numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return f"cells {numbers[0]} to {numbers[-1]}"
    return f"cells {', '.join(map(str, numbers))}"
