"""The command `python -m evals`.

Exit codes: 0 all is done, 1 the provider failed, 2 wrong use, 3 the sandbox failed, 130 stopped.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evals import progress, report
from evals.results import Results
from evals.results import read as read_results
from evals.run import Options, Run
from evals.tasks import Task, read
from nbagent.core.errors import NbagentError
from nbagent.faces.terminal.console import complain

STOPPED = 130
"""The exit code after Ctrl-C, as shells have it."""


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    questions: Annotated[Path, typer.Option(metavar="FILE", help="The questions.")],
    tables: Annotated[Path, typer.Option(metavar="FOLDER", help="The data that the questions are about.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="provider:model, or replay:FILE.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The results; a run goes on with them.")],
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="The right answers, if they stand apart.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Results of another model, shown beside. Repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N questions.")] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks at a time, a sandbox each.")] = 1,
    engine: Annotated[str | None, typer.Option("--engine", "-e", metavar="NAME", help="docker or bubblewrap.")] = None,
    minutes: Annotated[float, typer.Option(min=0.01, metavar="N", help="Minutes that a task may take.")] = 15.0,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Ask again what ended with an error.")] = False,
) -> None:
    """Score a model on tasks of InfiAgent-DABench, KramaBench or DABstep. A second run goes on where one ended."""
    try:
        tasks = read(questions, labels=labels, tables=tables)[:limit]
        options = Options(model=model, folder=out.with_suffix(""), engine=engine, jobs=jobs, minutes=minutes)
        if options.folder == out:
            raise typer.BadParameter("the file of results needs an ending, such as .jsonl", param_hint="--out")
        others = [read_results(each)[0] for each in beside or ()]
        with Results(out, model=model) as results:
            code = _run(tasks, results, options, retry=retry_errors)
            report.show(tasks, results.done, console=Console())
        if others:
            report.show_beside(tasks, [results.done, *others], console=Console())
    except NbagentError as error:
        complain(error)
        code = error.exit_code
    raise typer.Exit(code)


def _run(tasks: Sequence[Task], results: Results, options: Options, *, retry: bool) -> int:
    """Run what isn't done; returns the exit code."""
    done = [results.done[task.id] for task in tasks if task.id in results.done]
    kept = [each for each in done if not (retry and each.error)]
    waiting = [task for task in tasks if task.id not in {each.task_id for each in kept}]
    right = sum(each.correct for each in kept)
    console = Console(stderr=True)
    try:
        with progress.shown(console, total=len(tasks), before=len(kept), correct=right) as tell:
            asyncio.run(_stoppable(Run(results, options, tell=tell).all(waiting)))
    except asyncio.CancelledError:
        # All is put away, and the scores so far are still to be shown: one more Ctrl-C must not end that.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        console.print("Stopped. Run the same again to go on.")
        return STOPPED
    except NbagentError as error:
        complain(error)
        return error.exit_code
    return 0


async def _stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Run until the end, or until Ctrl-C: then the sandboxes are put away, however often it is pressed."""
    task = asyncio.ensure_future(work)

    def stop() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await task


if __name__ == "__main__":
    app(prog_name="python -m evals")
