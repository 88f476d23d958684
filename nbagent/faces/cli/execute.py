"""`nbagent exec`: a script, a notebook or a piece of code in the sandbox, without a model."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.policy import Network
from nbagent.core.text import one_line, safe
from nbagent.faces.cli import json_output
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import Ending, work
from nbagent.faces.terminal.view import View
from nbagent.notebook.run import MAX_SOURCE, Run, Source, parse, read, with_needed
from nbagent.sandbox.data.needs import is_ours
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.protocol import settled

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession

MOST_NAMED = 10
"""Files that a person is told of."""
_MISSING = re.compile(r"No such file or directory: '([^'\n]{1,300})'")


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
        if source not in (None, "-"):
            await settled(session.rename(Path(source).name))
        await run.on(session)

    try:
        run = Run(each._replace(may_fail=each.may_fail or allow_errors) for each in sources(source, code))
    except NbagentError as error:
        ended.error = error
    else:
        ended = await work(make, do, wanted=wanted, exports=lambda _: wanted.out is not None, results=sys.stdout)
    if ended.notebook is not None and run.unrun:
        from nbagent.notebook.export import add_skipped

        try:
            await asyncio.to_thread(add_skipped, ended.notebook, run.unrun)
        except NbagentError as error:
            ended.error = ended.error or error
    if run.skipped:
        names = ", ".join(run.skipped[:MOST_NAMED])
        more = f" and {len(run.skipped) - MOST_NAMED:,} more" if len(run.skipped) > MOST_NAMED else ""
        print(one_line(f"Tagged skip-execution, and not run: {names}{more}.", 2_000), file=sys.stderr)
    if told := _unseen(run, source):
        print(safe(told), file=sys.stderr)
    elif run.status == "timeout":
        print("A cell may run longer with --timeout SECONDS.", file=sys.stderr)
    ended.stopped = ended.stopped or run.status == "interrupted"
    if wanted.as_json:
        json_output.show(json_output.executed(run, ended, seconds=time.monotonic() - started))
    elif wanted.quiet:
        print(safe("\n".join(cell.text for cell in run.cells if cell.text)))
    ended_with = ended.code(wanted, succeeded=run.status == "ok")
    return run.exit_code if run.exit_code and ended_with == 1 else ended_with


def sources(source: str | None, code: str | None) -> list[Source]:
    """The cells to run, of a file or of code."""
    if code is not None and source is None:
        return [Source(code, may_exit=True)]
    if source is None or code is not None:
        raise UsageError("Name one thing to run.", mend="A script, a notebook, - for standard input, or -c CODE.")
    if source == "-":
        return parse(sys.stdin.buffer.read(MAX_SOURCE + 1), name="standard input")
    return read(Path(source))


def data_for(source: str | None, **options: Any) -> list[str] | Mapping[str, str]:
    """The data of what is run: what is given, what a notebook of nbagent's needs, else what code names beside."""
    data = [*(options.get("data") or ())]
    # A kernel that runs already has its own files, and is shown no others.
    if source is None or options.get("kernel") or not Path(source).is_file():
        return data
    if not source.endswith(".ipynb") or not is_ours(Path(source)):
        return [*data, *map(str, _beside(Path(source), **options))]
    found, changed, missing = with_needed(data, Path(source), root=settings.state_root())
    warnings = [f"{name} is not what it was when {source} was made." for name in changed]
    warnings += [f"{source} was made with {name}, which isn't here as it was: give it with --data." for name in missing]
    for each in warnings:
        print(safe(each), file=sys.stderr)
    return found


def _beside(source: Path, **options: Any) -> list[Path]:
    """What code names beside it, if it has no network: it is often a stranger's."""
    if SandboxSpec.of(settings.load(**options)).trust.network is not Network.NONE:
        return []
    from nbagent.notebook.inputs import beside

    given = {Path(each).expanduser().resolve().name for each in options.get("data") or ()}
    codes = [each.code for each in read(source) if not each.skipped]
    found = [each for each in beside(source, codes) if each.name not in given]
    if found:
        names = ", ".join(each.name for each in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        print(safe(f"{source.name} sees, read-only, what its code names beside it: {names}{more}."), file=sys.stderr)
    return found


def _unseen(run: Run, source: str | None) -> str:
    """A sentence on a file that code didn't find, though it lies beside the code; empty if there is no such file."""
    for cell in run.cells if source else ():
        for output in cell.outputs:
            found = _MISSING.search(str(output.get("evalue"))) if output.get("ename") == "FileNotFoundError" else None
            name = os.path.normpath(found[1]).partition("/")[0] if found else ""
            if name not in ("", ".", "..") and Path(str(source)).with_name(name).exists():
                return f"{name} lies beside {source}, and its code did not see it: give it with --data."
    return ""
