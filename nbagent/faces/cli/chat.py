"""`nbagent chat`: a conversation at the terminal, with a history of lines, and what `%agent` can do behind `/`."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings

from nbagent.core import fileio, folders, settings
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.text import safe
from nbagent.faces.cli import flags
from nbagent.faces.magic.completion import completions
from nbagent.faces.magic.request import VERBS, parse
from nbagent.faces.magic.sessions import Sessions
from nbagent.faces.magic.subcommands import Verbs
from nbagent.faces.terminal.asker import Asker
from nbagent.faces.terminal.console import complain, show_answer
from nbagent.faces.terminal.display import CtrlC, starting
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View
from nbagent.session.catalog import lookup
from nbagent.session.sharing.attach import Attached

_ID = re.compile(r"\d{8}(-|$)")
"""How the ids begin that nbagent gives: with a day."""
WELCOME = "Ask on. Alt-Enter begins another line, Ctrl-C stops what runs, Ctrl-D leaves; /help says what else there is."
LEAVING = ("/quit", "/exit")
"""What people type who want to leave."""
LEAVES = "/quit, or Ctrl-D, leaves; the session goes on."


async def chat(session: str | None, given: dict[str, Any]) -> int:
    """Take questions and commands until the end of input; returns the exit code.

    The session is one to go on with, or a name for a new one; by default a new one has an id.
    """
    keyboard = Keyboard()
    if not keyboard.is_there:
        raise UsageError("A chat needs a terminal.", mend="Ask one question by: nbagent run QUESTION")
    if session is None:
        given = await asyncio.to_thread(flags.with_model, given)
    sessions = Sessions(_meant(session) if session else folders.new_session_id())
    try:
        view = View(keep_figure=lambda *_: None)
        async with starting(view):
            attached = await sessions.get("", {}, given)
        print(WELCOME, file=sys.stderr)
        prompt = _prompt(settings.state_root() / "chat-history")
        while True:
            try:
                line = (await prompt.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            if line in LEAVING:
                break
            try:
                if line.startswith("/"):
                    print(safe(await _command(Verbs(sessions), line, given)))
                elif line:
                    attached = await sessions.get("", {}, given)
                    await _ask(attached, line, keyboard)
            except NbagentError as error:
                complain(error)
        if attached.is_running:
            print(f"The session goes on: nbagent chat {attached.id}", file=sys.stderr)
        return 0
    finally:
        await sessions.leave()


def _meant(name: str) -> str:
    """The name of a session: what begins as an id does is enough of one that there is, all else is a whole name."""
    return lookup.find(settings.state_root(), name).name if _ID.match(name) else name


async def _command(verbs: Verbs, line: str, given: dict[str, Any]) -> str:
    request = parse(line[1:].strip() or "help")
    if not request.verb:
        raise UsageError(f"There is no command {line.split()[0]}.", mend="See: /help")
    said = await verbs.do(request, given)
    if request.verb == "help":
        # What works on the cells and variables of a notebook, and the options behind `%agent`, is of no use here.
        lines = said.partition("\n\n")[0].splitlines()[1:]
        lines = [each for each in lines if not re.match(r"\S*agent (?:undo|insert|fix|explain)\b", each)]
        said = "\n".join([*lines, LEAVES])
    return said.replace("%agent ", "/")


async def _ask(session: Attached, question: str, keyboard: Keyboard) -> None:
    """Ask a question and show it while it is answered; Ctrl-C stops its cell, then the question."""
    view = View(keep_figure=session.keep_figure)
    asker = Asker(session, view, keyboard)
    readers = [session.follow(view.show), session.follow(asker.hear), session.follow_words(view.hear_words)]
    pressing = CtrlC(session, asker, session.interrupt)
    try:
        await session.attend()
        answer = await session.ask(question)
        view.idle()
        show_answer(answer)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        print("Stopped.", file=sys.stderr)
    finally:
        pressing.close()
        asker.close()
        view.idle()
        for unfollow in readers:
            unfollow()


class _Commands(Completer):
    """Completes commands; what is behind them as behind `%agent`."""

    def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        if before.startswith("/"):
            word = before[1:].split(" ")[-1]
            for found in completions(f"%agent {before[1:]}", ()):
                if found in VERBS or " " in before:
                    yield Completion(found, start_position=-len(word))


def _prompt(history: Path) -> PromptSession[str]:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def another_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    fileio.make_folder(history.parent)
    history.touch(mode=0o600)
    return PromptSession(history=FileHistory(str(history)), completer=_Commands(), key_bindings=keys)
