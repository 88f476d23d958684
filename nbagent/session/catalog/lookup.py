"""Finds the folder of a session, and tells whether a process owns it. Imports next to nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nbagent.core import fileio
from nbagent.core.errors import UsageError
from nbagent.core.folders import LOG_FILE, is_session_id


def folders(root: Path) -> Iterator[os.DirEntry[str]]:
    """The folders of this person's sessions below a state folder; links are left out."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / "sessions") as found:
        for each in found:
            if each.is_dir(follow_symlinks=False) and is_session_id(each.name) and _is_own(each):
                yield each


def _is_own(folder: os.DirEntry[str]) -> bool:
    """Whether a folder is this person's: what lies in it says what a resumed session's sandbox sees."""
    try:
        return folder.stat(follow_symlinks=False).st_uid == os.geteuid()
    except FileNotFoundError:
        return False  # it was deleted meanwhile


def find(root: Path, session: str | None) -> Path:
    """The folder of a session, given by its id or enough of its beginning; None for the latest.

    Raises:
        UsageError: There is none, or several begin so.
    """
    if session is None:
        return latest(root)
    paths = {each.name: Path(each.path) for each in folders(root)}
    found = [session] if session in paths else [id for id in paths if session and id.startswith(session)]
    if len(found) > 1:
        found = [id for id in found if (paths[id] / LOG_FILE).is_file()] or found
    if len(found) == 1:
        return paths[found[0]]
    if found:
        raise UsageError(f"{len(found)} sessions begin with {session!r}.", mend="Give more of the id.")
    raise UsageError(f"There is no session {session[:80]!r}.", mend="See them all with: nbagent sessions")


def latest(root: Path) -> Path:
    """The folder of the session in which something happened last.

    Raises:
        UsageError: There is none.
    """
    times: dict[Path, float] = {}
    for each in folders(root):
        with contextlib.suppress(OSError):
            times[Path(each.path)] = (Path(each.path) / LOG_FILE).stat().st_mtime
    if not times:
        raise UsageError("There are no sessions yet.", mend='Begin one: nbagent run "QUESTION"')
    return max(times, key=lambda folder: times[folder])


@contextlib.contextmanager
def lock_held(folder: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Hold a session's lock, so that nobody resumes it meanwhile; yields False if another process has it.

    Raises:
        OSError: It was deleted, or what is called lock there is no plain file, such as a link or a pipe.
    """
    with fileio.opened(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND) as lock:
        try:
            fileio.lock(lock, folder / "lock", patience=patience)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_running(folder: str | Path) -> bool:
    """Whether a process owns a session."""
    return fileio.is_locked(Path(folder) / "lock")
