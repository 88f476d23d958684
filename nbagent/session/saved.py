"""The sessions on this machine, and what can still be had of each: its log always, its kernel perhaps."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from nbagent.errors import UsageError
from nbagent.events import Answered, CellFinished, Record, SessionStarted
from nbagent.notebook.record import Recording
from nbagent.sandbox import supervisor
from nbagent.sandbox.leases import lease
from nbagent.sandbox.spec import SandboxSpec
from nbagent.store import cannot_write, write_atomically

State = Literal["running", "waiting", "ended"]
"""`running` belongs to a process, `waiting` lost its process and can be taken over, of `ended` only the log is left."""
SPEC = "sandbox.json"
GONE = "The process that ran nbagent ended while this cell was running; what it printed after that is not known."


@dataclass(frozen=True, kw_only=True)
class Known:
    """A session on this machine.

    Attributes:
        id: Its name.
        folder: Its folder on the host.
        state: What can still be had of it.
        started: Seconds since the epoch.
        engine: The engine's name.
        trust: The trust level's name.
        questions: Questions asked.
        cells: Cells run.
        sandbox: The private folder of its sandbox, if there is one.
    """

    id: str
    folder: Path
    state: State
    started: float
    engine: str = ""
    trust: str = ""
    questions: int = 0
    cells: int = 0
    sandbox: Path | None = None


def known(root: Path) -> list[Known]:
    """All sessions below a state folder, the latest first."""
    base = root / "sessions"
    folders = [each for each in base.iterdir() if (each / "log.jsonl").is_file()] if base.is_dir() else []
    found = [one for each in folders if (one := _look(each)) is not None]
    return sorted(found, key=lambda each: each.started, reverse=True)


def look_up(root: Path, session: str) -> Known:
    """The session of that name, or of the only one that begins so.

    Raises:
        UsageError: There is none, or several.
    """
    everything = known(root)
    found = [each for each in everything if each.id == session]
    found = found or [each for each in everything if session and each.id.startswith(session)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} sessions begin with {session!r}.", mend="Give more of the name.")
    latest = f" The latest is {everything[0].id}." if everything else ""
    raise UsageError(f"There is no session {session[:80]!r}.{latest}", mend="See them all with: nbagent sessions")


def _look(folder: Path) -> Known | None:
    """What there is of one session; None for a log that says nothing."""
    text = (folder / "log.jsonl").read_bytes()
    try:
        first = msgspec.json.decode(text.split(b"\n", 1)[0], type=Record)
    except msgspec.DecodeError:
        return None
    started = first.event if isinstance(first.event, SessionStarted) else None
    sandbox = lease.find(folder.name)
    return Known(
        id=folder.name,
        folder=folder,
        state=_state(folder, sandbox),
        started=first.at,
        engine=started.engine if started else "",
        trust=started.trust if started else "",
        # What looks like this inside of a string has its quotes escaped.
        questions=text.count(b'"type":"Asked"'),
        cells=text.count(b'"type":"CellStarted"'),
        sandbox=sandbox,
    )


def _state(folder: Path, sandbox: Path | None) -> State:
    try:
        with (folder / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "running"
    except OSError:
        pass
    return "waiting" if sandbox is not None and supervisor.is_alive(sandbox) else "ended"


async def remove_ended(root: Path, *, unused: float, url: str = "") -> list[Known]:
    """Remove sessions that have ended and were not used for so long: their folders, and what models were told.

    What was exported stays, and so does the head of an audit log, which proves that there was one.

    Args:
        root: The state folder.
        unused: Seconds since anything was written into its log.
        url: Where the conversations are, if not in the state folder.

    Returns:
        Those that were removed.

    Raises:
        StoreError: A folder or a conversation can't be removed.
    """
    before = time.time() - unused
    old = [each for each in known(root) if each.state == "ended" and _last_used(each) <= before]
    if not old:
        return []
    from nbagent.state import StateManager, Turns

    removed = []
    async with StateManager(root / "shared", url=url, session_id=old[0].id) as state:
        for each in old:
            with _held(each) as held:
                if held:
                    # The conversation first: a folder that is left is found again, a conversation without one is not.
                    await Turns(state.checkpointer, each.id).forget()
                    _remove(each.folder)
                    removed.append(each)
    return removed


def _last_used(session: Known) -> float:
    return (session.folder / "log.jsonl").stat().st_mtime


@contextlib.contextmanager
def _held(session: Known) -> Iterator[bool]:
    """Hold a session so that nobody takes it up meanwhile; yields whether that could be had."""
    with (session.folder / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _remove(folder: Path) -> None:
    """Remove a session's folder, last its log, without which it would not be found again, and the lock that is held."""
    try:
        for each in folder.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name not in ("log.jsonl", "lock"):
                each.unlink()
        shutil.rmtree(folder)
    except OSError as error:
        raise cannot_write(folder, error, mend="Check its permissions.") from error


def write_spec(folder: Path, spec: SandboxSpec) -> None:
    """Keep what a session's sandbox is, for who goes on with it.

    Raises:
        StoreError: It can't be written.
    """
    write_atomically(folder / SPEC, lease.ENCODER.encode(spec))


def read_spec(session: Known) -> SandboxSpec:
    """What a session's sandbox was to be.

    Raises:
        UsageError: That isn't known: the session is of another version of nbagent, or never came to its start.
    """
    try:
        return msgspec.json.decode((session.folder / SPEC).read_bytes(), type=SandboxSpec, dec_hook=lease.decode)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"The session {session.id} can't be gone on with: {error}.",
            mend=f"Its log is intact, in {session.folder}.",
        ) from error


def loose_ends(recording: Recording) -> list[CellFinished | Answered]:
    """The events that end what a process left open when it died: the log tells of each cell and turn how it ended."""
    ends: list[CellFinished | Answered] = []
    for cell in recording.cells:
        if cell.status == "running":
            ends.append(
                CellFinished(
                    cell=cell.cell,
                    turn=cell.turn,
                    code=cell.code,
                    status="interrupted",
                    outputs=list(cell.outputs),
                    installed=cell.installed,
                    note=GONE,
                )
            )
    for asked in recording.questions:
        if asked.turn not in recording.answers:
            failed = sum(each.status != "ok" for each in recording.cells if each.turn == asked.turn)
            text = "nbagent's own process ended before the answer."
            ends.append(Answered(turn=asked.turn, text=text, success=False, attempts=1 + failed))
    return ends


def age(seconds: float) -> str:
    """A time ago in words: `3 minutes ago`."""
    passed = max(0.0, time.time() - seconds)
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if passed >= length:
            count = int(passed // length)
            return f"{count} {name}{'s' if count != 1 else ''} ago"
    return "just now"
