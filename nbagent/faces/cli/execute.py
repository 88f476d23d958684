"""`nbagent exec`: a script, a notebook or a piece of code in the sandbox, without a model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nbagent.core import folders, settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.text import safe
from nbagent.faces.cli import objects
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import Ending, work
from nbagent.faces.terminal.view import View
from nbagent.notebook.run import MAX_SOURCE, Run, Source, parse, read, with_needed

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession


async def execute(
    source: str | None,
    code: str | None,
    make: Callable[[], AnySession],
    *,
    wanted: CommandFlags,
    allow_errors: bool = False,
) -> int:
    """Run cells and show their outputs; returns the exit code."""
    run, ended, started = Run(()), Ending(), time.monotonic()

    async def do(session: AnySession, _: View) -> None:
        await run.on(session)

    try:
        run = Run(each._replace(may_fail=each.may_fail or allow_errors) for each in sources(source, code))
    except NbagentError as error:
        ended.error = error
    else:
        ended = await work(make, do, wanted=wanted, exports=lambda _: wanted.out is not None, results=sys.stdout)
    ended.stopped = ended.stopped or run.status == "interrupted"
    if wanted.as_json:
        objects.show(objects.executed(run, ended, seconds=time.monotonic() - started))
    elif wanted.quiet:
        print(safe("\n".join(cell.text for cell in run.cells if cell.text)))
    return ended.code(wanted, succeeded=run.status == "ok")


def sources(source: str | None, code: str | None) -> list[Source]:
    """The cells to run, of a file or of code.

    Raises:
        UsageError: Neither or both are given, or the file can't be read as a script or a notebook.
    """
    if code is not None and source is None:
        return [Source(code)]
    if source is None or code is not None:
        raise UsageError("Name one thing to run.", mend="A script, a notebook, - for standard input, or -c CODE.")
    if source == "-":
        return parse(sys.stdin.buffer.read(MAX_SOURCE + 1), name="standard input")
    return read(Path(source))


def data_for(source: str | None, given: list[str] | None) -> list[str] | Mapping[str, str]:
    """The data that the person gives, and the data that a notebook of nbagent's needs to run again, if it is found."""
    data = [*(given or ())]
    if source is None or not source.endswith(".ipynb"):
        return data
    found, changed, missing = with_needed(data, Path(source), root=folders.state_root(settings.load().state_dir))
    warnings = [f"{name} is not what it was when {source} was made." for name in changed]
    warnings += [f"{source} was made with {name}, which isn't here as it was: give it with --data." for name in missing]
    for each in warnings:
        print(safe(each), file=sys.stderr)
    return found
