"""The sessions on this machine: found, and told by their summaries, thousands at a time.

    STATE/sessions/ID/summary.json    what its owner says of it (`summary.py`)
    STATE/sessions.json               what was read last of each, with its folder's time: a cache, which may be deleted

Whoever writes a summary puts a new file in its place, by which its folder gets another time. So who lists the sessions
asks each folder for that, and reads only what has changed since.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import NbagentError, UsageError
from nbagent.session import summary
from nbagent.session.summary import Summary

State = Literal["running", "waiting", "ended"]
"""`running` belongs to a process, `waiting` lost its process and can be taken over, of `ended` only the log is left."""
NAME = "sessions.json"
LOG = "log.jsonl"
SETTLED = 1.0
"""Seconds after which a folder's time tells of each further change: file systems count in steps of milliseconds."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A session on this machine.

    Attributes:
        id: Its name.
        path: Its folder on the host, as a text.
        state: What can still be had of it.
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


def known(root: Path) -> list[Known]:
    """All sessions below a state folder, the latest first."""
    cached, keep, told, now = _cached(root), dict[str, _Entry](), [], time.time_ns()
    sandboxes = _Sandboxes()
    for folder in _folders(root):
        try:
            status = folder.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # it was deleted meanwhile
        entry = cached.get(folder.name)
        if entry is None or (entry.time, entry.inode) != (status.st_mtime_ns, status.st_ino):
            entry = _Entry(status.st_mtime_ns, status.st_ino, _read(folder.path))
        if now - status.st_mtime_ns > SETTLED * 1e9 and (entry.summary or not _has_log(folder)):
            keep[folder.name] = entry
        found = entry.summary or _of_log(folder.path)
        if found is not None:
            told.append(_known(folder.name, folder.path, found, sandboxes))
    if keep != cached:
        _write_cache(root, keep)
    told.sort(key=lambda each: each.started, reverse=True)
    return told


def find(root: Path, session: str) -> Path:
    """The folder of the session of that name, or of the only one that begins so.

    Raises:
        UsageError: There is none, or several.
    """
    names = {each.name: Path(each.path) for each in _folders(root)}
    found = [session] if session in names else [name for name in names if session and name.startswith(session)]
    if len(found) > 1:
        found = [name for name in found if (names[name] / LOG).is_file()] or found
    if len(found) == 1:
        return names[found[0]]
    if found:
        raise UsageError(f"{len(found)} sessions begin with {session!r}.", mend="Give more of the name.")
    raise UsageError(f"There is no session {session[:80]!r}.", mend="See them all with: nbagent sessions")


def look_up(root: Path, session: str) -> Known:
    """The session of that name, or of the only one that begins so.

    Raises:
        UsageError: There is none, or several.
    """
    folder = find(root, session)
    found = summary.read(folder) or _of_log(str(folder))
    if found is None:
        raise UsageError(f"Nothing is known of the session {folder.name}.", mend="It never came to its start.")
    return _known(folder.name, str(folder), found, _Sandboxes())


@contextlib.contextmanager
def held(folder: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Hold a session's lock, so that nobody takes it up meanwhile; yields False if another process has it.

    Args:
        folder: The session's.
        patience: Seconds to wait for somebody else to let go of it.

    Raises:
        FileNotFoundError: It was deleted.
    """
    with (folder / "lock").open("ab") as lock:
        try:
            fileio.lock(lock, patience=patience)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_running(folder: str | Path) -> bool:
    """Whether a process owns a session."""
    try:
        lock = os.open(f"{folder}/lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(lock)
    return False


class _Sandboxes:
    """The sandboxes of this person by their sessions, looked for once and only if somebody asks."""

    @functools.cached_property
    def _folders(self) -> dict[str, Path]:
        from nbagent.sandbox.leases import lease

        return lease.owned()

    def of(self, session: str) -> Path | None:
        return self._folders.get(session)

    def lives(self, folder: Path | None) -> bool:
        from nbagent.sandbox.machine import supervisor

        return folder is not None and supervisor.is_alive(folder)


def _known(name: str, folder: str, found: Summary, sandboxes: _Sandboxes) -> Known:
    state: State = "ended"
    sandbox = None
    if not found.has_ended:  # what was ended on purpose has nothing that could be looked for
        sandbox = sandboxes.of(name)
        state = "running" if is_running(folder) else "waiting" if sandboxes.lives(sandbox) else "ended"
    return Known(
        id=name,
        path=folder,
        state=state,
        title=found.title,
        started=found.started,
        changed=found.changed,
        engine=found.engine,
        trust=found.trust,
        questions=found.questions,
        cells=found.cells,
        tokens=found.usage.input_tokens + found.usage.output_tokens,
        cost=found.usage.cost if found.usage.calls else 0.0,
        sandbox=sandbox,
    )


def _folders(root: Path) -> Iterator[os.DirEntry[str]]:
    """The folders of sessions; a link is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / "sessions") as found:
        for each in found:
            if each.is_dir(follow_symlinks=False):
                yield each


def _read(path: str) -> Summary | None:
    """The summary in a folder; one is made where an older nbagent, or a full disk, has left none."""
    folder = Path(path)
    found = summary.read(folder)
    if found is None and (folder / LOG).is_file():
        with contextlib.suppress(OSError), held(folder) as is_held:
            if is_held and (found := _of_log(path)) is not None:
                summary.write(folder, found)
    return found


def _of_log(path: str) -> Summary | None:
    with contextlib.suppress(NbagentError):
        return summary.of_log(Path(path))
    return None


def _has_log(folder: os.DirEntry[str]) -> bool:
    return os.path.exists(f"{folder.path}/{LOG}")  # noqa: PTH110 - of thousands, this is faster


def _cached(root: Path) -> dict[str, _Entry]:
    try:
        return _CACHE.decode((root / NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}


def _write_cache(root: Path, entries: dict[str, _Entry]) -> None:
    with contextlib.suppress(OSError):
        fileio.write(root / NAME, msgspec.json.encode(entries), mode=fileio.PRIVATE)
