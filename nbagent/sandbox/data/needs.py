"""What a notebook of nbagent's says about its data: the name, size and hash of each file, written and read here.

A notebook may come from anybody, so it is read within bounds, and names files in /tmp/data only.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from nbagent.core import fileio
from nbagent.sandbox.inside.message_sizes_inside import weight
from nbagent.sandbox.paths import DATA

HASHED = 1024 * 1024 * 1024
"""Bytes of the largest file that is identified by its hash; larger ones by name and size."""
MAX_SIZE = 64 * 1024 * 1024
"""Bytes of the largest notebook that is read."""
MAX_FILES = 10_000
"""Files of a folder that is identified by its hash."""
MAX_NEEDED = 200
PIECE = 1024 * 1024
MAX_KNOWN = 256
"""Digests that are remembered."""


class Needed(msgspec.Struct, frozen=True):
    """A file or folder that a notebook needs.

    Attributes:
        path: The path at which its code reads it.
        size: Bytes.
        sha256: In hexadecimal; empty for what is too large.
        name: The name of its file, if its path has another one.
    """

    path: str
    size: int = 0
    sha256: str = ""
    name: str = ""


class _Mark(msgspec.Struct):
    version: str
    data: list[Needed] = []
    uploads: list[Needed] = []


class _Metadata(msgspec.Struct):
    nbagent: _Mark | None = None


class _Notebook(msgspec.Struct):
    metadata: _Metadata


def digest(path: Path, *, ended: Callable[[], bool] = lambda: False) -> str:
    """The SHA-256 of a file, or of a folder's files and names; empty for what can't be read or is too large.

    It is empty too once nobody waits for it any more, as `ended` says between two pieces of a file.
    """
    try:
        if path.is_dir():
            return _digest_of_all(path, ended)
        status = path.stat()
        if not path.is_file() or status.st_size > HASHED:
            return ""
        return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino, ended)
    except (OSError, _EndedError):
        return ""


def _digest_of_all(folder: Path, ended: Callable[[], bool]) -> str:
    """The SHA-256 of what a sandbox may see of a folder: its plain files without hidden ones and links."""
    whole, size = hashlib.sha256(), 0
    for count, (path, status) in enumerate(_files(folder)):
        size += status.st_size
        if size > HASHED or count >= MAX_FILES:
            return ""
        whole.update(f"{path.relative_to(folder)}\0{digest(path, ended=ended)}\n".encode(errors="surrogateescape"))
    return "" if ended() else whole.hexdigest()


def _files(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """A file, or those of a folder that a sandbox may see, in order."""
    if not path.is_dir():
        yield path, path.stat()
        return
    for parent, below, names in fileio.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            each = Path(parent, name)
            if not each.is_symlink() and each.is_file():
                yield each, each.stat()


def state(path: Path) -> str:
    """A digest of the sizes, times and inodes of a file, or of a folder's files: another one if any has changed.

    It is empty for what can't be read or has too many files.
    """
    whole = hashlib.sha256()
    try:
        for count, (each, status) in enumerate(_files(path)):
            if count >= MAX_FILES:
                return ""
            whole.update(
                f"{each}\0{status.st_size} {status.st_mtime_ns} {status.st_ino}\n".encode(errors="surrogateescape")
            )
    except OSError:
        return ""
    return whole.hexdigest()[:32]


def changed_at(path: Path) -> float:
    """When a file, or the last of a folder's files, was written to, in seconds since the epoch; 0 if nobody knows."""
    try:
        return max((status.st_mtime for _, status in itertools.islice(_files(path), MAX_FILES)), default=0.0)
    except OSError:
        return 0.0


class _EndedError(Exception):
    """Nobody waits for a digest any more."""


_known: dict[tuple[Path, int, int, int], str] = {}
"""Digests by path, size, time and inode."""


def _digest(path: Path, size: int, changed: int, inode: int, ended: Callable[[], bool]) -> str:
    key = (path, size, changed, inode)
    if key not in _known:
        whole = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                whole.update(piece)
                if ended():
                    raise _EndedError
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[key] = whole.hexdigest()
    return _known[key]


def is_ours(notebook: Path) -> bool:
    """Whether nbagent wrote a notebook."""
    return _mark(notebook) is not None


def _mark(notebook: Path) -> _Mark | None:
    """What nbagent wrote into a notebook; None if it isn't nbagent's or can't be read."""
    try:
        if not notebook.is_file() or notebook.stat().st_size > MAX_SIZE:
            return None
        content = notebook.read_bytes()
        if weight(content) > 2 * MAX_SIZE:
            return None
        return msgspec.json.decode(content, type=_Notebook).metadata.nbagent
    except (OSError, ValueError, RecursionError):
        return None


def needed(notebook: Path) -> list[Needed]:
    """What a notebook needs, each directly in /tmp/data; empty if it isn't nbagent's or can't be read."""
    mark = _mark(notebook)
    given = [] if mark is None else [*mark.data, *(_as_data(each) for each in mark.uploads)]
    return list({each.path: each for each in given[:MAX_NEEDED] if _is_plain(each.path)}.values())


def _as_data(upload: Needed) -> Needed:
    """An upload as data: a second run looks for it in /tmp/data, by its own name."""
    name = upload.name or upload.path.rpartition("/")[2]
    return Needed(f"{DATA}/{name}", upload.size, upload.sha256)


def _is_plain(path: str) -> bool:
    name = path.removeprefix(f"{DATA}/")
    return path == f"{DATA}/{name}" and is_name(name)


def is_name(text: str) -> bool:
    """Whether a text is the name of a file that isn't hidden, and nothing else."""
    return text != "" and not text.startswith(".") and set(text).isdisjoint("/\0")
