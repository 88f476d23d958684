"""What a run has come to, in numbers and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from evals.results import Result
from evals.scoring import alike, score
from evals.tasks import Task, TaskId

Pairs = Sequence[tuple[Task, Result]]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How good the answers of some tasks are, each from 0 to 1.

    Attributes:
        tasks: How many there are.
        questions: Share of the tasks all of whose fields are right.
        fields: Share of all fields that are right.
        shares: Mean over the tasks of the share of their fields that are right.
        meaning: As `questions`, if spelling did not matter.
    """

    tasks: int
    questions: float
    fields: float
    shares: float
    meaning: float


def scores(pairs: Pairs) -> Scores:
    """The scores of tasks, of which there is at least one."""
    fields = [list(result.right.values()) for _, result in pairs]
    return Scores(
        tasks=len(pairs),
        questions=fmean(result.correct for _, result in pairs),
        fields=fmean(right for each in fields for right in each),
        shares=fmean(fmean(each) for each in fields),
        meaning=fmean(_is_meant(task, result) for task, result in pairs),
    )


def _is_meant(task: Task, result: Result) -> bool:
    has_fields = task.grade == score
    return all(score(result.answer, task.expected, same=alike).values()) if has_fields else result.correct


def used(results: Iterable[Result]) -> dict[str, float]:
    """What the model used in all: tokens, calls, and whatever else the answers count, such as what they cost."""
    total: dict[str, float] = {}
    for result in results:
        for name, value in result.usage.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total


def done(tasks: Sequence[Task], results: Mapping[TaskId, Result]) -> list[tuple[Task, Result]]:
    """The tasks that have a result."""
    return [(task, results[task.id]) for task in tasks if task.id in results]


def show(tasks: Sequence[Task], results: Mapping[TaskId, Result], *, console: Console) -> None:
    """Print the scores, by level and by concept too, and what they took."""
    pairs = done(tasks, results)
    if not pairs:
        console.print("No task is done.")
        return
    console.print(_scores(pairs))
    console.print(_effort([result for _, result in pairs], waiting=len(tasks) - len(pairs)))


def show_beside(tasks: Sequence[Task], results: Sequence[Mapping[TaskId, Result]], *, console: Console) -> None:
    """Print what several models have come to, side by side, by level: over the tasks that all of them have done."""
    common = [task for task in tasks if all(task.id in each for each in results)]
    if not common:
        console.print("There is no task that all of them have done.")
        return
    names = [each[common[0].id].model for each in results]
    table = Table(title=f"Side by side, {len(common)} tasks", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "tasks", *names):
        table.add_column(name, justify="right" if name else "left")
    for level in ("all", *dict.fromkeys(task.level for task in common if task.level)):
        some = [task for task in common if level in ("all", task.level)]
        shares = [scores(done(some, each)) for each in results]
        table.add_row(level, str(len(some)), *(f"{each.questions:.1%} ({each.shares:.1%})" for each in shares))
    tokens = [used(each[task.id] for task in common) for each in results]
    table.add_row("tokens", "", *(f"{each.get('input_tokens', 0) + each.get('output_tokens', 0):,}" for each in tokens))
    console.print(table)
    for name, own in zip(names, results, strict=True):
        others = [each for each in results if each is not own]
        alone = [
            task.id for task in common if own[task.id].correct and not any(each[task.id].correct for each in others)
        ]
        console.print(f"Right by {name} alone: {', '.join(map(str, alone)) or 'none'}", soft_wrap=True)


def _scores(pairs: Pairs) -> Table:
    table = Table(title=f"Scores of {pairs[0][1].model}", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("tasks", "questions", "fields", "shares", "meaning"):
        table.add_column(name, justify="right")
    _add(table, "all", pairs)
    for level in dict.fromkeys(task.level for task, _ in pairs if task.level):
        _add(table, level, [each for each in pairs if each[0].level == level])
    for concept in sorted({concept for task, _ in pairs for concept in task.concepts}):
        _add(table, concept, [each for each in pairs if concept in each[0].concepts])
    return table


def _add(table: Table, name: str, pairs: Pairs) -> None:
    found = scores(pairs)
    shares = (found.questions, found.fields, found.shares, found.meaning)
    table.add_row(name, str(found.tasks), *(f"{share:.1%}" for share in shares))


def _effort(results: Sequence[Result], *, waiting: int) -> Table:
    table = Table(title="What it took", show_header=False, box=box.SIMPLE_HEAD)
    table.add_column()
    table.add_column(justify="right")
    cells, seconds = [result.cells for result in results], [result.wall_s for result in results]
    rows: dict[str, Any] = {
        "cells": f"{sum(cells):,}",
        "cells a task": f"{fmean(cells):.1f}",
        "seconds a task": f"{fmean(seconds):.1f}",
        "packages installed": f"{sum(len(result.installs) for result in results):,}",
        "tasks with an error": f"{sum(bool(result.error) for result in results):,}",
        "tasks not done": f"{waiting:,}",
    }
    rows |= {name.replace("_", " "): _number(value) for name, value in used(results).items()}
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _number(value: float) -> str:
    return f"{value:,}" if value == int(value) else f"{value:,.4f}"
