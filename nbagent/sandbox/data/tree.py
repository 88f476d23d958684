"""Reads which files, folders and links of a person's data a sandbox may see, without following a single link.

The data may come from somebody else, such as a cloned repository. So every name is looked up in a folder that was
opened component by component, without following links. A link is shown if it leads to something in the same folder that
is shown too, which is decided by the names alone. Names that begin with a dot, sockets, pipes and devices are hidden.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nbagent.core.events import DataLeftOut
from nbagent.core.text import cut, printable
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.paths import DATA

MAX_ENTRIES = 20_000
"""Files, folders and links that are shown of all data; so many delay a start by a second or two."""
MAX_LOOKED = 100_000
"""Names that are read, shown or not."""
MAX_DEPTH = 50
NAMED = 10
"""Paths that a person is told for each reason."""
MAX_HOPS = 40
"""Links on the way to a link's target, as many as Linux follows."""
MAX_STEPS = 500_000
"""Names on the ways of all links of a folder, which take about half a second; one link may have thousands."""
PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HiddenReason(enum.StrEnum):
    """The reason why something of the data is not shown."""

    LINK = "links that lead out of the data, or to what is not shown"
    HIDDEN = "names that begin with a dot"
    SPECIAL = "sockets, pipes and devices"
    UNREADABLE = "files and folders that can't be read"
    MANY = f"folders of which not all is shown: more than {MAX_ENTRIES:,} files, or too deep"
    LARGE = "files too large to be copied after the start"


LeftOut = dict[HiddenReason, list[str]]
"""Paths below /tmp/data that are not shown, by the reason."""


def facts(left_out: LeftOut) -> list[DataLeftOut]:
    """What is not shown, as one event for each reason, with names that are safe to print."""
    found = []
    for why, paths in left_out.items():
        first = [cut(printable(each), 100) for each in paths[:NAMED]]
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        text = f"Not shown in {DATA}: {why} ({', '.join(first)}{more})."
        found.append(DataLeftOut(reason=why.value, paths=first, total=len(paths), text=text))
    return found


@dataclass(frozen=True)
class DataEntry:
    """A file, folder or link that is shown.

    Attributes:
        kind: Which of these it is.
        source: Its absolute path on the host, without links; None for a folder that exists in the mirror only.
        status: The status of `source`, if there is one.
        opened: Whether the sandbox's own user may read it although its mode forbids that.
        target: Where a link leads, relative to its folder.
    """

    kind: Literal["file", "folder", "link"]
    source: Path | None = None
    status: os.stat_result | None = None
    opened: bool = False
    target: str = ""

    @property
    def mode(self) -> int:
        """The mode of the file's copy, or of the folder in the mirror."""
        if self.status is None:
            return 0o755
        mode = stat.S_IMODE(self.status.st_mode) & 0o777
        if self.kind == "folder":
            # The owner, who may be another user than the sandbox's, has to fill the folder, and to remove it.
            return mode | (0o755 if self.opened else 0o700)
        return mode | ((0o755 if mode & 0o100 else 0o644) if self.opened else 0)


@dataclass
class DataTree:
    """All that is shown of a person's data, and what is left out.

    Attributes:
        entries: What is shown, by the path below /tmp/data; each folder comes before what is in it.
        left_out: What is not shown, by the reason.
        folders: The folders on the host that were read.
        missing: Files and folders of the person that are gone, or whose path has a link in it now.
    """

    entries: dict[str, DataEntry] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)

    def leave_out(self, why: HiddenReason, path: str) -> None:
        """Note that something is not shown."""
        self.left_out.setdefault(why, []).append(path)


@contextlib.contextmanager
def opened_folder(path: Path, *, flags: int = PATH_FLAGS) -> Iterator[int]:
    """Open a folder whose path has no link in it; yields its descriptor.

    Raises:
        OSError: It isn't there, or a component of its path is a link.
    """
    here = os.open("/", PATH_FLAGS)
    try:
        for part in path.parts[1:]:
            below = os.open(part, PATH_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        if flags != PATH_FLAGS:
            below = os.open(".", flags, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def read(mounts: Iterable[Mount], *, opening: bool) -> DataTree:
    """Read what is shown of files and folders; blocking.

    Args:
        mounts: The files and folders, each at /tmp/data or below; the one with the longer path wins.
        opening: Whether the sandbox runs as another user than the person. Then files that the person named are opened
            to it, and all of a folder that is closed to others; what is private in an open folder stays closed.
    """
    tree = DataTree()
    reader = _Reader(tree, opening)
    for mount in sorted(mounts, key=lambda each: each.target.count("/")):
        reader.add(mount)
    tree.entries = dict(sorted(tree.entries.items(), key=lambda each: (each[0].count("/"), each[0])))
    return tree


class _Reader:
    def __init__(self, tree: DataTree, opening: bool) -> None:
        self._tree = tree
        self._opening = opening
        self._looked = self._kept = 0

    def add(self, mount: Mount) -> None:
        """Read one file or folder that was given."""
        path = mount.target.removeprefix(DATA).strip("/")
        try:
            with opened_folder(mount.source.parent) as folder:
                status = os.stat(mount.source.name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            self._tree.missing.append(mount.source)
            return
        if path:
            self._make_way(path)
        if stat.S_ISREG(status.st_mode):
            self._tree.entries[path] = DataEntry("file", mount.source, status, self._opening)
            self._tree.folders.append(mount.source.parent)
        elif stat.S_ISDIR(status.st_mode):
            closed = self._opening and not _is_open(status)
            if path:
                self._tree.entries[path] = DataEntry("folder", mount.source, status, closed)
            self._add_folder(mount.source, path, closed)
        else:
            self._tree.missing.append(mount.source)

    def _make_way(self, path: str) -> None:
        """Remove what another mount has at a path, and make sure that there are folders above it."""
        entries = self._tree.entries
        for name in [each for each in entries if f"{each}/".startswith(f"{path}/")]:
            del entries[name]
        parts = path.split("/")
        for above in ("/".join(parts[:end]) for end in range(1, len(parts))):
            if above not in entries or entries[above].kind != "folder":
                entries[above] = DataEntry("folder")

    def _add_folder(self, source: Path, path: str, closed: bool) -> None:
        """Add all that is shown below a folder, level by level, so that the bound leaves out what is deepest."""
        links: dict[str, str] = {}
        waiting = deque([(source, path, closed, 1)])
        while waiting:
            here, below, closed, depth = waiting.popleft()
            self._tree.folders.append(here)
            try:
                with opened_folder(here, flags=os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as folder:
                    for name, status, to in self._names(folder, below):
                        at = f"{below}/{name}" if below else name
                        if stat.S_ISDIR(status.st_mode):
                            shut = closed and not _is_open(status)
                            self._tree.entries[at] = DataEntry("folder", here / name, status, shut)
                            if depth < MAX_DEPTH:
                                waiting.append((here / name, at, shut, depth + 1))
                            else:
                                self._tree.leave_out(HiddenReason.MANY, at)
                        elif to is not None:
                            links[at] = to
                        else:
                            self._tree.entries[at] = DataEntry("file", here / name, status, closed)
            except OSError:
                self._tree.leave_out(HiddenReason.UNREADABLE, below or ".")
        self._add_links(source, path, links)

    def _names(self, folder: int, below: str) -> Iterator[tuple[str, os.stat_result, str | None]]:
        """The names in an open folder that may be shown, each with its status, and where it leads if it is a link."""
        with os.scandir(folder) as found:
            names = sorted(each.name for each in itertools.islice(found, MAX_LOOKED - self._looked + 1))
        self._looked += len(names)
        for name in names:
            at = f"{below}/{name}" if below else name
            if self._kept >= MAX_ENTRIES or self._looked > MAX_LOOKED:
                self._tree.leave_out(HiddenReason.MANY, below or ".")
                return
            if name.startswith("."):
                self._tree.leave_out(HiddenReason.HIDDEN, at)
                continue
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    yield name, status, os.readlink(name, dir_fd=folder)
                elif stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    yield name, status, None
                else:
                    self._tree.leave_out(HiddenReason.SPECIAL, at)
                    continue
                self._kept += 1

    def _add_links(self, source: Path, path: str, links: dict[str, str]) -> None:
        """Add the links of a folder that lead to something shown of it."""
        ways = _Ways(source, path, links, self._tree.entries)
        for at in sorted(links):
            if (to := ways.end(at)) is None:
                self._tree.leave_out(HiddenReason.LINK if ways.steps > 0 else HiddenReason.MANY, at)
                continue
            target = os.path.relpath(f"/{to}", f"/{at.rpartition('/')[0]}")
            self._tree.entries[at] = DataEntry("link", target=target)


class _Ways:
    """Follows symbolic links by the names that were read, without looking at the disk again.

    Attributes:
        steps: How many names may still be looked up, for all links together.
    """

    def __init__(self, source: Path, path: str, links: dict[str, str], entries: dict[str, DataEntry]) -> None:
        self._top = source.parts
        self._path = path
        self._links = links
        self._entries = entries
        self.steps = MAX_STEPS

    def end(self, link: str) -> str | None:
        """The path of the file or folder that a link leads to in the end; None if that is outside, or nothing."""
        self._hops = MAX_HOPS
        return self._follow(link)

    def _follow(self, link: str) -> str | None:
        self._hops -= 1
        to = self._links[link]
        parts = [part for part in to.split("/") if part not in ("", ".")] if self.steps > 0 else []
        self.steps -= len(parts)
        if self.steps <= 0:
            return None
        here = link.rpartition("/")[0]
        if to.startswith("/"):
            top = list(self._top[1:])
            if parts[: len(top)] != top:
                return None
            here, parts = self._path, parts[len(top) :]
        for part in parts:
            if part == "..":
                if here == self._path:
                    return None
                here = here.rpartition("/")[0]
                continue
            if here and here != self._path and self._entries[here].kind != "folder":
                return None
            below: str | None = f"{here}/{part}" if here else part
            if below in self._links:
                below = self._follow(below) if self._hops > 0 else None
            if below is None or (below != self._path and below not in self._entries):
                return None
            here = below
        if to.endswith("/") and here != self._path and self._entries[here].kind != "folder":
            return None
        return here


def _is_open(status: os.stat_result) -> bool:
    """Whether everybody may list a folder and enter it."""
    return bool(status.st_mode & stat.S_IROTH and status.st_mode & stat.S_IXOTH)
