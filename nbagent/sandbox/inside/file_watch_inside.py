"""Notices new and changed files inside the sandbox: `transfer/file_watch.py` sends this source there. Not for the host.

Once `main` was called, the kernel adds a report to the reply to each cell whose request asks for one.

It remembers what each folder held. A folder whose own time has not changed has neither lost nor gained a file, so that
of thousands of files only those in changed folders are looked at each time. Files that were overwritten in place are
searched for as long as there is time; the next look goes on where this search stopped.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import stat
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

MAX_FOLLOWED_FILES = 20_000
"""Files of one tree that are remembered; further ones are only counted."""
ALL_CHECKED_FILES = 300
"""Files of one tree that are all checked for an overwriting at each look, if there are no more than these."""
MIN_CHECKED_FILES = 200
"""If there are more, how many are checked at least: each takes two microseconds, which add up in a trivial cell."""
MAX_COUNTED_FILES = 100_000
"""Entries of one tree that are read in one look."""
FOLDER_TICK_NS = 50_000_000
"""Nanoseconds within which a folder may change twice and have the same time."""
FILE_TICK_NS = 10_000_000
"""Nanoseconds by which a file's time may lag behind the clock."""
LIBRARY_PREFIXES = ("ipykernel", "pymp-", "joblib_memmapping_folder_", "matplotlib-", "pytest-of-")
"""Beginnings of the names that libraries give their own files in /tmp; in a working folder such files count."""
CACHE_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages"))
METADATA_KEY = "nbagent"
"""The key in a request's metadata for the arguments of `report`, and in the reply's metadata for its result."""
MAX_REPORT_CHARACTERS = 256 * 1024
"""Characters of a report in a reply; a longer one is left out, and the host asks by a request of its own."""
WHY_ODD = {
    "link": "it is a link, and links are not followed; save a copy of the file",
    "hard link": "it is a hard link, whose file has another name too; save a copy of it",
    "special file": "it is no plain file",
}
"""The kinds of entries that are no results, and why, in words that end a sentence."""
WATCHES: dict[str, TreeWatch] = {}
"""The watch of the session that looked last, by its token."""

Mark = tuple[int, int, int]
"""Bytes, time of change and inode of a file."""
MAX_NAMED_ODD = 20
"""Links, pipes and devices that are named at a time."""


class Folder:
    """What a folder held when it was read."""

    def __init__(self) -> None:
        self.read_at = 0
        self.changed = 0
        self.files: dict[str, Mark] = {}
        self.odd: dict[str, str] = {}
        self.below: list[str] = []
        self.total = 0


class Tree:
    """A watched folder with its subfolders.

    Args:
        root: Its path.
        skip: Paths in it that are not looked at.
        everything: Whether caches, hidden files and libraries' own files count, too.
        waits: Whether files beyond the bound of a look are reported by a later one; else they are dropped.
    """

    def __init__(self, root: str, skip: list[str], everything: bool, waits: bool) -> None:
        self.root = root
        self.skip = frozenset(skip)
        self.everything = everything
        self.waits = waits
        self.odd: dict[str, str] = {}
        self.folders: dict[str, Folder] = {}
        self.fresh: dict[str, Mark] = {}
        self.late: deque[tuple[str, int, int]] = deque()
        self.last_taken: tuple[list[tuple[str, int, int]], dict[str, str]] = ([], {})
        self.resume = ("", 0)
        self.whole = True

    def look(self, end: float) -> None:
        """Add to `fresh` the files that are new or changed since the last look."""
        self.whole = True
        left = MAX_COUNTED_FILES
        alive: dict[str, Folder] = {}
        calm, paths = [], [self.root]
        followed = sum(len(folder.files) for folder in self.folders.values())
        while paths:
            path = paths.pop()
            folder = self.folders.get(path)
            try:
                status = os.lstat(path)
                if not stat.S_ISDIR(status.st_mode):
                    continue
                if (
                    folder is None
                    or folder.changed != status.st_mtime_ns
                    or folder.changed > folder.read_at - FOLDER_TICK_NS
                ):
                    was = folder or Folder()
                    folder = self.read(
                        path, status.st_mtime_ns, was, left, MAX_FOLLOWED_FILES - followed + len(was.files)
                    )
                    left -= folder.total + len(folder.below)
                    followed += len(folder.files) - len(was.files)
                else:
                    calm.append(path)
            except OSError:
                # A thread of the session's code removed it meanwhile, or took its permissions away.
                continue
            alive[path] = folder
            paths += folder.below
            if left <= 0:
                self.whole = False
                break
        self.folders = alive
        self.check(calm, end)

    def read(self, path: str, changed: int, was: Folder, left: int, room: int) -> Folder:
        """Read a folder, and add to `fresh` what was not there, or was another file, at the last reading."""
        folder = Folder()
        folder.read_at, folder.changed = time.time_ns(), changed
        with os.scandir(path) as scan:
            for entry in scan:
                if not self.counts(path, entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folder.below.append(entry.path)
                elif (mark := mark_of(entry)) is not None:
                    folder.total += 1
                    if len(folder.files) < room:
                        folder.files[entry.name] = mark
                        if was.files.get(entry.name) != mark:
                            self.fresh[entry.path] = mark
                elif len(folder.odd) < MAX_NAMED_ODD and not is_data(entry):
                    folder.odd[entry.name] = kind = kind_of(entry)
                    if was.odd.get(entry.name) != kind and len(self.odd) < MAX_NAMED_ODD:
                        self.odd[entry.path] = kind
                if folder.total + len(folder.below) >= left:
                    self.whole = False
                    break
        return folder

    def counts(self, path: str, name: str) -> bool:
        """Whether an entry counts, as a result of a cell."""
        if name.startswith(".nbagent-") or f"{path}/{name}" in self.skip:
            return False
        if self.everything:
            return True
        noise = not self.waits and path == self.root and name.startswith(LIBRARY_PREFIXES)
        return not (name.startswith(".") or name in CACHE_FOLDERS or noise)

    def check(self, calm: list[str], end: float) -> None:
        """Check files in unchanged folders for an overwriting: `MIN_CHECKED_FILES`, and more if there is time."""
        path, skip = self.resume
        first = calm.index(path) if path in calm else 0
        self.resume = ("", 0)
        self.whole &= not (first or skip)
        enough = (
            ALL_CHECKED_FILES
            if sum(len(self.folders[each].files) for each in calm) <= ALL_CHECKED_FILES
            else MIN_CHECKED_FILES
        )
        looked = 0
        for path in calm[first:]:
            files = self.folders[path].files
            for name, known in itertools.islice(files.items(), skip, None):
                if looked >= enough and not (looked - enough) % 64 and time.monotonic() > end:
                    self.resume, self.whole = (path, skip), False
                    return
                looked += 1
                skip += 1
                full = f"{path}/{name}"
                try:
                    status = os.lstat(full)
                except OSError:
                    continue
                mark = (status.st_size, status.st_mtime_ns, status.st_ino)
                if mark != known:
                    files[name] = self.fresh[full] = mark
            skip = 0

    def forget(self, path: str, changed: int) -> None:
        """Don't report a file, or those below a folder, unless written to after `changed`, in nanoseconds."""
        for each, mark in list(self.fresh.items()):
            if f"{each}/".startswith(f"{path}/") and mark[1] <= changed:
                del self.fresh[each]

    def pass_over(self, before: int) -> None:
        """Don't report what was last changed before a time in nanoseconds, whatever time the file claims."""
        for each in list(self.fresh):
            with contextlib.suppress(OSError):
                if os.lstat(each).st_ctime_ns < before:
                    del self.fresh[each]

    def take(self, bound: int) -> dict[str, Any]:
        """The report: what this look found, the oldest first, then what waits from earlier looks, up to the bound."""
        rows = [(path[len(self.root) + 1 :], mark[0], mark[1]) for path, mark in self.fresh.items()]
        rows = sorted(rows, key=lambda row: row[2])
        taken, late = rows[:bound], rows[bound:]
        while self.late and len(taken) < bound:
            row = self.late.popleft()
            if self.is_there(*row):
                taken.append(row)
        self.late.extend(late)
        self.fresh.clear()
        total = sum(folder.total for folder in self.folders.values())
        odd = [(path[len(self.root) + 1 :], kind) for path, kind in self.odd.items()]
        fresh = len(taken) + len(self.late)
        if self.waits:
            self.last_taken = taken, self.odd
        else:
            self.late.clear()
        self.odd = {}
        return {"files": taken, "fresh": fresh, "total": total, "whole": self.whole, "odd": odd}

    def tell_again(self) -> None:
        """Report once more what the last look reported, since that did not arrive."""
        (rows, odd), self.last_taken = self.last_taken, ([], {})
        self.late.extendleft(reversed(rows))
        self.odd = odd | self.odd

    def is_there(self, name: str, size: int, changed: int) -> bool:
        """Whether a file that waits is still there, unchanged."""
        above, _, own = f"{self.root}/{name}".rpartition("/")
        return above in self.folders and self.folders[above].files.get(own, ())[:2] == (size, changed)


def is_data(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a link to data of the same name, as `links_inside.py` makes them: it has nothing new."""
    with contextlib.suppress(OSError):
        target = os.readlink(entry.path)
        return target.startswith("/tmp/data/") and target.endswith(f"/{entry.name}")  # noqa: S108 - a path inside
    return False


def mark_of(entry: os.DirEntry[str]) -> Mark | None:
    """The mark of a plain file with one name; None for links, pipes and devices, which are no results."""
    with contextlib.suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            return status.st_size, status.st_mtime_ns, status.st_ino
    return None


def kind_of(entry: os.DirEntry[str]) -> str:
    """The kind of an entry that has no mark, in a word or two."""
    with contextlib.suppress(OSError):
        mode = entry.stat(follow_symlinks=False).st_mode
        return "link" if stat.S_ISLNK(mode) else "hard link" if stat.S_ISREG(mode) else "special file"
    return "special file"


class TreeWatch:
    """The trees that one session watches."""

    def __init__(self, roots: list[list[Any]], bounds: list[int]) -> None:
        self.trees = [Tree(*root) for root in roots]
        self.bounds = bounds
        self.number = 0

    def look(self, heard: int, seconds: float, known: list[tuple[str, int]], *, since: int = 0) -> dict[str, Any]:
        """Look at all trees; arguments as for `main`, and `since` as for `Tree.pass_over`."""
        if heard != self.number:
            for tree in self.trees:
                tree.tell_again()
        self.number += 1
        found = []
        for tree, bound in zip(self.trees, self.bounds, strict=True):
            tree.look(time.monotonic() + seconds)
            for path, changed in known:
                tree.forget(path, changed)
            if since:
                tree.pass_over(since)
            found.append(tree.take(bound))
        return {"number": self.number, "trees": found}


def main(
    token: str, roots: list[list[Any]], bounds: list[int], heard: int, seconds: float, known: list[tuple[str, int]]
) -> dict[str, Any]:
    """Look at trees, and have the kernel do so after each cell from now on.

    Args:
        token: Names the session; another session begins anew.
        roots: The arguments of each `Tree`.
        bounds: How many files of each tree one look reports.
        heard: The number of the last look whose report arrived; the report of a later one is repeated.
        seconds: Time for finding files that were overwritten in place, in each tree.
        known: Paths of files and folders that a person put there, and a time in nanoseconds up to which their changes
            are the person's.
    """
    if token not in WATCHES:
        WATCHES.clear()
        WATCHES[token] = TreeWatch(roots, bounds)
        attend()
    return WATCHES[token].look(heard, seconds, known)


def attend() -> None:
    """Have the kernel add a report to the replies to cells."""
    from IPython import get_ipython

    kernel = get_ipython().kernel
    finish = type(kernel).finish_metadata

    def finish_metadata(parent: dict[str, Any], metadata: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
        finished: dict[str, Any] = finish(kernel, parent, metadata, reply)
        if asked := parent["metadata"].get(METADATA_KEY):
            # The reply must go out, whatever the session's code has broken of what this needs.
            with contextlib.suppress(Exception), uninterrupted():
                finished[METADATA_KEY] = report(metadata["started"], **asked)
        return finished

    kernel.finish_metadata = finish_metadata


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore interrupts meanwhile: they are meant for the cell, which has ended, and would prevent its reply."""
    try:
        was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not on the main thread, which is the one that is interrupted
        was = None
    try:
        yield
    finally:
        if was is not None:
            signal.signal(signal.SIGINT, was)


def report(
    started: datetime,
    token: str,
    heard: int,
    share: float,
    most: float,
    known: list[tuple[str, int]],
    only_own: bool = False,
) -> str | None:
    """Look after a cell; returns the report as JSON in ASCII, None if it is too long or `main` was not called before.

    Args:
        started: When the cell began.
        token: Names the session.
        heard: As for `main`.
        share: The part of the cell's own time that may go into finding files that were overwritten in place.
        most: The most seconds for that.
        known: As for `main`.
        only_own: Whether to leave out what was changed before the cell, by others who use the kernel.
    """
    if token not in WATCHES:
        return None
    since = int(started.timestamp() * 1e9) - FILE_TICK_NS if only_own else 0
    took = (datetime.now(UTC) - started).total_seconds()
    found = json.dumps(WATCHES[token].look(heard, min(max(0.0, took) * share, most), known, since=since))
    return found if len(found) <= MAX_REPORT_CHARACTERS else None
