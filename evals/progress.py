"""How far a run is: a bar on a terminal, else a line a task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from evals.results import Result


@contextlib.contextmanager
def shown(console: Console, *, total: int, before: int, correct: int) -> Iterator[Callable[[Result], None]]:
    """Show how far a run is; yields what is to be called with each result.

    Args:
        console: Where it is shown.
        total: Tasks in all.
        before: Tasks that were done before this run.
        correct: How many of these were right.
    """
    finished, good = before, correct
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal
    )
    row = bar.add_task(f"{good} right", total=total, completed=before)

    def tell(result: Result) -> None:
        nonlocal finished, good
        finished, good = finished + 1, good + result.correct
        bar.update(row, completed=finished, description=f"{good} right")
        if result.error:
            console.print(f"task {result.task_id}: {escape(result.error)}", highlight=False)
        if not console.is_terminal:
            verdict = "right" if result.correct else "wrong"
            console.print(
                f"{finished} of {total}: task {result.task_id} {verdict}, {result.cells} cells, {result.wall_s:.1f} s",
                highlight=False,
            )

    with bar:
        yield tell
