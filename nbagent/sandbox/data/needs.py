"""What a notebook of nbagent's says about its data: the name, size and hash of each file, written and read here.

A notebook may come from anybody, so it is read within bounds, and names files in /tmp/data only.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import msgspec

from nbagent.sandbox.paths import DATA

HASHED = 1024 * 1024 * 1024
"""Bytes of the largest file that is identified by its hash; larger ones by name and size."""
MAX_SIZE = 64 * 1024 * 1024
"""Bytes of the largest notebook that is read."""
MAX_FILES = 10_000
"""Files of a folder that is identified by its hash."""
MAX_NEEDED = 200


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


def digest(path: Path) -> str:
    """The SHA-256 of a file, or of a folder's files and names, in hexadecimal.

    It is empty for what can't be read or is too large.
    """
    try:
        if path.is_dir():
            return _digest_of_all(path)
        status = path.stat()
        if not path.is_file() or status.st_size > HASHED:
            return ""
        return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino)
    except OSError:
        return ""


def _digest_of_all(folder: Path) -> str:
    """The SHA-256 of what a sandbox may see of a folder: its plain files without hidden ones and links."""
    whole, size, count = hashlib.sha256(), 0, 0
    for parent, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(parent, name)
            if path.is_symlink() or not path.is_file():
                continue
            size, count = size + path.stat().st_size, count + 1
            if size > HASHED or count > MAX_FILES:
                return ""
            whole.update(f"{path.relative_to(folder)}\0{digest(path)}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


@functools.lru_cache(maxsize=256)
def _digest(path: Path, _size: int, _changed: int, _inode: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def needed(notebook: Path) -> list[Needed]:
    """What a notebook needs, each directly in /tmp/data; empty if it isn't nbagent's or can't be read."""
    try:
        if not notebook.is_file() or notebook.stat().st_size > MAX_SIZE:
            return []
        mark = msgspec.json.decode(notebook.read_bytes(), type=_Notebook).metadata.nbagent
    except (OSError, ValueError, RecursionError):
        return []
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
