"""Runs tasks: a session each, some at a time, and a result as soon as one is done."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evals.folder_scoring import ENOUGH
from evals.results import Result, Results
from evals.tasks import Task
from nbagent import Session
from nbagent.core.budget import Budget
from nbagent.core.errors import (
    DataError,
    EngineUnavailable,
    EnvironmentMissing,
    LimitUnenforceable,
    ModelCallError,
    NbagentError,
    ReplayError,
    StoreError,
    UsageError,
)
from nbagent.core.events import PackagesInstalled, Record, Usage

OUTAGE = 3
"""Tasks in a row in which the model failed, after which it is the provider that failed and not the tasks."""
HOPELESS = (UsageError, EngineUnavailable, EnvironmentMissing, LimitUnenforceable, StoreError)
"""What other tasks would fail of, too."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the tasks are run.

    Attributes:
        model: As for a session: `provider:model`, or `replay:FILE`.
        folder: Where the notebooks and the sessions' logs go.
        engine: As for a session; the best that works here by default.
        jobs: Tasks at a time.
        minutes: That a task may take.
    """

    model: str
    folder: Path
    engine: str | None = None
    jobs: int = 1
    minutes: float = 15.0


class OutageError(NbagentError):
    """The model's provider failed task after task; what was done until then is in the file."""

    exit_code = 1


class Run:
    """Tasks on their way to a file of results.

    A task whose model failed isn't written at once. If a later one gets through, it was the task, and its error is its
    result. If `OUTAGE` in a row fail, or no later one gets through, it was the provider: the run ends, and these tasks
    are asked again by the next one.

    Args:
        results: Where the results go.
        options: How the tasks are run.
        tell: Called with each result as it is written.
    """

    def __init__(
        self, results: Results, options: Options, *, tell: Callable[[Result], object] = lambda _: None
    ) -> None:
        self._results = results
        self._options = options
        self._tell = tell
        self._held: list[Result] = []

    async def all(self, tasks: Sequence[Task]) -> None:
        """Run these tasks.

        Raises:
            NbagentError: Something that every further task would fail of, too; what was done before is written.
        """
        waiting = iter(tasks)

        async def work() -> None:
            for task in waiting:
                self._take(*await attempt(task, self._options))

        workers = [asyncio.create_task(work()) for _ in range(min(self._options.jobs, len(tasks)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if self._held:
            raise self._outage()

    def _take(self, result: Result, failed: bool) -> None:
        if failed:
            self._held.append(result)
            if len(self._held) >= OUTAGE:
                raise self._outage()
            return
        held, self._held = self._held, []
        for each in (*held, result):
            self._results.add(each)
            self._tell(each)

    def _outage(self) -> OutageError:
        return OutageError(
            f"The model failed in the last {len(self._held)} of the tasks: {self._held[-1].error}"
            if len(self._held) > 1
            else f"The model failed in the last task: {self._held[-1].error}",
            mend="Run the same again to go on.",
        )


async def attempt(task: Task, options: Options) -> tuple[Result, bool]:
    """Ask one question in a session of its own.

    Returns:
        What came of it, and whether its model failed, for which the task may not be to blame.

    Raises:
        NbagentError: No other task would come further.
    """
    started, session, installed = time.monotonic(), _session(task, options), list[str]()
    notebook = options.folder / "notebooks" / f"{task.id}.ipynb"
    text, error = await _ask(session, task, options, notebook=notebook, installed=installed)
    right = dict(task.grade(text, task.expected))
    asked = session.history[-1] if session.history else session.unfinished
    result = Result(
        task_id=task.id,
        answer=text,
        correct=all(each >= ENOUGH for each in right.values()),
        right=right,
        notebook=f"{options.folder.name}/notebooks/{notebook.name}" if session.turns else None,
        cells=len(asked.cells) if asked else 0,
        wall_s=round(time.monotonic() - started, 2),
        installs=installed,
        usage=msgspec.to_builtins(asked.usage if asked else Usage()),
        model=options.model,
        error=str(error or ""),
    )
    return result, isinstance(error, ModelCallError)


async def _ask(
    session: Session, task: Task, options: Options, *, notebook: Path, installed: list[str]
) -> tuple[str, NbagentError | None]:
    """The answer, or why there is none; the notebook is written in either case, once a question was asked."""
    limit = asyncio.timeout(None)
    try:
        async with _running(session, installed):
            limit = asyncio.timeout(options.minutes * 60)
            try:
                async with limit:
                    return (await session.ask(task.prompt)).text, None
            finally:
                if session.turns:
                    await session.export(notebook)
    except TimeoutError:
        if not limit.expired():
            raise
        return "", NbagentError(f"It took more than {options.minutes:g} minutes.")
    except NbagentError as error:
        if isinstance(error, HOPELESS) and not _of_this_task(session, error):
            raise
        return "", error


def _of_this_task(session: Session, error: NbagentError) -> bool:
    """Whether the next task may not have it: its data, or what a recording has no reply to."""
    return isinstance(error, DataError) or (isinstance(error, ReplayError) and session.turns > 0)


def _session(task: Task, options: Options) -> Session:
    """A session in which nobody is asked, and no other model, tool or bound of the person's has a part."""
    return Session(
        model=options.model,
        data=[task.data],
        engine=options.engine,
        fallback=(),
        critic="",
        approvals="never-ask",
        mcp=False,
        forge=False,
        budget=Budget(),
        state_dir=options.folder,
    )


@contextlib.asynccontextmanager
async def _running(session: Session, installed: list[str]) -> AsyncIterator[None]:
    """The session, started, and what is installed in it noted down."""

    def hear(record: Record) -> None:
        if isinstance(record.event, PackagesInstalled):
            installed.extend(f"{package.name}=={package.version}" for package in record.event.packages)

    async with session:
        stop = session.follow(hear)
        try:
            yield
        finally:
            stop()
