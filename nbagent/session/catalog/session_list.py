"""Lists the sessions on this machine by their summaries, thousands at a time.

    STATE/sessions/ID/summary.json    a session in a few words, written by its owner (`summary.py`)
    STATE/sessions.json               a cache of all summaries, each with its folder's time; it may be deleted

A summary is written as a new file in place of the old one, which changes its folder's time. So a listing asks for the
time of each folder, and reads only the summaries of folders that have changed since the last one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.folders import LOG_FILE
from nbagent.session.catalog import summary
from nbagent.session.catalog.lookup import find, folders, is_running, lock_held
from nbagent.session.catalog.summary import Summary

State = Literal["running", "waiting", "ended"]
"""A process owns a session that is `running`; of one that is `waiting` the kernel lives, and can be taken over by
resuming it; of one that has `ended` the log is left, and files."""
CACHE_FILE = "sessions.json"
MAX_CACHE_BYTES = 64 * 1024 * 1024
"""Bytes of it that are read: more than a hundred thousand sessions take."""
SETTLED_SECONDS = 1.0
"""Seconds after which each further change gives a folder another time: file systems count time in coarse steps."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session on this machine.

    Attributes:
        id: Its id, also its folder's name.
        path: Its folder on the host, as a text.
        state: Whether it runs, and what of it can be resumed.
        title: What it is about, in one line.
        started: Seconds since the epoch.
        changed: When something happened last, in seconds since the epoch.
        engine: The engine's name.
        trust: The trust level's name.
        questions: Questions asked.
        cells: Cells run; of one that is running, as of its last question.
        tokens: Tokens that models used.
        cost: What they cost in US dollars; None where a price isn't known.
        sandbox: The private folder of its sandbox, if there is one.
    """

    id: str
    path: str
    state: State
    title: str = ""
    started: float
    changed: float = 0.0
    engine: str = ""
    trust: str = ""
    questions: int = 0
    cells: int = 0
    tokens: int = 0
    cost: float | None = None
    sandbox: Path | None = None

    @property
    def folder(self) -> Path:
        """Its folder on the host."""
        return Path(self.path)


class _Entry(msgspec.Struct, array_like=True):
    """What the cache has of one folder: the folder's time in nanoseconds, its inode, and the summary in it, if any."""

    time: int
    inode: int
    summary: Summary | None


_CACHE = msgspec.json.Decoder(dict[str, _Entry])


def listed(root: Path) -> list[SessionInfo]:
    """All sessions below a state folder, the latest first."""
    cached, keep, found, now = _cached(root), dict[str, _Entry](), list[SessionInfo](), time.time_ns()
    sandboxes = functools.cache(_sandboxes)
    for folder in folders(root):
        try:
            status = folder.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # it was deleted meanwhile
        entry = cached.get(folder.name)
        if entry is None or (entry.time, entry.inode) != (status.st_mtime_ns, status.st_ino):
            entry = _Entry(status.st_mtime_ns, status.st_ino, _read(folder.path))
        if now - status.st_mtime_ns > SETTLED_SECONDS * 1e9 and (entry.summary or not _has_log(folder)):
            keep[folder.name] = entry
        summary_of = entry.summary or _of_log(folder.path)
        if summary_of is not None:
            found.append(_info(folder.name, folder.path, summary_of, sandboxes))
    if keep != cached:
        with contextlib.suppress(OSError):
            fileio.write(root / CACHE_FILE, msgspec.json.encode(keep), mode=fileio.PRIVATE_MODE)
    found.sort(key=lambda each: each.started, reverse=True)
    return found


def info_of(root: Path, session: str | None) -> SessionInfo:
    """What is known of one session, given by its id or enough of its beginning; None for the latest.

    Raises:
        UsageError: There is none, or several begin so.
    """
    folder = find(root, session)
    found = summary.read(folder) or _of_log(str(folder))
    if found is None:
        raise UsageError(f"The session {folder.name} never started: nothing was logged.", mend="Start a new one.")
    return _info(folder.name, str(folder), found, _sandboxes)


def is_waiting(session: str) -> bool:
    """Whether a session, given by its whole id, has a kernel that waits to be taken over."""
    return _lives(_sandboxes().get(session))


def _sandboxes() -> dict[str, Path]:
    """The sandboxes of this person by their sessions."""
    from nbagent.sandbox.leases import lease

    return lease.owned()


def _lives(sandbox: Path | None) -> bool:
    from nbagent.sandbox.machine import supervisor

    return sandbox is not None and supervisor.is_alive(sandbox)


def _info(id: str, folder: str, found: Summary, sandboxes: Callable[[], dict[str, Path]]) -> SessionInfo:
    state: State = "ended"
    sandbox = None
    started = found.started or _changed(folder)  # in the log of one that is just starting there is nothing
    if not found.has_ended:  # a session that was ended on purpose has no process and no sandbox
        sandbox = sandboxes().get(id)
        state = "running" if is_running(folder) else "waiting" if _lives(sandbox) else "ended"
    return SessionInfo(
        id=id,
        path=folder,
        state=state,
        title=found.title,
        started=started,
        changed=found.changed or started,
        engine=found.engine,
        trust=found.trust,
        questions=found.questions,
        cells=found.cells,
        tokens=found.usage.input_tokens + found.usage.output_tokens,
        cost=found.usage.cost if found.usage.calls else 0.0,
        sandbox=sandbox,
    )


def _changed(folder: str) -> float:
    try:
        return Path(folder).stat().st_mtime
    except FileNotFoundError:  # it was deleted meanwhile
        return time.time()


def _read(path: str) -> Summary | None:
    """The summary in a folder; made of the log where an older nbagent, or a full disk, has left none."""
    folder = Path(path)
    found = summary.read(folder)
    if found is None and (folder / LOG_FILE).is_file():
        with contextlib.suppress(OSError), lock_held(folder) as is_held:
            if is_held and (found := _of_log(path)) is not None:
                summary.write(folder, found)
    return found


def _of_log(path: str) -> Summary | None:
    with contextlib.suppress(NbagentError):
        return summary.of_log(Path(path))
    return None


def _has_log(folder: os.DirEntry[str]) -> bool:
    return os.path.exists(f"{folder.path}/{LOG_FILE}")  # noqa: PTH110 - of thousands, this is faster


def _cached(root: Path) -> dict[str, _Entry]:
    try:
        with fileio.opened(root / CACHE_FILE) as file:
            return _CACHE.decode(file.read(MAX_CACHE_BYTES))
    except (OSError, msgspec.DecodeError):
        return {}
