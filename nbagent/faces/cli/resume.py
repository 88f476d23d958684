"""`nbagent resume`: a session that is resumed with a question, with code, or with what is typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbagent.core import settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.faces.cli.ask import ask
from nbagent.faces.cli.execute import execute
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import work
from nbagent.faces.terminal.console import complain, show_answer
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View
from nbagent.session.catalog import lookup
from nbagent.session.catalog.session_list import is_waiting as is_waiting

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession


def named(session: str | None, question: str | None) -> tuple[str, str | None]:
    """The whole name of the session that is meant, and the question.

    What was typed first is enough of a name, or a question to the latest session: no name has a blank.
    """
    root = settings.state_root()
    if session is not None and question is None and any(each.isspace() for each in session):
        session, question = None, session
    found = lookup.find(root, session)
    if session is None:
        print(f"session: {found.name}", file=sys.stderr)
    return found.name, question


async def resume(
    make: Callable[[], AnySession], *, question: str | None, code: str | None, wanted: CommandFlags
) -> int:
    """Resume a session, and ask it or run code in it; returns the exit code."""
    if question is not None and code is not None:
        raise UsageError("Give a question or code, not both.")
    if question is not None or code is not None:
        done = await (
            ask(question, make, wanted=wanted) if question is not None else execute(None, code, make, wanted=wanted)
        )
        if not (wanted.keep or wanted.as_json or wanted.quiet):
            print("The session has ended, its variables with it; --keep leaves its kernel running.", file=sys.stderr)
        return done
    if wanted.as_json or not sys.stdin.isatty():
        raise UsageError("There is no terminal to type at.", mend="Give a question, or code with --code.")
    return await chat(make, wanted=wanted)


async def chat(make: Callable[[], AnySession], *, wanted: CommandFlags) -> int:
    """Ask questions as they are typed, until the end of input; returns the exit code."""
    keyboard = Keyboard()

    async def do(session: AnySession, view: View) -> None:
        print("Ask on; end with Ctrl-D.", file=sys.stderr)
        while (question := await _typed(keyboard, view)) is not None:
            if question.strip():
                await _answer(session, question)

    ended = await work(make, do, wanted=wanted, exports=lambda _: True, keyboard=keyboard)
    if ended.notebook is not None:
        print(f"notebook: {ended.notebook}", file=sys.stderr)
    return ended.code(wanted, succeeded=True)


async def _typed(keyboard: Keyboard, view: View) -> str | None:
    with view.prompt("> ") as answered:
        line = await keyboard.line()
        if line is not None:
            answered()
    return line


async def _answer(session: AnySession, question: str) -> None:
    try:
        answer = await session.ask(question)
    except NbagentError as error:
        complain(error)
    else:
        show_answer(answer)
