"""`nbagent resume`: a session that is resumed with a question, with code, or with what is typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.text import safe
from nbagent.faces.cli.ask import ask
from nbagent.faces.cli.execute import execute
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import work
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View, complain

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession


async def resume(
    make: Callable[[], AnySession], *, question: str | None, code: str | None, wanted: CommandFlags
) -> int:
    """Resume a session, and ask it or run code in it; returns the exit code.

    Raises:
        UsageError: A question and code are given, or neither and there is no terminal.
    """
    if question is not None and code is not None:
        raise UsageError("Give a question or code, not both.")
    if question is not None:
        return await ask(question, make, wanted=wanted)
    if code is not None:
        return await execute(None, code, make, wanted=wanted)
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
        print(safe(answer.text))
