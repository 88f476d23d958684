"""What commands that own a session share: it is shown while it works; its files and notebook come at the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nbagent.core.concurrency import finished
from nbagent.core.errors import NbagentError
from nbagent.core.text import safe
from nbagent.faces.cli import EXIT_STOPPED
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.terminal.console import complain
from nbagent.faces.terminal.display import shown
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View
from nbagent.session.exports import export_last

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession

EXIT_NOT_DELIVERED = 4
"""The exit code where all went well, but not all files that cells saved arrived."""


@dataclass
class Ending:
    """How the work with a session ended.

    Attributes:
        session: The session, if it could be made.
        notebook: Where its notebook is, if one was wanted.
        left: Why files that cells saved did not arrive, by their paths in the sandbox.
        error: The first error.
    """

    session: AnySession | None = None
    notebook: Path | None = None
    left: dict[str, str] = field(default_factory=dict)
    error: NbagentError | None = None
    stopped: bool = False

    def code(self, wanted: CommandFlags, *, succeeded: bool) -> int:
        """Print the error, if there was one; returns the exit code."""
        if self.error is not None:
            complain(self.error)
            return self.error.exit_code
        if self.stopped or not succeeded:
            return EXIT_STOPPED if self.stopped else 1
        # Otherwise the event `FilesLeft` was shown, or the JSON object has it.
        for path, why in self.left.items() if wanted.quiet and not wanted.as_json else ():
            print(safe(f"not delivered: {path}: {why}"), file=sys.stderr)
        return EXIT_NOT_DELIVERED if self.left else 0


async def work(
    make: Callable[[], AnySession],
    do: Callable[[AnySession, View], Awaitable[object]],
    *,
    wanted: CommandFlags,
    exports: Callable[[AnySession], bool],
    results: IO[str] | None = None,
    keyboard: Keyboard | None = None,
) -> Ending:
    """Start a session, show what `do` does with it, collect its files, and write its notebook if `exports` says so.

    Ctrl-C cancels `do`. The cells' own output goes to `results`.
    """
    ended = Ending()
    try:
        session = ended.session = make()
        if wanted.out is not None:
            await session.check_export(wanted.out, force=wanted.force)
        quiet = wanted.quiet or wanted.as_json
        showing = shown(
            session, quiet=quiet, results=results, keep=wanted.keep, keyboard=keyboard, verbose=wanted.verbose > 0
        )
        async with showing as view:
            try:
                await do(session, view)
            except asyncio.CancelledError:
                ended.stopped = True
            except NbagentError as error:
                ended.error = error
            except Exception:
                # An error in nbagent itself shall not cost the outputs so far.
                await _rescue(session, wanted=wanted, exports=exports(session))
                raise
            await _close(ended, session, wanted=wanted, exports=exports(session))
    except asyncio.CancelledError:
        ended.stopped = True
    except NbagentError as error:
        ended.error = ended.error or error
    return ended


async def _close(ended: Ending, session: AnySession, *, wanted: CommandFlags, exports: bool) -> None:
    try:
        ended.left = await session.deliver()
    except NbagentError as error:  # which must not cost the notebook
        ended.error = ended.error or error
    except asyncio.CancelledError:
        ended.stopped = True
    except Exception:
        await _rescue(session, wanted=wanted, exports=exports)
        raise
    if exports:
        try:
            # Whoever presses Ctrl-C again and again means the code, and not what was found out so far.
            await finished(_export(ended, session, wanted=wanted))
        except asyncio.CancelledError as stopped:
            ended.stopped = True
            if stopped.__cause__ is not None:  # it failed all the same
                raise stopped.__cause__ from None


async def _export(ended: Ending, session: AnySession, *, wanted: CommandFlags) -> None:
    try:
        ended.notebook, moved = await export_last(session, wanted.out, force=wanted.force)
    except NbagentError as error:
        moved = error
    ended.error = ended.error or moved


async def _rescue(session: AnySession, *, wanted: CommandFlags, exports: bool) -> None:
    """Write the notebook, if it is wanted, before an error in nbagent itself ends the process."""
    if exports:
        written, _ = await export_last(session, wanted.out, force=wanted.force)
        print(f"notebook: {written}", file=sys.stderr)
