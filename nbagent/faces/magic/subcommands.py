"""The subcommands of `%agent`, which are also those of `nbagent chat`: what each does, and what it says."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from nbagent.core.errors import UsageError
from nbagent.core.events import Answered, ApprovalsSet, Asked, CellFinished, CellStarted, SessionResumed
from nbagent.core.policy import TrustLevel
from nbagent.core.text import cut, one_line, printable, safe, size_of
from nbagent.faces.magic.request import Request, as_asked, usage
from nbagent.faces.magic.sessions import Sessions
from nbagent.safety.approvals import Mode
from nbagent.sandbox.paths import VARIABLES
from nbagent.session.catalog.summary import Summary
from nbagent.session.sharing.attach import Attached

NOTHING = "No question was asked here yet. For example: %agent What is in this data?"
DIFFERS = {0: "Every cell gives again what it shows.", 1: "Not every cell gives again what it shows."}


class Verbs:
    """Does the subcommands that need no notebook.

    What the sandbox could be taken for, such as "this kernel", is `beside`: its status says that it isn't that.
    """

    def __init__(self, sessions: Sessions, *, beside: str = "") -> None:
        self._sessions, self._beside = sessions, beside

    async def do(self, request: Request, defaults: dict[str, Any]) -> str:
        """Do a subcommand; returns what it says. The defaults are options for a session that is begun for it."""
        name, argument = request.session, request.argument
        match request.verb:
            case "help":
                return usage()
            case "reset":
                ended = await self._sessions.end(name)
                return "The session has ended; the next question begins another one." if ended else NOTHING
            case "model" | "approve" | "trust" if argument:
                return await self._set(request)
            case "install":
                session = await self._sessions.get(name, request.options, defaults)
                found = await session.install([argument])
                return "Installed " + ", ".join(f"{e.name} {e.version}" for e in found) if found else "It was there."
            case "undo" | "insert" | "fix" | "explain":
                raise UsageError(
                    f"There is no notebook here for {request.verb}.", mend=f"In one: %agent {request.verb}"
                )
        found_session = await self._sessions.find(name)
        if found_session is None:
            return NOTHING
        return await self._of(found_session, request)

    async def _set(self, request: Request) -> str:
        name, argument = request.session, request.argument
        session = await self._sessions.find(name)
        if request.verb == "trust":
            level = TrustLevel.parse(argument).value
            if session is not None and session.trust == level:
                return f"The sandbox is {level} already."
            ended = await self._sessions.end(name)
            self._sessions.prefer(name, trust=level)
            lost = " This one has ended, with its variables." if ended else ""
            return f"The next question begins a sandbox that is {level}.{lost}"
        option = {"model": "model", "approve": "approvals"}[request.verb]
        value = Mode.parse(argument).value if request.verb == "approve" else argument
        if session is not None:
            await self._sessions.get(name, {option: value})
        else:
            self._sessions.prefer(name, **{option: value})
        return f"From now on: {request.verb} {value}"

    async def _of(self, session: Attached, request: Request) -> str:
        """Do a subcommand about a session that runs."""
        match request.verb:
            case "stop":
                session.interrupt()
                return "What runs in the session is stopped." if is_busy(session) else "Nothing runs in the session."
            case "history":
                return history(session)
            case "usage":
                return spent(session)
            case "export":
                return f"notebook: {await session.export(Path(request.argument).expanduser())}"
            case "verify":
                return await verify(session)
            case "files":
                listing = await session.files()
                found = [each for each in listing if each.kind == "file" and not each.path.startswith(f"{VARIABLES}/")]
                lines = [f"{printable(each.path)}  {size_of(each.size)}" for each in found]
                return cut("\n".join(lines), 20_000) or "There are no files in the sandbox's folders."
            case _:
                return status(session, beside=self._beside)


def is_busy(session: Attached) -> bool:
    """Whether a question or a cell runs."""
    questions, cells = set[int](), set[int]()
    for record in session.since():
        match record.event:
            case Asked(turn=turn):
                questions.add(turn)
            case Answered(turn=turn):
                questions.discard(turn)
            case CellStarted(cell=cell):
                cells.add(cell)
            case CellFinished(cell=cell):
                cells.discard(cell)
            case SessionResumed():
                questions, cells = set(), set()
    return bool(questions or cells)


def status(session: Attached, *, beside: str = "") -> str:
    """What session this is, where its code runs, and what it was set to."""
    model, mode = "not asked yet", Mode.NEVER_ASK.value
    for record in session.since():
        match record.event:
            case Asked(model=found):
                model = found
            case ApprovalsSet(mode=found):
                mode = found
    return (
        f"session  {session.id} (in a terminal: nbagent attach {session.id})\n"
        f"sandbox  {place(session, beside)}\n"
        f"model    {model}\n"
        f"approve  {mode}\n"
        f"turns    {session.turns}"
    )


def place(session: Attached, beside: str) -> str:
    """Where the session's code runs, and what isolates it."""
    if session.isolation:
        return f"none of its own: the code runs in a kernel that others use, too, which is {session.isolation}"
    where = f"{session.engine}, {session.trust}"
    return f"{where}: the code runs there, not in {beside}" if beside else where


def history(session: Attached) -> str:
    """The questions of a session, each with its answer."""
    lines = []
    for record in session.since():
        match record.event:
            case Asked(turn=turn, question=question):
                lines.append(f"{turn}. {one_line(as_asked(question), 200)}")
            case Answered(text=text):
                lines.append(f"   {one_line(text, 400)}")
    return "\n".join(lines) or NOTHING


def spent(session: Attached) -> str:
    """What the model's replies have cost in tokens and money."""
    summary = Summary()
    for record in session.since():
        summary.on_event(record)
    used = summary.usage
    cost = "" if used.cost is None else f", ${used.cost:.4f} by the price list"
    return f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out, in {used.calls} calls{cost}"


async def verify(session: Attached) -> str:
    """Run the session's notebook in a fresh sandbox, and say what differs."""
    with tempfile.TemporaryDirectory(prefix="nbagent-verify-") as folder:
        path = await session.export(Path(folder) / "session.ipynb")
        # A process of its own: it imports much that this one, which may be a person's kernel, has no use for.
        command = [sys.executable, "-P", "-m", "nbagent", "verify", str(path), "--quiet", "--no-write"]
        command += ["--trust", session.trust]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
    said = safe((out + err).decode(errors="replace")).strip()
    if process.returncode not in DIFFERS:
        raise UsageError(f"The notebook could not be run again: {cut(said, 2000)}")
    return "\n".join(filter(None, [DIFFERS[process.returncode], said]))
