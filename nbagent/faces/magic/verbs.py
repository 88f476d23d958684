"""The subcommands of `%agent`: what each says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbagent.core.errors import UsageError
from nbagent.core.events import Answered, Asked, ModelReplied, Usage
from nbagent.core.text import cut, one_line, size_of
from nbagent.faces.magic import words
from nbagent.faces.magic.portal import Portal
from nbagent.faces.magic.sessions import Sessions
from nbagent.session.attach import Attached
from nbagent.session.protocol import settled

NOTHING = "No question was asked here yet. For example: %agent What is in this data?"


class Verbs:
    """Does the subcommands, in the portal's thread.

    Args:
        sessions: The sessions of this process.
        portal: Where they live.
    """

    def __init__(self, sessions: Sessions, portal: Portal) -> None:
        self._sessions = sessions
        self._portal = portal

    async def do(self, request: words.Request, options: dict[str, Any]) -> str:
        """Do a subcommand; returns what it says.

        Raises:
            NbagentError: It can't be done.
        """
        if request.verb == "help":
            return words.usage()
        if request.verb == "reset":
            ended = await self._sessions.end(request.session)
            return "The session has ended; the next question begins another one." if ended else NOTHING
        session = self._sessions.current(request.session)
        if session is None and request.verb == "install":
            session = await self._sessions.get(request.session, options | request.options)
        if session is None:
            return NOTHING
        do = getattr(self, f"_{request.verb}", None)
        if do is None:
            raise UsageError(f"%agent {request.verb} can't be done yet.")
        said: str = await do(session, request.argument)
        return said

    async def _status(self, session: Attached, _: str) -> str:
        model = next((each.event.model for each in session.since() if isinstance(each.event, Asked)), "not asked yet")
        return (
            f"session  {session.id} (in a terminal: nbagent attach {session.id})\n"
            f"sandbox  {session.engine}, {session.trust}: the code runs there, not in this kernel\n"
            f"model    {model}\n"
            f"turns    {session.turns}"
        )

    async def _history(self, session: Attached, _: str) -> str:
        lines = []
        for record in session.since():
            match record.event:
                case Asked(turn=turn, question=question):
                    lines.append(f"{turn}. {one_line(question, 200)}")
                case Answered(text=text):
                    lines.append(f"   {one_line(text, 400)}")
        return "\n".join(lines) or NOTHING

    async def _usage(self, session: Attached, _: str) -> str:
        used = Usage()
        for record in session.since():
            if isinstance(record.event, ModelReplied):
                used += record.event.usage
        cost = "" if used.cost is None else f", ${used.cost:.4f} by the price list"
        return f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out, in {used.calls} calls{cost}"

    async def _export(self, session: Attached, path: str) -> str:
        return f"notebook: {await settled(session.export(Path(path).expanduser()))}"

    async def _files(self, session: Attached, _: str) -> str:
        listing = await session.files()
        lines = [f"{each.path}  {size_of(each.size)}" for each in listing if each.kind == "file"]
        return cut("\n".join(lines), 20_000) or "There are no files in the sandbox's folders."

    async def _install(self, session: Attached, package: str) -> str:
        found = await session.install([package])
        return "installed " + ", ".join(f"{each.name} {each.version}" for each in found) if found else "It was there."
