"""Lists data files with their hashes, inside the sandbox: `kernel/describe.py` sends this source there.

It imports no library of tables, so that what is known already is known at once. Never imported on the host.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from typing import Any

MAX_WALKED = 5_000
"""Files that are listed."""
MAX_DEPTH = 8
HASHED_WHOLE = 256 * 1024 * 1024
"""Bytes up to which the whole of a file is hashed; of a larger one, its size, its time and pieces of it."""
PIECES = 64


def main(paths: list[str], seconds: float) -> dict[str, Any]:
    """All files, each as `[path, size, hash]`, and how many more there are.

    Args:
        paths: Files and folders.
        seconds: In which files are hashed; those for which there is no time have no hash.
    """
    found: list[str] = []
    more = 0
    for path in paths:
        below, left = walk(path, MAX_WALKED - len(found))
        found += below
        more += left
    known: dict[str, list[Any]] = {path: [name_of(path), size_of(path), ""] for path in found}
    hashing = threading.Thread(target=lambda: known.update((path, identity(path)) for path in found), daemon=True)
    hashing.start()
    hashing.join(seconds)
    return {"files": [known[path] for path in found], "more": more}


def size_of(path: str) -> int:
    """The bytes of a plain file."""
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def name_of(path: str) -> str:
    """A path as text that can be sent to a model."""
    return os.fsencode(path).decode("utf-8", "replace")


def identity(path: str) -> list[Any]:
    """A file's name, size and hash; the hash is empty if the file can't be read."""
    name = name_of(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or name != path:
            return [name, 0, ""]
        with open(path, "rb", buffering=0) as file:
            if status.st_size <= HASHED_WHOLE:
                return [name, status.st_size, hashlib.file_digest(file, "sha256").hexdigest()]
            digest = hashlib.sha256(repr((status.st_size, status.st_mtime_ns)).encode())
            for at in range(0, status.st_size, status.st_size // PIECES):
                file.seek(at)
                digest.update(file.read(65536))
            return [name, status.st_size, digest.hexdigest()]
    except OSError:
        return [name, 0, ""]


def walk(path: str, most: int) -> tuple[list[str], int]:
    """A file itself, or the files below a folder, without hidden ones; at least the folder. And how many more."""
    if not os.path.isdir(path):
        return [path], 0
    found: list[str] = []
    more = 0
    for folder, folders, names in os.walk(path):
        depth = folder[len(path) :].count(os.sep)
        folders[:] = [] if depth >= MAX_DEPTH else sorted(name for name in folders if not name.startswith("."))
        names = sorted(name for name in names if not name.startswith("."))
        room = max(0, most - len(found))
        found += [os.path.join(folder, name) for name in names[:room]]
        more += len(names[room:])
    return found or [path], more
